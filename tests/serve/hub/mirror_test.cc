// A mirror over a scripted origin, without sockets: what is requested, what is remembered, and what clients get.
#include "serve/hub/mirror.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <set>
#include <thread>

#include "formats/format.h"
#include "fs/layout/layout.h"
#include "fs/tree/tree.h"
#include "serve/hub/hub.h"
#include "serve/mirror/for_client.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/serve/api/client.h"
#include "tests/serve/mirror/failing_bytes.h"

namespace weightfs::mirror_test {
namespace {

using api_client::field;
using api_client::text_of;
using failing_bytes::MismatchedBytes;
using failing_bytes::SilentBytes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kFirst(40, 'a');
const std::string kSecond(40, 'b');
const std::string kConfig = "{\"hidden_size\": 4}";

Error named(Code code, std::string_view name) {
  Error error(code, "refused");
  error.name = name.data();
  return error;
}

// What a test changes is not read meanwhile, but for the counters.
struct Script {
  std::string commit = kFirst;  // of every branch
  std::set<std::string> ids = {"org/demo"};
  std::optional<Error> error = {};       // of resolve()
  std::optional<Error> list_error = {};  // of read()
  SourcePtr bytes = in_memory(kConfig);
  size_t files = 1;
  std::atomic<size_t> resolved = 0, listed = 0, opened = 0;
  std::function<void()> on_resolve = [] {};
};

class ScriptedOrigin final : public hub::MirrorOrigin {
 public:
  explicit ScriptedOrigin(Script& script) : script_(script) {}
  bool is_permitted(const std::string& id) const override { return id.starts_with("org/"); }
  bool is_revision(const std::string& text) const override { return text.find("..") == text.npos; }
  Result<State> resolve(const std::string& id, const std::string& revision) override {
    ++script_.resolved;
    script_.on_resolve();
    if (script_.error) return failure(*script_.error);
    if (!script_.ids.contains(id)) return failure(Code::not_found, "no such repository");
    if (revision == "gone") return failure(named(Code::not_found, hub::kNoRevision));
    return State{revision.size() == 40 ? revision : script_.commit};
  }
  Result<hub::RepositoryPtr> read(const std::string& id, const std::string& commit) override {
    ++script_.listed;
    if (script_.list_error) return failure(*script_.list_error);
    auto repository = std::make_shared<hub::Repository>();
    repository->id = id;
    repository->commit = commit;
    repository->shows = hub::Shows::origin;
    const Sha1 digest = git_blob_id(kConfig);
    for (size_t i = 0; i < script_.files; ++i) {
      hub::RepositoryFile file;
      file.path = i == 0 ? "config.json" : fmt::format("file-{:06}", i);
      file.size = kConfig.size();
      file.git_id = digest;
      repository->files.push_back(std::move(file));
    }
    return std::shared_ptr<const hub::Repository>(std::move(repository));
  }
  SourcePtr open(const hub::Repository&, const hub::RepositoryFile&) override {
    ++script_.opened;
    return script_.bytes;
  }

 private:
  Script& script_;
};

class MirrorTest : public ::testing::Test {
 protected:
  MirrorTest() {
    hub::MirrorRules own;
    own.log = [this](const std::string& line) {
      lines.push_back(line);
      on_line();
    };
    own.now = [this] { return std::chrono::steady_clock::time_point(clock); };
    make(std::move(own));
  }

  void make(hub::MirrorRules with) {
    rules = std::move(with);
    mirror = std::make_shared<hub::Mirror>(std::make_unique<ScriptedOrigin>(script), rules);
  }

  // The commit, or the refusal.
  std::string find(const std::string& name = "demo", const std::string& revision = "main",
                   const std::string& organization = "org") {
    const auto found = mirror->find(organization, name, revision);
    if (found) return (*found)->commit;
    return fmt::format("{} {}", found.error().status, found.error().code);
  }

  std::chrono::seconds clock{1'000};
  Script script;
  std::vector<std::string> lines;
  std::function<void()> on_line = [] {};
  hub::MirrorRules rules;
  std::shared_ptr<hub::Mirror> mirror;
};

TEST_F(MirrorTest, NameThatIsNotPermittedIsNotRequested) {
  EXPECT_EQ(find("demo", "main", "other"), "404 RepoNotFound");
  EXPECT_EQ(find("demo", "main", "local"), "404 RepoNotFound");
  EXPECT_EQ(find("demo", "a..b"), "404 RevisionNotFound");
  EXPECT_EQ(script.resolved, 0U);
}

TEST_F(MirrorTest, BranchIsResolvedAgainAfterTheTtlAndACommitNever) {
  EXPECT_EQ(find(), kFirst);
  script.commit = kSecond;
  clock += seconds(59);
  EXPECT_EQ(find(), kFirst);
  EXPECT_EQ(script.resolved, 1U);
  clock += seconds(1);
  EXPECT_EQ(find(), kSecond);
  clock += seconds(100'000);
  EXPECT_EQ(find("demo", kFirst), kFirst);
  EXPECT_EQ(script.resolved, 2U);
  EXPECT_EQ(script.listed, 2U) << "each commit is listed once";
}

TEST_F(MirrorTest, LastCommitIsServedWhileTheOriginIsDownWithItsAgeInTheLog) {
  EXPECT_EQ(find(), kFirst);
  script.error = Error(Code::network, "connection refused");
  clock += seconds(90);
  EXPECT_EQ(find(), kFirst);
  EXPECT_THAT(lines,
              ElementsAre("org/demo@main: serving " + kFirst + ", which the origin sent 90 s ago: connection refused"));
  EXPECT_EQ(find(), kFirst);
  EXPECT_EQ(script.resolved, 2U) << "one request in a TTL";
}

TEST_F(MirrorTest, RepositoryThatWasRemovedIsNotServed) {
  EXPECT_EQ(find(), kFirst);
  script.ids.clear();
  clock += seconds(60);
  EXPECT_EQ(find(), "404 RepoNotFound");
}

TEST_F(MirrorTest, LastCommitIsServedWhileTheTokenIsNotAccepted) {
  EXPECT_EQ(find(), kFirst);
  script.error = Error(Code::forbidden, "access denied");
  clock += seconds(60);
  EXPECT_EQ(find(), kFirst);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("access denied")));
  script.error = named(Code::forbidden, hub::kGated);
  clock += seconds(60);
  EXPECT_EQ(find(), "403 GatedRepo");
}

TEST_F(MirrorTest, RefusalsAreThoseOfTheHub) {
  EXPECT_EQ(find("other"), "404 RepoNotFound");
  EXPECT_EQ(find("demo", "gone"), "404 RevisionNotFound");
  script.list_error = named(Code::forbidden, hub::kGated);
  EXPECT_EQ(find(), "403 GatedRepo");
  EXPECT_EQ(find(), "403 GatedRepo");
  EXPECT_EQ(script.listed, 1U) << "the refusal is remembered";
  script.list_error = {};
  clock += seconds(60);
  EXPECT_EQ(find(), kFirst);
  for (const auto& [error, expected] :
       std::vector<std::pair<Error, std::string>>{{Error(Code::forbidden, "access denied"), "502 "},
                                                  {Error(Code::unreachable, "refused"), "503 "},
                                                  {timeout("slow"), "504 "},
                                                  {Error(Code::corrupt, "not JSON"), "502 "}}) {
    script.error = error;
    EXPECT_EQ(find(fmt::format("new-{}", script.resolved.load())), expected);
  }
}

TEST_F(MirrorTest, CommitThatDidNotExistIsServedOnceABranchHasIt) {
  script.error = named(Code::not_found, hub::kNoRevision);
  EXPECT_EQ(find("demo", kFirst), "404 RevisionNotFound");
  script.error = {};
  EXPECT_EQ(find("demo", kFirst), "404 RevisionNotFound") << "it is remembered";
  EXPECT_EQ(find(), kFirst);
}

TEST_F(MirrorTest, OutageIsAskedForAgainAfterTenSeconds) {
  script.error = Error(Code::network, "down");
  EXPECT_EQ(find(), "503 ");
  EXPECT_EQ(find(), "503 ");
  EXPECT_EQ(script.resolved, 1U);
  script.error = {};
  clock += seconds(10);
  EXPECT_EQ(find(), kFirst);
}

TEST_F(MirrorTest, UnknownNamesCostABoundedNumberOfRequests) {
  EXPECT_EQ(find(), kFirst);
  std::set<std::string> answers;
  for (int i = 0; i < 1'000; ++i) answers.insert(find(fmt::format("unknown-{}", i)));
  EXPECT_THAT(answers, ElementsAre("404 RepoNotFound", "503 "));
  EXPECT_EQ(script.resolved, 1 + hub::Mirror::kMaxUnknown);
  clock += seconds(59);
  EXPECT_EQ(find(), kFirst) << "names that were found are served";
  script.ids.insert("org/new");
  EXPECT_EQ(find("new"), "503 ");
  clock += seconds(1);
  EXPECT_EQ(find("new"), kFirst);
}

TEST_F(MirrorTest, RefusalsAreForgottenAfterFiveMinutesWithALongTtl) {
  rules.ttl = seconds(86'400);
  make(rules);
  EXPECT_EQ(find(), kFirst);
  for (size_t i = 0; i < hub::Mirror::kMaxUnknown; ++i) find(fmt::format("unknown-{}", i));
  script.ids.insert({"org/new", "org/unknown-0"});
  clock += mirror::Lookups::kMaxRefusal - seconds(1);
  EXPECT_EQ(find("new"), "503 ");
  EXPECT_EQ(find("unknown-0"), "404 RepoNotFound");
  clock += seconds(1);
  EXPECT_EQ(find("new"), kFirst);
  EXPECT_EQ(find("unknown-0"), kFirst);
  const size_t resolved = script.resolved;
  EXPECT_EQ(find(), kFirst);
  EXPECT_EQ(script.resolved, resolved) << "a commit is current for the TTL";
}

TEST_F(MirrorTest, OthersAreAnsweredWhileTheLogIsWritten) {
  script.ids.insert("org/other");
  EXPECT_EQ(find("other"), kFirst);
  std::vector<std::string> meanwhile;
  // With the lock held, a second thread would wait for ever, and the first one for it.
  on_line = [&] { std::jthread([&] { meanwhile.push_back(find("other")); }); };
  script.error = Error(Code::network, "down");
  EXPECT_EQ(find(), "503 ");
  script.error = {};
  script.list_error = Error(Code::network, "down");
  EXPECT_EQ(find("demo", "v2"), "503 ");
  script.list_error = {};
  EXPECT_THAT(meanwhile, ElementsAre(kFirst, kFirst));
}

TEST(ClientBytes, ReadEndsWhenTheOriginIsSilentOrTheClientHasLeft) {
  const auto error = [](const SourcePtr& bytes) {
    const auto read = read_text(*bytes, 0, 1);
    return read ? Error() : read.error();
  };
  const auto hung = std::make_shared<SilentBytes>(kConfig.size());
  EXPECT_TRUE(is_timeout(error(mirror::for_client(hung, {}, std::chrono::milliseconds(1)))));
  const Error left = error(mirror::for_client(hung, [] { return true; }));
  EXPECT_EQ(left.code, Code::resource);
  EXPECT_FALSE(is_timeout(left));
  const SourcePtr present = mirror::for_client(in_memory(kConfig), [] { return true; });
  EXPECT_EQ(read_text(*present, 0, kConfig.size()).value(), kConfig) << "bytes that are there are read";
}

TEST_F(MirrorTest, ClientsThatAskAtOnceCostOneRequest) {
  constexpr int kClients = 8;
  std::latch all(kClients);
  std::atomic<int> right = 0;
  std::vector<std::jthread> clients;
  for (int i = 0; i < kClients; ++i)
    clients.emplace_back([&] {
      all.arrive_and_wait();
      right += mirror->find("org", "demo", "main").has_value() ? 1 : 0;
    });
  clients.clear();
  EXPECT_EQ(right, kClients);
  EXPECT_EQ(script.resolved, 1U);
  EXPECT_EQ(script.listed, 1U);
}

TEST_F(MirrorTest, OthersGetTheLastCommitWhileOneAsks) {
  EXPECT_EQ(find(), kFirst);
  clock += seconds(60);
  script.commit = kSecond;
  std::string meanwhile;
  script.on_resolve = [&] { meanwhile = find(); };
  EXPECT_EQ(find(), kSecond);
  EXPECT_EQ(meanwhile, kFirst);
}

TEST_F(MirrorTest, ListsThatWereNotUsedAreClosed) {
  script.files = 10;
  for (size_t i = 0; i <= hub::Mirror::kMaxOpen; ++i) {
    script.ids.insert(fmt::format("org/m{}", i));
    EXPECT_EQ(find(fmt::format("m{}", i)), kFirst);
  }
  const size_t listed = script.listed;
  EXPECT_EQ(find(fmt::format("m{}", hub::Mirror::kMaxOpen)), kFirst);
  EXPECT_EQ(script.listed, listed);
  EXPECT_EQ(find("m0"), kFirst);
  EXPECT_EQ(script.listed, listed + 1) << "it was read again";
}

TEST_F(MirrorTest, FilesOfAllListsAreBounded) {
  script.files = hub::Mirror::kMaxListed / 2 + 1;
  script.ids.insert({"org/a", "org/b"});
  EXPECT_EQ(find("a"), kFirst);
  EXPECT_EQ(find("b"), kFirst);
  EXPECT_EQ(script.listed, 2U);
  EXPECT_EQ(find("b"), kFirst);
  EXPECT_EQ(find("a"), kFirst);
  EXPECT_EQ(script.listed, 3U);
}

TEST_F(MirrorTest, ClientsShareTheBytesOfAFileUntilTheyDoNotMatch) {
  const auto repository = mirror->find("org", "demo", "main").value();
  const SourcePtr bytes = mirror->open(*repository, repository->files.front());
  EXPECT_EQ(mirror->open(*repository, repository->files.front()), bytes);
  EXPECT_EQ(script.opened, 1U);
  script.bytes = std::make_shared<MismatchedBytes>(kConfig.size());
  script.ids.insert("org/wrong");
  const auto other = mirror->find("org", "wrong", "main").value();
  EXPECT_FALSE(read_text(*mirror->open(*other, other->files.front()), 0, 1));
  script.bytes = in_memory(kConfig);
  EXPECT_EQ(read_text(*mirror->open(*other, other->files.front()), 0, 1).value(), "{");
}

// A server with a mirror and no model.
class MirrorServerTest : public MirrorTest {
 protected:
  httpd::Response ask(const std::string& target, std::vector<httpd::Field> fields = {}, const char* method = "GET",
                      const std::string& body = "") {
    httpd::Request request;
    request.method = method;
    request.target = target;
    request.fields = std::move(fields);
    request.fields.push_back({"host", "localhost:1"});
    request.body = body;
    return site.answer(request, {"127.0.0.1"});
  }
  std::string error(const std::string& target) {
    const httpd::Response response = ask(target);
    return fmt::format("{} {}", response.status, field(response, "X-Error-Code"));
  }

  httpd::SiteOptions options() {
    httpd::SiteOptions options;
    options.access.hosts = {"localhost"};
    options.max_body = hub::Hub::max_body;
    options.answer_first = [this](const httpd::Request& request, const httpd::Target& target, const httpd::Client&) {
      return served.answer(request, target, has_left);
    };
    return options;
  }

  std::function<bool()> has_left = {};
  Forest forest{TreeBuilder(nullptr).freeze()};
  hub::Hub served{forest, "http",
                  [this](const httpd::Request& request, Ino ino, const std::string& name,
                         const httpd::FileFields& more) { return site.file(request, ino, name, more); },
                  hub::Mirrored{mirror, [this](const httpd::Request& request, SourcePtr bytes, const std::string& name,
                                               const httpd::FileFields& more) {
                                  return site.source(request, std::move(bytes), name, more);
                                }}};
  httpd::Site site{forest, options()};
};

TEST_F(MirrorServerTest, AnswersHaveTheCommitAndDigestsOfTheOrigin) {
  const std::string id = git_blob_id(kConfig).hex();
  EXPECT_THAT(text_of(ask("/api/models/org/demo")), HasSubstr("\"sha\":\"" + kFirst + "\""));
  EXPECT_THAT(text_of(ask("/api/models/org/demo/tree/" + kFirst)), HasSubstr("\"oid\":\"" + id + "\""));
  const std::string paths = text_of(ask("/api/models/org/demo/paths-info/main", {}, "POST", "paths=config.json"));
  EXPECT_THAT(paths, HasSubstr(id));
  const auto file = ask("/org/demo/resolve/main/config.json");
  EXPECT_EQ(file.status, 200);
  EXPECT_EQ(text_of(file), kConfig);
  EXPECT_EQ(field(file, "ETag"), "\"" + id + "\"");
  EXPECT_EQ(field(file, "X-Repo-Commit"), kFirst);
  const auto part = ask("/org/demo/resolve/" + kFirst + "/config.json", {{"range", "bytes=1-3"}});
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(text_of(part), kConfig.substr(1, 3));
  EXPECT_EQ(ask("/org/demo/resolve/main/config.json", {{"if-none-match", "\"" + id + "\""}}).status, 304);
  EXPECT_EQ(text_of(ask("/org/demo/raw/main/config.json")), kConfig);
}

TEST_F(MirrorServerTest, OtherNamesOfTheMainBranchCostNoRequest) {
  for (const char* revision : {"main", "HEAD", "refs%2Fheads%2Fmain"})
    EXPECT_EQ(field(ask(fmt::format("/org/demo/resolve/{}/config.json", revision)), "X-Repo-Commit"), kFirst);
  EXPECT_EQ(script.resolved, 1U);
}

TEST_F(MirrorServerTest, RefusalsHaveTheFormOfTheHub) {
  EXPECT_EQ(error("/other/demo/resolve/main/config.json"), "404 RepoNotFound");
  EXPECT_EQ(error("/api/models/other/demo"), "404 RepoNotFound");
  EXPECT_EQ(error("/org/demo/resolve/gone/config.json"), "404 RevisionNotFound");
  EXPECT_EQ(error("/org/demo/resolve/main/none"), "404 EntryNotFound");
  EXPECT_EQ(error("/org/demo/resolve/main/model.gguf"), "404 EntryNotFound");
  EXPECT_EQ(error("/api/models/org/demo/tree/main/none"), "404 EntryNotFound");
  EXPECT_EQ(error("/api/models/org/%2e%2e"), "400 ");
  EXPECT_EQ(ask("/api/models/org/demo/paths-info/main").status, 404) << "it is for POST";
  script.error = Error(Code::network, "down");
  const auto down = ask("/api/models/org/new");
  EXPECT_EQ(down.status, 503);
  EXPECT_EQ(field(down, "Retry-After"), "10");
}

TEST_F(MirrorServerTest, BytesThatDoNotMatchAreNoResponse) {
  script.bytes = std::make_shared<MismatchedBytes>(kConfig.size());
  EXPECT_EQ(ask("/org/demo/resolve/main/config.json").status, 502);
}

TEST_F(MirrorServerTest, ReadEndsWithItsClient) {
  script.bytes = std::make_shared<SilentBytes>(kConfig.size());
  std::atomic<int> asked = 0;
  has_left = [&] { return ++asked > 1; };
  const auto cut = ask("/org/demo/resolve/main/config.json");
  EXPECT_EQ(cut.status, 503);
  EXPECT_EQ(field(cut, "Retry-After"), "10");
}

// A mirror beside a source of the Hub.
class MirroredSourceTest : public MirrorServerTest {
 protected:
  static TreePtr source() {
    const std::string bytes = test::SafetensorsBuilder().tensor("w", "F32", "2", std::string(8, 'w')).build();
    Model model = read_model({"model.safetensors", in_memory(bytes)}).value();
    return lay_out(std::make_shared<Model>(std::move(model)), "hf://org/demo@" + kSecond, 1'700'000'000'000'000'000);
  }
};

TEST_F(MirroredSourceTest, OtherRevisionsOfASourceAreThoseOfTheOrigin) {
  Forest own{source()};
  hub::Hub beside{own, "http", {}, hub::Mirrored{mirror, {}}};
  const auto commit = [&](const std::string& target) -> std::string {
    httpd::Request request;
    request.method = "GET";
    request.target = target;
    const auto answered = beside.answer(request, httpd::parse_target(target).value());
    return answered && *answered ? fmt::format("{} {}", (*answered)->status, field(**answered, "X-Repo-Commit")) : "";
  };
  for (const std::string& revision : {std::string("main"), kSecond})
    EXPECT_EQ(commit("/api/models/org/demo/revision/" + revision), "200 " + kSecond);
  EXPECT_EQ(script.resolved, 0U) << "the source has it";
  EXPECT_EQ(commit("/api/models/org/demo/revision/v2"), "200 " + kFirst);
  EXPECT_EQ(commit("/api/models/org/demo/revision/" + kFirst), "200 " + kFirst);
  EXPECT_EQ(commit("/api/models/local/demo/revision/v2"), "404 ") << "no revision of a model of the tree";
  EXPECT_EQ(script.listed, 1U);
}

TEST_F(MirrorServerTest, FileOfAnOriginThatIsDownMayBeRequestedAgain) {
  script.bytes =
      lazy(kConfig.size(),
           Later<SourcePtr>([]() -> Result<SourcePtr> { return failure(Code::unreachable, "connection refused"); }));
  EXPECT_EQ(ask("/org/demo/resolve/main/config.json", {}, "HEAD").status, 200) << "it reads nothing";
  const auto down = ask("/org/demo/resolve/main/config.json");
  EXPECT_EQ(down.status, 503);
  EXPECT_EQ(field(down, "Retry-After"), "10");
  EXPECT_THAT(lines, IsEmpty());
}

}  // namespace
}  // namespace weightfs::mirror_test
