#include "formats/ncnn/layers.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/text.h"

namespace weightfs::ncnn {
namespace {

using Kind = Array::Kind;

// Layers that read nothing.
constexpr auto kWithoutWeights = std::to_array<std::string_view>({
    "AbsVal",
    "ArgMax",
    "BNLL",
    "BinaryOp",
    "CELU",
    "Cast",
    "Clip",
    "Concat",
    "CopyTo",
    "Crop",
    "CumulativeSum",
    "DeepCopy",
    "DetectionOutput",
    "Diag",
    "Dropout",
    "ELU",
    "Einsum",
    "Eltwise",
    "Erf",
    "Exp",
    "ExpandDims",
    "Flatten",
    "Flip",
    "Fold",
    "GELU",
    "GLU",
    "GridSample",
    "HardSigmoid",
    "HardSwish",
    "Input",
    "Interp",
    "InverseSpectrogram",
    "LRN",
    "Log",
    "MVN",
    "MatMul",
    "Mish",
    "Noop",
    "PSROIPooling",
    "Packing",
    "Permute",
    "PixelShuffle",
    "Pooling",
    "Pooling1D",
    "Pooling3D",
    "Power",
    "PriorBox",
    "Proposal",
    "ROIAlign",
    "ROIPooling",
    "ReLU",
    "Reduction",
    "Reorg",
    "Reshape",
    "RotaryEmbed",
    "SDPA",
    "SELU",
    "SPP",
    "Shrink",
    "ShuffleChannel",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Softplus",
    "Spectrogram",
    "Split",
    "Squeeze",
    "StatisticsPooling",
    "Swish",
    "TanH",
    "Threshold",
    "Tile",
    "UnaryOp",
    "Unfold",
    "Yolov3DetectionOutput",
    "YoloDetectionOutput",
});

constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

// Collects the arrays of one layer.
class Collector {
 public:
  explicit Collector(const Layer& layer) : layer_(layer) {}

  /// The result. Fails with corrupt if a size was not valid.
  Result<LayerArrays> take() {
    if (invalid_) return failure(Code::corrupt, fmt::format("layer {}: a size of {}", quoted(layer_.name), *invalid_));
    return std::move(found_);
  }

  int64_t at(int id, int64_t absent = 0) const { return layer_.at(id, absent); }

  /// A size, which is checked.
  uint64_t size(int64_t value) {
    if (value <= 0 || value > kMaxSize) invalid_ = invalid_.value_or(value);
    return static_cast<uint64_t>(std::clamp<int64_t>(value, 1, kMaxSize));
  }
  uint64_t size_at(int id, int64_t absent = 0) { return size(at(id, absent)); }

  void flagged(std::string_view field, Shape shape) { add(field, std::move(shape), Kind::flagged); }
  void plain(std::string_view field, Shape shape) { add(field, std::move(shape), Kind::plain); }
  void add(std::string_view field, Shape shape, Kind kind) { found_.arrays.push_back({field, std::move(shape), kind}); }

  /// An array whose size may be 0: then it is not there.
  void plain_at(std::string_view field, int id, int64_t absent = 0) {
    if (at(id, absent) != 0) plain(field, {size_at(id, absent)});
  }

  /// The layer reads more, of unknown size.
  void reads_more() { found_.is_complete = false; }

 private:
  const Layer& layer_;
  LayerArrays found_;
  std::optional<int64_t> invalid_;
};

// [outputs, inputs, kernel…] if that is the number of elements, else flat.
Shape filters(uint64_t elements, uint64_t outputs, std::initializer_list<uint64_t> kernel) {
  uint64_t inputs = elements;
  Shape shape = {outputs, 0};
  if (inputs % outputs != 0) return {elements};
  inputs /= outputs;
  for (const uint64_t size : kernel) {
    if (inputs % size != 0) return {elements};
    inputs /= size;
    shape.push_back(size);
  }
  shape[1] = inputs;
  return shape;
}

// Scales of 8-bit weights and of the inputs. A value above 100 is that of the next layer's, too.
void add_scales(Collector& out, uint64_t weights) {
  const int64_t term = out.at(8);
  if (term == 0) return;
  out.plain("weight_int8_scales", {weights});
  out.plain("bottom_int8_scale", {1});
  if (term > 100) out.plain("top_int8_scale", {1});
}

// Convolution, Deconvolution and their variants: 0 outputs, 1, 11 and 21 kernel, 5 bias, 6 size, 7 groups, 8 scales.
void convolution(std::string_view type, Collector& out) {
  const bool is_transposed = type.starts_with("Deconvolution");
  const bool is_deep = type.find("3D") != type.npos;
  const bool is_flat = type.ends_with("1D");
  if (!is_deep && out.at(is_transposed ? 28 : 19) != 0) return;  // the weights are computed
  const uint64_t outputs = out.size_at(0), elements = out.size_at(6), width = out.size_at(1);
  const uint64_t height = is_flat ? 1 : out.size(out.at(11, static_cast<int64_t>(width)));
  if (is_flat)
    out.flagged("weight", filters(elements, outputs, {width}));
  else if (is_deep)
    out.flagged("weight",
                filters(elements, outputs, {out.size(out.at(21, static_cast<int64_t>(width))), height, width}));
  else
    out.flagged("weight", filters(elements, outputs, {height, width}));
  if (out.at(5) != 0) out.plain("bias", {outputs});
  if (type == "Convolution") add_scales(out, outputs);
  if (type == "ConvolutionDepthWise") add_scales(out, out.at(8) % 100 == 1 ? out.size_at(7, 1) : 1);
}

void inner_product(Collector& out) {
  const uint64_t outputs = out.size_at(0), elements = out.size_at(2);
  out.flagged("weight", filters(elements, outputs, {}));
  if (out.at(1) != 0) out.plain("bias", {outputs});
  add_scales(out, outputs);
}

void batch_norm(Collector& out) {
  for (const char* const field : {"slope", "mean", "var", "bias"}) out.plain(field, {out.size_at(0)});
}

void scale(Collector& out) {
  constexpr int64_t kIsInput = -233;
  if (out.at(0) == kIsInput) return;
  out.plain("scale", {out.size_at(0)});
  if (out.at(1) != 0) out.plain("bias", {out.size_at(0)});
}

void embed(Collector& out) {
  const uint64_t width = out.size_at(0), elements = out.size_at(3);
  out.flagged("weight", elements % width == 0 ? Shape{elements / width, width} : Shape{elements});
  if (out.at(2) != 0) out.plain("bias", {width});
  if (out.at(18) != 0) out.plain("weight_int8_scale", {1});
}

// Norms: the number of their elements, and whether they have parameters.
void norm(Collector& out, int size, int affine, bool has_beta) {
  if (out.at(affine, 1) == 0) return;
  out.plain("gamma", {out.size_at(size)});
  if (has_beta) out.plain("beta", {out.size_at(size)});
}

// LSTM, GRU and RNN: 0 outputs, 1 size, 2 direction, 3 hidden, 8 scales.
void recurrent(Collector& out, uint64_t gates, uint64_t biases) {
  constexpr int64_t kBoth = 2;
  const bool is_lstm = gates == 4;
  const uint64_t directions = out.at(2) == kBoth ? 2 : 1, outputs = out.size_at(0), elements = out.size_at(1);
  const uint64_t hidden = is_lstm ? out.size(out.at(3, static_cast<int64_t>(outputs))) : outputs;
  const uint64_t rows = gates * hidden;
  out.flagged("weight_xc", {directions, rows, elements / directions / rows});
  out.flagged("bias_c", {directions, biases, hidden});
  out.flagged("weight_hc", {directions, rows, outputs});
  if (hidden != outputs) out.flagged("weight_hr", {directions, outputs, hidden});
  if (out.at(8) == 0) return;
  out.plain("weight_xc_int8_scales", {directions, rows});
  out.plain("weight_hc_int8_scales", {directions, rows});
}

// 2 and 3: A and B are transposed; 4 to 6: A, B and C are constant; 7 to 9: M, N and K; 10: the form of C.
void gemm(Collector& out) {
  const auto matrix = [&](std::string_view field, int rows, int columns, bool is_transposed) {
    Shape shape = {out.size_at(rows), out.size_at(columns)};
    if (is_transposed) std::swap(shape[0], shape[1]);
    out.flagged(field, std::move(shape));
  };
  constexpr int kM = 7, kN = 8, kK = 9;
  if (out.at(4) != 0) matrix("A", kM, kK, out.at(2) != 0);
  if (out.at(5) != 0) matrix("B", kK, kN, out.at(3) != 0);
  if (out.at(6) != 0) {
    switch (out.at(10)) {
      case 0:
        out.flagged("C", {1});
        break;
      case 1:
        out.flagged("C", {out.size_at(kM)});
        break;
      case 2:
        out.flagged("C", {out.size_at(kM), 1});
        break;
      case 3:
        out.flagged("C", {out.size_at(kM), out.size_at(kN)});
        break;
      case 4:
        out.flagged("C", {1, out.size_at(kN)});
        break;
      default:
        break;
    }
  }
  if (out.at(18) != 0) out.reads_more();
}

// 0 width, 2 size, 3 and 4: width of the keys and values.
void attention(Collector& out) {
  const uint64_t width = out.size_at(0), elements = out.size_at(2);
  const auto own = static_cast<int64_t>(width);
  const uint64_t queries = out.size(static_cast<int64_t>(elements / width));
  out.flagged("q_weight", {width, queries});
  out.plain("q_bias", {width});
  out.flagged("k_weight", {width, out.size(out.at(3, own))});
  out.plain("k_bias", {width});
  out.flagged("v_weight", {width, out.size(out.at(4, own))});
  out.plain("v_bias", {width});
  out.flagged("out_weight", {queries, width});
  out.plain("out_bias", {queries});
  if (out.at(18) != 0) out.reads_more();
}

// 0 width, 1 height, 11 depth, 2 channels, 21 kind.
void memory_data(Collector& out) {
  Shape shape;
  for (const int id : {2, 11, 1, 0})
    if (out.at(id) != 0) shape.push_back(out.size_at(id));
  if (!shape.empty()) out.add("data", std::move(shape), out.at(21, 1) == 0 ? Kind::flagged : Kind::plain);
}

void quantisation(std::string_view type, Collector& out) {
  const bool is_both = type == "Requantize";
  out.plain_at(is_both ? "scale_in" : "scale", 0, 1);
  if (is_both) out.plain_at("scale_out", 1, 1);
  if (type != "Quantize") out.plain_at("bias", is_both ? 2 : 1);
}

constexpr auto kConvolutions = std::to_array<std::string_view>({
    "Convolution",
    "Convolution1D",
    "Convolution3D",
    "ConvolutionDepthWise",
    "ConvolutionDepthWise1D",
    "ConvolutionDepthWise3D",
    "Deconvolution",
    "Deconvolution1D",
    "Deconvolution3D",
    "DeconvolutionDepthWise",
    "DeconvolutionDepthWise1D",
    "DeconvolutionDepthWise3D",
    "DeformableConv2D",
});

struct Type {
  std::string_view name;
  void (*collect)(Collector& out);
};

constexpr auto kTypes = std::to_array<Type>({
    {"InnerProduct", inner_product},
    {"BatchNorm", batch_norm},
    {"Scale", scale},
    {"Bias", [](Collector& out) { out.plain_at("bias", 0); }},
    {"PReLU", [](Collector& out) { out.plain_at("slope", 0); }},
    {"Normalize", [](Collector& out) { out.plain_at("scale", 3); }},
    {"Padding", [](Collector& out) { out.plain_at("per_channel_pad", 6); }},
    {"Quantize", [](Collector& out) { quantisation("Quantize", out); }},
    {"Dequantize", [](Collector& out) { quantisation("Dequantize", out); }},
    {"Requantize", [](Collector& out) { quantisation("Requantize", out); }},
    {"Embed", embed},
    {"GroupNorm", [](Collector& out) { norm(out, 1, 3, true); }},
    {"InstanceNorm", [](Collector& out) { norm(out, 0, 2, true); }},
    {"LayerNorm", [](Collector& out) { norm(out, 0, 2, true); }},
    {"RMSNorm", [](Collector& out) { norm(out, 0, 2, false); }},
    {"LSTM", [](Collector& out) { recurrent(out, 4, 4); }},
    {"GRU", [](Collector& out) { recurrent(out, 3, 4); }},
    {"RNN", [](Collector& out) { recurrent(out, 1, 1); }},
    {"Gemm", gemm},
    {"MultiHeadAttention", attention},
    {"MemoryData", memory_data},
});

}  // namespace

Result<LayerArrays> arrays_of(const Layer& layer) {
  Collector out(layer);
  if (std::ranges::find(kWithoutWeights, layer.type) != kWithoutWeights.end()) return out.take();
  const auto type = std::ranges::find(kTypes, layer.type, &Type::name);
  if (std::ranges::find(kConvolutions, layer.type) != kConvolutions.end())
    convolution(layer.type, out);
  else if (type != kTypes.end())
    type->collect(out);
  else
    return LayerArrays{.arrays = {}, .is_complete = false, .is_known = false};
  return out.take();
}

}  // namespace weightfs::ncnn
