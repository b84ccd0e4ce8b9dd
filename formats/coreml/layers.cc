#include "formats/coreml/layers.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "formats/protobuf/dimensions.h"

namespace weightfs::coreml {
namespace {

using protobuf::bytes;
using protobuf::Fields;
using protobuf::varint;

using MaybeShape = Result<std::optional<Shape>>;

MaybeShape flat(const Parameters&) { return std::nullopt; }

// [the number in one field, that in another one]
template <uint32_t first, uint32_t second>
MaybeShape matrix(const Parameters& layer) {
  const uint64_t rows = TRY(layer.number(first));
  const uint64_t columns = TRY(layer.number(second));
  return Shape{rows, columns};
}

template <uint32_t field>
MaybeShape vector(const Parameters& layer) {
  return Shape{TRY(layer.number(field))};
}

template <uint32_t field>
MaybeShape listed(const Parameters& layer) {
  return TRY(layer.list(field));
}

// [outputs, inputs of a group, height, width], and of a deconvolution [inputs, outputs of a group, height, width].
MaybeShape convolution(const Parameters& layer) {
  const uint64_t outputs = TRY(layer.number(1));
  const uint64_t inputs = TRY(layer.number(2));
  const uint64_t groups = TRY(layer.number(10, 1));
  const Shape kernel = TRY(layer.list(20));
  const bool is_deconvolution = TRY(layer.number(60)) != 0;
  Shape shape = is_deconvolution ? Shape{inputs, outputs / groups} : Shape{outputs, inputs};
  for (size_t i = 0; i < 2; ++i) shape.push_back(kernel.size() == 2 ? kernel[i] : 3);
  return shape;
}

// [outputs, inputs of a group, depth, height, width]
MaybeShape convolution3d(const Parameters& layer) {
  const uint64_t groups = TRY(layer.number(10, 1));
  const uint64_t outputs = TRY(layer.number(1));
  const uint64_t inputs = TRY(layer.number(2));
  Shape shape{outputs, inputs / groups};
  for (const uint32_t size : {20U, 21U, 22U}) shape.push_back(TRY(layer.number(size)));
  return shape;
}

// These layers have the fields 1 inputVectorSize and 2 outputVectorSize.
constexpr auto kOfInput = matrix<2, 1>;
constexpr auto kOfState = matrix<2, 2>;
constexpr auto kOfGate = vector<2>;

constexpr auto kConvolution = std::to_array<WeightField>({{90, "weights", convolution}, {91, "bias", vector<1>}});
constexpr auto kConvolution3d = std::to_array<WeightField>({{60, "weights", convolution3d}, {61, "bias", vector<1>}});
constexpr auto kInnerProduct = std::to_array<WeightField>({{20, "weights", matrix<2, 1>}, {21, "bias", vector<2>}});
constexpr auto kBatchNorm = std::to_array<WeightField>(
    {{15, "gamma", vector<1>}, {16, "beta", vector<1>}, {17, "mean", vector<1>}, {18, "variance", vector<1>}});
constexpr auto kScale = std::to_array<WeightField>({{2, "scale", listed<1>}, {5, "bias", listed<4>}});
constexpr auto kBias = std::to_array<WeightField>({{2, "bias", listed<1>}});
constexpr auto kConstant = std::to_array<WeightField>({{2, "data", listed<1>}});
constexpr auto kRecurrent = std::to_array<WeightField>(
    {{30, "weightMatrix", kOfInput}, {31, "recursionMatrix", kOfState}, {32, "biasVector", kOfGate}});
constexpr auto kGru = std::to_array<WeightField>({
    {30, "updateGateWeightMatrix", kOfInput},
    {31, "resetGateWeightMatrix", kOfInput},
    {32, "outputGateWeightMatrix", kOfInput},
    {50, "updateGateRecursionMatrix", kOfState},
    {51, "resetGateRecursionMatrix", kOfState},
    {52, "outputGateRecursionMatrix", kOfState},
    {70, "updateGateBiasVector", kOfGate},
    {71, "resetGateBiasVector", kOfGate},
    {72, "outputGateBiasVector", kOfGate},
});
constexpr auto kLstmFields = std::to_array<WeightField>({
    {1, "inputGateWeightMatrix", kOfInput},
    {2, "forgetGateWeightMatrix", kOfInput},
    {3, "blockInputWeightMatrix", kOfInput},
    {4, "outputGateWeightMatrix", kOfInput},
    {20, "inputGateRecursionMatrix", kOfState},
    {21, "forgetGateRecursionMatrix", kOfState},
    {22, "blockInputRecursionMatrix", kOfState},
    {23, "outputGateRecursionMatrix", kOfState},
    {40, "inputGateBiasVector", kOfGate},
    {41, "forgetGateBiasVector", kOfGate},
    {42, "blockInputBiasVector", kOfGate},
    {43, "outputGateBiasVector", kOfGate},
    {60, "inputGatePeepholeVector", kOfGate},
    {61, "forgetGatePeepholeVector", kOfGate},
    {62, "outputGatePeepholeVector", kOfGate},
});
constexpr auto kMatmul = std::to_array<WeightField>({{8, "weights", matrix<5, 6>}, {9, "bias", vector<6>}});
constexpr auto kLayerNorm = std::to_array<WeightField>({{3, "gamma", listed<1>}, {4, "beta", listed<1>}});
constexpr auto kCustomFields = std::to_array<WeightField>({{20, "weights", flat}});

struct LayerType {
  uint32_t number;
  std::string_view name;
  std::span<const WeightField> weights = {};
};

constexpr auto kLayerTypes = std::to_array<LayerType>({
    {100, "convolution", kConvolution},
    {120, "pooling"},
    {130, "activation"},
    {140, "innerProduct", kInnerProduct},
    {150, "embedding", kInnerProduct},
    {160, "batchnorm", kBatchNorm},
    {165, "mvn"},
    {170, "l2normalize"},
    {175, "softmax"},
    {180, "lrn"},
    {190, "crop"},
    {200, "padding"},
    {210, "upsample"},
    {211, "resizeBilinear"},
    {212, "cropResize"},
    {220, "unary"},
    {230, "add"},
    {231, "multiply"},
    {240, "average"},
    {245, "scale", kScale},
    {250, "bias", kBias},
    {260, "max"},
    {261, "min"},
    {270, "dot"},
    {280, "reduce"},
    {290, "loadConstant", kConstant},
    {300, "reshape"},
    {301, "flatten"},
    {310, "permute"},
    {320, "concat"},
    {330, "split"},
    {340, "sequenceRepeat"},
    {345, "reorganizeData"},
    {350, "slice"},
    {400, "simpleRecurrent", kRecurrent},
    {410, "gru", kGru},
    {420, "uniDirectionalLSTM"},
    {430, "biDirectionalLSTM"},
    {500, "custom", kCustomFields},
    {600, "copy"},
    {605, "branch"},
    {615, "loop"},
    {1040, "embeddingND", kInnerProduct},
    {1045, "batchedMatmul", kMatmul},
    {1070, "loadConstantND", kConstant},
    {1350, "layerNormalization", kLayerNorm},
    {1471, "convolution3d", kConvolution3d},
});

const LayerType* find(uint32_t number) {
  const auto* const row = std::ranges::find(kLayerTypes, number, &LayerType::number);
  return row == kLayerTypes.end() ? nullptr : row;
}

}  // namespace

Result<uint64_t> Parameters::number(uint32_t field, uint64_t otherwise) const {
  uint64_t number = 0;
  Fields fields(scanner_, message_);
  while (const auto each = TRY(fields.next()))
    if (each->tag == varint(field)) number = each->value;
  return number == 0 ? otherwise : number;
}

Result<Shape> Parameters::list(uint32_t field) const {
  Shape shape;
  std::optional<std::string> problem;
  Fields fields(scanner_, message_);
  while (const auto each = TRY(fields.next()))
    if (each->tag == varint(field) || each->tag == bytes(field))
      TRY_VOID(protobuf::read_dimensions(scanner_, *each, shape, problem));
  if (problem) return failure(Code::corrupt, std::move(*problem));
  return shape;
}

std::string layer_name(uint32_t number) {
  const LayerType* const type = find(number);
  return type == nullptr ? fmt::format("layer {}", number) : std::string(type->name);
}

std::span<const WeightField> weight_fields(uint32_t number) {
  const LayerType* const type = find(number);
  return type == nullptr ? std::span<const WeightField>() : type->weights;
}

std::span<const WeightField> lstm_fields() { return kLstmFields; }

}  // namespace weightfs::coreml
