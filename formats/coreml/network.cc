#include "formats/coreml/network.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "formats/code/operators.h"
#include "formats/common/limits.h"
#include "formats/coreml/fields.h"
#include "formats/protobuf/dimensions.h"

namespace weightfs::coreml {
namespace {

// NeuralNetwork, NeuralNetworkClassifier, NeuralNetworkRegressor
constexpr uint32_t kLayer = bytes(1);
constexpr uint32_t kStringLabels = bytes(100);
constexpr uint32_t kNumberLabels = bytes(101);

// NeuralNetworkLayer
constexpr uint32_t kName = bytes(1);
constexpr uint32_t kFirstType = 100;
constexpr uint32_t kActivation = 130;
constexpr uint32_t kLstm = 420;
constexpr uint32_t kBidirectionalLstm = 430;
constexpr uint32_t kCustom = 500;
constexpr uint32_t kBranch = 605;
constexpr uint32_t kLoop = 615;

// ActivationParams
constexpr uint32_t kPRelu = bytes(25);
constexpr uint32_t kParametricSoftplus = bytes(71);

constexpr uint32_t kLstmWeights = bytes(20);

// The most numbers in a list of scales that are shown.
constexpr size_t kMaxScales = 1024;

}  // namespace

Result<void> NetworkReader::network(const Message& network, const std::string& scope) {
  TRY_VOID(container_.budget->charge(Cost::input, scope.size()));
  Fields fields(scanner_, network);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != kLayer && field->tag != kStringLabels && field->tag != kNumberLabels) continue;
    const Message child = TRY(scanner_.child(network, *field));
    TRY_VOID(field->tag == kLayer ? layer(child, scope) : labels(child, field->tag));
  }
  return {};
}

Result<void> NetworkReader::layer(const Message& layer, const std::string& scope) {
  const std::string name = TRY(scanner_.text_at(layer, kName, kMaxNameLength));
  const std::string path = fmt::format("{}{}{}", scope, scope.empty() ? "" : "/", name);
  TRY_VOID(container_.budget->charge(Cost::input, path.size()));
  Fields fields(scanner_, layer);
  while (const auto field = TRY(fields.next())) {
    const uint32_t number = field->number();
    if (number < kFirstType || field->tag != bytes(number)) continue;
    const std::string type = layer_name(number);
    if (!operators_.contains(type)) TRY_VOID(container_.budget->charge(Cost::kept, 256));
    ++operators_[type];
    const Message child = TRY(scanner_.child(layer, *field));
    if (number == kBranch) {
      TRY_VOID(inner(child, 1, path, "if"));
      TRY_VOID(inner(child, 2, path, "else"));
    } else if (number == kLoop) {
      TRY_VOID(inner(child, 3, path, "condition"));
      TRY_VOID(inner(child, 4, path, "body"));
    } else {
      const std::string_view kept = TRY(scopes_.add(scope, *container_.budget));
      TRY_VOID(parameters(number, child, {name, kept}));
    }
  }
  return {};
}

// A network in a layer.
Result<void> NetworkReader::inner(const Message& message, uint32_t field, const std::string& scope,
                                  std::string_view name) {
  const Message body = TRY(scanner_.message_at(message, bytes(field)));
  return body.absent() ? Result<void>() : network(body, fmt::format("{}/{}", scope, name));
}

Result<void> NetworkReader::parameters(uint32_t number, const Message& message, const Place& place) {
  if (number == kActivation) return activation(message, place);
  if (number == kLstm || number == kBidirectionalLstm) return lstm(message, number == kBidirectionalLstm, place);
  if (number == kCustom) return custom(message, place);
  return fields(message, weight_fields(number), Parameters(scanner_, message), place);
}

// The code is a class of the app, and each of the weights has a number.
Result<void> NetworkReader::custom(const Message& message, const Place& place) {
  code::add_class_of_app("custom layer", TRY(scanner_.text_at(message, kClassName, kMaxNameLength)), code_);
  uint64_t index = 0;
  const WeightField& weights = weight_fields(kCustom).front();
  Fields fields(scanner_, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != bytes(weights.number)) continue;
    Message child = TRY(scanner_.child(message, *field));
    TRY_VOID(
        add(std::move(child), fmt::format("{}.{}.{}", place.layer, weights.name, index++), std::nullopt, place.scope));
  }
  return {};
}

Result<void> NetworkReader::activation(const Message& message, const Place& place) {
  for (const uint32_t tag : {kPRelu, kParametricSoftplus}) {
    const Message form = TRY(scanner_.message_at(message, tag));
    for (const auto& [field, name] : {std::pair(1U, "alpha"), std::pair(2U, "beta")}) {
      if (tag == kPRelu && field == 2) continue;
      Message weights = TRY(scanner_.message_at(form, bytes(field)));
      TRY_VOID(add(std::move(weights), fmt::format("{}.{}", place.layer, name), std::nullopt, place.scope));
    }
  }
  return {};
}

// One set of weights, or one for each direction.
Result<void> NetworkReader::lstm(const Message& message, bool is_bidirectional, const Place& place) {
  const Parameters layer(scanner_, message);
  if (!is_bidirectional) {
    const Message weights = TRY(scanner_.message_at(message, kLstmWeights));
    return fields(weights, lstm_fields(), layer, place);
  }
  uint64_t index = 0;
  Fields sets(scanner_, message);
  while (const auto field = TRY(sets.next())) {
    if (field->tag != kLstmWeights) continue;
    if (index == 2) return failure(Code::corrupt, "more than two sets of weights of a bidirectional LSTM");
    const Message weights = TRY(scanner_.child(message, *field));
    TRY_VOID(fields(weights, lstm_fields(), layer, {fmt::format("{}.{}", place.layer, index++), place.scope}));
  }
  return {};
}

Result<void> NetworkReader::fields(const Message& message, std::span<const WeightField> weights,
                                   const Parameters& layer, const Place& place) {
  for (const WeightField& field : weights) {
    Message child = TRY(scanner_.message_at(message, bytes(field.number)));
    if (child.absent()) continue;
    const auto shape = field.shape(layer);
    TRY_VOID(add(std::move(child), fmt::format("{}.{}", place.layer, field.name), shape, place.scope));
  }
  return {};
}

namespace {

// What the numbers of 8 bits with one scale mean; nothing for fewer bits, for scales of channels and for tables.
std::optional<AffineNumbers> numbers_of(const Map& quantization, const Tensor& tensor) {
  const auto only = [&](std::string_view key) -> std::optional<double> {
    const auto* const list = quantization.find_as<List>(key);
    const auto* const number = list == nullptr || list->size() != 1 ? nullptr : std::get_if<double>(&list->front());
    return number == nullptr ? std::nullopt : std::optional<double>(static_cast<float>(*number));
  };
  const auto scale = only("scale"), bias = only("bias");
  const auto* const biases = quantization.find_as<List>("bias");
  const bool has_bias = biases != nullptr && !biases->empty();
  if (!scale || (has_bias && !bias) || tensor.source.refused() || tensor.dtype->name != "uint8") return std::nullopt;
  if (quantization.find("lookup_table") != nullptr) return std::nullopt;
  return AffineNumbers{.scale = *scale, .offset = bias.value_or(0)};
}

}  // namespace

// Adds a tensor if its message has values.
Result<void> NetworkReader::add(Message message, std::string name, const Result<std::optional<Shape>>& shape,
                                std::string_view scope) {
  const StoredWeights weights = TRY(read_weights(scanner_, std::move(message)));
  if (!weights.has_values()) return {};
  TRY_VOID(container_.budget->charge(Cost::tensor));
  TRY_VOID(container_.budget->charge(Cost::kept, name.size() + sizeof(uint64_t) * 8));
  Tensor tensor{
      .name = std::move(name), .dtype = &kUnknownDType, .stored_dtype = "", .scope = scope, .shape = {}, .source = {}};
  const auto place = [&]() -> Result<void> { return place_weights(weights, TRY(shape), file_, scanner_, tensor); };
  if (const auto placed = place(); !placed && !is_about_the_bytes(placed.error()))
    return tl::unexpected(placed.error());
  else if (!placed)
    warnings_.refuse(placed.error().code, "tensor {}: {}: refused", quoted(tensor.name), placed.error().message);
  if (!weights.quantization.absent() && quantization_.size() < kMaxInlineList) {
    Map shown;
    shown.append("name", tensor.name);
    const Map quantization = TRY(quantization_of(weights, std::min(kMaxScales, scales_left_), scanner_));
    if (const auto numbers = numbers_of(quantization, tensor))
      out_.per_tensor.edit().affine_numbers.emplace(out_.tensors.size(), *numbers);
    for (const auto& [key, value] : quantization) {
      if (const auto* const list = std::get_if<List>(&value)) scales_left_ -= std::min(scales_left_, list->size());
      shown.append(key, value);
    }
    quantization_.emplace_back(std::move(shown));
  }
  out_.tensors.push_back(tensor);
  return {};
}

// Texts, or packed numbers, in field 1.
Result<void> NetworkReader::labels(const Message& message, uint32_t tag) {
  Fields fields(scanner_, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != bytes(1) && field->tag != varint(1)) continue;
    const bool is_text = tag == kStringLabels;
    if (is_text && ++labels_count_ <= kMaxInlineList) {
      TRY_VOID(container_.budget->charge(Cost::value));
      TRY_VOID(container_.budget->charge(Cost::kept, field->bytes.size()));
      labels_.emplace_back(TRY(scanner_.text(field->bytes, kMaxNameLength)));
    }
    if (is_text) continue;
    for (uint64_t at = field->bytes.begin; at < field->bytes.end; ++labels_count_) {
      const uint64_t number = TRY(scanner_.number(at, field->bytes.end, WireType::varint));
      if (labels_count_ >= kMaxInlineList) continue;
      TRY_VOID(container_.budget->charge(Cost::value));
      labels_.emplace_back(static_cast<int64_t>(number));
    }
  }
  return {};
}

void NetworkReader::finish(Warnings& warnings) {
  Map counts;
  for (const auto& [name, count] : operators_) counts.append(name, count);
  if (!counts.empty()) out_.metadata.set("operators", std::move(counts));
  if (labels_count_ > kMaxInlineList)
    out_.metadata.set("class_labels", fmt::format("{} labels", labels_count_));
  else if (!labels_.empty())
    out_.metadata.set("class_labels", std::move(labels_));
  if (!quantization_.empty()) out_.metadata.set("quantization", std::move(quantization_));
  std::move(code_).move_to(out_.common);
  warnings.append(warnings_, "");
}

}  // namespace weightfs::coreml
