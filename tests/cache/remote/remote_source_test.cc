// Files on servers that are read by ranges: bytes, requests, and wrong servers.
#include "cache/remote/remote_source.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "base/values/base64.h"
#include "base/verity/block_list.h"
#include "cache/blob_store.h"
#include "cache/blocks/block_file.h"
#include "cache/direct_client.h"
#include "cache/maintenance.h"
#include "tests/cache/fetch_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary.h"

namespace weightfs::test::remote_source_test {
namespace {

using fetch_fixture::quick_retries;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

class RemoteSourceTest : public testing::Test {
 protected:
  // Serves `all` unless a test replaces it.
  HttpServer::Handler handler = [this](const SeenRequest& request, Wire& wire) { serve(request, wire); };
  void serve(const SeenRequest& request, Wire& wire) {
    const std::scoped_lock lock(mutex);
    if (request.header("if-none-match") != etag && request.range())
      sent += std::min<uint64_t>(request.range()->second, all.size()) - request.range()->first;
    serve_file(request, wire, all, etag);
  }

  BlobStorePtr store(bool offline = false, std::optional<uint64_t> quota = 1 << 30, StoreTimes times = {}) const {
    StoreOptions options;
    options.directory = directory;
    options.quota = quota;
    options.times = times;
    options.fetching.options = quick_retries();
    if (!offline) options.fetching.http = std::make_shared<http::DirectClient>(http::Options());
    return blob_store(std::move(options));
  }
  Result<SourcePtr> open(const BlobStorePtr& in, const std::string& path = "/model.gguf") const {
    return in->open_url(server->url(path));
  }
  static std::string read(const Source& source, uint64_t offset, size_t size) {
    std::string bytes(size, '\0');
    const auto got = source.read(offset, std::as_writable_bytes(std::span(bytes)));
    return got ? bytes.substr(0, *got) : "error: " + got.error().message;
  }
  // As a reader of the file from `expected` on.
  static std::string read_ahead(const Source& source, ByteRange expected, size_t block = 128 * kKiB) {
    std::string bytes(expected.to - expected.from, '\0');
    for (size_t at = 0; at < bytes.size(); at += block) {
      const auto out = std::as_writable_bytes(std::span(bytes)).subspan(at, std::min(block, bytes.size() - at));
      const auto got = source.read_ahead(expected.from + at, out, expected);
      if (!got) return "error: " + got.error().message;
    }
    return bytes;
  }
  // The ranges of all requests: "0-16383".
  std::vector<std::string> ranges() const {
    std::vector<std::string> out;
    for (const SeenRequest& request : server->requests()) {
      const auto range = request.range();
      out.push_back(range ? fmt::format("{}-{}", range->first, range->second - 1) : "all");
    }
    return out;
  }

  std::mutex mutex;  // guards the next three
  std::string all = some_bytes(8 * kMiB + 1000);
  std::string etag = "\"v1\"";
  uint64_t sent = 0;  // bytes, by ranges
  TemporaryDirectory temporary;
  std::string directory = temporary.path("cache");
  std::unique_ptr<HttpServer> server =
      std::make_unique<HttpServer>([this](const SeenRequest& request, Wire& wire) { handler(request, wire); });
};

TEST_F(RemoteSourceTest, OpeningRequestsTheFirstBlockOnly) {
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(source->size(), all.size());
  EXPECT_EQ(describe(read(*source, 100, 1000)), describe(all.substr(100, 1000)));
  EXPECT_THAT(ranges(), ElementsAre("0-16383"));
}

TEST_F(RemoteSourceTest, ReadRequestsItsBlocksOnly) {
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(describe(read(*source, 5 * kMiB + 100, 1000)), describe(all.substr(5 * kMiB + 100, 1000)));
  EXPECT_EQ(describe(read(*source, all.size() - 5, 100)), describe(all.substr(all.size() - 5)));
  EXPECT_THAT(ranges(), ElementsAre("0-16383", "5242880-5259263", "8388608-8389607"));
}

// semantics 16.7
TEST_F(RemoteSourceTest, StatusCountsCachedBlocks) {
  const auto present = [](const BlobStorePtr& cache) {
    const auto remotes = cache->status().remotes;
    return remotes.size() == 1 ? remotes[0].present : UINT64_MAX;
  };
  {
    const auto cache = store();
    const SourcePtr source = open(cache).value();
    EXPECT_EQ(source->verification(), VerifiedBy::transport);
    read(*source, 5 * kMiB - 1, 2);
    EXPECT_EQ(present(cache), 3u);
    read(*source, 5 * kMiB - 1, 2);
    EXPECT_EQ(present(cache), 3u);
    EXPECT_EQ(cache->status().remotes[0].blocks, 513u);
    EXPECT_EQ(cache->status().remotes[0].verified_blocks, std::nullopt);
  }
  const auto again = store();
  const SourcePtr source = open(again).value();
  read(*source, 5 * kMiB, 1);
  EXPECT_EQ(present(again), 3u);
  read_ahead(*source, {0, all.size()});
  EXPECT_TRUE(eventually([&] { return present(again) == 513; })) << "blocks can be read just before they are counted";
  read(*source, 0, 1);
  ASSERT_EQ(CacheMaintenance(directory).collect(0).value().remotes, 1u);
  read(*source, kMiB, 1);
  EXPECT_LE(present(again), 2u) << "evicted";
}

TEST_F(RemoteSourceTest, ReadAcrossManyGapsFillsEachOfThem) {
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  for (uint64_t at = kMiB; at < 2 * kMiB; at += 64 * kKiB) read(*source, at, 10);
  EXPECT_EQ(describe(read(*source, kMiB, kMiB)), describe(all.substr(kMiB, kMiB)));
}

TEST_F(RemoteSourceTest, ResponseWithoutTagIsAnotherVersion) {
  handler = [&](const SeenRequest& request, Wire& wire) {
    const auto range = request.range();
    if (range->first == 0) return serve(request, wire);
    wire.send(answer("206 Partial Content", all.substr(range->first, range->second - range->first),
                     {fmt::format("Content-Range: bytes {}-{}/{}", range->first, range->second - 1, all.size())}));
  };
  const auto cache = store();
  EXPECT_THAT(read(*open(cache).value(), kMiB, 100), HasSubstr("changed on the server"));
}

TEST_F(RemoteSourceTest, SecondReadRequestsNothing) {
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  read(*source, 3 * kMiB, kMiB);
  const size_t before = ranges().size();
  EXPECT_EQ(describe(read(*source, 3 * kMiB, kMiB)), describe(all.substr(3 * kMiB, kMiB)));
  EXPECT_EQ(ranges().size(), before);
}

TEST_F(RemoteSourceTest, SecondProcessDownloadsNoByte) {
  read(*open(store()).value(), 3 * kMiB, kMiB);
  const uint64_t before = sent;
  const auto cache = store();
  EXPECT_EQ(describe(read(*open(cache).value(), 3 * kMiB, kMiB)), describe(all.substr(3 * kMiB, kMiB)));
  EXPECT_EQ(describe(read(*open(cache).value(), 0, 100)), describe(all.substr(0, 100)));
  EXPECT_EQ(server->requests().back().header("if-none-match"), etag);
  EXPECT_EQ(sent, before);
}

TEST_F(RemoteSourceTest, TensorIsTransferredWithLittleMore) {
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  const ByteRange tensor{kMiB + 12345, 6 * kMiB + 77};
  const uint64_t before = sent;
  EXPECT_EQ(describe(read_ahead(*source, tensor)), describe(all.substr(tensor.from, tensor.to - tensor.from)));
  EXPECT_LE(sent - before, (tensor.to - tensor.from) + 32 * kKiB);
}

TEST_F(RemoteSourceTest, SmallTensorTakesOneRequest) {
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  const ByteRange tensor{kMiB + 5, kMiB + 200 * kKiB};
  EXPECT_EQ(describe(read_ahead(*source, tensor, 4096)), describe(all.substr(tensor.from, tensor.to - tensor.from)));
  EXPECT_EQ(ranges().size(), 2u);
}

TEST_F(RemoteSourceTest, WholeFileIsTransferredOnce) {
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(describe(read_ahead(*source, {0, all.size()})), describe(all));
  EXPECT_LE(sent, all.size() + 16 * kKiB);
}

TEST_F(RemoteSourceTest, ManyThreadsReadCorrectBytesAndDownloadThemOnce) {
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (uint32_t seed = 0; seed < 8; ++seed)
      threads.emplace_back([&, seed] {
        std::mt19937_64 random(seed);
        for (int i = 0; i < 60; ++i) {
          const uint64_t offset = random() % all.size();
          const size_t size = random() % (200 * kKiB);
          wrong += read(*source, offset, size) != all.substr(offset, size);
        }
      });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(sent, all.size() + 64 * kKiB);
}

TEST_F(RemoteSourceTest, TwoStoresDownloadTheSameBlocksOnce) {
  const auto one = store();
  const auto two = store();
  const SourcePtr mine = open(one).value();
  const SourcePtr other = open(two).value();
  {
    std::jthread thread([&] { EXPECT_EQ(describe(read_ahead(*mine, {0, all.size()})), describe(all)); });
    EXPECT_EQ(describe(read_ahead(*other, {0, all.size()})), describe(all));
  }
  EXPECT_LE(sent, all.size() + 64 * kKiB);
}

TEST_F(RemoteSourceTest, OfflineReadsCachedBlocksOnly) {
  read(*open(store()).value(), 3 * kMiB, 100);
  const size_t before = ranges().size();
  const auto cache = store(true);
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(source->size(), all.size());
  EXPECT_EQ(describe(read(*source, 3 * kMiB, 100)), describe(all.substr(3 * kMiB, 100)));
  EXPECT_THAT(read(*source, 5 * kMiB, 100), HasSubstr("not cached, and downloads are disabled by --offline"));
  EXPECT_EQ(ranges().size(), before);
  const auto unknown = open(cache, "/other.gguf");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::network);
}

TEST_F(RemoteSourceTest, ChangedFileIsNeverMixed) {
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  read(*source, 3 * kMiB, 100);
  const std::string before = all;
  {
    const std::scoped_lock lock(mutex);
    all = some_bytes(8 * kMiB + 1000, 99);
    etag = "\"v2\"";
  }
  EXPECT_THAT(read(*source, 5 * kMiB, 100), HasSubstr("changed on the server; mount it again"));
  EXPECT_EQ(read(*source, 3 * kMiB, 100), before.substr(3 * kMiB, 100));
  const auto again = store();
  const SourcePtr newer = open(again).value();
  EXPECT_EQ(describe(read(*newer, 3 * kMiB, 100)), describe(all.substr(3 * kMiB, 100)));
}

TEST_F(RemoteSourceTest, ServerThatIgnoresIfMatchIsDetectedByItsTag) {
  handler = [this](const SeenRequest& request, Wire& wire) {
    SeenRequest simple = request;
    simple.headers.erase("if-match");
    serve(simple, wire);
  };
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  {
    const std::scoped_lock lock(mutex);
    etag = "\"v2\"";
  }
  EXPECT_THAT(read(*source, 5 * kMiB, 100), HasSubstr("changed on the server"));
}

TEST_F(RemoteSourceTest, ServerWithoutRangesIsReadAsAStreamOnce) {
  std::atomic<int> requests = 0;
  handler = [&](const SeenRequest&, Wire& wire) {
    ++requests;
    wire.send(answer("200 OK", all, {"ETag: " + etag}));
  };
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(describe(read(*source, 5 * kMiB, 100)), describe(all.substr(5 * kMiB, 100)));
  EXPECT_EQ(describe(read(*source, kMiB, 100)), describe(all.substr(kMiB, 100)));
  EXPECT_EQ(describe(read_ahead(*source, {0, all.size()})), describe(all));
  EXPECT_EQ(requests, 2);
}

TEST_F(RemoteSourceTest, ServerThatStopsSendingRangesIsReadAsAStream) {
  std::atomic<int> requests = 0;
  handler = [&](const SeenRequest& request, Wire& wire) {
    if (requests++ == 0) return serve(request, wire);
    wire.send(answer("200 OK", all, {"ETag: " + etag}));
  };
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(describe(read(*source, 5 * kMiB, 100)), describe(all.substr(5 * kMiB, 100)));
  EXPECT_EQ(describe(read_ahead(*source, {0, all.size()})), describe(all));
  EXPECT_LE(requests, 3);
}

TEST_F(RemoteSourceTest, InterruptedRangeIsResumed) {
  std::atomic<int> cuts = 3;
  handler = [&](const SeenRequest& request, Wire& wire) {
    const auto range = request.range();
    if (range->first == 0 || cuts-- <= 0) return serve(request, wire);
    wire.send(answer("206 Partial Content", "",
                     {"ETag: " + etag, fmt::format("Content-Length: {}", range->second - range->first),
                      fmt::format("Content-Range: bytes {}-{}/{}", range->first, range->second - 1, all.size())}));
    wire.send(std::string_view(all).substr(range->first, 20 * kKiB));
    wire.close();
  };
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(describe(read(*source, kMiB, 200 * kKiB)), describe(all.substr(kMiB, 200 * kKiB)));
  EXPECT_THAT(ranges(),
              ElementsAre("0-16383", "1048576-1261567", "1069056-1261567", "1089536-1261567", "1110016-1261567"));
}

TEST_F(RemoteSourceTest, OneConnectionIsUsedForRangesOneAfterTheOther) {
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  for (uint64_t at = kMiB; at < 8 * kMiB; at += kMiB)
    EXPECT_EQ(describe(read(*source, at, 50 * kKiB)), describe(all.substr(at, 50 * kKiB)));
  EXPECT_EQ(server->requests().size(), 8U);
  std::set<uint64_t> connections;
  for (const SeenRequest& request : server->requests()) connections.insert(request.connection);
  EXPECT_EQ(connections.size(), 1U);
}

// The rest of the range does not arrive before the read has returned.
TEST_F(RemoteSourceTest, BytesAreReadWhileTheRestOfTheirRangeIsDelayed) {
  Gate gate;
  handler = [&](const SeenRequest& request, Wire& wire) {
    const auto range = request.range();
    if (range->first == 0) return serve(request, wire);
    wire.send(answer("206 Partial Content", "",
                     {"ETag: " + etag, fmt::format("Content-Length: {}", range->second - range->first),
                      fmt::format("Content-Range: bytes {}-{}/{}", range->first, range->second - 1, all.size())}));
    const auto body = std::string_view(all).substr(range->first, range->second - range->first);
    wire.send(body.substr(0, 40 * kKiB));
    gate.wait();
    wire.send(body.substr(40 * kKiB));
  };
  StoreOptions options{directory, 1 << 30};
  options.fetching.http = std::make_shared<http::DirectClient>(http::Options());
  const auto cache = blob_store(std::move(options));
  const SourcePtr source = open(cache).value();
  std::string first(16 * kKiB, '\0');
  const auto got =
      source->read_ahead(kMiB, std::as_writable_bytes(std::span(first)), ByteRange{kMiB, kMiB + 200 * kKiB});
  gate.open();
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(describe(first), describe(all.substr(kMiB, first.size())));
  EXPECT_EQ(describe(read(*source, kMiB, 200 * kKiB)), describe(all.substr(kMiB, 200 * kKiB)));
  EXPECT_THAT(ranges(), ElementsAre("0-16383", "1048576-1261567"));
}

// Another process has claimed the blocks, and is stopped: its reader would wait for it without end.
TEST_F(RemoteSourceTest, StoppedProcessDoesNotBlockReadersForever) {
  StoreOptions options{directory, 1 << 30};
  options.fetching.http = std::make_shared<http::DirectClient>(fetch_fixture::short_patience());
  const auto cache = blob_store(std::move(options));
  const SourcePtr source = open(cache).value();
  read(*source, 0, 100);
  const Descriptor root(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto other = store::BlockFile::of_files(store::open_files(root, data_files(directory).at(0), O_RDWR)).value();
  auto claim = store::BlockFile::claim(other, other->blocks_of(kMiB, 2 * kMiB));
  ASSERT_NE(claim, nullptr);
  EXPECT_THAT(read(*source, kMiB, 100), HasSubstr("another process is downloading it, and makes no progress"));
  claim = nullptr;
  EXPECT_EQ(describe(read(*source, kMiB, 100)), describe(all.substr(kMiB, 100)));
}

// It downloads the whole file slowly, and the other one waits for its last bytes.
TEST_F(RemoteSourceTest, ReaderWaitsForAnotherProcessThatMakesProgress) {
  handler = [&](const SeenRequest&, Wire& wire) {
    wire.send(fmt::format("HTTP/1.1 200 OK\r\nETag: {}\r\nContent-Length: {}\r\n\r\n", etag, all.size()));
    for (size_t at = 0; at < all.size() && wire.pause(std::chrono::milliseconds(60)); at += 256 * kKiB)
      wire.send(std::string_view(all).substr(at, 256 * kKiB));
  };
  StoreOptions options{directory, 1 << 30};
  options.fetching.http = std::make_shared<http::DirectClient>(fetch_fixture::short_patience());
  const auto other = blob_store(options);
  const SourcePtr first = open(other).value();
  read(*first, 0, 100);
  const auto cache = blob_store(options);
  const SourcePtr second = open(cache).value();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(describe(read(*second, all.size() - 100, 100)), describe(all.substr(all.size() - 100)));
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 4 * fetch_fixture::short_patience().stall_timeout)
      << "it did not wait";
}

TEST_F(RemoteSourceTest, DamagedBlockIsDownloadedAgainByASequentialReader) {
  const ByteRange whole{0, all.size()};
  EXPECT_EQ(describe(read_ahead(*open(store()).value(), whole)), describe(all));
  std::fstream file(data_files(directory).at(0), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(3 * kMiB + 5));
  file.put(static_cast<char>(all[3 * kMiB + 5] ^ 1));
  file.close();
  const size_t before = server->requests().size();
  const auto cache = store();
  EXPECT_EQ(describe(read_ahead(*open(cache).value(), whole)), describe(all));
  const std::vector<std::string> seen = ranges();
  EXPECT_THAT(std::vector(seen.begin() + static_cast<std::ptrdiff_t>(before), seen.end()),
              ElementsAre("0-16383", "3145728-3162111"));
}

// semantics 16.3: also in a process that compared the block before.
TEST_F(RemoteSourceTest, BlockDroppedByVerifyIsDownloadedAgain) {
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(describe(read(*source, 0, 3 * 16 * kKiB)), describe(all.substr(0, 3 * 16 * kKiB)));
  const std::string blocks = data_files(directory).at(0);
  std::fstream(blocks, std::ios::in | std::ios::out | std::ios::binary).seekp(20'000).put('?').put('!');
  const auto before = ranges();
  // The transfer holds its lock a little longer than the read waits, and locked blocks are skipped.
  VerifyResult checked;
  EXPECT_TRUE(eventually([&] {
    checked = CacheMaintenance(directory).verify({}).value();
    return !checked.mismatched.empty();
  }));
  EXPECT_EQ(checked.mismatched.size(), 1u);
  EXPECT_EQ(checked.blocks.valid, 2u);
  EXPECT_EQ(source->cached({0, 3 * 16 * kKiB})->now, 2 * 16 * kKiB);
  EXPECT_EQ(describe(read(*source, 0, 3 * 16 * kKiB)), describe(all.substr(0, 3 * 16 * kKiB)));
  EXPECT_EQ(ranges().size(), before.size() + 1);
  EXPECT_EQ(ranges().back(), "16384-32767");
  EXPECT_EQ(CacheMaintenance(directory).verify({})->blocks.valid, 3u);
}

TEST_F(RemoteSourceTest, CachedCountsPresentBytesOfTheRange) {
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(source->cached({0, source->size()})->now, 16 * kKiB);
  read(*source, 5 * kMiB, 16 * kKiB);
  EXPECT_EQ(source->cached({0, source->size()})->now, 32 * kKiB);
  EXPECT_EQ(source->cached({5 * kMiB - 100, 5 * kMiB + 100})->now, 100u);
  EXPECT_EQ(source->cached({5 * kMiB + 50, 5 * kMiB + 100})->now, 50u);
  EXPECT_EQ(source->cached({6 * kMiB, 7 * kMiB})->now, 0u);
  EXPECT_EQ(source->cached({0, source->size()})->before, 0u);
  EXPECT_EQ(ranges().size(), 2u);
  const auto other = store();
  EXPECT_EQ(open(other).value()->cached({0, source->size()})->before, 32 * kKiB);
}

TEST_F(RemoteSourceTest, ShorterRangeThanRequestedIsContinued) {
  handler = [&](const SeenRequest& request, Wire& wire) {
    SeenRequest shorter = request;
    const auto range = request.range();
    shorter.headers["range"] =
        fmt::format("bytes={}-{}", range->first, std::min(range->second - 1, range->first + 29'999));
    serve(shorter, wire);
  };
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(describe(read(*source, kMiB, 100 * kKiB)), describe(all.substr(kMiB, 100 * kKiB)));
}

TEST_F(RemoteSourceTest, OtherRangeThanRequestedIsRefused) {
  handler = [&](const SeenRequest& request, Wire& wire) {
    SeenRequest moved = request;
    if (const auto range = request.range(); range->first > 0)
      moved.headers["range"] = fmt::format("bytes={}-{}", range->first + 1, range->second);
    serve(moved, wire);
  };
  const auto cache = store();
  EXPECT_THAT(read(*open(cache).value(), kMiB, 100), HasSubstr("requested bytes from 1048576"));
}

// Serves `all` with the digest of `stated`.
HttpServer::Handler states_digest(const std::string& all, const std::string& etag, const std::string& stated) {
  const Digest digest = sha256(stated);
  const std::string bytes(reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size());
  return [=, &all](const SeenRequest& request, Wire& wire) {
    const auto range = request.range();
    if (!range || request.header("if-none-match") == etag) return serve_file(request, wire, all, etag);
    const uint64_t end = std::min<uint64_t>(range->second, all.size());
    wire.send(answer("206 Partial Content", all.substr(range->first, end - range->first),
                     {"ETag: " + etag, fmt::format("Repr-Digest: sha-256=:{}:", base64(bytes)),
                      fmt::format("Content-Range: bytes {}-{}/{}", range->first, end - 1, all.size())}));
  };
}

// semantics 21.6
TEST_F(RemoteSourceTest, FileIsPublishedUnderTheDigestThatItsServerStates) {
  handler = states_digest(all, etag, all);
  {
    const auto cache = store();
    const SourcePtr source = open(cache).value();
    EXPECT_EQ(describe(read(*source, 0, all.size())), describe(all));
    EXPECT_EQ(source->verification(), VerifiedBy::transport);
    ASSERT_TRUE(cache->verify_complete());
    EXPECT_EQ(source->verification(), VerifiedBy::whole);
  }
  EXPECT_TRUE(
      std::filesystem::exists(directory + "/v1/blobs/" + sha256(all).hex().substr(0, 2) + "/" + sha256(all).hex()));
  const size_t before = server->requests().size();
  const auto cache = store();
  EXPECT_EQ(describe(read(*open(cache).value(), 0, all.size())), describe(all));
  EXPECT_EQ(server->requests().size(), before + 1) << "the version is asked for, and the digest was saved";
}

TEST_F(RemoteSourceTest, FileWithAnotherDigestThanItsServerStatesIsDropped) {
  handler = states_digest(all, etag, "other bytes");
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(describe(read(*source, 0, all.size())), describe(all));
  const auto verified = cache->verify_complete();
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code, Code::mismatch);
  EXPECT_THAT(read(*source, 0, 100), HasSubstr("digest mismatch"));
}

// semantics 21.3
TEST_F(RemoteSourceTest, ServersWithDifferentTagsAreNamed) {
  std::atomic<bool> is_other = false;
  handler = [&](const SeenRequest& request, Wire& wire) { serve_file(request, wire, all, is_other ? "\"v2\"" : etag); };
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  is_other = true;
  EXPECT_THAT(read(*source, kMiB, 100), HasSubstr("changed on the server"));
  is_other = false;
  EXPECT_EQ(describe(read(*source, kMiB, 100)), describe(all.substr(kMiB, 100)));
  is_other = true;
  EXPECT_THAT(read(*source, 2 * kMiB, 100), HasSubstr("several servers with different ETags"));
}

// semantics 21.4
TEST_F(RemoteSourceTest, RangesWithAWordThatIsNoCodingAreReadAsTheyAre) {
  handler = [&](const SeenRequest& request, Wire& wire) {
    const auto range = request.range();
    const uint64_t end = std::min<uint64_t>(range->second, all.size());
    wire.send(answer("206 Partial Content", all.substr(range->first, end - range->first),
                     {"Content-Encoding: aws-chunked", "ETag: \"v1\"",
                      fmt::format("Content-Range: bytes {}-{}/{}", range->first, end - 1, all.size())}));
  };
  const auto cache = store();
  EXPECT_EQ(describe(read(*open(cache).value(), kMiB, 100 * kKiB)), describe(all.substr(kMiB, 100 * kKiB)));
  EXPECT_EQ(server->requests().size(), 2u);
}

// semantics 21.4: a cache that sends its whole slice.
TEST_F(RemoteSourceTest, LargerRangeGivesTheRequestedBytes) {
  constexpr uint64_t kSlice = 2 * kMiB;
  handler = [&](const SeenRequest& request, Wire& wire) {
    SeenRequest larger = request;
    const auto range = request.range();
    larger.headers["range"] =
        fmt::format("bytes={}-{}", range->first / kSlice * kSlice, (range->second + kSlice - 1) / kSlice * kSlice - 1);
    serve(larger, wire);
  };
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  for (const uint64_t at : {3 * kMiB + 5, 5 * kMiB - 100, 7 * kMiB, all.size() - 200})
    EXPECT_EQ(describe(read(*source, at, 100)), describe(all.substr(at, 100)));
  EXPECT_EQ(server->requests().size(), 5u);
}

TEST_F(RemoteSourceTest, RangeWithFarMoreBeforeItIsRefused) {
  all = some_bytes(20 * kMiB);
  handler = [&](const SeenRequest& request, Wire& wire) {
    SeenRequest whole = request;
    if (const auto range = request.range(); range->first > 0)
      whole.headers["range"] = fmt::format("bytes=0-{}", range->second - 1);
    serve(whole, wire);
  };
  const auto cache = store();
  EXPECT_THAT(read(*open(cache).value(), 10 * kMiB, 100), HasSubstr("requested bytes from 10485760"));
}

TEST_F(RemoteSourceTest, Status200WithContentRangeIsAPart) {
  handler = [&](const SeenRequest& request, Wire& wire) {
    const auto [begin, end] = *request.range();
    const std::string part = all.substr(begin, end - begin);
    wire.send(answer(
        "200 OK", part,
        {"ETag: " + etag, fmt::format("Content-Range: bytes {}-{}/{}", begin, begin + part.size() - 1, all.size())}));
  };
  const auto cache = store();
  EXPECT_EQ(describe(read(*open(cache).value(), kMiB, 100)), describe(all.substr(kMiB, 100)));
}

TEST_F(RemoteSourceTest, EncodedPartIsRefused) {
  handler = [&](const SeenRequest& request, Wire& wire) {
    if (request.range()->first == 0) return serve(request, wire);
    const auto [begin, end] = *request.range();
    wire.send(
        answer("206 Partial Content", all.substr(begin, end - begin),
               {"Content-Encoding: gzip", fmt::format("Content-Range: bytes {}-{}/{}", begin, end - 1, all.size())}));
  };
  const auto cache = store();
  EXPECT_THAT(read(*open(cache).value(), kMiB, 100), HasSubstr("content-length contradicts content-range"));
}

TEST_F(RemoteSourceTest, FileWithoutTagIsNotSharedWithOtherProcesses) {
  handler = [&](const SeenRequest& request, Wire& wire) {
    const std::scoped_lock lock(mutex);
    serve_file(request, wire, all, "W/\"weak\"");
  };
  EXPECT_EQ(describe(read(*open(store()).value(), kMiB, 100)), describe(all.substr(kMiB, 100)));
  const size_t before = ranges().size();
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(source->identity(), "");
  EXPECT_EQ(describe(read(*source, kMiB, 100)), describe(all.substr(kMiB, 100)));
  EXPECT_EQ(ranges().size(), before + 2);
}

TEST_F(RemoteSourceTest, UnquotedTagPinsTheVersionButIsNotSentBack) {
  etag = "sha256:0123";
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(describe(read(*source, kMiB, 100)), describe(all.substr(kMiB, 100)));
  EXPECT_EQ(server->requests().back().header("if-match"), "");
  EXPECT_NE(source->identity(), "");
}

TEST_F(RemoteSourceTest, ExpiredRedirectIsResolvedAgain) {
  std::atomic<int> signature = 0;
  handler = [&](const SeenRequest& request, Wire& wire) {
    if (request.target == "/model.gguf")
      return void(wire.send(answer("302 Found", "", {fmt::format("Location: /signed?s={}", ++signature)})));
    if (request.target != fmt::format("/signed?s={}", signature.load()))
      return void(wire.send(answer("403 Forbidden", "")));
    serve(request, wire);
  };
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(describe(read(*source, kMiB, 100)), describe(all.substr(kMiB, 100)));
  EXPECT_EQ(signature, 1) << "the target of the redirect is used again";
  ++signature;
  EXPECT_EQ(describe(read(*source, 3 * kMiB, 100)), describe(all.substr(3 * kMiB, 100)));
  EXPECT_EQ(signature, 3);
}

TEST_F(RemoteSourceTest, MissingFileIsNotFound) {
  handler = [](const SeenRequest&, Wire& wire) { wire.send(answer("404 Not Found", "")); };
  const auto cache = store();
  const auto source = open(cache);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, Code::not_found);
}

TEST_F(RemoteSourceTest, EmptyFileMayHaveABodyWithItsError) {
  handler = [&](const SeenRequest&, Wire& wire) {
    wire.send(answer("416 Range Not Satisfiable", "<html>416</html>", {"ETag: \"a\"", "Content-Range: bytes */0"}));
  };
  const auto cache = store();
  const auto source = open(cache);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->size(), 0u);
  EXPECT_EQ(server->requests().size(), 1u);
}

// A request may fail just when its reader looks for new blocks, which it does all the time here.
TEST_F(RemoteSourceTest, EachFailedReadSendsOneRequest) {
  std::atomic<int> count = 0;
  handler = [&](const SeenRequest& request, Wire& wire) {
    if (request.range()->first == 0) return serve(request, wire);
    ++count;
    wire.send(answer("403 Forbidden", ""));
  };
  const auto cache = store(false, 1 << 30, {.block_check = std::chrono::milliseconds(0)});
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < 8; ++i)
      readers.emplace_back([&, i] {
        const SourcePtr source = open(cache, fmt::format("/model{}.gguf", i)).value();
        for (int read_number = 0; read_number < 40; ++read_number)
          EXPECT_THAT(read(*source, kMiB, 100), HasSubstr("403 Forbidden"));
      });
  }
  EXPECT_EQ(count, 8 * 40);
}

// No other process can use its blocks, and no scan evicts them.
TEST_F(RemoteSourceTest, FileWithoutTagIsReadInPassesWithinTheQuota) {
  etag = "W/\"v1\"";
  constexpr uint64_t kQuota = 3 * kMiB;
  for (const std::string& where : {directory, std::string()}) {
    StoreOptions options{where, kQuota};
    options.fetching.http = std::make_shared<http::DirectClient>(http::Options());
    const auto cache = blob_store(std::move(options));
    const SourcePtr source = open(cache).value();
    for (size_t at = 0; at < all.size(); at += 256 * kKiB) {
      ASSERT_EQ(describe(read(*source, at, 256 * kKiB)), describe(all.substr(at, 256 * kKiB)));
      EXPECT_LE(CacheMaintenance(directory).inventory().value().on_disk, kQuota);
    }
  }
}

// Each connection is cut after three blocks.
TEST_F(RemoteSourceTest, FailedTransfersReleaseTheirSpaceInTemporaryFiles) {
  std::atomic<bool> is_cut = true;
  handler = [&](const SeenRequest&, Wire& wire) {
    wire.send(fmt::format("HTTP/1.1 200 OK\r\nETag: {}\r\nContent-Length: {}\r\n\r\n", etag, all.size()));
    wire.send(is_cut ? all.substr(0, 48 * kKiB) : all);
    if (is_cut) wire.close();
  };
  StoreOptions options;
  options.quota = 3 * all.size();
  options.fetching.options = quick_retries();
  options.fetching.options.retries = 0;
  options.fetching.http = std::make_shared<http::DirectClient>(http::Options());
  const auto cache = blob_store(std::move(options));
  const SourcePtr source = open(cache).value();
  for (int i = 0; i < 10; ++i) EXPECT_THAT(read(*source, kMiB, 100), Not(HasSubstr("limited")));
  is_cut = false;
  EXPECT_EQ(describe(read(*source, kMiB, 100)), describe(all.substr(kMiB, 100)));
}

// After a range that was cut, the server sends the whole file, which a reader of earlier bytes waits for.
TEST_F(RemoteSourceTest, RangeThatContinuesAsAStreamServesEarlierBlocks) {
  std::atomic<int> count = 0;
  handler = [&](const SeenRequest& request, Wire& wire) {
    const int number = count++;
    if (number == 0) return serve(request, wire);
    const auto range = number == 1 ? request.range() : std::nullopt;
    if (range) {
      wire.send(answer("206 Partial Content", "",
                       {"ETag: " + etag, fmt::format("Content-Length: {}", range->second - range->first),
                        fmt::format("Content-Range: bytes {}-{}/{}", range->first, range->second - 1, all.size())}));
      wire.send(std::string_view(all).substr(range->first, 300'000));
      return wire.close();
    }
    wire.send(fmt::format("HTTP/1.1 200 OK\r\nETag: {}\r\nContent-Length: {}\r\n\r\n", etag, all.size()) + all);
  };
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(describe(read(*source, 5 * kMiB, kMiB)), describe(all.substr(5 * kMiB, kMiB)));
  EXPECT_EQ(describe(read(*source, kMiB, 100)), describe(all.substr(kMiB, 100)));
  EXPECT_EQ(count, 3) << "the stream has all bytes";
}

// A stream that is cut continues from its last byte, also behind the range for which it was requested.
TEST_F(RemoteSourceTest, InterruptedStreamIsResumedToItsEnd) {
  std::atomic<int> count = 0;
  handler = [&](const SeenRequest&, Wire& wire) {
    const bool is_cut = ++count < 4;
    wire.send(fmt::format("HTTP/1.1 200 OK\r\nETag: {}\r\nContent-Length: {}\r\n\r\n", etag, all.size()));
    wire.send(is_cut ? all.substr(0, static_cast<size_t>(count) * 2 * kMiB) : all);
    if (is_cut) wire.close();
  };
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(describe(read(*source, 0, 100)), describe(all.substr(0, 100)));
  EXPECT_EQ(describe(read_ahead(*source, {0, all.size()})), describe(all));
  EXPECT_EQ(count, 4);
}

TEST_F(RemoteSourceTest, EmptyFileHasNoBytes) {
  all.clear();
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(source->size(), 0u);
  EXPECT_EQ(read(*source, 0, 10), "");
}

TEST_F(RemoteSourceTest, UnreportedSizeIsUnsupported) {
  handler = [](const SeenRequest&, Wire& wire) {
    wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  };
  const auto cache = store();
  const auto source = open(cache);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, Code::unsupported);
}

TEST_F(RemoteSourceTest, EvictedBlocksAreDownloadedAgain) {
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  read(*source, 3 * kMiB, 100);
  ASSERT_EQ(CacheMaintenance(directory).collect(0).value().remotes, 1u);
  EXPECT_EQ(describe(read(*source, 3 * kMiB, 100)), describe(all.substr(3 * kMiB, 100)));
}

TEST_F(RemoteSourceTest, FileLargerThanTheQuotaIsReadInPasses) {
  const auto cache = store(false, 3 * kMiB);
  const SourcePtr source = open(cache).value();
  for (uint64_t at = 0; at < all.size(); at += kMiB)
    EXPECT_EQ(describe(read(*source, at, kMiB)), describe(all.substr(at, kMiB))) << at;
}

TEST_F(RemoteSourceTest, SequentialReaderOfAFileLargerThanTheQuotaGetsItOnce) {
  const auto cache = store(false, 3 * kMiB);
  const SourcePtr source = open(cache).value();
  EXPECT_EQ(describe(read_ahead(*source, {0, all.size()})), describe(all));
  EXPECT_LE(sent, 2 * all.size());
}

TEST_F(RemoteSourceTest, ServerFailureIsReportedAndRetriedByTheNextRead) {
  std::atomic<bool> is_down = false;
  handler = [&](const SeenRequest& request, Wire& wire) {
    if (is_down) return void(wire.send(answer("503 Service Unavailable", "")));
    serve(request, wire);
  };
  const auto cache = store();
  const SourcePtr source = open(cache).value();
  is_down = true;
  EXPECT_THAT(read(*source, kMiB, 100), HasSubstr("503 Service Unavailable"));
  is_down = false;
  EXPECT_EQ(describe(read(*source, kMiB, 100)), describe(all.substr(kMiB, 100)));
}

// The block list of these bytes.
BlockListPtr list_of(const std::string& bytes) {
  auto list = std::make_shared<std::string>();
  BlockListBuilder builder(bytes.size(), [&](uint64_t offset, std::span<const std::byte> part) -> Result<void> {
    list->resize(std::max(list->size(), static_cast<size_t>(offset) + part.size()));
    std::memcpy(list->data() + offset, part.data(), part.size());
    return {};
  });
  EXPECT_TRUE(builder.add(std::as_bytes(std::span(bytes))));
  EXPECT_TRUE(builder.finish());
  return BlockList::open(in_memory(*list)).value();
}

TEST_F(RemoteSourceTest, BlockListVerifiesRangesBeforeTheyAreRead) {
  const BlockListPtr list = list_of(all);
  all[5 * kMiB] = static_cast<char>(all[5 * kMiB] ^ 1);
  const auto cache = store();
  const SourcePtr source = cache->open_url(server->url("/model.gguf"), list).value();
  EXPECT_EQ(describe(read(*source, kMiB, 1000)), describe(all.substr(kMiB, 1000)));
  EXPECT_EQ(describe(read(*source, all.size() - 5, 5)), describe(all.substr(all.size() - 5)));
  EXPECT_THAT(read(*source, 5 * kMiB + 100, 100), HasSubstr("/model.gguf: "));
  const auto wrong = source->read(5 * kMiB + 100, std::as_writable_bytes(std::span(all)).first(10));
  EXPECT_EQ(wrong.error().code, Code::mismatch);
  EXPECT_EQ(cache->status().remotes.at(0).verified, "blocks");
}

TEST_F(RemoteSourceTest, BlocksBeforeOneThatDoesNotMatchAreKept) {
  const BlockListPtr list = list_of(all);
  all[5 * kMiB] = static_cast<char>(all[5 * kMiB] ^ 1);
  const auto cache = store();
  const SourcePtr source = cache->open_url(server->url("/model.gguf"), list).value();
  EXPECT_THAT(read(*source, 5 * kMiB - 64 * kKiB, 80 * kKiB), HasSubstr("error: "));
  const size_t before = server->requests().size();
  EXPECT_EQ(describe(read(*source, 5 * kMiB - 64 * kKiB, 64 * kKiB)),
            describe(all.substr(5 * kMiB - 64 * kKiB, 64 * kKiB)));
  EXPECT_EQ(server->requests().size(), before);
}

TEST_F(RemoteSourceTest, BlocksCachedWithoutABlockListAreNotUsedWithOne) {
  const BlockListPtr list = list_of(all);
  all[kMiB] = static_cast<char>(all[kMiB] ^ 1);
  const auto cache = store();
  EXPECT_EQ(describe(read(*open(cache).value(), kMiB, 100)), describe(all.substr(kMiB, 100)));
  EXPECT_THAT(read(*cache->open_url(server->url("/model.gguf"), list).value(), kMiB, 100), HasSubstr("error: "));
}

TEST_F(RemoteSourceTest, BlockListOfAFileOfAnotherSizeIsRefused) {
  const auto cache = store();
  const auto source = cache->open_url(server->url("/model.gguf"), list_of(all.substr(1)));
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, Code::mismatch);
}

}  // namespace
}  // namespace weightfs::test::remote_source_test
