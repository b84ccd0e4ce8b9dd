// Equal tensors of one or more models.
#include "report/compare/duplicates.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cancel.h"
#include "tests/support/counted_source.h"
#include "tests/support/numbers.h"

namespace weightfs::compare::duplicates_test {
namespace {

using test::float32_tensor;
using testing::ElementsAre;
using testing::IsEmpty;

std::shared_ptr<Model> model_of(const std::vector<Tensor>& tensors) {
  const auto model = std::make_shared<Model>();
  for (const Tensor& tensor : tensors) model->tensors.push_back(tensor);
  return model;
}

Duplicates find(const std::vector<ModelPtr>& models) {
  return find_duplicates(models, 3, [](const char*, uint64_t, uint64_t) {}).value();
}

// "COST: MODEL/NAME MODEL/NAME", a line for each group.
std::vector<std::string> groups(const std::vector<ModelPtr>& models) {
  std::vector<std::string> out;
  for (const EqualTensors& group : find(models).groups) {
    out.push_back(fmt::format("{}:", group.cost()));
    for (const TensorPlace& place : group.tensors)
      out.back() += fmt::format(" {}/{}", place.model, models[place.model]->tensors[place.index].name);
  }
  return out;
}

Tensor counted(Tensor tensor, std::shared_ptr<test::CountedSource>& bytes) {
  bytes = std::make_shared<test::CountedSource>(read_text(tensor.source, 0, tensor.nbytes()).value());
  tensor.source = slice(bytes, 0, bytes->size()).value();
  return tensor;
}

TEST(Duplicates, EqualTensorsAreGroupedByCost) {
  const auto model = model_of({float32_tensor("a", {1}), float32_tensor("b", {2, 3}), float32_tensor("c", {1}),
                               float32_tensor("d", {2, 3}), float32_tensor("e", {2, 4}), float32_tensor("f", {1})});
  EXPECT_THAT(groups({model}), ElementsAre("8: 0/a 0/c 0/f", "8: 0/b 0/d"));
}

TEST(Duplicates, DigestIsThatOfTheBytes) {
  const auto model = model_of({make_tensor("a", "uint8", {3}), make_tensor("b", "uint8", {3})});
  EXPECT_EQ(find({model}).groups[0].digest, sha256(std::string("\0\1\2", 3)));
}

TEST(Duplicates, EqualTensorsOfSeveralModelsAreFound) {
  const auto a = model_of({float32_tensor("x", {1}), float32_tensor("y", {2})});
  const auto b = model_of({float32_tensor("z", {2})});
  EXPECT_THAT(groups({a, b}), ElementsAre("4: 0/y 1/z"));
}

TEST(Duplicates, SameBytesOfAnotherTypeAreNotEqual) {
  EXPECT_THAT(groups({model_of({make_tensor("a", "int32", {2}), make_tensor("b", "uint32", {2})})}), IsEmpty());
}

TEST(Duplicates, TensorsThatShareTheirBytesCostNothing) {
  Tensor tied = float32_tensor("tied", {1, 2});
  const Tensor original = float32_tensor("w", {1, 2});
  tied.source = original.source;
  EXPECT_THAT(groups({model_of({original, tied})}), ElementsAre("0: 0/w 0/tied"));
  EXPECT_THAT(groups({model_of({original, tied, float32_tensor("copy", {1, 2})})}),
              ElementsAre("8: 0/w 0/tied 0/copy"));
}

TEST(Duplicates, EmptyAndRefusedTensorsAreLeftOut) {
  Tensor refused = float32_tensor("r", {1});
  refused.source = Slice();
  const auto found = find({model_of({make_tensor("a", "int8", {0}), make_tensor("b", "int8", {0}), refused, refused})});
  EXPECT_THAT(found.groups, IsEmpty());
  EXPECT_THAT(found.unreadable, IsEmpty());
}

TEST(Duplicates, KnownDigestsAreUsedWithoutReading) {
  std::shared_ptr<test::CountedSource> a, b;
  const auto model = model_of({counted(float32_tensor("a", {1}), a), counted(float32_tensor("b", {1}), b)});
  model->per_tensor.edit().digests = {{0, sha256("x")}, {1, sha256("x")}};
  EXPECT_THAT(groups({model}), ElementsAre("4: 0/a 0/b"));
  EXPECT_EQ(a->bytes_read + b->bytes_read, 0u);
}

TEST(Duplicates, KnownDigestIsComparedWithThatOfTheBytes) {
  const Tensor known = make_tensor("a", "uint8", {3});
  const auto model = model_of({known, make_tensor("b", "uint8", {3})});
  model->per_tensor.edit().digests = {{0, sha256(std::string("\0\1\2", 3))}};
  EXPECT_THAT(groups({model}), ElementsAre("3: 0/a 0/b"));
}

TEST(Duplicates, TensorsThatBeginDifferentlyAreNotHashed) {
  std::shared_ptr<test::CountedSource> a, b, c;
  std::vector<float> one(100'000, 1), two(100'000, 1), other(100'000, 2);
  two.back() = 3;
  const auto model = model_of({counted(float32_tensor("a", one), a), counted(float32_tensor("b", two), b),
                               counted(float32_tensor("c", other), c)});
  EXPECT_THAT(groups({model}), IsEmpty());
  EXPECT_EQ(a->bytes_read, 400'000u + 4096);
  EXPECT_EQ(b->bytes_read, 400'000u + 4096);
  EXPECT_EQ(c->bytes_read, 4096u);
}

TEST(Duplicates, SizesThatOccurOnceAreNotRead) {
  std::shared_ptr<test::CountedSource> bytes;
  EXPECT_THAT(groups({model_of({counted(float32_tensor("a", {1}), bytes), float32_tensor("b", {1, 2})})}), IsEmpty());
  EXPECT_EQ(bytes->bytes_read, 0u);
}

TEST(Duplicates, UnreadableTensorIsReportedOnce) {
  const auto model =
      model_of({test::unreadable_tensor("bad", {1}), float32_tensor("b", {1}), float32_tensor("c", {1})});
  const Duplicates found = find({model});
  EXPECT_EQ(found.groups.size(), 1u);
  ASSERT_EQ(found.unreadable.size(), 1u);
  EXPECT_EQ(found.unreadable[0].place.index, 0u);
  EXPECT_EQ(found.unreadable[0].error.message, "disk error");
}

TEST(Duplicates, EndsWhereverItIsCancelled) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 30; ++i) tensors.push_back(float32_tensor(fmt::format("t{}", i), {static_cast<float>(i % 3)}));
  const std::vector<ModelPtr> models = {model_of(tensors)};
  const auto find_cancelled = [&](int last, int& asked) {
    const CancelScope scope([&] { return ++asked > last; });
    return find_duplicates(models, 1, [](const char*, uint64_t, uint64_t) {});
  };
  int checks = 0;
  ASSERT_TRUE(find_cancelled(1'000'000, checks));
  EXPECT_GT(checks, 90) << "for each tensor, in each phase";
  for (int last = 0; last < checks; ++last) {
    int asked = 0;
    EXPECT_FALSE(find_cancelled(last, asked)) << last;
  }
}

}  // namespace
}  // namespace weightfs::compare::duplicates_test
