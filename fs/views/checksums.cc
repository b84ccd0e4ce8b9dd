#include "fs/views/checksums.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/cancel.h"
#include "base/digest.h"
#include "base/parallel.h"
#include "base/values/little_endian.h"

namespace weightfs::views {
namespace {

constexpr size_t kReadSize = 1 << 20;
constexpr size_t kMaxThreads = 8;
constexpr std::chrono::milliseconds kCheck{20};  // of a caller that waits for another

// A stored table: the checksums, little-endian, and zeros. Smaller blobs are not cached.
uint64_t table_size(size_t count) { return std::max<uint64_t>(count * sizeof(uint32_t), kSmallBlob + 1); }

BlobProducer table_blob(const std::string& name, const std::string& key, size_t count,
                        std::function<Result<StreamPtr>()> start) {
  return {.name = name,
          .size = table_size(count),
          .digest = {},
          .key = key,
          .start = std::move(start),
          .depth = kMountDepth};
}

}  // namespace

std::vector<Checksums::Progress> Checksums::running() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Progress> all;
  for (const ChecksumTable* const table : running_) all.push_back(table->progress());
  return all;
}

void ChecksumTable::set_running(bool running) {
  if (checksums_ == nullptr) return;
  const std::scoped_lock lock(checksums_->mutex_);
  if (running)
    checksums_->running_.push_back(this);
  else
    std::erase(checksums_->running_, this);
}

Result<uint32_t> ChecksumTable::crc32_of(size_t file) {
  TRY_VOID(complete(file));
  return crcs_[file];
}

Result<void> ChecksumTable::compute_all() { return complete(std::nullopt); }

// Returns when one file or, without one, all are known.
Result<void> ChecksumTable::complete(std::optional<size_t> file) {
  std::unique_lock lock(mutex_);
  while (!is_complete_ && !(file && is_known(*file))) {
    if (is_cancelled()) return failure(Code::resource, fmt::format("{}: cancelled", files_.name));
    if (is_computing_) {
      changed_.wait_for(lock, kCheck);
      continue;
    }
    is_computing_ = true;
    const bool is_first = known_.empty();
    if (is_first) {
      crcs_.resize(files_.count);
      known_ = std::vector<std::atomic<uint8_t>>(files_.count);
    }
    lock.unlock();
    set_running(true);
    const auto has_all = exceptions_to_errors([&] { return compute(file, is_first); });
    set_running(false);
    lock.lock();
    is_computing_ = false;
    is_complete_ = has_all && *has_all;
    if (is_complete_) known_ = std::vector<std::atomic<uint8_t>>();
    changed_.notify_all();
    // It may have failed with a file that follows.
    if (!has_all && !(file && is_known(*file))) return tl::unexpected(has_all.error());
  }
  return {};
}

// Whether all are known then. A reader that has come to a file in order needs the next ones soon.
Result<bool> ChecksumTable::compute(std::optional<size_t> file, bool is_first) {
  if (is_first && checksums_ != nullptr) key_ = files_.key();
  if (is_first && !key_.empty() && load()) return true;
  const size_t from = file.value_or(0);
  const size_t wanted = !file ? files_.count : from > 0 && is_known(from - 1) ? kMaxThreads : 1;
  const size_t count = std::min(wanted, files_.count - from);
  TRY_VOID(in_parallel(count, processors(kMaxThreads), [&](uint64_t each) {
    return is_known(from + each) ? Result<void>() : compute_one(from + static_cast<size_t>(each));
  }));
  if (!file && !key_.empty()) store();
  return !file;
}

Result<void> ChecksumTable::compute_one(size_t file) {
  const SourcePtr source = TRY(files_.open(file));
  std::vector<std::byte> buffer(static_cast<size_t>(std::min<uint64_t>(source->size(), kReadSize)));
  uint32_t crc = 0;
  uint64_t at = 0;
  // The bytes of a file that ends with an error are counted again by the next attempt.
  const auto failed = [&](const Error& error) {
    done_bytes_ -= at;
    return tl::unexpected(error);
  };
  while (at < source->size()) {
    if (is_cancelled()) return failed({Code::resource, fmt::format("{}: cancelled", files_.name)});
    const auto part =
        std::span(buffer).first(static_cast<size_t>(std::min<uint64_t>(buffer.size(), source->size() - at)));
    const auto got = source->read_ahead(at, part, {at, source->size()});
    if (!got) return failed(got.error());
    if (*got < part.size()) return failed({Code::corrupt, fmt::format("{}: a tensor ends too early", files_.name)});
    crc = crc32(crc, part);
    at += part.size();
    done_bytes_ += part.size();
  }
  crcs_[file] = crc;
  known_[file].store(1, std::memory_order_release);
  return {};
}

// Whether the cache has the table.
bool ChecksumTable::load() {
  const auto not_cached = []() -> Result<StreamPtr> { return failure(Code::resource, "not cached"); };
  const SourcePtr table = checksums_->blobs_->blob(table_blob(files_.name, key_, files_.count, not_cached));
  const auto text = read_text(*table, 0, table->size());
  if (!text) return false;
  for (size_t i = 0; i < files_.count; ++i)
    crcs_[i] =
        static_cast<uint32_t>(little_endian(std::string_view(*text).substr(i * sizeof(uint32_t), sizeof(uint32_t))));
  done_bytes_ = files_.size;
  return true;
}

// A table that cannot be cached is computed again by the next mount.
void ChecksumTable::store() {
  std::string bytes;
  bytes.reserve(static_cast<size_t>(table_size(files_.count)));
  for (const uint32_t crc : crcs_) append_little_endian(bytes, crc, sizeof crc);
  bytes.resize(static_cast<size_t>(table_size(files_.count)), '\0');
  std::string copy(bytes.size(), '\0');
  const auto start = [bytes = in_memory(std::move(bytes))]() -> Result<StreamPtr> { return stream_of(bytes); };
  const SourcePtr table = checksums_->blobs_->blob(table_blob(files_.name, key_, files_.count, start));
  std::ignore = table->read(0, std::as_writable_bytes(std::span(copy)));
}

}  // namespace weightfs::views
