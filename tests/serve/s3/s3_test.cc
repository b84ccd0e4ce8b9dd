// The object store without sockets: buckets, pages of keys, objects, and what clients are refused.
#include "serve/s3/s3.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/values/base64.h"
#include "fs/layout/layout.h"
#include "serve/s3/listing.h"
#include "serve/s3/xml.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/serve/api/client.h"
#include "tests/support/surroundings.h"

namespace weightfs::s3_store_test {
namespace {

using namespace test;
using api_client::field;
using api_client::text_of;
using objects::bucket_part;
using objects::page_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr Time kTime = 1'700'000'000'000'000'000;

std::string weights() { return SafetensorsBuilder().tensor("w", "F32", "2,4", std::string(32, 'w')).build(); }

Later<SourcePtr> text(const std::string& bytes) { return Later<SourcePtr>::of(in_memory(bytes)); }

// The weights, whose digest is stated, and small files, one of whose names XML and URLs escape.
TreePtr model_tree(const std::string& source, const char* other = "sub/a & b+é.txt") {
  Model model = read_model({"model.safetensors", in_memory(weights())}).value();
  model.parts.front().checksums.set(sha256(weights()));
  model.parts.push_back({"config.json", text("{}")});
  model.parts.push_back({"sub/deep/notes.txt", text("notes")});
  model.parts.push_back({other, text("other")});
  return lay_out(std::make_shared<Model>(std::move(model)), source, kTime);
}

// The texts of all elements of a name, in order.
std::vector<std::string> texts(const std::string& xml, const std::string& name) {
  std::vector<std::string> out;
  const std::string begin = "<" + name + ">", end = "</" + name + ">";
  for (size_t at = xml.find(begin); at != xml.npos; at = xml.find(begin, at + 1))
    out.push_back(xml.substr(at + begin.size(), xml.find(end, at) - at - begin.size()));
  return out;
}
std::string one(const std::string& xml, const std::string& name) {
  const auto all = texts(xml, name);
  return all.size() == 1 ? all.front() : fmt::format("{} elements", all.size());
}

// A server of a tree.
class Served {
 public:
  explicit Served(TreePtr tree, std::string token = "") : forest_(std::move(tree)), token_(std::move(token)) {}

  httpd::Response ask(const std::string& target, std::vector<httpd::Field> fields = {}, const char* method = "GET") {
    httpd::Request request;
    request.method = method;
    request.target = target;
    request.fields = std::move(fields);
    request.fields.push_back({"host", "localhost:1"});
    return site_.answer(request, {"127.0.0.1"});
  }
  std::string body(const std::string& target) { return text_of(ask(target)); }
  std::vector<std::string> keys(const std::string& target) { return texts(body(target), "Key"); }
  std::string error(const std::string& target, std::vector<httpd::Field> fields = {}, const char* method = "GET") {
    const httpd::Response response = ask(target, std::move(fields), method);
    return fmt::format("{} {}", response.status, one(text_of(response), "Code"));
  }

 private:
  httpd::SiteOptions options() {
    httpd::SiteOptions options;
    options.access.hosts = {"localhost"};
    options.access.token = token_;
    options.answer_first = [this](const httpd::Request& request, const httpd::Target& target, const httpd::Client&) {
      return store_.answer(request, target);
    };
    options.refuse_first = [this](const httpd::Refusal& refusal, const httpd::Request& request) {
      return store_.refuse(refusal, request);
    };
    options.is_public = [this](const httpd::Request& request, const httpd::Target& target) {
      return store_.is_signed(request, target);
    };
    return options;
  }

  Forest forest_;
  const std::string token_;
  objects::ObjectStore store_{forest_,
                              {[this](const httpd::Request& request, Ino ino, const std::string& name,
                                      const httpd::FileFields& more) { return site_.file(request, ino, name, more); },
                               [this](Ino ino) { return site_.entity(ino); }},
                              {{"AK", "secret"}}};
  httpd::Site site_{forest_, options()};
};

TEST(S3Names, BucketsHaveTheNamesThatS3Permits) {
  EXPECT_EQ(bucket_part("Llama_3.1-8B (Q4).gguf"), "llama-3-1-8b-q4-gguf");
  EXPECT_EQ(bucket_part("--a..b--"), "a-b");
  EXPECT_EQ(bucket_part("m"), "m-model");
  EXPECT_EQ(bucket_part("..."), "model");
  EXPECT_EQ(bucket_part(std::string(100, 'a')).size(), 63U);
  EXPECT_EQ(bucket_part(std::string(62, 'a') + " b"), std::string(62, 'a'));
}

TEST(S3Names, XmlHasNoTextThatItsReadersRefuse) {
  EXPECT_TRUE(objects::is_xml_text("a\tb\n\xC3\xA9"));
  for (const char* const text : {"\x01", "\x7F", "\xFF", "\xEF\xBF\xBE"})
    EXPECT_FALSE(objects::is_xml_text(text)) << text;
  EXPECT_EQ(objects::xml_text("<a href=\"'&'\">\r\x01"),
            "&lt;a href=&quot;&apos;&amp;&apos;&quot;&gt;&#13;\xEF\xBF\xBD");
}

objects::SortedPaths paths_in(const std::vector<hub::RepositoryFile>& files) {
  return {files.size(), [&files](size_t i) { return std::string_view(files[i].path); }};
}

std::vector<std::string> entries(const std::vector<hub::RepositoryFile>& files, const objects::PageQuery& query,
                                 const char* above = "") {
  std::vector<std::string> out;
  const objects::Page page = page_of(paths_in(files), above, query);
  for (const objects::PageEntry& entry : page.entries) out.push_back(entry.name + (entry.file ? "" : " *"));
  if (page.is_truncated) out.emplace_back("...");
  return out;
}

TEST(S3Pages, KeysAreGroupedAtTheDelimiter) {
  const std::vector<hub::RepositoryFile> files = {{"a", ""}, {"b/c", ""}, {"b/d/e", ""}, {"b0", ""}};
  EXPECT_THAT(entries(files, {}), ElementsAre("a", "b/c", "b/d/e", "b0"));
  EXPECT_THAT(entries(files, {.delimiter = "/"}), ElementsAre("a", "b/ *", "b0"));
  EXPECT_THAT(entries(files, {.prefix = "b/", .delimiter = "/"}), ElementsAre("b/c", "b/d/ *"));
  EXPECT_THAT(entries(files, {.prefix = "b"}), ElementsAre("b/c", "b/d/e", "b0"));
  EXPECT_THAT(entries(files, {.prefix = "c"}), IsEmpty());
}

TEST(S3Pages, EachEntryIsInOnePage) {
  const std::vector<hub::RepositoryFile> files = {{"a", ""}, {"b/c", ""}, {"b/d", ""}, {"b0", ""}, {"c", ""}};
  for (const char* const delimiter : {"", "/"}) {
    objects::PageQuery query{.delimiter = delimiter};
    const auto all = entries(files, query);
    query.most = 1;
    std::vector<std::string> found;
    for (;;) {
      const objects::Page page = page_of(paths_in(files), "", query);
      ASSERT_EQ(page.entries.size(), 1U);
      found.push_back(page.entries[0].name + (page.entries[0].file ? "" : " *"));
      if (!page.is_truncated) break;
      query.after = page.entries[0].name;
    }
    EXPECT_EQ(found, all);
  }
  EXPECT_THAT(entries(files, {.delimiter = "/", .most = 3}), ElementsAre("a", "b/ *", "b0", "..."));
  EXPECT_THAT(entries(files, {.most = 0}), IsEmpty());
}

TEST(S3Pages, BeginBehindAKeyThatNeedNotExist) {
  const std::vector<hub::RepositoryFile> files = {{"b/c", ""}, {"b/d", ""}, {"e", ""}};
  EXPECT_THAT(entries(files, {.after = "a"}), ElementsAre("b/c", "b/d", "e"));
  EXPECT_THAT(entries(files, {.after = "b/c"}), ElementsAre("b/d", "e"));
  EXPECT_THAT(entries(files, {.delimiter = "/", .after = "b/c"}), ElementsAre("b/ *", "e"));
  EXPECT_THAT(entries(files, {.delimiter = "/", .after = "b/"}), ElementsAre("e"));
  EXPECT_THAT(entries(files, {.prefix = "b/", .after = "c"}), IsEmpty());
  EXPECT_THAT(entries(files, {.prefix = "views/", .after = "a"}, "views/"),
              ElementsAre("views/b/c", "views/b/d", "views/e"));
  EXPECT_THAT(entries(files, {.prefix = "views/", .after = "views/b/c"}, "views/"),
              ElementsAre("views/b/d", "views/e"));
  EXPECT_THAT(entries(files, {.prefix = "views/", .after = "w"}, "views/"), IsEmpty());
}

TEST(S3Pages, KeysThatXmlCannotHaveNeedAnEncoding) {
  const std::vector<hub::RepositoryFile> files = {{"a", ""}, {"b\x01", ""}, {std::string(1'025, 'c'), ""}};
  EXPECT_THAT(entries(files, {}), ElementsAre("a"));
  EXPECT_THAT(entries(files, {.names = objects::Names::escaped}), ElementsAre("a", "b\x01"));
}

TEST(S3, OneModelIsOneBucket) {
  Served served(model_tree("/models/Demo.gguf"));
  for (const char* const target : {"/.s3", "/.s3/"})
    EXPECT_THAT(texts(served.body(target), "Name"), ElementsAre("demo-gguf")) << target;
  EXPECT_EQ(one(served.body("/.s3/"), "CreationDate"), "2023-11-14T22:13:20.000Z");
  const httpd::Response head = served.ask("/.s3/demo-gguf", {}, "HEAD");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(field(head, "x-amz-bucket-region"), "us-east-1");
  EXPECT_NE(field(head, "x-amz-request-id"), "");
  EXPECT_THAT(served.body("/.s3/demo-gguf?location"), HasSubstr("<LocationConstraint xmlns="));
  EXPECT_EQ(served.error("/.s3/other"), "404 NoSuchBucket");
  EXPECT_EQ(served.error("/.s3/demo-gguf?acl"), "501 NotImplemented");
  EXPECT_EQ(served.error("/.s3/demo-gguf?versions"), "501 NotImplemented");
}

TEST(S3, ListingHasTheFilesOfTheModel) {
  Served served(model_tree("/m.x"));
  const std::string xml = served.body("/.s3/m-x?list-type=2");
  EXPECT_THAT(texts(xml, "Key"),
              ElementsAre("config.json", "model.safetensors", "sub/a &amp; b+é.txt", "sub/deep/notes.txt"));
  EXPECT_EQ(one(xml, "KeyCount"), "4");
  EXPECT_EQ(one(xml, "IsTruncated"), "false");
  EXPECT_EQ(texts(xml, "ETag")[1], "&quot;" + sha256(weights()).hex() + "-1&quot;");
  EXPECT_EQ(texts(xml, "Size")[1], std::to_string(weights().size()));
  EXPECT_THAT(served.keys("/.s3/m-x/?encoding-type=url&prefix=sub%2Fa"), ElementsAre("sub/a%20%26%20b%2B%C3%A9.txt"));
  const std::string groups = served.body("/.s3/m-x?list-type=2&delimiter=/&prefix=sub/");
  EXPECT_THAT(texts(groups, "Key"), ElementsAre("sub/a &amp; b+é.txt"));
  EXPECT_THAT(groups, HasSubstr("<CommonPrefixes><Prefix>sub/deep/</Prefix></CommonPrefixes>"));
}

TEST(S3, PagesOfBothVersions) {
  Served served(model_tree("/m.x"));
  const std::string first = served.body("/.s3/m-x?list-type=2&max-keys=3");
  EXPECT_EQ(one(first, "IsTruncated"), "true");
  const std::string token = httpd::url_segment(one(first, "NextContinuationToken"));
  EXPECT_THAT(served.keys("/.s3/m-x?list-type=2&continuation-token=" + token), ElementsAre("sub/deep/notes.txt"));
  EXPECT_THAT(served.keys("/.s3/m-x?list-type=2&start-after=model.safetensors&max-keys=1"),
              ElementsAre("sub/a &amp; b+é.txt"));
  const std::string old = served.body("/.s3/m-x?max-keys=2");
  EXPECT_EQ(one(old, "NextMarker"), "model.safetensors");
  EXPECT_THAT(served.keys("/.s3/m-x?max-keys=1&marker=model.safetensors"), ElementsAre("sub/a &amp; b+é.txt"));
  EXPECT_EQ(one(served.body("/.s3/m-x?max-keys=5000"), "MaxKeys"), "1000");
  for (const std::string& wrong :
       {std::string("max-keys=x"), std::string("max-keys=-1"), std::string("encoding-type=base64"),
        std::string("list-type=2&continuation-token=%00"), "prefix=" + std::string(1'025, 'p')})
    EXPECT_EQ(served.error("/.s3/m-x?" + wrong), "400 InvalidArgument") << wrong;
}

TEST(S3, CompleteViewsAreListedWhereTheyAreAskedFor) {
  Served served(model_tree("/m.x"));
  EXPECT_THAT(served.keys("/.s3/m-x?prefix=views/"), ElementsAre("views/model.gguf", "views/model.safetensors"));
  EXPECT_EQ(text_of(served.ask("/.s3/m-x/views/model.gguf")).substr(0, 4), "GGUF");
  Served own(model_tree("/m.x", "views/own.txt"));
  EXPECT_THAT(own.keys("/.s3/m-x?prefix=views/"), ElementsAre("views/own.txt")) << "files of the model come first";
  EXPECT_EQ(own.error("/.s3/m-x/views/model.gguf"), "404 NoSuchKey");
}

TEST(S3, ObjectsHaveTheFieldsOfS3) {
  Served served(model_tree("/m.x"));
  const std::string digest = sha256(weights()).hex(), tag = "\"" + digest + "-1\"";
  const httpd::Response head = served.ask("/.s3/m-x/model.safetensors", {{"x-amz-checksum-mode", "ENABLED"}}, "HEAD");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.length(), weights().size());
  EXPECT_EQ(field(head, "ETag"), tag);
  EXPECT_EQ(field(head, "Accept-Ranges"), "bytes");
  EXPECT_EQ(field(head, "Last-Modified"), "Tue, 14 Nov 2023 22:13:20 GMT");
  EXPECT_NE(field(head, "x-amz-request-id"), "");
  const Digest bytes = sha256(weights());
  EXPECT_EQ(field(head, "x-amz-checksum-sha256"),
            base64({reinterpret_cast<const char*>(bytes.bytes.data()), bytes.bytes.size()}));
  const httpd::Response part = served.ask(
      "/.s3/m-x/model.safetensors", {{"range", "bytes=8-9"}, {"if-match", tag}, {"x-amz-checksum-mode", "ENABLED"}});
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(text_of(part), weights().substr(8, 2));
  EXPECT_EQ(field(part, "x-amz-checksum-sha256"), "") << "it is that of the whole object";
  EXPECT_EQ(field(served.ask("/.s3/m-x/model.safetensors"), "x-amz-checksum-sha256"), "");
  EXPECT_EQ(served.body("/.s3/m-x/sub/a%20%26%20b%2B%C3%A9.txt?x-id=GetObject&partNumber=1"), "other");
  const httpd::Response typed = served.ask("/.s3/m-x/config.json?response-content-type=text%2Fhtml");
  EXPECT_EQ(field(typed, "Content-Type"), "application/json") << "it would run in a browser";
  const std::string small = field(served.ask("/.s3/m-x/config.json"), "ETag");
  EXPECT_THAT(small, testing::EndsWith("-1\"")) << "not of the form of an MD5";
  EXPECT_EQ(served.ask("/.s3/m-x/config.json", {{"if-none-match", small}}).status, 304);
}

TEST(S3, RefusalsAreXml) {
  Served served(model_tree("/m.x"));
  const std::string object = "/.s3/m-x/config.json";
  EXPECT_EQ(served.error("/.s3/m-x/none"), "404 NoSuchKey");
  EXPECT_EQ(served.error("/.s3/m-x/config.json/"), "404 NoSuchKey");
  EXPECT_EQ(served.error("/.s3/m-x//config.json"), "404 NoSuchKey");
  EXPECT_EQ(served.error("/.s3/m-x/sub/../config.json"), "404 NoSuchKey");
  for (const char* const end : {"/.", "/..", "/sub/..", "/sub/.", "/config.json/.."})
    EXPECT_EQ(served.error(std::string("/.s3/m-x") + end), "404 NoSuchKey") << end << ": not a listing";
  EXPECT_EQ(served.error("/.s3/m-x/%2e%2e/config.json"), "400 InvalidRequest");
  EXPECT_EQ(served.error("/.s3/m-x/files/config.json"), "404 NoSuchKey") << "a path of the tree";
  EXPECT_EQ(served.error(object, {{"if-match", "\"x\""}}), "412 PreconditionFailed");
  const httpd::Response range = served.ask(object, {{"range", "bytes=2-"}});
  EXPECT_EQ(range.status, 416);
  EXPECT_EQ(field(range, "Content-Range"), "bytes */2");
  EXPECT_EQ(one(text_of(range), "Code"), "InvalidRange");
  for (const char* const method : {"PUT", "DELETE", "POST"})
    EXPECT_EQ(served.error(object, {}, method), "405 MethodNotAllowed") << method;
  EXPECT_EQ(served.error(object + "?versionId=v1"), "404 NoSuchVersion");
  EXPECT_EQ(served.error(object + "?tagging"), "501 NotImplemented");
  EXPECT_EQ(served.error(object + "?uploadId=1"), "501 NotImplemented") << "a list of parts";
  const std::string text = served.body("/.s3/m-x/%3Cscript%3E");
  EXPECT_THAT(text, AllOf(HasSubstr("<RequestId>"), Not(HasSubstr("<script>"))));
  EXPECT_EQ(served.ask("/none").status, 404);
  EXPECT_THAT(served.body("/none"), Not(HasSubstr("<Error>"))) << "not below /.s3/";
}

TEST(S3, TokenOrSignatureIsNeeded) {
  Served served(model_tree("/m.x"), "token");
  EXPECT_EQ(served.error("/.s3/"), "403 AccessDenied");
  EXPECT_EQ(served.error("/.s3/m-x/config.json"), "403 AccessDenied");
  EXPECT_EQ(served.ask("/.s3/", {{"authorization", "Bearer token"}}).status, 200);
  EXPECT_EQ(served.error("/.s3/", {{"authorization", "Bearer other"}}), "403 AccessDenied");
  EXPECT_EQ(served.error("/.s3/", {{"authorization", "AWS4-HMAC-SHA256 x"}}), "400 AuthorizationHeaderMalformed");
  EXPECT_EQ(served.ask("/metadata.json").status, 401);
}

// A directory of models: equal names, a directory in it, and what cannot be read.
TEST(S3, ModelsOfADirectoryAreBuckets) {
  TreeBuilder below(nullptr);
  below.add_tree("b.gguf", kTime, Later<TreePtr>::of(model_tree("/models/more/b.gguf")));
  TreeBuilder root(nullptr);
  root.add_tree("A b", kTime, Later<TreePtr>::of(model_tree("/models/A b", "first.txt")));
  root.add_tree("a-b", kTime, Later<TreePtr>::of(model_tree("/models/a-b", "second.txt")));
  root.add_tree("broken.gguf", kTime,
                Later<TreePtr>([]() -> Result<TreePtr> { return failure(Code::corrupt, "broken: no header"); }));
  root.add_tree("more", kTime, Later<TreePtr>::of(std::move(below).freeze()));
  Served served(std::move(root).freeze());
  EXPECT_THAT(texts(served.body("/.s3/"), "Name"), ElementsAre("a-b", "a-b-2", "broken-gguf", "more.b-gguf"));
  EXPECT_EQ(served.body("/.s3/a-b/first.txt"), "other");
  EXPECT_EQ(served.body("/.s3/a-b-2/second.txt"), "other");
  EXPECT_EQ(served.body("/.s3/more.b-gguf/config.json"), "{}");
  EXPECT_EQ(served.error("/.s3/more"), "404 NoSuchBucket") << "it is a directory of models";
  EXPECT_EQ(served.error("/.s3/a-b.x"), "404 NoSuchBucket");
  EXPECT_EQ(served.error("/.s3/broken-gguf"), "502 InternalError");
}

}  // namespace
}  // namespace weightfs::s3_store_test
