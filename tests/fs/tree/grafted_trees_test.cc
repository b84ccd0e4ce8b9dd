// Models that are dropped when memory or descriptors are short, and loaded again.
#include "fs/tree/grafted_trees.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "base/files/file_source.h"
#include "fs/layout/layout.h"
#include "fs/tree/forest.h"
#include "tests/support/models.h"
#include "tests/support/sanitized.h"

namespace weightfs::grafted_trees_test {
namespace {

using testing::HasSubstr;

std::string text(const Source& source) { return read_text(source, 0, source.size()).value(); }

// Bytes in memory whose live instances are counted.
class CountedBytes final : public Source {
 public:
  CountedBytes(std::atomic<int>& count, SourcePtr bytes, std::string identity)
      : count_(count), bytes_(std::move(bytes)), identity_(std::move(identity)) {
    ++count_;
  }
  ~CountedBytes() override { --count_; }
  CountedBytes(const CountedBytes&) = delete;
  CountedBytes& operator=(const CountedBytes&) = delete;

  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override { return bytes_->read(offset, out); }
  std::string identity() const override { return identity_; }

 private:
  std::atomic<int>& count_;
  SourcePtr bytes_;
  std::string identity_;
};

// A directory of models, each of which counts as 100 bytes; half of the limit is five of them.
class DroppedModels : public testing::Test {
 protected:
  Result<TreePtr> model(int number) {
    ++made;
    auto model = std::make_shared<Model>();
    model->format = "test";
    const auto bytes = std::make_shared<CountedBytes>(live, in_memory("bytes of " + std::to_string(number)), identity);
    model->parts.push_back({"in.test", Later<SourcePtr>::of(bytes)});
    model->tensors.push_back(make_tensor("blk/w", "uint8", {5}));
    model->tensors.set_source(0, slice(bytes, 0, 5).value());
    if (changed) model->tensors.push_back(make_tensor("new", "uint8", {1}));
    model->nested = [this](const ModelPtr&) -> Result<std::vector<Nested>> {
      if (while_nested) while_nested();
      return std::vector<Nested>{{0, Later<ModelPtr>([] { return Result<ModelPtr>(inner()); })}};
    };
    return lay_out(model, "m" + std::to_string(number), 7);
  }
  static ModelPtr inner() {
    auto model = std::make_shared<Model>();
    model->format = "inner";
    model->tensors.push_back(make_tensor("v", "uint8", {2}));
    return model;
  }

  TreePtr directory() {
    TreeBuilder builder(nullptr);
    for (int i = 0; i < kModels; ++i)
      builder.add_tree(builder.keep("m" + std::to_string(i)), 7, Later<TreePtr>([this, i] { return model(i); }));
    builder.add_tree("sub", 7, Later<TreePtr>([this]() -> Result<TreePtr> {
                       TreeBuilder inside(nullptr);
                       inside.add_tree("m", 7, Later<TreePtr>([this] { return model(kModels); }));
                       return std::move(inside).freeze();
                     }));
    return std::move(builder).freeze();
  }

  ModelLimits limits() {
    ModelLimits limits;
    limits.memory_used = [this] { return 100 * static_cast<uint64_t>(live.load()) + ballast; };
    limits.memory_limit = [] { return 1000; };
    return limits;
  }

  Ino ino(const std::string& path) { return forest.resolve(path).value(); }
  std::string cat(const std::string& path) {
    const auto source = forest.resolve(path).and_then([&](Ino found) { return forest.open(found); });
    return source ? text(**source) : "error: " + source.error().message;
  }
  void enter_all() {
    for (int i = 0; i < kModels; ++i) ASSERT_TRUE(forest.list(ino("m" + std::to_string(i))));
  }
  std::map<std::string, Ino> walk(const std::string& path) {
    std::map<std::string, Ino> found;
    std::vector<Ino> left{ino(path)};
    while (!left.empty()) {
      const Ino at = left.back();
      left.pop_back();
      found[forest.path(at)] = at;
      if (!forest.attributes(at).value().is_directory()) continue;
      const auto all = forest.list(at).value();
      for (uint32_t i = 0; i < all.count; ++i) left.push_back(all.ino + i);
    }
    return found;
  }

  static constexpr int kModels = 20;
  std::atomic<int> live = 0;  // models in memory
  std::atomic<int> made = 0;
  bool changed = false;
  std::string identity = "file 1:2 3";
  uint64_t ballast = 0;
  std::function<void()> while_nested;
  Forest forest{directory(), {}, limits()};
};

// semantics 9.7
TEST_F(DroppedModels, HaveConsecutiveInodeNumbers) {
  enter_all();
  std::set<Ino> numbers;
  for (int i = 0; i < kModels; ++i)
    for (const auto& [path, number] : walk("m" + std::to_string(i))) EXPECT_TRUE(numbers.insert(number).second) << path;
  for (const auto& [path, number] : walk("sub")) EXPECT_TRUE(numbers.insert(number).second) << path;
  // A grafted tree has the number of the node where it was grafted for its root, and one number that is not used.
  EXPECT_LT(*numbers.rbegin(), 2 * numbers.size());
}

TEST_F(DroppedModels, AreTheLeastRecentlyUsed) {
  for (int i = 0; i < kModels; ++i) {
    ASSERT_EQ(cat("m" + std::to_string(i) + "/tensors/blk/w"), "bytes");
    ASSERT_EQ(cat("m0/tensors/blk/w"), "bytes") << "used again and again";
    ASSERT_LE(live, 6);
  }
  EXPECT_EQ(made, kModels) << "the first one was never dropped, the others were used once";
  EXPECT_EQ(cat("m19/files/in.test"), "bytes of 19");
  EXPECT_EQ(made, kModels);
  EXPECT_EQ(cat("m1/files/in.test"), "bytes of 1");
  EXPECT_EQ(made, kModels + 1) << "is made again";
}

TEST_F(DroppedModels, KeepInodeNumbersWhenReloaded) {
  const auto before = walk("m0");
  EXPECT_THAT(before, testing::Contains(testing::Key("m0/nested/in.test/tensors/v")));
  const uint64_t nodes = forest.node_count();
  enter_all();
  const int made_before = made;
  EXPECT_EQ(walk("m0"), before);
  EXPECT_EQ(made, made_before + 1);
  EXPECT_GT(forest.node_count(), nodes);
}

TEST_F(DroppedModels, AreReloadedForTheirInodeNumbers) {
  const auto nodes = walk("m0");
  const Ino tensor = nodes.at("m0/tensors/blk/w");
  const Ino inner = nodes.at("m0/nested/in.test/tensors/v");
  const auto dropped = [&](Ino at) {
    enter_all();
    return !forest.known_attributes(at);
  };
  ASSERT_TRUE(dropped(tensor));
  EXPECT_EQ(forest.attributes(tensor).value().size, 5U);
  ASSERT_TRUE(dropped(tensor));
  EXPECT_EQ(text(*forest.open(tensor).value()), "bytes");
  ASSERT_TRUE(dropped(tensor));
  EXPECT_EQ(forest.xattrs(tensor).value().front().second, "blk/w");
  ASSERT_TRUE(dropped(tensor));
  EXPECT_EQ(forest.parent(tensor), nodes.at("m0/tensors/blk"));
  ASSERT_TRUE(dropped(tensor));
  EXPECT_EQ(forest.path(tensor), "m0/tensors/blk/w");
  ASSERT_TRUE(dropped(tensor));
  EXPECT_EQ(forest.model_of(tensor)->format, "test");
  ASSERT_TRUE(dropped(tensor));
  EXPECT_EQ(forest.unsized_attributes(tensor).value().kind, NodeKind::tensor);
  ASSERT_TRUE(dropped(inner));
  EXPECT_EQ(forest.attributes(inner).value().size, 2U);
  ASSERT_TRUE(dropped(inner));
  EXPECT_EQ(forest.list(nodes.at("m0/nested/in.test/tensors")).value().count, 1U);
  ASSERT_TRUE(dropped(inner));
  EXPECT_EQ(forest.lookup(nodes.at("m0/tensors"), "blk"), nodes.at("m0/tensors/blk"));
  EXPECT_EQ(forest.link(tensor).error().message, "not a symbolic link");
  EXPECT_EQ(walk("m0"), nodes);
}

TEST_F(DroppedModels, ReloadWithChangedNamesFails) {
  const auto nodes = walk("m0");
  enter_all();
  changed = true;
  const std::string message = "m0/tensors: changed while it was not in memory";
  EXPECT_EQ(forest.list(ino("m0/tensors")).error().code, Code::io);
  EXPECT_EQ(forest.list(ino("m0/tensors")).error().message, message);
  EXPECT_EQ(forest.attributes(nodes.at("m0/tensors/blk/w")).error().message, message);
  EXPECT_EQ(forest.xattrs(nodes.at("m0/tensors/blk/w")).error().message, message);
  EXPECT_EQ(forest.path(nodes.at("m0/tensors/blk/w")), "m0/tensors");
  EXPECT_EQ(cat("m0/files/in.test"), "bytes of 0") << "which is no other file than before";
  EXPECT_EQ(forest.model_of(nodes.at("m0/tensors/blk/w")), nullptr);
  changed = false;
  enter_all();
  EXPECT_EQ(walk("m0"), nodes) << "once it was dropped again";
}

// The kernel has pages of the dropped one.
TEST_F(DroppedModels, ReloadOfReplacedFileFails) {
  const auto nodes = walk("m0");
  enter_all();
  identity = "file 1:2 4";
  EXPECT_EQ(forest.list(ino("m0")).error().message, "m0: changed while it was not in memory");
  identity = "";  // not open yet
  EXPECT_EQ(walk("m0"), nodes);
}

TEST_F(DroppedModels, OpenFilesStayReadable) {
  const auto source = forest.open(ino("m0/files/in.test")).value();
  const auto listing = forest.list(ino("m0")).value();
  enter_all();
  EXPECT_EQ(forest.known_attributes(listing.ino), std::nullopt);
  EXPECT_EQ(text(*source), "bytes of 0");
  EXPECT_EQ(listing.tree->node(listing.first).name(), "files");
}

TEST_F(DroppedModels, ModelsInUseAreNotDropped) {
  while_nested = [this] {
    while_nested = nullptr;
    enter_all();
  };
  const Ino file = ino("m0/files/in.test");
  ASSERT_TRUE(forest.list(ino("m0/nested")));
  EXPECT_NE(forest.known_attributes(file), std::nullopt) << "m0 was in use while the others were entered";
}

TEST_F(DroppedModels, HeldModelIsDroppedAfterItsRelease) {
  const Ino file = ino("m0/files/in.test");
  auto held = forest.hold(ino("m0")).value();
  enter_all();
  EXPECT_NE(forest.known_attributes(file), std::nullopt);
  EXPECT_EQ(forest.model_of(file), held.tree->model());
  held = {};
  enter_all();
  EXPECT_EQ(forest.known_attributes(file), std::nullopt);
}

TEST_F(DroppedModels, DirectoriesAreNotDropped) {
  const Ino sub = ino("sub/m");
  EXPECT_EQ(cat("sub/m/tensors/blk/w"), "bytes");
  enter_all();
  EXPECT_NE(forest.known_attributes(sub), std::nullopt);
  EXPECT_EQ(cat("sub/m/tensors/blk/w"), "bytes");
  EXPECT_EQ(ino("sub/m"), sub);
}

// semantics 9.7
TEST_F(DroppedModels, EnteringFailsIfDroppingFreesTooLittle) {
  ASSERT_TRUE(forest.list(ino("m0")));
  ballast = 1001;
  EXPECT_EQ(forest.list(ino("m1")).error().code, Code::resource);
  EXPECT_THAT(forest.list(ino("m1")).error().message, HasSubstr("memory limit of this process ("));
  EXPECT_EQ(live, 0) << "all models that can be dropped are dropped";
  ballast = 0;
  EXPECT_TRUE(forest.list(ino("m1")));
  EXPECT_TRUE(forest.list(ino("m0")));
}

TEST_F(DroppedModels, AreReloadedByOneThread) {
  const auto nodes = walk("m0");
  enter_all();
  const int before = made;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { EXPECT_EQ(forest.attributes(nodes.at("m0/tensors/blk/w")).value().size, 5U); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(made, before + 1);
}

TEST_F(DroppedModels, ConcurrentReadsAndDropsAreConsistent) {
  ballast = 200;
  std::map<std::string, Ino> nodes;
  for (int i = 0; i < kModels; ++i) nodes.merge(walk("m" + std::to_string(i)));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string path = "m" + std::to_string((t * 7 + i * 3) % kModels);
        EXPECT_EQ(ino(path + "/tensors/blk/w"), nodes.at(path + "/tensors/blk/w"));
        EXPECT_EQ(text(*forest.open(nodes.at(path + "/tensors/blk/w")).value()), "bytes");
        EXPECT_EQ(forest.attributes(nodes.at(path + "/nested/in.test/tensors/v")).value().size, 2U);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_LE(live, 20);
  for (const auto& [path, node] : nodes) EXPECT_EQ(ino(path), node);
}

// Each model has a file open.
TEST(Descriptors, ExhaustionDropsModels) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("weightfs-descriptors-" + std::to_string(::getpid()));
  std::ofstream(path) << "bytes";
  TreeBuilder builder(nullptr);
  constexpr int kModels = 60;
  for (int i = 0; i < kModels; ++i)
    builder.add_tree(builder.keep("m" + std::to_string(i)), 0, Later<TreePtr>([&]() -> Result<TreePtr> {
                       auto model = std::make_shared<Model>();
                       model->parts.push_back({"f", Later<SourcePtr>::of(TRY(open_file(path)))});
                       model->parts.push_back({"late", Later<SourcePtr>([&] { return open_file(path); })});
                       return lay_out(model, "m", 0);
                     }));
  ModelLimits limits;
  limits.memory_used = [] { return 0; };
  Forest forest(std::move(builder).freeze(), {}, limits);

  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::open("/dev/null", O_RDONLY);
  ::close(next);
  const rlimit few{static_cast<rlim_t>(next) + 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int i = 0; i < kModels; ++i) {
    const std::string model = "m" + std::to_string(i);
    EXPECT_TRUE(forest.list(forest.resolve(model).value())) << i;
    EXPECT_TRUE(forest.open(forest.resolve(model + "/files/late").value())) << i;
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  std::remove(path.c_str());
}

// An Ollama store may have many manifests without a layer.
TEST(Memory, EmptyModelNeedsLessThanThreeKilobytes) {
  if (test::sanitized()) GTEST_SKIP() << "the sanitizer's allocator does not say how much is in use";
  constexpr int kModels = 2000;
  TreeBuilder builder(nullptr);
  for (int i = 0; i < kModels; ++i)
    builder.add_tree(builder.keep("m" + std::to_string(i)), 0, Later<TreePtr>([]() -> Result<TreePtr> {
                       auto model = std::make_shared<Model>();
                       model->format = "ollama";
                       return lay_out(model, "/some/where/manifests/host/name/model/tag", 0);
                     }));
  Forest forest(std::move(builder).freeze());
  const uint64_t before = process_memory_used();
  for (int i = 0; i < kModels; ++i) ASSERT_TRUE(forest.list(forest.resolve("m" + std::to_string(i)).value()));
  EXPECT_LT((process_memory_used() - before) / kModels, 3072U);
}

// A name of 62 bytes becomes 31 nodes; each of them is charged.
class TreeBudget : public testing::Test {
 protected:
  TreeBudget() {
    model->budget = std::make_shared<Budget>(0);
    for (int i = 0; i < 1000; ++i) {
      std::string name = std::to_string(i);
      while (name.size() < 90) name += "/d";
      model->tensors.push_back(make_tensor(name, "uint8", {1}));
    }
    for (const char* path : {"a/b\n/c", "d"}) model->parts.push_back({path, Later<SourcePtr>::of(in_memory("x"))});
  }
  std::shared_ptr<Model> model = std::make_shared<Model>();
};

TEST_F(TreeBudget, ChargesNodesAndPaths) {
  const Forest::Listing tensors = [this] {
    Forest forest(lay_out(model, "m", 0));
    return forest.list(forest.resolve("tensors").value()).value();
  }();
  Budget nodes(0);
  ASSERT_TRUE(nodes.charge(Cost::node, tensors.tree->size() - 1));
  EXPECT_GT(tensors.tree->size(), 30'000U);
  EXPECT_GE(model->budget->memory_used(), nodes.memory_used());
  EXPECT_LT(model->budget->memory_used(), 2 * nodes.memory_used());
}

TEST_F(TreeBudget, DirectoryBeyondBudgetIsRefused) {
  Forest forest(lay_out(model, "m", 0));
  ASSERT_TRUE(model->budget->charge(Cost::kept, 63'500'000));
  const uint64_t before = model->budget->memory_used();
  for (const char* name : {"tensors", "npy"}) {
    const auto refused = forest.list(forest.resolve(name).value());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::unsupported);
    EXPECT_THAT(refused.error().message, HasSubstr("too many names: the memory limit"));
    EXPECT_EQ(model->budget->memory_used(), before) << "what was charged for " << name << " is given back";
  }
  EXPECT_TRUE(forest.list(forest.resolve("files/a").value())) << "the rest of the model is there";
  EXPECT_GT(model->budget->memory_used(), before);
}

// The files of views/ of a small model are made once for their names, and again for their sizes.
TEST_F(TreeBudget, FileThatIsNotMadeAgainTakesNoOtherPlace) {
  Model small;
  small.tensors.push_back(make_tensor("w", "float16", {2}));
  small.budget = std::make_shared<Budget>(0);
  const BudgetPtr budget = small.budget;
  Forest forest(lay_out(std::make_shared<const Model>(std::move(small)), "m", 0));
  const Forest::Listing views = forest.list(forest.resolve("views").value()).value();
  ASSERT_GE(views.count, 3U);
  ASSERT_TRUE(budget->charge(Cost::kept, Budget::kBaseMemory - budget->memory_used()));
  for (uint32_t i = 0; i < views.count; ++i) EXPECT_FALSE(forest.attributes(views.ino + i));
}

TEST_F(TreeBudget, ScopesAreChargedForEachTensor) {
  Budget budget(0);
  TensorList tensors;
  const std::string scope(100'000, 's');
  for (int i = 0; i < 2'001; ++i) {
    Tensor tensor;
    tensor.name = std::to_string(i);
    tensor.scope = scope;
    tensors.push_back(tensor);
  }
  StringArena texts;
  EXPECT_THAT(tensor_paths(&budget, tensors, "", texts).error().message, HasSubstr("the time limit"));
}

TEST_F(TreeBudget, FailedDirectoryReleasesItsCharges) {
  Budget full(0);
  ASSERT_TRUE(full.charge(Cost::kept, Budget::kBaseMemory - 100));
  StringArena texts;
  const std::string name(200, '\n');
  const auto list = [](std::string_view of_one) {
    Tensor tensor;
    tensor.name = of_one;
    TensorList tensors;
    tensors.push_back(tensor);
    return tensors;
  };
  EXPECT_THAT(tensor_paths(&full, list(name), "", texts).error().message, HasSubstr("bytes of names and texts"));
  EXPECT_EQ(full.memory_used(), Budget::kBaseMemory - 100);
  EXPECT_TRUE(tensor_paths(&full, list("plain"), "", texts));
  EXPECT_EQ(full.memory_used(), Budget::kBaseMemory - 100) << "a name that is its path takes nothing";
}

}  // namespace
}  // namespace weightfs::grafted_trees_test
