// Ollama's manifests, with the blobs that they name beside them.
#include <fmt/core.h>

#include <array>

#include "tests/builders/ollama_builder.h"
#include "tests/fuzz/seeds.h"

namespace weightfs::test {
namespace {

std::string with_blobs(const OllamaBuilder& b) { return with_files(b.manifest(), b.blobs()); }

std::string one_tensor(std::string_view name) { return SafetensorsBuilder().tensor(name, "U8", "1", "x").build(); }

std::string one_gguf(const char* name) { return GgufBuilder().tensor(name, {1}, 24, "x").build(); }

std::string named(const char* name) { return fmt::format(",\"name\":\"{}\"", name); }

// The files of `ollama pull`: one file of weights, and the texts around it.
void add_gguf_models(Seeds& seeds) {
  OllamaBuilder b;
  b.config(
      R"({"model_format":"gguf","model_family":"llama","model_families":null,"model_type":"8B","file_type":"Q4_0",)"
      R"("architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}})");
  b.layer("model", small_gguf(), R"(,"from":"/home/me/model.gguf")").layer("projector", one_gguf("p"));
  b.layer("projector", one_gguf("v")).layer("adapter", one_gguf("a")).layer("draft", one_gguf("d"));
  b.layer("template", "{{ .Prompt }}").layer("prompt", "old").layer("system", "Be brief.").layer("embed", "e");
  b.layer("license", "MIT\n").layer("license", "Permission is hereby granted,\nfree of charge");
  b.layer("params", R"({"stop":["</s>"],"temperature":0.5,"num_ctx":4096})");
  seeds["ollama-gguf"] = with_blobs(b.layer("messages", R"([{"role":"user","content":"hi"}])"));

  OllamaBuilder words;
  GgufBuilder list;
  list.key("tokenizer.ggml.token_type", kArray, list.array(kU8, 1025, std::string(1025, 't')));
  words.layer("model", list.build());
  seeds["ollama-documents"] = with_blobs(words);

  OllamaBuilder two;
  two.layer("model", one_gguf("w")).layer("model", one_gguf("w")).layer("model", one_tensor("w"));
  seeds["ollama-models"] = with_blobs(two.layer("model", "GGML, of long ago").config("7").layer("params", "[,]"));
}

// A blob for each tensor, as safetensors; a quantized one with its companions.
void add_tensor_models(Seeds& seeds) {
  OllamaBuilder b;
  SafetensorsBuilder all;
  all.metadata(R"({"quant_type":"int4","group_size":"64"})").tensor("q.weight", "U32", "1,2", "12345678");
  all.tensor("q.weight.scale", "U8", "1", "s").tensor("q.weight.bias", "U8", "1", "b");
  SafetensorsBuilder own;
  own.metadata(R"({"m.quant_type":"mxfp8","n.quant_type":"new","n.group_size":"x"})").tensor("m", "U32", "1", "1234");
  own.tensor("m.scale", "U8", "1", "s").tensor("n", "U32", "", "1234");
  b.config(R"({"model_format":"safetensors","capabilities":["completion"],"requires":"0.14.0"})");
  b.layer("tensor", all.build(), named("q.weight")).layer("tensor", own.build(), named("m"));
  b.layer("tensor", one_tensor("data"), named("model.embed")).layer("tensor", one_tensor("data"));
  b.layer("tensor", one_tensor("w"), named("w")).layer("tensor", one_tensor("w"), named("w/v"));
  b.layer("tensor", "not safetensors", named("../w"));
  b.layer("json", R"({"model_type":"qwen3"})", named("config.json")).layer("json", "{}", named("tokenizer.json"));
  b.layer("json", "[1]", named("manifest.json")).layer("json", "{}", named("a/config.json")).layer("json", "{}");
  seeds["ollama-tensors"] = with_blobs(b.layer("tokenizer", "{}").layer("tokenizer.config", "{}").layer("new", "x"));
}

void add_names(Seeds& seeds) {
  for (const char* type : {"tensor", "json", "new"}) {
    OllamaBuilder b;
    size_t count = 0;
    for (const std::string& name : hostile_names()) {
      if (!is_utf8(name)) continue;
      std::string json;
      append_json_string(json, name);
      b.layer(type, one_tensor(std::to_string(count++)), ",\"name\":" + json);
    }
    seeds[fmt::format("ollama-names-{}", type)] = with_blobs(b);
    seeds[fmt::format("ollama-names-missing-{}", type)] = b.manifest();
  }
}

// The document layout: media types describe the bytes.
void add_documents(Seeds& seeds) {
  OllamaBuilder b;
  b.layer("tensor; name=w; dtype=F32; shape=1,2", "wwwwWWWW").layer("tensor; name=s; dtype=float16; shape=", "ss");
  b.layer(R"(tensor; name="a b\"c"; dtype=BF16; shape=2)", "bb").layer("tensor; name=q; dtype=q8_0; shape=32", "short");
  b.layer("tensor; dtype=new; shape=1", "x")
      .layer("tensor; name=n; dtype=U8", "x")
      .layer("tensor; dtype=U8; shape=x", "x");
  b.layer("tensor; name=v; dtype=U64; shape=18446744073709551615,2", "").layer("tensor; name=w; name=v", "x");
  b.layer("TENSOR; Name=u; DType=i8; shape=1;", "x").layer("tensor; name=", "x").layer("json; name=config.json", "{}");
  b.layer("tokenizer; name*0=t", "{}").layer("config", R"({"model_type":"llama"})").layer("license; x=\"", "MIT");
  seeds["ollama-document"] = with_files(b.document(), b.blobs());
}

// Manifests in manifests, and layers that are containers of files or manifests again.
void add_lists(Seeds& seeds) {
  constexpr const char* kList = "application/vnd.ollama.manifest.list.v2+json";
  const OllamaBuilder inner = small_ollama();
  OllamaBuilder b;
  const std::string ggml = b.described(kDockerManifest, inner.manifest(), R"(,"runner":"ggml")");
  const std::string mlx = b.described(kDockerManifest, "{\"layers\":[]}", R"(,"runner":"mlx")");
  Files files = inner.blobs();
  files.merge(Files(b.blobs()));
  seeds["ollama-list"] = with_files(fmt::format("{}{}{}{},{},null,{{}}]}}", R"({"schemaVersion":2,"mediaType":")",
                                                kList, R"(","manifests":[)", ggml, mlx),
                                    files);

  OllamaBuilder nested;
  nested.layer("new", inner.manifest()).layer("new", one_tensor("t")).layer("model", one_gguf("w"));
  Files both = inner.blobs();
  both.merge(Files(nested.blobs()));
  seeds["ollama-nested"] = with_files(nested.manifest(), both);
}

// Blobs that are missing, of another size, or not those of their digests.
void add_wrong_blobs(Seeds& seeds) {
  const OllamaBuilder b = small_ollama();
  Files files = b.blobs();
  for (auto& [name, bytes] : files) bytes.back() ^= 1;
  seeds["ollama-flipped"] = with_files(b.manifest(), files);
  for (auto& [name, bytes] : files) bytes += 'x';
  seeds["ollama-longer"] = with_files(b.manifest(), files);
  seeds["ollama-missing"] = b.manifest();

  // Without sizes only the digests identify the blobs.
  std::string manifest, rest = b.manifest();
  for (size_t at = rest.find(",\"size\":"); at != rest.npos; at = rest.find(",\"size\":")) {
    manifest += rest.substr(0, at);
    rest = rest.substr(rest.find('}', at));
  }
  seeds["ollama-no-sizes"] = with_files(manifest + rest, files);

  Files old;
  for (const auto& [name, bytes] : b.blobs()) old[(old.size() % 2 == 0 ? "sha256:" : "") + name.substr(7)] = bytes;
  seeds["ollama-old-names"] = with_files(b.manifest(), old);
}

// Spellings that Go accepts, and ones that it rejects.
void add_spellings(Seeds& seeds) {
  const auto manifest = [](const char* rest) {
    return fmt::format("{}{}\",{}", R"({"schemaVersion":2,"mediaType":")", kDockerManifest, rest);
  };
  const std::string digest = "sha256:" + sha256("x").hex();
  const Files blobs = {{"sha256-" + sha256("x").hex(), "x"}};
  const std::string layer =
      fmt::format("{}{}{}{}{}", R"({"mediaType":")", image("license"), R"(","digest":")", digest, R"(","size":)");
  seeds["ollama-null"] = manifest("\"config\":null,\"layers\":null}\n");
  seeds["ollama-no-layers"] = manifest("\"config\":{},\"layers\":[]}");
  seeds["ollama-garbage-behind"] =
      with_files(manifest(fmt::format("\"layers\":[{}1}}]}} }}garbage{{", layer).c_str()), blobs);
  seeds["ollama-case"] =
      with_files(fmt::format("{}{}{}{}{}{}{}", R"({"SCHEMAVERSION":2,"mediaType":")", kDockerManifest,
                             R"(","Layers":[],"layers":[{"MediaType":")", image("model"), R"(","DIGEST":"sha256-)",
                             sha256("x").hex(), R"(","size":1}],"layers":[null,{}]})"),
                 blobs);
  constexpr std::array<const char*, 5> kSizes = {"-1", "1.0", "18446744073709551615", "9223372036854775807", "null"};
  std::string sizes;
  for (const char* size : kSizes) {
    seeds[fmt::format("ollama-size-{}", size)] =
        with_files(manifest(fmt::format("\"layers\":[{}{}}}]}}", layer, size).c_str()), blobs);
    if (size != kSizes[1] && size != kSizes[2]) sizes += fmt::format("{}{}}},", layer, size);
  }
  seeds["ollama-sizes"] = with_files(manifest(fmt::format("\"layers\":[{}{}1}}]}}", sizes, layer).c_str()), blobs);
  seeds["ollama-types"] = manifest("\"config\":7,\"layers\":[{\"digest\":[]}]}");
  seeds["ollama-digests"] =
      manifest(R"("layers":[{"digest":"sha256:../../etc/passwd"},{"digest":"sha512:00"},{"digest":""},7]})");
}

}  // namespace

void add_ollama(Seeds& seeds) {
  add_gguf_models(seeds);
  add_tensor_models(seeds);
  add_names(seeds);
  add_documents(seeds);
  add_lists(seeds);
  add_wrong_blobs(seeds);
  add_spellings(seeds);
}

}  // namespace weightfs::test
