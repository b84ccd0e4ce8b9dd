// Core ML: a package (a directory with Manifest.json, a model and its weight files), or a model alone (.mlmodel). As
// Model.proto, MIL.proto and MILBlob of coremltools 8 describe it.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/code/operators.h"
#include "formats/common/json_outline.h"
#include "formats/common/limits.h"
#include "formats/common/relative_path.h"
#include "formats/coreml/fields.h"
#include "formats/coreml/network.h"
#include "formats/coreml/program.h"
#include "formats/format.h"

namespace weightfs {
namespace coreml {
namespace {

constexpr const char* kManifest = "Manifest.json";
constexpr uint64_t kMaxManifestSize = 1 << 20;
constexpr uint64_t kMaxManifestValues = 10'000;
constexpr uint64_t kMaxText = 16 << 20;  // of the metadata: labels, a licence

// Fields of Model for its kind, which differ in what they hold.
constexpr std::array kKinds = {
    std::pair{200U, "pipelineClassifier"},
    std::pair{201U, "pipelineRegressor"},
    std::pair{202U, "pipeline"},
    std::pair{300U, "glmRegressor"},
    std::pair{301U, "supportVectorRegressor"},
    std::pair{302U, "treeEnsembleRegressor"},
    std::pair{303U, "neuralNetworkRegressor"},
    std::pair{304U, "bayesianProbitRegressor"},
    std::pair{400U, "glmClassifier"},
    std::pair{401U, "supportVectorClassifier"},
    std::pair{402U, "treeEnsembleClassifier"},
    std::pair{403U, "neuralNetworkClassifier"},
    std::pair{404U, "kNearestNeighborsClassifier"},
    std::pair{500U, "neuralNetwork"},
    std::pair{501U, "itemSimilarityRecommender"},
    std::pair{502U, "mlProgram"},
    std::pair{555U, "customModel"},
    std::pair{556U, "linkedModel"},
    std::pair{560U, "classConfidenceThresholding"},
    std::pair{600U, "oneHotEncoder"},
    std::pair{601U, "imputer"},
    std::pair{602U, "featureVectorizer"},
    std::pair{603U, "dictVectorizer"},
    std::pair{604U, "scaler"},
    std::pair{606U, "categoricalMapping"},
    std::pair{607U, "normalizer"},
    std::pair{609U, "arrayFeatureExtractor"},
    std::pair{610U, "nonMaximumSuppression"},
    std::pair{900U, "identity"},
    std::pair{2000U, "textClassifier"},
    std::pair{2001U, "wordTagger"},
    std::pair{2002U, "visionFeaturePrint"},
    std::pair{2003U, "soundAnalysisPreprocessing"},
    std::pair{2004U, "gazetteer"},
    std::pair{2005U, "wordEmbedding"},
    std::pair{2006U, "audioFeaturePrint"},
    std::pair{3000U, "serializedModel"},
};

// Steps of a pipeline that only arrange, choose or name values.
constexpr auto kWithoutNumbers =
    std::to_array<uint32_t>({560, 600, 602, 603, 606, 607, 609, 610, 900, 2002, 2003, 2006});

bool is_step_without_numbers(uint32_t number) {
  return std::ranges::find(kWithoutNumbers, number) != kWithoutNumbers.end();
}

std::string kind_name(uint32_t number) {
  const auto row = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& kind) { return kind.first == number; });
  return row == kKinds.end() ? fmt::format("field {}", number) : row->second;
}

bool is_kind(uint32_t tag) {
  const uint32_t number = tag >> 3;
  return tag == bytes(number) && number >= model::kFirstKind && number <= model::kLastKind;
}

bool is_model_field(uint32_t tag) {
  return tag == model::kSpecificationVersion || tag == model::kDescription || tag == model::kIsUpdatable ||
         is_kind(tag);
}

// The model of a package: its file, and its directory, which ends with `/`.
struct Root {
  SourcePtr file;
  std::string path;
  std::string directory;
};

// The path of the item that the manifest names as the model.
Result<std::string> root_path(const Value& manifest) {
  const Map* const top = std::get_if<Map>(&manifest);
  const std::string* const identifier = top == nullptr ? nullptr : top->find_as<std::string>("rootModelIdentifier");
  const Map* const items = top == nullptr ? nullptr : top->find_as<Map>("itemInfoEntries");
  const Map* const item = identifier == nullptr || items == nullptr ? nullptr : items->find_as<Map>(*identifier);
  const std::string* const path = item == nullptr ? nullptr : item->find_as<std::string>("path");
  if (path == nullptr) return failure(Code::corrupt, "the manifest names no model");
  return "Data/" + TRY(relative_path(*path));
}

Result<Root> root_of_package(const Container& container) {
  Budget& budget = *container.budget;
  TRY_VOID(budget.charge(Cost::input, container.bytes->size()));
  const Value manifest = TRY(parse_json(*container.bytes, 0, container.bytes->size(), budget, kMaxManifestValues));
  if (container.folder == nullptr) return failure(Code::unsupported, "no other files in its directory");
  std::string path = TRY(root_path(manifest));
  SourcePtr file = TRY(open_below(container, path));
  release(footprint(manifest), budget);
  std::string directory = path.substr(0, path.rfind('/') + 1);
  return Root{std::move(file), std::move(path), std::move(directory)};
}

// Reads a Model, and those in a pipeline.
class ModelReader {
 public:
  ModelReader(const Container& container, const Root& root)
      : container_(container),
        scanner_(*root.file, container.budget.get()),
        blobs_(container, root.directory),
        programs_(container, root.file, scanner_, blobs_, out_),
        networks_(container, root.file, scanner_, out_) {}

  Result<Model> read() {
    out_.format = "coreml";
    const Message whole = scanner_.whole();
    TRY_VOID(model(whole, ""));
    if (!steps_.empty()) header_.set("models", std::move(steps_));
    out_.metadata = std::move(header_);
    programs_.finish(warnings_);
    networks_.finish(warnings_);
    std::move(code_).move_to(out_.common);
    report_others();
    blobs_.finish(out_);
    std::move(warnings_).move_to(out_);
    return std::move(out_);
  }

 private:
  Result<void> model(const Message& message, const std::string& scope) {
    const bool is_outermost = message.depth == 0;
    bool has_kind = false;
    Fields fields(scanner_, message);
    while (const auto field = TRY(fields.next())) {
      if (is_outermost && !is_model_field(field->tag))
        return failure(Code::corrupt, fmt::format("field {} is not one of a model", field->number()));
      if (is_outermost && field->tag == model::kSpecificationVersion) set_version(field->value);
      if (field->tag != model::kDescription && !is_kind(field->tag)) continue;
      const Message child = TRY(scanner_.child(message, *field));
      if (is_kind(field->tag)) {
        has_kind = true;
        if (is_outermost) header_.set("kind", kind_name(field->number()));
        if (!is_outermost) TRY_VOID(add_step(kind_name(field->number())));
        TRY_VOID(kind(field->tag, child, scope));
      } else if (is_outermost) {
        TRY_VOID(description(child));
      }
    }
    if (!has_kind) return failure(Code::corrupt, "no model");
    return {};
  }

  void set_version(uint64_t version) {
    out_.version = fmt::format("specification {}", static_cast<int32_t>(version));
    header_.set("specification_version", static_cast<int32_t>(version));
  }

  Result<void> kind(uint32_t tag, const Message& message, const std::string& scope) {
    if (tag == model::kProgram) return programs_.program(message, scope);
    if (tag == model::kNetwork || tag == model::kNetworkClassifier || tag == model::kNetworkRegressor)
      return networks_.network(message, scope);
    if (tag == model::kPipeline) return pipeline(message, scope);
    if (tag == model::kPipelineClassifier || tag == model::kPipelineRegressor) {
      const Message inner = TRY(scanner_.message_at(message, pipeline::kInner));
      return pipeline(inner, scope);
    }
    if (is_step_without_numbers(tag >> 3)) return {};
    if (tag == model::kCustom)
      code::add_class_of_app("custom model", TRY(scanner_.text_at(message, kClassName, kMaxText)), code_);
    if (++others_[kind_name(tag >> 3)] == 1) TRY_VOID(container_.budget->charge(Cost::value));
    return {};
  }

  // Once for each kind: a pipeline may have a thousand steps.
  void report_others() {
    for (const auto& [kind, count] : others_) {
      const std::string many = count == 1 ? "" : fmt::format("{} models of the kind ", count);
      warnings_.pass_over_numbers("{}{}: the numbers of this kind of model are not shown", many, kind);
    }
  }

  Result<void> add_step(std::string kind) {
    if (steps_.size() == kMaxInlineList) return {};
    TRY_VOID(container_.budget->charge(Cost::value));
    steps_.emplace_back(std::move(kind));
    return {};
  }

  // Its models are scopes: their numbers.
  Result<void> pipeline(const Message& message, const std::string& scope) {
    uint64_t index = 0;
    Fields fields(scanner_, message);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != pipeline::kModel) continue;
      const Message child = TRY(scanner_.child(message, *field));
      TRY_VOID(container_.budget->charge(Cost::input, scope.size()));
      TRY_VOID(model(child, fmt::format("{}{}{}", scope, scope.empty() ? "" : "/", index++)));
    }
    return {};
  }

  Result<void> description(const Message& message) {
    TRY_VOID(features("inputs", message, description::kInput));
    TRY_VOID(features("outputs", message, description::kOutput));
    const Message metadata = TRY(scanner_.message_at(message, description::kMetadata));
    Fields fields(scanner_, metadata);
    while (const auto field = TRY(fields.next())) {
      if (field->tag == metadata::kShortDescription) TRY_VOID(common("description", *field));
      if (field->tag == metadata::kVersion) TRY_VOID(common("version", *field));
      if (field->tag == metadata::kAuthor) TRY_VOID(common("author", *field));
      if (field->tag == metadata::kLicense) TRY_VOID(common("license", *field));
      if (field->tag == metadata::kUserDefined) TRY_VOID(user_defined(metadata, *field));
    }
    user_.keep_last_of_each_key();
    if (!user_.empty()) header_.set("user_defined", std::move(user_));
    return {};
  }

  Result<void> common(const char* key, const Field& field) {
    TRY_VOID(container_.budget->charge(Cost::kept, 2 * field.bytes.size()));
    const std::string text = TRY(scanner_.text(field.bytes, kMaxText));
    if (text.empty()) return {};
    out_.common.set(key, text);
    header_.set(key, text);
    return {};
  }

  Result<void> user_defined(const Message& metadata, const Field& field) {
    TRY_VOID(container_.budget->charge(Cost::value, 2));
    TRY_VOID(container_.budget->charge(Cost::kept, field.bytes.size()));
    const Message entry = TRY(scanner_.child(metadata, field));
    std::string key = TRY(scanner_.text_at(entry, entry::kKey, kMaxText));
    std::string value = TRY(scanner_.text_at(entry, entry::kValue, kMaxText));
    user_.append(std::move(key), std::move(value));
    return {};
  }

  // The names and descriptions of the inputs or outputs.
  Result<void> features(const char* key, const Message& message, uint32_t tag) {
    List list;
    Fields fields(scanner_, message);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != tag || list.size() == kMaxInlineList) continue;
      TRY_VOID(container_.budget->charge(Cost::value, 5));
      TRY_VOID(container_.budget->charge(Cost::kept, field->bytes.size()));
      const Message feature = TRY(scanner_.child(message, *field));
      std::string name = TRY(scanner_.text_at(feature, description::kFeatureName, kMaxText));
      std::string about = TRY(scanner_.text_at(feature, description::kFeatureDescription, kMaxText));
      Map shown;
      shown.append("name", std::move(name));
      if (!about.empty()) shown.append("description", std::move(about));
      list.emplace_back(std::move(shown));
    }
    if (!list.empty()) header_.set(key, std::move(list));
    return {};
  }

  const Container& container_;
  Model out_;
  Scanner scanner_;
  BlobFiles blobs_;
  ProgramReader programs_;
  NetworkReader networks_;
  Warnings warnings_;
  CodeList code_;                           // custom models
  std::map<std::string, uint64_t> others_;  // kinds of models whose numbers are not read, and how many
  Map header_;
  Map user_;
  List steps_;  // the kinds of the models in pipelines
};

Result<Model> read(const Container& container) {
  const bool is_package = container.name == kManifest;
  if (is_package && container.bytes->size() > kMaxManifestSize)
    return failure(Code::unsupported, fmt::format("a manifest of {} bytes", container.bytes->size()));
  Root root{container.bytes, container.name, ""};
  if (is_package) root = TRY(root_of_package(container));
  Model model = TRY(ModelReader(container, root).read());
  std::vector<Part> parts;
  parts.push_back(
      {.path = container.name, .source = Later<SourcePtr>::of(container.bytes), .is_structure = is_package});
  if (is_package) parts.push_back({root.path, Later<SourcePtr>::of(root.file)});
  model.parts.insert(model.parts.begin(), parts.begin(), parts.end());
  return model;
}

}  // namespace
}  // namespace coreml

Result<bool> is_coreml_manifest(const SourcePtr& manifest) {
  const auto keys = outline(*manifest, coreml::kMaxManifestSize);
  if (!keys && !is_about_the_bytes(keys.error())) return tl::unexpected(keys.error());
  return keys && holds<std::string>(*keys, "rootModelIdentifier") && holds<Map>(*keys, "itemInfoEntries");
}

// A package's manifest, or the fields of a model: its version, its description, and its kind.
Match matches_coreml(const Probe& probe) {
  if (probe.name == coreml::kManifest && probe.begins_json_object())
    return probe.head_contains("\"rootModelIdentifier\"") || probe.head_contains("\"itemInfoEntries\"") ? Match::yes
                                                                                                        : Match::no;
  const SourcePtr head = in_memory(std::string(probe.head));
  protobuf::Scanner scanner(*head, nullptr);
  uint64_t at = 0;
  bool has_version = false;
  while (at < probe.head.size()) {
    const auto tag = scanner.number(at, probe.head.size(), protobuf::WireType::varint);
    if (!tag || *tag > UINT32_MAX || !coreml::is_model_field(static_cast<uint32_t>(*tag))) return Match::no;
    if (coreml::is_kind(static_cast<uint32_t>(*tag))) return has_version ? Match::maybe : Match::no;
    has_version = has_version || *tag == coreml::model::kSpecificationVersion;
    const auto value = scanner.number(at, probe.head.size(), protobuf::WireType::varint);
    if (!value) return Match::no;
    if (*tag != coreml::model::kDescription) continue;
    if (*value > probe.size - at) return Match::no;
    at += *value;
  }
  return has_version && probe.head.size() < probe.size ? Match::maybe : Match::no;
}

Result<Model> read_coreml(const Container& container) { return coreml::read(container); }

}  // namespace weightfs
