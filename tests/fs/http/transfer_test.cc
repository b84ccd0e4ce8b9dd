// Responses on their way: which bytes of a file are read, and which are requested ahead.
#include "fs/http/transfer.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace weightfs::transfer_test {
namespace {

using namespace httpd;

constexpr uint64_t kSize = uint64_t{4} << 20;

// A file on a server: bytes that are all zero, and a record of its reads.
class RemoteFile final : public Source {
 public:
  struct Read {
    uint64_t from, to;
    ByteRange expected;
  };

  uint64_t size() const override { return kSize; }
  Result<size_t> read(uint64_t, std::span<std::byte>) const override {
    return failure(Code::io, "read without the range that is expected");
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    const size_t count = bytes_inside(kSize, offset, out.size());
    std::memset(out.data(), 0, count);
    reads.push_back({offset, offset + count, expected});
    return count;
  }

  mutable std::vector<Read> reads;
};

// The bytes that a client receives of a response with this range of the file.
size_t received(const std::shared_ptr<RemoteFile>& source, ByteRange range) {
  Response response;
  response.body.emplace_back(FilePart{std::make_shared<OpenFile>(1, source, nullptr), range});
  EXPECT_TRUE(read_first(response));
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  Descriptor server(ends[0]);
  const Descriptor client(ends[1]);
  size_t count = 0;
  std::thread reader([&] {
    std::array<char, 65536> buffer;
    ssize_t got = 0;
    while ((got = ::recv(client.number(), buffer.data(), buffer.size(), 0)) > 0) count += static_cast<size_t>(got);
  });
  {
    Transport transport(std::move(server), nullptr);
    Transfer transfer(std::move(response), nullptr, true);
    auto progress = Transfer::Progress::paused;
    while (progress == Transfer::Progress::paused || progress == Transfer::Progress::blocked)
      progress = transfer.advance(transport, true);
    EXPECT_EQ(progress, Transfer::Progress::sent);
    EXPECT_EQ(transfer.bytes_sent(), range.to - range.from);
  }
  reader.join();
  return count;
}

TEST(Transfer, NothingAfterTheRangeIsExpected) {
  for (const ByteRange range : {ByteRange{0, 100}, ByteRange{1 << 20, 2 << 20}, ByteRange{kSize - 100'000, kSize}}) {
    const auto file = std::make_shared<RemoteFile>();
    EXPECT_GT(received(file, range), range.to - range.from) << "with the header";
    ASSERT_FALSE(file->reads.empty());
    EXPECT_EQ(file->reads.front().expected.from, range.from);
    EXPECT_EQ(file->reads.front().expected.to, range.to) << "so that all of it is requested with the first read";
    EXPECT_EQ(file->reads.back().to, range.to);
    for (const RemoteFile::Read& read : file->reads) {
      EXPECT_LE(read.to, range.to);
      EXPECT_EQ(read.expected.to, range.to);
    }
  }
}

}  // namespace
}  // namespace weightfs::transfer_test
