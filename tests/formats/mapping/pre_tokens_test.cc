// The text by which the converter of llama.cpp tells tokenizers apart: how it is split and merged.
#include "formats/mapping/tokenizer/pre_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "formats/mapping/tokenizer/test_text.h"

namespace weightfs::pre_tokens_test {
namespace {

constexpr auto kFamilies = {"llama-bpe", "qwen2", "qwen35", "deepseek-v3", "gpt-4o",
                            "tekken",    "gpt-2", "refact", "seed-coder",  "minicpm5"};

// All characters of the alphabet as tokens, in the order of their code points, and merges.
std::unique_ptr<mapping::TokenizerJson> bytes_with_merges(std::string_view merges, Budget& budget) {
  std::string vocab;
  for (unsigned point = 0x21; point < 0x144; ++point) {
    const bool is_used = point < 0x7F || (point >= 0xA1 && point != 0xAD);
    std::string text(1, static_cast<char>(point));
    if (point >= 0x80) text = {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
    if (text == "\"" || text == "\\") text.insert(0, "\\");
    if (is_used) vocab += (vocab.empty() ? "\"" : ", \"") + text + "\": " + std::to_string(point);
  }
  const std::string json = R"({"model": {"type": "BPE", "vocab": {)" + vocab +
                           R"(, "he": 1000, "\u0120t": 1001, "\u0120the": 1002, "\u0120the're": 1003}, "merges": [)" +
                           std::string(merges) + "]}}";
  auto read = mapping::read_tokenizer_json(*in_memory(json), mapping::Keep::everything, budget);
  EXPECT_TRUE(read) << (read ? "" : read.error().message);
  return std::move(*read);
}

TEST(PreTokens, EachFamilySplitsTheWholeText) {
  for (const char* const family : kFamilies) {
    const auto sizes = mapping::parts_of_test_text(family);
    EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), size_t{0}), mapping::kTestText.size()) << family;
  }
  EXPECT_TRUE(mapping::parts_of_test_text("none").empty());
}

TEST(PreTokens, EachByteIsATokenWithoutMerges) {
  Budget budget(0);
  const auto json = bytes_with_merges("", budget);
  for (const char* const family : kFamilies) {
    const auto ids = mapping::tokens_of_test_text(*json, family);
    ASSERT_TRUE(ids);
    EXPECT_EQ(ids->size(), mapping::kTestText.size());
    EXPECT_THAT(std::vector<uint64_t>(ids->begin(), ids->begin() + 3), testing::ElementsAre(0x10A, 0x120, 0x10A));
    EXPECT_EQ(ids->back(), uint64_t{'L'});
    EXPECT_EQ(mapping::name_by_tokens(*json, family, {}, {}), "") << "an unknown tokenizer";
  }
}

// " there", "'told he's there": the pair of the lowest rank first, and no merge over the end of a part.
TEST(PreTokens, PairsMergeInsideOfPartsByRank) {
  Budget budget(0);
  const auto json = bytes_with_merges(R"(["h", "e"], ["\u0120", "t"], ["\u0120t", "he"], ["e", "'"])", budget);
  const auto ids = mapping::tokens_of_test_text(*json, "llama-bpe");
  ASSERT_TRUE(ids);
  EXPECT_EQ(std::ranges::count(*ids, 1002u), 1) << " the(re)";
  EXPECT_EQ(std::ranges::count(*ids, 1000u), 1) << " he";
  EXPECT_EQ(std::ranges::count(*ids, 1001u), 1) << " t(ea)";
}

TEST(PreTokens, CharacterWithoutATokenHasNoName) {
  Budget budget(0);
  auto json = bytes_with_merges("", budget);
  json->vocab.pop_back();
  std::erase_if(json->vocab, [](const mapping::VocabEntry& entry) { return entry.text == "L"; });
  EXPECT_FALSE(mapping::tokens_of_test_text(*json, "qwen2"));
  EXPECT_EQ(mapping::name_by_tokens(*json, "qwen2", {}, {}), "");
}

}  // namespace
}  // namespace weightfs::pre_tokens_test
