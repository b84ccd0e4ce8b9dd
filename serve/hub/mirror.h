// A mirror of a Hub: repositories that are looked up at their origin when a client first asks for them, by a name that
// only the client has. What is remembered of them is bounded, and so are the requests for names that do not exist.
// (docs/serve.md)
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <string_view>
#include <vector>

#include "base/later.h"
#include "base/source.h"
#include "serve/hub/repository.h"

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

  struct State {
    std::string commit;
    std::string outage = {};  ///< why the origin did not say so now: it is the commit that it said last
  };
  /// The commit of a revision. Fails with not_found, for a revision with the name kNoRevision; with forbidden, for a
  /// gated repository with the name kGated; and as requests do.
  virtual Result<State> resolve(const std::string& id, const std::string& revision) = 0;
  /// All files at a commit, sorted by path. Fails as resolve() does.
  virtual Result<RepositoryPtr> read(const std::string& id, const std::string& commit) = 0;
  /// The bytes of one of them, verified by its digest. Requests nothing before they are read.
  virtual SourcePtr open(const Repository& repository, const RepositoryFile& file) = 0;
};

/// Why a client gets no repository: a status, the X-Error-Code of the Hub or nothing, and a sentence.
struct MirrorRefusal {
  int status;
  std::string code;
  std::string message;
};

struct MirrorRules {
  std::chrono::seconds ttl{60};  ///< of the commit of a branch or tag, and of a refusal up to Mirror::kMaxRefusal
  /// Receives a line about each failure of the origin. From any thread.
  std::function<void(const std::string&)> log = {};
  /// Tests have a clock of their own.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

/// Callable from any thread.
class Mirror {
 public:
  template <class T>
  using Found = tl::expected<T, MirrorRefusal>;

  static constexpr size_t kMaxOpen = 64;               ///< lists of files in memory
  static constexpr size_t kMaxListed = 2 * kMaxFiles;  ///< files in all of them, but the one that was used last
  static constexpr size_t kMaxRevisions = 1'000;       ///< whose commits are remembered
  static constexpr size_t kMaxUnknown = 64;  ///< refusals that are remembered, and names that are being asked for
  /// Longer, refusals would keep new names from being asked for.
  static constexpr std::chrono::seconds kMaxRefusal{300};
  static constexpr size_t kMaxFilesOpen = 256;
  static constexpr ptrdiff_t kMaxReads = 4;  ///< lists that are read at a time

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
  using Clock = std::chrono::steady_clock;

  struct Known {
    std::string commit;
    Clock::time_point checked;
    std::optional<Clock::time_point> answered = {};  // when the origin said so; none: to an earlier process
    uint64_t used = 0;                               // uses_ at the last use
  };
  struct Refused {
    MirrorRefusal refusal;
    Clock::time_point until;
  };
  struct Answer {
    std::string commit = {};
    std::optional<MirrorRefusal> refusal = {};
  };
  struct Listed {
    std::string key;
    Later<RepositoryPtr> repository;
  };
  struct Opened {
    std::string key;
    SourcePtr bytes;
  };

  Found<std::string> commit_of(const std::string& id, const std::string& revision);
  Answer ask(const std::string& id, const std::string& revision);
  Found<RepositoryPtr> repository_of(const std::string& id, const std::string& commit);
  Result<RepositoryPtr> read(const std::string& id, const std::string& commit);
  void log(const std::string& line) const;

  // These need the lock. `line` is for the log: it is written without the lock.
  Answer take(const std::string& id, const std::string& revision, Result<MirrorOrigin::State> state, std::string& line);
  std::optional<MirrorRefusal> refusal_of(const std::string& key);
  void remember_refusal(const std::string& key, const MirrorRefusal& refusal);
  void remember(const std::string& key, const std::string& commit, bool is_answer);
  void close_oldest();

  const std::unique_ptr<MirrorOrigin> origin_;
  const MirrorRules rules_;
  std::counting_semaphore<kMaxReads> reading_{kMaxReads};
  std::mutex mutex_;  // guards the rest; never held while the origin is asked, or the log is written
  uint64_t uses_ = 0;
  std::map<std::string, Known> known_;  // by "ORG/NAME@REVISION", as all of these
  std::map<std::string, Refused> refused_;
  std::map<std::string, Later<Answer>> asking_;
  std::vector<Listed> listed_;  // by commit; the last used first
  std::vector<Opened> opened_;  // by commit and path; the last used first
};

}  // namespace weightfs::hub
