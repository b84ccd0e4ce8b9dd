// The makings of one store: who may make a blob at the moment, shared by all who read it.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/blobs.h"
#include "cache/blob_store.h"
#include "cache/blobs/cache_stats.h"
#include "cache/blobs/in_flight_blob.h"
#include "cache/external_stores.h"
#include "cache/store/blob_backend.h"

namespace weightfs {

using Log = std::function<void(const std::string&)>;

/// What the sources of one store share. Callable from any thread.
class Store : public std::enable_shared_from_this<Store> {
 public:
  using FillingPtr = std::shared_ptr<Filling>;

  Store(ShelfPtr shelf, Log log, Fetching fetching = {}, std::vector<std::string> blob_directories = {});

  Shelf& shelf() { return *shelf_; }
  const Fetching& fetching() const { return fetching_; }
  const Elsewhere& elsewhere() const { return elsewhere_; }
  const std::atomic<bool>& gave_up() const { return gave_up_; }
  Account& account() { return account_; }
  StoreStatus status();
  StoreStatus status_of_running();
  Name name_of(const Recipe& recipe);
  /// Of one that is fetched by its digest: shared by all who promise the same size.
  static Name name_of(const Digest& digest, std::optional<uint64_t> size);

  /// The making of that blob if it is under way; null otherwise.
  FillingPtr running(const Name& name);
  /// The same, begun if it is not; waits until there is a place for it. Fails when there can be none.
  Result<FillingPtr> filling(const Recipe& recipe, const Name& name, const FetchPtr& fetch = nullptr);

  /// As long as what it returns lives, what is decoded under that name is not ended for want of readers.
  std::shared_ptr<const void> hold(const Name& name);

  /// Whether the bytes of that name have been wrong before, so that none are served before all are proved.
  bool is_distrusted(const Name& name);

  /// Why what that name leads to cannot be decoded, once that has been tried: the name has the identity of the bytes
  /// that it is decoded from, and the same bytes fail again.
  std::optional<Error> known_failure(const Name& name);

  /// Whether a download under that name ended without telling the size (Filling::allow_any_size), or kMostUnsized of
  /// others from the same server did.
  bool is_too_large_for_size(const Name& name, const std::string& server);
  void set_too_large_for_size(const Name& name, const std::string& server);

  /// Logs a line, once as long as the store is open.
  void say(const std::string& line);
  /// Logs what keeps a blob from being kept, once for each reason, as long as the store is open.
  void note(const Error& reason);

  /// Ends all makings and begins no more, not for those who wait either. Whoever reads decodes for himself, but not
  /// once it is told to give up.
  void stop();
  void give_up();
  /// Fails once it gave up.
  Result<void> go_on() const;

 private:
  /// Each kind has its own places, so that none waits for another: what decodes may wait for what is begun by it, and
  /// for what is fetched.
  enum class Kind { decoding, nested, fetching };
  struct Running {
    FillingPtr filling;
    Kind kind;
    std::thread thread;
    bool over = false;  // the thread has nothing left to do
  };
  using Runnings = std::list<Running>;
  using Queue = std::list<std::thread::id>;

  Account::Fillings fetches() const;
  FillingPtr find(const Name& name);
  void change_holders(const std::string& name, int by);
  void leave(Runnings::iterator running) noexcept;
  void remember_failure(const Running& running);
  Result<FillingPtr> find_or_begin(const Recipe& recipe, const Name& name, const FetchPtr& fetch);
  bool make_place(Kind kind);
  FillingPtr begin(const Recipe& recipe, const Name& name, const FetchPtr& fetch, Kind kind);
  void run(const FillingPtr& filling) noexcept;
  void reap();

  const Fetching fetching_;
  const Elsewhere elsewhere_;
  Account account_;
  ShelfPtr shelf_;
  Log log_;
  std::atomic<bool> gave_up_ = false;
  const std::string own_;  // what no other store's names begin with
  Permits permits_;

  std::mutex mutex_;                 // guards the rest
  std::condition_variable changed_;  // somebody ended, or came or left the queue
  Runnings running_;                 // the one asked for last comes last
  Runnings leaving_;                 // ended or cancelled; joined by and by
  std::array<Queue, 3> queues_;      // who waits for a place, by kind
  std::unordered_set<std::string> distrusted_;
  std::unordered_map<std::string, Error> failures_;  // at most kMostFailures
  std::unordered_set<std::string> unsized_;
  std::unordered_map<std::string, size_t> unsized_from_;  // how many, by server
  std::set<std::string> noted_;
  std::unordered_map<std::string, size_t> holders_;  // open files, by the name of what they read
  uint64_t names_ = 0;
  bool stopped_ = false;
};

}  // namespace weightfs
