// What the registry answers, without sockets.
#include "serve/registry/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>

#include "fs/layout/layout.h"
#include "tests/builders/gguf_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/serve/api/client.h"
#include "tests/support/surroundings.h"

namespace weightfs::registry_protocol_test {
namespace {

using namespace test;
using api_client::field;
using api_client::text_of;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const char* const kOciTypes = "application/vnd.oci.image.manifest.v1+json";

TreePtr model_tree() {
  const std::string bytes = SafetensorsBuilder().tensor("w", "F32", "2,4", std::string(32, 'w')).build();
  return lay_out(std::make_shared<Model>(read_model({"Tiny.safetensors", in_memory(bytes)}).value()),
                 "Tiny.safetensors", 1'700'000'000'000'000'000);
}

// A registry of a tree.
class Served {
 public:
  explicit Served(TreePtr tree, distribution::Readers readers = distribution::Readers::all)
      : forest_(std::move(tree)), registry_(forest_, "models/Tiny.safetensors", digests_, readers) {}

  httpd::Response ask(const std::string& target, std::vector<httpd::Field> fields = {{"accept", kOciTypes}}) {
    httpd::Request request{.method = "GET", .target = target, .fields = std::move(fields)};
    auto answered = registry_.answer(request, httpd::parse_target(target).value(), {});
    return answered ? std::move(*answered) : httpd::Response{0};
  }
  void stop_digests() { digests_.stop(); }

 private:
  Forest forest_;
  digests::FileDigests digests_;
  distribution::Registry registry_;
};

class RegistryTest : public testing::Test {
 protected:
  httpd::Response ask(const std::string& target, const std::string& accept = kOciTypes) {
    return served_.ask(target, {{"accept", accept}});
  }

  Served served_{model_tree()};
};

// A model with a published manifest and other blobs.
TreePtr published_tree(const std::string& manifest, const std::string& blob) {
  const std::string bytes = SafetensorsBuilder().tensor("w", "F32", "2,4", std::string(32, 'w')).build();
  Model model = read_model({"Tiny.safetensors", in_memory(bytes)}).value();
  const auto open = [manifest, blob](const Digest& digest) -> Result<SourcePtr> {
    if (digest == sha256(manifest)) return in_memory(manifest);
    if (digest == sha256(blob)) return in_memory(blob);
    return failure(Code::not_found, "no such blob");
  };
  model.published = std::make_shared<Published>(Published{{{sha256(manifest)}}, open});
  return lay_out(std::make_shared<Model>(std::move(model)), "Tiny.safetensors", 1'700'000'000'000'000'000);
}

std::string layer_of(const httpd::Response& manifest) {
  const std::string text = text_of(manifest);
  const size_t layers = text.find("\"layers\":");
  const size_t digest = text.find("sha256:", layers);
  return layers == text.npos || digest == text.npos ? text : text.substr(digest, 71);
}

TEST(Registry, DigestsAreComputedForATagOnly) {
  Served served(model_tree());
  const std::string bytes = SafetensorsBuilder().tensor("w", "F32", "2,4", std::string(32, 'w')).build();
  const std::string blob = "/v2/tiny/blobs/sha256:" + sha256(bytes).hex();
  EXPECT_EQ(served.ask(blob).status, 404);
  EXPECT_THAT(text_of(served.ask(blob)), HasSubstr("by its tag"));
  EXPECT_EQ(layer_of(served.ask("/v2/tiny/manifests/latest")), "sha256:" + sha256(bytes).hex());
  EXPECT_EQ(served.ask(blob).status, 200);
}

// Three files: those of one model are not requested one after the other.
TEST(Registry, DigestsOfAllFilesAreBegunAtOnce) {
  Model model =
      read_model({"a.safetensors", in_memory(SafetensorsBuilder().tensor("w", "U8", "1", "w").build())}).value();
  for (const char* const name : {"b.json", "c.json"})
    model.parts.push_back({name, Later<SourcePtr>::of(in_memory(name))});
  digests::FileDigests digests;
  const digests::Patience none;
  // The other thread may be faster, so it may succeed.
  static_cast<void>(make_manifest(model, "m", distribution::Dialect::modelpack, digests, &none));
  const digests::Patience patient{std::chrono::steady_clock::now() + std::chrono::minutes(1)};
  EXPECT_TRUE(digests.get(in_memory("another"), "d", patient).has_value()) << "behind the others";
  const auto made = make_manifest(model, "m", distribution::Dialect::modelpack, digests, nullptr);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ((*made)->blobs.size(), 4U);
  EXPECT_EQ(distribution::open_made(model, **made, sha256("c.json")).value()->size(), 6U);
  EXPECT_EQ(distribution::open_made(model, **made, sha256("d")).error().code, Code::not_found);
}

// containers/image and containerd repeat a request after 429, and not after 503.
TEST(Registry, ClientIsAskedToRepeatWhileDigestsAreNotKnown) {
  Served served(model_tree());
  served.stop_digests();
  const auto response = served.ask("/v2/tiny/manifests/latest");
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(field(response, "Retry-After"), "10");
  EXPECT_THAT(text_of(response), HasSubstr("TOOMANYREQUESTS"));
}

TEST(Registry, MadeManifestKeepsNoFileOpen) {
  digests::FileDigests digests;
  SourcePtr file = in_memory("{}");
  const std::weak_ptr<const Source> same = file;
  distribution::MadePtr made;
  {
    const std::string bytes = SafetensorsBuilder().tensor("w", "U8", "1", "w").build();
    Model model = read_model({"a.safetensors", in_memory(bytes)}).value();
    model.parts.push_back({"b.json", Later<SourcePtr>::of(std::move(file))});
    const digests::Patience patient{std::chrono::steady_clock::now() + std::chrono::minutes(1)};
    made = make_manifest(model, "m", distribution::Dialect::modelpack, digests, &patient).value();
  }
  digests.stop();
  EXPECT_TRUE(digests.has_ended(std::chrono::minutes(1)));
  EXPECT_EQ(made->blobs.size(), 3U);
  EXPECT_TRUE(same.expired());
}

// A store whose manifests are not those of Ollama: its tags "a", "b" and "c" are GGUFs.
class Store {
 public:
  Store() {
    TreeBuilder tags(nullptr);
    for (const char* const tag : {"a", "b", "c"}) {
      Model model = read_model({"m.gguf", in_memory(gguf(tag))}).value();
      model.parts.front().checksums.set(sha256(gguf(tag)));
      const auto open = [this, tag](const Digest& digest) -> Result<SourcePtr> {
        ++opened_[tag];
        if (digest == sha256(manifest(tag))) return in_memory(manifest(tag));
        return failure(Code::not_found, "no such blob");
      };
      model.published = std::make_shared<Published>(Published{{{sha256(manifest(tag))}}, open});
      tags.add_tree(tag, kTime, Later<TreePtr>::of(lay_out(std::make_shared<Model>(std::move(model)), tag, kTime)));
    }
    TreeBuilder root(nullptr);
    root.add_tree("tiny", kTime, Later<TreePtr>::of(std::move(tags).freeze()));
    served_.emplace(std::move(root).freeze());
  }
  static std::string manifest(const std::string& tag) { return R"({"layers":[],"annotations":{"x":")" + tag + "\"}}"; }
  static std::string gguf(const std::string& tag) {
    return GgufBuilder()
        .string("general.architecture", "llama")
        .string("general.name", tag)
        .tensor("w", {1}, 0, "wwww")
        .build();
  }
  httpd::Response ask(const std::string& what) {
    return served_->ask("/v2/tiny/" + what, {{"user-agent", "ollama/0.30.0"}});
  }
  int opened(const std::string& tag) { return opened_[tag]; }

 private:
  static constexpr Time kTime = 1'700'000'000'000'000'000;
  std::map<std::string, int> opened_;
  std::optional<Served> served_;
};

TEST(Registry, OllamaPullsFromAStoreOfAnotherProgram) {
  Store store;
  const std::string manifest = text_of(store.ask("manifests/b"));
  const std::string layer = sha256(Store::gguf("b")).hex();
  EXPECT_THAT(manifest, HasSubstr("application/vnd.ollama.image.model"));
  EXPECT_THAT(manifest, HasSubstr(layer));
  const std::string config = manifest.substr(manifest.find("sha256:"), 71);
  EXPECT_EQ(sha256(text_of(store.ask("manifests/sha256:" + sha256(manifest).hex()))), sha256(manifest));
  EXPECT_EQ(store.ask("blobs/" + config).status, 200);
  EXPECT_EQ(store.ask("blobs/sha256:" + layer).status, 200);
  EXPECT_EQ(store.ask("blobs/sha256:" + std::string(64, '0')).status, 404);
}

TEST(Registry, BlobIsLookedUpInTheModelThatHadIt) {
  Store store;
  const std::string blob = "blobs/sha256:" + sha256(Store::manifest("b")).hex();
  EXPECT_EQ(store.ask(blob).status, 200);
  EXPECT_EQ(store.opened("c"), 0) << "it is behind the one that has the blob";
  const int before = store.opened("a");
  EXPECT_EQ(store.ask(blob).status, 200);
  EXPECT_EQ(store.opened("a"), before);
}

// semantics 29.7
TEST(Registry, TypesOfAModelAreNotSent) {
  const std::string manifest = R"({"mediaType":"text/html","layers":[],"x":"<script>alert(1)</script>"})";
  const std::string page = R"({"mediaType":"text/html","x":"<script>alert(1)</script>"})";
  Served served(published_tree(manifest, page));
  for (const std::string& reference : {std::string("latest"), "sha256:" + sha256(manifest).hex()}) {
    const auto response = served.ask("/v2/tiny/manifests/" + reference);
    EXPECT_EQ(text_of(response), manifest);
    EXPECT_EQ(field(response, "Content-Type"), kOciTypes);
    EXPECT_THAT(field(response, "Content-Security-Policy"), HasSubstr("sandbox"));
    EXPECT_EQ(field(response, "Cross-Origin-Resource-Policy"), "same-origin");
    EXPECT_EQ(field(response, "X-Content-Type-Options"), "nosniff");
  }
  EXPECT_EQ(served.ask("/v2/tiny/manifests/sha256:" + sha256(page).hex()).status, 404);
  const auto blob = served.ask("/v2/tiny/blobs/sha256:" + sha256(page).hex());
  EXPECT_EQ(field(blob, "Content-Type"), "application/octet-stream");
  EXPECT_EQ(field(blob, "Cross-Origin-Resource-Policy"), "same-origin");
}

// RFC 9111, section 3.5
TEST(Registry, SharedCachesKeepNothingThatNeedsAToken) {
  const std::string manifest = R"({"layers":[]})", blob = "blob";
  for (const auto readers : {distribution::Readers::all, distribution::Readers::with_token}) {
    Served served(published_tree(manifest, blob), readers);
    const char* const expected = readers == distribution::Readers::all ? "public, " : "private, ";
    for (const std::string& path : {"blobs/sha256:" + sha256(blob).hex(), "manifests/sha256:" + sha256(manifest).hex()})
      EXPECT_THAT(field(served.ask("/v2/tiny/" + path), "Cache-Control"), StartsWith(expected)) << path;
  }
}

TEST_F(RegistryTest, OnlyPathsBelowV2AreAnswered) {
  EXPECT_EQ(ask("/v2/").status, 200);
  EXPECT_EQ(text_of(ask("/v2/")), "{}");
  EXPECT_EQ(ask("/files/").status, 0);
}

TEST_F(RegistryTest, ManifestIsTheSameBytesByTagAndByDigest) {
  const auto by_tag = ask("/v2/tiny/manifests/latest");
  EXPECT_EQ(by_tag.status, 200);
  EXPECT_EQ(field(by_tag, "Vary"), "Accept, User-Agent");
  EXPECT_EQ(field(by_tag, "Content-Type"), kOciTypes);
  const std::string text = text_of(by_tag), digest = field(by_tag, "Docker-Content-Digest");
  EXPECT_EQ(digest, "sha256:" + sha256(text).hex());
  EXPECT_THAT(text, HasSubstr("\"org.cncf.model.filepath\":\"Tiny.safetensors\""));
  EXPECT_THAT(text, HasSubstr("application/vnd.cncf.model.weight.v1.raw"));
  EXPECT_EQ(text_of(ask("/v2/library/tiny/manifests/" + digest)), text);
}

TEST_F(RegistryTest, ErrorsHaveTheCodesOfTheSpecification) {
  const std::string zeros(64, '0');
  EXPECT_EQ(ask("/v2/other/manifests/latest").status, 404);
  EXPECT_THAT(text_of(ask("/v2/other/manifests/latest")), HasSubstr("NAME_UNKNOWN"));
  EXPECT_THAT(text_of(ask("/v2/tiny/manifests/v9")), HasSubstr("MANIFEST_UNKNOWN"));
  EXPECT_THAT(text_of(ask("/v2/tiny/blobs/sha256:" + zeros)), HasSubstr("BLOB_UNKNOWN"));
  EXPECT_EQ(ask("/v2/tiny/blobs/sha256:12").status, 400);
  EXPECT_THAT(text_of(ask("/v2/.weightfs/manifests/latest")), HasSubstr("NAME_UNKNOWN"));
}

TEST_F(RegistryTest, OllamaGetsNoManifestOfASafetensors) {
  const auto response =
      ask("/v2/library/tiny/manifests/latest", "application/vnd.docker.distribution.manifest.v2+json");
  EXPECT_EQ(response.status, 404);
  EXPECT_THAT(text_of(response), HasSubstr("one GGUF"));
}

TEST_F(RegistryTest, TagsAreListedInPages) {
  EXPECT_EQ(text_of(ask("/v2/tiny/tags/list")), R"({"name":"tiny","tags":["latest"]})");
  EXPECT_EQ(text_of(ask("/v2/tiny/tags/list?n=0")), R"({"name":"tiny","tags":[]})");
  EXPECT_EQ(text_of(ask("/v2/tiny/tags/list?last=latest")), R"({"name":"tiny","tags":[]})");
}

TEST_F(RegistryTest, ReferrersAreAnEmptyIndex) {
  const auto response = ask("/v2/tiny/referrers/sha256:" + std::string(64, '0') + "?artifactType=a/b");
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(text_of(response), HasSubstr("\"manifests\":[]"));
  EXPECT_EQ(field(response, "OCI-Filters-Applied"), "artifactType");
}

// spec.md, "Listing Referrers": an index without an artifactType has none in its descriptor.
TEST(Registry, ReferrerHasAnArtifactTypeOnlyIfItStatesOne) {
  const std::string subject = "sha256:" + std::string(64, '1');
  const std::string begin = R"({"schemaVersion":2,"subject":{"digest":")" + subject + "\"},";
  Served index(published_tree(begin + R"("mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]})", ""));
  const std::string listed = text_of(index.ask("/v2/tiny/referrers/" + subject));
  EXPECT_THAT(listed, HasSubstr("application/vnd.oci.image.index.v1+json\",\"digest\""));
  EXPECT_THAT(listed, Not(HasSubstr("artifactType")));
  Served manifest(published_tree(begin + R"("config":{"mediaType":"a/b"},"layers":[]})", ""));
  EXPECT_THAT(text_of(manifest.ask("/v2/tiny/referrers/" + subject)), HasSubstr(R"("artifactType":"a/b")"));
}

TEST_F(RegistryTest, DigestsOfOtherAlgorithmsAreNotFound) {
  const std::string digest = "sha512:" + std::string(128, '0');
  EXPECT_EQ(ask("/v2/tiny/blobs/" + digest).status, 404);
  EXPECT_EQ(ask("/v2/tiny/manifests/" + digest).status, 404);
  EXPECT_THAT(text_of(ask("/v2/tiny/referrers/" + digest)), HasSubstr("\"manifests\":[]"));
  EXPECT_EQ(ask("/v2/tiny/referrers/sha512:00").status, 400);
}

TEST_F(RegistryTest, RefusedRequestsHaveJsonAndTheChallenge) {
  const auto response = distribution::Registry::refuse({401, "a token"}, {.method = "GET", .target = "/v2/"});
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(field(*response, "WWW-Authenticate"), "Basic realm=\"weightfs\"");
  EXPECT_THAT(text_of(*response), HasSubstr("UNAUTHORIZED"));
  EXPECT_FALSE(distribution::Registry::refuse({401, ""}, {.method = "GET", .target = "/files/"}).has_value());
}

}  // namespace
}  // namespace weightfs::registry_protocol_test
