// A registry of a test's own, a store that only notes what it is told, and a model that is asked for.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/http/client.h"
#include "cache/registry.h"
#include "tests/cache/site.h"
#include "tests/support/temporary.h"

namespace weightfs::test {

// Remembers what it is told, and which blobs are wanted from where.
class StoreDouble final : public BlobStore {
 public:
  SourcePtr blob(Recipe recipe) override { return in_memory("blob " + recipe.name); }
  Result<SourcePtr> made(Recipe recipe) override { return in_memory("made " + recipe.name); }
  Result<Found> named(const Wanted&) override { return failure(Code::io, "not asked for like this"); }
  bool is_at_hand(const Wanted& wanted) override { return wanted.name == "here"; }
  void stop() override { ++stops; }
  Result<Found> fetched(const Wanted& wanted, std::vector<Origin> origins) override {
    wanted_names.push_back(wanted.name);
    for (Origin& origin : origins) asked.push_back(std::move(origin));
    return Found{in_memory("proved"), in_memory("arriving")};
  }
  void remember(const std::string& key, std::string_view text) override {
    ++remembers;
    kept[key] = text;
  }
  std::optional<std::string> recall(const std::string& key) override {
    const auto found = kept.find(key);
    return found == kept.end() ? std::nullopt : std::optional(found->second);
  }
  StoreStatus status() override { return {}; }
  StoreStatus status_of_running() override { return {}; }

  std::map<std::string, std::string> kept;
  int remembers = 0;
  int stops = 0;
  std::vector<std::string> wanted_names;
  std::vector<Origin> asked;
};

inline std::string sha256_of(const std::string& body) { return "sha256:" + sha256(body).hex(); }

constexpr const char* kManifest = R"({"schemaVersion":2,"config":{},"layers":[{"digest":"x","size":1}]})";
constexpr const char* kManifestPath = "/v2/team/tiny/manifests/v1";

class Resolving : public testing::Test {
 protected:
  Reference reference(const std::string& tag = "v1") const { return {"http", site.host(), "team/tiny", tag}; }
  Result<Resolved> resolved(const std::string& tag = "v1") { return resolve(reference(tag), store, http, keys); }

  /// The manifest, or the error, the site's name cut out.
  std::string told(const std::string& tag = "v1") {
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
    keys.docker_config =
        temporary.write("config.json", R"({"auths":{")" + site.host() + R"(":{"auth":"bWU6c2VjcmV0"}}})");
  }
  /// The manifest is there for a token T that `realm` gives.
  void needs_token(const std::string& realm, const std::string& service) {
    challenge = "Bearer realm=\"" + realm + "\",service=\"" + service + "\",scope=\"repository:team/tiny:pull\"";
    site.put(kManifestPath, guarded("Bearer T", challenge, answer("200 OK", kManifest)));
  }

  TemporaryDirectory temporary;
  Site site;
  Site other;
  std::shared_ptr<StoreDouble> store = std::make_shared<StoreDouble>();
  HttpPtr http = std::make_shared<Http>(HttpOptions{});
  Keys keys;
  std::string challenge;
};

}  // namespace weightfs::test
