// The tree of npy/, which shares the nodes of tensors/ if only the suffix differs.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/memory.h"
#include "fs/layout/layout.h"
#include "fs/tree/forest.h"
#include "tests/support/models.h"
#include "tests/support/sanitized.h"

namespace weightfs::shared_tree_test {
namespace {

using testing::ElementsAre;
using testing::Lt;

std::shared_ptr<Model> model_of(const std::vector<std::string>& names, const char* scope = "") {
  auto model = std::make_shared<Model>();
  for (const std::string& name : names) model->tensors.push_back(make_tensor(name, "uint8", {1}, scope));
  return model;
}

TreePtr tensors_of(const ModelPtr& model) {
  TreeBuilder builder(model);
  EXPECT_TRUE(builder.add_tensors(views::kTensorsView));
  return std::move(builder).freeze();
}

const views::View& npy_view() { return *views::all()[1]; }

bool is_shared(const ModelPtr& model) { return TreeBuilder::share(tensors_of(model), npy_view()).value() != nullptr; }

// Every file below npy/.
std::vector<std::string> npy_files(const ModelPtr& model) {
  Forest forest(lay_out(model, "m", 0));
  const auto all = forest.list(forest.resolve("npy").value()).value();
  std::vector<std::string> found;
  for (uint32_t i = 0; i < all.tree->size(); ++i)
    if (all.tree->node(i).kind == NodeKind::tensor) found.push_back(all.tree->path(i));
  for (const std::string& path : found) EXPECT_TRUE(forest.resolve("npy/" + path)) << path;
  return found;
}

// semantics 4.2
TEST(SharedTree, HasNamesWithSuffix) {
  const ModelPtr model = model_of({"a", "a-b", "blk/w", "z.npy"});
  ASSERT_TRUE(is_shared(model));
  EXPECT_THAT(npy_files(model), ElementsAre("a.npy", "a-b.npy", "z.npy.npy", "blk/w.npy"));
  Forest forest(lay_out(model, "m", 0));
  for (const char* absent : {"npy/a", "npy/blk.npy", "npy/blk/w", "npy/z.npy", "npy/.npy", "npy/blk/w.npy.npy"})
    EXPECT_EQ(forest.resolve(absent).error().code, Code::not_found) << absent;
  EXPECT_EQ(forest.path(forest.resolve("npy/blk/w.npy").value()), "npy/blk/w.npy");
  EXPECT_EQ(forest.parent(forest.resolve("npy/blk/w.npy").value()), forest.resolve("npy/blk").value());
}

// semantics 3.5, 3.6 and 4.4
TEST(SharedTree, IsNotUsedIfPathsDiffer) {
  const ModelPtr clash = model_of({"a", "a.npy/b"});
  EXPECT_FALSE(is_shared(clash));
  EXPECT_THAT(npy_files(clash), ElementsAre("a%~1.npy", "a.npy/b.npy"));
  const ModelPtr long_name = model_of({std::string(252, 'x')});
  EXPECT_FALSE(is_shared(long_name));
  EXPECT_EQ(npy_files(long_name).front().size(), 255U);
  EXPECT_TRUE(is_shared(model_of({std::string(251, 'x')})));
  EXPECT_FALSE(is_shared(model_of({"twice", "twice"})));
  auto scoped = model_of({"a"}, "g");
  scoped->tensors.push_back(make_tensor("g", "uint8", {1}));
  EXPECT_FALSE(is_shared(scoped));
  EXPECT_THAT(npy_files(scoped), ElementsAre("g.npy", "g/a.npy"));
  auto quantised = model_of({"a"});
  quantised->tensors.push_back(make_tensor("q", "q8_1", {32}));
  EXPECT_FALSE(is_shared(quantised));
  EXPECT_THAT(npy_files(quantised), ElementsAre("a.npy"));
}

// A model whose tensors are ranges of one file.
ModelPtr large_model(size_t tensors) {
  auto model = std::make_shared<Model>();
  const SourcePtr file = in_memory("x");
  model->tensors.reserve(tensors);
  for (size_t i = 0; i < tensors; ++i) {
    Tensor tensor{.name = fmt::format("layers.{}/experts/{}", i / 100, i % 100),
                  .dtype = dtype_named("uint8"),
                  .stored_dtype = "U8",
                  .scope = {},
                  .shape = {1},
                  .source = slice(file, 0, 1).value()};
    model->tensors.push_back(tensor);
  }
  return model;
}

TEST(SharedTree, ModelAndAllItsViewsNeedHundredBytesPerTensor) {
  if (test::sanitized()) GTEST_SKIP() << "the sanitizer's allocator does not say how much is in use";
  constexpr size_t kTensors = 100'000;
  const uint64_t start = process_memory_used();
  const ModelPtr model = large_model(kTensors);
  Forest forest(lay_out(model, "m", 0));
  const uint64_t before = process_memory_used();
  for (const char* view : {"tensors", "npy", "float32"}) ASSERT_TRUE(forest.list(forest.resolve(view).value()));
  EXPECT_THAT((process_memory_used() - before) / kTensors, Lt(20U)) << "the trees";
  EXPECT_THAT((process_memory_used() - start) / kTensors, Lt(100U));
}

}  // namespace
}  // namespace weightfs::shared_tree_test
