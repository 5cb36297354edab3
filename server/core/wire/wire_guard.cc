// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "server/core/wire/wire_guard.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <vector>

namespace warpfold::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Reads the tags of a message of type `type`, and of its submessages.
class Counter {
 public:
  explicit Counter(std::size_t limit) : limit_(limit) {}

  std::size_t count() const { return count_; }

  // False if the limit is exceeded, or if `bytes` are not a message.
  // NOLINTNEXTLINE(misc-no-recursion): as deep as the types of the proto are nested
  bool Count(absl::string_view bytes, const Descriptor& type) {
    CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
    // The groups that are open, innermost last. No type here has groups, so what is in them is unknown; but
    // protobuf keeps each of their fields, too.
    std::vector<int> groups;
    while (const std::uint32_t tag = in.ReadTag()) {
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      const auto wire_type = WireFormatLite::GetTagWireType(tag);
      if (wire_type == WireFormatLite::WIRETYPE_END_GROUP) {
        if (groups.empty() || groups.back() != number) return false;
        groups.pop_back();
        continue;
      }
      if (number == 0 || ++count_ > limit_) return false;
      if (wire_type == WireFormatLite::WIRETYPE_START_GROUP) {
        groups.push_back(number);
      } else if (wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
        if (!CountIn(in, bytes, groups.empty() ? type.FindFieldByNumber(number) : nullptr)) return false;
      } else if (!WireFormatLite::SkipField(&in, tag)) {
        return false;
      }
    }
    return in.ConsumedEntireMessage() && groups.empty();
  }

 private:
  // Counts the fields in one length-delimited field, if it is a message; `field` is null if it is unknown.
  // NOLINTNEXTLINE(misc-no-recursion)
  bool CountIn(CodedInputStream& in, absl::string_view bytes, const FieldDescriptor* field) {
    std::uint32_t length = 0;
    if (!in.ReadVarint32(&length)) return false;
    const auto begin = static_cast<std::size_t>(in.CurrentPosition());
    if (length > bytes.size() - begin) return false;
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE &&
        !Count(bytes.substr(begin, length), *field->message_type())) {
      return false;
    }
    return in.Skip(static_cast<int>(length));
  }

  const std::size_t limit_;
  std::size_t count_ = 0;
};

}  // namespace

std::optional<std::size_t> CountFields(absl::string_view bytes, const Descriptor& type, std::size_t limit) {
  Counter counter(limit);
  const bool is_message = counter.Count(bytes, type) || counter.count() > limit;
  return is_message ? std::optional(counter.count()) : std::nullopt;
}

}  // namespace warpfold::server
