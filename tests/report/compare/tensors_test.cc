// The comparison of the tensors of two models.
#include "report/compare/tensors.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "base/cancel.h"
#include "tests/support/counted_source.h"
#include "tests/support/numbers.h"

namespace weightfs::compare::tensors_test {
namespace {

using test::float32_tensor;
using testing::ElementsAre;
using testing::IsEmpty;

Model model_of(const std::vector<Tensor>& tensors) {
  Model model;
  for (const Tensor& tensor : tensors) model.tensors.push_back(tensor);
  return model;
}

// The differences as lines, in the order of the result.
std::vector<std::string> lines(const Model& a, const Model& b, bool deviation = false) {
  const TensorComparison found = compare_tensors(a, b, {.deviation = deviation, .threads = 3}).value();
  std::vector<std::string> out;
  for (const size_t i : found.missing) out.push_back(fmt::format("missing {}", a.tensors[i].name));
  for (const size_t i : found.added) out.push_back(fmt::format("added {}", b.tensors[i].name));
  for (const TensorPair& pair : found.renamed)
    out.push_back(fmt::format("renamed {} {}", a.tensors[pair.a].name, b.tensors[pair.b].name));
  for (const ChangedTensor& changed : found.changed) {
    out.push_back(fmt::format("{} {}", changed.has_other_type ? "type" : "bytes", a.tensors[changed.pair.a].name));
    if (changed.deviation) out.back() += fmt::format(" max {}", changed.deviation->max());
    if (!changed.no_deviation.empty()) out.back() += fmt::format(" ({})", changed.no_deviation);
  }
  for (const UnreadableTensor& one : found.unreadable)
    out.push_back(fmt::format("unreadable {} {}: {}", one.side == Side::a ? "a" : "b", one.index, one.error.message));
  out.push_back(fmt::format("{} equal", found.equal));
  return out;
}

// A tensor whose reads are counted.
struct CountedTensor {
  explicit CountedTensor(Tensor its) : tensor(std::move(its)) {
    bytes = std::make_shared<test::CountedSource>(read_text(tensor.source, 0, tensor.nbytes()).value());
    tensor.source = slice(bytes, 0, bytes->size()).value();
  }
  Tensor tensor;
  std::shared_ptr<test::CountedSource> bytes;
};

TEST(Diff, EqualModelsHaveNoDifferences) {
  const Model a = model_of({float32_tensor("x", {1, 2}), float32_tensor("y", {3})});
  const Model b = model_of({float32_tensor("y", {3}), float32_tensor("x", {1, 2})});
  EXPECT_THAT(lines(a, b), ElementsAre("2 equal"));
}

TEST(Diff, EachKindOfDifferenceIsListed) {
  const Model a =
      model_of({float32_tensor("same", {1}), float32_tensor("gone", {2, 2}), float32_tensor("old", {3, 4, 5}),
                float32_tensor("bytes", {6}), float32_tensor("shape", {7}), make_tensor("dtype", "int32", {1})});
  const Model b =
      model_of({make_tensor("dtype", "float32", {1}), float32_tensor("shape", {7, 7}), float32_tensor("bytes", {6.5}),
                float32_tensor("new", {3, 4, 5}), float32_tensor("extra", {8}), float32_tensor("same", {1})});
  EXPECT_THAT(lines(a, b), ElementsAre("missing gone", "added extra", "renamed old new", "bytes bytes", "type shape",
                                       "type dtype", "1 equal"));
}

TEST(Diff, ScopesBelongToTheName) {
  const Model a = model_of({make_tensor("w", "uint8", {1}, "one"), make_tensor("w", "uint8", {2}, "two")});
  const Model b = model_of({make_tensor("w", "uint8", {2}, "two"), make_tensor("w", "uint8", {1}, "one")});
  EXPECT_THAT(lines(a, b), ElementsAre("2 equal"));
}

TEST(Diff, RepeatedNamesArePairedInOrder) {
  const Model a = model_of({float32_tensor("w", {1}), float32_tensor("w", {2})});
  const Model b = model_of({float32_tensor("w", {1}), float32_tensor("w", {3}), float32_tensor("w", {4})});
  EXPECT_THAT(lines(a, b), ElementsAre("added w", "bytes w", "1 equal"));
}

TEST(Diff, OnlyNamesWithoutCounterpartAreRenamed) {
  const Model a = model_of({float32_tensor("x", {1}), float32_tensor("y", {2})});
  const Model b = model_of({float32_tensor("x", {2}), float32_tensor("z", {1})});
  EXPECT_THAT(lines(a, b), ElementsAre("missing y", "added z", "bytes x", "0 equal"));
}

TEST(Diff, EqualTensorsArePairedOnceWhenRenamed) {
  const Model a = model_of({float32_tensor("a1", {1}), float32_tensor("a2", {1}), float32_tensor("a3", {1})});
  const Model b = model_of({float32_tensor("b1", {1}), float32_tensor("b2", {1})});
  EXPECT_THAT(lines(a, b), ElementsAre("missing a3", "renamed a1 b1", "renamed a2 b2", "0 equal"));
}

TEST(Diff, SameBytesOfAnotherShapeAreNotRenamed) {
  EXPECT_THAT(lines(model_of({make_tensor("x", "uint8", {2, 3})}), model_of({make_tensor("y", "uint8", {3, 2})})),
              ElementsAre("missing x", "added y", "0 equal"));
}

TEST(Diff, BytesAreReadOnce) {
  const CountedTensor a(float32_tensor("old", {1, 2, 3}));
  const CountedTensor b(float32_tensor("new", {1, 2, 3}));
  const CountedTensor same_a(float32_tensor("same", {1, 2, 3}));
  const CountedTensor same_b(float32_tensor("same", {1, 2, 3}));
  const CountedTensor other(float32_tensor("other", {1, 2, 3, 4}));
  EXPECT_THAT(lines(model_of({a.tensor, same_a.tensor, other.tensor}), model_of({b.tensor, same_b.tensor})),
              ElementsAre("missing other", "renamed old new", "1 equal"));
  for (const CountedTensor* each : {&a, &b, &same_a, &same_b}) EXPECT_EQ(each->bytes->bytes_read, 12u);
  EXPECT_EQ(other.bytes->bytes_read, 0u) << "no tensor of this shape in the second model";
}

TEST(Diff, LargeTensorsAreComparedByRanges) {
  std::string bytes(size_t{66} << 20, 'x');
  const auto model_with = [](std::string text) {
    Tensor tensor = make_tensor("w", "uint8", {1});
    tensor.shape = {text.size()};
    tensor.source = slice(in_memory(std::move(text)), 0, tensor.shape[0]).value();
    return model_of({tensor});
  };
  const Model a = model_with(bytes);
  EXPECT_THAT(lines(a, model_with(bytes)), ElementsAre("1 equal"));
  for (const size_t place : {size_t{0}, (size_t{32} << 20) - 1, size_t{40} << 20, bytes.size() - 1}) {
    std::string other = bytes;
    other[place] = 'y';
    EXPECT_THAT(lines(a, model_with(std::move(other))), ElementsAre("bytes w", "0 equal")) << place;
  }
}

TEST(Diff, UnreadableTensorIsReportedOnce) {
  const std::vector<float> zeros(size_t{20} << 20);  // several ranges
  const Model a = model_of({test::unreadable_tensor("w", {zeros.size()}), float32_tensor("x", {1})});
  const Model b = model_of({float32_tensor("w", zeros), float32_tensor("x", {1})});
  EXPECT_THAT(lines(a, b), ElementsAre("unreadable a 0: disk error", "1 equal"));
  EXPECT_THAT(lines(b, a), ElementsAre("unreadable b 0: disk error", "1 equal"));
}

TEST(Diff, RefusedTensorIsUnreadable) {
  Tensor refused = float32_tensor("w", {1});
  refused.source = Slice();
  EXPECT_THAT(lines(model_of({refused}), model_of({float32_tensor("w", {1})})),
              ElementsAre("unreadable a 0: refused: see warnings.txt", "0 equal"));
  EXPECT_THAT(lines(model_of({refused}), model_of({float32_tensor("v", {1})})),
              ElementsAre("missing w", "added v", "unreadable a 0: refused: see warnings.txt", "0 equal"));
}

TEST(Diff, DeviationIsComputedAcrossTypes) {
  const Model a = model_of({float32_tensor("f", {1, 2.5}), float32_tensor("g", {1}), make_tensor("c", "complex64", {1}),
                            float32_tensor("s", {1, 2})});
  const Model b = model_of({test::tensor_of<double>("f", dtype_named("float64"), {1, 2}), float32_tensor("g", {4}),
                            make_tensor("c", "float32", {1}), float32_tensor("s", {1, 2, 3})});
  EXPECT_THAT(lines(a, b, true),
              ElementsAre("type f max 0.5", "bytes g max 3", "type c (type complex64 has no numbers)",
                          "type s (another shape)", "0 equal"));
}

TEST(Diff, EmptyTensorsAndModelsAreEqual) {
  EXPECT_THAT(lines(model_of({}), model_of({})), ElementsAre("0 equal"));
  EXPECT_THAT(lines(model_of({make_tensor("e", "int8", {0, 2})}), model_of({make_tensor("e", "int8", {0, 2})}), true),
              ElementsAre("1 equal"));
}

TEST(Diff, ProgressEndsWithAllBytes) {
  const Model a = model_of({float32_tensor("x", {1, 2}), float32_tensor("old", {3})});
  const Model b = model_of({float32_tensor("x", {1, 2}), float32_tensor("new", {3})});
  std::mutex mutex;
  std::map<std::string, std::pair<uint64_t, uint64_t>> last;
  const auto report = [&](const char* what, uint64_t done, uint64_t total) {
    const std::scoped_lock lock(mutex);
    last[what] = std::max(last[what], {done, total});
  };
  ASSERT_TRUE(compare_tensors(a, b, {.report = report}).has_value());
  const std::map<std::string, std::pair<uint64_t, uint64_t>> expected = {{"comparing", {8, 8}}, {"hashing", {8, 8}}};
  EXPECT_EQ(last, expected);
}

// Each phase: names, bytes, tensors without a counterpart, deviations.
TEST(CompareTensors, EndsWhereverItIsCancelled) {
  std::vector<Tensor> of_a, of_b;
  for (int i = 0; i < 50; ++i) {
    of_a.push_back(float32_tensor(fmt::format("{}{}", i % 2 == 0 ? "both" : "a", i), {static_cast<float>(i)}));
    of_b.push_back(
        float32_tensor(fmt::format("{}{}", i % 2 == 0 ? "both" : "b", i), {static_cast<float>(i + i % 2 - 1)}));
  }
  const Model a = model_of(of_a), b = model_of(of_b);
  int checks = 0;
  {
    const CancelScope scope([&] { return ++checks < 0; });
    ASSERT_TRUE(compare_tensors(a, b, {.deviation = true, .threads = 1}));
  }
  EXPECT_GT(checks, 150) << "for each tensor, in each phase";
  for (int last = 0; last < checks; ++last) {
    int asked = 0;
    const CancelScope scope([&] { return ++asked > last; });
    EXPECT_FALSE(compare_tensors(a, b, {.deviation = true, .threads = 1})) << last;
  }
}

}  // namespace
}  // namespace weightfs::compare::tensors_test
