// A nested document of objects, arrays, texts and numbers, which is read once, in order: XGBoost writes the same one as
// JSON and as UBJSON. Arrays of numbers stay in the file.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/budget.h"
#include "base/values/value.h"
#include "formats/common/cursor.h"
#include "formats/trees/numbers.h"

namespace weightfs::trees {

/// The maximum length of a text, in bytes.
inline constexpr uint64_t kMaxTextLength = 16 << 20;

/// Every call but position() fails with corrupt if the document is not valid, and as reads of the file do. Not
/// thread-safe; the source outlives it.
class Document {
 public:
  enum class Kind { object, array, text, number, boolean, null };

  virtual ~Document() = default;
  Document() = default;
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  /// The kind of the next value, which stays to be read.
  virtual Result<Kind> kind() = 0;

  /// Enters the next value, which is an object or an array. Fails with corrupt beyond kMaxDepth.
  virtual Result<void> enter() = 0;
  /// The next key of the object that was entered last; its value follows. Nothing, and leaves the object, at its end.
  virtual Result<std::optional<std::string>> next_key() = 0;
  /// Whether the array that was entered last has another element, which follows. If not, leaves the array.
  virtual Result<bool> next_element() = 0;

  /// The next value, which is a text. Fails with corrupt if it is longer than kMaxTextLength.
  virtual Result<std::string> text() = 0;
  /// The next value, which is a number, a boolean or null; nothing if it is no number of 64 bits.
  virtual Result<std::optional<Number>> number() = 0;

  /// How the numbers of the array that was entered last are stored. If all of them are typed with a marker that always
  /// fits `element`, leaves the array, and `count` is their number.
  struct Stored {
    Run run;
    std::optional<uint64_t> count;
  };
  virtual Result<Stored> stored_numbers(Element element) = 0;

  /// The offset in the source of the next byte.
  virtual uint64_t position() const = 0;
};

/// Skips the next value.
Result<void> skip(Document& document);

/// The next value, an array, as a run of numbers; nothing if it has something else, or a number that does not fit.
/// Fails as the document and the budget do.
Result<std::optional<Run>> read_numbers(Document& document, Element element, RunList& list, Budget& budget);

/// Reads values as metadata, with limits.
class MetadataReader {
 public:
  static constexpr uint64_t kMaxMetadataValues = 65'536;

  explicit MetadataReader(Budget& budget) : budget_(budget) {}

  /// The next value. Elements of a list beyond the first kMaxInlineList, and values beyond kMaxMetadataValues in all
  /// are left out. Fails as the document and the budget do.
  Result<Value> read(Document& document);

  uint64_t omitted() const { return omitted_; }                   ///< values that were left out
  bool is_full() const { return values_ >= kMaxMetadataValues; }  ///< the next value is left out

 private:
  Result<Value> read_list(Document& document);
  Result<Value> read_map(Document& document);
  Result<Value> read_scalar(Document& document, Document::Kind kind);

  Budget& budget_;
  uint64_t values_ = 0;
  uint64_t omitted_ = 0;
};

/// A document in JSON from `begin` to the end of `source`. Also accepts NaN, Infinity and -Infinity, as XGBoost does.
/// Texts with escapes are charged to `budget`, unless it is null.
std::unique_ptr<Document> open_json(const Source& source, uint64_t begin, Budget* budget);

/// A document in UBJSON, as XGBoost writes it: big-endian, no marker of a text before a key, no end of an array with a
/// count.
std::unique_ptr<Document> open_ubjson(const Source& source, uint64_t begin = 0);

}  // namespace weightfs::trees
