#include "formats/safetensors.h"

#include <algorithm>

#include "base/cursor.h"
#include "formats/format.h"

namespace weightfs {
namespace {

using namespace safetensors;

constexpr uint64_t kPrefix = 8;  // the header's length, u64

bool is_white(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Whether eight bytes begin a text. JSON may have a brace at byte 8 too (`{"net": {`), but the length of a header that
// was cut off has zeros in it.
bool is_text(std::string_view bytes) {
  return is_utf8(bytes) && std::none_of(bytes.begin(), bytes.end(), [](char c) { return c >= 0 && c < '\t'; });
}

uint64_t length_in(std::string_view head) {
  uint64_t length = 0;
  for (size_t i = 0; i < kPrefix; ++i) length |= uint64_t{static_cast<uint8_t>(head[i])} << (8 * i);
  return length;
}

Result<uint64_t> read_length(const Source& bytes) {
  if (bytes.size() < kPrefix)
    return failure(Code::corrupt, str(bytes.size(), " bytes, 8 needed for the length of the header"));
  const std::string prefix = TRY(read_text(bytes, 0, kPrefix));
  const uint64_t length = length_in(prefix);
  if (length > kLongestHeader)
    return failure(Code::corrupt, str("header of ", length, " bytes, ", kLongestHeader, " at most"));
  if (const uint64_t there = bytes.size() - kPrefix; length > there)
    return failure(Code::corrupt, str("header of ", length, " bytes, ", there, " there"));
  return length;
}

// The reference collects the tensors in a HashMap: of those with one name the last one stays.
void drop_replaced(FlatHeader& header) {
  const auto replaced = repeated_names(header.tensors);
  if (replaced.empty()) return;
  auto next = replaced.begin();
  size_t kept = 0;
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    if (next != replaced.end() && *next == i) {
      ++next;
    } else {
      if (kept != i) header.tensors[kept] = std::move(header.tensors[i]);
      header.ranges[kept++] = header.ranges[i];
    }
  }
  header.tensors.resize(kept);
  header.ranges.resize(kept);
}

Result<Model> read(const Container& container) {
  const uint64_t length = TRY(read_length(*container.bytes));
  HeaderReader reader(length);
  const auto whole = read_json(*container.bytes, kPrefix, length, reader);
  if (!reader.problem.empty()) return failure(Code::corrupt, "header: " + reader.problem);
  if (!whole) return failure(whole.error().code, "header: " + whole.error().message);
  drop_replaced(reader.header);
  TRY_VOID(place(reader.header, container.bytes, kPrefix + length, Order::any));
  Map facts;
  facts.append("header_length", length);
  Model model = flat_model(std::move(reader.header), container, "safetensors", std::move(facts));
  model.spellings = std::move(reader.spellings);
  reader.warnings.move_to(model.warnings);
  return model;
}

}  // namespace

Match matches_safetensors(std::string_view head, uint64_t size) {
  if (head.size() <= kPrefix || size <= kPrefix) return Match::no;
  const uint64_t length = length_in(head);
  const std::string_view after = head.substr(kPrefix);
  // A download that was cut: better to say what is missing than that the file is unknown.
  if (length > kLongestHeader || length > size - kPrefix)
    return after.front() == '{' && !is_text(head.substr(0, kPrefix)) ? Match::yes : Match::no;
  const std::string_view header = after.substr(0, static_cast<size_t>(std::min<uint64_t>(length, after.size())));
  const auto* const first = std::find_if_not(header.begin(), header.end(), is_white);
  if (first != header.end()) return *first == '{' ? Match::yes : Match::no;
  return header.size() < length ? Match::maybe : Match::no;
}

Result<Model> read_safetensors(const Container& container) {
  return read(container).map_error([](const Error& e) { return Error{e.code, "safetensors: " + e.message}; });
}

}  // namespace weightfs
