#include "formats/summary/small_files.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/format.h"

namespace weightfs::summary {
namespace {

constexpr uint64_t kMaxValues = 400'000;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// What Python writes for numbers that JSON lacks; the longest first.
constexpr std::string_view kNotJson[] = {"-Infinity", "Infinity", "NaN"};

// Replaces them outside of texts by null, which is not longer than three of them.
std::string to_strict_json(std::string text) {
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  if (std::ranges::none_of(kNotJson, [&](std::string_view name) { return text.find(name) != text.npos; })) return text;
  std::string out;
  std::string_view rest = text;
  bool is_in_text = false;
  while (!rest.empty()) {
    const auto* const name = std::ranges::find_if(kNotJson, [&](std::string_view n) { return rest.starts_with(n); });
    size_t taken = 1;
    if (is_in_text && rest[0] == '\\') taken = std::min<size_t>(2, rest.size());
    if (rest[0] == '"') is_in_text = !is_in_text;
    if (!is_in_text && name != std::end(kNotJson)) {
      out += "null";
      taken = name->size();
    } else {
      out += rest.substr(0, taken);
    }
    rest.remove_prefix(taken);
  }
  return out;
}

}  // namespace

SmallFiles::~SmallFiles() {
  for (const auto& [path, map] : objects_)
    if (map != nullptr && model_.budget != nullptr) release(footprint(*map), *model_.budget);
}

SourcePtr SmallFiles::open(const std::string& path) {
  const auto [file, is_new] = files_.emplace(path, nullptr);
  if (!is_new || model_.beside == nullptr) return file->second;
  const bool is_below = path.find('/') != path.npos;
  const std::string referrer = model_.parts.empty() ? "" : model_.parts.front().path;
  auto opened = is_below ? model_.beside->open_below(path, referrer) : model_.beside->open(path);
  if (opened)
    file->second = std::move(*opened);
  else if (opened.error().code != Code::not_found)
    warnings_.push_back(fmt::format("{}: {}", printable(path), opened.error().message));
  return file->second;
}

bool SmallFiles::has_below(std::string_view directory) const {
  return std::ranges::any_of(model_.parts, [&](const Part& part) { return part.path.starts_with(directory); });
}

std::string SmallFiles::head(const std::string& path, uint64_t most) {
  const SourcePtr file = open(path);
  if (file == nullptr) return "";
  auto text = read_text(*file, 0, std::min(most, file->size()));
  if (!text) warnings_.push_back(fmt::format("{}: {}", printable(path), text.error().message));
  return text ? std::move(*text) : "";
}

const Map* SmallFiles::object(const std::string& path) {
  const auto [kept, is_new] = objects_.emplace(path, nullptr);
  if (!is_new) return kept->second.get();
  const auto ignore = [&](std::string_view problem) {
    warnings_.push_back(fmt::format("{}: {}; ignored", printable(path), problem));
    return nullptr;
  };
  const SourcePtr file = open(path);
  if (file == nullptr) return nullptr;
  const uint64_t size = file->size();
  if (size > kMaxSmallFile) return ignore(fmt::format("{} is more than 10 MB", human_size(size)));
  const BudgetPtr budget = model_.budget != nullptr ? model_.budget : std::make_shared<Budget>(size);
  if (auto paid = budget->charge(Cost::kept, 2 * size); !paid) return ignore(paid.error().message);
  auto text = read_text(*file, 0, size);
  const auto parse = [&]() -> Result<Value> {
    const std::string strict = to_strict_json(TRY(std::move(text)));
    return parse_json(*in_memory(strict), 0, strict.size(), *budget, kMaxValues);
  };
  auto value = parse();
  budget->release(Cost::kept, 2 * size);
  if (!value) return ignore(value.error().message);
  auto* const map = std::get_if<Map>(&*value);
  if (map == nullptr) return ignore("not a JSON object");
  kept->second = std::make_unique<Map>(std::move(*map));
  return kept->second.get();
}

}  // namespace weightfs::summary
