// Large blobs of the user's registries are read by ranges, and verified when they are complete.
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/cancel.h"
#include "base/download_scope.h"
#include "cache/blob_store.h"
#include "cache/direct_client.h"
#include "cache/maintenance.h"
#include "tests/cache/fetch_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary.h"

namespace weightfs::test::ranged_blob_test {
namespace {

using fetch_fixture::quick_retries;
using testing::HasSubstr;

constexpr uint64_t kMiB = 1024 * 1024;
constexpr std::chrono::milliseconds kNextVerification{20};

class RangedBlobTest : public testing::Test {
 protected:
  BlobStorePtr offline_store() const {
    StoreOptions options;
    options.directory = directory;
    return blob_store(std::move(options));
  }
  BlobStorePtr store(bool verify_whole = false, std::chrono::seconds wait_for_ranges = {}) const {
    StoreOptions options;
    options.directory = directory;
    options.quota = 1 << 30;
    options.fetching.options = quick_retries();
    options.fetching.http = std::make_shared<http::DirectClient>(http::Options());
    options.fetching.verify_whole = verify_whole;
    options.fetching.wait_for_ranges = wait_for_ranges;
    options.times.next_verification = kNextVerification;
    return blob_store(std::move(options));
  }
  ResolvedBlob resolved(const BlobStorePtr& in, http::Trust trust = http::Trust::user) const {
    const BlobRef ref{.name = "model", .digest = digest, .size = all.size()};
    return in->resolve_from(ref, {{server->url("/blob"), trust}}).value();
  }
  static std::string read(const Source& source, uint64_t offset, size_t size) {
    std::string bytes(size, '\0');
    const auto got = source.read_ahead(offset, std::as_writable_bytes(std::span(bytes)), {offset, offset + size});
    return got ? bytes.substr(0, *got) : "error: " + got.error().message;
  }
  std::string blob_path() const {
    return fmt::format("{}/v1/blobs/{}/{}", directory, digest.hex().substr(0, 2), digest.hex());
  }
  bool is_published() const {
    return eventually([&] { return std::filesystem::exists(blob_path()); });
  }
  // By all reads of this process.
  static uint64_t bytes_read() {
    std::string name;
    uint64_t bytes = 0;
    std::ifstream("/proc/self/io") >> name >> bytes;
    return bytes;
  }
  // Disk space of the cached ranges.
  uint64_t ranges_on_disk() const { return usage_of(CacheMaintenance(directory).inventory().value()).remote_bytes; }

  std::string all = some_bytes(9 * kMiB + 5);
  Digest digest = sha256(all);
  std::string served = all;
  std::string etag = "\"e1\"";
  std::atomic<uint64_t> sent = 0;
  std::atomic<int> refusals = 0;      // requests that get 503 first
  std::atomic<bool> is_slow = false;  // sends the ranges in pieces, with pauses
  TemporaryDirectory temporary;
  std::string directory = temporary.path("cache");
  std::unique_ptr<HttpServer> server = std::make_unique<HttpServer>([this](const SeenRequest& request, Wire& wire) {
    if (refusals > 0 && refusals-- > 0) return static_cast<void>(wire.send(answer("503 Service Unavailable", "")));
    const auto range = request.range();
    sent += range ? std::min<uint64_t>(range->second, served.size()) - range->first : served.size();
    if (!is_slow || !range) return serve_file(request, wire, served, etag);
    const uint64_t end = std::min<uint64_t>(range->second, served.size());
    wire.send(answer("206 Partial Content", "",
                     {"ETag: \"e1\"", fmt::format("Content-Length: {}", end - range->first),
                      fmt::format("Content-Range: bytes {}-{}/{}", range->first, end - 1, served.size())}));
    constexpr uint64_t kPiece = 16 * 1024;
    for (uint64_t at = range->first; at < end && wire.pause(std::chrono::milliseconds(2)); at += kPiece)
      wire.send(std::string_view(served).substr(at, std::min(kPiece, end - at)));
  });
};

TEST_F(RangedBlobTest, ReadDownloadsItsRangeOnly) {
  const auto cache = store();
  EXPECT_EQ(describe(read(*resolved(cache).verified, 5 * kMiB, 1000)), describe(all.substr(5 * kMiB, 1000)));
  EXPECT_LE(sent, 64u * 1024);
  EXPECT_FALSE(std::filesystem::exists(blob_path()));
}

TEST_F(RangedBlobTest, HeaderIsParsedFromItsRange) {
  const auto cache = store();
  std::string head(1000, '\0');
  ASSERT_TRUE(resolved(cache).unverified->read(0, std::as_writable_bytes(std::span(head))));
  EXPECT_EQ(head, all.substr(0, 1000));
  EXPECT_LE(sent, 64u * 1024);
}

TEST_F(RangedBlobTest, CompleteRangesBecomeTheBlob) {
  const auto cache = store();
  const ResolvedBlob blob = resolved(cache);
  EXPECT_EQ(describe(read(*blob.verified, 0, all.size())), describe(all));
  EXPECT_TRUE(is_published());
  EXPECT_EQ(ranges_on_disk(), 0u);
  const uint64_t before = sent;
  const auto again = store(true);
  EXPECT_EQ(describe(read(*resolved(again).verified, 5 * kMiB, 1000)), describe(all.substr(5 * kMiB, 1000)));
  EXPECT_EQ(sent, before);
}

// semantics 16.4
TEST_F(RangedBlobTest, PinnedRangesBecomeAPinnedBlob) {
  const CacheMaintenance maintenance(directory);
  const auto cache = store();
  const SourcePtr blob = resolved(cache).verified;
  read(*blob, 0, 1000);
  const auto ranges = maintenance.inventory().value().items;
  const auto remote = std::ranges::find(ranges, ItemKind::remote, &store::Item::kind);
  ASSERT_NE(remote, ranges.end());
  ASSERT_TRUE(maintenance.pin(remote->digest).value());
  ASSERT_TRUE(blob->prefetch({0, all.size()}));
  const auto items = maintenance.inventory().value().items;
  const auto published = std::ranges::find(items, digest, &store::Item::digest);
  ASSERT_NE(published, items.end());
  EXPECT_TRUE(published->pinned);
  EXPECT_THAT(published->names, testing::Contains(Name{NameKind::url, server->url("/blob")}));
  EXPECT_EQ(files_in(directory + "/v1/pins"), std::vector{digest.hex()});
}

TEST_F(RangedBlobTest, CompleteRangesThatDoNotMatchAreDroppedAndReadsFail) {
  served[7 * kMiB] = static_cast<char>(served[7 * kMiB] ^ 1);
  const auto cache = store();
  const ResolvedBlob blob = resolved(cache);
  EXPECT_THAT(read(*blob.verified, 0, all.size()), HasSubstr("do not match: digest mismatch"));
  EXPECT_THAT(read(*blob.verified, 0, 100), HasSubstr("do not match: digest mismatch"));
  EXPECT_FALSE(std::filesystem::exists(blob_path()));
  EXPECT_LE(ranges_on_disk(), 64u * 1024) << "a read that had begun may have opened the file again";
  const uint64_t before = sent;
  EXPECT_FALSE(blob.verified->prefetch({0, all.size()}));
  EXPECT_THAT(read(*blob.verified, 0, 100), HasSubstr("do not match"));
  EXPECT_EQ(sent, before) << "nothing is downloaded again";
}

// A process that evicts the file locks the first byte of its map (block_file.h), so that its space cannot be held for a
// verification.
TEST_F(RangedBlobTest, CompleteRangesAreVerifiedAgainAfterAFailure) {
  const auto cache = store();
  const ResolvedBlob blob = resolved(cache);
  read(*blob.verified, 0, 100);
  Descriptor other(::open((data_files(directory).at(0) + ".map").c_str(), O_RDWR | O_CLOEXEC));
  struct flock first {};
  first.l_type = F_WRLCK;
  first.l_len = 1;
  ASSERT_EQ(::fcntl(other.number(), F_OFD_SETLK, &first), 0);
  EXPECT_EQ(describe(read(*blob.verified, 0, all.size())), describe(all));
  const auto is_published = [&] {
    EXPECT_EQ(describe(read(*blob.verified, 0, 100)), describe(all.substr(0, 100)));
    return std::filesystem::exists(blob_path());
  };
  EXPECT_FALSE(eventually(is_published, 5 * kNextVerification));
  other = Descriptor();
  EXPECT_TRUE(eventually(is_published));
}

// The next read may have its range soon; the whole blob may take hours.
TEST_F(RangedBlobTest, ServerThatDoesNotRespondCausesNoWholeDownload) {
  refusals = 4;  // quick_retries() has three retries
  const auto cache = store();
  const ResolvedBlob blob = resolved(cache);
  EXPECT_THAT(read(*blob.verified, 5 * kMiB, 1000), HasSubstr("503"));
  EXPECT_EQ(describe(read(*blob.verified, 5 * kMiB, 1000)), describe(all.substr(5 * kMiB, 1000)));
  EXPECT_LE(sent, 64u * 1024);
}

// semantics 21.6
TEST_F(RangedBlobTest, OfflineReadsCachedRangesOnly) {
  {
    const BlobRef ref{.name = "model", .digest = digest, .size = all.size()};
    const auto unknown = offline_store()->resolve_from(ref, {{server->url("/blob")}});
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, Code::network);
  }
  read(*resolved(store()).verified, 5 * kMiB, 1000);
  const uint64_t before = sent;
  const auto offline = offline_store();
  const ResolvedBlob blob = resolved(offline);
  EXPECT_EQ(describe(read(*blob.verified, 5 * kMiB, 1000)), describe(all.substr(5 * kMiB, 1000)));
  EXPECT_EQ(blob.verified->verification(), VerifiedBy::transport);
  EXPECT_THAT(read(*blob.verified, 2 * kMiB, 1000), HasSubstr("not cached, and downloads are disabled by --offline"));
  EXPECT_FALSE(blob.verified->prefetch({0, all.size()}));
  EXPECT_EQ(sent, before);
}

TEST_F(RangedBlobTest, SizeThatOnlyAMirrorReportsIsNotStated) {
  std::string copy = "not the blob";
  HttpServer mirror([&](const SeenRequest& request, Wire& wire) { serve_file(request, wire, copy); });
  server = std::make_unique<HttpServer>([](const SeenRequest&, Wire& wire) { wire.send(answer("404 Not Found", "")); });
  const auto resolved = [&] {
    return store()->resolve_from({.name = "model", .digest = digest, .size = {}},
                                 {{.url = mirror.url("/blob"), .is_mirror = true}, {.url = server->url("/blob")}});
  };
  EXPECT_FALSE(resolved()) << "the copy does not match the digest";
  EXPECT_FALSE(std::filesystem::exists(blob_path()));
  copy = all;
  const auto found = resolved();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->verified->size(), all.size());
  EXPECT_TRUE(is_published()) << "the size of verified bytes";
}

// The size of a blob that is not local is a claim: it extends the budget of a container by a limited size.
TEST_F(RangedBlobTest, ClaimedSizeExtendsABudgetByALimitedSize) {
  const BlobRef ref{.name = "model", .digest = digest, .size = uint64_t{1} << 40};
  EXPECT_EQ(store()->resolve_from(ref, {{server->url("/blob")}})->verified->occupied(), 256 * kMiB);
}

// semantics 16.8
TEST_F(RangedBlobTest, VerificationIsOfTheTransportUntilAllBytesMatch) {
  const auto cache = store();
  const ResolvedBlob blob = resolved(cache);
  EXPECT_EQ(blob.verified->verification(), VerifiedBy::unknown);
  read(*blob.verified, 5 * kMiB, 1000);
  EXPECT_EQ(blob.verified->verification(), VerifiedBy::transport);
  const auto remotes = cache->status().remotes;
  ASSERT_EQ(remotes.size(), 1u);
  EXPECT_EQ(remotes[0].blocks, 577u);
  EXPECT_EQ(remotes[0].present, 2u) << "the head, and that of the read";
  EXPECT_EQ(remotes[0].verified_blocks, 0u);
  ASSERT_TRUE(blob.verified->prefetch({0, all.size()}));
  EXPECT_EQ(blob.verified->verification(), VerifiedBy::whole);
  const auto verified = cache->in_progress_status().remotes;
  ASSERT_EQ(verified.size(), 1u);
  EXPECT_EQ(verified[0].present, 577u);
  EXPECT_EQ(verified[0].verified_blocks, 577u);
  EXPECT_EQ(resolved(store(true)).verified->verification(), VerifiedBy::whole) << "cached";
}

// semantics 16.7
TEST_F(RangedBlobTest, StatusHasTheProgressOfAComparison) {
  is_slow = true;
  const auto cache = store();
  const SourcePtr blob = resolved(cache).verified;
  read(*blob, 0, 100);
  EXPECT_EQ(cache->status().remotes.at(0).comparing, std::nullopt);
  {
    const std::jthread fetching([&] { EXPECT_TRUE(blob->prefetch({0, all.size()})); });
    EXPECT_TRUE(eventually([&] { return cache->status().remotes.at(0).comparing.value_or(0) > 0; }));
    is_slow = false;
  }
  EXPECT_EQ(cache->status().remotes.at(0).comparing, std::nullopt);
}

// semantics 16.8
TEST_F(RangedBlobTest, VerificationReportsAMismatch) {
  served[7 * kMiB] = static_cast<char>(served[7 * kMiB] ^ 1);
  const auto cache = store();
  const ResolvedBlob blob = resolved(cache);
  read(*blob.verified, 0, 1000);
  EXPECT_EQ(blob.verified->verification(), VerifiedBy::transport);
  EXPECT_FALSE(blob.verified->prefetch({0, all.size()}));
  EXPECT_EQ(blob.verified->verification(), VerifiedBy::mismatch);
  const auto remotes = cache->status().remotes;
  ASSERT_EQ(remotes.size(), 1u);
  EXPECT_EQ(remotes[0].present, 0u) << "dropped";
  EXPECT_EQ(remotes[0].verified_blocks, 0u);
}

// semantics 16.8
TEST_F(RangedBlobTest, VerificationOfABlobThatIsDownloadedFirstIsKnownAfterARead) {
  const auto cache = store(true);
  const ResolvedBlob blob = resolved(cache);
  EXPECT_EQ(blob.verified->verification(), VerifiedBy::unknown);
  read(*blob.verified, 0, 1000);
  EXPECT_EQ(blob.verified->verification(), VerifiedBy::whole);
}

TEST_F(RangedBlobTest, FetchOfTheBlobVerifiesIt) {
  const auto cache = store();
  ASSERT_TRUE(resolved(cache).verified->prefetch({0, all.size()}));
  EXPECT_TRUE(std::filesystem::exists(blob_path()));
  EXPECT_LE(sent, all.size() + 64u * 1024);
}

// Its end frees the space of absent blocks, except those that other readers are downloading.
TEST_F(RangedBlobTest, CancelledFetchEndsAtOnceWhileOthersRead) {
  is_slow = true;
  const auto cache = store();
  const ResolvedBlob blob = resolved(cache);
  std::atomic<int> wrong = 0;
  std::atomic<bool> is_over = false;
  std::vector<std::jthread> readers;
  for (size_t i = 0; i < 4; ++i)
    readers.emplace_back([&, i] {
      std::minstd_rand random(static_cast<unsigned>(i));
      while (!is_over) {
        const size_t at = random() % all.size();
        wrong += read(*blob.verified, at, 50'000) != all.substr(at, 50'000);
      }
    });
  for (int i = 0; i < 6; ++i) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
    const CancelScope scope([&] { return std::chrono::steady_clock::now() > until; });
    EXPECT_FALSE(blob.verified->prefetch({0, all.size()}));
  }
  is_over = true;
  readers.clear();
  is_slow = false;
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(describe(read(*blob.verified, 0, all.size())), describe(all));
}

// The locks of two stores exclude each other as those of two processes do.
TEST_F(RangedBlobTest, TwoStoresThatVerifyAtOncePublishOnce) {
  constexpr uint64_t kLast = 64 * 1024;
  const std::array caches = {store(), store()};
  const std::array blobs = {resolved(caches[0]).verified, resolved(caches[1]).verified};
  ASSERT_TRUE(blobs[0]->prefetch({0, all.size() - kLast}));
  EXPECT_EQ(read(*blobs[1], 0, 100), all.substr(0, 100));  // its file is open before the other store publishes it
  EXPECT_FALSE(std::filesystem::exists(blob_path()));
  std::array<ino_t, 2> published = {};
  std::barrier start(2);
  const auto fetch = [&](size_t i) {
    start.arrive_and_wait();
    struct stat blob = {};
    if (blobs[i]->prefetch({0, all.size()}) && ::stat(blob_path().c_str(), &blob) == 0) published[i] = blob.st_ino;
  };
  {
    const std::jthread other(fetch, 1);
    fetch(0);
  }
  EXPECT_NE(published[0], 0u);
  EXPECT_EQ(published[0], published[1]);
  for (const SourcePtr& blob : blobs) {
    EXPECT_EQ(blob->verification(), VerifiedBy::whole);
    EXPECT_EQ(describe(read(*blob, 0, all.size())), describe(all));
  }
  EXPECT_LE(sent, all.size() + 2 * kLast);
  EXPECT_EQ(ranges_on_disk(), 0u);
}

TEST_F(RangedBlobTest, FetchOfACachedBlobNeedsNoServer) {
  ASSERT_TRUE(resolved(store(true)).verified->prefetch({0, all.size()}));  // the version on the server is not saved
  EXPECT_TRUE(resolved(offline_store()).verified->prefetch({0, all.size()}));
  refusals = 100;
  EXPECT_TRUE(resolved(store()).verified->prefetch({0, all.size()}));
}

// Without a strong tag the blocks are not published.
TEST_F(RangedBlobTest, VerifiedRangesAreNotHashedAgain) {
  etag = "W/\"e1\"";
  const auto cache = store();
  const ResolvedBlob blob = resolved(cache);
  read(*blob.verified, 0, all.size());
  EXPECT_TRUE(eventually([&] { return blob.verified->verification() == VerifiedBy::whole; }));
  const uint64_t before = bytes_read();
  const auto is_hashed_again = [&] {
    read(*blob.verified, 0, 100);
    return bytes_read() - before > all.size() / 2;
  };
  EXPECT_FALSE(eventually(is_hashed_again, 20 * kNextVerification));
}

TEST_F(RangedBlobTest, FetchOfAPartDownloadsThePart) {
  const auto cache = store();
  const ResolvedBlob blob = resolved(cache);
  ASSERT_TRUE(blob.verified->prefetch({2 * kMiB, 3 * kMiB}));
  EXPECT_LE(sent, kMiB + 64u * 1024);
  const uint64_t before = sent;
  EXPECT_EQ(describe(read(*blob.verified, 2 * kMiB, kMiB)), describe(all.substr(2 * kMiB, kMiB)));
  EXPECT_EQ(sent, before);
}

// semantics 21.9: for bytes that no reader has requested.
TEST_F(RangedBlobTest, DownloadScopeDownloadsRangesOnce) {
  const auto cache = store();
  const ResolvedBlob blob = resolved(cache);
  const DownloadScope scope;
  ASSERT_TRUE(blob.verified->prefetch({2 * kMiB, 3 * kMiB}));
  const uint64_t before = sent;
  EXPECT_LE(before, kMiB + 64u * 1024);
  ASSERT_TRUE(blob.verified->prefetch({2 * kMiB, 3 * kMiB}));
  EXPECT_EQ(sent, before);
  EXPECT_EQ(scope.bytes(), 2 * kMiB);
}

TEST_F(RangedBlobTest, DownloadScopeDownloadsNoBlobForAPart) {
  const auto cache = store(true);
  const ResolvedBlob blob = resolved(cache);
  const DownloadScope scope;
  ASSERT_TRUE(blob.verified->prefetch({2 * kMiB, 3 * kMiB}));
  EXPECT_EQ(sent, 0u);
  ASSERT_TRUE(blob.verified->prefetch({0, all.size()}));
  EXPECT_EQ(scope.bytes(), all.size());
  EXPECT_TRUE(is_published());
  const uint64_t before = sent;
  ASSERT_TRUE(blob.verified->prefetch({0, all.size()}));
  EXPECT_EQ(sent, before);
}

TEST_F(RangedBlobTest, DownloadScopeLimitsBytes) {
  const auto cache = store();
  const ResolvedBlob blob = resolved(cache);
  const DownloadScope scope(2 * kMiB);
  ASSERT_TRUE(blob.verified->prefetch({0, kMiB}));
  const uint64_t before = sent;
  const auto done = blob.verified->prefetch({kMiB, 3 * kMiB + 1});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::resource);
  EXPECT_EQ(sent, before);
}

// semantics 21.6
TEST_F(RangedBlobTest, ServerIsAskedAgainUntilItSendsRanges) {
  std::atomic<int> requests = 0;
  server = std::make_unique<HttpServer>([&](const SeenRequest& request, Wire& wire) {
    if (++requests <= 3) return void(wire.send(answer("200 OK", all)));
    EXPECT_TRUE(request.range());
    serve_file(request, wire, all);
  });
  const auto cache = store(false, std::chrono::hours(1));
  EXPECT_EQ(describe(read(*resolved(cache).verified, 5 * kMiB, 1000)), describe(all.substr(5 * kMiB, 1000)));
  EXPECT_EQ(requests, 5);
  EXPECT_FALSE(std::filesystem::exists(blob_path()));
}

TEST_F(RangedBlobTest, ServerWithoutRangesIsReadWholeAfterTheWait) {
  std::atomic<int> requests = 0;
  server = std::make_unique<HttpServer>([&](const SeenRequest&, Wire& wire) {
    ++requests;
    wire.send(answer("200 OK", all));
  });
  const auto requests_of = [&](std::chrono::seconds wait) {
    directory = temporary.path(fmt::format("cache-{}", wait.count()));
    const int before = requests;
    const auto cache = store(false, wait);
    EXPECT_EQ(describe(read(*resolved(cache).verified, 5 * kMiB, 1000)), describe(all.substr(5 * kMiB, 1000)));
    return requests - before;
  };
  EXPECT_EQ(requests_of(std::chrono::seconds(0)), 2);
  EXPECT_GT(requests_of(std::chrono::seconds(1)), 2);
}

TEST_F(RangedBlobTest, StopEndsTheWaitForRanges) {
  std::atomic<int> requests = 0;
  server = std::make_unique<HttpServer>([&](const SeenRequest&, Wire& wire) {
    ++requests;
    wire.send(answer("200 OK", all));
  });
  const auto cache = store(false, std::chrono::hours(1));
  const ResolvedBlob blob = resolved(cache);
  std::jthread reader([&] { EXPECT_THAT(read(*blob.verified, 5 * kMiB, 1000), HasSubstr("error")); });
  EXPECT_TRUE(eventually([&] { return requests >= 2; }));
  cache->stop();
}

TEST_F(RangedBlobTest, VerifyWholeDownloadsTheBlobFirst) {
  const auto cache = store(true);
  EXPECT_EQ(describe(read(*resolved(cache).verified, 5 * kMiB, 1000)), describe(all.substr(5 * kMiB, 1000)));
  EXPECT_TRUE(is_published());
}

TEST_F(RangedBlobTest, BlobAtAUrlOfAContainerIsVerifiedFirst) {
  served[7 * kMiB] = static_cast<char>(served[7 * kMiB] ^ 1);
  StoreOptions options;
  options.directory = directory;
  options.fetching.options = quick_retries();
  http::Options http;
  http.allow_private_urls = true;
  options.fetching.http = std::make_shared<http::DirectClient>(http);
  const auto cache = blob_store(std::move(options));
  EXPECT_THAT(read(*resolved(cache, http::Trust::container).verified, 0, 1000), HasSubstr("error"));
}

TEST_F(RangedBlobTest, SmallBlobIsVerifiedFirst) {
  all.resize(1000);
  digest = sha256(all);
  served = all;
  served[999] = static_cast<char>(served[999] ^ 1);
  const auto cache = store();
  EXPECT_THAT(read(*resolved(cache).verified, 0, 10), HasSubstr("error"));
}

TEST_F(RangedBlobTest, FileOfAnotherSizeIsNotReadByRanges) {
  served.resize(all.size() - 1);
  const auto cache = store();
  EXPECT_THAT(read(*resolved(cache).verified, 0, 10), HasSubstr("error"));
}

}  // namespace
}  // namespace weightfs::test::ranged_blob_test
