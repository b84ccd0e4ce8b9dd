#include "cli/serve/registry_mirror.h"

#include <chrono>
#include <utility>

#include "protocols/registry.h"
#include "protocols/registry_server.h"

namespace weightfs {
namespace {

// How long a request for a manifest may take: if there is an earlier answer, and for a first one.
constexpr std::chrono::seconds kBriefManifest{10};
constexpr std::chrono::seconds kFirstManifest{30};

static_assert(distribution::kNoRepository == kNoRepository);

class RegistryOrigin final : public distribution::MirrorOrigin {
 public:
  RegistryOrigin(ServedMirror flags, const RegistryOptions& registries)
      : flags_(std::move(flags)), store_(registries.store), http_(registries.http) {}

  bool is_permitted(const std::string& name) const override {
    return registry::is_permitted_repository(name, flags_.allow);
  }
  bool is_namespace(const std::string& text) const override { return registry::is_namespace_of(text, flags_.endpoint); }

  Result<mirror::State> resolve(const std::string& name, const std::string& reference) override {
    const Reference wanted = reference_to(name, reference);
    const auto saved = find_manifest(wanted, store_, nullptr, {});
    const bool is_final = http_ == nullptr || parse_digest(reference);
    if (saved && is_final) return mirror::State{saved->digest.hex()};
    auto now = find_manifest(wanted, store_, http_, saved ? kBriefManifest : kFirstManifest);
    if (now) return mirror::State{now->digest.hex()};
    Error& error = now.error();
    if (!saved || error.code == Code::not_found) return failure(std::move(error));
    return mirror::State{saved->digest.hex(), std::move(error.message)};
  }

  Result<std::string> manifest(const std::string& name, const Digest& digest) override {
    return TRY(find_manifest(reference_to(name, "sha256:" + digest.hex()), store_, http_, kFirstManifest)).text;
  }

  Result<SourcePtr> open(const std::string& name, const Digest& digest) override {
    return open_blob(reference_to(name, "latest"), digest, store_, http_);
  }

 private:
  Reference reference_to(const std::string& name, const std::string& tag) const {
    const size_t scheme = flags_.endpoint.find("://");
    return {.scheme = flags_.endpoint.substr(0, scheme),
            .host = flags_.endpoint.substr(scheme + 3),
            .repository = name,
            .tag = tag};
  }

  const ServedMirror flags_;
  const BlobStorePtr store_;
  const http::ClientPtr http_;  // null: offline
};

}  // namespace

std::shared_ptr<distribution::Mirror> open_registry_mirror(const ServedMirror& flags, const RegistryOptions& registries,
                                                           std::function<void(const std::string&)> log) {
  if (!flags.is_of_registry()) return nullptr;
  return std::make_shared<distribution::Mirror>(std::make_unique<RegistryOrigin>(flags, registries),
                                                mirror::Rules{.ttl = flags.ttl, .log = std::move(log)});
}

}  // namespace weightfs
