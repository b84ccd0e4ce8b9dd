// One GGUF file as it stands on disk: header, metadata, the list of its tensors. Where the tensors' bytes are is not
// asked here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "formats/common/warnings.h"
#include "formats/gguf/values.h"
#include "formats/model.h"

namespace weightfs::gguf {

// What a file may make us do, however large it is. Real models have a thousand tensors, forty keys, and ten MB of
// tokens.
inline constexpr uint64_t kLargestHeader = 256ull << 20;  ///< bytes up to the end of the list of tensors
inline constexpr uint64_t kMostKeys = 65'536;             ///< entries of metadata
inline constexpr uint64_t kMostTensors = 2'097'152;       ///< tensors of a model, all its files together
inline constexpr uint64_t kLongestName = 65'535;          ///< bytes of a key (the specification's limit) or tensor name
inline constexpr uint64_t kLargestAlignment = 1ull << 30;    ///< general.alignment
inline constexpr uint64_t kMostInlineBytes = 1ull << 20;     ///< memory for the values that stand in Model.metadata
inline constexpr uint64_t kMostDocumentBytes = 32ull << 20;  ///< bytes of values that become Documents

/// general.alignment when it is not given (gguf.h).
inline constexpr uint64_t kDefaultAlignment = 32;

/// A tensor as the list has it.
struct TensorEntry {
  std::string name;
  Shape shape;      ///< outermost first: the reverse of the order on disk
  uint32_t type;    ///< a ggml_type
  uint64_t offset;  ///< from the beginning of the tensors' section
};

/// A file, read up to its tensors' section.
struct File {
  Dialect dialect;
  uint64_t keys = 0;                       ///< how many the header announces
  uint64_t header_end = 0;                 ///< offset of what follows the list of tensors
  uint64_t alignment = kDefaultAlignment;  ///< what it says, or kDefaultAlignment
  Map metadata;                            ///< each key once: the first counts
  std::optional<Value> own_gguf;           ///< the value of a key "gguf", whose place the container's facts take
  std::vector<Document> documents;
  std::vector<TensorEntry> tensors;
  Warnings warnings;

  /// The value of `key` when it is an integer that is not negative.
  std::optional<uint64_t> unsigned_at(std::string_view key) const;
};

/// `value` rounded up to a multiple of `alignment`, a power of two; nothing on overflow.
std::optional<uint64_t> round_up(uint64_t value, uint64_t alignment);

/// Reads a file's structure. Fails with corrupt when it cannot be followed to its end, and with unsupported on a
/// version, a value type or a quantity beyond what is read here or what the budget has.
Result<File> read_file(const SourcePtr& bytes, const BudgetPtr& budget);

}  // namespace weightfs::gguf
