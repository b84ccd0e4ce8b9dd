#include "formats/code/operators.h"

#include <fmt/core.h>

#include <array>

#include "base/text.h"
#include "formats/code/names.h"

namespace weightfs::code {
namespace {

// Kernels of tensorflow/core/kernels that read or write files at run time, or call functions of Python. Not those of
// savers and of tables, which every SavedModel has.
constexpr auto kTensorFlow = std::to_array<std::string_view>({"ReadFile",
                                                              "WriteFile",
                                                              "MatchingFiles",
                                                              "PyFunc",
                                                              "PyFuncStateless",
                                                              "EagerPyFunc",
                                                              "WholeFileReader",
                                                              "WholeFileReaderV2",
                                                              "TextLineReader",
                                                              "TextLineReaderV2",
                                                              "FixedLengthRecordReader",
                                                              "FixedLengthRecordReaderV2",
                                                              "TFRecordReader",
                                                              "TFRecordReaderV2",
                                                              "LMDBReader",
                                                              "TextLineDataset",
                                                              "TFRecordDataset",
                                                              "TFRecordDatasetV2",
                                                              "FixedLengthRecordDataset",
                                                              "FixedLengthRecordDatasetV2",
                                                              "CSVDataset",
                                                              "CSVDatasetV2",
                                                              "SqlDataset",
                                                              "ExperimentalSqlDataset",
                                                              "MatchingFilesDataset",
                                                              "ExperimentalMatchingFilesDataset",
                                                              "SaveDataset",
                                                              "SaveDatasetV2",
                                                              "LoadDataset",
                                                              "DatasetToTFRecord",
                                                              "ExperimentalDatasetToTFRecord",
                                                              "SnapshotDataset",
                                                              "SnapshotDatasetV2",

                                                              "CreateSummaryFileWriter",
                                                              "CreateSummaryDbWriter",
                                                              "DebugIdentity",
                                                              "DebugIdentityV2",
                                                              "DebugIdentityV3",
                                                              "FileSystemSetConfiguration",
                                                              "GeneratorDataset",
                                                              "RpcCall",
                                                              "RpcClient",
                                                              "RpcServer"});

constexpr auto kDomains = std::to_array<std::string_view>(
    {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "ai.onnx.preview.training", "com.microsoft",
     "com.microsoft.nchwc", "com.microsoft.experimental", "com.microsoft.dml", "com.ms.internal.nhwc"});

// Namespaces of operators that torch itself registers, and libraries that only compute.
constexpr auto kNamespaces = std::to_array<std::string_view>({"aten",
                                                              "prim",
                                                              "prims",
                                                              "quantized",
                                                              "quantized_decomposed",
                                                              "sparse",
                                                              "mkldnn",
                                                              "mkldnn_prepacked",
                                                              "prepacked",
                                                              "xnnpack",
                                                              "onednn",
                                                              "inductor",
                                                              "profiler",
                                                              "static_runtime",
                                                              "rnn",
                                                              "fbgemm",
                                                              "_quantized",
                                                              "higher_order",
                                                              "_c10d_functional",
                                                              "symm_mem",
                                                              "rngprims",
                                                              "torchao",
                                                              "metal",
                                                              "metal_prepack",
                                                              "vulkan",
                                                              "vulkan_prepack",
                                                              "cudnn",
                                                              "cuda",
                                                              "rng_prims",
                                                              "torchvision",
                                                              "torchaudio",
                                                              "image",
                                                              "torch_scatter",
                                                              "torch_sparse",
                                                              "torch_cluster",
                                                              "torch_spline_conv",
                                                              "tensorexpr",
                                                              "nnapi",
                                                              "_nnapi",
                                                              "c10d",
                                                              "dist_rpc",
                                                              "tensorrt"});

// BuiltinOpResolver of TFLite, that of its reference kernels before 2020, and MicroMutableOpResolver.
constexpr auto kTflite = std::to_array<std::string_view>({"NumericVerify",
                                                          "Mfcc",
                                                          "AudioSpectrogram",
                                                          "TFLite_Detection_PostProcess",
                                                          "LayerNormLstm",
                                                          "Relu1",
                                                          "ethos-u",
                                                          "CIRCULAR_BUFFER",
                                                          "SignalDelay",
                                                          "SignalEnergy",
                                                          "SignalFftAutoScale",
                                                          "SignalFilterBank",
                                                          "SignalFilterBankLog",
                                                          "SignalFilterBankSpectralSubtraction",
                                                          "SignalFilterBankSquareRoot",
                                                          "SignalFramer",
                                                          "SignalIrfft",
                                                          "SignalOverlapAdd",
                                                          "SignalPCAN",
                                                          "SignalRfft",
                                                          "SignalStacker",
                                                          "SignalWindow"});

// What OpenVINO reads from opset6 although its version is "extension": ir_deserializer.cpp.
constexpr auto kOpenvinoExtensions = std::to_array<std::string_view>(
    {"ExperimentalDetectronDetectionOutput", "ExperimentalDetectronGenerateProposalsSingleImage",
     "ExperimentalDetectronPriorGridGenerator", "ExperimentalDetectronROIFeatureExtractor",
     "ExperimentalDetectronTopKROIs", "GRUCell", "RNNCell", "Proposal"});

// What transformations of OpenVINO and its Model Optimizer write.
constexpr auto kOpenvinoVersions =
    std::to_array<std::string_view>({"", "experimental", "ie_internal_opset", "gpu_opset", "util"});

// Namespaces of the kernels in ExecuTorch and its backends and extensions.
constexpr auto kExecutorch = std::to_array<std::string_view>(
    {"aten", "prim", "prims", "executorch_prim", "dim_order_ops", "quantized", "quantized_decomposed", "torchao",
     "llama", "et_vk", "cadence", "cortex_m", "tosa", "mlx", "torchvision", "torchaudio"});

// Functions of torch that read or write files.
constexpr auto kFiles = std::to_array<std::string_view>({"from_file", "save", "load"});

bool is_letter_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The name at the beginning of a text.
std::string_view name_at(std::string_view text) {
  size_t size = 0;
  while (size < text.size() && is_letter_of_name(text[size])) ++size;
  return text.substr(0, size);
}

constexpr const char* kCalled = "when the module is called";
constexpr const char* kGraphRuns = "when TensorFlow runs the graph";
constexpr const char* kLibraryLoaded = "when the runtime loads a library with the operator";

// Calls `take` with what follows each occurrence of a prefix, which ends with a dot and begins a name.
template <class Take>
void for_each_after(std::string_view source, std::string_view prefix, const Take& take) {
  for (size_t at = source.find(prefix); at != source.npos; at = source.find(prefix, at + 1)) {
    const bool begins = at == 0 || (!is_letter_of_name(source[at - 1]) && source[at - 1] != '.');
    if (begins) take(source.substr(at + prefix.size()));
  }
}

}  // namespace

void add_tensorflow(std::string_view op, std::string_view where, CodeList& out) {
  constexpr std::string_view kFlex = "Flex";
  const std::string_view plain = op.starts_with(kFlex) ? op.substr(kFlex.size()) : op;
  if (is_one_of(op, kTensorFlow) || is_one_of(plain, kTensorFlow))
    out.add({fmt::format("operator {}", op), std::string(where), kGraphRuns});
  else if (op.find('>') != op.npos)
    out.add({fmt::format("custom operator {}", op), std::string(where), kLibraryLoaded});
}

void add_printing_to(std::string_view stream, std::string_view where, CodeList& out) {
  if (stream.starts_with("file:"))
    out.add({fmt::format("operator PrintV2 to {}", stream), std::string(where), kGraphRuns});
}

bool is_custom_onnx(std::string_view domain, std::string_view type) {
  return type == "PyOp" || type == "PythonOp" || !is_one_of(domain, kDomains);
}

bool is_of_openvino(std::string_view version, std::string_view type) {
  constexpr std::string_view kOpset = "opset";
  if (version == "extension") return is_one_of(type, kOpenvinoExtensions);
  return is_one_of(version, kOpenvinoVersions) ||
         (version.starts_with(kOpset) && parse_number<uint32_t>(version.substr(kOpset.size())));
}

bool is_of_tflite(std::string_view custom_op) { return custom_op.starts_with("Flex") || is_one_of(custom_op, kTflite); }

bool is_namespace_of_executorch(std::string_view space) { return is_one_of(space, kExecutorch); }

void add_custom_operator(std::string_view op, CodeList& out) {
  out.add({fmt::format("custom operator {}", op), "", kLibraryLoaded});
}

void add_class_of_app(std::string_view what, std::string_view class_name, CodeList& out) {
  out.add({fmt::format("{}{}{}", what, class_name.empty() ? "" : " ", class_name), "",
           "when an app that has the class runs the model"});
}

void add_torchscript(std::string_view source, std::string_view file, CodeList& out) {
  for_each_after(source, "ops.", [&](std::string_view rest) {
    const std::string_view space = name_at(rest);
    if (space.empty() || !rest.substr(space.size()).starts_with('.')) return;
    const std::string_view function = name_at(rest.substr(space.size() + 1));
    const bool is_file = space == "aten" && is_one_of(function, kFiles);
    if (is_file || !is_one_of(space, kNamespaces))
      out.add(
          {fmt::format("{}operator {}::{}", is_file ? "" : "custom ", space, function), std::string(file), kCalled});
  });
  for_each_after(source, "torch.", [&](std::string_view rest) {
    const std::string_view function = name_at(rest);
    if (is_one_of(function, kFiles) && rest.substr(function.size()).starts_with('('))
      out.add({fmt::format("torch.{}", function), std::string(file), kCalled});
  });
  for_each_after(source, "__torch__.torch.classes.", [&](std::string_view rest) {
    const std::string_view space = name_at(rest);
    if (is_one_of(space, kNamespaces) || !rest.substr(space.size()).starts_with('.')) return;
    out.add(
        {fmt::format("custom class {}.{}", space, name_at(rest.substr(space.size() + 1))), std::string(file), kCalled});
  });
}

}  // namespace weightfs::code
