// TensorFlow.js: model.json, with the manifest of the weights, and the files of the weights beside it. As tfjs-core 4
// reads them.
#include <algorithm>
#include <array>
#include <utility>

#include "formats/format.h"
#include "formats/tfjs/manifest.h"
#include "formats/tfjs/weights.h"

namespace weightfs {
namespace tfjs {
namespace {

// "DT_FLOAT" is "float".
std::string dtype_name(std::string_view type) {
  constexpr auto kNames = std::to_array<std::pair<std::string_view, std::string_view>>({
      {"DT_FLOAT", "float32"},
      {"DT_INT32", "int32"},
      {"DT_INT64", "int64"},
      {"DT_BOOL", "bool"},
      {"DT_STRING", "string"},
      {"DT_COMPLEX64", "complex64"},
  });
  const auto* const row = std::ranges::find(kNames, type, &std::pair<std::string_view, std::string_view>::first);
  return std::string(row == kNames.end() ? type : row->second);
}

// The sizes of a TensorShapeProto in JSON, which are texts: "-1" is any.
std::optional<List> shape_of(const Map& value) {
  const auto* const shape = value.find_as<Map>("tensorShape");
  const auto* const dims = shape == nullptr ? nullptr : shape->find_as<List>("dim");
  if (dims == nullptr) return std::nullopt;
  List sizes;
  for (const Value& dim : *dims) {
    const auto* const map = std::get_if<Map>(&dim);
    const std::string_view size = map == nullptr ? std::string_view() : text_in(*map, "size");
    sizes.emplace_back(size == "-1" ? std::string_view("?") : size);
  }
  return sizes;
}

// The inputs or outputs of a signature.
List ends_of(const Map& signature, const char* key) {
  List ends;
  const auto* const map = signature.find_as<Map>(key);
  if (map == nullptr) return ends;
  for (const auto& [name, value] : *map) {
    const auto* const end = std::get_if<Map>(&value);
    if (end == nullptr || ends.size() == kMaxInlineList) continue;
    Map shown;
    shown.append("name", name);
    if (const std::string_view type = text_in(*end, "dtype"); !type.empty()) shown.append("dtype", dtype_name(type));
    if (auto shape = shape_of(*end)) shown.append("shape", std::move(*shape));
    ends.emplace_back(std::move(shown));
  }
  return ends;
}

// Old converters have the signature among the metadata of users.
const Map* signature_in(const Map& facts) {
  if (const auto* const own = facts.find_as<Map>("signature")) return own;
  const auto* const users = facts.find_as<Map>("userDefinedMetadata");
  return users == nullptr ? nullptr : users->find_as<Map>("signature");
}

Result<void> describe(ModelJson& json, Budget& budget, Model& model) {
  Map& metadata = model.metadata;
  std::move(json.code).move_to(model.common);
  model.version = text_in(json.facts, "format");
  for (const char* const key : {"generatedBy", "convertedBy"})
    if (const std::string_view text = text_in(json.facts, key); !text.empty() && !metadata.find("producer_name"))
      metadata.append("producer_name", text);
  if (const Map* const signature = signature_in(json.facts)) {
    TRY_VOID(charge(footprint(*signature), budget));
    for (const char* const key : {"inputs", "outputs"})
      if (List ends = ends_of(*signature, key); !ends.empty()) metadata.append(key, std::move(ends));
  }
  Map operators;
  for (const auto& [name, count] : json.operators) operators.append(name, count);
  if (!operators.empty()) metadata.append("operators", std::move(operators));
  for (const auto& [key, value] : json.facts) metadata.append(key, value);
  metadata.keep_last_of_each_key();
  return {};
}

Result<Model> read(const Container& container) {
  Model model;
  Warnings warnings;
  ModelJson json = TRY(read_model_json(*container.bytes, *container.budget, warnings));
  model.parts.push_back(
      {.path = container.name, .source = Later<SourcePtr>::of(container.bytes), .is_structure = true});
  Weights weights(container, model, warnings);
  TRY_VOID(weights.add(json.manifest));
  const Footprint manifest = footprint(json.manifest);
  json.manifest = Value();
  release(manifest, *container.budget);
  TRY_VOID(describe(json, *container.budget, model));
  weights.finish();
  model.format = "tfjs";
  std::move(warnings).move_to(model);
  return model;
}

// Whether an object with these last bytes has no end.
bool is_cut(std::string_view tail) {
  const size_t last = tail.find_last_not_of(" \t\r\n");
  return last != tail.npos && tail[last] != '}';
}

}  // namespace
}  // namespace tfjs

// A topology of megabytes may be in front of the manifest or behind it.
Match matches_tfjs(const Probe& probe) {
  const auto has = [&](std::string_view text) {
    return probe.head_contains(text) || probe.tail.find(text) != probe.tail.npos;
  };
  if (probe.begins_json_object()) {
    if (has("\"weightsManifest\"")) return Match::yes;
    const bool has_format = has("\"format\"") && (has("\"graph-model\"") || has("\"layers-model\""));
    if (has_format) return Match::yes;
    return !has("\"modelTopology\"") ? Match::no : tfjs::is_cut(probe.tail) ? Match::yes : Match::maybe;
  }
  const bool is_list =
      probe.head.substr(std::min(probe.head.find_first_not_of(" \t\r\n"), probe.head.size())).starts_with('[');
  return is_list && has("\"paths\"") && has("\"weights\"") ? Match::maybe : Match::no;
}

Result<Model> read_tfjs(const Container& container) { return tfjs::read(container); }

}  // namespace weightfs
