// The structure of a FlatBuffer in memory, without the weights that lie in the same bytes.
//
// A version 1 file is one FlatBuffer with gigabytes of weights inline. Mapping it would let whoever cuts the file kill
// the process; reading it whole would cost its size in memory. So an anonymous mapping of the FlatBuffer's length is
// made, and only pages that hold tables, strings and short lists are read into it: the rest stays zero and costs
// nothing. The stock verifier then checks that image, so whatever was read or left out, the generated accessors stay
// inside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/budget.h"
#include "base/source.h"

namespace weightfs::rten {

struct Model;

/// The sizes a FlatBuffer can have. Beyond the upper one its offsets have no sign, and the verifier asserts.
inline constexpr uint64_t kSmallestFlatBuffer = 12;
inline constexpr uint64_t kLargestFlatBuffer = (uint64_t{1} << 31) - 2;

/// Reading happens in pieces of this size.
inline constexpr uint64_t kPage = 4096;

/// Tables one inside the other, the reference reader's limit. A graph in an operator takes four: 15 fit into the main
/// one.
inline constexpr uint32_t kDeepest = 64;

/// Tables, counted wherever one is used: sharing makes 8^13 graphs of 2 KiB. The reference reader stops at a quarter of
/// it, which is a graph of 300,000 nodes. A table that is not shared takes kSmallestTable bytes, so there are no more
/// of them than fit: what is read takes a small multiple of the file, however much it shares.
inline constexpr uint32_t kMostTables = 4'000'000;
inline constexpr uint64_t kSmallestTable = 8;  // the offset to it, and its own to its vtable

/// Elements of a list, and bytes of a string. Weights have no such limit.
inline constexpr uint32_t kLongestList = 1 << 20;

/// Bytes of lists, strings and the scopes of graphs, counted wherever one is used: what a reader of the image copies
/// out of it. And no more than the FlatBuffer has, plus a page for the scopes of a small one.
inline constexpr uint64_t kMostText = uint64_t{256} << 20;

/// Bytes of a scope for each graph that one lies in: "1234567.then_branch/".
inline constexpr uint64_t kLongestStep = 20;

/// Bytes of pages that were read: the memory that the image takes.
inline constexpr uint64_t kMostStructure = uint64_t{512} << 20;

/// A verified Model. Holds no weights: the vectors marked `weights` in rten.fbs have their length, and zeroes inside.
class StructureImage {
 public:
  /// Reads the structure of the FlatBuffer in [offset, offset + size) of `source`, which the caller knows to be inside
  /// it. The offset may be odd. Fails with corrupt when it is no Model, with unsupported beyond a limit above.
  /// `charges`: what it takes is charged there, and each table, list and string at each use: what is made of them later
  /// takes as much.
  static Result<StructureImage> load(const Source& source, uint64_t offset, uint64_t size, Charges& charges);

  const Model& model() const;

  /// Where in the FlatBuffer a part of model() lies.
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
