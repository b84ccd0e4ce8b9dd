#include "formats/code/operators.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

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

// Calls `take` with what follows each occurrence of a prefix, which ends with a dot and begins a name.
template <class Take>
void for_each_after(std::string_view source, std::string_view prefix, const Take& take) {
  for (size_t at = source.find(prefix); at != source.npos; at = source.find(prefix, at + 1)) {
    const bool begins = at == 0 || (!is_letter_of_name(source[at - 1]) && source[at - 1] != '.');
    if (begins) take(source.substr(at + prefix.size()));
  }
}

}  // namespace

bool is_active_tensorflow(std::string_view op) {
  if (op.starts_with("Flex")) op.remove_prefix(4);  // in a model of TFLite
  return is_one_of(op, kTensorFlow);
}

void add_tensorflow(std::string_view op, std::string_view where, CodeList& out) {
  out.add({fmt::format("operator {}", op), std::string(where), "when TensorFlow runs the graph"});
}

bool is_domain_of_onnx(std::string_view domain) { return is_one_of(domain, kDomains); }

void add_onnx(std::string_view op, CodeList& out) {
  out.add({fmt::format("custom operator {}", op), "", "when the runtime loads a library with the operator"});
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
