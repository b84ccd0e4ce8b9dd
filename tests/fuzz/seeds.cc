// Writes the seeds of the corpora: `fuzz_seeds FOLDER`. One small file per feature of a format, so that the fuzzer
// starts inside every reader.
#include "tests/fuzz/seeds.h"

#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>
#include <utility>

#include "tests/fuzz/sibling.h"
#include "tests/fuzz/targets.h"
#include "tests/support/small_models.h"

namespace weightfs::test {
namespace {

// Places in the format's lists of operators and of their attributes.
constexpr uint8_t kIf = 104;
constexpr uint8_t kLoop = 116;
constexpr uint8_t kIfAttrs = 39;
constexpr uint8_t kLoopAttrs = 49;

void add_small_models(Seeds& seeds) {
  for (const SmallModel& small : small_models()) {
    // Shards have a name of their own in each input.
    std::string bytes = small.bytes;
    if (small.format == "gguf" || small.format == "safetensors-index")
      for (const auto& [name, sibling] : small.beside) bytes.append(kSibling).append(sibling);
    else
      bytes = with_files(bytes, small.beside);
    seeds[fmt::format("small-{}", small.title)] = bytes;
  }
}

void add_names(Seeds& seeds) {
  GgufBuilder gguf;
  for (const std::string& name : hostile_names()) gguf.tensor(name, {1}, 24, "x");
  seeds["names-gguf"] = gguf.tensor("a", {1}, 24, "y").tensor("a", {2}, 24, "zz").build();

  // Names that clash, of which not all have a .npy view.
  GgufBuilder views;
  views.tensor("a", {32}, 2, std::string(18, 'q')).tensor("a", {1}, 24, "x").tensor("a/b", {1}, 24, "y");
  seeds["names-views"] = views.tensor("c", {32}, 2, std::string(18, 'q')).tensor("c/d", {1}, 24, "z").build();

  BinTensorsBuilder bintensors;
  for (const std::string& name : hostile_names())
    if (is_utf8(name)) bintensors.tensor(name, 1, {1}, "x");
  seeds["names-bintensors"] = bintensors.release();
  seeds["names-bintensors-legacy"] = bintensors.legacy();

  SafetensorsBuilder safetensors;
  for (const char* name :
       {"", ".", "..", "/", "//a", "a/", "a", "a/b", "a%2Fb", "\\u0000", "\\n", "\\ud83d\\ude00", "a"})
    safetensors.tensor(name, "U8", "1", "x");
  seeds["names-safetensors"] = safetensors.metadata("{}").build();
}

void add_gguf(Seeds& seeds) {
  GgufBuilder types;
  types.string("general.architecture", "llama").u32("general.alignment", 8).padded_to(8);
  for (uint32_t type = 0; type < 43; ++type) types.list("t" + std::to_string(type), {256}, type, 0);
  seeds["gguf-every-type"] = types.data(std::string(256, 'x')).build();

  GgufBuilder values;
  values.key("u8", kU8, "\1").key("i8", kI8, "\xFF").u16("u16", 1).key("i16", kI16, "\xFE\xFF").u32("u32", 1);
  values.i32("i32", -1)
      .f32("f32", 0.5F)
      .key("u64", kU64, std::string(8, '\xFF'))
      .key("i64", kI64, std::string(8, '\xFF'));
  values.key("nan", kF64, std::string(8, '\xFF')).key("infinity", kF64, std::string("\0\0\0\0\0\0\xF0\x7F", 8));
  values.key("long/list", kArray, values.array(kU8, 1500, std::string(1500, '\1')));
  values.key("..", kArray, values.array(kString, 200, std::string(1600, '\0')));
  values.string("twice", "a").string("twice", "b").string("", "no key").string("gguf", "own");
  std::string deep = values.array(kU8, 1, "x");
  for (int i = 0; i < 7; ++i) deep = values.array(kArray, 1, deep);
  seeds["gguf-values"] = values.key("deep", kArray, deep).key("bool", kBool, "\2").string("not UTF-8", "\xFF").build();

  // Lists that are too long for a page of metadata.
  GgufBuilder lists;
  constexpr size_t kLong = 1025;
  std::string words, numbers;
  for (size_t i = 0; i < kLong; ++i) {
    words += lists.text("w");
    numbers += lists.number(1.0F / static_cast<float>(i));
  }
  lists.key("words", kArray, lists.array(kString, kLong, words));
  lists.key("floats", kArray, lists.array(kF32, kLong, numbers));
  seeds["gguf-long-lists"] = lists.key("bools", kArray, lists.array(kBool, kLong, std::string(kLong, '\1'))).build();

  // Written by ggml: it stores the alignment and pads to 32.
  GgufBuilder padded;
  padded.u32("general.alignment", 64).tensor("a", {1}, 24, "a").tensor("b", {1}, 24, "b");
  seeds["gguf-alignment-of-ggml"] = padded.build();

  GgufBuilder liar;
  liar.list("beyond", {1ULL << 40}, 0, 0).list("overflow", {1ULL << 63, 4}, 0, 0).list("odd", {33}, 2, 0);
  seeds["gguf-refused-tensors"] = liar.list("misplaced", {1}, 0, 3).list("unknown", {4}, 9999, 0).data("data").build();
  seeds["gguf-counts"] = GgufBuilder().announcing(~0ULL, ~0ULL).build();
}

void add_json(Seeds& seeds) {
  SafetensorsBuilder types;
  for (const char* type : {"F32",         "F16",         "BF16", "F64",     "C64",     "F8_E4M3", "F8_E5M2", "F8_E8M0",
                           "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F4",   "F6_E2M3", "F6_E3M2", "BOOL",    "U8",      "I8",
                           "U16",         "I16",         "U32",  "I32",     "U64",     "I64",     "NEW"})
    types.tensor(type, type, "0,3", "");
  seeds["safetensors-every-type"] = types.tensor("f6", "F6_E2M3", "2,2", "abc").tensor("new", "NEW", "7", "ab").build();

  std::string deep = "1";
  for (int i = 0; i < 100; ++i) deep = '[' + deep + ']';
  seeds["safetensors-metadata"] =
      SafetensorsBuilder()
          .metadata(fmt::format("{}{}{}{}", R"({"deep":)", deep,
                                R"(,"n":-1.5e308,"t":true,"z":null,"u":18446744073709551615,)",
                                R"("safetensors":"own","format":["pt"],"":"\u0000\ud800"})"))
          .tensor("x", "U8", "1", "x")
          .build();
  SafetensorsBuilder many;
  for (int i = 0; i < 300; ++i) many.tensor(fmt::format("layer.{}", i * 7919 % 300), "U8", "0", "");
  seeds["safetensors-many-names"] = many.build();
  seeds["safetensors-fields"] = safetensors_file(
      R"( {"a":{"shape":[1],"more":{"x":[1,{"y":null}]},"data_offsets":[0,1],"dtype":"I8"},"__metadata__":null} )",
      "x");
  seeds["safetensors-overflow"] =
      safetensors_file(fmt::format("{{{}}}", safetensors_entry("a", "F64", "4294967296,4294967296", 0, 0)));
  seeds["index-hostile-shards"] = fmt::format(
      "{}{}{}{}",
      R"({"metadata":7,"weight_map":{"w":"../a.safetensors","x":"a.safetensors","y":"b.safetensors","z":"missing",)",
      R"("s":"a.safetensors","":""}})", kSibling, small_safetensors());
}

void add_rten_graphs(Seeds& seeds) {
  using namespace rten;
  const Ref numbers = inline_data({2, 2}, kFloat, list<float>({1, 2, 3, 4}));
  const Ref inner = graph({node("", kConstant, numbers), value("a/b", {}, 0)}, {0}, {1});
  const Ref outside = external_data({1U << 31, 1U << 31}, kTypeFloat32, 0);
  const Ref branch =
      graph({op("loop", kLoop, {0, 9}, {-1}, kLoopAttrs, table({{0, inner}})), node("w", kConstant, outside)});
  const Ref shared = table({{0, branch}, {1, branch}});
  const Ref main = graph(
      {op("if", kIf, {0}, {1}, kIfAttrs, shared), op("if", kIf, {0}, {1}, kIfAttrs, shared),
       node("i", kConstant, inline_data({3}, kInt32, list<int32_t>({1, 2, 3}))),
       node("u", kConstant, inline_data({}, kUInt8, list<uint8_t>({7}))),
       node("short", kConstant, inline_data({5}, kInt8, list<int8_t>({7}))),
       node("e", kConstant, external_data({8}, kTypeUInt8, 4)), node("odd", 7, table({})), op("new", 250, {}, {}, 251)},
      {0, 77}, {});
  std::map<int, Slot> facts;
  for (int slot = 0; slot < 8; ++slot) facts[slot] = text("fact");
  // Unused room, without which so many uses of one graph in so small a file would be refused.
  seeds["rten-subgraphs"] = version2(model_of(main, {{2, table(facts)}}), std::string(1000, 't'));
}

// These have the required attributes; all others are empty tables.
void add_rten_attributes(Seeds& seeds) {
  using namespace rten;
  const Ref sizes = list<uint32_t>({2, 3});
  const Ref scalar_table = table({{0, scalar(1.5F)}});
  std::vector<Ref> operators = {
      op("pool", 3, {0}, {0}, 2, table({{0, sizes}, {1, scalar(uint8_t{1})}, {2, sizes}, {3, sizes}})),
      op("fill", 8, {0}, {0}, 6, table({{0, scalar(uint8_t{2})}, {1, scalar_table}})),
      op("conv", 9, {0}, {0}, 7, table({{0, scalar(uint8_t{1})}, {1, sizes}, {2, scalar(2U)}, {3, sizes}, {4, sizes}})),
      op("pool", 31, {0}, {0}, 15, table({{0, sizes}})), op("einsum", 103, {0}, {0}, 38, table({{0, text("ij->ji")}}))};
  for (uint8_t tag = 1; tag < 65; ++tag)
    if (tag != 2 && tag != 6 && tag != 15) operators.push_back(op("", tag, {0}, {0}, tag, table({})));
  seeds["rten-attributes"] = version1(model_of(graph(operators)));
}

// Buffers after the FlatBuffer, types of every number, tables that are shared, references that are wrong.
void add_tflite(Seeds& seeds) {
  using namespace tflite;
  std::vector<Ref> tensors;
  for (int8_t type = -1; type < 25; ++type) tensors.push_back(tensor(fmt::format("t{}", type), {2, 3}, type, 1));
  const Ref types = subgraph(tensors);
  std::string offsets = file_of(model({types, types}, {empty_buffer(), buffer_at(8000, 24), buffer_at(1, 24)}));
  offsets.resize(8024, 'w');
  seeds["tflite-offsets"] = offsets;
  const Ref scales = quantization(std::vector<float>(600, 0.1F), std::vector<int64_t>(600, -1), 0);
  seeds["tflite-quantised"] =
      file_of(model({subgraph({tensor("q", {8}, kInt8, 1, {{4, scales}})})}, {empty_buffer(), buffer("12345678")}));
  seeds["tflite-wrong"] = file_of(
      model({subgraph({tensor("", {-1}, kInt8, 1), tensor("n", {3}, kInt8, 9), tensor("s", {2}, tflite::kString, 1)},
                      {{1, list<int32_t>({9, -5})}, {3, tables({call(7, {8}, {})})}})},
            {empty_buffer(), buffer(strings({"a"}))}, {{0, scalar(4U)}, {6, tables({table({{1, scalar(8U)}})})}}));
}

// The target of the same name as the format of a small model; "" for other seeds, and if there is none.
std::string_view target_of_small_model(std::string_view name) {
  static const std::vector<SmallModel> all = small_models();
  for (const SmallModel& small : all)
    for (const Target& target : model_targets())
      if (name == fmt::format("small-{}", small.title) && small.format == target.reads.format) return target.name;
  return "";
}

// The second target of a container seed, besides the one of containers: by the names that add_...() use.
std::string_view target_of(std::string_view name, std::string_view bytes) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kMagic = {
      {{"GGUF", "gguf"}, {"RTEN", "rten"}, {"PK", "zip"}}};
  for (const auto& [magic, target] : kMagic)
    if (bytes.starts_with(magic)) return target;
  constexpr auto kNames = std::to_array<std::pair<std::string_view, std::string_view>>({
      {"npy", "numpy"},
      {"dcp", "dcp"},
      {"flax", "flax"},
      {"ggml", "ggml"},
      {"llamafile", "llamafile"},
      {"hdf5", "hdf5"},
      {"kerassharded", "keras_sharded"},
      {"rten", "rten"},
      {"onnx", "onnx"},
      {"coreml", "coreml"},
      {"paddle", "paddle"},
      {"openvino", "openvino"},
      {"caffe", "caffe"},
      {"tfjs", "tfjs"},
      {"mxnet", "mxnet"},
      {"mindspore", "mindspore"},
      {"tflite", "tflite"},
      {"executorch", "executorch"},
      {"index", "safetensors_index"},
      {"safetensors", "safetensors"},
      {"bintensors", "bintensors"},
      {"params", "tvm_params"},
      {"cache", "tensor_cache"},
      {"ollama", "ollama"},
      {"tar-", "tar"},
      {"zip-", "zip"},
      {"gguf", "gguf"},
      {"mlf", "mlf"},
      {"-ort", "ort"},
      {"ncnn", "ncnn"},
      {"nnef", "nnef"},
      {"ctranslate2", "ctranslate2"},
      {"darknet", "darknet"},
      {"xgboost", "xgboost"},
      {"lightgbm", "lightgbm"},
      {"savedmodel", "saved_model"},
      {"tensorflowcheckpoint", "tf_checkpoint"},
      {"tensorflowgraph", "tf_graph"},
  });
  if (bytes.size() > 262 && bytes.substr(257, 5) == "ustar") return "tar";
  for (const auto& [part, target] : kNames)
    if (lower_case(name).find(part) != std::string::npos) return target;
  return target_of_small_model(name);
}

// Headers and descrs that the small models do not have, and zips, whose magic number does not tell their target.
void add_numpy(Seeds& seeds) {
  seeds["npy-structure"] = npy_of(npy_dict("[(('t', 'x'), '<f4'), ('', '|V3'), ('y', [('z', '>i2', (2,))])]", "(2,)"),
                                  std::string(22, 's'), 3);
  seeds["npy-python-2"] =
      npy_of("{u'shape': (3L,), b'descr': \"\\x3cf4\", 'fortran_order': True}", std::string(12, 'p'), 2);
  seeds["npy-object"] = npy("|O", "(1,)", "\x80\4N.");
  seeds["npy-date"] = npy("<M8[25s/4]", "()", "12345678");
  seeds["npy-code"] = npy_of("{'descr': open('x'), 'shape': (2 ** 9, None), 'fortran_order': False, }", "");
  seeds["npy-big-endian"] = npy(">c8", "(2, 1, 2)", std::string(32, 'c'), true);
  seeds["numpy/npz"] = small_npz();
  ZipBuilder odd;
  odd.deflated("plain", npy("|u1", "(2,)", "ab"));
  odd.zstandard("a/../b.npy", npy("<U2", "()", "12345678"));
  odd.stored("bad.npy", "text");
  seeds["numpy/npz-odd"] = odd.build();
}

void add_zipped_models(Seeds& seeds) {
  seeds["dduf/small"] = dduf(dduf_files());
  Files odd = dduf_files();
  odd["model_index.json"] = "[1]";
  odd["a/b/c.bin"] = "x";
  odd["vae/bad.safetensors"] = "x";
  seeds["dduf/odd"] = dduf(odd);
  seeds["llamafile/small"] = llamafile({{".args", "-m"}, {"m.gguf", tiny_gguf()}});
  seeds["keras/small"] = small_keras();
  ZipBuilder keras;
  keras.stored("config.json", R"({"class_name":"Lambda","config":[{"class_name":"Lambda","config":{"name":7}}]})");
  keras.deflated("model.weights.h5", small_hdf5());
  seeds["keras/deflated"] = keras.build();
  seeds["nemo/small"] = small_nemo();
  seeds["nemo/gzip"] = tars::gzip_stored(small_nemo());
  PytorchBuilder checkpoint;
  checkpoint.value("x", PickleBuilder().call("os", "system", {}));
  seeds["nemo/odd"] = tars::TarBuilder()
                          .file("model_config.yaml", "!!python/object/apply:os.system [id]\n")
                          .file("a/model_weights.ckpt", checkpoint.zip())
                          .file("model_weights.ckpt", checkpoint.legacy({}))
                          .build();
  seeds["llamafile/two"] = llamafile({{"a.gguf", tiny_gguf()}, {"b.gguf", small_gguf()}});
}

void add_artifacts(Seeds& seeds) {
  const std::string layer =
      tars::TarBuilder().file("a/.wh.b", "").file("a/.wh..wh..opq", "").file("m.gguf", tiny_gguf()).build();
  const auto with_blobs = [](const artifacts::ArtifactBuilder& artifact) {
    return with_files(artifact.manifest(), blobs_beside(artifact));
  };
  seeds["oci/image"] =
      with_blobs(artifacts::ArtifactBuilder("{}")
                     .layer({artifacts::kImageLayer, tiny_tar()})
                     .layer({"application/vnd.docker.image.rootfs.diff.tar.gzip", tars::gzip_stored(layer)}));
  seeds["oci/odd"] = with_blobs(
      artifacts::ArtifactBuilder(R"({"model":{"path":"x","digest":"sha256:1"},"descriptor":{"licenses":[]}})")
          .layer({artifacts::kTarWeight, layer, "../d/"})
          .layer({"application/vnd.docker.ai.gguf.v3", tiny_gguf()})
          .layer({"application/vnd.kitops.modelkit.model.v1.raw+gzip", "x"}));
  seeds["oci_layout/several"] =
      artifacts::tar_of(artifacts::layout_files({small_artifact(), artifacts::ArtifactBuilder("{}")}));
  seeds["oci_layout/saved"] = tars::TarBuilder()
                                  .file("manifest.json", R"([{"Config":"c","Layers":["a/layer.tar","missing"]}])")
                                  .file("a/layer.tar", layer)
                                  .build();
}

void add_flax(Seeds& seeds) {
  using namespace msgpack;
  seeds["flax-values"] = map({{"f", "\xCA\x3F\x80" + std::string(2, '\0')},
                              {"list", list({text("a"), binary("b"), integer(-1), "\xC0"})},
                              {"complex", extension(2, list({size(1), size(2)}))},
                              {"object", array({1}, "object", "N.")},
                              {"a", map({{"b", map({{"0", array({3}, "int4", "abc")}})}})}});
  seeds["flax-chunks-odd"] = map({{"w", chunked({1ULL << 40}, "int8", {"", "a", "b"})}});
  seeds["ggml-odd"] = GgmlBuilder().tensor("a", {0, 1, 2, 3}, 24, "").record(7, 1, "b", {}, 99, "x").build();
  GgmlBuilder old;
  old.magic = "tjgg";
  seeds["ggml-old"] = old.build();
}

void add_routed(Seeds& seeds) {
  Seeds all;
  for (auto& [name, bytes] : seeds) {
    if (name.find('/') != name.npos) {
      all[name] = bytes;
      continue;
    }
    all["container/" + name] = bytes;
    const std::string_view target = target_of(name, bytes);
    if (target.empty()) continue;
    all[fmt::format("{}/{}", target, name)] = bytes;
    if (target == "ollama") all["ollama_manifest/" + name] = bytes.substr(0, bytes.find(kFile));
  }
  seeds = std::move(all);
}

}  // namespace

std::vector<std::string> hostile_names() {
  return {"",
          ".",
          "..",
          "../../etc/passwd",
          "/",
          "//a",
          "a/",
          "a",
          "a/b",
          "a/b/c",
          "a%2Fb",
          "%~2",
          "a.npy",
          "\x7F",
          "\xFF\xFE",
          "a\nb",
          "\x01",
          "a//b",
          "%",
          std::string(256, 'n'),
          std::string(300, 'n') + "m",
          "v",
          "v.npy/b",
          "\xED\xA0\x80",
          "\xC3\xA9"};
}

std::string with_files(std::string container, const Files& beside) {
  for (const auto& [name, bytes] : beside) container.append(kFile).append(name).append(kEndOfLine).append(bytes);
  return container;
}

int write_seeds(const std::string& folder) {
  Seeds seeds;
  add_small_models(seeds);
  add_names(seeds);
  add_gguf(seeds);
  add_json(seeds);
  add_rten_graphs(seeds);
  add_rten_attributes(seeds);
  add_tflite(seeds);
  add_tflite_options(seeds);
  add_executorch(seeds);
  add_paddle(seeds);
  add_tensorflow(seeds);
  add_trees(seeds);
  add_layers(seeds);
  add_openvino(seeds);
  add_caffe(seeds);
  add_coreml_networks(seeds);
  add_tfjs(seeds);
  add_zips(seeds);
  add_tars(seeds);
  add_cartons(seeds);
  add_tvm(seeds);
  add_ollama(seeds);
  add_hdf5(seeds);
  add_pickles(seeds);
  add_texts(seeds);
  add_servers(seeds);
  add_http(seeds);
  add_numpy(seeds);
  add_zipped_models(seeds);
  add_artifacts(seeds);
  add_flax(seeds);
  add_routed(seeds);
  for (const auto& [name, bytes] : seeds) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    if (!(file << bytes).flush()) {
      std::cerr << path << ": cannot be written\n";
      return 1;
    }
  }
  return 0;
}

}  // namespace weightfs::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: fuzz_seeds FOLDER\n";
    return 2;
  }
  return weightfs::test::write_seeds(argv[1]);
}
