// The structure of a FlatBuffer in memory, without the weights between it.
//
// A version 1 file is one FlatBuffer with gigabytes of weights inline. If it were mapped, truncating the file would
// kill the process; reading it all would take its size in memory. So the image is an anonymous mapping of the
// FlatBuffer's length, and only pages with tables, strings and short lists are read into it: the others stay zero and
// take no memory. The stock verifier then checks that image, so the generated accessors stay inside it, whichever pages
// were read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/budget.h"
#include "base/source.h"

namespace weightfs::rten {

struct Model;

/// The limits of a FlatBuffer's size. Offsets beyond the upper one overflow, and the verifier asserts.
inline constexpr uint64_t kMinFlatBufferSize = 12;
inline constexpr uint64_t kMaxFlatBufferSize = (uint64_t{1} << 31) - 2;

/// The unit of reading.
inline constexpr uint64_t kPage = 4096;

/// The maximum nesting depth of tables, as in the reference reader. A graph in an operator takes four: 15 fit into the
/// main one.
inline constexpr uint32_t kMaxTableDepth = 64;

/// The maximum number of tables, counted at each use: with sharing, 2 KiB can hold 8^13 graphs. The reference reader
/// stops at a quarter of it, which is a graph of 300,000 nodes. An unshared table takes kMinTableSize bytes, so their
/// number is bounded by the file's size.
inline constexpr uint32_t kMaxTables = 4'000'000;
inline constexpr uint64_t kMinTableSize = 8;  // the offset to it, and its own to its vtable

/// The maximum length of a list, and of a string in bytes. Weights have no such limit.
inline constexpr uint32_t kMaxListLength = 1 << 20;

/// The maximum total size of lists, strings and scopes of graphs, counted at each use: the amount that a reader of the
/// image copies. Also bounded by the size of the FlatBuffer, plus a page for the scopes of a small one.
inline constexpr uint64_t kMaxTextSize = uint64_t{256} << 20;

/// The maximum length of a scope per nested graph: "1234567.then_branch/".
inline constexpr uint64_t kMaxScopeStep = 20;

/// The maximum size of the pages that are read: the memory that the image takes.
inline constexpr uint64_t kMaxStructureSize = uint64_t{512} << 20;

/// A verified Model. The vectors marked `weights` in rten.fbs have their length, and zeros inside.
class StructureImage {
 public:
  /// Reads the structure of the FlatBuffer in [offset, offset + size) of `source`; the caller has checked this range.
  /// The offset may be odd. Fails with corrupt if it is not a Model, with unsupported beyond a limit above. `charges`
  /// is charged for the pages, and for each table, list and string at each use, as later copies take as much.
  static Result<StructureImage> load(const Source& source, uint64_t offset, uint64_t size, Charges& charges);

  const Model& model() const;

  /// The offset of a part of model() in the FlatBuffer.
  uint64_t position(const void* part) const;

 private:
  struct Unmap {
    size_t size;
    void operator()(uint8_t* bytes) const;
  };
  using Mapping = std::unique_ptr<uint8_t, Unmap>;

  explicit StructureImage(Mapping mapping) : mapping_(std::move(mapping)) {}
  static Result<Mapping> map(size_t size);

  Mapping mapping_;
};

}  // namespace weightfs::rten
