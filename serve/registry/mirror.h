// A mirror of a registry: repositories are looked up at their origin when a client first asks for them by name. What is
// remembered of them is bounded, and so are the requests for names that do not exist.
// (docs/serve.md)
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/source.h"
#include "serve/mirror/lookups.h"
#include "serve/mirror/open_files.h"

namespace weightfs::distribution {

/// Name of the error of an origin (Error::name) for a repository that does not exist, as in protocols/registry.h.
inline constexpr std::string_view kNoRepository = "repository-not-found";

/// What a mirror asks of its origin. Callable from any thread.
class MirrorOrigin {
 public:
  virtual ~MirrorOrigin() = default;
  MirrorOrigin() = default;
  MirrorOrigin(const MirrorOrigin&) = delete;
  MirrorOrigin& operator=(const MirrorOrigin&) = delete;

  /// Whether the user permits requests for the repository; false for what is no name of one. Requests nothing.
  virtual bool is_permitted(const std::string& name) const = 0;
  /// Whether `?ns=` of a request means this registry. Requests nothing.
  virtual bool is_namespace(const std::string& text) const = 0;

  /// The digest of a manifest in hexadecimal digits, by its tag or "sha256:…". Fails with not_found, for a repository
  /// with the name kNoRepository; with forbidden; and as requests do.
  virtual Result<mirror::State> resolve(const std::string& name, const std::string& reference) = 0;
  /// The bytes of a manifest, compared with its digest. Requests nothing soon after resolve(). Fails as that.
  virtual Result<std::string> manifest(const std::string& name, const Digest& digest) = 0;
  /// The bytes of a blob, verified by its digest. Requests its size at most. Fails as resolve().
  virtual Result<SourcePtr> open(const std::string& name, const Digest& digest) = 0;
};

/// Callable from any thread.
class Mirror {
 public:
  template <class T>
  using Found = mirror::Found<T>;

  /// The code of a refusal is that of an error of the distribution-spec.
  Mirror(std::unique_ptr<MirrorOrigin> origin, mirror::Rules rules);

  /// Whether the other functions may request the repository; `name_space` as is_namespace(), or empty.
  bool is_permitted(const std::string& name, const std::string& name_space) const;

  struct Manifest {
    std::string text;
    Digest digest;
  };
  /// The manifest of a tag, which is requested again after the TTL, or of a digest.
  Found<Manifest> manifest(const std::string& name, const std::string& reference);

  /// The bytes of a blob: the same object for all clients, so that each byte is requested once. If its bytes did not
  /// match, another one.
  Found<SourcePtr> blob(const std::string& name, const Digest& digest);

 private:
  Result<SourcePtr> open(const std::string& name, const Digest& digest);

  const std::unique_ptr<MirrorOrigin> origin_;
  const std::function<std::chrono::steady_clock::time_point()> now_;
  mirror::Lookups names_;  // by "NAME:TAG" and "NAME@sha256:…"; of blobs with "/blobs/"
  mirror::OpenFiles blobs_;
};

}  // namespace weightfs::distribution
