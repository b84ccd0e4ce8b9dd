// What a manifest may be, by encoding/json of Go, which Ollama reads it with.
#include "formats/ollama/manifest.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/support/reading.h"

namespace weightfs::ollama::manifest_test {
namespace {

using test::error_in;
using test::well;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kHex(64, 'a');
const std::string kDigest = "sha256:" + kHex;

Result<Manifest> read(const std::string& text) {
  Warnings warnings;
  Budget budget(text.size());
  return read_manifest(text, warnings, budget);
}

Manifest read_well(const std::string& text) {
  SCOPED_TRACE(text);
  return well(read(text));
}

std::string error_of(const std::string& text) { return error_in(read(text)); }

std::vector<std::string> warnings_of(const std::string& text) {
  Warnings warnings;
  Budget budget(text.size());
  EXPECT_TRUE(read_manifest(text, warnings, budget));
  return warnings.lines();
}

std::string layer(const std::string& fields) { return fmt::format("{{\"layers\":[{{{}}}]}}", fields); }

TEST(OllamaManifest, HasConfigAndLayers) {
  const Manifest manifest =
      read_well(fmt::format("{}{}{}{}{}{}\",\"size\":0}}]}}",
                            R"({"schemaVersion":2,"mediaType":"application/x","config":{"mediaType":"c","digest":")",
                            kDigest, R"(","size":7},"layers":[{"mediaType":"m","digest":")", kDigest,
                            R"(","size":9,"from":"llama3:latest","name":"w"},{"mediaType":"n","digest":")", kDigest));
  EXPECT_EQ(manifest.schema_version, 2);
  EXPECT_EQ(manifest.media_type, "application/x");
  ASSERT_TRUE(manifest.config);
  EXPECT_EQ(manifest.config->media_type, "c");
  EXPECT_EQ(manifest.config->size, 7U);
  ASSERT_EQ(manifest.layers.size(), 2U);
  const Descriptor& first = manifest.layers[0];
  EXPECT_EQ(first.digest->hex(), kHex);
  EXPECT_EQ(first.from, "llama3:latest");
  EXPECT_EQ(first.name, "w");
  EXPECT_EQ(manifest.layers[1].size, 0U);
}

TEST(OllamaManifest, MostFieldsAreOptional) {
  for (const char* const text :
       {"{}", "null", " null", R"({"layers":null,"config":null})", R"({"config":{"digest":""}})"}) {
    const Manifest manifest = read_well(text);
    EXPECT_FALSE(manifest.config) << text;
    EXPECT_THAT(manifest.layers, IsEmpty()) << text;
  }
  const Manifest manifest = read_well(R"({"layers":[null,{}]})");
  ASSERT_EQ(manifest.layers.size(), 2U);
  EXPECT_FALSE(manifest.layers[0].digest);
  EXPECT_FALSE(manifest.layers[1].size);
}

// `ollama pull` stores the bytes of the registry; Go's decoder stops at the end of the value.
TEST(OllamaManifest, DataAfterFirstValueIsIgnored) {
  for (const std::string& after :
       {std::string(), std::string("\n"), std::string("{}"), std::string("garbage }]"), std::string(1, '\0')})
    EXPECT_EQ(read_well(layer(R"("name":"}]\"{\\")") + after).layers.size(), 1U) << after;
  EXPECT_EQ(read_well("null and void").layers.size(), 0U);
}

TEST(OllamaManifest, KeysAreCaseInsensitive) {
  const Manifest manifest = read_well(
      R"({"LAYERS":[{"MediaType":"m","x":{"size":"y"}}],"SchemaVersion":2,"unknown":[1,[2]],"annotations":{"a":"b"}})");
  EXPECT_EQ(manifest.schema_version, 2);
  ASSERT_EQ(manifest.layers.size(), 1U);
  EXPECT_EQ(manifest.layers[0].media_type, "m");
  EXPECT_EQ(read_well(R"({"schemaVersion":1,"SCHEMAVERSION":2})").schema_version, 2) << "the last counts";
}

TEST(OllamaManifest, WrongFieldTypeIsRefused) {
  EXPECT_EQ(error_of(R"({"layers":{}})"), "layers: a list expected, not an object");
  EXPECT_EQ(error_of(R"({"layers":["x"]})"), "layers[0]: not an object");
  EXPECT_EQ(error_of(R"({"config":[]})"), "config: not an object");
  EXPECT_EQ(error_of(layer(R"("size":"12")")), "layers[0].size: a whole number of 64 bits expected, not a text");
  EXPECT_EQ(error_of(layer(R"("size":1.0)")),
            "layers[0].size: a whole number of 64 bits expected, not a number with a fraction or an exponent");
  EXPECT_EQ(error_of(layer(R"("size":9223372036854775808)")),
            "layers[0].size: a whole number of 64 bits expected, not a larger number");
  EXPECT_EQ(error_of(layer(R"("digest":7)")), "layers[0].digest: a text expected, not a number");
  EXPECT_EQ(error_of(R"({"schemaVersion":"2"})"), "schemaVersion: a whole number of 64 bits expected, not a text");
  EXPECT_EQ(error_of(R"({"mediaType":true})"), "mediaType: a text expected, not true or false");
}

TEST(OllamaManifest, NonObjectIsRefused) {
  for (const char* const text : {"[]", "7", "\"x\"", "true"})
    EXPECT_EQ(error_of(text), "JSON, but not an object") << text;
  for (const char* const text : {"{", "{]", "{\"layers\":", "x", "nul", "\xEF\xBB\xBF{}"})
    EXPECT_THAT(error_of(text), HasSubstr("JSON")) << text;
  EXPECT_EQ(error_of(""), "empty where JSON is needed");
}

TEST(OllamaManifest, DigestsAreSha256) {
  const auto digest_in = [](const std::string& text) {
    const auto digest = digest_named(text);
    return digest ? digest->hex() : "none";
  };
  EXPECT_EQ(digest_in("sha256:" + kHex), kHex);
  EXPECT_EQ(digest_in("sha256-" + kHex), kHex);
  EXPECT_EQ(digest_in("sha256:" + std::string(64, 'A')), kHex) << "folded to lower case";
  for (const std::string& none :
       {std::string(), std::string("sha256:"), "SHA256:" + kHex, "sha512:" + kHex, kHex, "sha256:" + kHex + "a",
        "sha256:" + kHex.substr(1), "sha256:../" + kHex.substr(3), " sha256:" + kHex, "sha256:" + kHex + "\n"})
    EXPECT_EQ(digest_in(none), "none") << none;
}

TEST(OllamaManifest, WarnsAboutLayersWithoutDigest) {
  EXPECT_THAT(warnings_of(layer(R"("digest":"md5:1")")),
              ElementsAre("layers[0]: \"md5:1\" is not a SHA-256 of a blob"));
  EXPECT_THAT(warnings_of(layer(R"("digest":"")")), ElementsAre("layers[0]: no digest, so no blob"));
  EXPECT_THAT(warnings_of(R"({"config":{"digest":"../../etc/passwd"}})"),
              ElementsAre("config: \"../../etc/passwd\" is not a SHA-256 of a blob"));
}

TEST(OllamaManifest, NegativeSizeIsIgnoredWithWarning) {
  const std::string text = layer(fmt::format("\"size\":-1,\"digest\":\"{}\"", kDigest));
  EXPECT_FALSE(read_well(text).layers[0].size);
  EXPECT_THAT(warnings_of(text), ElementsAre("layers[0]: a size of -1 bytes"));
}

TEST(OllamaManifest, MayListManifests) {
  const Manifest manifest = read_well(fmt::format("{}{}{}", R"({"manifests":[{"mediaType":"m","digest":")", kDigest,
                                                  R"(","runner":"mlx","format":"safetensors"}]})"));
  ASSERT_EQ(manifest.manifests.size(), 1U);
  EXPECT_EQ(manifest.manifests[0].runner, "mlx");
  EXPECT_THAT(warnings_of(R"({"manifests":7})"), ElementsAre("manifests: a list expected, not a number"));
  EXPECT_THAT(warnings_of(R"({"manifests":[7]})"), ElementsAre("manifests[0]: not an object"));
}

TEST(OllamaManifest, NumberOfLayersIsBounded) {
  const auto layers = [](size_t count) {
    std::string text = "{\"layers\":[";
    for (size_t i = 0; i < count; ++i) text += i == 0 ? "{}" : ",{}";
    return text + "]}";
  };
  EXPECT_EQ(read_well(layers(kMaxLayers)).layers.size(), kMaxLayers);
  EXPECT_EQ(error_of(layers(kMaxLayers + 1)), "100001 layers, at most 100000 are read");
  std::string values = "{\"x\":[0";
  for (int i = 0; i < 1'000'000; ++i) values += ",0";
  EXPECT_THAT(error_of(values + "]}"), testing::HasSubstr("too many values: the memory limit of 80.1 MiB"));
}

// The decoder reads 512 bytes, then 1,536 in total, then 3,584, until the value ends; the bytes read are hashed.
TEST(OllamaManifest, IdMatchesOllamaList) {
  const auto padded = [](size_t size) {
    const std::string frame = R"({"x":""})";
    return R"({"x":")" + std::string(size - frame.size(), 'x') + "\"}";
  };
  const auto id_of = [](const std::string& text) { return sha256(text).hex().substr(0, 12); };
  for (const size_t size : {size_t{20}, size_t{511}, size_t{513}, size_t{1535}, size_t{4000}})
    EXPECT_EQ(read_well(padded(size) + "\n").id, id_of(padded(size) + "\n")) << size;
  for (const size_t size : {size_t{512}, size_t{1536}, size_t{3584}})
    EXPECT_EQ(read_well(padded(size) + "\n").id, id_of(padded(size))) << size;
}

}  // namespace
}  // namespace weightfs::ollama::manifest_test
