#include "protocols/s3/listed_bytes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace weightfs::s3::listed_bytes_test {
namespace {

// Its requests wait until they are permitted.
class SlowBytes final : public ListedBytes {
 public:
  SlowBytes() : ListedBytes(5) {}
  void permit() {
    is_permitted_ = true;
    is_permitted_.notify_all();
  }
  void wait_for_request() const { requests.wait(0); }

  mutable std::atomic<int> requests = 0;

 private:
  Result<SourcePtr> open() const override {
    ++requests;
    requests.notify_all();
    is_permitted_.wait(false);
    return in_memory("bytes");
  }
  Result<SourcePtr> open_cached() const override { return in_memory("bytes"); }
  void keep_open(const SourcePtr& bytes) const override { kept_ = bytes; }

  std::atomic<bool> is_permitted_ = false;
  mutable SourcePtr kept_;
};

Result<size_t> read_first(const Source& bytes) {
  std::byte first{};
  return bytes.read(0, std::span(&first, 1));
}

TEST(ListedBytes, OneReaderRequestsAndOthersCanBeCancelled) {
  SlowBytes bytes;
  std::thread first([&] { EXPECT_EQ(read_first(bytes).value(), 1u); });
  bytes.wait_for_request();
  EXPECT_TRUE(bytes.cached({0, 5})) << "needs no request";
  {
    const CancelScope scope([] { return true; });
    EXPECT_EQ(read_first(bytes).error().message, "cancelled");
  }
  std::thread second([&] { EXPECT_EQ(read_first(bytes).value(), 1u); });
  bytes.permit();
  first.join();
  second.join();
  EXPECT_EQ(bytes.requests, 1);
}

}  // namespace
}  // namespace weightfs::s3::listed_bytes_test
