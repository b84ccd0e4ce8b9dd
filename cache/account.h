// What a store did with the blobs that it was asked for by digest: what status.json shows.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "cache/blob_store.h"
#include "cache/filling.h"

namespace weightfs {

/// Callable from any thread.
class Account {
 public:
  /// A blob of that digest may be read from now on.
  void asked(const Wanted& wanted, std::optional<uint64_t> size);
  /// It was at hand, and is right; counts as a hit when it was read for the first time.
  void found(const Digest& digest, uint64_t size, const std::string& from);
  /// It is being fetched.
  void missed(const Digest& digest);
  /// It could not even be asked for.
  void failed(const Digest& digest, const Error& error);
  /// A fetch has ended, well or not.
  void ended(const Filling& filling);

  StoreStatus status() const;

  /// Adds a fetch that goes on at the moment to what was counted before.
  static void add_running(StoreStatus& status, const Filling& filling);

 private:
  struct Entry {
    size_t place;       // in status_.blobs
    bool read = false;  // it was counted as a hit or a miss
  };

  StoreStatus::Blob* blob(const Digest& digest);
  bool is_first_read(const Digest& digest);

  mutable std::mutex mutex_;  // guards the rest
  StoreStatus status_;
  std::unordered_map<std::string, Entry> entries_;  // by digest
};

}  // namespace weightfs
