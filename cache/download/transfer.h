// One attempt to download a blob. The leader thread tries the origins in turn until the blob is complete; helper
// threads fetch chunks over additional connections while that is faster, and stop at the first problem.
#pragma once

#include <chrono>
#include <stop_token>
#include <thread>
#include <utility>

#include "cache/download/download.h"
#include "cache/download/mirror_scheduler.h"
#include "cache/download/origin_info.h"
#include "cache/download/reassembly_buffer.h"

namespace weightfs::download {

class Fetch::Transfer final : public FetchStream {
 public:
  Transfer(std::shared_ptr<Fetch> fetch, ResumePoint resume, const std::stop_token& stop);
  ~Transfer() override;

  Result<size_t> next(std::span<std::byte> out) override;
  uint64_t begins_at() const override { return buffer_.begins_at(); }
  std::string validator() const override;
  std::string source() const override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Worker {
    std::thread thread;
    std::atomic<bool> ended = false;
  };
  class RangeRequest;
  // The state of an origin.
  struct OriginState {
    OriginInfo info;
    bool single_connection = false;  // do not use helpers
  };
  // The bytes received until a time.
  struct ProgressSample {
    Clock::time_point time;
    uint64_t arrived;
  };

  void run_leader() noexcept;
  Result<void> try_origins();
  Outcome download_from(size_t index, MirrorScheduler& mirrors, ProgressSample& sample);
  bool made_progress(ProgressSample& sample);
  void run_helper() noexcept;
  void fetch_chunks();

  void switch_to(size_t index);
  Outcome fetch_chunk(const ReassemblyBuffer::ChunkPtr& chunk, ReassemblyBuffer::Owner owner);
  // The current origin, and its reported properties.
  std::pair<size_t, OriginInfo> current_origin() const;
  // These three have no effect after a switch to another origin.
  void record_info(size_t origin, const OriginInfo& info);
  void forget_redirect(size_t origin);
  void use_single_connection(size_t origin);
  bool is_slow(Clock::time_point now);
  void maybe_scale_up();
  void open_helpers();
  void open_helper();

  const std::shared_ptr<Fetch> fetch_;
  const ResumePoint resume_;
  const std::stop_token stop_;
  std::stop_source ended_;
  ReassemblyBuffer buffer_;
  std::thread leader_;

  mutable std::mutex mutex_;  // guards the rest
  size_t origin_ = 0;
  std::vector<OriginState> origins_;  // by index
  std::string from_;                  // of the last bytes
  std::string etag_;
  int running_ = 1;  // connections
  Clock::time_point next_scale_up_;
  Clock::time_point sampled_at_;
  uint64_t arrived_ = 0;  // at sampled_at_
  std::vector<std::unique_ptr<Worker>> helpers_;
};

}  // namespace weightfs::download
