// One request for one chunk of a blob: sends it, validates the response, and decides how to continue.
#pragma once

#include "cache/download/transfer.h"

namespace weightfs::download {

class Fetch::Transfer::RangeRequest {
 public:
  RangeRequest(Transfer& transfer, ReassemblyBuffer::Chunk& chunk, ReassemblyBuffer::Owner owner);

  /// Sends the request, and puts the received bytes into the chunk.
  Outcome perform();

 private:
  const Origin& origin() const { return transfer_.fetch_->origins_[origin_]; }
  std::optional<uint64_t> size() const { return transfer_.fetch_->size_; }
  bool is_leader() const { return owner_ == ReassemblyBuffer::Owner::leader; }

  http::Request request() const;
  std::string expected_tag() const;

  Result<void> on_response(const http::Response& response);
  Result<void> on_full_response(const http::Response& response);
  Result<void> on_partial_response(const http::Response& response);
  Result<void> on_range_not_satisfiable(const http::Response& response);
  bool restart_from_zero();
  Result<void> on_body(std::span<const std::byte> bytes);
  Result<void> end_with(Outcome outcome);

  Outcome past_end() const;
  Outcome after_body_end(uint64_t at);
  Outcome after_error(const Error& error);

  Transfer& transfer_;
  ReassemblyBuffer& buffer_;
  ReassemblyBuffer::Chunk& chunk_;
  const ReassemblyBuffer::Owner owner_;
  size_t origin_ = 0;
  OriginInfo info_;  // at the start of the request
  ByteRange span_{};
  bool is_ranged_ = false;         // a Range header is sent
  std::string etag_;               // sent as If-Range
  bool is_full_response_ = false;  // the response starts at byte 0
  uint64_t skip_ = 0;              // leading bytes to skip, because they were received before
  uint64_t gave_bytes_ = 0;
  std::optional<Outcome> outcome_;
};

}  // namespace weightfs::download
