#include "formats/directory/small_json.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/common/lenient_json.h"

namespace weightfs::directory {
namespace {

constexpr size_t kMaxComponents = 1'000;

Result<SourcePtr> open_file(const Folder& folder, std::string_view path) {
  return path.find('/') == path.npos ? folder.open(path) : folder.open_below(path, {});
}

enum class Type { text, number, list, object, other };

struct Field {
  std::string_view name;
  Type type;
};
constexpr auto kFields = std::to_array<Field>({{"model_type", Type::text},
                                               {"architectures", Type::list},
                                               {"_class_name", Type::text},
                                               {"n_layer", Type::number},
                                               {"n_layers", Type::number},
                                               {"d_model", Type::number}});

// Whether config.json has this field only if it is that of a model.
bool is_model_field(std::string_view name, Type type) {
  if (name.starts_with("quantization")) return type == Type::text || type == Type::object;
  return std::ranges::any_of(kFields, [&](const Field& field) { return field.name == name && field.type == type; });
}

// Stops at the first field of config.json that only a model has. What follows it need not be valid: some writers
// produce NaN.
class ConfigReader final : public JsonEvents {
 public:
  bool is_found() const { return is_found_; }

  bool scalar(Value /*value*/) override { return true; }
  bool unsigned_integer(uint64_t /*n*/) override { return !find(Type::number); }
  bool string(std::string& /*text*/) override { return !find(Type::text); }
  bool key(std::string& text) override {
    if (depth_ == 1) key_ = text;
    return true;
  }
  bool begin_object() override {
    if (depth_ == 0) is_object_ = true;
    return !find(Type::object) && ++depth_ > 0;
  }
  bool end_object() override { return leave(); }
  bool begin_array() override { return !find(Type::list) && ++depth_ > 0; }
  bool end_array() override { return leave(); }

 private:
  bool leave() {
    --depth_;
    return true;
  }

  // The value of a key of the whole object.
  bool find(Type type) {
    if (depth_ != 1 || !is_object_) return false;
    return is_found_ = is_model_field(key_, type);
  }

  int depth_ = 0;
  bool is_object_ = false;
  bool is_found_ = false;
  std::string key_;
};

// Whether a module of sentence-transformers saves a file, by its class: a configuration, or weights.
bool has_files(std::string_view type) {
  constexpr auto kTypes = std::to_array<std::string_view>({"Transformer", "MLMTransformer", "CLIPModel", "Pooling",
                                                           "WeightedLayerPooling", "Dense", "LayerNorm", "LSTM", "CNN",
                                                           "WordEmbeddings", "StaticEmbedding", "SparseAutoEncoder"});
  return std::ranges::find(kTypes, type.substr(type.rfind('.') + 1)) != kTypes.end();
}

bool is_text(const Value& value) { return std::holds_alternative<std::string>(value); }

// ["diffusers", "UNet2DConditionModel"]; a part that the pipeline does without is [null, null].
const std::string* class_in(const Value& value) {
  const auto* const pair = std::get_if<List>(&value);
  if (pair == nullptr || pair->size() != 2 || !is_text((*pair)[1])) return nullptr;
  return &std::get<std::string>((*pair)[1]);
}

// "StableDiffusionPipeline", or the module and the class of a pipeline of its own.
bool names_pipeline(const Map& fields) {
  return fields.find_as<std::string>("_class_name") != nullptr || fields.find_as<List>("_class_name") != nullptr;
}

bool has_weights(std::string_view class_name) {
  constexpr auto kWithout =
      std::to_array<std::string_view>({"Tokenizer", "Scheduler", "FeatureExtractor", "Processor"});
  return std::ranges::none_of(kWithout, [&](std::string_view part) { return class_name.find(part) != part.npos; });
}

}  // namespace

Result<std::optional<Value>> read_small_json(const Folder& folder, std::string_view path, Budget& budget) {
  auto value = open_file(folder, path).and_then([&](const SourcePtr& file) { return parse_small_json(*file, budget); });
  if (value) return std::optional(std::move(*value));
  if (is_permanent(value.error())) return std::nullopt;
  return tl::unexpected(value.error());
}

Result<bool> is_model_config(const Folder& folder, std::string_view path, Budget& budget) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  ConfigReader reader;
  const auto read = [&]() -> Result<void> {
    const SourcePtr file = TRY(open_file(folder, path));
    if (file->size() > kMaxSmallJson) return failure(Code::unsupported, "too large");
    TRY_VOID(budget.charge(Cost::input, file->size()));
    const std::string head = TRY(read_text(*file, 0, std::min<uint64_t>(file->size(), kByteOrderMark.size())));
    const uint64_t begin = head == kByteOrderMark ? head.size() : 0;
    return read_json(*file, begin, file->size() - begin, reader);
  };
  const auto whole = read();
  if (!whole && !reader.is_found() && !is_permanent(whole.error())) return tl::unexpected(whole.error());
  return reader.is_found();
}

bool is_model_config(const Map& config) {
  return std::ranges::any_of(config, [](const Map::Entry& entry) {
    const Value& value = entry.second;
    const bool is_number = std::holds_alternative<int64_t>(value) || std::holds_alternative<uint64_t>(value);
    const Type type = std::holds_alternative<std::string>(value) ? Type::text
                      : std::holds_alternative<List>(value)      ? Type::list
                      : std::holds_alternative<Map>(value)       ? Type::object
                      : is_number                                ? Type::number
                                                                 : Type::other;
    return is_model_field(entry.first, type);
  });
}

std::optional<std::vector<NamedComponent>> components_in(const Value& model_index) {
  const auto* const fields = std::get_if<Map>(&model_index);
  if (fields == nullptr || !names_pipeline(*fields)) return std::nullopt;
  std::vector<NamedComponent> components;
  for (const auto& [key, value] : *fields) {
    const std::string* const class_name = class_in(value);
    if (class_name == nullptr || key.starts_with('_') || !is_file_name(key) || components.size() == kMaxComponents)
      continue;
    components.push_back({key, *class_name, has_weights(*class_name)});
  }
  return components;
}

std::optional<std::vector<ModuleDirectory>> module_directories_in(const Value& modules) {
  const auto* const list = std::get_if<List>(&modules);
  if (list == nullptr) return std::nullopt;
  std::vector<ModuleDirectory> directories;
  for (const Value& value : *list) {
    const auto* const fields = std::get_if<Map>(&value);
    const auto* const path = fields == nullptr ? nullptr : fields->find_as<std::string>("path");
    if (path == nullptr || directories.size() == kMaxComponents) continue;
    if (!path->empty() && !is_plain_path(*path)) continue;
    directories.push_back({*path, !path->empty() && has_files(text_in(*fields, "type"))});
  }
  if (directories.empty()) return std::nullopt;
  return directories;
}

}  // namespace weightfs::directory
