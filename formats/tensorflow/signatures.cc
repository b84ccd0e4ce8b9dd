#include "formats/tensorflow/signatures.h"

#include <algorithm>
#include <utility>

#include "formats/common/limits.h"
#include "formats/model.h"
#include "formats/tensorflow/fields.h"
#include "formats/tensorflow/shape.h"
#include "formats/tensorflow/types.h"

namespace weightfs::tensorflow {
namespace {

// Reads one MetaGraphDef.
class MetaReader {
 public:
  MetaReader(Scanner& scanner, Budget& budget) : scanner_(scanner), charges_(budget) {}

  Result<Map> read(const Message& meta_graph) {
    Fields fields(scanner_, meta_graph);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != meta_graph::kInfo && field->tag != meta_graph::kSignature && field->tag != meta_graph::kAsset)
        continue;
      const Message child = TRY(scanner_.child(meta_graph, *field));
      if (field->tag == meta_graph::kInfo) TRY_VOID(info(child));
      if (field->tag == meta_graph::kSignature) TRY_VOID(signature(child));
      if (field->tag != meta_graph::kAsset || assets_.size() == kMaxInlineList) continue;
      std::string name = TRY(text_at(child, asset::kFileName));
      assets_.emplace_back(std::move(name));
    }
    if (!tags_.empty()) out_.append("tags", std::move(tags_));
    if (!version_.empty()) out_.append("tensorflow_version", std::move(version_));
    if (!git_version_.empty()) out_.append("git_version", std::move(git_version_));
    if (!signatures_.empty()) out_.append("signatures", std::move(signatures_));
    if (!assets_.empty()) out_.append("assets", std::move(assets_));
    charges_.keep();
    return std::move(out_);
  }

 private:
  Result<std::string> text(const Field& field) {
    TRY_VOID(charges_.charge(Cost::value, 2));
    TRY_VOID(charges_.charge(Cost::kept, field.bytes.size()));
    return scanner_.text(field.bytes, kMaxNameLength);
  }

  Result<std::string> text_at(const Message& message, uint32_t tag) {
    std::string found;
    Fields fields(scanner_, message);
    while (const auto field = TRY(fields.next()))
      if (field->tag == tag) found = TRY(text(*field));
    return found;
  }

  Result<void> info(const Message& info) {
    Fields fields(scanner_, info);
    while (const auto field = TRY(fields.next())) {
      if (field->tag == info::kVersion) version_ = TRY(text(*field));
      if (field->tag == info::kGitVersion) git_version_ = TRY(text(*field));
      if (field->tag != info::kTag || tags_.size() == kMaxInlineList) continue;
      std::string tag = TRY(text(*field));
      tags_.emplace_back(std::move(tag));
    }
    return {};
  }

  // An entry of the map of signatures.
  Result<void> signature(const Message& entry) {
    if (signatures_.size() == kMaxInlineList) return {};
    std::string name = TRY(text_at(entry, entry::kKey));
    const Message value = TRY(scanner_.message_at(entry, entry::kValue));
    List inputs;
    List outputs;
    Fields fields(scanner_, value);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != signature::kInputs && field->tag != signature::kOutputs) continue;
      List& ends = field->tag == signature::kInputs ? inputs : outputs;
      if (ends.size() == kMaxInlineList) continue;
      const Message child = TRY(scanner_.child(value, *field));
      Map end = TRY(end_of(child));
      ends.emplace_back(std::move(end));
    }
    std::string method = TRY(text_at(value, signature::kMethod));
    Map out;
    out.append("name", std::move(name));
    out.append("method", std::move(method));
    out.append("inputs", std::move(inputs));
    out.append("outputs", std::move(outputs));
    signatures_.emplace_back(std::move(out));
    return {};
  }

  // An entry of the map of inputs or outputs: a name with a TensorInfo.
  Result<Map> end_of(const Message& entry) {
    StoredValue value;
    value.name = TRY(text_at(entry, entry::kKey));
    const Message info = TRY(scanner_.message_at(entry, entry::kValue));
    std::string tensor;
    Fields fields(scanner_, info);
    while (const auto field = TRY(fields.next())) {
      if (field->tag == tensor_info::kName) tensor = TRY(text(*field));
      if (field->tag == tensor_info::kDataType) value.data_type = field->value;
      if (field->tag == tensor_info::kShape) TRY_VOID(scanner_.merge(value.shape, info, *field));
    }
    Map out = TRY(describe_value(scanner_, value, charges_));
    out.append("tensor", std::move(tensor));
    return out;
  }

  Scanner& scanner_;
  Charges charges_;
  Map out_;
  List tags_;
  std::string version_;
  std::string git_version_;
  List signatures_;
  List assets_;
};

}  // namespace

Result<Map> describe_value(Scanner& scanner, const StoredValue& value, Charges& charges) {
  TRY_VOID(charges.charge(Cost::value, 8));
  TRY_VOID(charges.charge(Cost::kept, value.name.size()));
  Map out;
  out.append("name", value.name);
  out.append("dtype", dtype_name(value.data_type));
  if (value.shape.absent()) return out;
  const StoredShape shape = TRY(read_shape(scanner, value.shape));
  if (shape.has_unknown_rank) return out;
  TRY_VOID(charges.charge(Cost::value, shape.sizes.size()));
  List sizes;
  for (const int64_t size : shape.sizes) sizes.emplace_back(size);
  out.append("shape", std::move(sizes));
  return out;
}

Result<Map> describe_meta_graph(Scanner& scanner, const Message& meta_graph, Budget& budget) {
  return MetaReader(scanner, budget).read(meta_graph);
}

const Map* main_signature(const Map& meta_graph) {
  const Map* first = nullptr;
  const auto* const all = meta_graph.find_as<List>("signatures");
  if (all == nullptr) return nullptr;
  for (const Value& each : *all) {
    const Map* const signature = std::get_if<Map>(&each);
    const std::string_view name = text_in(*signature, "name");
    if (name == "serving_default") return signature;
    if (first == nullptr && name != "__saved_model_init_op") first = signature;
  }
  return first;
}

}  // namespace weightfs::tensorflow
