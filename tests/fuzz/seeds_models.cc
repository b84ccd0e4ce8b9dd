// Models in archives and directories: cartons, and the outputs of TVM.
#include <fmt/core.h>

#include <utility>

#include "tests/fuzz/seeds.h"
#include "tests/support/small_models.h"

namespace weightfs::test {
namespace {

std::string zip_of(const Files& files) {
  ZipBuilder b;
  for (const auto& [path, text] : files) b.stored(path, text);
  return b.build();
}

std::string tar_of(const Files& files) {
  tars::TarBuilder b;
  for (const auto& [path, text] : files) b.file(path, text);
  return b.build();
}

// A carton as a zip, and as a directory that is named by its carton.toml.
void add_carton(Seeds& seeds, const std::string& name, Files files) {
  seeds[name] = zip_of(files);
  const std::string toml = std::exchange(files["carton.toml"], "");
  files.erase("carton.toml");
  seeds["carton/" + name] = with_files(toml, files);
}

// A small carton with other files in it.
Files carton_with(Files others) {
  others.merge(small_carton_files());
  return others;
}

std::string tensor(std::string_view name, std::string_view dtype, std::string_view shape, std::string_view file) {
  return fmt::format("[[tensor]]\nname = \"{}\"\ndtype = \"{}\"\nshape = {}\nfile = \"{}\"\n", name, dtype, shape,
                     file);
}

void add_carton_toml(Seeds& seeds) {
  add_carton(seeds, "carton-toml", carton_with({{"carton.toml", R"(spec_version = 2
model_name = 7
short_description = "\u0000\n"
license = 1979-05-27T07:32:00Z
required_platforms = ["x86_64-unknown-linux-gnu", "-", 3]
input = [{name = "x", dtype = "float32", shape = "symbol"}, {name = "y", dtype = "complex", shape = ["a", -1]}, 7]
[[self_test]]
inputs = {x = "@tensor_data/n", y = "@tensor_data/missing", z = "other", w = 7}
expected_out = "none"
[[example]]
inputs = {x = "@misc/missing", y = "@misc/../carton.toml"}
sample_out = {x = "@tensor_data/outer"}
[runner]
runner_name = "noop"
required_framework_version = ">=1.0, <2.x, ~1..2"
runner_compat_version = -1
[runner.opts]
inf = inf
nan = -nan
list = [[[1]], {a = 1}]
time = 07:32:00
)"}}));
  std::string deep = "a = ";
  for (int i = 0; i < 200; ++i) deep += '[';
  add_carton(seeds, "carton-toml-deep", carton_with({{"carton.toml", deep}}));
  add_carton(seeds, "carton-toml-none", carton_with({{"carton.toml", "= \xFF"}}));
}

void add_carton_lists(Seeds& seeds) {
  const std::string hex(64, 'a');
  add_carton(
      seeds, "carton-manifest",
      carton_with({{"MANIFEST", fmt::format("z={}\r\ncarton.toml={}\n../../etc/passwd={}\n/x={}\nno "
                                            "line\na=b={}\na=short\n={}\nz={}\nmodel/m.safetensors/below={}\n\xFF={}",
                                            hex, hex, hex, hex, hex, hex, hex, hex, hex)}}));
  add_carton(seeds, "carton-links",
             carton_with({{"LINKS", fmt::format("version = 2\n[urls]\n{} = [\"file:///etc/passwd\", "
                                                "\"http://127.0.0.1/\"]\n{} = []\nshort = [\"x\"]\n{} = 7\n",
                                                sha256("far").hex(), hex, std::string(64, 'b'))}}));
  add_carton(seeds, "carton-linked",
             {{"MANIFEST", fmt::format("carton.toml={}\ntensor_data/index.toml={}\n", hex, hex)},
              {"LINKS", fmt::format("version = 1\n[urls]\n{} = [\"https://example.org\"]\n", hex)}});
  add_carton(seeds, "carton-linked-tensor",
             carton_with({{"tensor_data/index.toml",
                           tensor("far", "uint8", "[3]", "far") + tensor("text", "string", "[3]", "far")}}));
}

void add_carton_tensors(Seeds& seeds) {
  std::string types;
  for (const char* dtype : {"float32", "float64", "string", "int8", "int16", "int32", "int64", "uint8", "uint16",
                            "uint32", "uint64", "nested", "complex"})
    types += tensor(dtype, dtype, "[1]", "0.bin");
  add_carton(seeds, "carton-types", carton_with({{"tensor_data/index.toml", types}}));

  std::string lies = tensor("up", "uint8", "[4]", "../carton.toml") + tensor("root", "uint8", "[4]", "/etc/passwd") +
                     tensor("missing", "uint8", "[4]", "none") +
                     tensor("wraps", "uint8", "[4294967296, 4294967296]", "0.bin") +
                     tensor("negative", "uint8", "[-1]", "0.bin") + tensor("n", "uint8", "[4]", "0.bin") +
                     tensor("n", "uint8", "[4]", "0.bin") + tensor("a/b", "uint8", "[4]", "0.bin") +
                     tensor("", "uint8", "[5]", "0.bin") + tensor("link", "uint8", "[4]", "link");
  lies += "[[tensor]]\nname = \"o1\"\ndtype = \"nested\"\ninner = [\"n\", \"missing\", \"o2\", 7]\n";
  lies += "[[tensor]]\nname = \"o2\"\ndtype = \"nested\"\ninner = [\"n\", \"o2\"]\n[[tensor]]\nname = 7\n";
  ZipBuilder b;
  for (const auto& [path, text] : carton_with({{"tensor_data/index.toml", lies}})) b.stored(path, text);
  b.link("tensor_data/link", "../tensor_data/0.bin");
  seeds["carton-tensor-lies"] = b.build();

  const std::string strings =
      tensor("none", "string", "[0]", "none.toml") + tensor("scalar", "string", "[]", "one.toml") +
      tensor("wide", "string", "[2, 2]", "wide.toml") + tensor("many", "string", "[3]", "one.toml") +
      tensor("wraps", "string", "[4294967296, 4294967296]", "none.toml") +
      tensor("numbers", "string", "[1]", "numbers.toml") + tensor("torn", "string", "[1]", "0.bin");
  Files texts = {{"tensor_data/index.toml", strings}, {"tensor_data/none.toml", "data = []"}};
  texts["tensor_data/one.toml"] = "data = [\"\"]";
  texts["tensor_data/wide.toml"] =
      fmt::format("data = [\"\\U0001F600\", \"\\u0000\", \"\", \"{}\"]", std::string(300, 'w'));
  texts["tensor_data/numbers.toml"] = "data = [7]";
  add_carton(seeds, "carton-strings", carton_with(std::move(texts)));
  add_carton(seeds, "carton-no-index", without(small_carton_files(), "tensor_data/index.toml"));
  add_carton(seeds, "carton-index-odd", carton_with({{"tensor_data/index.toml", "tensor = 7"}}));
}

void add_params(Seeds& seeds) {
  ParamsBuilder types;
  for (uint8_t code = 0; code < 18; ++code)
    types.array(fmt::format("t{}", int{code}), tvm_type(code, 8), {1}, "x")
        .array(fmt::format("w{}", int{code}), tvm_type(code, 16, 2), {1}, "xx");
  types.array("uint1", tvm_type(1, 1, 3), {1}, "x").array("int4", tvm_type(0, 4), {3}, "xxx");
  seeds["params-types"] = types.build();

  ParamsBuilder names;
  for (const std::string& name : hostile_names()) names.array(name, kTvmInt8, {1}, "x");
  seeds["params-names"] = names.array("a", kTvmInt8, {2}, "zz").build();

  const auto with = [](const ArrayHeader& header) { return ParamsBuilder().array("a", header, "data").build(); };
  seeds["params-short"] = with({kTvmInt8, {100}, 100});
  seeds["params-vast"] = with({kTvmInt8, {1ULL << 62, 4}, 1ULL << 62});
  seeds["params-negative"] = with({kTvmInt8, {~0ULL}, ~0ULL});
  seeds["params-dimensions"] = with({.type = kTvmInt8, .shape = {4}, .bytes = 4, .dimensions = 1 << 30});
  seeds["params-device"] = with({.type = kTvmInt8, .shape = {4}, .bytes = 4, .device = 2});
  seeds["params-counts"] = ParamsBuilder().array("a", kTvmInt8, {1}, "x").build(1, 2);
  seeds["params-count-vast"] = ParamsBuilder().build(~0ULL, ~0ULL);
  seeds["params-tail"] = small_params() + "tail";
  seeds["params-graph"] = with_files(small_params(), {{"m.json", R"({"nodes":[],"arg_nodes":[],"heads":[]})"}});
}

void add_mlf(Seeds& seeds) {
  for (int version = 1; version <= 6; ++version)
    seeds[fmt::format("mlf-{}", version)] =
        with_files(mlf_metadata(version, 9), without(mlf_files(version), "metadata.json"));
  seeds["mlf-operator"] = with_files(mlf_operator_metadata(7), {{"src/te.txt", "te"}});
  seeds["mlf-modules"] = with_files(
      fmt::format(
          "{}{}",
          R"({"modules": {"a": {"memory": {"sids": 7}}, "b/..": {"memory": {"functions": {"main": [1]}, "sids": [{"input_binding": "p0", )",
          R"("size_bytes": -1}, 7]}, "target": {"1": "c"}}, "c": 7}, "version": 99})"),
      {{"parameters/a.params", mlf_parameters()},
       {"parameters/b.json", mlf_parameters()},
       {"parameters/c.params", "broken"}});
  seeds["mlf-no-metadata"] = tar_of({{"metadata.json", "{"}, {"parameters/a.params", mlf_parameters()}});
  seeds["mlf-old"] = tar_of({{"metadata.json", R"({"version":"x","model_name":"m","target":0})"}});
  seeds["mlf-package"] = tar_of({{"mod.json", "{}"},
                                 {"mod.params", small_params()},
                                 {"mod.so",
                                  "\x7F"
                                  "ELF"}});
}

void add_tensor_caches(Seeds& seeds) {
  const auto cache = [](const std::string& index) {
    return with_files(
        index, {{"0.bin", "0123456789abcdef"},
                {"mlc-chat-config.json", R"({"model_type":"llama","quantization":"q4","context_window_size":7})"}});
  };
  std::vector<std::string> tensors;
  for (const std::string& name : hostile_names())
    if (is_utf8(name) && name.find_first_of("\n\x01\x7F\\\"") == name.npos)
      tensors.push_back(cache_tensor(name, "[1]", "int8", "raw", 1, 0));
  tensors.push_back(cache_tensor("\\u0000", "[]", "float32", "raw", 4, 4));
  seeds["cache-names"] = cache(cache_index({cache_shard("0.bin", 16, tensors)}));
  seeds["cache-lies"] = cache(cache_index(
      {cache_shard("0.bin", 99,
                   {cache_tensor("beyond", "[4]", "int8", "raw", 4, 14),
                    cache_tensor("vast", "[9223372036854775807, 2]", "int8", "raw", 9223372036854775807ULL, 0),
                    cache_tensor("type", "[1]", "new", "raw", 1, 0), cache_tensor("format", "[1]", "int8", "new", 1, 0),
                    cache_tensor("fp8", "[1]", "e4m3_float8", "raw", 1, 0),
                    cache_tensor("size", "[3]", "float16", "raw", 4, 0)},
                   "7"),
       cache_shard("0.bin", 3, {}), cache_shard("../0.bin", 3, {cache_tensor("up", "[1]", "int8", "raw", 1, 0)}),
       cache_shard("tensor-cache.json", 3, {}), cache_shard("", 0, {})},
      R"({"a":[{"b":[null,true,-1.5e9]}],"records":7})"));
  seeds["cache-none"] = cache(cache_index({cache_shard("missing", 1, {})}));
  seeds["cache-shapes"] = cache(
      R"({"records":[{"dataPath":"0.bin","format":"raw-shard","nbytes":16,"records":[{"name":"a","shape":[1.5],"dtype":"int8","format":"raw","nbytes":1,"byteOffset":0}]}]})");
}

}  // namespace

void add_cartons(Seeds& seeds) {
  add_carton_toml(seeds);
  add_carton_lists(seeds);
  add_carton_tensors(seeds);
}

void add_tvm(Seeds& seeds) {
  add_params(seeds);
  add_mlf(seeds);
  add_tensor_caches(seeds);
}

}  // namespace weightfs::test
