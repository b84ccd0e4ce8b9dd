// One go at fetching a blob. The leader is a thread that asks one origin after the other until all is there, and has
// the last word; helpers bring chunks over connections of their own while that is quicker, and give up at the first
// doubt.
#pragma once

#include <chrono>
#include <thread>
#include <utility>

#include "cache/download/download.h"
#include "cache/download/mirror_scheduler.h"
#include "cache/download/origin_info.h"
#include "cache/download/reassembly_buffer.h"

namespace weightfs {

class Fetch::Transfer final : public FetchStream {
 public:
  Transfer(std::shared_ptr<Fetch> fetch, Left left, const std::atomic<bool>& stop);
  ~Transfer() override;

  Result<size_t> next(std::span<std::byte> out) override;
  uint64_t begins_at() const override { return window_.begins_at(); }
  std::string validator() const override;
  std::string source() const override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Lane {
    std::thread thread;
    std::atomic<bool> ended = false;
  };
  class Asking;
  // What is known of an origin.
  struct Known {
    Told told;
    bool alone = false;  // it is asked over one connection only
  };
  // How much had come when.
  struct Mark {
    Clock::time_point time;
    uint64_t arrived;
  };

  void lead() noexcept;
  Result<void> lead_through_origins();
  Outcome drain(size_t index, Turns& turns, Mark& mark);
  bool goes_on(Mark& mark);
  void help() noexcept;
  void help_along();

  void turn_to(size_t index);
  Outcome bring(const Window::PiecePtr& piece, Window::Owner who);
  // Which origin is asked, and what it has told.
  std::pair<size_t, Told> told() const;
  // What one of its answers told; these three do nothing once another origin is asked.
  void tell(size_t origin, const Told& told);
  void forget_redirect(size_t origin);
  void be_alone(size_t origin);
  bool is_slow(Clock::time_point now);
  void look();
  void open_helpers();
  void open_helper();

  const std::shared_ptr<Fetch> fetch_;
  const Left left_;
  const std::atomic<bool>& stop_;
  std::atomic<bool> ended_ = false;
  Window window_;
  std::thread leader_;

  mutable std::mutex mutex_;  // guards the rest
  size_t origin_ = 0;
  std::vector<Known> known_;  // of each origin
  std::string from_;          // of what came last
  std::string tag_;
  int running_ = 1;  // connections
  Clock::time_point next_look_;
  Clock::time_point looked_;
  uint64_t arrived_ = 0;  // when it was looked
  std::vector<std::unique_ptr<Lane>> helpers_;
};

}  // namespace weightfs
