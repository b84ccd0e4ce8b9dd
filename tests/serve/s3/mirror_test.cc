// A mirror of an object store over a scripted origin, without sockets: what is requested, what is remembered, and what
// clients get.
#include "serve/s3/mirror.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <map>
#include <set>
#include <thread>

#include "fs/layout/layout.h"
#include "fs/tree/tree.h"
#include "serve/s3/s3.h"
#include "tests/serve/api/client.h"

namespace weightfs::s3_mirror_test {
namespace {

using api_client::field;
using api_client::text_of;
using objects::MirroredObject;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Time kModified = 1'700'000'000'000'000'000;
const std::string kOld = "the first bytes", kNew = "other bytes";

// What a test changes is not read meanwhile, but for the counters.
struct StoreScript {
  std::map<std::string, std::string> objects = {
      {"m/a.gguf", kOld}, {"m/sub/b & c.txt", "b"}, {"m/sub/d.txt", "d"}, {"n", "n"}};
  std::string etag = "\"etag-{}\"";  // of each object, from its bytes
  std::optional<Error> error = {};
  std::atomic<size_t> found = 0, opened = 0, listed = 0;
};

// The patterns are `models/m*` and `empty`.
class ScriptedStore final : public objects::MirrorOrigin {
 public:
  explicit ScriptedStore(StoreScript& script) : script_(script) {}
  bool is_bucket(const std::string& bucket) const override { return bucket == "models" || bucket == "empty"; }
  bool is_permitted(const std::string& bucket, const std::string& key) const override {
    return bucket == "empty" || (bucket == "models" && key.starts_with("m") && key.find("..") == key.npos);
  }
  bool may_list(const std::string& bucket, const std::string& prefix) const override {
    return bucket == "empty" || (bucket == "models" && prefix.starts_with("m"));
  }
  Result<FoundObject> find(const std::string& bucket, const std::string& key) override {
    ++script_.found;
    TRY_VOID(check(bucket));
    const auto found = script_.objects.find(key);
    if (found != script_.objects.end()) return FoundObject{object(*found), in_memory(found->second)};
    Error missing(Code::not_found, "no such object");
    missing.name = objects::kNoObject.data();
    return failure(std::move(missing));
  }
  Result<SourcePtr> open(const std::string&, const MirroredObject& object) override {
    ++script_.opened;
    return in_memory(script_.objects.at(object.key));
  }
  Result<FoundList> list(const std::string& bucket, const std::string& prefix) override {
    ++script_.listed;
    TRY_VOID(check(bucket));
    FoundList out;
    for (const auto& each : script_.objects)
      if (each.first.starts_with(prefix)) out.objects.insert(out.objects.begin(), object(each));
    return out;
  }

 private:
  MirroredObject object(const std::pair<const std::string, std::string>& stored) const {
    return {stored.first, stored.second.size(), kModified,
            fmt::format(fmt::runtime(script_.etag), stored.second.size())};
  }
  Result<void> check(const std::string& bucket) const {
    if (script_.error) return failure(*script_.error);
    if (bucket == "empty") return failure(Code::not_found, "no such bucket");
    return {};
  }

  StoreScript& script_;
};

// The texts of all elements of a name, in order.
std::vector<std::string> elements_in(const std::string& xml, const std::string& name) {
  std::vector<std::string> out;
  const std::string begin = "<" + name + ">";
  for (size_t at = xml.find(begin); at != xml.npos; at = xml.find(begin, at + 1))
    out.push_back(xml.substr(at + begin.size(), xml.find("</", at) - at - begin.size()));
  return out;
}

class S3MirrorTest : public testing::Test {
 protected:
  httpd::Response ask(const std::string& target, std::vector<httpd::Field> fields = {}, const char* method = "GET") {
    httpd::Request request;
    request.method = method;
    request.target = target;
    request.fields = std::move(fields);
    request.fields.push_back({"host", "localhost:1"});
    return site.answer(request, {"127.0.0.1"});
  }
  std::string body(const std::string& target) { return text_of(ask(target)); }
  std::string error(const std::string& target) {
    const httpd::Response response = ask(target);
    const auto codes = elements_in(text_of(response), "Code");
    return fmt::format("{} {}", response.status, codes.empty() ? "" : codes.front());
  }

  mirror::Rules rules() {
    mirror::Rules rules;
    rules.log = [this](const std::string& line) { lines.push_back(line); };
    rules.now = [this] { return std::chrono::steady_clock::time_point(clock); };
    return rules;
  }
  httpd::SiteOptions options() {
    httpd::SiteOptions options;
    options.access.hosts = {"localhost"};
    options.answer_first = [this](const httpd::Request& request, const httpd::Target& target,
                                  const httpd::Client& client) {
      return store.answer(request, target, client.has_left);
    };
    options.refuse_first = [this](const httpd::Refusal& refusal, const httpd::Request& request) {
      return store.refuse(refusal, request);
    };
    return options;
  }

  seconds clock{1'000};
  StoreScript script;
  std::vector<std::string> lines;
  Forest forest{TreeBuilder(nullptr).freeze()};
  std::shared_ptr<objects::Mirror> mirror =
      std::make_shared<objects::Mirror>(std::make_unique<ScriptedStore>(script), rules());
  objects::ObjectStore store{
      forest,
      {},
      {},
      {mirror, [this](const httpd::Request& request, SourcePtr bytes, const std::string& name,
                      const httpd::FileFields& more) { return site.source(request, std::move(bytes), name, more); }}};
  httpd::Site site{forest, options()};
};

const std::string kObject = "/.s3/models/m/a.gguf";

TEST_F(S3MirrorTest, ObjectsAreThoseOfTheOrigin) {
  const auto whole = ask(kObject);
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(text_of(whole), kOld);
  EXPECT_EQ(field(whole, "ETag"), fmt::format("\"etag-{}\"", kOld.size())) << "of the origin, as it is";
  EXPECT_EQ(field(whole, "Last-Modified"), "Tue, 14 Nov 2023 22:13:20 GMT");
  const auto head = ask(kObject, {}, "HEAD");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.length(), kOld.size());
  const auto part = ask(kObject, {{"range", "bytes=4-8"}, {"if-match", field(whole, "ETag")}});
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(text_of(part), kOld.substr(4, 5));
  EXPECT_EQ(error(kObject + "?versionId=v1"), "404 NoSuchVersion");
  const auto behind = ask(kObject, {{"range", "bytes=1000-"}});
  EXPECT_EQ(behind.status, 416);
  EXPECT_EQ(field(behind, "Content-Range"), fmt::format("bytes */{}", kOld.size()));
  EXPECT_EQ(script.found, 1U);
  EXPECT_EQ(script.opened, 0U) << "the bytes are those that were found";
}

TEST_F(S3MirrorTest, ListsAreMadeOfTheValuesOfTheOrigin) {
  const std::string xml = body("/.s3/models?list-type=2&prefix=m/");
  EXPECT_THAT(elements_in(xml, "Key"), ElementsAre("m/a.gguf", "m/sub/b &amp; c.txt", "m/sub/d.txt"));
  EXPECT_THAT(elements_in(xml, "Size"), ElementsAre(std::to_string(kOld.size()), "1", "1"));
  EXPECT_EQ(elements_in(xml, "ETag").front(), fmt::format("&quot;etag-{}&quot;", kOld.size()));
  EXPECT_EQ(elements_in(xml, "LastModified").front(), "2023-11-14T22:13:20.000Z");
  const std::string groups = body("/.s3/models?delimiter=/&prefix=m/");
  EXPECT_THAT(elements_in(groups, "Key"), ElementsAre("m/a.gguf"));
  EXPECT_THAT(groups, HasSubstr("<CommonPrefixes><Prefix>m/sub/</Prefix></CommonPrefixes>"));
  const std::string first = body("/.s3/models?prefix=m/&max-keys=1");
  EXPECT_THAT(elements_in(first, "NextMarker"), ElementsAre("m/a.gguf"));
  EXPECT_THAT(elements_in(body("/.s3/models?prefix=m/&max-keys=1&marker=m/a.gguf"), "Key"),
              ElementsAre("m/sub/b &amp; c.txt"));
  EXPECT_EQ(script.listed, 1U) << "the pages are those of one list";
  const std::string none = body("/.s3/models?prefix=m/none/");
  EXPECT_THAT(elements_in(none, "Key"), IsEmpty());
  EXPECT_THAT(elements_in(none, "IsTruncated"), ElementsAre("false"));
}

TEST_F(S3MirrorTest, NameThatIsNotPermittedIsNotRequested) {
  for (const char* const target :
       {"/.s3/models/n", "/.s3/models/m/../n", "/.s3/models/m/%2e%2e/n", "/.s3/models/m//a", "/.s3/models/m%2f..%2fn"})
    EXPECT_THAT(error(target), testing::AnyOf("404 NoSuchKey", "400 InvalidRequest")) << target;
  EXPECT_EQ(error("/.s3/other/m/a.gguf"), "404 NoSuchBucket");
  EXPECT_EQ(error("/.s3/other?prefix=m"), "404 NoSuchBucket");
  for (const char* const query : {"", "?prefix=", "?list-type=2&prefix=n", "?delimiter=/"})
    EXPECT_EQ(error(std::string("/.s3/models") + query), "403 AccessDenied") << query;
  EXPECT_EQ(error("/.s3/models?acl&prefix=m"), "501 NotImplemented");
  EXPECT_EQ(ask("/.s3/models", {}, "HEAD").status, 200);
  EXPECT_EQ(script.found + script.listed, 0U);
}

TEST_F(S3MirrorTest, ReplacedObjectIsSeenAfterTheTtl) {
  EXPECT_EQ(body(kObject), kOld);
  EXPECT_THAT(elements_in(body("/.s3/models?prefix=m/a"), "Key"), ElementsAre("m/a.gguf"));
  script.objects["m/a.gguf"] = kNew;
  script.objects["m/ab"] = "";
  clock += seconds(59);
  EXPECT_EQ(body(kObject), kOld);
  clock += seconds(1);
  const auto now = ask(kObject);
  EXPECT_EQ(text_of(now), kNew);
  EXPECT_EQ(field(now, "ETag"), fmt::format("\"etag-{}\"", kNew.size()));
  EXPECT_THAT(elements_in(body("/.s3/models?prefix=m/a"), "Key"), ElementsAre("m/a.gguf", "m/ab"));
  EXPECT_EQ(script.found, 2U);
  EXPECT_EQ(script.listed, 2U);
}

TEST_F(S3MirrorTest, LastAnswerIsServedWhileTheOriginIsDown) {
  EXPECT_EQ(body(kObject), kOld);
  const std::string listing = body("/.s3/models?prefix=m/");
  for (const Error& error : {Error(Code::network, "refused"), Error(Code::forbidden, "the keys have expired")}) {
    script.error = error;
    clock += seconds(60);
    EXPECT_EQ(body(kObject), kOld);
    EXPECT_THAT(lines.back(), HasSubstr(error.message));
    EXPECT_EQ(elements_in(body("/.s3/models?prefix=m/"), "Key"), elements_in(listing, "Key"));
  }
  EXPECT_THAT(lines.front(), HasSubstr("models/m/a.gguf: serving"));
  EXPECT_THAT(lines.front(), HasSubstr("which the origin sent 60 s ago"));
  script.error = {};
  script.objects.clear();
  clock += seconds(60);
  EXPECT_EQ(error(kObject), "404 NoSuchKey") << "it was removed";
  EXPECT_THAT(elements_in(body("/.s3/models?prefix=m/"), "Key"), IsEmpty());
}

TEST_F(S3MirrorTest, RefusalsAreThoseOfS3) {
  EXPECT_EQ(error("/.s3/models/m/none"), "404 NoSuchKey");
  EXPECT_EQ(error("/.s3/empty/x"), "404 NoSuchBucket");
  EXPECT_EQ(error("/.s3/empty"), "404 NoSuchBucket");
  for (const auto& [failed, expected] :
       std::vector<std::pair<Error, std::string>>{{Error(Code::forbidden, "denied"), "403 AccessDenied"},
                                                  {Error(Code::unreachable, "refused"), "503 SlowDown"},
                                                  {timeout("slow"), "504 InternalError"},
                                                  {Error(Code::corrupt, "no listing"), "502 InternalError"}}) {
    script.error = failed;
    const std::string target = fmt::format("/.s3/models/m/new-{}", script.found.load());
    EXPECT_EQ(error(target), expected);
    EXPECT_EQ(error(target), expected);
    EXPECT_EQ(error(fmt::format("/.s3/models?prefix=m/new-{}", script.found.load())), expected);
  }
  EXPECT_EQ(script.found, 6U) << "refusals are remembered";
  script.error = {};
  script.etag = "";
  EXPECT_EQ(error(kObject), "502 InternalError") << "versions could not be told apart";
}

TEST_F(S3MirrorTest, UnknownNamesCostABoundedNumberOfRequests) {
  EXPECT_EQ(body(kObject), kOld);
  std::set<std::string> answers;
  for (int i = 0; i < 500; ++i) {
    answers.insert(error(fmt::format("/.s3/models/m/unknown-{}", i)));
    answers.insert(error(fmt::format("/.s3/models?prefix=m/unknown-{}", i)));
  }
  EXPECT_THAT(answers, ElementsAre("200 ", "404 NoSuchKey", "503 SlowDown"));
  EXPECT_EQ(script.found, 1 + mirror::Lookups::kMaxUnknown);
  EXPECT_EQ(script.listed, mirror::Lookups::kMaxUnknown);
  EXPECT_EQ(body(kObject), kOld);
}

TEST_F(S3MirrorTest, ListsInMemoryAreBounded) {
  script.objects.clear();
  for (size_t i = 0; i <= objects::Mirror::kMaxLists; ++i) script.objects[fmt::format("m{}/x", i)] = "x";
  for (size_t i = 0; i <= objects::Mirror::kMaxLists; ++i) body(fmt::format("/.s3/models?prefix=m{}/", i));
  const size_t before = script.listed;
  EXPECT_THAT(elements_in(body("/.s3/models?prefix=m1/"), "Key"), ElementsAre("m1/x"));
  EXPECT_EQ(script.listed, before);
  EXPECT_THAT(elements_in(body("/.s3/models?prefix=m0/"), "Key"), ElementsAre("m0/x"));
  EXPECT_EQ(script.listed, before + 1) << "it was dropped, and is read again";
}

TEST_F(S3MirrorTest, ClientsThatAskAtOnceShareTheBytes) {
  constexpr int kClients = 8;
  std::latch all(kClients);
  std::atomic<int> right = 0;
  std::vector<std::jthread> clients;
  for (int i = 0; i < kClients; ++i)
    clients.emplace_back([&] {
      all.arrive_and_wait();
      right += body(kObject) == kOld && elements_in(body("/.s3/models?prefix=m/"), "Key").size() == 3 ? 1 : 0;
    });
  clients.clear();
  EXPECT_EQ(right, kClients);
  EXPECT_EQ(script.found, 1U);
  EXPECT_EQ(script.listed, 1U);
}

TEST(MirroredObjectText, VersionIsReadBack) {
  const MirroredObject object{"a b", 12, kModified, "\"x-1\""};
  const auto again = MirroredObject::parse("a b", object.version());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->version(), object.version());
  EXPECT_EQ(again->key, "a b");
  for (const char* const text : {"", "1", "x 1 \"e\"", "-1 1 \"e\"", "1 1 \"e f\""})
    EXPECT_FALSE(MirroredObject::parse("k", text)) << text;
  EXPECT_EQ((MirroredObject{"k", 1, 0, "bare"}).quoted_tag(), "\"bare\"");
}

}  // namespace
}  // namespace weightfs::s3_mirror_test
