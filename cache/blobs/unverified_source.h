// The bytes of a blob before it is verified.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/files/unverified.h"
#include "cache/blobs/unverified_reads.h"

namespace weightfs::blobs {

// What an earlier process received may be wrong, and the server correct by now: its bytes are verified before they are
// parsed, or used as they are.
enum class Earlier { verified, used };

/// For parsers; `Blob` is a source with verified bytes, and functions for others.
template <class Blob>
class UnverifiedSource final : public UnverifiedBytes {
 public:
  UnverifiedSource(std::shared_ptr<const Blob> blob, Earlier earlier) : blob_(std::move(blob)), earlier_(earlier) {}
  uint64_t size() const override { return blob_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t got = TRY(blob_->read_unverified(offset, out, earlier_));
    if (got > 0) reads_.record(offset, out.first(got));
    return got;
  }
  void forget() const override { blob_->forget_unverified(reads_); }
  Result<void> prefetch(ByteRange range) const override { return blob_->prefetch_unverified(range); }
  std::string identity() const override { return blob_->identity(); }

 private:
  std::shared_ptr<const Blob> blob_;
  Earlier earlier_;
  mutable UnverifiedReads reads_;
};

}  // namespace weightfs::blobs
