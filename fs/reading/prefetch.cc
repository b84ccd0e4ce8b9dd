#include "fs/reading/prefetch.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

#include "base/cancel.h"
#include "base/download_scope.h"
#include "base/files/leaf.h"
#include "base/os/kernel.h"
#include "formats/completeness.h"
#include "fs/reading/file_walk.h"

namespace weightfs {
namespace {

constexpr uint64_t kMaxGap = 16 << 10;         // bytes between two tensors that are requested together
constexpr uint64_t kBackgroundStep = 8 << 20;  // one request
constexpr std::chrono::milliseconds kReadersCheck{20};

// Lowers that of the calling thread and the threads that it starts. Without permission the priority stays as it is.
void lower_priority() {
  std::ignore = ::setpriority(PRIO_PROCESS, 0, 19);
  std::ignore = ::syscall(SYS_ioprio_set, kernel::kIoPriorityOfThread, 0, kernel::kIoPriorityIdle);
}

// The first tensor from `index` on that has bytes: empty ones are never read. The end of the list if there is none
// among the next kMaxEmpty: readers wait for this search.
size_t skip_empty(const TensorList& tensors, size_t index) {
  const size_t end = std::min(tensors.size(), index + Prefetch::kMaxEmpty);
  while (index < end && tensors.nbytes(index) == 0) ++index;
  return index < end ? index : tensors.size();
}

}  // namespace

Prefetch::Prefetch(Forest& forest, PrefetchOptions options) : forest_(forest), options_(std::move(options)) {}

Prefetch::~Prefetch() { stop(); }

void Prefetch::start() {
  const std::scoped_lock lock(mutex_);
  if (options_.mode == PrefetchMode::all) start_thread(&Prefetch::fetch_all);
}

void Prefetch::stop() {
  const std::scoped_lock lock(mutex_);
  is_stopped_ = true;
  thread_.request_stop();
}

// The mutex is held.
void Prefetch::start_thread(void (Prefetch::*work)(const std::stop_token&)) {
  if (is_stopped_ || thread_.joinable()) return;
  try {
    thread_ = std::jthread([this, work](const std::stop_token& stop) {
      try {
        (this->*work)(stop);
      } catch (const std::exception&) {  // out of memory: readers do without
      }
    });
  } catch (const std::system_error&) {
    is_stopped_ = true;
  }
}

bool Prefetch::continues(const Forest::TensorRef& tensor) const {
  return length_ > 0 && model_.lock() == tensor.model &&
         (tensor.index == last_ || tensor.index == skip_empty(tensor.model->tensors, last_ + 1));
}

void Prefetch::restart() {
  ++run_;
  length_ = 0;
  window_ = ahead_ = 0;
}

void Prefetch::begin_file(Ino file) {
  if (options_.mode != PrefetchMode::in_order) return;
  const auto tensor = forest_.tensor_of(file);
  const std::scoped_lock lock(mutex_);
  if (tensor && !continues(*tensor)) restart();
}

void Prefetch::finish_file(Ino file) {
  if (options_.mode != PrefetchMode::in_order) return;
  const auto tensor = forest_.tensor_of(file);
  if (!tensor) return;
  const std::scoped_lock lock(mutex_);
  if (!continues(*tensor)) restart();
  if (length_ > 0 && tensor->index == last_) return;
  const uint64_t size = tensor->model->tensors.nbytes(tensor->index);
  model_ = tensor->model;
  last_ = tensor->index;
  ++length_;
  if (length_ < kMinRun) return;
  window_ = std::min({window_ == 0 ? kFirstWindow : 2 * window_, kMaxWindow, options_.cache_size / 4});
  if (length_ > kMinRun && next_ > last_) {
    ahead_ -= std::min(ahead_, size);
  } else {
    next_ = last_ + 1;
    next_offset_ = ahead_ = 0;
  }
  if (!finds_request(*tensor->model)) return;
  start_thread(&Prefetch::fetch_in_order);
  changed_.notify_all();
}

// Not for each small tensor: they are requested together. The mutex is held.
bool Prefetch::has_space() const { return ahead_ < window_ && window_ - ahead_ >= std::min(kMinSpace, window_ / 4); }

// Skips local tensors, but only a few, since a local model has no others. The mutex is held.
bool Prefetch::finds_request(const Model& model) {
  for (size_t skipped = 0; skipped < kMaxSkipped && has_space(); ++skipped) {
    next_ = skip_empty(model.tensors, next_);
    if (next_ >= model.tensors.size()) return false;
    if (!is_ready(model.tensors[next_].source)) return true;
    ahead_ += model.tensors.nbytes(next_++) - std::exchange(next_offset_, 0);
  }
  return false;
}

// Nothing if the window has no space. The mutex is held.
std::optional<Prefetch::Request> Prefetch::next_request() {
  const ModelPtr model = model_.lock();
  if (model == nullptr || !has_space()) return std::nullopt;
  const TensorList& tensors = model->tensors;
  next_ = skip_empty(tensors, next_);
  if (next_ >= tensors.size()) return std::nullopt;
  const Slice tensor = tensors[next_].source;
  const uint64_t space = std::min(window_ - ahead_, kMaxRequest);
  const uint64_t from = std::exchange(next_offset_, next_offset_ + std::min(space, tensor.size() - next_offset_));
  ByteRange range = {tensor.offset() + from, tensor.offset() + next_offset_};
  for (size_t together = 1; together < kMaxTogether && next_offset_ == tensors.nbytes(next_); ++together) {
    next_offset_ = 0;
    next_ = skip_empty(tensors, next_ + 1);
    if (next_ >= tensors.size()) break;
    const Slice following = tensors[next_].source;
    const bool is_adjacent = following.whole() == tensor.whole() && following.offset() >= range.to &&
                             following.offset() - range.to <= kMaxGap;
    if (!is_adjacent || following.offset() + following.size() - range.from > space) break;
    range.to = following.offset() + following.size();
    next_offset_ = following.size();
  }
  ahead_ += range.to - range.from;
  return Request{tensor.whole(), range, run_};
}

void Prefetch::fetch_in_order(const std::stop_token& stop) {
  for (;;) {
    std::optional<Request> request;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [&] { return !stop.stop_requested() && (request = next_request()).has_value(); });
      if (!request) return;
    }
    const auto is_ended = [&] { return stop.stop_requested() || run_ != request->run; };
    const CancelScope cancel(is_ended);
    const DownloadScope scope;
    const auto done = request->source->prefetch(request->range);
    const std::scoped_lock lock(mutex_);
    if (done || is_ended()) continue;
    report(done.error());
    restart();
  }
}

void Prefetch::fetch_all(const std::stop_token& stop) {
  lower_priority();
  const CancelScope cancel([&] { return stop.stop_requested(); });
  uint64_t left = options_.cache_size;
  const auto failed = [&](const std::string& path, const Error& error) {
    const std::scoped_lock lock(mutex_);
    if (!stop.stop_requested()) report({error.code, fmt::format("{}: {}", path, error.message)});
  };
  const auto fetch = [&](Ino file, const std::string& path) {
    if (const auto done = fetch_file(file, left, stop); !done) failed(path, done.error());
    return !stop.stop_requested();
  };
  const auto check = [&](const std::string& path, const ModelPtr& model) {
    const Completeness completeness = completeness_of(*model);
    if (!completeness.is_complete()) failed(path, {completeness.reason->code, to_sentence(completeness)});
  };
  walk_files(forest_, Forest::kRoot, "", {fetch, failed, check});
}

// In steps, so that readers need not wait for long; then as a whole, which verifies a blob.
Result<void> Prefetch::fetch_file(Ino file, uint64_t& left, const std::stop_token& stop) {
  wait_for_readers(stop);
  const SourcePtr source = TRY(forest_.open(file));
  DownloadScope scope(left);
  Result<void> done;
  for (uint64_t at = 0; done && at < source->size() && !stop.stop_requested(); at += kBackgroundStep) {
    wait_for_readers(stop);
    done = source->prefetch({at, at + std::min(kBackgroundStep, source->size() - at)});
    if (scope.bytes() == 0) break;  // local, or downloaded as a whole
  }
  left -= scope.bytes();
  if (!done || stop.stop_requested()) return done;
  const DownloadScope whole(scope.bytes() == 0 ? left : UINT64_MAX);
  done = source->prefetch({0, source->size()});
  left -= scope.bytes() == 0 ? whole.bytes() : 0;
  return done;
}

void Prefetch::wait_for_readers(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (reads_ > 0 && !stop.stop_requested())
    changed_.wait_for(lock, stop, kReadersCheck, [&] { return reads_ == 0; });
}

// The mutex is held.
void Prefetch::report(const Error& error) {
  if (!std::exchange(has_logged_, true) && options_.log) options_.log("prefetch: " + error.message);
}

}  // namespace weightfs
