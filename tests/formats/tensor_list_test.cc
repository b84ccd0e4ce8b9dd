#include "formats/tensor_list.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/memory.h"
#include "tests/support/sanitized.h"

namespace weightfs::tensor_list_test {
namespace {

using testing::ElementsAre;
using testing::Le;

Tensor tensor_of(std::string name, Shape shape, Slice source = {}, std::string_view scope = "") {
  return {.name = std::move(name),
          .dtype = dtype_named("uint8"),
          .stored_dtype = "U8",
          .scope = scope,
          .shape = std::move(shape),
          .source = std::move(source)};
}

std::vector<std::string> names_of(const TensorList& list) {
  std::vector<std::string> names;
  for (const TensorView& tensor : list) names.emplace_back(tensor.name);
  return names;
}

TEST(TensorList, ReturnsWhatWasAdded) {
  const SourcePtr bytes = in_memory("0123456789");
  TensorList list;
  list.push_back(tensor_of("a", {2, 3}, slice(bytes, 1, 6).value(), "graph"));
  list.push_back(tensor_of("refused", {}));
  ASSERT_EQ(list.size(), 2U);
  const TensorView a = list.front();
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, dtype_named("uint8"));
  EXPECT_EQ(a.stored_dtype, "U8");
  EXPECT_EQ(a.scope, "graph");
  EXPECT_EQ(a.shape, (Shape{2, 3}));
  EXPECT_EQ(a.source.whole(), bytes);
  EXPECT_EQ(a.source.offset(), 1U);
  EXPECT_EQ(a.nbytes(), 6U);
  EXPECT_TRUE(list.back().source.refused());
  EXPECT_TRUE(list.back().shape.empty());
  EXPECT_THROW((void)list.at(2), std::out_of_range);
}

TEST(TensorList, KeepsRangesUntilTensorsGetTheirBytes) {
  const SourcePtr bytes = in_memory("0123456789");
  TensorList list;
  list.push_back(tensor_of("a", {3}), 4, 3);
  list.push_back(tensor_of("b", {2}), 1, 2);
  TensorList copy;
  copy.append(list);
  EXPECT_TRUE(copy[0].source.refused());
  for (const TensorList* each : {&list, &copy}) {
    EXPECT_EQ(each->offset(0), 4U);
    EXPECT_EQ(each->nbytes(0), 3U);
    EXPECT_EQ(each->offset(1), 1U);
    EXPECT_EQ(each->nbytes(1), 2U);
  }
  for (size_t i = 0; i < copy.size(); ++i) copy.set_source(i, slice(bytes, copy.offset(i), copy.nbytes(i)).value());
  EXPECT_EQ(copy[0].source.offset(), 4U);
  EXPECT_EQ(copy[1].nbytes(), 2U);
}

// More kinds and sources than are remembered, so that some are stored again.
TEST(TensorList, MixesKindsAndSources) {
  std::vector<SourcePtr> sources;
  for (int i = 0; i < 1600; ++i) sources.push_back(in_memory(std::string(10, static_cast<char>(i))));
  TensorList list;
  for (uint64_t i = 0; i < 6000; ++i)
    list.push_back(
        tensor_of(fmt::format("t{}", i), {i % 1700, i % 11}, slice(sources[i * 7 % 1600], i % 10, 1).value()));
  for (uint64_t i = 0; i < 6000; ++i) {
    EXPECT_EQ(list[i].name, fmt::format("t{}", i));
    EXPECT_EQ(list[i].shape, (Shape{i % 1700, i % 11}));
    EXPECT_EQ(list[i].source.whole(), sources[i * 7 % 1600]);
    EXPECT_EQ(list[i].source.offset(), i % 10);
  }
}

TEST(TensorList, ReplacesOneTensor) {
  TensorList list;
  for (const char* name : {"a", "b", "c"}) list.push_back(tensor_of(name, {4}));
  TensorView changed = list[1];
  changed.name = "longer name";
  changed.scope = "graph";
  list.replace(1, changed);
  EXPECT_THAT(names_of(list), ElementsAre("a", "longer name", "c"));
  EXPECT_EQ(list[1].scope, "graph");
  EXPECT_EQ(list[0].scope, "");
  EXPECT_EQ(list[1].shape, (Shape{4}));
}

TEST(TensorList, ErasesTensors) {
  TensorList list;
  for (const char* name : {"a", "b", "c", "d"}) list.push_back(tensor_of(name, {}));
  list.erase(std::vector<size_t>{0, 2});
  EXPECT_THAT(names_of(list), ElementsAre("b", "d"));
  list.erase({});
  EXPECT_EQ(list.size(), 2U);
}

TEST(TensorList, AppendsAnotherListAndItsOwnTensor) {
  TensorList list;
  list.push_back(tensor_of("a", {1}));
  TensorList other;
  other.push_back(tensor_of("b", {2}, slice(in_memory("xy"), 0, 2).value()));
  list.append(other);
  other = {};
  list.push_back(list[1]);
  EXPECT_THAT(names_of(list), ElementsAre("a", "b", "b"));
  EXPECT_EQ(list[2].shape, (Shape{2}));
  EXPECT_EQ(list[2].nbytes(), 2U);
}

TEST(TensorList, MovesToAnotherSource) {
  TensorList list;
  list.push_back(tensor_of("a", {2}, slice(in_memory("abcd"), 1, 2).value()));
  list.push_back(tensor_of("refused", {2}));
  const SourcePtr verified = in_memory("ABCD");
  ASSERT_TRUE(list.move_to(verified));
  EXPECT_EQ(list[0].source.whole(), verified);
  EXPECT_EQ(list[0].source.offset(), 1U);
  EXPECT_TRUE(list[1].source.refused());
  EXPECT_EQ(list.move_to(in_memory("A")).error().code, Code::corrupt);
}

// As a header of a million tensors is read: with names, shapes of a few kinds, and one source.
TEST(TensorList, NeedsFortyBytesAndTheNamePerTensor) {
  if (test::sanitized()) GTEST_SKIP() << "the sanitizer's allocator does not say how much is in use";
  constexpr uint64_t kTensors = 100'000;
  constexpr uint64_t kName = 20;
  const SourcePtr file = in_memory(std::string(kTensors, 'x'));
  const uint64_t before = process_memory_used();
  TensorList list;
  list.reserve(kTensors);
  for (uint64_t i = 0; i < kTensors; ++i)
    list.push_back(tensor_of(fmt::format("layers.weight.{:06}", i), {i % 20, 1024}, slice(file, i, 1).value()));
  EXPECT_THAT((process_memory_used() - before) / kTensors, Le(40 + kName));
}

}  // namespace
}  // namespace weightfs::tensor_list_test
