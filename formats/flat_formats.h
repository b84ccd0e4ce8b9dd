// The formats that are one file, with files beside it: one row each. Those in archives have theirs in
// archive/archive_formats.h. To add a format, add its functions and its row here.
#pragma once

#include <array>

#include "formats/format.h"

namespace weightfs {

// The functions of the rows, each format's in its file.
Match matches_gguf(const Probe& probe);
Result<Model> read_gguf(const Container& container);
Match matches_rten(const Probe& probe);
Result<Model> read_rten(const Container& container);
Match matches_safetensors(const Probe& probe);
Result<Model> read_safetensors(const Container& container);
Match matches_safetensors_index(const Probe& probe);
Result<Model> read_safetensors_index(const Container& container);
Match matches_bintensors(const Probe& probe);
Result<Model> read_bintensors(const Container& container);
Result<Model> read_bintensors_release(const Container& container);
Result<Model> read_bintensors_legacy(const Container& container);
Match matches_ggml(const Probe& probe);
Result<Model> read_ggml(const Container& container);
Match matches_flax(const Probe& probe);
Result<Model> read_flax(const Container& container);
Match matches_llamafile(const Probe& probe);
Result<Model> read_llamafile(const Container& container);
Match matches_npy(const Probe& probe);
Result<Model> read_npy(const Container& container);
Match matches_pytorch_legacy(const Probe& probe);
Result<Model> read_pytorch_legacy(const Container& container);
Match matches_pickle(const Probe& probe);
Result<Model> read_pickle(const Container& container);
Match matches_dcp(const Probe& probe);
Result<Model> read_dcp(const Container& container);  // named by its .metadata; the chunks are in files beside it
Match matches_zip(const Probe& probe);
Result<Model> read_zip(const Container& container);  // the formats in zips are rows of archive/archive_formats.h
Match matches_tar(const Probe& probe);
Result<Model> read_tar(const Container& container);
Match matches_tvm_params(const Probe& probe);
Result<Model> read_tvm_params(const Container& container);
Match matches_executorch(const Probe& probe);
Result<Model> read_executorch(const Container& container);
Match matches_tflite(const Probe& probe);
Result<Model> read_tflite(const Container& container);
Match matches_tensor_cache(const Probe& probe);
Result<Model> read_tensor_cache(const Container& container);  // named by its index
Match matches_onnx(const Probe& probe);
Result<Model> read_onnx(const Container& container);
Match matches_keras_sharded(const Probe& probe);
Result<Model> read_keras_sharded(const Container& container);  // named by its index
namespace hdf5 {
Result<std::optional<uint64_t>> find_signature(const Source& bytes, uint64_t begin, uint64_t end);
}
Match matches_hdf5(const Probe& probe);
Result<Model> read_hdf5(const Container& container);
Match matches_caffe(const Probe& probe);
Result<Model> read_caffe(const Container& container);
Match matches_coreml(const Probe& probe);
Result<bool> is_coreml_manifest(const SourcePtr& manifest);
Result<Model> read_coreml(const Container& container);  // a model, or a package, named by its manifest
Match matches_mxnet(const Probe& probe);
Result<Model> read_mxnet(const Container& container);
Match matches_mindspore(const Probe& probe);
Result<Model> read_mindspore(const Container& container);
Match matches_openvino(const Probe& probe);
Result<Model> read_openvino(const Container& container);  // named by its structure; the weights are beside it
Match matches_paddle(const Probe& probe);
Result<Model> read_paddle(const Container& container);
Match matches_tensorflow_checkpoint(const Probe& probe);
Result<Model> read_tensorflow_checkpoint(const Container& container);                    // named by its index
bool is_only_checkpoint(std::string_view index, const std::vector<std::string>& names);  // the only model there
Match matches_tensorflow_graph(const Probe& probe);
Result<Model> read_tensorflow_graph(const Container& container);
Match matches_ort(const Probe& probe);
Result<Model> read_ort(const Container& container);
Match matches_ncnn(const Probe& probe);
Result<Model> read_ncnn(const Container& container);  // a .param, with the .bin beside it
Match matches_darknet(const Probe& probe);
Result<Model> read_darknet(const Container& container);  // a .weights, with the .cfg beside it
Match matches_ctranslate2(const Probe& probe);
Result<Model> read_ctranslate2(const Container& container);
Match matches_nnef_tensor(const Probe& probe);
Result<Model> read_nnef_tensor(const Container& container);
Match matches_xgboost(const Probe& probe);
Result<Model> read_xgboost(const Container& container);
Match matches_lightgbm(const Probe& probe);
Result<Model> read_lightgbm(const Container& container);
Match matches_tfjs(const Probe& probe);
Result<Model> read_tfjs(const Container& container);  // named by its model.json
Match matches_oci(const Probe& probe);
Result<Model> read_oci(const Container& container);
Match matches_ollama(const Probe& probe);
Result<Model> read_ollama(const Container& container);  // a manifest; the blobs are in its folder

/// A layout that only `--format` selects.
inline Match never_matches(const Probe&) { return Match::no; }

/// Formats with a magic number come first: the others accept almost any bytes.
inline constexpr std::array kFirstFormats = {
    Format{.name = "gguf",
           .title = "GGUF",
           .suffixes = ".gguf",
           .matches = matches_gguf,
           .read = read_gguf,
           .subject = "",
           .traits = {.has_gguf_keys = true,
                      .has_tensors_apart = true,
                      .has_logical_shapes = true,
                      .has_many_quantisations = true}},
    Format{.name = "rten",
           .title = "RTen",
           .suffixes = ".rten",
           .matches = matches_rten,
           .read = read_rten,
           .subject = "",
           .traits = {.content = Traits::graph, .has_integer_weights = true}},
    Format{.name = "tvm-params", .suffixes = ".params", .matches = matches_tvm_params, .read = read_tvm_params},
    Format{.name = "mxnet", .suffixes = ".params", .matches = matches_mxnet, .read = read_mxnet},
    Format{.name = "tflite",
           .title = "TFLite",
           .suffixes = ".tflite",
           .matches = matches_tflite,
           .read = read_tflite,
           .traits = {.content = Traits::graph,
                      .has_integer_weights = true,
                      .lists_scaled_tensors = true,
                      .is_unpacked = true}},
    Format{.name = "executorch",
           .title = "ExecuTorch",
           .suffixes = ".pte .ptd",
           .matches = matches_executorch,
           .read = read_executorch,
           .traits = {.content = Traits::graph, .has_integer_weights = true}},
    Format{.name = "ggml", .suffixes = ".ggml", .matches = matches_ggml, .read = read_ggml},
    Format{.name = "npy",
           .title = "NumPy",
           .suffixes = ".npy",
           .matches = matches_npy,
           .read = read_npy,
           .traits = {.may_have_pickles = true, .has_version_of_storage = true}},
    Format{.name = "pytorch-legacy",
           .suffixes = ".pt .pth .ckpt",
           .matches = matches_pytorch_legacy,
           .read = read_pytorch_legacy,
           .subject = "",
           .traits = {.framework = Traits::torch,
                      .is_pickle = true,
                      .may_have_pickles = true,
                      .has_modules = true,
                      .has_version_of_storage = true}},
    Format{.name = "dcp",
           .title = "PyTorch DCP",
           .matches = matches_dcp,
           .read = read_dcp,
           .traits = {.is_pickle = true},
           .directory = {.entry = ".metadata", .is_matched = true}},
    Format{.name = "pickle",
           .suffixes = ".pkl .pickle .joblib .sav .pdparams .pdopt",
           .matches = matches_pickle,
           .read = read_pickle,
           .traits = {.is_pickle = true, .may_have_pickles = true}},
    Format{.name = "llamafile", .suffixes = ".llamafile", .matches = matches_llamafile, .read = read_llamafile},
    Format{.name = "hdf5",
           .title = "HDF5",
           .suffixes = ".h5 .hdf5 .h5ad",
           .matches = matches_hdf5,
           .read = read_hdf5,
           .find_start = hdf5::find_signature,
           .traits = {.framework = Traits::keras, .has_version_of_storage = true}},
    Format{.name = "zip",
           .suffixes = ".zip .carton .keras .npz .dduf .pt2",
           .matches = matches_zip,
           .read = read_zip,
           .subject = "",
           .traits = {.may_have_pickles = true}},
    Format{.name = "tar",
           .suffixes = ".tar .tar.gz .tgz .tar.xz .txz .tar.zst .tzst .tar.bz2 .tbz2 .nemo",
           .matches = matches_tar,
           .read = read_tar,
           .subject = "",
           .detect_by = DetectBy::name,
           .traits = {.may_have_pickles = true}},
    Format{.name = "tensorflow-checkpoint",
           .title = "TensorFlow checkpoint",
           .suffixes = ".index",
           .matches = matches_tensorflow_checkpoint,
           .read = read_tensorflow_checkpoint,
           .traits = {.framework = Traits::tensorflow},
           .directory = {.entry = "*.index", .fits = is_only_checkpoint}},
    Format{.name = "ort",
           .suffixes = ".ort",
           .matches = matches_ort,
           .read = read_ort,
           .traits = {.content = Traits::graph,
                      .framework = Traits::onnx,
                      .has_integer_weights = true,
                      .has_scalar_constants = true}},
    Format{.name = "ncnn",
           .suffixes = ".param",
           .matches = matches_ncnn,
           .read = read_ncnn,
           .traits = {.content = Traits::graph}},
    Format{.name = "nnef-tensor", .matches = matches_nnef_tensor, .read = read_nnef_tensor, .subject = "nnef"},
    Format{.name = "ctranslate2", .matches = matches_ctranslate2, .read = read_ctranslate2},
    Format{.name = "xgboost",
           .suffixes = ".ubj .xgb .bst",
           .matches = matches_xgboost,
           .read = read_xgboost,
           .traits = {.content = Traits::trees}},
    Format{.name = "lightgbm",
           .suffixes = ".lgb",
           .matches = matches_lightgbm,
           .read = read_lightgbm,
           .traits = {.content = Traits::trees}},
    Format{.name = "openvino",
           .suffixes = ".xml",
           .matches = matches_openvino,
           .read = read_openvino,
           .traits =
               {.content = Traits::graph, .has_integer_weights = true, .has_scales_beside = true, .is_unpacked = true}},
    Format{.name = "tensor-cache",
           .matches = matches_tensor_cache,
           .read = read_tensor_cache,
           .directory = {.entry = "tensor-cache.json ndarray-cache.json"}},
    Format{.name = "tfjs",
           .matches = matches_tfjs,
           .read = read_tfjs,
           .traits = {.content = Traits::graph, .has_integer_weights = true, .lists_scaled_tensors = true},
           .directory = {.entry = "model.json", .is_matched = true}},
};

inline constexpr std::array kLastFormats = {
    Format{.name = "oci", .matches = matches_oci, .read = read_oci, .subject = ""},
    Format{.name = "ollama",
           .title = "Ollama",
           .matches = matches_ollama,
           .read = read_ollama,
           .traits = {.has_prompt_layers = true}},
    Format{.name = "safetensors",
           .suffixes = ".safetensors",
           .matches = matches_safetensors,
           .read = read_safetensors,
           .traits = {.has_modules = true, .has_tensors_apart = true}},
    Format{.name = "keras-sharded",
           .matches = matches_keras_sharded,
           .read = read_keras_sharded,
           .subject = "keras",
           .traits = {.framework = Traits::keras},
           .directory = {.entry = "*.weights.json"}},
    Format{.name = "safetensors-index",
           .suffixes = ".json",
           .matches = matches_safetensors_index,
           .read = read_safetensors_index,
           .subject = "safetensors index"},
    Format{.name = "onnx",
           .title = "ONNX",
           .suffixes = ".onnx",
           .matches = matches_onnx,
           .read = read_onnx,
           .traits = {.content = Traits::graph,
                      .framework = Traits::onnx,
                      .has_integer_weights = true,
                      .has_scalar_constants = true}},
    Format{.name = "tensorflow-graph",
           .title = "TensorFlow graph",
           .suffixes = "graph.pb model.pb .ckpt.meta",
           .matches = matches_tensorflow_graph,
           .read = read_tensorflow_graph,
           .traits = {.content = Traits::graph,
                      .framework = Traits::tensorflow,
                      .has_integer_weights = true,
                      .has_scalar_constants = true}},
    Format{.name = "caffe",
           .suffixes = ".caffemodel",
           .matches = matches_caffe,
           .read = read_caffe,
           .traits = {.content = Traits::graph}},
    Format{.name = "mindspore", .suffixes = ".ckpt", .matches = matches_mindspore, .read = read_mindspore},
    Format{.name = "coreml",
           .title = "Core ML",
           .suffixes = ".mlmodel",
           .matches = matches_coreml,
           .read = read_coreml,
           .traits = {.content = Traits::graph, .has_integer_weights = true},
           .directory = {.entry = "Manifest.json", .companions = "Data", .identifies = is_coreml_manifest}},
    Format{.name = "paddle",
           .suffixes = ".pdiparams",
           .matches = matches_paddle,
           .read = read_paddle,
           .traits = {.framework = Traits::paddle}},
    Format{.name = "darknet",
           .suffixes = ".weights",
           .matches = matches_darknet,
           .read = read_darknet,
           .traits = {.content = Traits::graph}},
    Format{.name = "flax", .suffixes = ".msgpack", .matches = matches_flax, .read = read_flax},
    Format{.name = "bintensors", .suffixes = ".bt .bintensors", .matches = matches_bintensors, .read = read_bintensors},
    Format{.name = "bintensors-release",
           .matches = never_matches,
           .read = read_bintensors_release,
           .subject = "bintensors"},
    Format{
        .name = "bintensors-legacy", .matches = never_matches, .read = read_bintensors_legacy, .subject = "bintensors"},
};

}  // namespace weightfs
