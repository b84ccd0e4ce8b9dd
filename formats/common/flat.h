// The common layout of safetensors and BinTensors, which was derived from it: eight bytes with the length of the
// header, the header, and a buffer that the tensors cover without gaps up to the end of the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/common/warnings.h"
#include "formats/format.h"

namespace weightfs::flat {

/// Bytes of the header's length, a little-endian u64; the header follows.
inline constexpr uint64_t kPrefix = 8;

/// The maximum size of the header in both references, in bytes.
inline constexpr uint64_t kMaxHeaderSize = 100'000'000;

/// The maximum number of metadata values beside the tensors: each takes many times its bytes in the file.
inline constexpr uint64_t kMaxMetadataValues = 65'536;

/// A dtype and its name in both formats.
struct StoredDType {
  std::string_view stored;
  const DType* dtype;
  int rank;  ///< its place in the enum Dtype of the reference, which sorts the tensors of a file by it
};

/// The dtype of that name; null if it is unknown.
const StoredDType* find_dtype(std::string_view stored);

/// The length in the first eight bytes of `head`; 0 if there are fewer.
uint64_t length_in(std::string_view head);

/// Reads the header's length: at most kMaxHeaderSize and inside the file, else it fails with corrupt.
Result<uint64_t> read_length(const Source& bytes);

/// The range of the buffer that a tensor claims.
struct Range {
  uint64_t begin;
  uint64_t end;
};

/// A header before validation. Its tensors are charged to `charges` as they are added.
struct Header {
  explicit Header(Budget& budget) : charges(budget, Charges::Pass::together) {}

  Charges charges;
  TensorList tensors;  ///< without their bytes, with the ranges that they claim
  Map metadata;        ///< the writer's metadata
  Warnings warnings;

  /// Charges a tensor, and adds it. Fails as Budget::charge does.
  Result<void> add(const TensorView& tensor, Range range) {
    TRY_VOID(charges.charge(Cost::tensor));
    TRY_VOID(charges.charge(Cost::kept, tensor.name.size() + sizeof(uint64_t) * tensor.shape.size()));
    tensors.push_back(tensor, range.begin, range.end - range.begin);
    return {};
  }

  /// The range of a tensor as the header has it, so its end may be before its begin.
  Range range(size_t i) const { return {tensors.offset(i), tensors.offset(i) + tensors.nbytes(i)}; }
};

/// The indices, ascending, of the tensors whose name a later tensor repeats.
std::vector<size_t> repeated_names(const TensorList& tensors);

/// The required order of the tensors in the buffer.
enum class Order { any, as_listed };

/// Where a file ends: with its last tensor, or else it is not of this format; or anywhere, if it was cut or has other
/// bytes after its tensors.
enum class Ends { with_last_tensor, anywhere };

/// Sets each tensor's bytes in `file`, whose header is `length` bytes long. Fails with corrupt unless the tensors cover
/// the buffer without gaps or overlap, each with the size of its shape and dtype; a tensor of kUnknownDType has the
/// size that it claims. If a file was cut, the tensors that are not whole are refused; further bytes are a warning.
Result<void> place(Header& header, const SourcePtr& file, uint64_t length, Order order, Ends ends);

/// Adds weightfs's own facts about a container to its metadata, as `key`. A value that the container has under this key
/// becomes the key `value` of the facts.
void add_facts(Map& metadata, const std::string& key, Map facts);

/// Builds the model from a header with placed tensors. `facts` about the container go under the format's name.
Model model_of(Header header, const Container& container, std::string format, Map facts);

}  // namespace weightfs::flat
