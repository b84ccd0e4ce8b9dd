// A mirror of a Hub: repositories are looked up at their origin when a client first asks for them by name. What is
// remembered of them is bounded, and so are the requests for names that do not exist.
// (docs/serve.md)
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <string_view>
#include <vector>

#include "base/later.h"
#include "base/source.h"
#include "serve/hub/repository.h"
#include "serve/mirror/lookups.h"
#include "serve/mirror/open_files.h"

namespace weightfs::hub {

/// Names of the errors of an origin (Error::name), as in protocols/huggingface.h.
inline constexpr std::string_view kNoRevision = "revision-not-found";
inline constexpr std::string_view kGated = "gated";

/// Whether the origin has answered with this error: that a repository or revision does not exist, or that access has to
/// be requested. Other errors leave open whether it is as before.
bool is_about_repository(const Error& error);

/// What a mirror asks of its origin. Callable from any thread.
class MirrorOrigin {
 public:
  virtual ~MirrorOrigin() = default;
  MirrorOrigin() = default;
  MirrorOrigin(const MirrorOrigin&) = delete;
  MirrorOrigin& operator=(const MirrorOrigin&) = delete;

  /// Whether the user permits requests for the repository; false for what is no ORG/NAME. Requests nothing.
  virtual bool is_permitted(const std::string& id) const = 0;
  /// Whether it may be a branch, a tag or a commit. Requests nothing.
  virtual bool is_revision(const std::string& text) const = 0;

  using State = mirror::State;
  /// The commit of a revision. Fails with not_found, for a revision with the name kNoRevision; with forbidden, for a
  /// gated repository with the name kGated; and as requests do.
  virtual Result<State> resolve(const std::string& id, const std::string& revision) = 0;
  /// All files at a commit, sorted by path. Fails as resolve() does.
  virtual Result<RepositoryPtr> read(const std::string& id, const std::string& commit) = 0;
  /// The bytes of one of them, verified by its digest. Requests nothing before they are read.
  virtual SourcePtr open(const Repository& repository, const RepositoryFile& file) = 0;
};

/// The code of a refusal is the X-Error-Code of the Hub.
using MirrorRefusal = mirror::Refusal;
using MirrorRules = mirror::Rules;

/// Callable from any thread.
class Mirror {
 public:
  template <class T>
  using Found = mirror::Found<T>;

  static constexpr size_t kMaxUnknown = mirror::Lookups::kMaxUnknown;
  static constexpr size_t kMaxOpen = 64;               ///< lists of files in memory
  static constexpr size_t kMaxListed = 2 * kMaxFiles;  ///< files in all of them, but the one that was used last
  static constexpr ptrdiff_t kMaxReads = 4;            ///< lists that are read at a time

  Mirror(std::unique_ptr<MirrorOrigin> origin, MirrorRules rules);

  /// Whether find() may request the repository with this id.
  bool is_permitted(const std::string& id) const;

  /// The repository at a revision. The commit of a branch or tag is requested again after the TTL; while one client
  /// asks for it, and while the origin is down, the others get the one before. Refuses a name that is not permitted
  /// without a request, and with 503 one that is new while kMaxUnknown others are remembered or being asked for.
  Found<RepositoryPtr> find(const std::string& organization, const std::string& name, const std::string& revision);

  /// The bytes of a file: the same object for all clients, so that each byte is requested once. If its bytes did not
  /// match, another one.
  SourcePtr open(const Repository& repository, const RepositoryFile& file);

 private:
  struct Listed {
    std::string key;
    Later<RepositoryPtr> repository;
  };

  Found<std::string> commit_of(const std::string& id, const std::string& revision);
  Found<RepositoryPtr> repository_of(const std::string& id, const std::string& commit);
  Result<RepositoryPtr> read(const std::string& id, const std::string& commit);
  void close_oldest();  // needs the lock

  const std::unique_ptr<MirrorOrigin> origin_;
  mirror::Lookups commits_;  // by "ORG/NAME@REVISION", as all of these
  mirror::OpenFiles files_;  // by commit and path
  std::counting_semaphore<kMaxReads> reading_{kMaxReads};
  std::mutex mutex_;            // guards the rest; never held while the origin is asked, or the log is written
  std::vector<Listed> listed_;  // by commit; the last used first
};

}  // namespace weightfs::hub
