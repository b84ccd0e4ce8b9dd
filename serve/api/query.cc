#include "serve/api/query.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/text.h"
#include "fs/adapters/error_numbers.h"
#include "fs/http/protocol/target.h"

namespace weightfs::api {
namespace {

tl::unexpected<Refusal> wrong(std::string_view name, std::string_view what) {
  return httpd::refused(400, fmt::format("{}: {}", name, what));
}

}  // namespace

Refusal refusal_of(const Error& error) {
  if (error.code == Code::unsupported) return {422, error.message};
  return {http_status_of(error), error.message};
}

std::string Query::text(std::string_view name) const { return httpd::parameter(text_, name).value_or(""); }

Accepted<std::optional<uint64_t>> Query::number(std::string_view name) const {
  const std::string value = text(name);
  if (value.empty()) return std::optional<uint64_t>();
  const auto number = parse_number<uint64_t>(value);
  if (!number) return wrong(name, "is not a number");
  return number;
}

Accepted<uint64_t> Query::number(std::string_view name, uint64_t otherwise, uint64_t most) const {
  const uint64_t value = ACCEPT(number(name)).value_or(otherwise);
  if (value > most) return wrong(name, fmt::format("is at most {}", most));
  return value;
}

Accepted<std::optional<double>> Query::real(std::string_view name) const {
  const std::string value = text(name);
  if (value.empty()) return std::optional<double>();
  const auto number = parse_number<double>(value);
  if (!number || !std::isfinite(*number)) return wrong(name, "is not a number");
  return number;
}

Accepted<std::vector<uint64_t>> Query::numbers(std::string_view name) const {
  constexpr size_t kMost = 64;
  const std::string value = text(name);
  std::vector<uint64_t> out;
  for (size_t begin = 0; !value.empty() && begin <= value.size();) {
    const size_t end = std::min(value.find(',', begin), value.size());
    const auto number = parse_number<uint64_t>(value.substr(begin, end - begin));
    if (!number || out.size() == kMost) return wrong(name, "is not a list of numbers");
    out.push_back(*number);
    begin = end + 1;
  }
  return out;
}

Accepted<std::vector<std::string>> Query::words(std::string_view name) const {
  constexpr size_t kMost = 16;
  std::istringstream in(lower_case(text(name)));
  std::vector<std::string> words;
  for (std::string word; in >> word;) {
    if (std::ranges::find(words, word) != words.end()) continue;
    if (words.size() == kMost) return wrong(name, fmt::format("has more than {} different words", kMost));
    words.push_back(word);
  }
  return words;
}

Accepted<size_t> Query::choice(std::string_view name, const std::vector<std::string_view>& names) const {
  const std::string value = text(name);
  if (value.empty()) return size_t{0};
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == value) return i;
  std::string all;
  for (const std::string_view each : names) all += (all.empty() ? "" : ", ") + std::string(each);
  return wrong(name, "is one of " + all);
}

std::string Query::key() const {
  std::string out;
  for (size_t begin = 0; begin < text_.size();) {
    const size_t end = std::min(text_.find('&', begin), text_.size());
    const std::string_view part = std::string_view(text_).substr(begin, end - begin);
    if (!part.starts_with("v=")) out += std::string(part) + "&";
    begin = end + 1;
  }
  return out;
}

}  // namespace weightfs::api
