// What a store did with the blobs that it was asked for by digest: what status.json shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/blob_store.h"
#include "cache/blobs/in_flight_blob.h"

namespace weightfs {

/// Callable from any thread.
class Account {
 public:
  using Fillings = std::vector<std::shared_ptr<Filling>>;

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

  /// What was counted and told up to now, and the fetches that go on at the moment.
  StoreStatus status(const Fillings& fetching) const;
  /// The same, with those blobs only that are fetched at the moment.
  StoreStatus running(const Fillings& fetching) const;

 private:
  struct Entry {
    size_t place;       // in blobs_
    bool read = false;  // it was counted as a hit or a miss
  };

  StoreStatus::Blob* blob(const Digest& digest);
  std::optional<size_t> place_of(const Digest& digest) const;
  bool is_first_read(const Digest& digest);

  mutable std::mutex mutex_;  // guards the rest
  StoreStatus counted_;       // without blobs
  std::vector<StoreStatus::Blob> blobs_;
  std::unordered_map<std::string, Entry> entries_;  // by digest
};

}  // namespace weightfs
