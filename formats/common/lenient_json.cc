#include "formats/common/lenient_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/values/json.h"

namespace weightfs {
namespace {

constexpr uint64_t kMaxValues = 400'000;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// What Python writes for numbers that JSON lacks; the longest first.
constexpr std::array<std::string_view, 3> kNumbers = {"-Infinity", "Infinity", "NaN"};

// Replaces them by null outside of texts.
std::string to_json_proper(std::string text) {
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  if (std::ranges::none_of(kNumbers, [&](std::string_view name) { return text.find(name) != text.npos; })) return text;
  std::string out;
  bool is_in_text = false;
  for (std::string_view rest = text; !rest.empty();) {
    const auto* const number = std::ranges::find_if(kNumbers, [&](std::string_view n) { return rest.starts_with(n); });
    size_t taken = 1;
    if (is_in_text && rest[0] == '\\') taken = std::min<size_t>(2, rest.size());
    if (rest[0] == '"') is_in_text = !is_in_text;
    if (!is_in_text && number != kNumbers.end()) {
      out += "null";
      taken = number->size();
    } else {
      out += rest.substr(0, taken);
    }
    rest.remove_prefix(taken);
  }
  return out;
}

}  // namespace

Result<Value> parse_small_json(const Source& file, Budget& budget) {
  const uint64_t size = file.size();
  if (size > kMaxSmallJson) return failure(Code::unsupported, fmt::format("{} is more than 10 MB", human_size(size)));
  TRY_VOID(budget.charge(Cost::input, size));
  TRY_VOID(budget.charge(Cost::kept, 3 * size));  // the text, and a copy without what is not JSON
  const auto parse = [&]() -> Result<Value> {
    const std::string text = to_json_proper(TRY(read_text(file, 0, size)));
    return parse_json(*in_memory(text), 0, text.size(), budget, kMaxValues);
  };
  auto value = parse();
  budget.release(Cost::kept, 3 * size);
  return value;
}

}  // namespace weightfs
