#include "formats/trees/numbers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/files/leaf.h"
#include "base/text.h"
#include "formats/common/cursor.h"

namespace weightfs::trees {
namespace {

struct ElementType {
  std::string_view dtype;
  uint32_t width;
  int64_t least, most;  // of an integer
};

template <class T>
constexpr ElementType integer_type(std::string_view name) {
  return {name, sizeof(T), std::numeric_limits<T>::min(), static_cast<int64_t>(std::numeric_limits<T>::max())};
}

// By the value of Element.
constexpr std::array kElements = {integer_type<int8_t>("int8"),
                                  integer_type<uint8_t>("uint8"),
                                  integer_type<int32_t>("int32"),
                                  integer_type<uint32_t>("uint32"),
                                  integer_type<int64_t>("int64"),
                                  ElementType{"float32", sizeof(float), 0, 0},
                                  ElementType{"float64", sizeof(double), 0, 0}};

const ElementType& type_of(Element element) { return kElements[static_cast<size_t>(element)]; }

bool is_real(Element element) { return element == Element::float32 || element == Element::float64; }

// Numbers from here on are rounded to an infinity: the largest float and half of its last place.
constexpr double kBeyondFloat = 0x1.ffffffp+127;

constexpr uint64_t kMaxSize = std::numeric_limits<int64_t>::max();

uint64_t bits_of(const Number& number, Element element) {
  if (!is_real(element)) return static_cast<uint64_t>(number.integer);
  if (element == Element::float64) return std::bit_cast<uint64_t>(number.real);
  return std::bit_cast<uint32_t>(static_cast<float>(number.real));
}

uint64_t big_endian_bits(std::string_view bytes) {
  uint64_t bits = 0;
  for (const char c : bytes) bits = bits << 8 | static_cast<uint8_t>(c);
  return bits;
}

int64_t with_sign(uint64_t bits, size_t width) {
  const size_t unused = 64 - 8 * width;
  return static_cast<int64_t>(bits << unused) >> unused;
}

Number integer_number(int64_t integer) { return {.integer = integer, .real = static_cast<double>(integer)}; }

constexpr bool is_separator(char c) { return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Reads the numbers of a run again.
class RunReader {
 public:
  RunReader(const Source& file, const Run& run, uint64_t place) : in_(file, place, file.size()), run_(run) {}

  Result<Number> next() {
    if (run_.encoding == Encoding::text) return next_text();
    char marker = run_.marker;
    if (run_.encoding == Encoding::marked) marker = TRY(next_marker());
    const auto width = bytes_of_marker(marker);
    if (!width) return changed();
    const std::string_view bytes = TRY(in_.ahead(*width));
    if (bytes.size() < *width) return changed();
    const Number number = number_of_marker(marker, bytes.substr(0, *width));
    TRY_VOID(in_.skip(*width));
    return number;
  }

 private:
  // The marker of the next value. N has no value, and may be before each.
  Result<char> next_marker() {
    for (;;)
      if (const auto marker = static_cast<char>(TRY(in_.number<uint8_t>())); marker != 'N') return marker;
  }

  static tl::unexpected<Error> changed() { return failure(Code::io, "the numbers of the file have changed"); }

  Result<Number> next_text() {
    std::string_view bytes = TRY(in_.ahead(2 * kMaxNumberLength));
    while (!bytes.empty() && is_separator(bytes.front())) {
      TRY_VOID(in_.skip(1));
      bytes.remove_prefix(1);
      if (bytes.size() <= kMaxNumberLength) bytes = TRY(in_.ahead(2 * kMaxNumberLength));
    }
    const auto end = std::ranges::find_if(bytes, [](char c) { return is_separator(c) || c == ']'; });
    const auto length = static_cast<size_t>(end - bytes.begin());
    const auto number = parse_number_text(bytes.substr(0, length));
    if (!number) return changed();
    TRY_VOID(in_.skip(length));
    return *number;
  }

  Cursor in_;
  const Run& run_;
};

class DecodedRuns final : public Source {
 public:
  DecodedRuns(SourcePtr file, RunList list) : file_(std::move(file)), list_(std::move(list)) {}

  uint64_t size() const override { return list_.size; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t wanted = bytes_inside(size(), offset, out.size());
    for (size_t done = 0; done < wanted;)
      done += TRY(read_run(run_at(offset + done), offset + done, out.subspan(done, wanted - done)));
    return wanted;
  }

  Result<void> prefetch(ByteRange range) const override {
    if (range.from >= range.to) return {};
    const Run& last = run_at(range.to - 1);
    const bool is_last = &last == &list_.runs.back();
    return file_->prefetch({run_at(range.from).begin, is_last ? file_->size() : (&last)[1].begin});
  }

  Result<Place> place(uint64_t offset, Opens) const override {
    return Place{.length = bytes_after(offset), .is_ready = is_ready(*file_)};
  }

 private:
  // The run with this byte, which exists: runs without numbers are not in the list.
  const Run& run_at(uint64_t byte) const {
    return *std::prev(std::ranges::upper_bound(list_.runs, byte, {}, &Run::first_byte));
  }

  // Reads bytes of one run: as many as it has, at most those of `out`.
  Result<size_t> read_run(const Run& run, uint64_t offset, std::span<std::byte> out) const {
    const uint32_t width = type_of(run.element).width;
    const uint64_t first = offset - run.first_byte;
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(out.size(), run.count * width - first));
    uint64_t at = first / width;
    const auto [place, passed] = place_of(run, at);
    RunReader numbers(*file_, run, place);
    for (uint64_t skipped = passed; skipped < at; ++skipped) TRY(numbers.next());
    for (size_t done = 0; done < wanted; ++at) {
      const uint64_t bits = bits_of(TRY(numbers.next()), run.element);
      for (uint32_t i = done == 0 ? static_cast<uint32_t>(first % width) : 0; i < width && done < wanted; ++i)
        out[done++] = static_cast<std::byte>(bits >> 8 * i);
    }
    return wanted;
  }

  // A place at or before the number `at`, and the number that is there.
  std::pair<uint64_t, uint64_t> place_of(const Run& run, uint64_t at) const {
    if (run.encoding == Encoding::typed) return {run.begin + at * bytes_of_marker(run.marker).value_or(0), at};
    const uint64_t stride = at / RunList::kStride;
    if (stride == 0) return {run.begin, 0};
    return {list_.places[run.places + static_cast<size_t>(stride) - 1], stride * RunList::kStride};
  }

  SourcePtr file_;
  RunList list_;
};

}  // namespace

const DType* dtype_of(Element element) { return dtype_named(type_of(element).dtype); }

bool fits(const Number& number, Element element) {
  if (!is_real(element))
    return number.is_integer && number.integer >= type_of(element).least && number.integer <= type_of(element).most;
  return number.is_integer || element == Element::float64 || !std::isfinite(number.real) ||
         std::fabs(number.real) < kBeyondFloat;
}

std::optional<Number> parse_number_text(std::string_view text) {
  if (text.empty() || text.size() > kMaxNumberLength) return std::nullopt;
  if (const auto integer = parse_number<int64_t>(text)) {
    const double real = static_cast<double>(*integer);
    return Number{.integer = *integer, .real = text.front() == '-' && *integer == 0 ? -real : real};
  }
  if (text == "true" || text == "false") return integer_number(text == "true" ? 1 : 0);
  Number number{.is_integer = false};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number.real);
  if (stop != end) return std::nullopt;
  if (error == std::errc::result_out_of_range) number.real = std::strtod(std::string(text).c_str(), nullptr);
  return error == std::errc::invalid_argument ? std::nullopt : std::optional(number);
}

std::optional<size_t> bytes_of_marker(char marker) {
  switch (marker) {
    case 'T':
    case 'F':
      return 0;
    case 'i':
    case 'U':
      return 1;
    case 'I':
      return 2;
    case 'l':
    case 'd':
      return 4;
    case 'L':
    case 'D':
      return 8;
    default:
      return std::nullopt;
  }
}

bool always_fits(char marker, Element element) {
  switch (marker) {
    case 'd':
      return is_real(element);
    case 'D':
      return element == Element::float64;
    case 'T':
    case 'F':
      return false;  // they take no bytes, so their count has no bound
    default:
      break;
  }
  const size_t width = bytes_of_marker(marker).value_or(0);
  if (width == 0 || is_real(element)) return width > 0;
  const int64_t least = marker == 'U' ? 0 : with_sign(uint64_t{1} << (8 * width - 1), width);
  const int64_t most = marker == 'U' ? 255 : ~least;
  return least >= type_of(element).least && most <= type_of(element).most;
}

Number number_of_marker(char marker, std::string_view bytes) {
  const uint64_t bits = big_endian_bits(bytes);
  if (marker == 'd') return {.is_integer = false, .real = std::bit_cast<float>(static_cast<uint32_t>(bits))};
  if (marker == 'D') return {.is_integer = false, .real = std::bit_cast<double>(bits)};
  if (marker == 'T' || marker == 'F') return integer_number(marker == 'T' ? 1 : 0);
  return integer_number(marker == 'U' ? static_cast<int64_t>(bits) : with_sign(bits, bytes.size()));
}

Result<void> RunBuilder::add(const std::optional<Number>& number, uint64_t place) {
  if (!number || !fits(*number, run_.element)) is_valid_ = false;
  if (!is_valid_) return {};
  if (run_.count > 0 && run_.count % RunList::kStride == 0) {
    TRY_VOID(budget_.charge(Cost::kept, sizeof(uint64_t)));
    list_.places.push_back(place);
  }
  ++run_.count;
  return {};
}

Result<std::optional<Run>> RunBuilder::finish() {
  const uint32_t width = type_of(run_.element).width;
  if (!is_valid_ || run_.count > (kMaxSize - list_.size) / width) {
    list_.places.resize(run_.places);
    return std::nullopt;
  }
  run_.first_byte = list_.size;
  if (run_.count == 0) return run_;
  TRY_VOID(budget_.charge(Cost::kept, sizeof(Run)));
  list_.size += run_.count * width;
  list_.runs.push_back(run_);
  return run_;
}

SourcePtr decoded(SourcePtr file, RunList list) {
  return std::make_shared<DecodedRuns>(std::move(file), std::move(list));
}

}  // namespace weightfs::trees
