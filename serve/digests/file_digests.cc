#include "serve/digests/file_digests.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/cancel.h"
#include "base/text.h"

namespace weightfs::digests {
namespace {

constexpr std::chrono::seconds kProgress{10};  // between two lines in the log
constexpr uint64_t kLogged = 1 << 20;          // bytes of a file without a line of its own

uint64_t percent_of(uint64_t done, uint64_t size) { return size == 0 ? 100 : done / std::max<uint64_t>(size / 100, 1); }

std::string progress_of(const std::string& name, uint64_t done, uint64_t size) {
  return fmt::format("{}: {} % of {} are hashed for its SHA-256", printable(name), percent_of(done, size),
                     human_size(size));
}

// The place of a file without an identity, as long as the source exists.
std::string place_of(const Source& file) { return fmt::format("{}", static_cast<const void*>(&file)); }

std::string key_of(const Source& file) {
  const std::string identity = file.identity();
  return identity.empty() ? "" : "sha256 of " + identity;
}

}  // namespace

FileDigests::~FileDigests() {
  stop();
  if (worker_.joinable()) worker_.join();
}

std::optional<Digest> FileDigests::known(const SourcePtr& file) {
  if (const std::string key = key_of(*file); !key.empty()) return kept(key);
  const std::scoped_lock lock(mutex_);
  const auto job = jobs_.find(place_of(*file));
  if (job == jobs_.end() || job->second->source.lock() != file) return std::nullopt;
  const auto& result = job->second->result;
  return result && *result ? std::optional(**result) : std::nullopt;
}

void FileDigests::begin(const SourcePtr& file, const std::string& name) {
  if (!known(file)) job_for(file, name);
}

Result<Digest> FileDigests::get(const SourcePtr& file, const std::string& name, const Patience& patience) {
  if (const auto digest = known(file)) return *digest;
  const JobPtr job = job_for(file, name);
  if (job == nullptr) return failure(Code::resource, "too many files wait for their SHA-256");
  std::unique_lock lock(mutex_);
  const bool may_wait = callers_ < kMaxCallers;
  ++callers_;
  const std::shared_ptr<void> counted(nullptr, [this](void*) { --callers_; });  // with the lock
  while (!job->result) {
    const auto now = std::chrono::steady_clock::now();
    if (stops_) return cancelled();
    if (!may_wait || now >= patience.until || (patience.has_left && patience.has_left()))
      return failure(Code::resource, progress_of(name, job->done, file->size()));
    changed_.wait_until(lock, std::min<std::chrono::steady_clock::time_point>(patience.until, now + kCancelCheck));
  }
  return *job->result;
}

std::optional<Digest> FileDigests::kept(const std::string& key) {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
  }
  const auto text = keeper_.load ? keeper_.load(key) : std::nullopt;
  const auto digest = text ? digest_of_hex(*text) : std::nullopt;
  if (digest) keep(key, *digest);
  return digest;
}

void FileDigests::keep(const std::string& key, const Digest& digest) {
  const std::scoped_lock lock(mutex_);
  if (known_.size() >= kMaxKnown) known_.clear();
  known_.emplace(key, digest);
}

// Null if too many wait.
FileDigests::JobPtr FileDigests::job_for(const SourcePtr& file, const std::string& name) {
  const auto job = std::make_shared<Job>();
  job->file = file;
  job->source = file;
  job->name = name;
  job->key = key_of(*file);
  job->place = job->key.empty() ? place_of(*file) : job->key;
  const std::scoped_lock lock(mutex_);
  if (!worker_.joinable()) {
    worker_ = std::thread([this] { work(); });
    is_working_ = true;
  }
  const auto found = jobs_.find(job->place);
  // Another source may have had the address.
  const bool is_same = found != jobs_.end() && (!job->key.empty() || found->second->source.lock() == file);
  if (is_same) return found->second;
  if (queue_.size() >= kMaxWaiting || stops_) return nullptr;
  jobs_[job->place] = job;
  queue_.push_back(job);
  changed_.notify_all();
  return job;
}

void FileDigests::work() {
  work_until_stopped();
  const std::scoped_lock lock(mutex_);
  is_working_ = false;
  changed_.notify_all();
}

void FileDigests::work_until_stopped() {
  const CancelScope scope([this] { return stops_.load(); });
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stops_ || !queue_.empty(); });
    if (stops_) return;
    const JobPtr job = queue_.front();
    queue_.pop_front();
    lock.unlock();
    Result<Digest> digest = exceptions_to_errors([&] { return compute(*job); }, Code::resource);
    job->file.reset();  // perhaps destroys it, so without the lock
    lock.lock();
    // A failure is not kept. Without an identity, the job has the digest.
    const auto row = jobs_.find(job->place);
    if (row != jobs_.end() && row->second == job && (!digest || !job->key.empty())) jobs_.erase(row);
    if (jobs_.size() >= kMaxKnown)
      std::erase_if(jobs_, [](const auto& each) { return each.second->result && each.second->source.expired(); });
    job->result = std::move(digest);
    changed_.notify_all();
  }
}

Result<Digest> FileDigests::compute(Job& job) {
  const uint64_t size = job.file->size();
  auto next = std::chrono::steady_clock::now() + kProgress;
  Digest digest = TRY(sha256(*job.file, [&](std::span<const std::byte> bytes) {
    job.done += bytes.size();
    if (!keeper_.log || std::chrono::steady_clock::now() < next) return;
    next = std::chrono::steady_clock::now() + kProgress;
    keeper_.log(progress_of(job.name, job.done, size));
  }));
  if (!job.key.empty() && keeper_.save) keeper_.save(job.key, digest.hex());
  if (!job.key.empty()) keep(job.key, digest);
  if (keeper_.log && size > kLogged) keeper_.log(fmt::format("{}: SHA-256 {}", printable(job.name), digest.hex()));
  return digest;
}

void FileDigests::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
}

bool FileDigests::has_ended(std::chrono::milliseconds within) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, within, [this] { return !is_working_; });
}

}  // namespace weightfs::digests
