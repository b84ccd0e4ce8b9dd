// The structure of one GGUF file: header, metadata, the list of its tensors. gguf/tensors.h resolves the tensors'
// bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/budget.h"
#include "formats/common/warnings.h"
#include "formats/gguf/values.h"
#include "formats/model.h"

namespace weightfs::gguf {

// Limits for hostile files. Real models have a thousand tensors, forty keys, and ten MB of tokens.
inline constexpr uint64_t kMaxHeaderSize = 256ull << 20;    ///< bytes up to the end of the list of tensors
inline constexpr uint64_t kMaxKeys = 65'536;                ///< entries of metadata
inline constexpr uint64_t kMaxTensors = 2'097'152;          ///< tensors of a model, all its files together
inline constexpr uint64_t kMaxAlignment = 1ull << 30;       ///< general.alignment
inline constexpr uint64_t kMaxInlineBytes = 1ull << 20;     ///< memory for the values in Model.metadata
inline constexpr uint64_t kMaxDocumentBytes = 32ull << 20;  ///< bytes of values that become Documents

/// The default of general.alignment (gguf.h).
inline constexpr uint64_t kDefaultAlignment = 32;

/// Entries of metadata that follow each other in the file.
struct CopiedEntries {
  ByteRange range;
  uint64_t keys;                ///< their number
  bool are_about_quantisation;  ///< see GgufKeys
};

/// A file, parsed up to its data section.
struct File {
  Dialect dialect;
  uint64_t keys = 0;                       ///< number of keys in the header
  uint64_t header_end = 0;                 ///< offset after the list of tensors
  uint64_t alignment = kDefaultAlignment;  ///< general.alignment, or kDefaultAlignment
  Map metadata;                            ///< unique keys; of equal ones the first is kept
  std::vector<CopiedEntries> copied;  ///< the entries of metadata that another file of the same model has, as stored
  std::vector<Document> documents;
  TensorList tensors;  ///< without their bytes, which place_tensors() adds when it moves them; offset() is that from
                       ///< the beginning of the data section
  std::vector<uint32_t> types;  ///< the ggml_type of the tensor with the same index
  Warnings warnings;

  /// The value of `key` if it is a non-negative integer.
  std::optional<uint64_t> unsigned_at(std::string_view key) const;
};

/// `value` rounded up to a multiple of `alignment`, a power of two; nothing on overflow.
std::optional<uint64_t> round_up(uint64_t value, uint64_t alignment);

/// Parses a file's structure. Fails with corrupt if it cannot be parsed to its end, and with unsupported on an unknown
/// version or value type, or beyond a limit or the budget.
Result<File> read_file(const SourcePtr& bytes, const BudgetPtr& budget);

}  // namespace weightfs::gguf
