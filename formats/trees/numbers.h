// The arrays of tree models that are stored as text, or as numbers of UBJSON: a list of where each one is, and their
// numbers as the bytes of tensors, which are converted when they are read.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/source.h"
#include "formats/dtype.h"

namespace weightfs::trees {

/// The types of elements that trees have.
enum class Element : uint8_t { int8, uint8, int32, uint32, int64, float32, float64 };

const DType* dtype_of(Element element);

/// A number as it is stored: an integer of 64 bits or another number.
struct Number {
  bool is_integer = true;
  int64_t integer = 0;
  double real = 0;  ///< also of an integer; -0 keeps its sign
};

/// Whether the element can hold the number: an integer type holds integers in its range, a floating-point type all
/// numbers that do not overflow it.
bool fits(const Number& number, Element element);

/// The maximum length of a number as text; writers use up to 25 characters.
inline constexpr size_t kMaxNumberLength = 64;

/// Parses all of `text`: decimal, `nan`, `inf` and `infinity` in any case with a sign, `true` and `false`. Nothing if
/// it is something else, or longer than kMaxNumberLength.
std::optional<Number> parse_number_text(std::string_view text);

/// The number in `bytes`, which are as many as bytes_of_marker() returns, behind a marker of UBJSON: `i`, `U`, `I`, `l`
/// and `L` are integers of 1, 1, 2, 4 and 8 bytes, `d` and `D` floating-point numbers of 4 and 8, all big-endian; `T`
/// and `F` are 1 and 0.
Number number_of_marker(char marker, std::string_view bytes);

/// The bytes that follow a marker; nothing if it is not that of a number.
std::optional<size_t> bytes_of_marker(char marker);

/// Whether every number behind the marker fits the element.
bool always_fits(char marker, Element element);

/// How the numbers of an array are stored.
enum class Encoding : uint8_t {
  text,    ///< separated by commas or white space
  marked,  ///< UBJSON, with a marker before each
  typed    ///< UBJSON, with one marker for all of them
};

/// An array in the file.
struct Run {
  uint64_t begin = 0;  ///< offset of its first number, or of what separates that from the bytes before
  uint64_t count = 0;
  Encoding encoding = Encoding::text;
  char marker = 0;  ///< of all numbers, if typed
  Element element = Element::float32;
  size_t places = 0;        ///< the index in RunList::places of its number kStride
  uint64_t first_byte = 0;  ///< of the tensor in the bytes of all runs
};

/// The arrays of a file, in order. The place of every kStride-th number is known, so that a read skips fewer.
struct RunList {
  static constexpr uint64_t kStride = 1024;

  std::vector<Run> runs;
  std::vector<uint64_t> places;
  uint64_t size = 0;  ///< of all tensors, in bytes
};

/// Collects the numbers of one array. What it keeps is charged to the budget, which outlives it.
class RunBuilder {
 public:
  RunBuilder(RunList& list, Budget& budget, Run begun) : list_(list), budget_(budget), run_(begun) {
    run_.places = list.places.size();
  }

  /// Adds a number that begins at `place`. One that does not fit is a problem. Fails as the budget does.
  Result<void> add(const std::optional<Number>& number, uint64_t place);
  /// Adds all numbers of a typed array, whose marker always fits the element.
  void add_typed(uint64_t count) { run_.count = count; }
  /// The array has something else than numbers.
  void reject() { is_valid_ = false; }

  /// The run, which is in the list now; nothing if the array has something that does not fit. Fails as the budget does.
  Result<std::optional<Run>> finish();

 private:
  RunList& list_;
  Budget& budget_;
  Run run_;
  bool is_valid_ = true;
};

/// The numbers of all runs as little-endian bytes, one run after the other. Reads fail with io if the file has changed.
SourcePtr decoded(SourcePtr file, RunList list);

}  // namespace weightfs::trees
