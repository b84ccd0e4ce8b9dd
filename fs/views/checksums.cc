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
constexpr std::chrono::milliseconds kCancelCheck{20};  // of a caller that waits

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

// Computes what is missing of one file or, without one, of all.
Result<void> ChecksumTable::complete(std::optional<size_t> file) {
  std::unique_lock lock(mutex_);
  while (!is_complete_) {
    if (is_cancelled()) return failure(Code::resource, fmt::format("{}: cancelled", files_.name));
    if (is_computing_) {
      changed_.wait_for(lock, kCancelCheck);
      continue;
    }
    if (file && !known_.empty() && known_[*file] != 0) return {};
    is_computing_ = true;
    lock.unlock();
    set_running(true);
    const auto has_all = exceptions_to_errors([&] { return compute(file); });
    set_running(false);
    lock.lock();
    is_computing_ = false;
    is_complete_ = has_all && *has_all;
    if (is_complete_) known_ = {};
    changed_.notify_all();
    TRY_VOID(has_all);
  }
  return {};
}

// Whether all are known then.
Result<bool> ChecksumTable::compute(std::optional<size_t> file) {
  const std::string key = checksums_ == nullptr ? "" : files_.key();
  if (crcs_.empty() && !key.empty() && load(key)) return true;
  crcs_.resize(files_.count);
  known_.resize(files_.count);
  if (file) {
    TRY_VOID(compute_one(*file));
    return false;
  }
  TRY_VOID(in_parallel(files_.count, processors(kMaxThreads), [this](uint64_t each) {
    return known_[each] != 0 ? Result<void>() : compute_one(static_cast<size_t>(each));
  }));
  if (!key.empty()) store(key);
  return true;
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
  known_[file] = 1;
  return {};
}

// Whether the cache has the table.
bool ChecksumTable::load(const std::string& key) {
  const auto not_cached = []() -> Result<StreamPtr> { return failure(Code::resource, "not cached"); };
  const SourcePtr table = checksums_->blobs_->blob(table_blob(files_.name, key, files_.count, not_cached));
  const auto text = read_text(*table, 0, table->size());
  if (!text) return false;
  crcs_.resize(files_.count);
  for (size_t i = 0; i < files_.count; ++i)
    crcs_[i] =
        static_cast<uint32_t>(little_endian(std::string_view(*text).substr(i * sizeof(uint32_t), sizeof(uint32_t))));
  done_bytes_ = files_.size;
  return true;
}

// A table that cannot be cached is computed again by the next mount.
void ChecksumTable::store(const std::string& key) {
  std::string bytes;
  bytes.reserve(static_cast<size_t>(table_size(files_.count)));
  for (const uint32_t crc : crcs_) append_little_endian(bytes, crc, sizeof crc);
  bytes.resize(static_cast<size_t>(table_size(files_.count)), '\0');
  std::string copy(bytes.size(), '\0');
  const auto start = [bytes = in_memory(std::move(bytes))]() -> Result<StreamPtr> { return stream_of(bytes); };
  const SourcePtr table = checksums_->blobs_->blob(table_blob(files_.name, key, files_.count, start));
  std::ignore = table->read(0, std::as_writable_bytes(std::span(copy)));
}

}  // namespace weightfs::views
