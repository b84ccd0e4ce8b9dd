// A registry for tests, a store that records its calls, and a reference to a model.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/direct_client.h"
#include "protocols/keyring.h"
#include "protocols/registry.h"
#include "tests/cache/site.h"
#include "tests/support/temporary.h"

namespace weightfs::test {

// Records saved texts, and the origins of requested blobs.
class StoreDouble final : public BlobStore {
 public:
  SourcePtr blob(BlobProducer producer) override { return in_memory("blob " + producer.name); }
  Result<SourcePtr> materialize(BlobProducer producer) override { return in_memory("materialized " + producer.name); }
  Result<ResolvedBlob> resolve(const BlobRef&) override { return failure(Code::io, "not expected"); }
  bool is_local(const BlobRef& ref) override { return has_all_blobs || ref.name == "here"; }
  void stop() override { ++stops; }
  Result<ResolvedBlob> resolve_from(const BlobRef& ref, std::vector<download::Origin> origins) override {
    requested_names.push_back(ref.name);
    for (download::Origin& origin : origins) used_origins.push_back(std::move(origin));
    return ResolvedBlob{in_memory("verified"), in_memory("unverified")};
  }
  Result<SourcePtr> open_url(const std::string&, const BlockListPtr&) override {
    return failure(Code::io, "not expected");
  }
  Result<SourcePtr> open_version(const download::Origin&, const download::FileVersion&, std::string) override {
    return failure(Code::io, "not expected");
  }
  void remove_bytes(const std::string&) override {}
  void save_text(const std::string& key, std::string_view text) override {
    ++saves;
    saved[key] = text;
  }
  std::optional<std::string> load_text(const std::string& key) override {
    const auto found = saved.find(key);
    return found == saved.end() ? std::nullopt : std::optional(found->second);
  }
  Result<void> verify_complete() override { return {}; }
  StoreStatus status() override { return {}; }
  StoreStatus in_progress_status() override { return {}; }

  std::map<std::string, std::string> saved;
  int saves = 0;
  int stops = 0;
  bool has_all_blobs = false;
  std::vector<std::string> requested_names;
  std::vector<download::Origin> used_origins;
};

inline std::string sha256_of(const std::string& body) { return "sha256:" + sha256(body).hex(); }

constexpr const char* kManifest = R"({"schemaVersion":2,"config":{},"layers":[{"digest":"x","size":1}]})";
constexpr const char* kManifestPath = "/v2/team/tiny/manifests/v1";

/// The user's files for registries are those of a test, which may still change.
class FixtureKeyring final : public http::Keyring {
 public:
  explicit FixtureKeyring(const CredentialPaths& paths) : paths_(paths) {}
  Result<http::CredentialsPtr> find(const http::CredentialsName& name, const http::ClientPtr& client) override {
    return UserKeyring(paths_).find(name, client);
  }

 private:
  const CredentialPaths& paths_;
};

class Resolving : public testing::Test {
 protected:
  Reference reference(const std::string& tag = "v1") const { return {"http", site.host(), "team/tiny", tag}; }
  Result<ResolvedManifest> resolved(const std::string& tag = "v1") { return resolve(reference(tag), store, http); }

  /// The manifest or the error, with the site's host replaced.
  std::string describe(const std::string& tag = "v1") {
    const auto found = resolved(tag);
    if (found) return found->manifest;
    std::string out = "error: " + found.error().message;
    for (size_t at; (at = out.find(site.host())) != std::string::npos;) out.replace(at, site.host().size(), "SITE");
    return out;
  }
  Code code(const std::string& tag = "v1") {
    const auto found = resolved(tag);
    EXPECT_FALSE(found);
    return found ? Code::io : found.error().code;
  }

  void has_login() {
    paths.docker_config =
        temporary.write("config.json", R"({"auths":{")" + site.host() + R"(":{"auth":"bWU6c2VjcmV0"}}})");
  }
  /// Serves the manifest only for the token T, with a challenge for `realm`.
  void needs_token(const std::string& realm, const std::string& service) {
    challenge = "Bearer realm=\"" + realm + "\",service=\"" + service + "\",scope=\"repository:team/tiny:pull\"";
    site.put(kManifestPath, guarded("Bearer T", challenge, answer("200 OK", kManifest)));
  }

  http::ClientPtr client_with(http::Options options) {
    return std::make_shared<http::DirectClient>(std::move(options), std::make_shared<FixtureKeyring>(paths));
  }

  TemporaryDirectory temporary;
  Site site;
  Site other;
  std::shared_ptr<StoreDouble> store = std::make_shared<StoreDouble>();
  CredentialPaths paths;
  http::ClientPtr http = client_with({});
  std::string challenge;
};

}  // namespace weightfs::test
