// The flat list of a model's metadata: keys, types, values, and the pages of long ones.
#include "formats/entries/entries.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/gguf_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/memory_folder.h"

namespace weightfs::entries_test {
namespace {

using namespace metadata;
using namespace test;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

std::shared_ptr<const Entries> entries_of(const std::string& name, const std::string& bytes, Files files = {}) {
  auto model = std::make_shared<Model>(read_model({name, in_memory(bytes)}).value());
  model->beside = std::make_shared<MemoryFolder>(std::move(files));
  return Entries::of(model);
}

std::string line(const Entry& entry) {
  constexpr auto kOpens = std::to_array<const char*>({"", " text", " list", " object"});
  const std::string count = entry.opens == metadata::Opens::nothing ? "" : fmt::format(" {}", entry.count);
  return fmt::format("{} {} {}: {}{}{}", entry.from, entry.key, entry.type, entry.shown, count,
                     kOpens.at(static_cast<size_t>(entry.opens)));
}

std::vector<std::string> lines(const Entries& entries, const std::vector<std::string>& words = {},
                               std::string_view from = "") {
  std::vector<std::string> out;
  for (const uint32_t place : entries.find(words, from)) out.push_back(line(entries.all()[place]));
  return out;
}

// "1: b | 2: c of 5".
std::string page(const Entries& entries, std::string_view key, uint64_t offset, uint64_t limit) {
  const auto found = std::ranges::find(entries.all(), key, &Entry::key);
  const auto opened = entries.open(static_cast<uint64_t>(found - entries.all().begin()), offset, limit);
  if (!opened) return opened.error().message;
  if (!opened->text.empty()) return fmt::format("{} of {}", opened->text, opened->total);
  std::string out;
  for (size_t i = 0; i < opened->items.size(); ++i)
    out += fmt::format("{}{}: {}", i == 0 ? "" : " | ",
                       opened->keys.empty() ? std::to_string(offset + i) : opened->keys[i],
                       to_json_line(opened->items[i]));
  return fmt::format("{} of {}", out, opened->total);
}

TEST(Entries, OfGgufHaveItsTypes) {
  GgufBuilder b;
  std::string words;
  for (int i = 0; i < 2000; ++i) words += b.text(fmt::format("w{}", i));
  b.string("general.name", "N").u16("a.small", 7).f32("a.eps", 1e-6F);
  b.key("a.flag", kBool, "\1").key("a.list", kArray, b.array(kU32, 2, b.number(1U) + b.number(2U)));
  b.key("tokenizer.ggml.tokens", kArray, b.array(kString, 2000, words));
  const auto entries = entries_of("m.gguf", b.build());
  EXPECT_THAT(lines(*entries, {"a."}, "gguf"),
              ElementsAre("gguf a.small uint16: 7", "gguf a.eps float32: 1e-06", "gguf a.flag bool: true",
                          "gguf a.list array of uint32: [1,2]"));
  EXPECT_THAT(lines(*entries), Contains("gguf tokenizer.ggml.tokens array of string:  2000 list"));
  EXPECT_THAT(lines(*entries), Contains("model name text: N"));
  EXPECT_THAT(lines(*entries), Contains("gguf gguf.version integer: 3"));
  EXPECT_EQ(page(*entries, "tokenizer.ggml.tokens", 1998, 100), R"(1998: "w1998" | 1999: "w1999" of 2000)");
  EXPECT_EQ(page(*entries, "tokenizer.ggml.tokens", 2000, 1), " of 2000");
  EXPECT_EQ(page(*entries, "tokenizer.ggml.tokens", 0, 1001), "a page has at most 1000 items");
  EXPECT_EQ(page(*entries, "nothing", 0, 1), "the model has no such entry");
}

TEST(Entries, LongTextIsOpened) {
  const std::string text = "first\n" + std::string(1000, 'x');
  const auto entries = entries_of("m.gguf", GgufBuilder().string("k", text).build());
  EXPECT_THAT(lines(*entries, {}, "gguf"), Contains(fmt::format("gguf k string: {} 1006 text", text.substr(0, 400))));
  EXPECT_EQ(page(*entries, "k", 0, 10), text + " of 1006");
}

TEST(Entries, OfSmallFilesAreTakenApart) {
  std::string many;
  for (int i = 0; i < 100; ++i) many += fmt::format(R"({}"k{}": {{"id": {}}})", i == 0 ? "" : ", ", i, i);
  const auto entries = entries_of(
      "m.safetensors", SafetensorsBuilder().metadata(R"({"format":"pt"})").tensor("w", "U8", "1", "x").build(),
      {{"config.json",
        R"({"model_type": "llama", "rope": {"factor": 8.0, "deep": {"x": null}}, "list": [1, 2, 3, 4, 5, 6, 7, 8, 9],
                          "none": {}, "many": {)" +
            many + "}}"},
       {"generation_config.json", "not JSON"}});
  EXPECT_THAT(lines(*entries, {}, "config.json"),
              ElementsAre("config.json model_type text: llama", "config.json rope.factor number: 8.0",
                          "config.json rope.deep.x null: null", "config.json list list:  9 list",
                          "config.json none object: {}", "config.json many object:  100 object"));
  EXPECT_THAT(lines(*entries, {"format", "pt"}), Contains("safetensors format text: pt"));
  EXPECT_THAT(lines(*entries, {}, "generation_config.json"), IsEmpty());
  EXPECT_EQ(page(*entries, "list", 7, 5), "7: 8 | 8: 9 of 9");
  EXPECT_EQ(page(*entries, "many", 98, 5), R"(k98: "{\"id\":98}" | k99: "{\"id\":99}" of 100)");
}

TEST(DocumentPage, HasTheItemsOfListsObjectsAndTexts) {
  const auto shown = [](const std::string& json, uint64_t offset, uint64_t limit) {
    const auto made = page_of_document(*in_memory(json), offset, limit);
    if (!made) return made.error().message;
    std::string keys;
    for (const std::string& key : made->keys) keys += key + ",";
    return fmt::format("{} {} {} {}", made->total, keys, to_json_line(made->items), made->text);
  };
  EXPECT_EQ(shown(R"([1, [2, {"a": []}], "x", null])", 1, 2), R"(4  ["[2,{\"a\":[]}]","x"] )");
  EXPECT_EQ(shown(R"({"a": {"b": 1}, "c": 2})", 0, 9), R"(2 a,c, ["{\"b\":1}",2] )");
  EXPECT_EQ(shown(R"("a text")", 0, 1), "6  [] a text");
  EXPECT_EQ(shown("[]", 0, 1), "0  [] ");
  EXPECT_NE(shown("[1,", 0, 1).find("JSON"), std::string::npos);
}

// Items and texts are cut between characters.
TEST(DocumentPage, LongItemsAreCut) {
  const auto made = page_of_value(Value(List{Value(std::string(4095, 'x') + "é")}), 0, 1);
  EXPECT_EQ(made.items.size(), 1u);
  EXPECT_EQ(std::get<std::string>(made.items.front()), std::string(4095, 'x'));
}

}  // namespace
}  // namespace weightfs::entries_test
