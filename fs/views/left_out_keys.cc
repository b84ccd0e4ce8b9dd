#include "fs/views/left_out_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <variant>

#include "base/text.h"
#include "formats/format.h"

namespace weightfs::views {
namespace {

constexpr size_t kMaxNamed = 10;

// Readers put what they know about the container itself under the name of its format, or of its index or manifest.
bool are_facts(std::string_view key, const Value& value) {
  return std::holds_alternative<Map>(value) && (key == "index" || key == "manifest" || format_named(key) != nullptr);
}

}  // namespace

std::string LeftOutKeys::to_sentence() const {
  if (names.empty()) return "";
  std::string out = fmt::format("{}: {} of {} keys {} left out: ", reason, names.size(), all, all == 1 ? "is" : "are");
  for (size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : ", ", printable(names[i]));
  return names.size() > kMaxNamed ? out + ", …" : out;
}

LeftOutKeys left_out_keys(const Model& model, std::string_view reason,
                          const std::function<bool(std::string_view key, const Value& value)>& holds) {
  LeftOutKeys out{0, {}, reason};
  for (const auto& [key, value] : model.metadata) {
    if (are_facts(key, value)) continue;
    ++out.all;
    if (!holds(key, value)) out.names.push_back(key);
  }
  return out;
}

LeftOutKeys all_keys_left_out(const Model& model, std::string_view reason) {
  return left_out_keys(model, reason, [](std::string_view, const Value&) { return false; });
}

}  // namespace weightfs::views
