// One request for one piece of a blob: what is asked for, whether the answer may be believed, and what becomes of it.
#pragma once

#include "cache/download/transfer.h"

namespace weightfs {

class Fetch::Transfer::Asking {
 public:
  Asking(Transfer& transfer, Window::Piece& piece, Window::Owner who);

  /// Performs the request; what it gives is in the piece.
  Outcome ask();

 private:
  const Origin& origin() const { return transfer_.fetch_->origins_[origin_]; }
  std::optional<uint64_t> size() const { return transfer_.fetch_->size_; }
  bool leads() const { return who_ == Window::Owner::leader; }

  Request request() const;
  std::string expected_tag() const;

  Result<void> answered(const Answer& answer);
  Result<void> answered_whole(const Answer& answer);
  Result<void> answered_part(const Answer& answer);
  Result<void> answered_beyond(const Answer& answer);
  bool begin_anew();
  Result<void> received(std::span<const std::byte> bytes);
  Result<void> end_with(Outcome outcome);

  Outcome too_long() const;
  Outcome after_all(uint64_t at);
  Outcome after(const Error& error);

  Transfer& transfer_;
  Window& window_;
  Window::Piece& piece_;
  const Window::Owner who_;
  size_t origin_ = 0;
  Told told_;  // before
  Span span_{};
  bool ranged_ = false;  // a range is asked for
  std::string tag_;      // the rest of what has this tag
  bool whole_ = false;   // the answer begins at byte 0
  uint64_t skip_ = 0;    // bytes of it that are there already
  uint64_t gave_ = 0;
  std::optional<Outcome> outcome_;
};

}  // namespace weightfs
