#include "fs/layout/source_tree.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/text.h"
#include "fs/tree/forest.h"
#include "tests/builders/ollama_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/may_open.h"
#include "tests/support/temporary.h"

namespace weightfs::source_tree_test {
namespace {

namespace stdfs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr uid_t kAlice = 12345;  // no account
constexpr const char* kNotFollowed = "a symbolic link out of SOURCE is not followed";

std::string model(std::string_view bytes) {
  return test::SafetensorsBuilder().tensor("w", "U8", std::to_string(bytes.size()), bytes).build();
}

// The files that may be opened for a SOURCE. `opening.access.user` is the mounting user; by default not the owner of
// the files.
class SourceTreeTest : public testing::Test {
 protected:
  SourceTreeTest() {
    opening.access.user = ::getuid() + 1;
    opening.log = [this](const std::string& line) { log.push_back(line); };
    here.write("outside/secret.safetensors", model("secret"));
    here.write("outside/secret.txt", "secret");
  }

  void mount(const std::string& source) {
    auto tree = open_sources({here.path(source)}, opening, TestProcess::may_open());
    error = tree ? "" : tree.error().message;
    forest = tree ? std::make_unique<Forest>(std::move(*tree)) : nullptr;
  }
  // The bytes of a file of the mount, or the error.
  std::string read(const std::string& path) {
    if (!forest) return "error: " + error;
    const auto bytes = forest->resolve(path, Forest::FinalLink::followed)
                           .and_then([&](Ino ino) { return forest->open(ino); })
                           .and_then([](const SourcePtr& source) { return read_text(*source, 0, source->size()); });
    return bytes ? *bytes : "error: " + bytes.error().message;
  }
  std::vector<std::string> names(const std::string& path) {
    std::vector<std::string> out;
    const auto all = forest->resolve(path).and_then([&](Ino ino) { return forest->list(ino); });
    if (!all) return {"error: " + all.error().message};
    for (uint32_t i = 0; i < all->count; ++i) out.emplace_back(all->tree->node(all->first + i).name());
    return out;
  }
  void link(const std::string& target, const std::string& name) const {
    stdfs::create_directories(stdfs::path(here.path(name)).parent_path());
    stdfs::create_symlink(target, here.path(name));
  }
  void use_as_owner() { opening.access.user = ::getuid(); }

  // As the hub's clients keep a model: links out of the directory of a revision.
  void write_snapshot() const {
    here.write("hub/blobs/1111", model("one"));
    here.write("hub/blobs/2222", "{\"model_type\": \"x\"}");
    link("../../blobs/1111", "hub/snapshots/rev/model.safetensors");
    link("../../blobs/2222", "hub/snapshots/rev/config.json");
  }
  void write_sharded_snapshot() const {
    write_snapshot();
    stdfs::remove(here.path("hub/snapshots/rev/model.safetensors"));
    here.write("hub/blobs/3333", R"({"metadata":{},"weight_map":{"w":"model-00001-of-00001.safetensors"}})");
    link("../../blobs/1111", "hub/snapshots/rev/model-00001-of-00001.safetensors");
    link("../../blobs/3333", "hub/snapshots/rev/model.safetensors.index.json");
  }

  TemporaryDirectory here;
  OpenOptions opening;
  std::vector<std::string> log;
  std::string error;
  std::unique_ptr<Forest> forest;
};

TEST_F(SourceTreeTest, OutwardLinkNamedAsModelIsListedButCannotBeEntered) {
  here.write("models/a.safetensors", model("aaa"));
  link("../outside/secret.safetensors", "models/stolen.safetensors");
  mount("models");
  EXPECT_THAT(names(""), ElementsAre("a.safetensors", "stolen.safetensors"));
  EXPECT_EQ(read("a.safetensors/tensors/w"), "aaa");
  EXPECT_THAT(read("stolen.safetensors/tensors/w"), HasSubstr(kNotFollowed));
  EXPECT_THAT(log, ElementsAre(here.path("models/stolen.safetensors") +
                               ": a symbolic link out of SOURCE is not followed; its owner is not the mounting user; "
                               "use --follow-links"));
}

TEST_F(SourceTreeTest, OutwardLinkIsNotShownWithAllFiles) {
  opening.all_files = true;
  here.write("models/readme", "text");
  link("../outside/secret.txt", "models/x.bin");
  link("/etc/passwd", "models/y.bin");
  mount("models");
  EXPECT_THAT(names(""), ElementsAre("readme"));
  EXPECT_EQ(read("readme"), "text");
  EXPECT_EQ(log.size(), 2u);
}

TEST_F(SourceTreeTest, OutwardLinkToDirectoryIsNotShown) {
  here.write("models/a.safetensors", model("aaa"));
  link("../outside", "models/sub");
  mount("models");
  EXPECT_THAT(names("files"), ElementsAre("a.safetensors"));
  EXPECT_THAT(log, ElementsAre(HasSubstr(kNotFollowed)));
}

TEST_F(SourceTreeTest, InwardLinksAreFollowed) {
  here.write("models/real/a.safetensors", model("aaa"));
  link("real/a.safetensors", "models/link.safetensors");
  link("real", "models/directory");
  mount("models");
  EXPECT_EQ(read("link.safetensors/tensors/w"), "aaa");
  EXPECT_EQ(read("directory/tensors/w"), "aaa");
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(SourceTreeTest, LinkToParentDirectoryIsOmitted) {
  here.write("models/sub/a.safetensors", model("aaa"));
  link("..", "models/sub/loop");
  mount("models");
  EXPECT_THAT(names("sub"), ElementsAre("a.safetensors"));
}

// Two links at each of 30 levels would offer 2^30 paths.
TEST_F(SourceTreeTest, AtMostThreeDirectoryLinksAreFollowedPerPath) {
  for (int i = 0; i < 30; ++i) link(fmt::format("../d{}", i + 1), fmt::format("models/d{}/next", i));
  here.write("models/d4/a.safetensors", model("aaa"));
  here.write("models/d30/a.safetensors", model("aaa"));
  mount("models");
  EXPECT_THAT(names("d1/next/next"), ElementsAre("next"));
  EXPECT_EQ(read("d1/next/next/next/tensors/w"), "aaa");
  EXPECT_EQ(read("d4/tensors/w"), "aaa");
}

TEST_F(SourceTreeTest, OutwardLinkOfMountingUserIsFollowed) {
  use_as_owner();
  link("../outside/secret.safetensors", "models/mine.safetensors");
  link("../outside", "models/sub");
  mount("models");
  EXPECT_EQ(read("mine.safetensors/tensors/w"), "secret");
  EXPECT_EQ(read("sub/tensors/w"), "secret");
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(SourceTreeTest, FollowLinksFollowsLinksOfAllUsers) {
  opening.access.follow_links = true;
  link("../outside/secret.safetensors", "models/theirs.safetensors");
  mount("models");
  EXPECT_EQ(read("tensors/w"), "secret");
}

TEST_F(SourceTreeTest, HubSnapshotOfMountingUserIsRead) {
  use_as_owner();
  write_snapshot();
  mount("hub/snapshots/rev");
  EXPECT_EQ(read("tensors/w"), "one");
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(SourceTreeTest, ShardedHubSnapshotOfMountingUserIsRead) {
  use_as_owner();
  write_sharded_snapshot();
  mount("hub/snapshots/rev");
  EXPECT_EQ(read("tensors/w"), "one") << error;
  EXPECT_EQ(read("files/config.json"), "{\"model_type\": \"x\"}");
}

TEST_F(SourceTreeTest, HubSnapshotOfAnotherUserIsRefusedInOneLine) {
  write_snapshot();
  mount("hub/snapshots/rev");
  EXPECT_THAT(read("model.safetensors/tensors/w"), HasSubstr(kNotFollowed));
  EXPECT_EQ(log.size(), 2u) << "one for each link";
}

TEST_F(SourceTreeTest, ShardedHubSnapshotOfAnotherUserIsRefusedInOneLine) {
  write_sharded_snapshot();
  mount("hub/snapshots/rev");
  EXPECT_EQ(error, here.path("hub/snapshots/rev/model.safetensors.index.json") +
                       ": a symbolic link out of SOURCE is not followed; its owner is not the mounting user; use "
                       "--follow-links");
}

TEST_F(SourceTreeTest, HubCacheIsOneSourceWithInwardLinks) {
  write_sharded_snapshot();
  mount("hub");
  EXPECT_EQ(read("tensors/w"), "one");
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(SourceTreeTest, ShardThatIsOutwardLinkIsRefusedAlone) {
  here.write("models/model-00001-of-00002.safetensors", model("mine"));
  link("../outside/secret.safetensors", "models/model-00002-of-00002.safetensors");
  here.write("models/model.safetensors.index.json",
             R"({"weight_map":{"w":"model-00001-of-00002.safetensors","x":"model-00002-of-00002.safetensors"}})");
  mount("models");
  EXPECT_EQ(read("tensors/w"), "mine") << error;
  EXPECT_THAT(read("warnings.txt"), HasSubstr(kNotFollowed));
  EXPECT_THAT(names("files"), Not(testing::Contains("model-00002-of-00002.safetensors")));
}

TEST_F(SourceTreeTest, OtherFileThatIsOutwardLinkIsOmittedWithWarning) {
  here.write("models/model-00001-of-00001.safetensors", model("mine"));
  here.write("models/model.safetensors.index.json", R"({"weight_map":{"w":"model-00001-of-00001.safetensors"}})");
  link("/etc/passwd", "models/config.json");
  mount("models");
  EXPECT_EQ(read("tensors/w"), "mine") << error;
  EXPECT_THAT(names("files"), Not(testing::Contains("config.json")));
  EXPECT_THAT(read("warnings.txt"), HasSubstr(kNotFollowed));
  EXPECT_THAT(log, ElementsAre(HasSubstr("config.json")));
}

TEST_F(SourceTreeTest, SourceThatIsLinkIsFollowed) {
  link("outside/secret.safetensors", "named.safetensors");
  mount("named.safetensors");
  EXPECT_EQ(read("tensors/w"), "secret") << error;
  link("outside", "named");
  mount("named");
  EXPECT_EQ(read("tensors/w"), "secret") << error;
}

TEST_F(SourceTreeTest, SiblingThatIsOutwardLinkIsRefused) {
  link("../outside/secret.safetensors", "models/model-00001-of-00001.safetensors");
  here.write("models/model.safetensors.index.json", R"({"weight_map":{"w":"model-00001-of-00001.safetensors"}})");
  mount("models/model.safetensors.index.json");
  EXPECT_THAT(read("tensors/w"), HasSubstr("error"));
  const std::string told = error + (forest ? read("warnings.txt") : "");
  EXPECT_THAT(told, HasSubstr(kNotFollowed));
}

TEST_F(SourceTreeTest, EachSourceIsConfinedToItsDirectory) {
  here.write("a/x.safetensors", model("aaa"));
  link("../a/x.safetensors", "b/y.safetensors");
  auto tree = open_sources({here.path("a"), here.path("b")}, opening, TestProcess::may_open());
  ASSERT_TRUE(tree);
  forest = std::make_unique<Forest>(std::move(*tree));
  EXPECT_EQ(read("a/tensors/w"), "aaa");
  EXPECT_THAT(read("b/y.safetensors/tensors/w"), HasSubstr(kNotFollowed));
}

TEST_F(SourceTreeTest, MountPointInSourceIsNotOpened) {
  here.write("models/a.safetensors", model("aaa"));
  here.write("models/mnt/b.safetensors", model("bbb"));
  opening.excluded_path = here.path("models/mnt");
  mount("models");
  EXPECT_THAT(names("files"), ElementsAre("a.safetensors"));
}

TEST_F(SourceTreeTest, DirectoryWithoutModelsIsUnsupported) {
  here.write("models/notes.txt", "text");
  const auto tree = open_sources({here.path("models")}, opening, TestProcess::may_open());
  ASSERT_FALSE(tree);
  EXPECT_EQ(tree.error().code, Code::unsupported);
  EXPECT_EQ(open_sources({here.path("absent")}, opening, TestProcess::may_open()).error().code, Code::not_found);
}

// A store of one model; its manifest's path below the store.
class OllamaStoreTest : public SourceTreeTest {
 protected:
  OllamaStoreTest() {
    package.layer("template", "abcd");
    for (const auto& [name, bytes] : package.blobs()) here.write("store/blobs/" + name, bytes);
    here.write("store/" + manifest, package.manifest());
  }
  std::string blob() const { return package.blobs().begin()->first; }
  void move_blob_out() const {
    stdfs::rename(here.path("store/blobs/" + blob()), here.path("outside/blob"));
    link("../../outside/blob", "store/blobs/" + blob());
  }

  const std::string manifest = "manifests/registry.ollama.ai/library/m/latest";
  test::OllamaBuilder package;
};

TEST_F(OllamaStoreTest, IsReadByDirectoryOrManifestPath) {
  mount("store");
  EXPECT_EQ(read("registry.ollama.ai/library/m/latest/files/template"), "abcd") << error;
  mount("store/" + manifest);
  EXPECT_EQ(read("files/template"), "abcd") << error;
  mount("store/manifests/registry.ollama.ai/library");
  EXPECT_EQ(read("m/latest/files/template"), "abcd") << error;
}

TEST_F(OllamaStoreTest, HardLinkedTagsShareModel) {
  const std::string library = "registry.ollama.ai/library/m/";
  stdfs::create_hard_link(here.path("store/" + manifest), here.path("store/manifests/" + library + "same"));
  here.write("store/manifests/" + library + "copy", package.manifest());
  mount("store");
  const auto model_of = [&](const std::string& tag) {
    return forest->resolve(library + tag).and_then([&](Ino ino) { return forest->list(ino); })->tree->model();
  };
  ASSERT_NE(model_of("latest"), nullptr);
  EXPECT_EQ(model_of("latest"), model_of("same"));
  EXPECT_NE(model_of("latest"), model_of("copy"));
  EXPECT_EQ(read(library + "same/files/template"), "abcd") << error;
}

TEST_F(OllamaStoreTest, BlobThatIsOutwardLinkIsRefused) {
  move_blob_out();
  for (const std::string& source : {std::string("store"), "store/" + manifest}) {
    mount(source);
    const std::string top = source == "store" ? "registry.ollama.ai/library/m/latest/" : "";
    EXPECT_THAT(read(top + "files/template"), HasSubstr("error")) << source;
  }
  use_as_owner();
  mount("store");
  EXPECT_EQ(read("registry.ollama.ai/library/m/latest/files/template"), "abcd") << error;
}

TEST_F(OllamaStoreTest, BlobDirectoryThatIsOutwardLinkIsRefused) {
  stdfs::rename(here.path("store/blobs"), here.path("outside/blobs"));
  link("../outside/blobs", "store/blobs");
  mount("store/" + manifest);
  EXPECT_THAT(read("files/template"), HasSubstr("error"));
}

TEST_F(OllamaStoreTest, ManifestThatIsOutwardLinkIsNotFollowed) {
  stdfs::remove(here.path("store/" + manifest));
  link("../../../../../outside/secret.safetensors", "store/" + manifest);
  mount("store/" + manifest);
  EXPECT_THAT(error, HasSubstr(kNotFollowed));
  mount("store");
  EXPECT_EQ(error.find("secret"), std::string::npos);
}

// When root mounts for other users, they can read the files that the owner of SOURCE can read.
class ForOthersTest : public SourceTreeTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
    opening.access.user = 0;
    opening.access.is_for_others = true;
    opening.all_files = true;
    stdfs::permissions(here.path(""), stdfs::perms(0755));
    here.write("models/a.safetensors", model("aaa"));
    here.write("models/private", "roots");
    ::chmod(here.path("models/private").c_str(), 0600);
    give("models");
    give("models/a.safetensors");
  }
  void give(const std::string& name) const {
    ASSERT_EQ(::lchown(here.path(name).c_str(), kAlice, static_cast<gid_t>(-1)), 0);
  }
};

TEST_F(ForOthersTest, FileUnreadableToOwnerIsRefused) {
  mount("models");
  EXPECT_EQ(read("tensors/w"), "aaa");
  EXPECT_THAT(read("files/private"), HasSubstr("not readable by the owner of SOURCE (uid 12345)"));
}

TEST_F(ForOthersTest, FileUnreadableToOwnerIsReadForRootAlone) {
  opening.access.is_for_others = false;
  mount("models");
  EXPECT_EQ(read("files/private"), "roots");
}

TEST_F(ForOthersTest, SourceOfRootIsReadWithoutChecks) {
  ASSERT_EQ(::chown(here.path("models").c_str(), 0, 0), 0);
  mount("models");
  EXPECT_EQ(read("files/private"), "roots");
}

TEST_F(ForOthersTest, HardLinkToRootsFileIsRefused) {
  ::chmod(here.path("outside/secret.safetensors").c_str(), 0600);
  stdfs::create_hard_link(here.path("outside/secret.safetensors"), here.path("models/hard.safetensors"));
  mount("models");
  EXPECT_THAT(read("hard.safetensors/tensors/w"), HasSubstr("not readable by the owner of SOURCE"));
}

TEST_F(ForOthersTest, RightsAreThoseOfLinkOwner) {
  ::chmod(here.path("outside/secret.safetensors").c_str(), 0600);
  link("outside/secret.safetensors", "named.safetensors");
  give("named.safetensors");
  mount("named.safetensors");
  EXPECT_THAT(error, HasSubstr("not readable by the owner of SOURCE (uid 12345)"));
  link("outside", "named");
  give("named");
  mount("named");
  EXPECT_THAT(read("secret.safetensors/tensors/w"), HasSubstr("not readable by the owner of SOURCE"));
}

TEST_F(ForOthersTest, FileOfRootInDirectoryOfUserNeedsRightsOfUser) {
  here.write("models/b.safetensors", model("bbb"));
  ::chmod(here.path("models/b.safetensors").c_str(), 0600);
  mount("models/b.safetensors");
  EXPECT_THAT(error, HasSubstr("not readable by the owner of SOURCE"));
  ::chmod(here.path("models/b.safetensors").c_str(), 0644);
  mount("models/b.safetensors");
  EXPECT_EQ(read("tensors/w"), "bbb");
}

TEST_F(ForOthersTest, OutwardLinkOfUserIsNotFollowedByRoot) {
  link("/etc/shadow", "models/shadow");
  give("models/shadow");
  mount("models");
  EXPECT_THAT(names(""), Not(testing::Contains("shadow")));
  EXPECT_THAT(log, testing::Contains(HasSubstr(kNotFollowed)));
}

TEST_F(ForOthersTest, FollowLinksKeepsRightsOfOwner) {
  opening.access.follow_links = true;
  link("/etc/shadow", "models/shadow");
  give("models/shadow");
  mount("models");
  EXPECT_THAT(read("files/shadow"), HasSubstr("not readable by the owner of SOURCE"));
}

}  // namespace
}  // namespace weightfs::source_tree_test
