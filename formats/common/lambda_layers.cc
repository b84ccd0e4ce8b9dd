#include "formats/common/lambda_layers.h"

namespace weightfs {
namespace {

std::string layer_name(const Map& layer) {
  const Value* const config = layer.find("config");
  const Map* const fields = config == nullptr ? nullptr : std::get_if<Map>(config);
  const std::string* const name = fields == nullptr ? nullptr : fields->find_as<std::string>("name");
  return name == nullptr ? "" : *name;
}

// Values are nested at most kMaxDepth deep (read_json).
void find(const Value& value, std::vector<std::string>& names) {
  if (names.size() >= kMaxLambdaLayers) return;
  if (const auto* const list = std::get_if<List>(&value))
    for (const Value& one : *list) find(one, names);
  const auto* const map = std::get_if<Map>(&value);
  if (map == nullptr) return;
  const std::string* const class_name = map->find_as<std::string>("class_name");
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
