// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/wire_guard.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

namespace warpfold::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;

// Counts into `count`; false where it passes the limit, or where the bytes are no message.
// NOLINTNEXTLINE(misc-no-recursion): as deep as the types of the proto are nested
bool Count(absl::string_view bytes, const Descriptor& type, std::size_t limit, std::size_t& count) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  while (const std::uint32_t tag = in.ReadTag()) {
    if (++count > limit) return false;
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
      continue;
    }
    std::uint32_t length = 0;
    if (!in.ReadVarint32(&length)) return false;
    const auto begin = static_cast<std::size_t>(in.CurrentPosition());
    if (length > bytes.size() - begin) return false;
    const FieldDescriptor* const field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE &&
        !Count(bytes.substr(begin, length), *field->message_type(), limit, count)) {
      return false;
    }
    in.Skip(static_cast<int>(length));
  }
  return in.ConsumedEntireMessage();
}

}  // namespace

std::size_t CountFields(absl::string_view bytes, const Descriptor& type, std::size_t limit) {
  std::size_t count = 0;
  return Count(bytes, type, limit, count) ? count : limit + 1;
}

}  // namespace warpfold::server
