// The API of the Hub without sockets: repositories, their commits and files, and what their clients are refused.
#include "serve/hub/hub.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "fs/layout/layout.h"
#include "serve/hub/names.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/serve/api/client.h"
#include "tests/support/surroundings.h"

namespace weightfs::hub_test {
namespace {

using namespace test;
using api_client::field;
using api_client::text_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Time kTime = 1'700'000'000'000'000'000;
constexpr uint64_t kLarge = 11 << 20;
const std::string kCommit(40, 'c');

std::string weights(char byte = 'w') {
  return SafetensorsBuilder().tensor("w", "F32", "2,4", std::string(32, byte)).build();
}

Later<SourcePtr> text(const std::string& bytes) { return Later<SourcePtr>::of(in_memory(bytes)); }

// A file whose bytes nothing reads.
Later<SourcePtr> unread(uint64_t size) {
  return Later<SourcePtr>::of(
      lazy(size, Later<SourcePtr>([]() -> Result<SourcePtr> { return failure(Code::io, "was read"); })));
}

// The weights, whose digest is stated, two small files, and a large one without a digest.
TreePtr repository(const std::string& source, const std::string& bytes = weights()) {
  Model model = read_model({"model.safetensors", in_memory(bytes)}).value();
  model.parts.front().checksums.set(sha256(bytes));
  model.parts.push_back({"config.json", text("{}")});
  model.parts.push_back({"sub/deep/notes.txt", text("notes")});
  model.parts.push_back({"sub/large.bin", unread(kLarge)});
  return lay_out(std::make_shared<Model>(std::move(model)), source, kTime);
}

// A server of a tree.
class Served {
 public:
  explicit Served(TreePtr tree) : forest_(std::move(tree)) {}

  httpd::Response ask(const std::string& target, std::vector<httpd::Field> fields = {}, const char* method = "GET",
                      const std::string& body = "") {
    httpd::Request request;
    request.method = method;
    request.target = target;
    request.fields = std::move(fields);
    request.fields.push_back({"host", "localhost:1"});
    request.body = body;
    return site_.answer(request, {"127.0.0.1"});
  }
  std::string body(const std::string& target) { return text_of(ask(target)); }
  Value json(const httpd::Response& response) {
    const std::string text = text_of(response);
    const auto value = parse_json(*in_memory(text), 0, text.size());
    EXPECT_TRUE(value.has_value()) << text;
    return value ? *value : Value();
  }
  Map object(const std::string& target) { return std::get<Map>(json(ask(target))); }
  std::vector<std::string> paths(const httpd::Response& response) {
    std::vector<std::string> out;
    const Value list = json(response);
    for (const Value& each : std::get<List>(list)) out.emplace_back(text_in(std::get<Map>(each), "path"));
    return out;
  }
  std::vector<std::string> paths(const std::string& target) { return paths(ask(target)); }
  std::string commit(const std::string& id) { return std::string(text_in(object("/api/models/" + id), "sha")); }
  std::string error(const std::string& target) {
    const httpd::Response response = ask(target);
    return fmt::format("{} {}", response.status, field(response, "X-Error-Code"));
  }

 private:
  httpd::SiteOptions options() {
    httpd::SiteOptions options;
    options.access.hosts = {"localhost"};
    options.max_body = hub::Hub::max_body;
    options.answer_first = [this](const httpd::Request& request, const httpd::Target& target, const httpd::Client&) {
      return hub_.answer(request, target);
    };
    return options;
  }

  Forest forest_;
  hub::Hub hub_{forest_, "http",
                [this](const httpd::Request& request, Ino ino, const std::string& name, const httpd::FileFields& more) {
                  return site_.file(request, ino, name, more);
                }};
  httpd::Site site_{forest_, options()};
};

std::vector<std::string> sizes_and_digests(const Value& list) {
  std::vector<std::string> out;
  for (const Value& each : std::get<List>(list)) {
    const Map& entry = std::get<Map>(each);
    const auto* const lfs = entry.find_as<Map>("lfs");
    const bool is_unknown = std::holds_alternative<std::nullptr_t>(*entry.find("oid"));
    out.push_back(fmt::format("{} {}", text_in(entry, "path"),
                              lfs != nullptr ? text_in(*lfs, "oid")
                              : is_unknown   ? "unknown"
                                             : text_in(entry, "oid")));
  }
  return out;
}

TEST(HubNames, AreThoseThatClientsAccept) {
  EXPECT_EQ(hub::repository_name("Model_1.Q4-K.gguf"), "Model_1.Q4-K.gguf");
  EXPECT_EQ(hub::repository_name(".a b//c--d.-e. "), "a-b-c-d.e");
  EXPECT_EQ(hub::repository_name("x.git"), "x-git");
  EXPECT_EQ(hub::repository_name("..."), "");
  EXPECT_EQ(hub::repository_name(std::string(200, 'a')).size(), 96U);
  EXPECT_EQ(hub::name_of_source("/models/demo.gguf"), "demo.gguf");
  EXPECT_EQ(hub::name_of_source("oci://host:5000/ai/tiny:1b@sha256:00"), "tiny-1b");
  EXPECT_EQ(hub::name_of_source("hf://org/repo@" + kCommit), "repo");
  EXPECT_EQ(hub::name_of_source("/"), "model");
}

TEST(HubNames, RepositoryOfTheHubIsNamedByItsSource) {
  EXPECT_EQ(hub::hub_name_of("hf://org/repo@" + kCommit)->id, "org/repo");
  EXPECT_EQ(hub::hub_name_of("hf://127.0.0.1:80/org/repo@" + kCommit)->commit, kCommit);
  for (const std::string& other :
       {"hf://org/repo@" + kCommit + "/sub", std::string("hf://org/repo@main"), "hf://datasets/org/repo@" + kCommit,
        "oci://org/repo@" + kCommit, "hf:///repo@" + kCommit, "hf://repo@" + kCommit})
    EXPECT_FALSE(hub::hub_name_of(other)) << other;
}

TEST(Hub, RepositoryOfTheHubKeepsItsNameAndCommit) {
  Served served(repository("hf://org/repo@" + kCommit));
  const Map model = served.object("/api/models/org/repo/revision/main?blobs=true");
  EXPECT_EQ(text_in(model, "id"), "org/repo");
  EXPECT_EQ(text_in(model, "sha"), kCommit);
  EXPECT_EQ(text_in(model, "lastModified"), "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(model.find_as<List>("siblings")->size(), 4U);
  EXPECT_EQ(served.commit("org/repo"), kCommit);
  for (const std::string& revision : {kCommit, std::string("HEAD"), std::string("refs%2Fheads%2Fmain")})
    EXPECT_EQ(served.object("/api/models/org/repo/revision/" + revision).size(), model.size()) << revision;
  EXPECT_THAT(served.body("/api/models/org/repo/refs"), HasSubstr("\"targetCommit\":\"" + kCommit + "\""));
  EXPECT_EQ(served.error("/api/models/other/repo"), "404 RepoNotFound");
  EXPECT_EQ(served.error("/api/models/org/other"), "404 RepoNotFound");
}

TEST(Hub, CommitOfOtherModelsNamesTheirState) {
  Served served(repository("/models/m"));
  const std::string commit = served.commit("local/m");
  EXPECT_TRUE(hub::is_commit(commit)) << commit;
  EXPECT_EQ(Served(repository("/models/m")).commit("local/m"), commit) << "another process, the same bytes";
  EXPECT_NE(Served(repository("/models/m", weights('v'))).commit("local/m"), commit) << "weights of other bytes";
  EXPECT_EQ(served.error("/api/models/local/other"), "404 RepoNotFound");
  EXPECT_EQ(served.error("/api/models/local/m/revision/" + kCommit), "404 RevisionNotFound");
  EXPECT_EQ(served.error("/local/m/resolve/v1/config.json"), "404 RevisionNotFound");
}

TEST(Hub, TreeHasDigestsThatAreKnown) {
  Served served(repository("hf://org/repo@" + kCommit));
  const std::string config = git_blob_id("{}").hex(), notes = git_blob_id("notes").hex();
  const auto tree = [&](const std::string& id) {
    return sizes_and_digests(served.json(served.ask("/api/models/" + id + "/tree/main?recursive=true")));
  };
  EXPECT_THAT(tree("org/repo"),
              ElementsAre("config.json " + config, "model.safetensors " + sha256(weights()).hex(), "sub unknown",
                          "sub/deep unknown", "sub/deep/notes.txt " + notes, "sub/large.bin unknown"));
  EXPECT_EQ(tree("local/repo"), tree("org/repo"));
  const Map lfs = std::get<Map>(
      *std::get<Map>(std::get<List>(served.json(served.ask("/api/models/org/repo/tree/main")))[1]).find("lfs"));
  EXPECT_EQ(static_cast<uint64_t>(*lfs.find_as<int64_t>("pointerSize")),
            served.body("/org/repo/raw/main/model.safetensors").size());
}

TEST(Hub, TreeOfADirectoryAndItsPages) {
  Served served(repository("/m"));
  EXPECT_THAT(served.paths("/api/models/local/m/tree/main"), ElementsAre("config.json", "model.safetensors", "sub"));
  EXPECT_THAT(served.paths("/api/models/local/m/tree/main/sub"), ElementsAre("sub/deep", "sub/large.bin"));
  EXPECT_THAT(served.paths("/api/models/local/m/tree/main/sub?recursive=true"),
              ElementsAre("sub/deep", "sub/deep/notes.txt", "sub/large.bin"));
  EXPECT_EQ(served.error("/api/models/local/m/tree/main/su"), "404 EntryNotFound");
  const httpd::Response first = served.ask("/api/models/local/m/tree/main?limit=2");
  EXPECT_THAT(served.paths(first), ElementsAre("config.json", "model.safetensors"));
  EXPECT_EQ(field(first, "Link"), "<http://localhost:1/api/models/local/m/tree/main?cursor=2&limit=2>; rel=\"next\"");
  const httpd::Response last = served.ask("/api/models/local/m/tree/main?cursor=2&limit=2");
  EXPECT_THAT(served.paths(last), ElementsAre("sub"));
  EXPECT_EQ(field(last, "Link"), "");
  const httpd::Response whole = served.ask("/api/models/local/m/tree/main?limit=2", {{"user-agent", "llama-cpp/b1"}});
  EXPECT_THAT(served.paths(whole), ElementsAre("config.json", "model.safetensors", "sub")) << "it reads one page";
  EXPECT_EQ(field(whole, "Vary"), "User-Agent");
  EXPECT_EQ(served.ask("/api/models/local/m/tree/main?limit=1001").status, 400);
}

TEST(Hub, CompleteModelsAreNotAddedToACommitOfTheHub) {
  const auto serve = [](const std::string& source, const char* other) {
    Model model = read_model({"weights.safetensors", in_memory(weights())}).value();
    model.parts.push_back({other, text("{}")});
    return lay_out(std::make_shared<Model>(std::move(model)), source, kTime);
  };
  Served served(serve("hf://org/repo@" + kCommit, "config.json"));
  EXPECT_EQ(served.error("/org/repo/resolve/main/model.safetensors"), "404 EntryNotFound");
  EXPECT_EQ(served.ask("/local/repo/resolve/main/model.safetensors").status, 200);
  Served sharded(serve("/m", "model.safetensors.index.json"));
  EXPECT_EQ(sharded.error("/local/m/resolve/main/model.safetensors"), "404 EntryNotFound");
}

// A list of files and directories may be longer than that of the files.
TEST(Hub, CursorBehindTheEndIsAnEmptyPage) {
  Served served(repository("/m"));
  EXPECT_THAT(served.paths("/api/models/local/m/tree/main?cursor=250000"), ElementsAre());
}

TEST(Hub, PathsAreFoundByAFormOrJson) {
  Served served(repository("/m"));
  const auto post = [&](const char* type, const std::string& body) {
    return served.ask("/api/models/local/m/paths-info/main", {{"content-type", type}}, "POST", body);
  };
  EXPECT_THAT(served.paths(post("application/x-www-form-urlencoded", "paths=sub%2Flarge.bin&paths=none&paths=sub")),
              ElementsAre("sub/large.bin", "sub"));
  const httpd::Response json = post("application/json", R"({"paths":["config.json"],"expand":true})");
  EXPECT_THAT(served.paths(json), ElementsAre("config.json"));
  EXPECT_THAT(text_of(json), HasSubstr("\"lastCommit\":{\"id\":\"" + served.commit("local/m")));
  EXPECT_EQ(post("application/json", "[1]").status, 400);
  EXPECT_EQ(post("application/json", R"({"paths":[1]})").status, 400);
  EXPECT_EQ(served.ask("/api/models/local/m/tree/main", {}, "POST").status, 405);
  EXPECT_EQ(served.ask("/config.json", {}, "POST").status, 405);
}

// A large local file, which calls a function when it is read.
class ReadFile final : public Source {
 public:
  explicit ReadFile(std::function<void()> on_read = nullptr) : on_read_(std::move(on_read)) {}
  uint64_t size() const override { return kLarge; }
  Result<Place> place(uint64_t offset, Opens) const override {
    return Place{.length = bytes_after(offset), .is_ready = true};
  }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (on_read_) on_read_();
    const size_t count = bytes_inside(kLarge, offset, out.size());
    std::fill_n(out.begin(), count, std::byte{0});
    return count;
  }

 private:
  const std::function<void()> on_read_;
};

TEST(Hub, DigestsOfAReplacedModelAreNotMixed) {
  const auto tree_with = [](const SourcePtr& first) {
    Model model = read_model({"model.safetensors", in_memory(weights())}).value();
    model.parts.push_back({"a.bin", Later<SourcePtr>::of(first)});
    model.parts.push_back({"b.bin", Later<SourcePtr>::of(std::make_shared<ReadFile>())});
    return lay_out(std::make_shared<Model>(std::move(model)), "/m", kTime);
  };
  Forest forest(tree_with(std::make_shared<ReadFile>()));
  bool is_replaced = false;  // by the thread that reads the file
  forest.replace_root(tree_with(std::make_shared<ReadFile>([&] {
    if (!std::exchange(is_replaced, true)) forest.replace_root(tree_with(std::make_shared<ReadFile>()));
  })));
  digests::FileDigests digests;
  hub::Hub hub(forest, "http", nullptr, {}, &digests);
  const auto ask = [&](const std::string& paths) {
    httpd::Request request;
    request.method = "POST";
    request.target = "/api/models/local/m/paths-info/main";
    request.body = paths + "&expand=true";
    return hub.answer(request, *httpd::parse_target(request.target));
  };
  const auto answered = ask("paths=a.bin&paths=b.bin");
  EXPECT_TRUE(is_replaced);
  ASSERT_TRUE(answered && !*answered);
  EXPECT_EQ(answered->error().status, 503);
  const auto again = ask("paths=b.bin");
  ASSERT_TRUE(again && *again);
  EXPECT_THAT(text_of(**again), HasSubstr(sha256(*std::make_shared<ReadFile>())->hex()));
}

// The digest of the first file takes long enough for other models to need the memory.
TEST(Hub, ModelOfARequestIsNotDropped) {
  uint64_t used = 0;
  std::function<void()> on_read;
  const auto model_with = [&](bool is_read) -> Result<TreePtr> {
    Model model = read_model({"model.safetensors", in_memory(weights())}).value();
    for (const char* const name : {"a.bin", "b.bin"})
      if (is_read) model.parts.push_back({name, Later<SourcePtr>::of(std::make_shared<ReadFile>([&] { on_read(); }))});
    return lay_out(std::make_shared<Model>(std::move(model)), "/m", kTime);
  };
  TreeBuilder root(nullptr);
  root.add_tree("m", kTime, Later<TreePtr>([&] { return model_with(true); }));
  root.add_tree("other", kTime, Later<TreePtr>([&] { return model_with(false); }));
  ModelLimits limits;
  limits.memory_used = [&] { return used; };
  limits.memory_limit = [] { return 1000; };
  Forest forest(std::move(root).freeze(), {}, limits);
  const Ino weights_of_m = forest.resolve("m/files/model.safetensors").value();
  bool was_dropped = true;
  on_read = [&] {
    used = 600;  // above the half of the limit, at which models are dropped
    EXPECT_TRUE(forest.list(forest.resolve("other").value()));
    used = 0;
    was_dropped = !forest.known_attributes(weights_of_m);
  };
  digests::FileDigests digests;
  hub::Hub hub(forest, "http", nullptr, {}, &digests);
  httpd::Request request;
  request.method = "POST";
  request.target = "/api/models/local/m/paths-info/main";
  request.body = "paths=a.bin&paths=b.bin&expand=true";
  const auto answered = hub.answer(request, *httpd::parse_target(request.target));
  EXPECT_FALSE(was_dropped);
  ASSERT_TRUE(answered && *answered) << (answered ? answered->error().message : "no answer");
  EXPECT_THAT(text_of(**answered), HasSubstr("b.bin"));
}

TEST(Hub, FilesHaveTheFieldsOfTheHub) {
  Served served(repository("hf://org/repo@" + kCommit));
  const std::string tag = "\"" + sha256(weights()).hex() + "\"";
  const httpd::Response head = served.ask("/org/repo/resolve/main/model.safetensors", {}, "HEAD");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.length(), weights().size());
  EXPECT_EQ(field(head, "X-Repo-Commit"), kCommit);
  EXPECT_EQ(field(head, "ETag"), tag);
  EXPECT_EQ(field(head, "X-Linked-Etag"), tag);
  EXPECT_EQ(field(head, "X-Linked-Size"), std::to_string(weights().size()));
  const httpd::Response part =
      served.ask("/org/repo/resolve/" + kCommit + "/model.safetensors", {{"range", "bytes=8-9"}, {"if-range", tag}});
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(text_of(part), weights().substr(8, 2));
  const httpd::Response small = served.ask("/org/repo/resolve/main/sub/deep/notes.txt");
  EXPECT_EQ(text_of(small), "notes");
  EXPECT_EQ(field(small, "ETag"), "\"" + git_blob_id("notes").hex() + "\"");
  EXPECT_EQ(field(small, "X-Linked-Size"), "");
  const std::string own = field(served.ask("/org/repo/resolve/main/sub/large.bin", {}, "HEAD"), "ETag");
  EXPECT_EQ(own.size(), 34U) << "neither a SHA-256 nor a SHA-1: " << own;
  EXPECT_THAT(served.body("/org/repo/raw/main/model.safetensors"),
              StartsWith("version https://git-lfs.github.com/spec/v1\noid sha256:" + sha256(weights()).hex()));
  EXPECT_EQ(served.body("/org/repo/raw/main/config.json"), "{}");
}

TEST(Hub, MissingFileHasTheCommit) {
  Served served(repository("/m"));
  const httpd::Response missing = served.ask("/local/m/resolve/main/adapter_config.json", {}, "HEAD");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(field(missing, "X-Error-Code"), "EntryNotFound");
  EXPECT_EQ(field(missing, "X-Repo-Commit"), served.commit("local/m"));
  EXPECT_EQ(served.error("/local/m/raw/main/none"), "404 EntryNotFound");
  EXPECT_EQ(served.error("/local/m/resolve/main/views/model.gguf"), "404 EntryNotFound") << "a path of the tree";
  EXPECT_EQ(served.error("/local/n/resolve/main/config.json"), "404 RepoNotFound");
  EXPECT_EQ(served.error("/api/whoami-v2"), "401 ");
  EXPECT_EQ(served.error("/api/datasets/local/m"), "404 ");
}

TEST(Hub, CompleteModelsAreFilesByName) {
  Served served(repository("/m"));
  EXPECT_THAT(served.paths("/api/models/views/m/tree/main"), ElementsAre("model.gguf", "model.safetensors"));
  const httpd::Response view = served.ask("/local/m/resolve/main/model.gguf", {}, "HEAD");
  EXPECT_EQ(view.status, 200);
  EXPECT_EQ(field(view, "X-Repo-Commit"), served.commit("local/m"));
  EXPECT_EQ(text_of(served.ask("/views/m/resolve/main/model.gguf")).substr(0, 4), "GGUF");
  EXPECT_NE(served.commit("views/m"), served.commit("local/m"));
}

// A directory of models: names of the tree that are no names of repositories, and a directory in it.
TEST(Hub, ModelsOfADirectoryHaveTheirPathsAsNames) {
  TreeBuilder below(nullptr);
  below.add_tree("b.gguf", kTime, Later<TreePtr>::of(repository("/models/more/b.gguf")));
  TreeBuilder root(nullptr);
  root.add_tree("a (1).safetensors", kTime, Later<TreePtr>::of(repository("/models/a (1).safetensors")));
  root.add_tree("broken", kTime,
                Later<TreePtr>([]() -> Result<TreePtr> { return failure(Code::corrupt, "broken: no header"); }));
  root.add_tree("more", kTime, Later<TreePtr>::of(std::move(below).freeze()));
  root.add_tree("repo", kTime, Later<TreePtr>::of(repository("hf://org/repo@" + kCommit)));
  Served served(std::move(root).freeze());
  EXPECT_EQ(served.body("/local/a-1-safetensors/resolve/main/config.json"), "{}");
  EXPECT_EQ(served.error("/local/a-1.safetensors/resolve/main/config.json"), "404 RepoNotFound");
  EXPECT_EQ(served.body("/local/more-b.gguf/resolve/main/config.json"), "{}");
  EXPECT_EQ(served.commit("org/repo"), kCommit);
  EXPECT_NE(served.commit("local/repo"), kCommit);
  EXPECT_EQ(served.error("/api/models/local/more"), "404 RepoNotFound") << "it is a directory of models";
  EXPECT_EQ(served.ask("/api/models/local/broken").status, 502);
  EXPECT_EQ(served.body("/repo/files/config.json"), "{}") << "paths of the tree stay what they are";
}

// Tensors whose names look like files of a repository.
TEST(Hub, PathsOfTheTreeComeFirst) {
  const std::string bytes = SafetensorsBuilder().tensor("x/resolve/main/w", "U8", "1", "!").build();
  Served served(lay_out(std::make_shared<Model>(read_model({"m.safetensors", in_memory(bytes)}).value()), "/m", kTime));
  EXPECT_EQ(served.body("/tensors/x/resolve/main/w"), "!");
}

}  // namespace
}  // namespace weightfs::hub_test
