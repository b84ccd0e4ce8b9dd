// Models of Ollama's store and of registries: the blobs that a manifest names, as one model.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/values/json.h"
#include "formats/completeness.h"
#include "formats/flat_formats.h"
#include "formats/verify.h"
#include "tests/builders/ollama_builder.h"
#include "tests/builders/zip_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"

namespace weightfs::ollama_test {
namespace {

using namespace test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAre;

using Lines = std::vector<std::string>;

Container container(const std::string& manifest, const Files& blobs) {
  return {"latest", in_memory(manifest), std::make_shared<MemoryFolder>(blobs)};
}

Model read(const std::string& manifest, const Files& blobs) {
  return well(read_as("ollama", container(manifest, blobs)));
}
Model read(const OllamaBuilder& b) { return read(b.manifest(), b.blobs()); }

Lines paths(const Model& model) {
  Lines lines;
  for (const Part& part : model.parts) lines.push_back(part.path);
  return lines;
}

std::string text_of_part(const Model& model, const std::string& path) {
  const auto part = std::find_if(model.parts.begin(), model.parts.end(), [&](const Part& p) { return p.path == path; });
  if (part == model.parts.end()) return "no such part";
  const auto bytes = part->source.get();
  if (!bytes) return "error: " + bytes.error().message;
  const auto text = read_text(**bytes, 0, (*bytes)->size());
  return text ? *text : "error: " + text.error().message;
}

const Value& at(const Map& map, std::initializer_list<std::string_view> keys) {
  static const Value none("none");
  const Map* in = &map;
  const Value* value = &none;
  for (const std::string_view key : keys) {
    value = in == nullptr ? nullptr : in->find(key);
    if (value == nullptr) return none;
    in = std::get_if<Map>(value);
  }
  return *value;
}

std::string json_at(const Model& model, std::initializer_list<std::string_view> keys) {
  return to_json_line(at(model.metadata, keys));
}

std::string gguf(const std::string& tensor) { return GgufBuilder().tensor(tensor, {1}, 24, "x").build(); }

std::string one_tensor(const std::string& name) { return SafetensorsBuilder().tensor(name, "U8", "1", "x").build(); }

ModelPtr borrowed(const Model& model) { return {ModelPtr(), &model}; }

// The models inside, by the part's path: format and the names of the tensors.
Lines nested(const Model& model) {
  Lines lines;
  if (!model.nested) return lines;
  const auto all = model.nested(borrowed(model));
  if (!all) return {all.error().message};
  for (const Nested& inner : *all) {
    const auto read = inner.model.get();
    std::string line =
        fmt::format("{}: {}", model.parts[inner.part].path, read ? (*read)->format : read.error().message);
    if (read)
      for (const TensorView& tensor : (*read)->tensors) line.append(" ").append(tensor.name);
    lines.push_back(line);
  }
  return lines;
}

// Blobs that have to be fetched, or cannot be.
class Far final : public Blobs {
 public:
  explicit Far(Files blobs) : blobs_(std::move(blobs)) {}

  SourcePtr blob(BlobProducer recipe) override { return uncached_blobs()->blob(std::move(recipe)); }
  Result<SourcePtr> materialize(BlobProducer recipe) override {
    return uncached_blobs()->materialize(std::move(recipe));
  }
  Result<ResolvedBlob> resolve(const BlobRef& wanted) override {
    requested.push_back(wanted.name);
    if (offline) return failure(Code::network, wanted.name + ": no network");
    const auto blob = blobs_.find("sha256-" + wanted.digest.hex());
    if (blob == blobs_.end()) return failure(Code::not_found, wanted.name + ": nobody has it");
    return ResolvedBlob{in_memory(blob->second), in_memory(blob->second)};
  }
  bool is_local(const BlobRef& wanted) override { return at_hand.contains(wanted.name); }

  bool offline = false;
  std::set<std::string> at_hand;
  Lines requested;

 private:
  Files blobs_;
};

struct Registry {
  explicit Registry(const OllamaBuilder& b) : far(std::make_shared<Far>(b.blobs())), manifest(b.manifest()) {}
  Model read() const { return well(read_as("ollama", {"latest", in_memory(manifest), nullptr, far})); }

  std::shared_ptr<Far> far;
  std::string manifest;
};

// Detection.

bool is_manifest(std::string_view text) {
  const std::string_view head = text.substr(0, kHeadSize);
  return matches_ollama({"latest", head, head, text.size()}) == Match::yes;
}

TEST(Ollama, IsDetectedByBeginningOfManifest) {
  EXPECT_TRUE(is_manifest(small_ollama().manifest()));
  EXPECT_TRUE(is_manifest(small_ollama().document()));
  EXPECT_TRUE(is_manifest("\n " + small_ollama().manifest()));
  EXPECT_TRUE(
      is_manifest(R"({"schemaVersion":2,"config":{"mediaType":"application/vnd.docker.container.image.v1+json"},)"
                  R"("layers":null})"))
      << "a model that runs elsewhere";
  EXPECT_TRUE(is_manifest(R"({"manifests":[],"mediaType":"application/vnd.ollama.manifest.list.v2+json"})"));
}

// Other files of models, and the blobs themselves.
TEST(Ollama, OtherJsonIsNotDetected) {
  for (const char* const text :
       {"", "{}", "null", "[]", R"({"architectures":["LlamaForCausalLM"],"num_layers":2,"layers":[1,2]})",
        R"({"version":"1.0","model":{"type":"BPE"}})", R"({"metadata":{},"weight_map":{"layers":"application/x"}})",
        R"({"model_format":"gguf","model_family":"llama","rootfs":{"type":"layers","diff_ids":[]}})",
        R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]})",
        R"({"imageLayoutVersion":"1.0.0"})", R"([{"Config":"x","Layers":["application/vnd.ollama.image.model"]}])"})
    EXPECT_FALSE(is_manifest(text)) << text;
  EXPECT_FALSE(is_manifest(small_ollama().manifest() + std::string(4 << 20, ' '))) << "longer than a manifest may be";
}

TEST(Ollama, RefusalIsOneSentence) {
  const auto error_of = [](const std::string& text) {
    const auto model = read_model(container(text, {}), format_named("ollama"));
    return model ? "no error" : model.error().message;
  };
  EXPECT_EQ(error_of(R"({"layers":7})"), "latest: ollama: layers: a list expected, not a number");
  EXPECT_EQ(error_of("[]"), "latest: ollama: JSON, but not an object");
  EXPECT_EQ(error_of(std::string((4 << 20) + 1, ' ')),
            "latest: ollama: a manifest of 4194305 bytes, at most 4194304 are read");
}

// Names in files/.

TEST(Ollama, ShowsLayersUnderReadableNames) {
  OllamaBuilder b;
  b.config("{}").layer("model", gguf("w")).layer("projector", gguf("p")).layer("adapter", gguf("a"));
  b.layer("adapter", gguf("b")).layer("draft", gguf("d")).layer("template", "t").layer("system", "s");
  b.layer("license", "one").layer("license", "two").layer("license", "one").layer("params", "{}");
  b.layer("messages", "[]").layer("embed", "e").layer("thinking", "?");
  const Model model = read(b);
  EXPECT_THAT(paths(model),
              UnorderedElementsAre("manifest.json", "config.json", "model.gguf", "projector.gguf", "adapter.gguf",
                                   "adapter-2.gguf", "draft.gguf", "template", "system", "license", "license-2",
                                   "license-3", "params.json", "messages.json", "embed", "thinking"));
  EXPECT_EQ(text_of_part(model, "manifest.json"), b.manifest());
  EXPECT_EQ(text_of_part(model, "license-2"), "two");
  EXPECT_EQ(text_of_part(model, "license-3"), "one");
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Ollama, LayersOfDocumentHaveReadableNames) {
  OllamaBuilder b;
  b.layer("config; type=safetensors", R"({"model_type":"qwen3"})").layer("template", "t");
  b.layer("template; name=fim", "f").layer("template; name=\"a/../b\"", "?").layer("tokenizer", "{}");
  b.layer("tokenizer.config", "[]").layer("tensor; name=a/w; dtype=U8; shape=1", "x");
  b.listed(b.described("application/vnd.example.unknown", "u", ""));
  const Model model = read(b.document(), b.blobs());
  EXPECT_THAT(paths(model), UnorderedElementsAre("manifest.json", "config.json", "template", "template-fim",
                                                 "template-a%2F..%2Fb", "tokenizer.json", "tokenizer_config.json",
                                                 "tensors/a/w", "blob-" + sha256("u").hex().substr(0, 12)));
  EXPECT_EQ(model.version, "document layout");
  EXPECT_EQ(to_json_line(model.common), R"({"architecture":"qwen3"})");
  EXPECT_EQ(json_at(model, {"config"}), R"({"model_type":"qwen3"})");
}

// Other programs look for these names.
TEST(Ollama, KeepsNamesOfJsonFiles) {
  OllamaBuilder b;
  b.config("{}").layer("license", "l").layer("json", "[1]", R"(,"name":"config.json")");
  b.layer("json", "[2]", R"(,"name":"draft/config.json")").layer("json", "[3]", R"(,"name":"manifest.json")");
  b.layer("json", "[4]", R"(,"name":"license")").layer("json", "[5]", R"(,"name":"config.json")").layer("json", "[6]");
  const Model model = read(b);
  EXPECT_EQ(text_of_part(model, "config.json"), "[1]");
  EXPECT_EQ(text_of_part(model, "config-2.json"), "[5]");
  EXPECT_EQ(text_of_part(model, "draft/config.json"), "[2]");
  EXPECT_EQ(text_of_part(model, "manifest.json"), "[3]");
  EXPECT_EQ(text_of_part(model, "image-manifest.json"), b.manifest());
  EXPECT_EQ(text_of_part(model, "image-config.json"), "{}");
  EXPECT_EQ(text_of_part(model, "license"), "[4]");
  EXPECT_EQ(text_of_part(model, "license-2"), "l");
  EXPECT_EQ(text_of_part(model, "blob-" + sha256("[6]").hex().substr(0, 12) + ".json"), "[6]");
}

TEST(Ollama, WarnsAboutInvalidFileNames) {
  OllamaBuilder b;
  for (const char* const name : {"../x", "/etc/passwd", "a//b", ".", "a", "a/b", "a-2", "a"})
    b.layer("json", name, fmt::format("{}{}\"", R"(,"name":")", name));
  const Model model = read(b);
  const Lines all = paths(model);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 9U) << "each has a path of its own";
  EXPECT_THAT(all, Contains("a-3"));
  EXPECT_THAT(model.warnings, ElementsAre("layer \"../x\": not a path below files/; changed",
                                          "layer \"/etc/passwd\": not a path below files/; changed",
                                          "layer \"a//b\": not a path below files/; changed",
                                          "layer \".\": not a path below files/; changed"));
}

TEST(Ollama, DetectsModelBlobByFirstBytes) {
  OllamaBuilder b;
  b.layer("model", one_tensor("w")).layer("projector", "a text").layer("adapter", "ggla adapter");
  EXPECT_THAT(paths(read(b)), ElementsAre("manifest.json", "model.safetensors", "projector.bin", "adapter.bin"));
}

// Tensors and metadata.

TEST(Ollama, HasTensorsAndMetadataOfItsModel) {
  OllamaBuilder b;
  b.config(R"({"model_format":"gguf","model_family":"mistral","model_type":"7B","file_type":"Q4_0"})");
  b.layer("model", small_gguf()).layer("params", R"({"stop":["</s>"]})").layer("messages", R"([{"role":"user"}])");
  b.layer("license", "MIT\n").layer("projector", gguf("p"));
  const Model model = read(b);
  EXPECT_EQ(model.format, "ollama");
  EXPECT_EQ(model.version, "schemaVersion 2");
  EXPECT_EQ(listing(model), listing(well(read_gguf({"m", in_memory(small_gguf())}))));
  EXPECT_EQ(to_json_line(model.common),
            R"({"name":"Tiny","architecture":"llama","file_type":"Q4_K_M","size_label":"7B","license":"MIT"})")
      << "what the GGUF says comes first";
  EXPECT_EQ(json_at(model, {"gguf", "general.name"}), "\"Tiny\"");
  EXPECT_EQ(json_at(model, {"gguf", "gguf", "version"}), "3");
  EXPECT_EQ(json_at(model, {"config", "model_family"}), "\"mistral\"");
  EXPECT_EQ(json_at(model, {"parameters"}), R"({"stop":["</s>"]})");
  EXPECT_EQ(json_at(model, {"messages"}), R"([{"role":"user"}])");
  EXPECT_FALSE(model.complete_model);
}

TEST(Ollama, ArchitectureComesFromOwnConfig) {
  OllamaBuilder b;
  b.config(R"({"model_format":"safetensors","model_family":"","file_type":"int4"})");
  b.layer("json", R"({"model_type":"qwen3"})", R"(,"name":"config.json")");
  EXPECT_EQ(to_json_line(read(b).common), R"({"file_type":"int4","architecture":"qwen3"})");
  const OllamaBuilder broken = OllamaBuilder().layer("json", "{", R"(,"name":"config.json")");
  EXPECT_THAT(read(broken).warnings, IsEmpty()) << "it is a file like any other";
  EXPECT_TRUE(Registry(b).read().complete_model);
}

TEST(Ollama, ShowsManifestFields) {
  OllamaBuilder b;
  b.config("{}").layer("model", gguf("w"), R"(,"from":"llama3:latest")");
  const Model model = read(b);
  const std::string digest = "sha256:" + sha256(b.manifest()).hex();
  EXPECT_EQ(json_at(model, {"manifest", "digest"}), '"' + digest + '"');
  EXPECT_EQ(json_at(model, {"manifest", "id"}), '"' + digest.substr(7, 12) + '"');
  EXPECT_EQ(json_at(model, {"manifest", "schema_version"}), "2");
  EXPECT_EQ(json_at(model, {"manifest", "config", "path"}), "\"config.json\"");
  EXPECT_EQ(json_at(model, {"manifest", "layers"}),
            fmt::format("{}{}{}{}{}{}{}", R"([{"media_type":")", image("model"), R"(","digest":"sha256:)",
                        sha256(gguf("w")).hex(), R"(","size":)", gguf("w").size(),
                        R"(,"from":"llama3:latest","path":"model.gguf"}])"));
}

TEST(Ollama, ShowsFactsOfGguf) {
  OllamaBuilder b;
  b.config("{}").layer("model", gguf("w"));
  EXPECT_EQ(json_at(read(b), {"gguf", "gguf", "tensor_count"}), "1");
}

TEST(Ollama, LongListOfLayersBecomesDocument) {
  OllamaBuilder b;
  for (size_t i = 0; i <= kMaxInlineList; ++i) b.layer("license", "l");
  const Model model = read(b);
  EXPECT_EQ(json_at(model, {"manifest", "layers"}), R"({"count":1025,"path":"metadata/manifest.layers.json"})");
  ASSERT_EQ(model.documents.size(), 1U);
  const auto text = model.documents[0].source.get();
  ASSERT_TRUE(text);
  const auto list = parse_json(**text, 0, (*text)->size());
  ASSERT_TRUE(list);
  EXPECT_EQ(std::get<List>(*list).size(), 1025U);
}

TEST(Ollama, LayersMayBeTensors) {
  const std::string experts =
      SafetensorsBuilder().tensor("e.up", "U8", "2", "uu").tensor("e.down", "U8", "1", "d").build();
  OllamaBuilder b;
  b.layer("tensor", SafetensorsBuilder().tensor("w", "BF16", "2,1", "wwWW").build(), R"(,"name":"w")");
  b.layer("tensor", experts, R"(,"name":"e")");
  b.layer("tensor", one_tensor("data"), R"(,"name":"vae/in")");
  b.layer("tensor", one_tensor("draft.x"), R"(,"name":"draft.x")");
  b.layer("tensor", SafetensorsBuilder().tensor("odd", "Q9", "1", "?").build(), R"(,"name":"odd")");
  const Model model = read(b);
  EXPECT_THAT(listing(model), ElementsAre("w bfloat16 BF16 [2x1] wwWW", "e.up uint8 U8 [2] uu", "e.down uint8 U8 [1] d",
                                          "vae/in uint8 U8 [1] x", "draft.x uint8 U8 [1] x", "odd unknown Q9 [1] ?"));
  EXPECT_THAT(paths(model), Contains("tensors/vae/in.safetensors"));
  EXPECT_THAT(model.warnings,
              ElementsAre(R"("tensors/odd.safetensors": tensor "odd": dtype "Q9" is unknown; shown as bytes)"));
}

// The companions of a tensor have their base in the same blob: a bias in its own blob is a tensor.
TEST(Ollama, ShowsQuantization) {
  SafetensorsBuilder one;
  one.metadata(R"({"quant_type":"int4","group_size":"64"})").tensor("q", "U32", "1,2", "12345678");
  one.tensor("q.scale", "U8", "1", "s").tensor("q.bias", "U8", "1", "b");
  SafetensorsBuilder mixed;
  mixed.metadata(R"({"m.quant_type":"mxfp8","quant_type":"FP4"})").tensor("m", "U32", "1", "1234");
  mixed.tensor("m.scale", "U8", "1", "s").tensor("n", "U32", "1", "1234").tensor("n.scale", "U8", "1", "s");
  mixed.tensor("plain", "U32", "1", "1234");
  OllamaBuilder b;
  b.layer("tensor", one.build(), R"(,"name":"q")").layer("tensor", mixed.build(), R"(,"name":"m")");
  b.layer("tensor", one_tensor("k.bias"), R"(,"name":"k.bias")");
  const Model model = read(b);
  EXPECT_EQ(json_at(model, {"quantization"}), R"({"q":{"quant_type":"int4","group_size":64,"shape":[1,16]},)"
                                              R"("m":{"quant_type":"mxfp8","group_size":32,"shape":[4]},)"
                                              R"("n":{"quant_type":"int4","group_size":64,"shape":[8]}})");
  EXPECT_THAT(listing(model), Contains("q.bias uint8 U8 [1] b"));
  EXPECT_THAT(listing(model), Contains("k.bias uint8 U8 [1] x"));
}

TEST(Ollama, LayersMayBeBareTensorBytes) {
  OllamaBuilder b;
  b.layer("tensor; name=w; dtype=F32; shape=1,2", "wwwwWWWW").layer("tensor; name=s; dtype=I32; shape=", "ssss");
  b.layer("tensor; name=\"a; b\"; dtype=\"bf16\"; shape=\"1, 1\"", "bb")
      .layer("tensor; name=q; dtype=q8_0; shape=32", std::string(34, 'q'));
  const Model model = read(b.document(), b.blobs());
  EXPECT_THAT(listing(model), ElementsAre("w float32 F32 [1x2] wwwwWWWW", "s int32 I32 [] ssss",
                                          "a; b bfloat16 bf16 [1x1] bb", "q q8_0 q8_0 [32] " + std::string(34, 'q')));
  EXPECT_EQ(model.per_tensor->digests.at(0), sha256("wwwwWWWW"));
  EXPECT_EQ(model.per_tensor->digests.size(), 4U);
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Ollama, TensorWithWrongMediaTypeIsShownAsBytes) {
  OllamaBuilder b;
  b.layer("tensor; name=short; dtype=F32; shape=2", "1234").layer("tensor; name=odd; dtype=Q9; shape=1", "x");
  b.layer("tensor; name=bad; dtype=U8; shape=1,x", "y").layer("tensor; name=none; dtype=U8", "zz");
  b.layer("tensor; name=huge; dtype=U8; shape=4294967296,4294967296", "h")
      .layer("tensor; name=neg; dtype=U8; shape=-1", "n");
  const Model model = read(b.document(), b.blobs());
  EXPECT_THAT(listing(model), ElementsAre("short unknown F32 [2] 1234", "odd unknown Q9 [1] x", "bad unknown U8 [1] y",
                                          "none unknown U8 [2] zz", "huge unknown U8 [4294967296x4294967296] h",
                                          "neg unknown U8 [1] n"));
  EXPECT_THAT(
      model.warnings,
      ElementsAre(R"(tensor "short": 4 bytes, but its shape and dtype F32 need 8; shown as bytes)",
                  R"(tensor "odd": dtype "Q9" is unknown; shown as bytes)",
                  R"(tensor "bad": a shape of "1,x"; shown as bytes)", R"(tensor "none": no shape; shown as bytes)",
                  R"(tensor "huge": 1 bytes, but its shape and dtype U8 overflow 64 bits )"
                  "or do not fill whole blocks; shown as bytes",
                  R"(tensor "neg": a shape of "-1"; shown as bytes)"));
}

TEST(Ollama, InvalidLayerIsSkippedWithWarning) {
  OllamaBuilder b;
  b.config("no JSON").layer("model", "GGUF and no more").layer("tensor", "no safetensors", R"(,"name":"t")");
  b.layer("tensor; name=a; name=b; dtype=U8; shape=1", "x").layer("params", "{").layer("adapter", "ggla");
  b.layer("template; [name=<name>]", "t").layer("tensor", one_tensor("w"), R"(,"name":"w")");
  const Model model = read(b);
  EXPECT_THAT(listing(model), ElementsAre("w uint8 U8 [1] x"));
  EXPECT_EQ(text_of_part(model, "model.gguf"), "GGUF and no more");
  EXPECT_EQ(text_of_part(model, "template"), "t");
  EXPECT_THAT(model.warnings, Contains(StartsWith("\"config.json\": ")));
  EXPECT_THAT(model.warnings, Contains(StartsWith("\"params.json\": ")));
  EXPECT_THAT(model.warnings,
              Contains(AllOf(StartsWith("\"model.gguf\": gguf: "), HasSubstr("its tensors are missing"))));
  EXPECT_THAT(model.warnings, Contains("\"tensors/t.safetensors\": not a safetensors file; its tensors are missing"));
  EXPECT_THAT(model.warnings, Contains(HasSubstr("media type: repeated: \"name\"")));
  EXPECT_THAT(model.warnings, Contains(HasSubstr("media type: not a name of a parameter: \"[name\"")));
  EXPECT_EQ(model.lacks->files, 5u);
}

// Only hand-written manifests lack it.
TEST(Ollama, HasTensorsOfAllModels) {
  OllamaBuilder b;
  b.layer("model", small_gguf()).layer("model", gguf("w"));
  const Model model = read(b);
  ASSERT_EQ(model.tensors.size(), 4U);
  EXPECT_EQ(model.tensors[0].scope, "");
  EXPECT_EQ(model.tensors[3].name, "w");
  EXPECT_EQ(model.tensors[3].scope, "model-2");
  EXPECT_THAT(nested(model), ElementsAre("model-2.gguf: gguf w"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

// Else a manifest of many layers and one long header would be read for hours.
TEST(Ollama, ModelNamedByManyLayersIsReadOnce) {
  OllamaBuilder b;
  for (int i = 0; i < 3; ++i) b.layer("model", gguf("w"));
  const Model model = read(b);
  EXPECT_THAT(paths(model), ElementsAre("manifest.json", "model.gguf", "model-2.gguf", "model-3.gguf"));
  EXPECT_EQ(model.tensors.size(), 1U);
  EXPECT_THAT(model.warnings, ElementsAre("\"model-2.gguf\": same as an earlier layer; its tensors are shown once",
                                          "\"model-3.gguf\": same as an earlier layer; its tensors are shown once"));
}

TEST(Ollama, WarnsAboutDuplicateTensorNames) {
  OllamaBuilder b;
  b.layer("tensor", one_tensor("w"), R"(,"name":"w")").layer("tensor", one_tensor("w"), R"(,"name":"w")");
  const Model model = read(b);
  EXPECT_EQ(model.tensors.size(), 2U);
  EXPECT_THAT(paths(model), ElementsAre("manifest.json", "tensors/w.safetensors", "tensors/w-2.safetensors"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"w\": duplicate name"));
}

// Blobs.

TEST(Ollama, FindsBlobsByCurrentAndFormerNames) {
  const OllamaBuilder b = small_ollama();
  for (const char* const before : {"sha256-", "sha256:", ""}) {
    Files renamed;
    for (const auto& [name, bytes] : b.blobs()) renamed[before + name.substr(7)] = bytes;
    const Model model = read(b.manifest(), renamed);
    EXPECT_EQ(listing(model), listing(read(b))) << before;
    EXPECT_EQ(model.lacks->files, 0u) << before;
  }
}

TEST(Ollama, FindsBlobByAlternativeDigestSpelling) {
  OllamaBuilder b;
  b.layer("system", "s");
  std::string manifest = b.manifest();
  const std::string hex = sha256("s").hex();
  std::string upper = hex;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  manifest.replace(manifest.find("sha256:" + hex), 71, "sha256-" + upper);
  EXPECT_EQ(text_of_part(read(manifest, b.blobs()), "system"), "s");
}

TEST(Ollama, MissingBlobLeavesOthersReadable) {
  OllamaBuilder b;
  b.layer("model", gguf("w")).layer("system", "s").layer("tensor", one_tensor("t"), R"(,"name":"t")");
  Files blobs = b.blobs();
  blobs.erase("sha256-" + sha256(gguf("w")).hex());
  const Model model = read(b.manifest(), blobs);
  EXPECT_THAT(paths(model), ElementsAre("manifest.json", "system", "tensors/t.safetensors"));
  EXPECT_THAT(listing(model), ElementsAre("t uint8 U8 [1] x"));
  EXPECT_EQ(model.lacks->files, 1u);
  EXPECT_THAT(model.warnings,
              ElementsAre("\"model.gguf\": model: no local copy, and downloads are disabled; it is missing"));
}

// A download that was cut, a file that was zeroed, one that has grown.
TEST(Ollama, EscapesNamesInMessages) {
  OllamaBuilder b;
  b.layer("tensor", "x", R"(,"name":"\u001b[2J\n")")
      .layer("tensor", "y", fmt::format(",\"name\":\"{}\"", std::string(300, 'n')));
  const Model model = read(b.manifest(), {});
  ASSERT_EQ(model.warnings.size(), 2U);
  EXPECT_THAT(model.warnings[0], HasSubstr(R"(: \x1b[2J\x0a: no local copy)"));
  EXPECT_THAT(model.warnings[1], HasSubstr(fmt::format(": {}...: no local copy", std::string(80, 'n'))));
}

TEST(Ollama, BlobOfWrongSizeIsRefused) {
  OllamaBuilder b;
  b.layer("system", "system").layer("template", "t");
  for (const char* const bytes : {"", "sys", "system and more"}) {
    Files blobs = b.blobs();
    blobs["sha256-" + sha256("system").hex()] = bytes;
    const Model model = read(b.manifest(), blobs);
    EXPECT_THAT(paths(model), ElementsAre("manifest.json", "template"));
    EXPECT_EQ(model.lacks->files, 1u);
    EXPECT_THAT(model.warnings, ElementsAre(fmt::format("\"system\": system: has {} bytes, not 6; it is left out",
                                                        std::string_view(bytes).size())));
  }
}

class Directories final : public Folder {
 public:
  Result<std::vector<std::string>> names() const override { return std::vector<std::string>(); }
  Result<SourcePtr> open(std::string_view name) const override {
    return failure(Code::io, fmt::format("{}: not a regular file", name));
  }
  Result<std::vector<Part>> parts() const override { return std::vector<Part>(); }
};

// An empty blob is never read, so its digest is not compared by a read.
TEST(Ollama, EmptyBlobNeedsDigestOfNoBytes) {
  const auto layer = [](const std::string& bytes, const char* size) {
    return fmt::format("{}{}{}{}\"{}}}", R"({"mediaType":")", image("license"), R"(","digest":"sha256:)",
                       sha256(bytes).hex(), size);
  };
  OllamaBuilder b;
  b.listed(layer("x", "")).listed(layer("y", ",\"size\":0")).listed(layer("", ",\"size\":0"));
  const Files blobs = {
      {"sha256-" + sha256("x").hex(), ""}, {"sha256-" + sha256("y").hex(), ""}, {"sha256-" + sha256("").hex(), ""}};
  const Model model = read(b.manifest(), blobs);
  EXPECT_THAT(paths(model), ElementsAre("manifest.json", "license-3"));
  EXPECT_EQ(model.lacks->files, 2u);
  ASSERT_EQ(model.warnings.size(), 2U);
  EXPECT_THAT(model.warnings[1], HasSubstr("license: size is 0, but "));
}

TEST(Ollama, DirectoryIsNotABlob) {
  OllamaBuilder b;
  b.layer("system", "s");
  const Model model = well(read_as("ollama", {"latest", in_memory(b.manifest()), std::make_shared<Directories>()}));
  EXPECT_EQ(model.lacks->files, 1u);
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("not a regular file; it is left out")));
}

TEST(Ollama, InvalidLayersAreOmittedWithWarnings) {
  const Model model =
      read(R"({"layers":[{"mediaType":"application/vnd.ollama.image.model"},null,{"digest":"md5:1"}]})", {});
  EXPECT_THAT(paths(model), ElementsAre("manifest.json"));
  EXPECT_EQ(model.lacks->files, 3u);
  EXPECT_EQ(model.warnings.size(), 3U);
}

TEST(Ollama, RemoteModelHasNoTensors) {
  OllamaBuilder b;
  b.config(
      R"({"model_format":"","model_family":"gptoss","remote_host":"https://ollama.com:443","remote_model":"m:1"})");
  std::string manifest = b.manifest();
  manifest.replace(manifest.find("[]"), 2, "null");
  const Model model = read(manifest, b.blobs());
  EXPECT_THAT(paths(model), ElementsAre("manifest.json", "config.json"));
  EXPECT_EQ(to_json_line(model.common),
            R"({"architecture":"gptoss","remote_host":"https://ollama.com:443","remote_model":"m:1"})");
  EXPECT_THAT(model.warnings, ElementsAre("the model runs at ollama.com:443 as m:1; nothing of it is stored here"));
  EXPECT_TRUE(completeness_of(model).is_complete());
  EXPECT_THAT(read("{}", {}).warnings, ElementsAre("the manifest names no layers"));
}

// Trust: the format of a blob may be read before its digest is verified, its data not.
TEST(Ollama, CorruptBlobIsNeverServed) {
  OllamaBuilder b;
  b.config(R"({"model_family":"llama"})").layer("model", gguf("w")).layer("projector", gguf("p"));
  b.layer("tensor", one_tensor("t"), R"(,"name":"t")").layer("tensor; name=d; dtype=U8; shape=1", "d");
  Files blobs = b.blobs();
  for (auto& [name, bytes] : blobs) bytes.back() = '!';
  const Model model = read(b.manifest(), blobs);
  EXPECT_THAT(listing(model),
              ElementsAre("w int8 I8 [1] unreadable", "t uint8 U8 [1] unreadable", "d uint8 U8 [1] unreadable"));
  for (const std::string& path : paths(model)) {
    if (path == "manifest.json") continue;
    EXPECT_THAT(text_of_part(model, path), HasSubstr("digest mismatch: found"));
  }
  EXPECT_THAT(json_at(model, {"config"}), "\"none\"");
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("digest mismatch: found")));

  const auto inner = model.nested(borrowed(model));
  ASSERT_TRUE(inner);
  ASSERT_EQ(inner->size(), 1U);
  const ModelPtr projector = inner->front().model.get().value();
  EXPECT_THAT(listing(*projector), ElementsAre("p int8 I8 [1] unreadable"));
  EXPECT_THAT(text_of_part(*projector, projector->parts[0].path), HasSubstr("digest mismatch: found"));
}

TEST(Ollama, IsVerifiedByItsDigests) {
  const OllamaBuilder b = small_ollama();
  const Verification right = verify(read(b), {});
  EXPECT_EQ(right.checked, b.blobs().size() + 1);
  EXPECT_THAT(right.wrong, IsEmpty());
  EXPECT_THAT(right.unreadable, IsEmpty());
  Files blobs = b.blobs();
  blobs["sha256-" + sha256("MIT").hex()] = "GPL";
  blobs.erase("sha256-" + sha256("d").hex());
  const Verification wrong = verify(read(b.manifest(), blobs), {});
  EXPECT_EQ(wrong.checked, b.blobs().size() - 1);
  EXPECT_THAT(wrong.wrong, IsEmpty()) << "a missing file is not compared";
  ASSERT_EQ(wrong.unreadable.size(), 1U);
  EXPECT_EQ(wrong.unreadable[0].code, Code::mismatch);
}

// Containers in it.

TEST(Ollama, HasNestedContainers) {
  OllamaBuilder b;
  b.layer("model", gguf("w"))
      .layer("projector", gguf("p"))
      .layer("adapter", one_tensor("a"))
      .layer("draft", "no model");
  ZipBuilder zip;
  zip.stored("x", "x");
  b.listed(b.described("application/zip", zip.build(), "")).layer("license", gguf("l"));
  EXPECT_THAT(nested(read(b)), ElementsAre("projector.gguf: gguf p", "adapter.safetensors: safetensors a",
                                           "blob-" + sha256(zip.build()).hex().substr(0, 12) + ": zip"));
  EXPECT_FALSE(read(OllamaBuilder().layer("model", gguf("w"))).nested);
  EXPECT_THAT(nested(read(OllamaBuilder().layer("projector", "GGUF"))),
              ElementsAre(StartsWith("projector.gguf: projector.gguf: gguf: ends at byte 4")));
}

TEST(Ollama, ListOfManifestsIsRead) {
  OllamaBuilder child;
  child.layer("model", gguf("w"));
  OllamaBuilder b;
  const std::string described = b.described(kDockerManifest, child.manifest(), R"(,"runner":"ggml","format":"gguf")");
  Files blobs = b.blobs();
  for (const auto& [name, bytes] : child.blobs()) blobs[name] = bytes;
  const std::string list =
      fmt::format("{}{}]}}", R"({"mediaType":"application/vnd.ollama.manifest.list.v2+json","manifests":[)", described);
  const Model model = read(list, blobs);
  EXPECT_THAT(paths(model), ElementsAre("manifest.json", "manifest-ggml.json"));
  EXPECT_THAT(nested(model), ElementsAre("manifest-ggml.json: ollama w"));
  EXPECT_THAT(json_at(model, {"manifest", "manifests"}), HasSubstr("\"runner\":\"ggml\""));
}

TEST(Ollama, NestedListsOfManifestsEndAtMaxDepth) {
  // Its digest is not that of the bytes, which a list that holds itself could not have.
  const std::string digest(64, 'a');
  const std::string list = fmt::format(
      "{}{}\"}}]}}", R"({"mediaType":"application/vnd.ollama.manifest.list.v2+json","manifests":[{"digest":"sha256:)",
      digest);
  Container deep = container(list, {{"sha256-" + digest, list}});
  EXPECT_THAT(nested(well(read_as("ollama", deep))), ElementsAre(HasSubstr("digest mismatch: found")));
  deep.depth = kMaxNestingDepth;
  EXPECT_FALSE(well(read_as("ollama", deep)).nested);
}

// Registries.

TEST(OllamaRegistry, MakesNoRequestBeforeFirstRead) {
  const Registry registry(small_ollama());
  registry.far->offline = true;
  const Model model = registry.read();
  EXPECT_EQ(model.format, "ollama");
  EXPECT_EQ(model.version, "schemaVersion 2");
  EXPECT_THAT(paths(model), ElementsAre("manifest.json", "config.json", "model.gguf", "template", "license",
                                        "params.json", "projector.gguf", "tensors/t.safetensors", "tensors/d"));
  EXPECT_EQ((*model.parts[2].source.get())->size(), small_gguf().size()) << "the manifest has the size";
  EXPECT_EQ(*model.stored_bytes, read(small_ollama()).stored_bytes);
  EXPECT_NE(json_at(model, {"manifest", "layers"}), "\"none\"");
  EXPECT_THAT(model.tensors, IsEmpty());
  ASSERT_TRUE(model.complete_model);
  EXPECT_EQ(model.lacks->files, 0u);
  EXPECT_THAT(registry.far->requested, IsEmpty());
}

TEST(OllamaRegistry, FetchesOnlyBlobsNeededForMetadata) {
  const Registry registry(small_ollama());
  const Model model = registry.read();
  const auto whole = model.complete_model->get();
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(listing(**whole), listing(read(small_ollama())));
  EXPECT_EQ(to_json(Value((*whole)->metadata)), to_json(Value(read(small_ollama()).metadata)));
  EXPECT_EQ(to_json(Value((*whole)->common)), to_json(Value(read(small_ollama()).common)));
  EXPECT_EQ(paths(**whole), paths(model));
  EXPECT_FALSE((*whole)->complete_model);
  std::sort(registry.far->requested.begin(), registry.far->requested.end());
  EXPECT_THAT(registry.far->requested, ElementsAre("config", "d", "license", "model", "params", "t"))
      << "each once; neither the template nor the projector; d because its bytes were listed";
}

TEST(OllamaRegistry, NetworkFailureIsRetried) {
  const Registry registry(small_ollama());
  registry.far->offline = true;
  const Model model = registry.read();
  const auto failed = model.complete_model->get();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::network);
  EXPECT_EQ(failed.error().message, "config: no network");
  EXPECT_EQ(text_of_part(model, "template"), "error: template: no network");
  registry.far->offline = false;
  EXPECT_TRUE(model.complete_model->get());
  EXPECT_EQ(text_of_part(model, "template"), "{{ .Prompt }}");
}

TEST(OllamaRegistry, ReportsUnavailableBlob) {
  OllamaBuilder b;
  b.layer("system", "s");
  Registry registry(b);
  registry.far = std::make_shared<Far>(Files{});
  const Model model = registry.read();
  EXPECT_THAT(paths(model), ElementsAre("manifest.json", "system"));
  EXPECT_EQ(text_of_part(model, "system"), "error: system: nobody has it");
}

TEST(OllamaRegistry, NestedContainerIsFetchedWhenEntered) {
  const Registry registry(small_ollama());
  const Model model = registry.read();
  const auto inner = model.nested(borrowed(model));
  ASSERT_TRUE(inner);
  ASSERT_EQ(inner->size(), 1U);
  EXPECT_THAT(registry.far->requested, IsEmpty()) << "its media type is trusted";
  EXPECT_EQ(model.parts[inner->front().part].path, "projector.gguf");
  EXPECT_EQ(listing(*inner->front().model.get().value()), Lines{"p int8 I8 [1] p"});
  EXPECT_THAT(registry.far->requested, ElementsAre("projector"));
}

TEST(OllamaRegistry, LocalModelIsCompleteImmediately) {
  const Registry registry(small_ollama());
  registry.far->at_hand = {"config", "license", "model", "params", "t"};
  EXPECT_FALSE(registry.read().complete_model) << "of a tensor of bare bytes the manifest says all";
  registry.far->at_hand.erase("params");
  EXPECT_TRUE(registry.read().complete_model);
}

// A local blob may be evicted between two calls.
TEST(OllamaRegistry, EvictedBlobIsFetchedAgain) {
  const Registry registry(small_ollama());
  registry.far->at_hand = {"template"};
  registry.far->offline = true;
  const Model model = registry.read();
  EXPECT_EQ(model.parts.size(), 9U);
  EXPECT_EQ(model.lacks->files, 0u);
  registry.far->offline = false;
  EXPECT_EQ(text_of_part(model, "template"), "{{ .Prompt }}");
}

TEST(OllamaRegistry, RequestsSizeMissingFromManifest) {
  OllamaBuilder b;
  b.layer("system", "s");
  Registry registry(b);
  const size_t size = registry.manifest.find(",\"size\":1");
  registry.manifest.erase(size, 9);
  const Model model = registry.read();
  EXPECT_THAT(registry.far->requested, IsEmpty());
  EXPECT_EQ(text_of_part(model, "system"), "s");
}

// semantics 24.2: the layers of a ModelPack, a KitOps and an ORAS package are files, even where they hold a model.
TEST(OllamaRegistry, ShowsOtherPackagesAsFiles) {
  struct Package {
    const char* config;
    const char* layer;
  };
  for (const auto& [config, layer] :
       {Package{"application/vnd.cncf.model.config.v1+json", "application/vnd.cncf.model.weight.v1.raw"},
        Package{"application/vnd.kitops.modelkit.config.v1+json", "application/vnd.kitops.modelkit.model.v1.tar"},
        Package{"application/vnd.oci.empty.v1+json", "application/octet-stream"}}) {
    OllamaBuilder b;
    const std::string described = b.described(config, "{}", "");
    const std::string title = R"(,"annotations":{"org.opencontainers.image.title":"model.gguf"})";
    const std::string layers = b.described(layer, gguf("w"), title);
    Registry registry(b);
    registry.manifest =
        fmt::format("{}{}{}{}{}]}}", R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",)",
                    R"("config":)", described, R"(,"layers":[)", layers);
    const Model model = registry.read();
    const std::string file = "blob-" + sha256(gguf("w")).hex().substr(0, 12);
    EXPECT_THAT(paths(model), ElementsAre("manifest.json", "config.json", file)) << layer;
    EXPECT_EQ(text_of_part(model, file), gguf("w")) << layer;
    EXPECT_THAT(nested(model), IsEmpty()) << layer;
    ASSERT_TRUE(model.complete_model) << layer;
    const auto whole = model.complete_model->get();
    ASSERT_TRUE(whole) << whole.error().message;
    EXPECT_THAT((*whole)->tensors, IsEmpty()) << layer;
    EXPECT_THAT((*whole)->warnings, IsEmpty()) << layer;
  }
}

// Hostile manifests.

TEST(OllamaLimits, EachBlobIsLookedUpOnce) {
  OllamaBuilder b;
  for (int i = 0; i < 1000; ++i) b.layer("license", "l");
  Registry registry(b);
  registry.far->at_hand = {"license"};
  EXPECT_EQ(registry.read().parts.size(), 1001U);
  EXPECT_EQ(registry.far->requested.size(), 1U);
}

TEST(OllamaLimits, ManyLayersOfOneBlobTakeLittleTime) {
  const std::string blob = "l";
  std::string manifest = "{\"layers\":[";
  for (int i = 0; i < 30'000; ++i)
    manifest +=
        fmt::format("{}{}{}\"}}", i == 0 ? "" : ",",
                    R"({"mediaType":"application/vnd.ollama.image.license","digest":"sha256:)", sha256(blob).hex());
  const Model model = read(manifest + "]}", {{"sha256-" + sha256(blob).hex(), blob}});
  EXPECT_EQ(model.parts.size(), 30'001U);
  EXPECT_EQ(model.parts.back().path, "license-30000");
  EXPECT_EQ(*model.stored_bytes, manifest.size() + 2 + 1);
}

// Thousands of layers that name one blob with a long header could create any number of tensors.
TEST(OllamaLimits, BoundsTheHeadersOfAllLayersTogether) {
  const std::string entry = R"("w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  const std::string blob = safetensors_file("{" + entry + std::string(51'000'000, ' ') + "}");
  OllamaBuilder b;
  for (int i = 0; i < 2; ++i) b.layer("tensor", blob, fmt::format(",\"name\":\"{}\"", i));
  const Model model = read(b);
  EXPECT_EQ(model.tensors.size(), 1U);
  EXPECT_THAT(model.warnings, Contains("\"tensors/1.safetensors\": headers of more than 100000000 bytes in all; its "
                                       "tensors are missing"));
}

TEST(OllamaLimits, RefusesOverlongTensorNames) {
  OllamaBuilder b;
  b.layer("tensor; name=" + std::string(65'536, 'n') + "; dtype=U8; shape=1", "x");
  b.layer("json", "{}", fmt::format(",\"name\":\"{}\"", std::string(65'536, 'j')));
  const Model model = read(b);
  EXPECT_THAT(model.tensors, IsEmpty());
  EXPECT_EQ(model.parts.size(), 3U);
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("a name of 65536 bytes, at most 65535")));
}

TEST(OllamaLimits, SumOfClaimedSizesDoesNotOverflow) {
  Registry registry((OllamaBuilder()));
  registry.manifest = "{\"layers\":[";
  for (const char digit : {'a', 'b', 'c'})
    registry.manifest += fmt::format("{}{}{}{}", digit == 'a' ? "" : ",",
                                     R"({"mediaType":"application/vnd.ollama.image.license","digest":"sha256:)",
                                     std::string(64, digit), R"(","size":9223372036854775807})");
  registry.manifest += "]}";
  EXPECT_EQ(*registry.read().stored_bytes, uint64_t{INT64_MAX});
}

}  // namespace
}  // namespace weightfs::ollama_test
