// A mirror of a registry over a scripted origin, without sockets: what is requested, what is remembered, and what
// clients get.
#include "serve/registry/mirror.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <map>
#include <set>
#include <thread>

#include "base/cancel.h"
#include "fs/layout/layout.h"
#include "fs/tree/tree.h"
#include "serve/registry/registry.h"
#include "tests/serve/api/client.h"
#include "tests/serve/mirror/failing_bytes.h"

namespace weightfs::registry_mirror_test {
namespace {

using api_client::field;
using api_client::text_of;
using failing_bytes::MismatchedBytes;
using failing_bytes::SilentBytes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kLayer = "the bytes of a layer";

std::string name_of(const std::string& bytes) { return "sha256:" + sha256(bytes).hex(); }

std::string manifest_with(const std::string& note) {
  return fmt::format(R"({{"schemaVersion":2,"layers":[{{"digest":"{}","size":{}}}],"annotations":{{"a":"{}"}}}})",
                     name_of(kLayer), kLayer.size(), note);
}
const std::string kOld = manifest_with("old");
const std::string kNew = manifest_with("new");

class BytesOfNoServer final : public Source {
 public:
  explicit BytesOfNoServer(Error error) : error_(std::move(error)) {}
  uint64_t size() const override { return kLayer.size(); }
  Result<size_t> read(uint64_t, std::span<std::byte>) const override { return failure(error_); }

 private:
  const Error error_;
};

// What a test changes is not read meanwhile, but for the counters.
struct RegistryScript {
  std::map<std::string, std::string> tags = {{"v1", kOld}};  // texts of manifests, of each repository
  std::set<std::string> names = {"library/tiny"};
  std::optional<Error> error = {};
  SourcePtr bytes = in_memory(kLayer);
  std::function<void()> on_open = [] {};
  std::atomic<size_t> resolved = 0, opened = 0;
};

class ScriptedRegistry final : public distribution::MirrorOrigin {
 public:
  explicit ScriptedRegistry(RegistryScript& script) : script_(script) {}
  bool is_permitted(const std::string& name) const override { return name.starts_with("library/"); }
  bool is_namespace(const std::string& text) const override { return text == "registry.example"; }
  Result<mirror::State> resolve(const std::string& name, const std::string& reference) override {
    ++script_.resolved;
    TRY_VOID(check(name));
    if (const auto digest = parse_digest(reference)) {
      TRY(manifest(name, *digest));
      return mirror::State{digest->hex()};
    }
    const auto found = script_.tags.find(reference);
    if (found == script_.tags.end()) return failure(Code::not_found, "no such tag");
    return mirror::State{sha256(found->second).hex()};
  }
  Result<std::string> manifest(const std::string&, const Digest& digest) override {
    for (const std::string& text : {kOld, kNew})
      if (sha256(text) == digest) return text;
    return failure(Code::not_found, "no such manifest");
  }
  Result<SourcePtr> open(const std::string& name, const Digest& digest) override {
    ++script_.opened;
    script_.on_open();
    if (is_cancelled()) return failure(Code::network, "cancelled");
    TRY_VOID(check(name));
    if (digest != sha256(kLayer)) return failure(Code::not_found, "no such blob");
    return script_.bytes;
  }

 private:
  Result<void> check(const std::string& name) const {
    if (script_.error) return failure(*script_.error);
    if (script_.names.contains(name)) return {};
    Error missing(Code::not_found, "no such repository");
    missing.name = distribution::kNoRepository.data();
    return failure(std::move(missing));
  }

  RegistryScript& script_;
};

class RegistryMirrorTest : public testing::Test {
 protected:
  RegistryMirrorTest() : registry(open()) {}

  std::unique_ptr<distribution::Registry> open() {
    mirror::Rules rules;
    rules.log = [this](const std::string& line) { lines.push_back(line); };
    rules.now = [this] { return std::chrono::steady_clock::time_point(clock); };
    return std::make_unique<distribution::Registry>(
        forest, "", digests, distribution::Readers::all,
        std::make_shared<distribution::Mirror>(std::make_unique<ScriptedRegistry>(script), rules));
  }

  httpd::Response ask(const std::string& target, std::vector<httpd::Field> fields = {}, const char* method = "GET") {
    httpd::Request request;
    request.method = method;
    request.target = target;
    request.fields = std::move(fields);
    auto answered = registry->answer(request, httpd::parse_target(target).value(), has_left);
    return answered ? std::move(*answered) : httpd::Response{0};
  }
  // The status, and the code of the error.
  std::string error(const std::string& target) {
    const httpd::Response response = ask(target);
    const std::string text = text_of(response);
    const size_t code = text.find("\"code\":\"");
    return fmt::format("{} {}", response.status,
                       code == text.npos ? "" : text.substr(code + 8, text.find('"', code + 8) - code - 8));
  }
  std::string manifest(const std::string& reference = "v1") {
    return text_of(ask("/v2/library/tiny/manifests/" + reference));
  }

  seconds clock{1'000};
  RegistryScript script;
  std::vector<std::string> lines;
  std::function<bool()> has_left = {};
  Forest forest{TreeBuilder(nullptr).freeze()};
  digests::FileDigests digests;
  std::unique_ptr<distribution::Registry> registry;
};

const std::string kBlob = "/v2/library/tiny/blobs/" + name_of(kLayer);

TEST_F(RegistryMirrorTest, ManifestsAndBlobsAreThoseOfTheOrigin) {
  const auto found = ask("/v2/library/tiny/manifests/v1");
  EXPECT_EQ(found.status, 200);
  EXPECT_EQ(text_of(found), kOld);
  EXPECT_EQ(field(found, "Docker-Content-Digest"), name_of(kOld));
  EXPECT_EQ(field(found, "Content-Type"), "application/vnd.oci.image.manifest.v1+json");
  EXPECT_EQ(field(found, "Cache-Control"), "no-cache");
  EXPECT_THAT(field(ask("/v2/library/tiny/manifests/" + name_of(kOld)), "Cache-Control"), HasSubstr("immutable"));
  const auto blob = ask(kBlob);
  EXPECT_EQ(blob.status, 200);
  EXPECT_EQ(text_of(blob), kLayer);
  EXPECT_EQ(field(blob, "Docker-Content-Digest"), name_of(kLayer));
  const auto part = ask(kBlob, {{"range", "bytes=4-8"}});
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(text_of(part), kLayer.substr(4, 5));
  EXPECT_EQ(ask(kBlob, {}, "HEAD").status, 200);
  EXPECT_EQ(script.opened, 1U);
}

TEST_F(RegistryMirrorTest, NameThatIsNotPermittedIsNotRequested) {
  for (const char* const target :
       {"/v2/other/tiny/manifests/v1", "/v2/tiny/manifests/v1", "/v2/library/tiny/manifests/v1?ns=other.example",
        "/v2/library/tiny/manifests/v1?ns=registry.example.evil"})
    EXPECT_EQ(error(target), "404 NAME_UNKNOWN") << target;
  EXPECT_EQ(error("/v2/library/tiny/tags/list"), "404 UNSUPPORTED");
  EXPECT_EQ(error("/v2/library/tiny/manifests/-x"), "404 MANIFEST_UNKNOWN");
  EXPECT_EQ(error("/v2/library/tiny/blobs/sha256:1"), "400 DIGEST_INVALID");
  EXPECT_EQ(script.resolved + script.opened, 0U);
  EXPECT_EQ(ask("/v2/library/tiny/manifests/v1?ns=registry.example").status, 200);
}

TEST_F(RegistryMirrorTest, TagIsResolvedAgainAfterTheTtlAndADigestNever) {
  EXPECT_EQ(manifest(), kOld);
  script.tags["v1"] = kNew;
  clock += seconds(59);
  EXPECT_EQ(manifest(), kOld);
  EXPECT_EQ(script.resolved, 1U);
  clock += seconds(1);
  EXPECT_EQ(manifest(), kNew);
  EXPECT_EQ(manifest(name_of(kOld)), kOld);
  clock += seconds(100'000);
  EXPECT_EQ(manifest(name_of(kOld)), kOld);
  EXPECT_EQ(script.resolved, 3U);
}

TEST_F(RegistryMirrorTest, LastManifestIsServedWhileTheOriginIsDown) {
  EXPECT_EQ(manifest(), kOld);
  for (const Error& error : {Error(Code::network, "refused"), Error(Code::forbidden, "the login has expired")}) {
    script.error = error;
    clock += seconds(60);
    EXPECT_EQ(manifest(), kOld);
    EXPECT_THAT(lines.back(), HasSubstr(error.message));
  }
  EXPECT_THAT(lines.front(), HasSubstr("library/tiny:v1: serving " + sha256(kOld).hex()));
  script.error = {};
  script.tags.clear();
  clock += seconds(60);
  EXPECT_EQ(error("/v2/library/tiny/manifests/v1"), "404 MANIFEST_UNKNOWN") << "it was removed";
}

TEST_F(RegistryMirrorTest, RefusalsAreThoseOfTheSpecification) {
  EXPECT_EQ(error("/v2/library/other/manifests/v1"), "404 NAME_UNKNOWN");
  EXPECT_EQ(error("/v2/library/tiny/manifests/v2"), "404 MANIFEST_UNKNOWN");
  EXPECT_EQ(error("/v2/library/tiny/manifests/" + name_of("x")), "404 MANIFEST_UNKNOWN");
  EXPECT_EQ(error("/v2/library/tiny/blobs/" + name_of("x")), "404 BLOB_UNKNOWN");
  for (const auto& [failed, expected] :
       std::vector<std::pair<Error, std::string>>{{Error(Code::forbidden, "denied"), "403 DENIED"},
                                                  {Error(Code::unreachable, "refused"), "429 TOOMANYREQUESTS"},
                                                  {timeout("slow"), "504 UNKNOWN"},
                                                  {Error(Code::mismatch, "another digest"), "502 UNKNOWN"}}) {
    script.error = failed;
    const std::string target = fmt::format("/v2/library/new-{}/manifests/v1", script.resolved.load());
    EXPECT_EQ(error(target), expected);
    EXPECT_EQ(error(target), expected);
  }
  EXPECT_EQ(script.resolved, 7U) << "refusals are remembered";
}

TEST_F(RegistryMirrorTest, UnknownNamesCostABoundedNumberOfRequests) {
  EXPECT_EQ(manifest(), kOld);
  EXPECT_EQ(ask(kBlob).status, 200);
  std::set<std::string> answers;
  for (int i = 0; i < 500; ++i) {
    answers.insert(error(fmt::format("/v2/library/unknown-{}/manifests/v1", i)));
    answers.insert(error("/v2/library/tiny/blobs/" + name_of(std::to_string(i))));
  }
  EXPECT_THAT(answers, ElementsAre("404 BLOB_UNKNOWN", "404 NAME_UNKNOWN", "429 TOOMANYREQUESTS"));
  EXPECT_EQ(script.resolved + script.opened, 2 + mirror::Lookups::kMaxUnknown);
  EXPECT_EQ(manifest(), kOld);
  EXPECT_EQ(ask(kBlob).status, 200);
}

TEST_F(RegistryMirrorTest, ClientsThatAskAtOnceShareTheBytes) {
  constexpr int kClients = 8;
  std::latch all(kClients);
  std::atomic<int> right = 0;
  std::vector<std::jthread> clients;
  for (int i = 0; i < kClients; ++i)
    clients.emplace_back([&] {
      all.arrive_and_wait();
      right += manifest() == kOld && text_of(ask(kBlob)) == kLayer ? 1 : 0;
    });
  clients.clear();
  EXPECT_EQ(right, kClients);
  EXPECT_EQ(script.resolved, 1U);
  EXPECT_EQ(script.opened, 1U);
}

TEST_F(RegistryMirrorTest, WrongBytesReachNoClientAndAreOpenedAgain) {
  script.bytes = std::make_shared<MismatchedBytes>(kLayer.size());
  EXPECT_EQ(ask(kBlob).status, 502);
  script.bytes = in_memory(kLayer);
  EXPECT_EQ(text_of(ask(kBlob)), kLayer);
}

TEST_F(RegistryMirrorTest, ClientIsAskedToRepeatAReadWhileTheOriginIsDown) {
  for (const Code code : {Code::network, Code::unreachable}) {
    script.bytes = std::make_shared<BytesOfNoServer>(Error(code, "no connection"));
    registry = open();
    const auto response = ask(kBlob);
    EXPECT_EQ(response.status, 429);
    EXPECT_EQ(field(response, "Retry-After"), "10");
  }
  script.bytes = std::make_shared<BytesOfNoServer>(timeout("no data"));
  registry = open();
  EXPECT_EQ(error(kBlob), "504 UNKNOWN");
}

TEST_F(RegistryMirrorTest, OriginIsWaitedForForThirtySeconds) {
  script.on_open = [this] { clock += seconds(29); };
  EXPECT_EQ(ask(kBlob).status, 200);
  script.on_open = [this] { clock += seconds(30); };
  EXPECT_EQ(error("/v2/library/tiny/blobs/" + name_of("x")), "504 UNKNOWN");
}

TEST_F(RegistryMirrorTest, ReadEndsWithItsClient) {
  script.bytes = std::make_shared<SilentBytes>(kLayer.size());
  has_left = [] { return true; };
  EXPECT_EQ(ask(kBlob).status, 429) << "cancelled";
}

}  // namespace
}  // namespace weightfs::registry_mirror_test
