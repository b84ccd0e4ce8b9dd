// A small valid container of every format that uses most of its features: for the contract suites, and as seeds for
// fuzzing.
#pragma once

#include <fmt/core.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/builders/bintensors_builder.h"
#include "tests/builders/caffe_builder.h"
#include "tests/builders/coreml_builder.h"
#include "tests/builders/ctranslate2_builder.h"
#include "tests/builders/dcp_builder.h"
#include "tests/builders/dduf_builder.h"
#include "tests/builders/executorch_builder.h"
#include "tests/builders/flax_builder.h"
#include "tests/builders/ggml_builder.h"
#include "tests/builders/gguf_builder.h"
#include "tests/builders/hdf5_builder.h"
#include "tests/builders/mindspore_builder.h"
#include "tests/builders/mlf_builder.h"
#include "tests/builders/mxnet_builder.h"
#include "tests/builders/ncnn_builder.h"
#include "tests/builders/nnef_builder.h"
#include "tests/builders/numpy_builder.h"
#include "tests/builders/oci_builder.h"
#include "tests/builders/ollama_builder.h"
#include "tests/builders/onnx_builder.h"
#include "tests/builders/openvino_builder.h"
#include "tests/builders/ort_builder.h"
#include "tests/builders/paddle_builder.h"
#include "tests/builders/params_builder.h"
#include "tests/builders/pickle_builder.h"
#include "tests/builders/pt2_builder.h"
#include "tests/builders/python_builder.h"
#include "tests/builders/rten_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/builders/tar_builder.h"
#include "tests/builders/tensor_cache_builder.h"
#include "tests/builders/tensorflow_builder.h"
#include "tests/builders/tfjs_builder.h"
#include "tests/builders/tflite_builder.h"
#include "tests/builders/trees_builder.h"
#include "tests/builders/zip_builder.h"
#include "tests/support/expected_tree.h"
#include "tests/support/memory_folder.h"

namespace weightfs::test {

/// A container, and the files beside it.
struct SmallModel {
  std::string_view title;   ///< letters and digits, to name a test by
  std::string_view format;  ///< as `--format` takes it
  bool detected;            ///< whether the format is detected by the content alone
  std::string file_name;
  std::string bytes;
  Names tree;  ///< what a mount shows, as find(1) lists it
  Files beside = {};
};

// For GoogleTest.
inline void PrintTo(const SmallModel& model, std::ostream* out) { *out << model.title; }

inline std::string small_gguf_shard(uint16_t number) {
  GgufBuilder b;
  b.u16("split.no", number).u16("split.count", 2).i32("split.tensors.count", 2);
  return b.tensor(number == 0 ? "first" : "second", {8}, 0, std::string(32, 'w')).build();
}

inline std::string small_safetensors_index() {
  return R"({"metadata":{"total_size":11},"weight_map":{"w":"a.safetensors","empty":"a.safetensors",)"
         R"("s":"a.safetensors","f4":"a.safetensors"}})"
         "\n";
}

inline Names nnef_tree() {
  return tree({"b.dat", "fc/", "fc/w.dat", "graph.nnef"}, {}, {"b.npy", "fc/", "fc/w.npy"}, {"b", "fc/", "fc/w"});
}

/// The tree of a file with these arrays, and those of structures, which have no other form.
inline Names tree_of_arrays(const std::string& file, const Names& arrays, const Names& structures = {}) {
  Names npy, tensors = joined({arrays, structures});
  for (const std::string& name : arrays) npy.push_back(name + ".npy");
  std::ranges::sort(tensors);
  return tree({file}, {}, npy, tensors);
}

/// A container to nest in others.
inline std::string inner_model() { return SafetensorsBuilder().tensor("t", "U8", "1", "x").build(); }

/// Members of each kind that a zip can have.
inline std::string small_zip() {
  ZipBuilder b;
  b.stored("d/", "");
  b.stored("plain.txt", "plain");
  b.deflated("d/deflated.txt", "deflated");
  b.zstandard("d/zstandard.txt", "zstandard");
  b.link("link", "d/deflated.txt");
  b.stored("inner.safetensors", inner_model());
  return b.build();
}

/// A carton with tensors of numbers, of texts and nested ones, a model, and a file that is behind a link.
inline Files small_carton_files() {
  Files files = {
      {"carton.toml",
       "spec_version = 1\nmodel_name = \"Tiny\"\n[runner]\nrunner_name = \"noop\"\n"
       "required_framework_version = \"*\"\nrunner_compat_version = 1\n"},
      {"model/m.safetensors", inner_model()},
      {"tensor_data/0.bin", "0000"},
      {"tensor_data/1.toml", "data = [\"a\", \"\u00e9\"]\n"},
      {"tensor_data/index.toml",
       "[[tensor]]\nname = \"n\"\ndtype = \"float32\"\nshape = [1]\nfile = \"0.bin\"\n"
       "[[tensor]]\nname = \"s\"\ndtype = \"string\"\nshape = [2]\nfile = \"1.toml\"\n"
       "[[tensor]]\nname = \"outer\"\ndtype = \"nested\"\ninner = [\"n\"]\n"},
  };
  std::string manifest;
  for (const auto& [path, text] : files) manifest += fmt::format("{}={}\n", path, sha256(text).hex());
  const std::string far = sha256("far").hex();
  files["LINKS"] = fmt::format("version = 1\n[urls]\n{} = [\"https://example.org/far\"]\n", far);
  files["MANIFEST"] = fmt::format("{}tensor_data/far={}\n", manifest, far);
  return files;
}

inline std::string small_carton() {
  ZipBuilder b;
  for (const auto& [path, text] : small_carton_files()) {
    if (path == "tensor_data/0.bin")
      b.deflated(path, text);
    else
      b.stored(path, text);
  }
  return b.build();
}

/// Members of each kind that a tar can have.
inline std::string tiny_tar() {
  tars::TarBuilder b;
  b.directory("d").file("d/a", "a").link("link", "d/a").hard_link("same", "d/a");
  return b.file("inner.safetensors", inner_model()).build();
}

inline std::string small_mlf() {
  tars::TarBuilder b;
  for (const auto& [path, text] : mlf_files(7)) b.file("./" + path, text);
  return b.build();
}

/// A checkpoint of one tensor, with its configuration.
inline std::string small_torch_tar() {
  const TorchTar tar = torch_tar();
  return tars::TarBuilder()
      .file("sys_info", tar.sys_info)
      .file("pickle", tar.pickle)
      .file("storages", tar.storages)
      .file("tensors", tar.tensors)
      .build();
}

/// A booster with one tree of one array.
inline std::string small_booster_pickle() {
  using namespace trees;
  const std::string tree = "{" + ub_key("base_weights") + ub_floats({1.5F, -2.0F}) + "}";
  return booster_of(xgboost_ubjson(ub_key("trees") + "[#L" + big(1) + tree)).pickle();
}

inline std::string small_nemo() {
  PytorchBuilder checkpoint;
  checkpoint.tensor("w", "Byte", 1, {4}, "wwww");
  tars::TarBuilder b;
  return b.file("./model_config.yaml", "a: 1\n").file("./model_weights.ckpt", checkpoint.zip()).build();
}

inline constexpr const char* kKerasConfig =
    R"({"class_name":"Sequential","config":{"name":"tiny","layers":[{"class_name":"Lambda","config":{"name":"code"}}]}})";

inline std::string small_keras() {
  ZipBuilder b;
  b.stored("metadata.json", R"({"keras_version": "3.11.0"})");
  b.deflated("config.json", kKerasConfig);
  b.stored("model.weights.h5", small_new_hdf5());
  return b.build();
}

/// A model with a file beside it.
inline artifacts::ArtifactBuilder small_artifact() {
  return artifacts::ArtifactBuilder()
      .layer({artifacts::kRawWeight, inner_model(), "m.safetensors"})
      .layer({"application/vnd.cncf.model.code.v1.tar", tars::TarBuilder().file("a.py", "pass").build(), "src"});
}

inline Files small_layout_files() {
  const auto files = artifacts::layout_files({small_artifact()});
  return {files.begin(), files.end()};
}

inline Files blobs_beside(const artifacts::ArtifactBuilder& artifact) {
  const auto blobs = artifact.blobs();
  return {blobs.begin(), blobs.end()};
}

/// The files of a directory without the one that it is named by.
inline Files without(Files files, std::string_view name) {
  files.erase(files.find(name));
  return files;
}

/// A tar of these files.
inline std::string tar_of(const Files& files) {
  tars::TarBuilder tar;
  for (const auto& [path, bytes] : files) tar.file(path, bytes);
  return tar.build();
}

/// As `weightfs export --to dir` writes them.
inline Files small_export_files() {
  return {{"metadata.json", R"({"format": "gguf", "version": "3", "source": "/m.gguf", "name": "Tiny",
"tensors": {"count": 2}, "metadata": {"general.name": "Tiny"}})"},
          {"tensors.json", R"({"tensors": [
{"name": "a/w", "path": "a/w", "dtype": "float32", "stored_dtype": "F32", "shape": [2], "nbytes": 8},
{"name": "s", "path": "s", "dtype": "uint8", "stored_dtype": "U8", "shape": [], "nbytes": 1}
]}
)"},
          {"tensors/a/w", "wwwwwwww"},
          {"tensors/s", "s"}};
}

inline std::string small_tensor_cache() {
  return cache_index({cache_shard("0.bin", 12,
                                  {cache_tensor("w", "[2, 2]", "float32", "f32-to-bf16", 8, 0),
                                   cache_tensor("b", "[1]", "float32", "raw", 4, 8)},
                                  "\"d41d8cd98f00b204e9800998ecf8427e\"")},
                     R"({"ParamSize": 2})");
}

/// The trees of several rows.
inline Names gguf_tree() { return tree({"m.gguf"}, {}, {"q.npy", "scalar.npy", "w.npy"}, {"q", "scalar", "w"}); }

inline Names bintensors_tree() { return tree({"m.bt"}, {}, {"empty.npy", "s.npy", "w.npy"}, {"empty", "s", "w"}); }

inline Names artifact_tree() { return tree({"m.safetensors", "src/", "src/a.py"}, {}, {"t.npy"}, {"t"}); }

/// One file is behind a link, which adds a warning.
inline Names carton_tree() {
  return with_warnings(tree({"LINKS", "MANIFEST", "carton.toml", "model/", "model/m.safetensors", "tensor_data/",
                             "tensor_data/0.bin", "tensor_data/1.toml", "tensor_data/far !", "tensor_data/index.toml"},
                            {}, {"outer/", "outer/n.npy", "s.npy"}, {"outer/", "outer/n", "s"},
                            nested("model/", "m.safetensors", "t"), {"s.npy"}));
}

inline Names tar_tree() {
  return tree({"d/", "d/a", "inner.safetensors", "link -> d/a", "same"}, {}, {}, {},
              nested("", "inner.safetensors", "t"));
}

inline Names mlf_tree() {
  return tree({"codegen/", "codegen/host/", "codegen/host/src/", "codegen/host/src/lib0.c", "metadata.json",
               "parameters/", "parameters/mlp.params", "src/", "src/relay.txt"},
              {}, {"p0.npy"}, {"p0"}, nested("parameters/", "mlp.params", "p0"));
}

inline Names export_tree() {
  return tree({"metadata.json", "tensors/", "tensors/a/", "tensors/a/w", "tensors/s", "tensors.json"}, {},
              {"a/", "a/w.npy", "s.npy"}, {"a/", "a/w", "s"});
}

/// One per format, and per layout and byte order where it has several.
inline std::vector<SmallModel> small_models() {
  return {
      {"Gguf", "gguf", true, "m.gguf", small_gguf(), gguf_tree()},
      {"GgufVersion1", "gguf", true, "m.gguf", small_gguf(1), gguf_tree()},
      {"GgufVersion2", "gguf", true, "m.gguf", small_gguf(2), gguf_tree()},
      {"GgufBigEndian", "gguf", true, "m.gguf", small_gguf(3, std::endian::big), gguf_tree()},
      {"GgufShards",
       "gguf",
       true,
       "m-00001-of-00002.gguf",
       small_gguf_shard(0),
       tree({"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}, {}, {"first.npy", "second.npy"}, {"first", "second"}),
       {{"m-00002-of-00002.gguf", small_gguf_shard(1)}}},
      // Without a section for the tensor of the branch, which is refused.
      {"RtenVersion1", "rten", true, "m.rten", rten::version1(rten::small_model()),
       with_warnings(tree({"m.rten"}, {"graph.json"}, {"w.npy"}, {"2.then_branch/", "2.then_branch/w", "w"}))},
      {"RtenVersion2", "rten", true, "m.rten", rten::small_rten(),
       tree({"m.rten"}, {"graph.json"}, {"2.then_branch/", "2.then_branch/w.npy", "w.npy"},
            {"2.then_branch/", "2.then_branch/w", "w"})},
      {"ExecutorchData", "executorch", true, "m.ptd", executorch::small_ptd(),
       tree({"m.ptd", "named_data/", "named_data/blob"}, {}, {"a/", "a/t.npy", "w.npy"}, {"a/", "a/t", "w"})},
      {"ExecutorchProgram", "executorch", true, "m.pte", executorch::small_pte(),
       tree({"delegates/", "delegates/0.Xnnpack", "m.pte"}, {"graph.json"},
            {"constant_1.npy", "extra.npy", "state.npy"}, {"constant_1", "extra", "state"})},
      {"Tflite",
       "tflite",
       true,
       "m.tflite",
       tflite::small_tflite(),
       with_warnings(tree(
           {"inner.safetensors", "labels.txt", "m.tflite", "metadata/", "metadata/min_runtime_version", "weights.bin"},
           {"graph.json"},
           {"ext.npy", "q.npy", "s.npy", "subgraphs/", "subgraphs/body/", "subgraphs/body/w.npy", "w.npy"},
           {"ext", "q", "s", "sparse", "subgraphs/", "subgraphs/body/", "subgraphs/body/w", "w"},
           nested("", "inner.safetensors", "t"), {"s.npy"})),
       {{"weights.bin", "0123"}}},
      {"Hdf5", "hdf5", true, "m.h5", small_hdf5(),
       tree({"m.h5"}, {}, {"deflated.npy", "dense/", "dense/bias:0.npy", "dense/kernel:0.npy", "text.npy"},
            {"deflated", "dense/", "dense/bias:0", "dense/kernel:0", "text"}, {}, {"text.npy"})},
      {"Keras", "keras", true, "m.keras", small_keras(),
       with_warnings(tree({"config.json", "metadata.json", "model.weights.h5"}, {},
                          {"alias.npy", "vars/", "vars/0.npy", "vars/1.npy"}, {"alias", "vars/", "vars/0", "vars/1"}))},
      {"KerasDirectory",
       "keras",
       true,
       "config.json",
       kKerasConfig,
       with_warnings(tree({"config.json", "model.weights.h5"}, {}, {"alias.npy", "vars/", "vars/0.npy", "vars/1.npy"},
                          {"alias", "vars/", "vars/0", "vars/1"})),
       {{"model.weights.h5", small_new_hdf5()}}},
      {"KerasSharded",
       "keras-sharded",
       true,
       "m.weights.json",
       R"({"weight_map":{"/layers/dense/vars":"m_00000.weights.h5"}})",
       tree({"m.weights.json", "m_00000.weights.h5"}, {}, {"alias.npy", "vars/", "vars/0.npy", "vars/1.npy"},
            {"alias", "vars/", "vars/0", "vars/1"}),
       {{"m_00000.weights.h5", small_new_hdf5()}}},
      {"Hdf5New", "hdf5", true, "m.h5", small_new_hdf5(),
       tree({"m.h5"}, {}, {"alias.npy", "vars/", "vars/0.npy", "vars/1.npy"}, {"alias", "vars/", "vars/0", "vars/1"})},
      {"Safetensors", "safetensors", true, "m.safetensors", small_safetensors(),
       tree({"m.safetensors"}, {}, {"empty.npy", "f4.npy", "s.npy", "w.npy"}, {"empty", "f4", "s", "w"})},
      {"SafetensorsIndex",
       "safetensors-index",
       true,
       "m.safetensors.index.json",
       small_safetensors_index(),
       tree({"a.safetensors", "m.safetensors.index.json"}, {}, {"empty.npy", "f4.npy", "s.npy", "w.npy"},
            {"empty", "f4", "s", "w"}),
       {{"a.safetensors", small_safetensors()}}},
      {"BintensorsRelease", "bintensors", true, "m.bt", small_bintensors().release(), bintensors_tree()},
      {"BintensorsLegacy", "bintensors", true, "m.bt", small_bintensors().legacy(), bintensors_tree()},
      {"BintensorsForcedRelease", "bintensors-release", false, "m.bt", small_bintensors().release(), bintensors_tree()},
      {"BintensorsForcedLegacy", "bintensors-legacy", false, "m.bt", small_bintensors().legacy(), bintensors_tree()},
      {"TvmParams", "tvm-params", true, "m.params", small_params(),
       tree({"m.params"}, {}, {"a/", "a/b.npy", "empty.npy", "mask.npy", "w.npy"},
            {"a/", "a/b", "empty", "mask", "w"})},
      {"Ggml", "ggml", true, "m.bin", small_ggml(),
       tree({"m.bin"}, {}, {"decoder.q.npy", "encoder.w.npy"}, {"decoder.q", "encoder.w"})},
      {"Flax", "flax", true, "m.msgpack", small_flax(),
       with_warnings(tree({"m.msgpack"}, {}, {"params/", "params/c.npy", "params/w.npy", "s.npy"},
                          {"params/", "params/c", "params/w", "s"}))},
      {"Npy", "npy", true, "m.npy", small_npy(), tree({"m.npy"}, {}, {"m.npy"}, {"m"})},
      {"Npz", "npz", true, "m.npz", small_npz(),
       tree({"f.npy", "layer/", "layer/s.npy", "w.npy"}, {}, {"f.npy", "layer/", "layer/s.npy", "w.npy"},
            {"f", "layer/", "layer/s", "w"}, {}, {"layer/", "layer/s.npy"})},
      {"Pytorch", "pytorch", true, "m.pt", small_checkpoint().zip(),
       tree({"archive/", "archive/data/", "archive/data/0", "archive/data/1", "archive/data/2", "archive/data.pkl",
             "archive/version"},
            {}, {"half.npy", "inner.tied.npy", "t.npy", "w.npy"}, {"half", "inner.tied", "t", "w"})},
      {"PytorchLegacy", "pytorch-legacy", true, "m.pt", small_checkpoint().legacy({4, 1, 2}),
       tree({"m.pt"}, {}, {"half.npy", "inner.tied.npy", "t.npy", "w.npy"}, {"half", "inner.tied", "t", "w"})},
      {"Dcp", "dcp", true, ".metadata", dcp::small_dcp().metadata(),
       tree({".metadata", "__0_0.distcp", "__1_0.distcp"}, {}, {"grid.npy", "model.w.npy", "rows.npy"},
            {"grid", "model.w", "rows"}),
       dcp::small_dcp().files()},
      {"Pt2", "pt2", true, "m.pt2", pt2::small_pt2(),
       tree({"m/", "m/archive_format", "m/archive_version", "m/byteorder", "m/data/", "m/data/aotinductor/",
             "m/data/aotinductor/model/", "m/data/aotinductor/model/x.so", "m/data/constants/",
             "m/data/constants/model_constants_config.json", "m/data/constants/tensor_0", "m/data/weights/",
             "m/data/weights/model_weights_config.json", "m/data/weights/weight_0", "m/data/weights/weight_1",
             "m/models/", "m/models/model.json"},
            {}, {"c.npy", "fc.t.npy", "fc.w.npy", "half.npy"}, {"c", "fc.t", "fc.w", "half"})},
      {"Pt2Old", "pt2", true, "m.pt2", pt2::small_old_pt2(),
       tree({"serialized_constants.pt", "serialized_exported_program.json", "serialized_state_dict.pt", "version"}, {},
            {"c.npy", "fc.w.npy"}, {"c", "fc.w"})},
      {"Nemo", "nemo", true, "m.nemo", small_nemo(),
       tree({"model_config.yaml", "model_weights.ckpt"}, {}, {"w.npy"}, {"w"},
            joined({{"nested/", "nested/model_weights.ckpt/"},
                    in("nested/model_weights.ckpt/",
                       tree({"archive/", "archive/data/", "archive/data/0", "archive/data.pkl", "archive/version"}, {},
                            {"w.npy"}, {"w"}))}))},
      {"Oci", "oci", true, "manifest", small_artifact().manifest(), artifact_tree(), blobs_beside(small_artifact())},
      {"OciLayout", "oci-layout", true, "m.tar", artifacts::tar_of(artifacts::layout_files({small_artifact()})),
       artifact_tree()},
      {"OciDirectory", "oci-layout", true, "index.json", small_layout_files()["index.json"], artifact_tree(),
       without(small_layout_files(), "index.json")},
      {"Dduf", "dduf", true, "m.dduf", dduf(dduf_files()),
       tree({"model_index.json", "vae/", "vae/config.json", "vae/m.safetensors"}, {}, {"vae/", "vae/t.npy"},
            {"vae/", "vae/t"}, nested("vae/", "m.safetensors", "t"))},
      {"Llamafile", "llamafile", true, "m.llamafile", llamafile({{".args", "-m"}, {"m.gguf", tiny_gguf()}}),
       tree({".args", "m.gguf"}, {}, {"t.npy"}, {"t"}, nested("", "m.gguf", "t"))},
      {"Zip", "zip", true, "m.zip", small_zip(),
       tree({"d/", "d/deflated.txt", "d/zstandard.txt", "inner.safetensors", "link -> d/deflated.txt", "plain.txt"}, {},
            {}, {}, nested("", "inner.safetensors", "t"))},
      {"Carton", "carton", true, "m.carton", small_carton(), carton_tree()},
      {"CartonDirectory", "carton", true, "carton.toml", small_carton_files()["carton.toml"], carton_tree(),
       without(small_carton_files(), "carton.toml")},
      {"Tar", "tar", true, "m.tar", tiny_tar(), tar_tree()},
      {"TarGzip", "tar", true, "m.tar.gz", tars::gzip_stored(tiny_tar()), tar_tree()},
      {"Mlf", "tvm-mlf", true, "m.tar", small_mlf(), mlf_tree()},
      {"MlfDirectory", "tvm-mlf", true, "metadata.json", mlf_metadata(7), mlf_tree(),
       without(mlf_files(7), "metadata.json")},
      {"Export", "weightfs-export", true, "m.tar", tar_of(small_export_files()), export_tree()},
      {"ExportDirectory", "weightfs-export", true, "tensors.json", small_export_files()["tensors.json"], export_tree(),
       without(small_export_files(), "tensors.json")},
      {"TensorCache",
       "tensor-cache",
       true,
       "tensor-cache.json",
       small_tensor_cache(),
       tree({"0.bin", "tensor-cache.json"}, {}, {"b.npy", "w.npy"}, {"b", "w"}),
       {{"0.bin", "wwwwwwwwbbbb"}}},
      {"Onnx",
       "onnx",
       true,
       "m.onnx",
       onnx::small_onnx(),
       with_warnings(
           tree({"m.data", "m.onnx"}, {"graph.json"},
                {"far.npy", "four.npy", "functions/", "functions/d.F/", "functions/d.F/k.npy", "i64.npy", "if/",
                 "if/then_branch/", "if/then_branch/w.npy", "ints.npy", "one.npy", "sparse.indices.npy", "sparse.npy",
                 "text.npy", "typed.npy", "w.npy"},
                {"far", "four", "functions/", "functions/d.F/", "functions/d.F/k", "i64", "if/", "if/then_branch/",
                 "if/then_branch/w", "ints", "one", "short", "sparse", "sparse.indices", "text", "typed", "w"},
                {}, {"text.npy"})),
       {{"m.data", onnx::small_onnx_data()}}},
      {"CoreMlPackage", "coreml", true, "Manifest.json", coreml::kManifest,
       with_warnings(
           tree({"Data/", "Data/com.apple.CoreML/", "Data/com.apple.CoreML/model.mlmodel",
                 "Data/com.apple.CoreML/weights/", "Data/com.apple.CoreML/weights/weight.bin", "Manifest.json"},
                {}, {"here.npy", "p.lut.npy", "tied.npy", "w.npy"}, {"bad", "here", "p.lut", "tied", "w"})),
       coreml::small_package()},
      {"CoreMlModel",
       "coreml",
       true,
       "m.mlmodel",
       coreml::small_coreml(),
       with_warnings(tree({"m.mlmodel", "weights/", "weights/weight.bin"}, {},
                          {"here.npy", "p.lut.npy", "tied.npy", "w.npy"}, {"bad", "here", "p.lut", "tied", "w"})),
       {{"weights/weight.bin", coreml::small_weights()}}},
      {"PytorchTar", "pytorch-tar", true, "m.pt", small_torch_tar(),
       tree({"pickle", "storages", "sys_info", "tensors"}, {}, {"w.npy"}, {"w"})},
      {"Pickle", "pickle", true, "m.pkl", small_pipeline(),
       tree({"m.pkl"}, {}, {"steps.0.1.mean_.npy", "steps.1.1.coef_.npy"}, {"steps.0.1.mean_", "steps.1.1.coef_"})},
      {"PickleOfABooster", "pickle", true, "m.pkl", small_booster_pickle(),
       tree({"booster.ubj", "m.pkl"}, {}, {}, {}, nested("", "booster.ubj", "trees.0.base_weights"))},
      {"CoreMlNetwork", "coreml", true, "m.mlmodel", coreml::small_network(),
       tree({"m.mlmodel"}, {}, {"fc.bias.npy", "fc.weights.npy", "if/", "if/if/", "if/if/b.bias.npy"},
            {"fc.bias", "fc.weights", "if/", "if/if/", "if/if/b.bias"})},
      {"Paddle",
       "paddle",
       true,
       "m.pdiparams",
       paddle::small_paddle(),
       tree({"m.pdiparams", "m.pdmodel"}, {}, {"b.npy", "e/", "e/f.npy", "w.npy"}, {"b", "e/", "e/f", "w"}),
       {{"m.pdmodel", paddle::small_program()}}},
      {"TensorflowCheckpoint",
       "tensorflow-checkpoint",
       true,
       "TensorflowCheckpoint.index",
       tensorflow::small_index(),
       with_warnings(tree({"TensorflowCheckpoint.data-00000-of-00001", "TensorflowCheckpoint.index"}, {},
                          {"emb.npy", "names.npy", "w.npy"}, {"emb", "late", "names", "w"}, {}, {"names.npy"})),
       {{"TensorflowCheckpoint.data-00000-of-00001", tensorflow::small_data()}}},
      {"TensorflowCheckpointV1", "tensorflow-checkpoint", true, "m.ckpt", tensorflow::small_v1(),
       tree({"m.ckpt"}, {}, {"emb.npy", "w.npy"}, {"emb", "w"})},
      {"TensorflowGraph", "tensorflow-graph", true, "graph.pb", tensorflow::small_graph().build(),
       tree({"graph.pb"}, {"graph.json"}, {"f/", "f/c.npy", "fill.npy", "names.npy", "w.npy"},
            {"f/", "f/c", "fill", "names", "w"}, {}, {"names.npy"})},
      {"SavedModelDirectory", "tensorflow-savedmodel", true, "saved_model.pb", tensorflow::small_saved_model(),
       with_warnings(tree({"assets/", "assets/vocab.txt", "saved_model.pb", "variables/",
                           "variables/variables.data-00000-of-00001", "variables/variables.index"},
                          {"graph.json"}, {"emb.npy", "names.npy", "w.npy"}, {"emb", "late", "names", "w"}, {},
                          {"names.npy"})),
       tensorflow::small_variables()},
      {"Ort", "ort", true, "m.ort", ort::small_ort(),
       with_warnings(tree({"m.ort"}, {}, {"e.npy", "if/", "if/then_branch/", "if/then_branch/w.npy", "t.npy", "w.npy"},
                          {"e", "if/", "if/then_branch/", "if/then_branch/w", "short", "t", "w"}, {}, {"t.npy"}))},
      {"Ncnn",
       "ncnn",
       true,
       "m.param",
       ncnn::small_param(),
       tree({"m.bin", "m.param"}, {}, {"conv.bias.npy", "conv.weight.npy", "fc.weight.npy", "p.slope.npy"},
            {"conv.bias", "conv.weight", "fc.weight", "p.slope"}),
       {{"m.bin", ncnn::small_bin()}}},
      {"Darknet",
       "darknet",
       true,
       "m.weights",
       darknet::small_weights(),
       tree({"m.cfg", "m.weights"}, {},
            {"0.biases.npy", "0.rolling_mean.npy", "0.rolling_variance.npy", "0.scales.npy", "0.weights.npy",
             "2.biases.npy", "2.weights.npy"},
            {"0.biases", "0.rolling_mean", "0.rolling_variance", "0.scales", "0.weights", "2.biases", "2.weights"}),
       {{"m.cfg", std::string(darknet::kSmallConfig)}}},
      {"Ctranslate2", "ctranslate2", true, "model.bin", ctranslate2::small_ctranslate2(),
       with_warnings(tree({"model.bin"}, {}, {"heads.npy", "layer/", "layer/bias.npy", "layer/weight.npy"},
                          {"heads", "layer/", "layer/bias", "layer/weight", "short"}))},
      {"NnefTensor", "nnef-tensor", true, "w.dat", nnef::tensor_file({2}, 32, nnef::kFloat, "aaaabbbb"),
       tree({"w.dat"}, {}, {"w.npy"}, {"w"})},
      {"Nnef", "nnef", true, "m.tar", tar_of(nnef::small_nnef_files()), nnef_tree()},
      {"NnefDirectory", "nnef", true, "graph.nnef", std::string(nnef::kGraph), nnef_tree(),
       without(nnef::small_nnef_files(), "graph.nnef")},
      {"XgboostJson", "xgboost", true, "m.json", trees::small_xgboost_json(),
       tree_of_arrays("m.json",
                      {"tree_info", "trees.0.base_weights", "trees.0.categories", "trees.0.default_left",
                       "trees.0.left_children", "trees.0.loss_changes", "trees.0.parents", "trees.0.right_children",
                       "trees.0.split_conditions", "trees.0.split_indices", "trees.0.sum_hessian"})},
      {"XgboostUbjson", "xgboost", true, "m.ubj", trees::small_xgboost_ubjson(),
       tree_of_arrays("m.ubj", {"tree_info", "trees.0.base_weights", "trees.0.categories_sizes", "trees.0.default_left",
                                "trees.0.left_children", "trees.0.parents", "trees.0.split_type"})},
      {"XgboostBinary", "xgboost", true, "m.bst", trees::small_xgboost_binary(),
       tree_of_arrays(
           "m.bst",
           {"tree_info", "trees.0.nodes.cleft", "trees.0.nodes.cright", "trees.0.nodes.info", "trees.0.nodes.parent",
            "trees.0.nodes.sindex", "trees.0.stats.base_weight", "trees.0.stats.leaf_child_cnt",
            "trees.0.stats.loss_chg", "trees.0.stats.sum_hess", "weight_drop"},
           {"trees.0.nodes", "trees.0.stats"})},
      {"Lightgbm", "lightgbm", true, "m.txt", trees::small_lightgbm(),
       tree_of_arrays("m.txt",
                      {"trees.0.leaf_value", "trees.0.left_child", "trees.0.right_child", "trees.0.split_feature",
                       "trees.0.threshold", "trees.1.leaf_value", "trees.1.split_feature"})},
      {"MxNet", "mxnet", true, "m.params", mxnet::small_mxnet(),
       tree({"m.params"}, {}, {"arg:e/", "arg:e/f.npy", "arg:w.npy", "aux:b.npy"},
            {"arg:e/", "arg:e/f", "arg:w", "aux:b"})},
      {"MindSpore", "mindspore", true, "m.ckpt", mindspore::small_mindspore(),
       tree({"m.ckpt"}, {}, {"e/", "e/f.npy", "net.w.npy", "step.npy"}, {"e/", "e/f", "net.w", "step"})},
      {"OpenVino",
       "openvino",
       true,
       "m.xml",
       openvino::small_openvino(),
       tree({"m.bin", "m.xml"}, {},
            {"a/", "a/w.npy", "four.npy", "loop/", "loop/body/", "loop/body/inner.npy", "text.npy"},
            {"a/", "a/w", "four", "loop/", "loop/body/", "loop/body/inner", "text"}, {}, {"text.npy"}),
       {{"m.bin", openvino::small_openvino_weights()}}},
      {"Caffe",
       "caffe",
       true,
       "m.caffemodel",
       caffe::small_caffe(),
       tree({"m.caffemodel", "m.prototxt"}, {"graph.json"}, {"a/", "a/conv.0.npy", "a/conv.1.npy"},
            {"a/", "a/conv.0", "a/conv.1"}),
       {{"m.prototxt", "name: \"tiny\""}}},
      {"Tfjs",
       "tfjs",
       true,
       "model.json",
       tfjs::small_tfjs(),
       tree({"below/", "below/s2.bin", "model.json", "s1.bin", "t.bin"}, {},
            {"a/", "a/w.npy", "c.npy", "empty.npy", "q.npy", "text.npy"}, {"a/", "a/w", "c", "empty", "q", "text"}, {},
            {"c.npy", "text.npy"}),
       {{"s1.bin", "012"}, {"below/s2.bin", "34567qrs"}, {"t.bin", tfjs::small_tfjs_texts()}}},
      {"Ollama", "ollama", true, "latest", small_ollama().manifest(),
       tree({"config.json", "license", "manifest.json", "model.gguf", "params.json", "projector.gguf", "template",
             "tensors/", "tensors/d", "tensors/t.safetensors"},
            {}, {"d.npy", "q.npy", "scalar.npy", "t.npy", "w.npy"}, {"d", "q", "scalar", "t", "w"},
            nested("", "projector.gguf", "p")),
       small_ollama().blobs()},
  };
}

}  // namespace weightfs::test
