// Directories of models that are listed again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "fs/layout/layout.h"
#include "fs/layout/source_tree.h"
#include "fs/tree/forest.h"
#include "fs/tree/origin.h"
#include "tests/support/models.h"

namespace weightfs::tree_updates_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// A directory whose models have the versions of `entries`.
class TreeUpdates : public testing::Test {
 protected:
  TreePtr tree() const {
    auto origin = std::make_shared<Origin>();
    origin->again = [](const Tree&, Directories) -> Result<TreePtr> { return failure(Code::io, "not used"); };
    TreeBuilder builder(nullptr);
    for (const auto& [path, listed] : entries) {
      origin->trees.push_back({listed, 0});
      builder.add_tree(builder.keep(path), 0, Later<TreePtr>([version = listed]() -> Result<TreePtr> {
                         auto model = std::make_shared<Model>();
                         model->tensors.push_back(make_tensor("v" + std::to_string(version), "uint8", {1}));
                         return lay_out(model, "source", 7);
                       }));
    }
    builder.set_origin(std::move(origin));
    return std::move(builder).freeze();
  }

  static std::vector<std::string> names(const Changes& changes) {
    std::vector<std::string> names;
    for (const Changes::Name& name : changes.names) names.push_back(std::to_string(name.directory) + "/" + name.name);
    return names;
  }

  Changes update(Forest& forest) const { return forest.update(Forest::kRoot, forest.tree_at(Forest::kRoot), tree()); }

  std::map<std::string, uint64_t> entries = {{"a", 1}, {"b", 2}, {"sub/c", 3}};
};

TEST_F(TreeUpdates, UnchangedEntriesKeepTheirNumbers) {
  Forest forest(tree());
  const Ino tensor = forest.resolve("b/tensors/v2").value();
  entries.emplace("0", 9);
  EXPECT_THAT(names(update(forest)), ElementsAre("1/0"));
  EXPECT_EQ(forest.resolve("b/tensors/v2").value(), tensor);
  EXPECT_TRUE(forest.resolve("0/tensors/v9"));
}

TEST_F(TreeUpdates, ReplacedEntryIsStaleWithAllBelow) {
  Forest forest(tree());
  const Ino old = forest.resolve("a").value(), tensor = forest.resolve("a/tensors/v1").value();
  entries["a"] = 5;
  EXPECT_THAT(names(update(forest)), ElementsAre("1/a"));
  EXPECT_NE(forest.resolve("a").value(), old);
  EXPECT_TRUE(forest.resolve("a/tensors/v5"));
  EXPECT_EQ(forest.list(old).error().code, Code::stale);
  EXPECT_EQ(forest.open(tensor).error().code, Code::stale);
  EXPECT_EQ(forest.lookup(old, "tensors").error().code, Code::stale);
  EXPECT_FALSE(forest.known_attributes(tensor));
}

TEST_F(TreeUpdates, RemovedEntryIsNotFound) {
  Forest forest(tree());
  ASSERT_TRUE(forest.resolve("sub/c/tensors/v3"));
  entries.erase("sub/c");
  EXPECT_THAT(names(update(forest)), ElementsAre("1/sub"));
  EXPECT_EQ(forest.resolve("sub").error().code, Code::not_found);
}

TEST_F(TreeUpdates, ChangesInADirectoryOfTheListingNameThatDirectory) {
  Forest forest(tree());
  const Ino sub = forest.resolve("sub").value();
  entries.emplace("sub/d", 4);
  const Changes changes = update(forest);
  EXPECT_THAT(names(changes), ElementsAre(std::to_string(sub) + "/d"));
  EXPECT_THAT(changes.directories, ElementsAre(sub));
}

TEST_F(TreeUpdates, UnchangedListingChangesNothing) {
  Forest forest(tree());
  const Changes changes = update(forest);
  EXPECT_THAT(changes.names, IsEmpty());
  EXPECT_THAT(changes.directories, IsEmpty());
}

TEST_F(TreeUpdates, ListingOfAnOlderTreeIsIgnored) {
  Forest forest(tree());
  const TreePtr before = forest.tree_at(Forest::kRoot);
  entries["a"] = 5;
  update(forest);
  entries["a"] = 6;
  EXPECT_THAT(forest.update(Forest::kRoot, before, tree()).names, IsEmpty());
  EXPECT_TRUE(forest.resolve("a/tensors/v5"));
}

TEST_F(TreeUpdates, ReopenedEntryIsNewAndItsNeighboursAreNot) {
  Forest forest(tree());
  const Ino a = forest.resolve("a").value(), b = forest.resolve("b").value();
  ASSERT_TRUE(forest.list(a));
  const auto entry = forest.followed_entry(a);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->directory, Forest::kRoot);
  const Changes changes = forest.update(entry->directory, entry->tree, with_reopened(*entry->tree, entry->node));
  EXPECT_THAT(names(changes), ElementsAre("1/a"));
  EXPECT_NE(forest.resolve("a").value(), a);
  EXPECT_EQ(forest.resolve("b").value(), b);
}

TEST_F(TreeUpdates, ReplacedRootKeepsItsNumberOnly) {
  Forest forest(tree());
  const Ino a = forest.resolve("a").value();
  ASSERT_TRUE(forest.list(a));
  auto model = std::make_shared<Model>();
  model->tensors.push_back(make_tensor("w", "uint8", {1}));
  const Changes changes = forest.replace_root(lay_out(model, "source", 7));
  EXPECT_THAT(names(changes), testing::IsSupersetOf({"1/a", "1/b", "1/sub", "1/tensors", "1/metadata.json"}));
  EXPECT_TRUE(forest.resolve("tensors/w"));
  EXPECT_EQ(forest.list(a).error().code, Code::stale);
  EXPECT_EQ(forest.path(forest.resolve("tensors/w").value()), "tensors/w");
  EXPECT_EQ(forest.parent(forest.resolve("tensors").value()).value(), Forest::kRoot);
}

TEST_F(TreeUpdates, MemoryOfReplacedModelsIsFreed) {
  Forest forest(tree());
  std::weak_ptr<const Model> old;
  {
    const Ino a = forest.resolve("a/tensors/v1").value();
    old = forest.model_of(a);
  }
  ASSERT_FALSE(old.expired());
  entries["a"] = 5;
  update(forest);
  EXPECT_TRUE(old.expired());
  const uint64_t nodes = forest.node_count();
  for (uint64_t version = 10; version < 200; ++version) {
    entries["a"] = version;
    update(forest);
    ASSERT_TRUE(forest.resolve("a/tensors/v" + std::to_string(version)));
  }
  entries["a"] = 5;
  update(forest);
  EXPECT_EQ(forest.node_count(), nodes);
}

}  // namespace
}  // namespace weightfs::tree_updates_test
