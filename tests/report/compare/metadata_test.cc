// The comparison of what models say about themselves.
#include "report/compare/metadata.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/numbers.h"

namespace weightfs::compare::metadata_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Model model_with(Map metadata) {
  Model model;
  model.format = "gguf";
  model.version = "3";
  model.metadata = std::move(metadata);
  return model;
}

Map map_of(std::vector<std::pair<std::string, Value>> entries) {
  Map out;
  for (auto& [key, value] : entries) out.append(std::move(key), std::move(value));
  return out;
}

// "path: a -> b", "-" for a missing field.
std::vector<std::string> changes(const Model& a, const Model& b) {
  const auto text = [](const std::optional<Value>& value) { return value ? to_json_line(*value) : "-"; };
  std::vector<std::string> out;
  for (const FieldChange& change : compare_metadata(a, b).changes)
    out.push_back(fmt::format("{}: {} -> {}", change.path, text(change.a), text(change.b)));
  return out;
}

TEST(CompareMetadata, EqualFieldsInAnotherOrderAreEqual) {
  EXPECT_THAT(changes(model_with(map_of({{"a", 1}, {"b", 2}})), model_with(map_of({{"b", 2}, {"a", 1}}))), IsEmpty());
}

TEST(CompareMetadata, FieldsThatDifferAreListedByPath) {
  const Model a = model_with(map_of({{"x", 1}, {"only", true}, {"in", map_of({{"deep", "old"}, {"same", 1}})}}));
  const Model b = model_with(map_of({{"x", 1.5}, {"new", nullptr}, {"in", map_of({{"deep", "new"}, {"same", 1}})}}));
  EXPECT_THAT(changes(a, b), ElementsAre(R"(metadata.in.deep: "old" -> "new")", "metadata.new: - -> null",
                                         "metadata.only: true -> -", "metadata.x: 1 -> 1.5"));
}

TEST(CompareMetadata, FormatsAndCommonFieldsAreCompared) {
  Model a = model_with({});
  Model b = model_with({});
  a.common.append("name", "Tiny");
  b.format = "safetensors";
  EXPECT_THAT(changes(a, b), ElementsAre(R"(format: "gguf" -> "safetensors")", R"(name: "Tiny" -> -)"));
}

TEST(CompareMetadata, FactsAreCompared) {
  Model a = model_with({});
  Model b = model_with({});
  a.add_facts = [](Map& metadata) { metadata.append("version", 2); };
  b.add_facts = [](Map& metadata) { metadata.append("version", 3); };
  EXPECT_THAT(changes(a, b), ElementsAre("metadata.version: 2 -> 3"));
}

TEST(CompareMetadata, BytesThatAreNotTextAreComparedExactly) {
  EXPECT_EQ(changes(model_with(map_of({{"k", "\xFE"}})), model_with(map_of({{"k", "\xFF"}}))).size(), 1u);
}

TEST(CompareMetadata, EmptyMapIsAField) {
  EXPECT_THAT(changes(model_with(map_of({{"k", Map()}})), model_with({})), ElementsAre("metadata.k: {} -> -"));
}

TEST(CompareMetadata, DocumentsAreComparedByTheirBytes) {
  Model a = model_with({});
  Model b = model_with({});
  const auto add = [](Model& model, const char* path, const char* text) {
    model.documents.push_back({path, Later<SourcePtr>::of(in_memory(text))});
  };
  add(a, "metadata/same.json", "[1]");
  add(b, "metadata/same.json", "[1]");
  add(a, "metadata/list.json", "[1]");
  add(b, "metadata/list.json", "[2]");
  add(b, "graph.json", "{}");
  EXPECT_THAT(changes(a, b),
              ElementsAre(R"x(metadata/list.json: "(3 bytes)" -> "(3 bytes)")x", R"x(graph.json: - -> "(2 bytes)")x"));
}

TEST(CompareMetadata, UnreadableDocumentIsReportedOnce) {
  Model a = model_with({});
  Model b = model_with({});
  const Later<SourcePtr> bad([]() -> Result<SourcePtr> { return failure(Code::corrupt, "not a list"); });
  a.documents.push_back({"metadata/list.json", bad});
  b.documents.push_back({"metadata/list.json", bad});
  const MetadataComparison found = compare_metadata(a, b);
  EXPECT_THAT(found.changes, IsEmpty());
  ASSERT_EQ(found.unreadable.size(), 1u);
  EXPECT_EQ(found.unreadable[0].message, "\"metadata/list.json\": not a list");
}

TEST(CompareMetadata, ValuesAreEqualAcrossIntegerTypes) {
  EXPECT_TRUE(is_equal(Value(uint64_t{5}), Value(int64_t{5})));
  EXPECT_FALSE(is_equal(Value(UINT64_MAX), Value(int64_t{-1})));
  EXPECT_FALSE(is_equal(Value(int64_t{1}), Value(true)));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(is_equal(Value(nan), Value(nan)));
  EXPECT_FALSE(is_equal(Value(List{1, 2}), Value(List{1})));
  EXPECT_TRUE(is_equal(Value(List{1, map_of({{"a", "b"}})}), Value(List{1, map_of({{"a", "b"}})})));
  EXPECT_FALSE(is_equal(Value(List{map_of({{"a", "b"}})}), Value(List{map_of({{"a", "c"}})})));
}

}  // namespace
}  // namespace weightfs::compare::metadata_test
