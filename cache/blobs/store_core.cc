#include "cache/blobs/store_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "base/cancel.h"
#include "base/text.h"
#include "cache/paths.h"

namespace weightfs::blobs {
namespace {

constexpr size_t kMaxFailures = 10'000;

constexpr size_t kMaxUnverified = 100'000;  // identities of blocks that are noted

// Decodings that wait are not counted, because a slow server must not delay reads of local data. With them, so many
// times the limit may be started.
constexpr size_t kMaxStarted = 8;

// A thread that waits for a slot checks at this interval for idle and waiting jobs.
constexpr std::chrono::milliseconds kSlotCheckInterval{20};

}  // namespace

StoreCore::StoreCore(store::BlobBackendPtr backend, StoreOptions options)
    : fetching_(with_mirror_reports(std::move(options.fetching))),
      times_(options.times),
      external_stores_(std::move(options.blob_directories)),
      backend_(std::move(backend)),
      log_(std::move(options.log)),
      name_prefix_(random_hex()),
      max_decodings_(options.max_decodings),
      model_(std::move(options.model)) {}

FetchSettings StoreCore::with_mirror_reports(FetchSettings fetching) {
  fetching.options.on_mirror_failure = [this](const download::Origin& mirror, const Error& error) {
    // Log once per mirror, not per blob.
    const std::string url = http::printable_url(mirror.url);
    const size_t host = url.find("://");
    const std::string server = url.substr(0, host == url.npos ? host : url.find('/', host + 3));
    log_once("mirror " + server,
             fmt::format("the mirror {} failed, other servers are used: {}", server, error.message));
  };
  return fetching;
}

// Bytes are served before verification, so only producers with the same key, size and declared digest share an
// in-flight blob: a container's false digest must not affect readers of another container. They also have the same
// depth, so that no reader waits for slots of a greater depth.
store::BlobName StoreCore::name_of(const BlobProducer& producer) {
  const std::string identity = fmt::format("{} {} {}", producer.size ? std::to_string(*producer.size) : "",
                                           producer.digest ? producer.digest->hex() : "", producer.depth);
  if (!producer.key.empty())
    return {"key-" + sha256(fmt::format("{} {}", identity, producer.key)).hex(), producer.key, producer.digest};
  if (producer.digest) return {"digest-" + sha256(identity).hex(), "", producer.digest};
  return {fmt::format("own-{}-{}", name_prefix_, next_name_++), "", {}};
}

store::BlobName StoreCore::name_of(const Digest& digest, std::optional<uint64_t> size) {
  const std::string identity = fmt::format("fetched {} {}", size ? std::to_string(*size) : "", digest.hex());
  return {"digest-" + sha256(identity).hex(), "", digest};
}

store::BlobHandle StoreCore::find_cached(const store::BlobName& name, std::optional<uint64_t> size) {
  store::BlobHandle handle = backend_->find_open(name);
  return handle ? handle : backend_->find(name, size);
}

void StoreCore::enable_verity(const Digest& blob) noexcept {
  std::ignore = exceptions_to_errors([&]() -> Result<void> {
    backend_->enable_verity(blob);
    return {};
  });
}

template <class File>
void StoreCore::add_names_to(const File& file, std::vector<Name> names) noexcept {
  std::ignore = exceptions_to_errors([&]() -> Result<void> {
    if (!model_.empty()) names.insert(names.begin(), {NameKind::model, model_});
    backend_->add_names(file, names);
    return {};
  });
}

void StoreCore::add_names(const Digest& blob, std::vector<Name> names) noexcept {
  add_names_to(blob, std::move(names));
}

void StoreCore::add_names(const std::string& identity, std::vector<Name> names) noexcept {
  add_names_to(identity, std::move(names));
}

Name StoreCore::member_name(const std::string& member) const {
  return {NameKind::member, model_.empty() ? member : fmt::format("{}: {}", model_, member)};
}

StoreCore::InFlightBlobPtr StoreCore::find_in_flight(const store::BlobName& name) {
  const std::scoped_lock lock(mutex_);
  return find(name);
}

// A blob that has ended is not in flight, even if its thread has not.
StoreCore::InFlightBlobPtr StoreCore::find(const store::BlobName& name) {
  const auto job = std::ranges::find_if(
      jobs_, [&](const Job& r) { return r.in_flight->name().text == name.text && !r.in_flight->has_ended(); });
  if (job == jobs_.end()) return nullptr;
  jobs_.splice(jobs_.end(), jobs_, job);
  return job->in_flight;
}

std::shared_ptr<const void> StoreCore::hold(const store::BlobName& name) {
  change_holders(name.text, 1);
  return {static_cast<const void*>(this),
          [self = shared_from_this(), text = name.text](const void*) { self->change_holders(text, -1); }};
}

void StoreCore::change_holders(const std::string& name, int by) {
  const std::scoped_lock lock(mutex_);
  const auto held = holders_.try_emplace(name, 0).first;
  const size_t holders = by > 0 ? ++held->second : --held->second;
  if (holders == 0) holders_.erase(held);
  for (const Job& job : jobs_)
    if (job.in_flight->name().text == name) job.in_flight->set_holders(holders);
}

void StoreCore::remember(const std::string& name, const InFlightBlob::State& ended) {
  const std::scoped_lock lock(mutex_);
  if (ended.phase == InFlightBlob::Phase::finished) failures_.erase(name);
  if (ended.phase != InFlightBlob::Phase::failed || !is_about_the_bytes(ended.error)) return;
  if (failures_.size() == kMaxFailures) failures_.clear();
  failures_.emplace(name, ended.error);
}

Result<StoreCore::InFlightBlobPtr> StoreCore::find_or_start(const BlobProducer& producer, const store::BlobName& name) {
  return exceptions_to_errors([&] { return start_or_wait(producer, name); });
}

InFlightBlob::State StoreCore::produce(const BlobProducer& producer, const store::BlobName& name) {
  for (;;) {
    const auto in_flight = find_or_start(producer, name);
    if (!in_flight) return {InFlightBlob::Phase::uncacheable, in_flight.error()};
    auto state = (*in_flight)->wait();
    if (state.phase != InFlightBlob::Phase::cancelled) return state;
  }
}

// Waiting for a slot cannot deadlock, although the waiting thread may hold a slot, or a lock that the holders of slots
// wait for (of a zip, or of a Later): decoding a blob depends only on slots of lower depths, and at the lowest depth on
// none. BlobProducer::depth states that order; check_depth() enforces it.
Result<StoreCore::InFlightBlobPtr> StoreCore::start_or_wait(const BlobProducer& producer, const store::BlobName& name) {
  std::unique_lock lock(mutex_);
  const auto position = queue_.emplace(producer.depth, next_ticket_++).first;
  const auto leave_queue = [&](void*) {
    queue_.erase(position);
    changed_.notify_all();
  };
  const std::unique_ptr<void, decltype(leave_queue)> queued(this, leave_queue);
  for (;;) {
    if (stopped_) return failure(Code::resource, "the store is closed");
    if (auto in_flight = find(name)) return in_flight;
    if (is_cancelled()) return failure(Code::resource, "cancelled before it was complete");
    const bool is_first = position == queue_.lower_bound({producer.depth, 0});
    if (is_first && free_slot(producer.depth)) return start(producer, name);
    changed_.wait_for(lock, kSlotCheckInterval);
  }
}

template <class Counts>
size_t StoreCore::count_jobs(const Counts& counts) const {
  return static_cast<size_t>(std::count_if(jobs_.begin(), jobs_.end(), counts));
}

// A decoding that waits for another blob or a server needs no slot until it continues.
bool StoreCore::free_slot(int depth) {
  reap();
  const auto counts = [&](const Job& r) { return r.depth == depth && !r.in_flight->has_ended(); };
  const auto is_decoding = [&](const Job& r) { return counts(r) && !r.in_flight->is_waiting(); };
  if (count_jobs(is_decoding) < max_decodings_ && count_jobs(counts) < kMaxStarted * max_decodings_) return true;
  return std::ranges::any_of(
      jobs_, [&](const Job& r) { return counts(r) && r.in_flight->cancel_if_unused(times_.idle_decoding); });
}

StoreCore::InFlightBlobPtr StoreCore::start(const BlobProducer& producer, const store::BlobName& name) {
  const bool shared_by_digest = name.digest && name.key.empty();
  const auto serve = shared_by_digest || failures_.contains(name.text) ? InFlightBlob::Serve::after_verification
                                                                       : InFlightBlob::Serve::before_verification;
  auto in_flight = std::make_shared<InFlightBlob>(producer, name, backend_, serve, times_.unused_decoding);
  if (const auto held = holders_.find(name.text); held != holders_.end()) in_flight->set_holders(held->second);
  Job& slot = jobs_.emplace_back(Job{in_flight, producer.depth, {}});
  try {
    slot.thread = std::thread([self = shared_from_this(), in_flight] { self->run(in_flight); });
  } catch (const std::exception&) {
    jobs_.pop_back();
    throw;
  }
  return in_flight;
}

// A reader that sees a failure finds it recorded when it tries again.
void StoreCore::run(const InFlightBlobPtr& in_flight) noexcept {
  InFlightBlob::State ended = in_flight->run();
  std::ignore = exceptions_to_errors([&]() -> Result<void> {
    remember(in_flight->name().text, ended);
    return {};
  });
  in_flight->end(ended);
  // The readers do not wait for it.
  if (ended.phase == InFlightBlob::Phase::finished) {
    add_names(ended.handle.digest, {member_name(in_flight->member())});
    enable_verity(ended.handle.digest);
  }
  ended.handle = {};  // closes its file
  const std::scoped_lock lock(mutex_);
  const auto job = std::ranges::find(jobs_, in_flight, &Job::in_flight);
  if (job == jobs_.end()) return;  // stop() was called in this thread
  job->in_flight = nullptr;
  ended_jobs_.splice(ended_jobs_.end(), jobs_, job);
  changed_.notify_all();
}

void StoreCore::reap() {
  for (Job& job : ended_jobs_) job.thread.join();
  ended_jobs_.clear();
}

// The store may be destroyed in one of its own producer threads, which must not wait for itself.
void StoreCore::stop() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  for (const Job& job : jobs_) job.in_flight->cancel();
  const auto own =
      std::ranges::find_if(jobs_, [](const Job& job) { return job.thread.get_id() == std::this_thread::get_id(); });
  if (own != jobs_.end()) {
    own->thread.detach();
    jobs_.erase(own);
  }
  changed_.notify_all();
  changed_.wait(lock, [&] { return jobs_.empty(); });
  reap();
}

void StoreCore::shut_down() {
  stop_.request_stop();
  backend_->stop();
}

// A process that downloads blocks may be stopped, and blocks that it has claimed cannot be written by others.
std::chrono::milliseconds StoreCore::max_wait_for_others() const {
  const http::ClientPtr& http = fetching().http;
  if (http == nullptr) return 4 * http::Options().stall_timeout;
  return 4 * http->options().stall_timeout + http->patience();  // the other one may wait for the network as long
}

Result<void> StoreCore::check_open() const {
  if (stop_.stop_requested()) return failure(Code::resource, "the mount is shutting down");
  return {};
}

std::optional<Error> StoreCore::known_failure(const store::BlobName& name) {
  const std::scoped_lock lock(mutex_);
  const auto known = failures_.find(name.text);
  return known == failures_.end() ? std::nullopt : std::optional(known->second);
}

void StoreCore::note_unverified(const std::string& identity) noexcept {
  std::ignore = exceptions_to_errors([&]() -> Result<void> {
    const std::scoped_lock lock(mutex_);
    if (unverified_.size() < kMaxUnverified) unverified_.insert(identity);
    return {};
  });
}

std::set<std::string> StoreCore::take_unverified() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(unverified_, {});
}

void StoreCore::log_once(const std::string& key, const std::string& line) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopped_ || !logged_.insert(key).second) return;
  }
  if (log_) log_(line);
}

void StoreCore::log_uncached(const Error& reason) {
  log_once(fmt::format("cannot cache decoded data: {}; each reader decodes it again", reason.message));
}

}  // namespace weightfs::blobs
