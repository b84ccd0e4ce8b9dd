// A small valid container of every format that uses most of its features: for the contract suites, and as seeds for
// fuzzing.
#pragma once

#include <fmt/core.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/builders/bintensors_builder.h"
#include "tests/builders/coreml_builder.h"
#include "tests/builders/dduf_builder.h"
#include "tests/builders/executorch_builder.h"
#include "tests/builders/flax_builder.h"
#include "tests/builders/ggml_builder.h"
#include "tests/builders/gguf_builder.h"
#include "tests/builders/hdf5_builder.h"
#include "tests/builders/mlf_builder.h"
#include "tests/builders/numpy_builder.h"
#include "tests/builders/oci_builder.h"
#include "tests/builders/ollama_builder.h"
#include "tests/builders/onnx_builder.h"
#include "tests/builders/paddle_builder.h"
#include "tests/builders/params_builder.h"
#include "tests/builders/pickle_builder.h"
#include "tests/builders/rten_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/builders/tar_builder.h"
#include "tests/builders/tensor_cache_builder.h"
#include "tests/builders/tflite_builder.h"
#include "tests/builders/zip_builder.h"
#include "tests/support/memory_folder.h"

namespace weightfs::test {

/// A container, and the files beside it.
struct SmallModel {
  std::string_view title;   ///< letters and digits, to name a test by
  std::string_view format;  ///< as `--format` takes it
  bool detected;            ///< whether the format is detected by the content alone
  std::string file_name;
  std::string bytes;
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

/// One per format, and per layout and byte order where it has several.
inline std::vector<SmallModel> small_models() {
  return {
      {"Gguf", "gguf", true, "m.gguf", small_gguf()},
      {"GgufVersion1", "gguf", true, "m.gguf", small_gguf(1)},
      {"GgufVersion2", "gguf", true, "m.gguf", small_gguf(2)},
      {"GgufBigEndian", "gguf", true, "m.gguf", small_gguf(3, std::endian::big)},
      {"GgufShards",
       "gguf",
       true,
       "m-00001-of-00002.gguf",
       small_gguf_shard(0),
       {{"m-00002-of-00002.gguf", small_gguf_shard(1)}}},
      {"RtenVersion1", "rten", true, "m.rten", rten::version1(rten::small_model())},
      {"RtenVersion2", "rten", true, "m.rten", rten::small_rten()},
      {"ExecutorchData", "executorch", true, "m.ptd", executorch::small_ptd()},
      {"ExecutorchProgram", "executorch", true, "m.pte", executorch::small_pte()},
      {"Tflite", "tflite", true, "m.tflite", tflite::small_tflite(), {{"weights.bin", "0123"}}},
      {"Hdf5", "hdf5", true, "m.h5", small_hdf5()},
      {"Keras", "keras", true, "m.keras", small_keras()},
      {"KerasDirectory", "keras", true, "config.json", kKerasConfig, {{"model.weights.h5", small_new_hdf5()}}},
      {"KerasSharded",
       "keras-sharded",
       true,
       "m.weights.json",
       R"({"weight_map":{"/layers/dense/vars":"m_00000.weights.h5"}})",
       {{"m_00000.weights.h5", small_new_hdf5()}}},
      {"Hdf5New", "hdf5", true, "m.h5", small_new_hdf5()},
      {"Safetensors", "safetensors", true, "m.safetensors", small_safetensors()},
      {"SafetensorsIndex",
       "safetensors-index",
       true,
       "m.safetensors.index.json",
       small_safetensors_index(),
       {{"a.safetensors", small_safetensors()}}},
      {"BintensorsRelease", "bintensors", true, "m.bt", small_bintensors().release()},
      {"BintensorsLegacy", "bintensors", true, "m.bt", small_bintensors().legacy()},
      {"BintensorsForcedRelease", "bintensors-release", false, "m.bt", small_bintensors().release()},
      {"BintensorsForcedLegacy", "bintensors-legacy", false, "m.bt", small_bintensors().legacy()},
      {"TvmParams", "tvm-params", true, "m.params", small_params()},
      {"Ggml", "ggml", true, "m.bin", small_ggml()},
      {"Flax", "flax", true, "m.msgpack", small_flax()},
      {"Npy", "npy", true, "m.npy", small_npy()},
      {"Npz", "npz", true, "m.npz", small_npz()},
      {"Pytorch", "pytorch", true, "m.pt", small_checkpoint().zip()},
      {"PytorchLegacy", "pytorch-legacy", true, "m.pt", small_checkpoint().legacy({4, 1, 2})},
      {"Nemo", "nemo", true, "m.nemo", small_nemo()},
      {"Oci", "oci", true, "manifest", small_artifact().manifest(), blobs_beside(small_artifact())},
      {"OciLayout", "oci-layout", true, "m.tar", artifacts::tar_of(artifacts::layout_files({small_artifact()}))},
      {"OciDirectory", "oci-layout", true, "index.json", small_layout_files()["index.json"],
       without(small_layout_files(), "index.json")},
      {"Dduf", "dduf", true, "m.dduf", dduf(dduf_files())},
      {"Llamafile", "llamafile", true, "m.llamafile", llamafile({{".args", "-m"}, {"m.gguf", tiny_gguf()}})},
      {"Zip", "zip", true, "m.zip", small_zip()},
      {"Carton", "carton", true, "m.carton", small_carton()},
      {"CartonDirectory", "carton", true, "carton.toml", small_carton_files()["carton.toml"],
       without(small_carton_files(), "carton.toml")},
      {"Tar", "tar", true, "m.tar", tiny_tar()},
      {"TarGzip", "tar", true, "m.tar.gz", tars::gzip_stored(tiny_tar())},
      {"Mlf", "tvm-mlf", true, "m.tar", small_mlf()},
      {"MlfDirectory", "tvm-mlf", true, "metadata.json", mlf_metadata(7), without(mlf_files(7), "metadata.json")},
      {"Export", "weightfs-export", true, "m.tar", tar_of(small_export_files())},
      {"ExportDirectory", "weightfs-export", true, "tensors.json", small_export_files()["tensors.json"],
       without(small_export_files(), "tensors.json")},
      {"TensorCache", "tensor-cache", true, "tensor-cache.json", small_tensor_cache(), {{"0.bin", "wwwwwwwwbbbb"}}},
      {"Onnx", "onnx", true, "m.onnx", onnx::small_onnx(), {{"m.data", onnx::small_onnx_data()}}},
      {"CoreMlPackage", "coreml", true, "Manifest.json", coreml::kManifest, coreml::small_package()},
      {"CoreMlModel",
       "coreml",
       true,
       "m.mlmodel",
       coreml::small_coreml(),
       {{"weights/weight.bin", coreml::small_weights()}}},
      {"Paddle", "paddle", true, "m.pdiparams", paddle::small_paddle(), {{"m.pdmodel", paddle::small_program()}}},
      {"Ollama", "ollama", true, "latest", small_ollama().manifest(), small_ollama().blobs()},
  };
}

}  // namespace weightfs::test
