// What a site answers, without sockets: the bytes of every format, headers, listings, errors.
#include "fs/http/site.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <variant>

#include "base/values/base64.h"
#include "fs/http/protocol/target.h"
#include "fs/layout/layout.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/builders/zip_builder.h"
#include "tests/support/small_models.h"
#include "tests/support/surroundings.h"

namespace weightfs::site_test {
namespace {

using namespace httpd;
using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Request get(const std::string& target, std::vector<Field> fields = {}) {
  Request request;
  request.method = "GET";
  request.target = target;
  request.fields = std::move(fields);
  request.fields.push_back({"host", "localhost"});
  return request;
}

SiteOptions local() {
  SiteOptions options;
  options.access.hosts = {"localhost"};
  return options;
}

std::string field(const Response& response, const std::string& name) {
  const auto found = std::ranges::find(response.fields, name, &Field::name);
  return found == response.fields.end() ? "" : found->value;
}

// The body as it is sent.
std::string body(const Response& response) {
  std::string out;
  for (const BodyPart& part : response.body) {
    if (const auto* text = std::get_if<std::string>(&part)) out += *text;
    if (const auto* shared = std::get_if<SharedText>(&part)) out += *shared->text;
    if (const auto* generator = std::get_if<Generator>(&part))
      for (std::string piece = (*generator)().value(); !piece.empty(); piece = (*generator)().value()) out += piece;
    if (const auto* file = std::get_if<FilePart>(&part)) {
      OpenFile::Read read(*file->file, file->range.from, file->range.to - file->range.from, Pages::kept);
      const auto bytes = read.bytes().value();
      out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  return out;
}

TreePtr tree_of(const Container& container, const Format* format = nullptr) {
  return lay_out(std::make_shared<Model>(read_model(container, format).value()), "m", 1'700'000'000'000'000'000);
}

class SiteTest : public testing::Test {
 protected:
  static TreePtr model_tree() {
    SafetensorsBuilder builder;
    builder.tensor("w", "U8", "11", "hello world").tensor("a:b", "U8", "1", "x").tensor("x&<y", "U8", "1", "y");
    return tree_of({"m.safetensors", in_memory(builder.build())});
  }
  Response answer(const Request& request, const Client& client = {"127.0.0.1"}) {
    return site_.answer(request, client);
  }

  Forest forest_{model_tree()};
  Site site_{forest_, local()};
};

TEST_F(SiteTest, FileHasItsBytesAndValidators) {
  const Response whole = answer(get("/tensors/w"));
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(body(whole), "hello world");
  EXPECT_EQ(field(whole, "Last-Modified"), "Tue, 14 Nov 2023 22:13:20 GMT");
  EXPECT_EQ(field(whole, "Accept-Ranges"), "bytes");
  EXPECT_EQ(field(whole, "Content-Type"), "application/octet-stream");
  EXPECT_EQ(field(whole, "X-Content-Type-Options"), "nosniff");
  EXPECT_THAT(field(whole, "Content-Security-Policy"), StartsWith("sandbox"));
  const std::string tag = field(whole, "ETag");
  EXPECT_EQ(tag.size(), 34U);
  EXPECT_EQ(field(answer(get("/tensors/w")), "ETag"), tag);
  EXPECT_EQ(field(answer(get("/npy/w.npy")), "ETag") == tag, false) << "other bytes";
  const Response same = answer(get("/tensors/w", {{"if-none-match", tag}}));
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(field(same, "ETag"), tag);
  EXPECT_TRUE(same.body.empty());
  EXPECT_EQ(answer(get("/tensors/w", {{"if-match", "\"x\""}})).status, 412);
}

TEST_F(SiteTest, ModelThatIsReplacedWhileItIsAskedForIsAnsweredFromTheNewOne) {
  const auto other = [] {
    return tree_of({"m.safetensors", in_memory(SafetensorsBuilder().tensor("w", "U8", "3", "new").build())});
  };
  int replaced = 0;
  SiteOptions options = local();
  options.on_used = [&] {
    if (replaced++ == 0) forest_.replace_root(other());
  };
  const Site site(forest_, options);
  const Response response = site.answer(get("/tensors/w"), {"127.0.0.1"});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(body(response), "new");
  EXPECT_EQ(replaced, 2);
  options.on_used = [&] {
    ++replaced;
    forest_.replace_root(other());
  };
  replaced = 0;
  const Response always = Site(forest_, options).answer(get("/tensors/w"), {"127.0.0.1"});
  EXPECT_EQ(always.status, 503) << "replaced each time";
  EXPECT_EQ(field(always, "Retry-After"), "10");
  EXPECT_EQ(field(always, "Weightfs-Error"), "changed");
  EXPECT_EQ(replaced, 4);
}

TEST_F(SiteTest, ModelThatIsReplacedWhileItIsEnteredIsAnsweredFromTheNewOne) {
  const auto directory_of = [](Later<TreePtr> model) {
    TreeBuilder root(nullptr);
    root.add_tree("m", 1'700'000'000'000'000'000, std::move(model));
    return std::move(root).freeze();
  };
  const TreePtr other =
      tree_of({"m.safetensors", in_memory(SafetensorsBuilder().tensor("w", "U8", "3", "new").build())});
  int entered = 0;
  forest_.replace_root(directory_of(Later<TreePtr>([&]() -> Result<TreePtr> {
    ++entered;
    forest_.replace_root(directory_of(Later<TreePtr>::of(other)));
    return model_tree();
  })));
  const Response response = answer(get("/m/tensors/w"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(body(response), "new");
  EXPECT_EQ(entered, 1);
}

TEST_F(SiteTest, RangesAreParts) {
  const Response one = answer(get("/tensors/w", {{"range", "bytes=6-"}}));
  EXPECT_EQ(one.status, 206);
  EXPECT_EQ(body(one), "world");
  EXPECT_EQ(field(one, "Content-Range"), "bytes 6-10/11");
  const Response none = answer(get("/tensors/w", {{"range", "bytes=11-"}}));
  EXPECT_EQ(none.status, 416);
  EXPECT_EQ(field(none, "Content-Range"), "bytes */11");
  const Response two = answer(get("/tensors/w", {{"range", "bytes=6-7,0-1"}}));
  EXPECT_EQ(two.status, 206);
  const std::string type = field(two, "Content-Type");
  ASSERT_THAT(type, StartsWith("multipart/byteranges; boundary="));
  const std::string boundary = "\r\n--" + type.substr(type.find('=') + 1);
  const std::string part = "\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes ";
  EXPECT_EQ(body(two),
            boundary + part + "6-7/11\r\n\r\nwo" + boundary + part + "0-1/11\r\n\r\nhe" + boundary + "--\r\n");
  EXPECT_EQ(two.length(), body(two).size());
}

TEST_F(SiteTest, HeadHasTheLengthOfTheBody) {
  Request request = get("/tensors/w", {{"range", "bytes=0-0"}});
  request.method = "HEAD";
  const Response response = answer(request);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.length(), 11U);
}

TEST_F(SiteTest, NamesAreDecodedOnce) {
  EXPECT_EQ(body(answer(get("/tensors/a%3Ab"))), "x");
  EXPECT_EQ(body(answer(get("/tensors/x%26%3Cy"))), "y");
  EXPECT_EQ(answer(get("/tensors%2Fw")).status, 404) << "an escaped slash separates nothing";
  EXPECT_EQ(answer(get("/tensors/%2577")).status, 404) << "decoded once";
  EXPECT_EQ(answer(get("/tensors/w/")).status, 404) << "a file is no directory";
  EXPECT_EQ(answer(get("//tensors//w")).status, 200);
  EXPECT_EQ(answer(get("/%2e%2e/w")).status, 400);
}

TEST_F(SiteTest, DirectoryWithoutSlashIsRedirectedRelatively) {
  const Response response = answer(get("/tensors?q=1"));
  EXPECT_EQ(response.status, 301);
  EXPECT_EQ(field(response, "Location"), "./tensors/?q=1");
  EXPECT_EQ(field(answer(get("//tensors")), "Location"), "./tensors/") << "not another server";
}

TEST_F(SiteTest, ListingsEscapeNames) {
  const Response response = answer(get("/tensors/"));
  const std::string html = body(response);
  EXPECT_THAT(html, HasSubstr("<a href=\"a%3Ab\">a:b</a>"));
  EXPECT_THAT(html, HasSubstr("<a href=\"x%26%3Cy\">x&amp;&lt;y</a>"));
  EXPECT_THAT(html, Not(HasSubstr("<y")));
  EXPECT_EQ(field(response, "Vary"), "Accept");
  EXPECT_EQ(body(answer(get("/tensors/", {{"accept", "text/plain"}}))), "a:b\nw\nx&<y\n");
  EXPECT_EQ(
      body(answer(get("/tensors/", {{"accept", "application/json"}}))),
      "[\n"
      "{\"name\": \"a:b\", \"size\": 1, \"mod_time\": \"2023-11-14T22:13:20Z\", \"url\": \"./a%3Ab\", \"mode\": 292, "
      "\"is_dir\": false, \"is_symlink\": false},\n"
      "{\"name\": \"w\", \"size\": 11, \"mod_time\": \"2023-11-14T22:13:20Z\", \"url\": \"./w\", \"mode\": 292, "
      "\"is_dir\": false, \"is_symlink\": false},\n"
      "{\"name\": \"x&<y\", \"size\": 1, \"mod_time\": \"2023-11-14T22:13:20Z\", \"url\": \"./x%26%3Cy\", \"mode\": "
      "292, "
      "\"is_dir\": false, \"is_symlink\": false}\n]\n");
}

TEST_F(SiteTest, PagesFollowEachOther) {
  const Field text{"accept", "text/plain"};
  std::string all;
  std::string target = "/tensors/?limit=1";
  for (int page = 0; page < 5; ++page) {
    const Response response = answer(get(target, {text}));
    all += body(response);
    const std::string link = field(response, "Link");
    if (link.empty()) break;
    target = "/tensors/" + link.substr(1, link.find('>') - 1);
  }
  EXPECT_EQ(all, "a:b\nw\nx&<y\n");
  EXPECT_EQ(body(answer(get("/tensors/?after=b", {text}))), "w\nx&<y\n") << "a name that was removed meanwhile";
  for (const char* limit : {"0", "x", "-1", ""})
    EXPECT_EQ(answer(get(fmt::format("/tensors/?limit={}", limit))).status, 400) << limit;
}

// The trees of npy/ are sorted without the suffix: "a" before "a-b", although "a-b.npy" is before "a.npy".
TEST_F(SiteTest, PagesOfAViewMissNoName) {
  SafetensorsBuilder builder;
  builder.tensor("a", "U8", "1", "x").tensor("a-b", "U8", "1", "y").tensor("a0", "U8", "1", "z");
  Forest forest(tree_of({"m.safetensors", in_memory(builder.build())}));
  const Site site(forest, local());
  std::vector<std::string> names;
  std::string after;
  for (int page = 0; page < 4; ++page) {
    const std::string name = body(site.answer(get("/npy/?limit=1" + after, {{"accept", "text/plain"}}), {"127.0.0.1"}));
    if (name.empty()) break;
    names.push_back(name);
    after = "&after=" + url_segment(name.substr(0, name.size() - 1));
  }
  EXPECT_THAT(names, ElementsAre("a.npy\n", "a-b.npy\n", "a0.npy\n"));
}

TEST_F(SiteTest, SearchFindsNamesBelow) {
  const Field text{"accept", "text/plain"};
  EXPECT_EQ(body(answer(get("/?q=A%3AB", {text}))), "float32/a:b.npy\nnpy/a:b.npy\ntensors/a:b\n");
  const Response first = answer(get("/?q=a%3Ab&limit=2", {text}));
  EXPECT_EQ(body(first), "float32/a:b.npy\nnpy/a:b.npy\n");
  const std::string next = field(first, "Link").substr(1);
  EXPECT_EQ(body(answer(get("/" + next.substr(0, next.find('>')), {text}))), "tensors/a:b\n");
  EXPECT_EQ(body(answer(get("/?q=nothing", {text}))), "");
}

TEST_F(SiteTest, BodyOfARefusedRequestIsNotWaitedFor) {
  SiteOptions options = local();
  options.access.token = "secret";
  options.max_body = [](const Target&) { return size_t{10}; };
  const Site site(forest_, options);
  Request request = get("/");
  request.method = "POST";
  EXPECT_EQ(site.max_body(request), 0U);
  EXPECT_EQ(site.answer(request, {"127.0.0.1"}).status, 401);
  request.fields.push_back({"authorization", "Bearer secret"});
  EXPECT_EQ(site.max_body(request), 10U);
}

TEST_F(SiteTest, PagesOfPermittedOriginsMayPostAndReadFields) {
  SiteOptions options = local();
  options.access.origins = {"https://tool.example"};
  options.max_body = [](const Target& target) { return size_t{target.segments.empty() ? 10U : 0U}; };
  const Site site(forest_, options);
  const auto ask = [&](const char* method, const std::string& target) {
    Request request = get(target, {{"origin", "https://tool.example"}});
    request.method = method;
    return site.answer(request, {"127.0.0.1"});
  };
  EXPECT_EQ(field(ask("OPTIONS", "/"), "Access-Control-Allow-Methods"), "GET, HEAD, OPTIONS, POST");
  EXPECT_EQ(field(ask("OPTIONS", "/tensors/w"), "Access-Control-Allow-Methods"), "GET, HEAD, OPTIONS");
  EXPECT_THAT(field(ask("OPTIONS", "/"), "Access-Control-Allow-Headers"), HasSubstr("Content-Type"));
  const std::string exposed = field(ask("GET", "/tensors/w"), "Access-Control-Expose-Headers");
  for (const char* const name :
       {"ETag", "Docker-Content-Digest", "X-Error-Code", "X-Linked-Etag", "X-Linked-Size", "X-Repo-Commit"})
    EXPECT_THAT(exposed, HasSubstr(name));
}

TEST_F(SiteTest, MethodsThatChangeAreNotAllowed) {
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND"}) {
    Request request = get("/");
    request.method = method;
    const Response response = answer(request);
    EXPECT_EQ(response.status, 405) << method;
    EXPECT_EQ(field(response, "Allow"), "GET, HEAD, OPTIONS");
  }
  for (const char* method : {"get", "FOO"}) {
    Request request = get("/");
    request.method = method;
    EXPECT_EQ(answer(request).status, 501) << method;
  }
}

TEST_F(SiteTest, ActiveContentIsDownloaded) {
  ZipBuilder zip;
  for (const char* name : {"page.html", "image.SVG", "w.txt"}) zip.stored(name, "<script>");
  Forest forest(tree_of({"m.zip", in_memory(zip.build())}, format_named("zip")));
  const Site site(forest, local());
  for (const char* name : {"page.html", "image.SVG"}) {
    const Response active = site.answer(get(fmt::format("/files/{}", name)), {"127.0.0.1"});
    EXPECT_EQ(field(active, "Content-Disposition"), "attachment") << name;
    EXPECT_EQ(field(active, "Content-Type"), "application/octet-stream") << name;
  }
  EXPECT_EQ(field(site.answer(get("/files/w.txt"), {"127.0.0.1"}), "Content-Type"), "text/plain; charset=utf-8");
}

TEST_F(SiteTest, ErrorsAreTextOrJson) {
  const Response text = answer(get("/nothing"));
  EXPECT_EQ(text.status, 404);
  EXPECT_EQ(body(text), "/nothing: not found\n");
  const Response json = answer(get("/nothing", {{"accept", "application/json"}}));
  EXPECT_EQ(body(json), "{\"status\": 404, \"error\": \"/nothing: not found\"}\n");
}

// A container whose reads fail as soon as an error is set.
class FailingSource final : public Source {
 public:
  explicit FailingSource(std::string bytes) : bytes_(in_memory(std::move(bytes))) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (error) return failure(*error);
    return bytes_->read(offset, out);
  }

  std::optional<Error> error;

 private:
  SourcePtr bytes_;
};

// docs/api.md: several kinds of failure have one status, and the field names the kind.
TEST(Site, FailureOfAReadIsNamedInAField) {
  const auto source =
      std::make_shared<FailingSource>(SafetensorsBuilder().tensor("w", "U8", "11", "hello world").build());
  Forest forest(tree_of({"m.safetensors", source}));
  const Site site(forest, local());
  const auto answer = [&](const std::string& target) {
    const Response response = site.answer(get(target), {"127.0.0.1"});
    return fmt::format("{} {}", response.status, field(response, "Weightfs-Error"));
  };
  EXPECT_EQ(answer("/tensors/w"), "200 ") << "no failure";
  for (const auto& [code, expected] : std::vector<std::pair<Code, std::string>>{{Code::not_found, "404 not-found"},
                                                                                {Code::corrupt, "502 damaged"},
                                                                                {Code::unsupported, "502 unsupported"},
                                                                                {Code::forbidden, "403 forbidden"},
                                                                                {Code::mismatch, "502 mismatch"},
                                                                                {Code::resource, "503 resource"},
                                                                                {Code::network, "503 network"},
                                                                                {Code::unreachable, "502 unreachable"},
                                                                                {Code::io, "500 io"},
                                                                                {Code::stale, "503 changed"}}) {
    source->error = Error(code, "a sentence");
    EXPECT_EQ(answer("/tensors/w"), expected);
    EXPECT_EQ(answer("/npy/w.npy"), expected);
  }
  source->error = changed_file("m.safetensors: changed").value();
  EXPECT_EQ(answer("/tensors/w"), "503 changed");
  source->error = timeout("m.safetensors: no response");
  EXPECT_EQ(answer("/tensors/w"), "504 timeout");
  EXPECT_EQ(answer("/tensors/missing"), "404 ") << "a path, which no read has";
}

TEST(Site, StatusIsForThisMachineAndTheToken) {
  TreeBuilder status(nullptr);
  status.add_dynamic_file("status.json", []() -> Result<SourcePtr> { return in_memory("{}"); });
  Forest forest(TreeBuilder(nullptr).freeze());
  forest.add_unlisted(".weightfs", std::move(status).freeze());
  SiteOptions options = local();
  const auto answer = [&](std::vector<Field> fields, const Client& client) {
    return Site(forest, options).answer(get("/.weightfs/status.json", std::move(fields)), client).status;
  };
  const Client here{"127.0.0.1"}, there{"192.0.2.1", false};
  EXPECT_EQ(answer({}, here), 200);
  EXPECT_EQ(answer({}, there), 403);
  EXPECT_EQ(answer({{"x-forwarded-for", "192.0.2.1"}}, here), 403) << "a proxy on this machine";
  options.access.token = "secret";
  EXPECT_EQ(answer({{"authorization", "Bearer secret"}}, there), 200);
  EXPECT_EQ(body(Site(forest, local()).answer(get("/"), here)).find(".weightfs"), std::string::npos);
}

// Every path of every format has the bytes that the forest has.
class SiteOfEveryFormat : public testing::TestWithParam<SmallModel> {};

TEST_P(SiteOfEveryFormat, HasTheBytesOfTheTree) {
  Forest forest(tree_of(container_of(GetParam()), GetParam().detected ? nullptr : format_named(GetParam().format)));
  const Site site(forest, local());
  size_t files = 0;
  for (const std::string& path : GetParam().tree) {
    if (path.ends_with('/') || path.ends_with('!') || path.find(" -> ") != path.npos) continue;
    std::string target;
    for (size_t begin = 0; begin < path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      target += "/" + url_segment(path.substr(begin, end - begin));
      begin = end + 1;
    }
    const Ino ino = forest.resolve(path, Forest::FinalLink::followed).value();
    const auto source = forest.open(ino);
    const Response response = site.answer(get(target), {"127.0.0.1"});
    if (!source) {
      EXPECT_GE(response.status, 500) << path;
      continue;
    }
    const auto bytes = read_text(**source, 0, (*source)->size());
    ASSERT_EQ(response.status, bytes ? 200 : 502) << path << ": " << body(response);
    if (!bytes) continue;
    EXPECT_EQ(response.length(), bytes->size()) << path;
    EXPECT_EQ(body(response), *bytes) << path;
    ++files;
  }
  EXPECT_GT(files, 2U);
}

INSTANTIATE_TEST_SUITE_P(Small, SiteOfEveryFormat, testing::ValuesIn(small_models()),
                         [](const auto& each) { return std::string(each.param.title); });

}  // namespace
}  // namespace weightfs::site_test
