// SPDX-FileCopyrightText: The Warpfold Authors
// SPDX-License-Identifier: Apache-2.0
#include "client/python/native/strided_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace warpfold::python {
namespace {

template <std::size_t kBytes>
void CopyElements(const std::byte* from, std::int64_t stride, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i, from += stride, to += kBytes) std::memcpy(to, from, kBytes);
}

void CopyRun(const std::byte* from, std::int64_t stride, std::size_t element_bytes, std::size_t count,
             std::byte* to) {
  if (stride == static_cast<std::int64_t>(element_bytes)) {
    std::memcpy(to, from, count * element_bytes);
    return;
  }
  switch (element_bytes) {
    case 1:
      return CopyElements<1>(from, stride, count, to);
    case 2:
      return CopyElements<2>(from, stride, count, to);
    case 4:
      return CopyElements<4>(from, stride, count, to);
    default:
      return CopyElements<8>(from, stride, count, to);
  }
}

}  // namespace

bool Layout::is_countable() const {
  if (std::ranges::find(shape, 0) != shape.end()) return true;
  auto most = std::numeric_limits<std::int64_t>::max() /
              std::max<std::int64_t>(static_cast<std::int64_t>(element_bytes), 1);
  for (const std::int64_t length : shape) {
    // A negative length stands for one beyond 2^63.
    if (length < 0 || length > most) return false;
    most /= length;
  }
  return true;
}

std::uint64_t Layout::byte_count() const {
  std::uint64_t bytes = element_bytes;
  for (const std::int64_t length : shape) bytes *= static_cast<std::uint64_t>(length);
  return bytes;
}

bool Layout::is_contiguous() const {
  if (byte_count() == 0) return true;
  auto expected = static_cast<std::int64_t>(element_bytes);
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

Layout Layout::Permuted(const std::vector<std::size_t>& order) const {
  Layout permuted = *this;
  for (std::size_t i = 0; i < order.size(); ++i) {
    permuted.shape[i] = shape.at(order[i]);
    permuted.strides[i] = strides.at(order[i]);
  }
  return permuted;
}

std::span<const std::byte> Layout::extent() const {
  if (byte_count() == 0) return {};
  const std::byte* begin = first;
  const std::byte* end = first + element_bytes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t distance = (shape[i] - 1) * strides[i];
    (distance < 0 ? begin : end) += distance;
  }
  return {begin, end};
}

StridedReader::StridedReader(const Layout& layout)
    : first_(layout.first), element_bytes_(layout.element_bytes) {
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    if (layout.shape[i] == 1) continue;
    if (!shape_.empty() && strides_.back() == layout.strides[i] * layout.shape[i]) {
      shape_.back() *= layout.shape[i];
      strides_.back() = layout.strides[i];
    } else {
      shape_.push_back(layout.shape[i]);
      strides_.push_back(layout.strides[i]);
    }
  }
  if (shape_.empty()) {
    shape_.push_back(1);
    strides_.push_back(static_cast<std::int64_t>(element_bytes_));
  }
}

void StridedReader::Read(std::uint64_t offset, std::span<std::byte> buffer) const {
  const std::size_t inner = shape_.size() - 1;
  std::vector<std::int64_t> index(shape_.size());
  const std::byte* from = first_;
  auto rest = static_cast<std::int64_t>(offset / element_bytes_);
  for (std::size_t i = shape_.size(); i-- > 0; rest /= shape_[i]) {
    index[i] = rest % shape_[i];
    from += index[i] * strides_[i];
  }
  std::size_t left = buffer.size() / element_bytes_;
  for (std::byte* to = buffer.data(); left > 0;) {
    const std::size_t count = std::min(left, static_cast<std::size_t>(shape_[inner] - index[inner]));
    CopyRun(from, strides_[inner], element_bytes_, count, to);
    to += count * element_bytes_;
    left -= count;
    // Moves to the beginning of the next run, like an odometer.
    from -= index[inner] * strides_[inner];
    index[inner] = 0;
    for (std::size_t i = inner; i-- > 0;) {
      from += strides_[i];
      if (++index[i] < shape_[i]) break;
      from -= shape_[i] * strides_[i];
      index[i] = 0;
    }
  }
}

}  // namespace warpfold::python
