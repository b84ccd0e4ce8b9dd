#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/values/json.h"
#include "tests/support/gguf_reading.h"

namespace weightfs::documents_test {
namespace {

using namespace test;
using testing::ElementsAre;

TEST(GgufDocuments, LongListBecomesDocument) {
  GgufBuilder b;
  std::string words, floats;
  for (int i = 0; i < 1025; ++i) {
    words += b.text(i == 0 ? std::string_view("\"\n\xFF") : std::string_view("w"));
    floats += b.number(i == 1 ? std::numeric_limits<float>::infinity() : 0.1F * static_cast<float>(i));
  }
  b.key("tokenizer.ggml.tokens", kArray, b.array(kString, 1025, words)).key("s", kArray, b.array(kF32, 1025, floats));
  b.key("bytes", kArray, b.array(kU8, 1024, std::string(1024, '\1')));
  const Model model = read_well(b.build());
  EXPECT_EQ(json_of(model, "tokenizer.ggml.tokens"),
            "{\n  \"count\": 1025,\n  \"type\": \"string\",\n  \"path\": \"metadata/tokenizer.ggml.tokens.json\"\n}\n");
  EXPECT_TRUE(std::holds_alternative<List>(*model.metadata.find("bytes"))) << "1024 elements are still a page";
  ASSERT_EQ(model.documents.size(), 2u);
  EXPECT_EQ(model.documents[0].path, "metadata/tokenizer.ggml.tokens.json");
  const std::string tokens = text_of(**model.documents[0].source.get());
  EXPECT_TRUE(tokens.starts_with("[\n  \"\\\"\\n\uFFFD\",\n  \"w\",\n")) << tokens.substr(0, 40);
  EXPECT_TRUE(tokens.ends_with("  \"w\"\n]\n"));
  const SourcePtr scores = *model.documents[1].source.get();
  EXPECT_TRUE(text_of(*scores).starts_with("[\n  0.0,\n  \"Infinity\",\n  0.2,\n")) << text_of(*scores).substr(0, 40);
  EXPECT_EQ(std::get<List>(*parse_json(*scores, 0, scores->size())).size(), 1025u);
}

TEST(GgufDocuments, ElementsOfNestedArraysAreSummed) {
  GgufBuilder b;
  std::string inner;
  for (int i = 0; i < 600; ++i) inner += b.array(kU8, 1, "\5");
  b.key("n", kArray, b.array(kArray, 600, inner));
  const Model model = read_well(b.build());
  EXPECT_EQ(json_of(model, "n"), "{\n  \"count\": 1200,\n  \"type\": \"array\",\n  \"path\": \"metadata/n.json\"\n}\n");
  EXPECT_TRUE(text_of(**model.documents.at(0).source.get()).starts_with("[\n  [5],\n  [5],\n"));
}

TEST(GgufDocuments, LongTextBecomesDocument) {
  const std::string text((1 << 20) + 1, 'x');
  const Model model = read_well(GgufBuilder().string("t", text).string("u", "short").build());
  EXPECT_EQ(json_of(model, "t"),
            "{\n  \"nbytes\": 1048577,\n  \"type\": \"string\",\n  \"path\": \"metadata/t.json\"\n}\n");
  EXPECT_EQ(json_of(model, "u"), "\"short\"\n") << "what was not kept takes no room";
  EXPECT_EQ((*model.documents.at(0).source.get())->size(), text.size() + 3);
}

TEST(GgufDocuments, TooLargeDocumentIsOmitted) {
  GgufBuilder b;
  const std::string list = b.array(kU8, 20 << 20, std::string(20 << 20, '\0'));
  const Model model = read_well(b.key("one", kArray, list).key("two", kArray, list).build());
  EXPECT_EQ(model.documents.size(), 1u);
  EXPECT_EQ(json_of(model, "two"), "{\n  \"count\": 20971520,\n  \"type\": \"uint8\"\n}\n");
  EXPECT_THAT(model.warnings, ElementsAre("key \"two\": 20971532 bytes are too large to be shown"));
}

TEST(GgufDocuments, NamesDocumentsSafely) {
  GgufBuilder b;
  const std::string list = b.array(kU8, 1025, std::string(1025, '\0'));
  for (const auto& key :
       {std::string("../a%"), std::string("."), std::string(), std::string("\n\xFF"), std::string(201, 'k')})
    b.key(key, kArray, list);
  std::vector<std::string> paths;
  for (const Document& document : read_well(b.build()).documents) paths.push_back(document.path);
  EXPECT_THAT(paths, ElementsAre("metadata/..%2Fa%25.json", "metadata/%key-1.json", "metadata/%key-2.json",
                                 "metadata/%0A%FF.json", "metadata/%key-4.json"));
}

TEST(GgufDocuments, RendersADocumentOfABigEndianFile) {
  GgufBuilder b(1, std::endian::big);
  std::string list;
  for (uint16_t i = 0; i < 1025; ++i) list += b.number(i);
  const Model model = read_well(b.key("n", kArray, b.array(kU16, 1025, list)).build());
  EXPECT_TRUE(text_of(**model.documents.at(0).source.get()).ends_with("  1023,\n  1024\n]\n"));
}

}  // namespace
}  // namespace weightfs::documents_test
