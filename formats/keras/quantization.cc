#include "formats/keras/quantization.h"

#include <string_view>

namespace weightfs::keras {
namespace {

constexpr std::string_view kFrom = "_from_";  // "int8_from_float32"
constexpr size_t kMaxName = 100;

void add(std::string_view mode, std::set<std::string>& modes) {
  if (!mode.empty() && mode.size() <= kMaxName && modes.size() < kMaxModes) modes.emplace(mode);
}

// Values are nested at most kMaxDepth deep (read_json).
void find(const Value& value, std::set<std::string>& modes) {
  if (const auto* const list = std::get_if<List>(&value))
    for (const Value& one : *list) find(one, modes);
  const auto* const map = std::get_if<Map>(&value);
  if (map == nullptr) return;
  const std::string* const class_name = map->find_as<std::string>("class_name");
  const Map* const config = map->find_as<Map>("config");
  if (class_name != nullptr && class_name->ends_with("DTypePolicy") && config != nullptr)
    if (const std::string* const mode = config->find_as<std::string>("mode")) add(*mode, modes);
  for (const auto& [key, one] : *map) {
    const auto* const text = std::get_if<std::string>(&one);
    if (text != nullptr && (key == "dtype" || key == "dtype_policy") && text->find(kFrom) != std::string::npos)
      add(std::string_view(*text).substr(0, text->find(kFrom)), modes);
    find(one, modes);
  }
}

}  // namespace

std::set<std::string> quantization_modes(const Value& configuration) {
  std::set<std::string> modes;
  find(configuration, modes);
  return modes;
}

}  // namespace weightfs::keras
