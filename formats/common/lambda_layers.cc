#include "formats/common/lambda_layers.h"

namespace weightfs {
namespace {

const std::string* text_at(const Map& map, std::string_view key) {
  const Value* const value = map.find(key);
  return value == nullptr ? nullptr : std::get_if<std::string>(value);
}

std::string layer_name(const Map& layer) {
  const Value* const config = layer.find("config");
  const Map* const fields = config == nullptr ? nullptr : std::get_if<Map>(config);
  const std::string* const name = fields == nullptr ? nullptr : text_at(*fields, "name");
  return name == nullptr ? "" : *name;
}

// Values are nested at most kMaxDepth deep (read_json).
void find(const Value& value, std::vector<std::string>& names) {
  if (names.size() >= kMaxLambdaLayers) return;
  if (const auto* const list = std::get_if<List>(&value))
    for (const Value& one : *list) find(one, names);
  const auto* const map = std::get_if<Map>(&value);
  if (map == nullptr) return;
  const std::string* const class_name = text_at(*map, "class_name");
  if (class_name != nullptr && *class_name == "Lambda") names.push_back(layer_name(*map));
  for (const auto& [key, one] : *map) find(one, names);
}

}  // namespace

std::vector<std::string> lambda_layers(const Value& configuration) {
  std::vector<std::string> names;
  find(configuration, names);
  return names;
}

}  // namespace weightfs
