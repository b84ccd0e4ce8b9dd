// Copies a box of a strided tensor into C order, with few and large reads of the storage.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/source.h"

namespace weightfs {

/// A dimension of a box: how many elements, and the distance between neighbours in storage and in the output, all in
/// elements.
struct BoxDimension {
  uint64_t count;
  uint64_t stride;
  uint64_t out_stride;
};

/// Copies the elements of a box, each `width` bytes, from `storage` to `out`. `first` is the element of the storage
/// that becomes the first element of `out`. All elements must be inside of both. Elements that are stored close
/// together are read at once. A large box is copied by several threads, each with a buffer of at most kGatherBuffer
/// bytes. `expected`: the bytes of the storage that will probably be read, as of Source::read_ahead(). Fails as reads
/// of `storage` fail.
Result<void> gather(const Source& storage, uint64_t first, uint32_t width, std::span<const BoxDimension> box,
                    std::span<std::byte> out, const std::optional<ByteRange>& expected = {});

inline constexpr uint64_t kGatherBuffer = uint64_t{4} << 20;

}  // namespace weightfs
