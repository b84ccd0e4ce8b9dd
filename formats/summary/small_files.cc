#include "formats/summary/small_files.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/common/lenient_json.h"
#include "formats/format.h"

namespace weightfs::summary {
SmallFiles::~SmallFiles() {
  for (const Objects* const objects : {&objects_, &objects_in_text_})
    for (const auto& [key, map] : *objects)
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

Result<SourcePtr> SmallFiles::checked_open(const std::string& path) {
  SourcePtr opened = open(path);
  if (opened != nullptr || model_.beside == nullptr || path.find('/') != path.npos) return opened;
  auto again = model_.beside->open(path);  // for the reason
  if (!again && again.error().code == Code::not_found) return nullptr;
  return again;
}

Result<const Map*> SmallFiles::checked_object(const std::string& path) {
  const SourcePtr opened = TRY(checked_open(path));
  if (opened == nullptr) return nullptr;
  const Map* const found = object(path);
  if (found != nullptr) return found;
  Budget budget(opened->size());
  const auto read = parse_small_json(*opened, budget);  // for the reason
  if (!read) return failure(with_message(read.error(), fmt::format("{}: {}", printable(path), read.error().message)));
  return failure(Code::corrupt, fmt::format("{} is not an object of JSON", printable(path)));
}

bool SmallFiles::has_below(std::string_view directory) const {
  return std::ranges::any_of(model_.parts, [&](const Part& part) { return part.path.starts_with(directory); });
}

std::string SmallFiles::head(const std::string& path, uint64_t most, Bytes bytes) {
  const SourcePtr file = open(path);
  if (file == nullptr) return "";
  const SourcePtr early = bytes == Bytes::unverified && file->size() > most ? file->unverified() : nullptr;
  auto text = read_text(early != nullptr ? *early : *file, 0, std::min(most, file->size()));
  if (!text) warnings_.push_back(fmt::format("{}: {}", printable(path), text.error().message));
  return text ? std::move(*text) : "";
}

BudgetPtr SmallFiles::budget_for(uint64_t size) const {
  return model_.budget != nullptr ? model_.budget : std::make_shared<Budget>(size);
}

const Map* SmallFiles::object_in(const std::string& text, size_t most) {
  if (text.size() > most || !text.starts_with('{')) return nullptr;
  const auto [kept, is_new] = objects_in_text_.emplace(text, nullptr);
  if (!is_new) return kept->second.get();
  const BudgetPtr budget = budget_for(text.size());
  auto value = parse_small_json(*in_memory(text), *budget);
  auto* const map = value ? std::get_if<Map>(&*value) : nullptr;
  if (map != nullptr) kept->second = std::make_unique<Map>(std::move(*map));
  return kept->second.get();
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
  const BudgetPtr budget = budget_for(file->size());
  auto value = parse_small_json(*file, *budget);
  if (!value) return ignore(value.error().message);
  auto* const map = std::get_if<Map>(&*value);
  if (map == nullptr) {
    release(footprint(*value), *budget);
    return ignore("not a JSON object");
  }
  kept->second = std::make_unique<Map>(std::move(*map));
  return kept->second.get();
}

}  // namespace weightfs::summary
