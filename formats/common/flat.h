// What safetensors and BinTensors have in common, the second being made after the first: eight bytes that give the
// length of a header, the header, and one buffer that the tensors cover without a hole up to the end of the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/common/warnings.h"
#include "formats/format.h"

namespace weightfs::flat {

/// Bytes of the header's length, a little-endian u64; the header follows.
inline constexpr uint64_t kPrefix = 8;

/// Both references' cap on the header, in bytes.
inline constexpr uint64_t kLongestHeader = 100'000'000;

/// More values than this in what the writer put beside the tensors are refused: each takes many times its bytes in the
/// file.
inline constexpr uint64_t kMostMetadata = 65'536;

/// A dtype and the name that both formats have for it.
struct StoredDType {
  std::string_view stored;
  const DType* dtype;
};

/// The dtype of that name; null when it is not known.
const StoredDType* find_dtype(std::string_view stored);

/// Bytes of a tensor's name: as many as an extended attribute and GGUF can hold. The references have no limit.
inline constexpr size_t kLongestName = 65'535;

/// The length that the first eight bytes of `head` give; 0 when there are fewer.
uint64_t length_in(std::string_view head);

/// The header's length, at most kLongestHeader and inside the file; fails with corrupt otherwise.
Result<uint64_t> read_length(const Source& bytes);

/// Where a tensor claims to lie in the buffer.
struct Range {
  uint64_t begin;
  uint64_t end;
};

/// What a header says, before it is believed. Its tensors are charged to `charges` as they are added.
struct Header {
  explicit Header(Budget& budget) : charges(budget) {}

  Charges charges;
  std::vector<Tensor> tensors;  ///< without their bytes
  std::vector<Range> ranges;    ///< of the tensor at the same place in `tensors`
  Map metadata;                 ///< what the writer put beside the tensors
  Warnings warnings;

  /// Charges a tensor with a name of so many bytes and so many dimensions; call it before the tensor is added.
  Result<void> charge_tensor(size_t name, size_t dimensions) {
    TRY_VOID(charges.charge(Cost::tensor));
    return charges.charge(Cost::kept, name + sizeof(uint64_t) * dimensions);
  }
};

/// The places, ascending, of the tensors whose name a later one has too.
std::vector<size_t> repeated_names(const std::vector<Tensor>& tensors);

/// In which order the tensors must lie in the buffer.
enum class Order { any, as_listed };

/// Gives each tensor its bytes in `file`, whose header is `length` bytes long. Fails with corrupt unless the tensors
/// lie one after the other from the first byte of the buffer to its last, each with as many bytes as its shape and
/// dtype take; a tensor of kUnknownDType with as many as it claims.
Result<void> place(Header& header, const SourcePtr& file, uint64_t length, Order order);

/// Adds what weightfs itself says about a container as `key` of its metadata. A value that the container has there
/// becomes the key `value` of the facts.
void add_facts(Map& metadata, const std::string& key, Map facts);

/// The model of a header whose tensors have been placed; `facts` about the container go under the format's name.
Model model_of(Header header, const Container& container, std::string format, Map facts);

}  // namespace weightfs::flat
