#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "base/values/json.h"
#include "formats/flat_formats.h"
#include "formats/rten/image.h"
#include "tests/support/rten_reading.h"

namespace weightfs::rten_limits_test {
namespace {

using namespace test::rten;
using testing::HasSubstr;
using testing::SizeIs;

// A model of a chain of `count` graphs, each the branch of an If in the one before.
Ref nested(int count) {
  Ref inner = graph({});
  for (int i = 1; i < count; ++i) inner = graph({op("if", 104, {}, {}, 39, table({{0, inner}}))});
  return model_of(inner);
}

TEST(RtenLimits, DepthOfNestedGraphsIsBounded) {
  EXPECT_EQ(error_of(version2(nested(16))), "no error");
  EXPECT_EQ(error_of(version2(nested(17))), "rten: model data: tables nested deeper than 64");
}

// Eight branches that are one graph, thirteen times over: 8^13 graphs in a few kilobytes.
TEST(RtenLimits, CountsSharedGraphsEachTime) {
  Ref shared = graph({});
  for (int i = 0; i < 13; ++i) {
    const Ref both = table({{0, shared}, {1, shared}});
    shared = graph(std::vector<Ref>(4, op("if", 104, {}, {}, 39, both)));
  }
  const std::string file = version2(model_of(shared));
  EXPECT_LT(file.size(), 8192u);
  EXPECT_THAT(error_of(file), HasSubstr("counted at each use"));
}

// Nodes of their own, none shared.
std::vector<Ref> values(size_t count) {
  std::vector<Ref> out;
  for (size_t i = 0; i < count; ++i) out.push_back(value("x", {}, 0));
  return out;
}

// A shared node has four bytes in the file and some hundred in memory: their number is bounded by the file size.
TEST(RtenLimits, NumberOfNodesIsBoundedByFileSize) {
  EXPECT_THAT(error_of(version2(model_of(graph(std::vector<Ref>(5000, open_tmpfile(kValue, table({}))))))),
              HasSubstr("tables, counted at each use"));
}

TEST(RtenLimits, CountsSharedTextEachTime) {
  const std::string name(rten::kMaxListLength, 'n');
  const auto named = [&](size_t count) {
    return version2(model_of(graph(std::vector<Ref>(count, value(name, {}, 0)))));
  };
  EXPECT_EQ(error_of(named(1)), "no error");
  EXPECT_THAT(error_of(named(2)), HasSubstr("bytes of lists, strings and scopes, counted at each use"));
}

// Makes a file larger without text or tables.
Ref weights(uint32_t size) {
  return open_tmpfile(kConstant, inline_data({size}, kInt8, list(std::vector<int8_t>(size, 0))));
}

// The scopes of a graph shared by many operators, fourteen deep, have 300 bytes each, without bytes in the file.
TEST(RtenLimits, CountsTheScopesOfSharedGraphs) {
  const auto sharing = [](size_t count) {
    Ref inner = graph(std::vector<Ref>(count, op("", 104, {}, {}, 39, table({{0, graph({})}}))));
    for (int i = 0; i < 12; ++i) inner = graph({op("if", 104, {}, {}, 39, table({{0, inner}}))});
    return version2(model_of(graph({weights(200'000), op("if", 104, {}, {}, 39, table({{0, inner}}))})));
  };
  EXPECT_EQ(error_of(sharing(500)), "no error");
  EXPECT_THAT(error_of(sharing(2000)), HasSubstr("bytes of lists, strings and scopes, counted at each use"));
}

// A shared operator of four bytes is rendered with its defaults, and a name whose control characters need six bytes
// each.
TEST(RtenLimits, ChargesGraphJsonBeforeItIsBuilt) {
  const Ref conv = table({{0, scalar(uint8_t{10})}, {1, scalar(uint8_t{8})}, {2, table({})}});
  std::vector<Ref> nodes(20'000, node(std::string(15, '\x01'), kOperator, conv));
  nodes.push_back(weights(480'000));
  const Container container{"m.rten", in_memory(version2(model_of(graph(nodes))))};
  const auto model = read_rten(container);
  ASSERT_TRUE(model) << model.error().message;
  const uint64_t before = container.budget->memory_used();
  const auto text = model->documents.front().source.get();
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(container.budget->memory_used(), before + (*text)->size());
  EXPECT_LE(container.budget->memory_used(), container.budget->memory_limit());
}

TEST(RtenLimits, BoundsListsAndStrings) {
  const std::vector<uint32_t> longest(rten::kMaxListLength, 0);
  std::vector<uint32_t> longer = longest;
  longer.push_back(0);
  EXPECT_EQ(error_of(version2(model_of(graph({value("x", {}, 0)}, longest)))), "no error");
  EXPECT_EQ(error_of(version2(model_of(graph({value("x", {}, 0)}, longer)))),
            "rten: model data: inputs of 1048577 elements, more than 1048576");
  EXPECT_EQ(error_of(version2(model_of(graph({value(std::string(rten::kMaxListLength + 1, 'x'), {}, 0)})))),
            "rten: model data: a string of 1048577 elements, more than 1048576");
}

TEST(RtenLimits, RendersAGraphOfManyNodes) {
  const Model model = read_well(version2(model_of(graph(values(20'000)))));
  const std::string json = graph_of(model);
  EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), 20'001);
  EXPECT_TRUE(parse_json(*in_memory(json), 0, json.size()));
}

TEST(RtenLimits, WarningsAreBounded) {
  std::vector<Ref> bad;
  for (int i = 0; i < 5000; ++i) bad.push_back(node("w", kConstant, external_data({99}, kTypeInt8, 0)));
  const Model model = read_well(version2(model_of(graph(bad))));
  EXPECT_THAT(model.tensors, SizeIs(5000));
  EXPECT_LE(model.warnings.size(), 1001u);
  EXPECT_THAT(model.warnings.back(), HasSubstr("more"));
}

// Bytes with holes that count the bytes read.
class Holey final : public Source {
 public:
  explicit Holey(Pieces pieces) : pieces_(std::move(pieces)) {}
  uint64_t size() const override { return pieces_.size; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (broken) return failure(Code::io, "broken");
    const size_t count = offset >= size() ? 0 : static_cast<size_t>(std::min<uint64_t>(out.size(), size() - offset));
    std::fill_n(out.begin(), count, std::byte{0});
    for (const auto& [begin, piece] : pieces_.at)
      for (size_t i = 0; i < piece.size(); ++i)
        if (begin + i >= offset && begin + i < offset + count)
          out[begin + i - offset] = static_cast<std::byte>(piece[i]);
    bytes_read += count;
    return count;
  }

  mutable std::atomic<uint64_t> bytes_read = 0;
  std::atomic<bool> broken = false;

 private:
  Pieces pieces_;
};

// A version 1 file of 1.5 GiB of weights, with structure before, between and after.
Pieces large_version1() {
  const auto constant = [](const char* name, uint32_t count) {
    return node(name, kConstant, inline_data({count}, kFloat, hole(count, sizeof(float))));
  };
  return FlatBufferLayout(model_of(graph({constant("a", 1 << 28), constant("b", 1 << 27), constant("c", 3)}))).take();
}

TEST(RtenLimits, LeavesWeightsUnread) {
  const auto source = std::make_shared<Holey>(large_version1());
  ASSERT_GT(source->size(), uint64_t{3} << 29);
  const auto model = read(source);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_LE(source->bytes_read, 10 * rten::kPage);
  ASSERT_THAT(model->tensors, SizeIs(3));
  EXPECT_EQ(model->tensors[0].nbytes(), uint64_t{1} << 30);
  EXPECT_EQ(model->tensors[1].nbytes(), uint64_t{1} << 29);
  EXPECT_THAT(graph_of(*model), HasSubstr(R"("name":"c","kind":"constant","dtype":"float32","shape":[3])"));
  EXPECT_LE(source->bytes_read, 20 * rten::kPage);
}

// A graph of empty nodes, each alone on a page of zeroes.
class NodePerPage final : public Source {
 public:
  explicit NodePerPage(uint32_t nodes) : head_(version1(with_offsets(std::vector<uint32_t>(nodes, 0)))), nodes_(nodes) {
    // The list is at the end of the file. Offsets are relative to their own position.
    const uint64_t list_at = head_.size() - uint64_t{nodes} * 4;
    std::vector<uint32_t> offsets;
    for (uint32_t i = 0; i < nodes; ++i) offsets.push_back(static_cast<uint32_t>(page(i) - list_at - uint64_t{i} * 4));
    head_ = version1(with_offsets(offsets));
  }
  uint64_t size() const override { return page(nodes_); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const uint64_t end = std::min(offset + out.size(), size());
    std::fill(out.begin(), out.end(), std::byte{0});
    for (uint64_t at = offset; at < std::min<uint64_t>(end, head_.size()); ++at)
      out[at - offset] = std::byte(head_[at]);
    // A table without fields: its vtable is 4 bytes later. Both have 4 bytes.
    const std::string node = bytes_of(int32_t{-4}) + bytes_of(uint16_t{4}) + bytes_of(uint16_t{4});
    for (uint64_t at = std::max(offset, page(0)); at < end; at += rten::kPage)
      std::memcpy(&out[at - offset], node.data(), node.size());
    return end - offset;
  }

 private:
  static Ref with_offsets(const std::vector<uint32_t>& offsets) { return model_of(table({{0, list(offsets)}})); }
  uint64_t page(uint64_t number) const { return (head_.size() / rten::kPage + 1 + number) * rten::kPage; }

  std::string head_;
  uint64_t nodes_;
};

TEST(RtenLimits, StructureIsBoundedToHalfAGigabyte) {
  EXPECT_TRUE(read(std::make_shared<NodePerPage>(1000)));
  EXPECT_EQ(read(std::make_shared<NodePerPage>(rten::kMaxStructureSize / rten::kPage)).error().message,
            "rten: model data: more than 536870912 bytes beside the weights");
}

TEST(RtenLimits, RefusesFlatBufferOfTwoGigabytes) {
  Pieces pieces = large_version1();
  pieces.size = (uint64_t{1} << 31) - 2;
  EXPECT_TRUE(read(std::make_shared<Holey>(pieces)));
  pieces.size += 1;
  EXPECT_EQ(read(std::make_shared<Holey>(pieces)).error().message,
            "rten: model data of 2147483647 bytes; a FlatBuffer has 12 to 2147483646");
}

TEST(RtenLimits, PassesOnSourceErrors) {
  const auto source = std::make_shared<Holey>(large_version1());
  const auto model = read(source);
  source->broken = true;
  const auto again = read(source);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::io);
  EXPECT_EQ(graph_of(*model), "broken");
}

}  // namespace
}  // namespace weightfs::rten_limits_test
