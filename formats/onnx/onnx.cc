// ONNX: one protobuf message ModelProto, without a magic number; large values may be in files beside it. As
// onnx.proto3, checker.cc and docs/ExternalData.md of ONNX 1.20 describe it.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "base/values/rendering.h"
#include "formats/format.h"
#include "formats/onnx/fields.h"
#include "formats/onnx/graph.h"
#include "formats/onnx/graph_json.h"
#include "formats/onnx/value_info.h"

namespace weightfs {
namespace onnx {
namespace {

// The maximum for a text of the metadata. Programs store whole vocabularies there.
constexpr uint64_t kMaxMetadataText = 64 << 20;

// The maximum for the inputs or outputs: before IR version 4 the initializers are among the inputs.
constexpr size_t kMaxValues = 16'384;

// The fields of ModelProto. A tag has one byte up to field 15, and two beyond.
constexpr std::array kModelFields = {
    model::kIrVersion,     model::kProducerName, model::kProducerVersion, model::kDomain,
    model::kModelVersion,  model::kDocString,    model::kGraph,           model::kOpsetImport,
    model::kMetadataProps, model::kTrainingInfo, model::kFunctions,       model::kConfiguration,
};

bool is_model_field(uint32_t tag) {
  return std::find(kModelFields.begin(), kModelFields.end(), tag) != kModelFields.end();
}

// The contents of a ModelProto.
class ModelReader {
 public:
  explicit ModelReader(const Container& container)
      : container_(container),
        scanner_(*container.bytes, container.budget.get()),
        whole_(scanner_.whole()),
        graphs_(container, scanner_, model_) {}

  Result<Model> read() {
    model_.format = "onnx";
    TRY_VOID(read_header());
    if (graph_.absent()) return failure(Code::corrupt, "no graph");
    TRY_VOID(graphs_.graph(graph_, ""));
    TRY_VOID(read_others());
    add_metadata();
    TRY_VOID(add_inputs_and_outputs());
    model_.parts.push_back({container_.name, Later<SourcePtr>::of(container_.bytes)});
    graphs_.finish();
    add_document();
    return std::move(model_);
  }

 private:
  Result<void> read_header() {
    Fields fields(scanner_, whole_);
    while (const auto field = TRY(fields.next())) TRY_VOID(header_field(*field));
    opsets_.keep_last_of_each_key();
    properties_.keep_last_of_each_key();
    return {};
  }

  Result<void> header_field(const Field& field) {
    switch (field.tag) {
      case model::kIrVersion:
        model_.version = fmt::format("IR {}", static_cast<int64_t>(field.value));
        header_.set("ir_version", static_cast<int64_t>(field.value));
        return {};
      case model::kModelVersion:
        header_.set("model_version", static_cast<int64_t>(field.value));
        return {};
      case model::kProducerName:
        return header_text("producer_name", field);
      case model::kProducerVersion:
        return header_text("producer_version", field);
      case model::kDomain:
        return header_text("domain", field);
      case model::kDocString:
        return header_text("doc_string", field);
      case model::kGraph:
        return scanner_.merge(graph_, whole_, field);
      case model::kOpsetImport:
      case model::kMetadataProps:
        return read_entry(field);
      default:
        return {};
    }
  }

  Result<std::string> text(const Field& field) {
    TRY_VOID(container_.budget->charge(Cost::kept, field.bytes.size()));
    return scanner_.text(field.bytes, kMaxMetadataText);
  }

  Result<void> header_text(const char* key, const Field& field) {
    if (field.bytes.empty()) return {};
    std::string value = TRY(text(field));
    header_.set(key, std::move(value));
    return {};
  }

  Result<void> read_entry(const Field& field) {
    const Message message = TRY(scanner_.child(whole_, field));
    return field.tag == model::kOpsetImport ? read_opset(message) : read_property(message);
  }

  Result<void> read_opset(const Message& message) {
    TRY_VOID(container_.budget->charge(Cost::value, 2));
    std::string domain;
    int64_t version = 0;
    Fields fields(scanner_, message);
    while (const auto field = TRY(fields.next())) {
      if (field->tag == opset::kDomain) domain = TRY(text(*field));
      if (field->tag == opset::kVersion) version = static_cast<int64_t>(field->value);
    }
    opsets_.append(domain.empty() ? "ai.onnx" : std::move(domain), version);
    return {};
  }

  Result<void> read_property(const Message& message) {
    TRY_VOID(container_.budget->charge(Cost::value, 2));
    std::string key;
    std::string value;
    Fields fields(scanner_, message);
    while (const auto field = TRY(fields.next())) {
      if (field->tag == entry::kKey) key = TRY(text(*field));
      if (field->tag == entry::kValue) value = TRY(text(*field));
    }
    properties_.append(std::move(key), std::move(value));
    return {};
  }

  // Functions and training graphs; their tensors come after those of the main graph.
  Result<void> read_others() {
    uint64_t trainings = 0;
    Fields fields(scanner_, whole_);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != model::kFunctions && field->tag != model::kTrainingInfo) continue;
      const Message child = TRY(scanner_.child(whole_, *field));
      const bool is_function = field->tag == model::kFunctions;
      TRY_VOID(is_function ? graphs_.function(child) : graphs_.training(child, trainings));
      ++(is_function ? functions_ : trainings);
    }
    return {};
  }

  void add_metadata() {
    for (const char* key : {"description", "license", "author", "version"})
      if (const Value* value = properties_.find(key)) model_.common.append(key, *value);
    if (const Value* doc = header_.find("doc_string")) model_.common.set("description", *doc);
    model_.metadata = std::move(header_);
    model_.metadata.append("opset_import", std::move(opsets_));
    model_.metadata.append("metadata_props", std::move(properties_));
    if (functions_ > 0) model_.metadata.append("functions", functions_);
  }

  // The inputs or outputs of the main graph.
  struct Ends {
    const char* key;
    uint32_t tag;
    List values = {};
    uint64_t count = 0;
  };

  // In one pass. An input with an initializer has a default value, or, in an old file, is a weight.
  Result<void> add_inputs_and_outputs() {
    TRY_VOID(container_.budget->charge(Cost::step, model_.tensors.size() / 4));
    std::vector<std::string_view> weights;  // sorted: names that collide would slow a hash table
    for (size_t i = 0; i < model_.tensors.size(); ++i)
      if (model_.tensors.scope(i).empty()) weights.push_back(model_.tensors.name(i));
    std::sort(weights.begin(), weights.end());
    std::array<Ends, 2> both = {Ends{"inputs", graph::kInput}, Ends{"outputs", graph::kOutput}};
    Charges charges(*container_.budget);
    Fields fields(scanner_, graph_);
    while (const auto field = TRY(fields.next())) {
      for (Ends& ends : both) {
        if (field->tag != ends.tag || ++ends.count > kMaxValues) continue;
        const Message child = TRY(scanner_.child(graph_, *field));
        Map value = TRY(describe_value(scanner_, child, charges));
        const std::string_view name = text_in(value, "name");
        const bool is_weight = ends.tag == graph::kInput && std::binary_search(weights.begin(), weights.end(), name);
        if (!is_weight) ends.values.emplace_back(std::move(value));
      }
    }
    for (Ends& ends : both) {
      if (ends.count > kMaxValues || ends.values.size() > kMaxInlineList)
        model_.metadata.append(ends.key, fmt::format("{} values: see graph.json", ends.count));
      else
        model_.metadata.append(ends.key, std::move(ends.values));
    }
    charges.keep();
    return {};
  }

  // graph.json takes more memory than the Model: it is rendered from the file when it is read.
  void add_document() {
    model_.documents.push_back({"graph.json", Later<SourcePtr>([file = container_.bytes, whole = whole_, graph = graph_,
                                                                budget = container_.budget]() -> Result<SourcePtr> {
                                  std::string text = TRY(graph_json(*file, whole, graph, *budget));
                                  return charged_text(std::move(text), budget);
                                })});
  }

  const Container& container_;
  Scanner scanner_;
  Message whole_;
  Model model_;
  GraphReader graphs_;
  Message graph_;
  Map header_;
  Map opsets_;
  Map properties_;
  uint64_t functions_ = 0;
};

}  // namespace
}  // namespace onnx

// No magic number: the fields at the beginning must be those of a ModelProto, as far as the head shows them. Files of
// that name may have fields of a later version.
Match matches_onnx(const Probe& probe) {
  const SourcePtr head = in_memory(std::string(probe.head));
  protobuf::Scanner scanner(*head, nullptr);
  uint64_t at = 0;
  while (at < probe.head.size()) {
    const auto tag = scanner.number(at, probe.head.size(), protobuf::WireType::varint);
    const bool is_named = probe.name.ends_with(".onnx");
    if (!tag || *tag > UINT32_MAX) return Match::no;
    if (!onnx::is_model_field(static_cast<uint32_t>(*tag)) && !is_named) return Match::no;
    if (*tag == onnx::model::kGraph || is_named) return Match::maybe;
    const auto value = scanner.number(at, probe.head.size(), protobuf::WireType::varint);
    if (!value) return at >= probe.head.size() && probe.head.size() < probe.size ? Match::maybe : Match::no;
    const bool is_bytes = static_cast<protobuf::WireType>(*tag & 7) == protobuf::WireType::bytes;
    if (is_bytes && *value > probe.size - at) return Match::no;
    if (is_bytes) at += *value;
  }
  return probe.head.size() < probe.size ? Match::maybe : Match::no;
}

Result<Model> read_onnx(const Container& container) { return onnx::ModelReader(container).read(); }

}  // namespace weightfs
