// Semantics 21.6: no reader has every byte of a blob that is read by ranges before its digest was compared.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <random>
#include <thread>

#include "base/cancel.h"
#include "cache/blob_store.h"
#include "cache/direct_client.h"
#include "cache/maintenance.h"
#include "tests/cache/fetch_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary.h"

namespace weightfs::test::delivered_blob_test {
namespace {

using fetch_fixture::quick_retries;
using testing::HasSubstr;

constexpr uint64_t kMiB = 1024 * 1024;
constexpr size_t kPiece = 128 * 1024;

class DeliveredBlobTest : public testing::Test {
 protected:
  BlobStorePtr store(uint64_t quota = 1 << 30) {
    StoreOptions options;
    options.directory = directory;
    options.quota = quota;
    options.log = [this](const std::string& line) {
      const std::scoped_lock lock(mutex);
      log.push_back(line);
    };
    options.fetching.options = quick_retries();
    options.fetching.http = std::make_shared<http::DirectClient>(http::Options());
    return blob_store(std::move(options));
  }
  SourcePtr blob(const BlobStorePtr& in) const {
    const BlobRef ref{.name = "model", .digest = digest, .size = all.size()};
    return in->resolve_from(ref, {{server->url("/blob"), http::Trust::user}}).value().verified;
  }
  static std::string read(const Source& source, uint64_t offset, size_t size = kPiece) {
    std::string bytes(size, '\0');
    const auto got = source.read(offset, std::as_writable_bytes(std::span(bytes)));
    return got ? bytes.substr(0, *got) : "error: " + got.error().message;
  }
  // What a reader gets until the first error, and that.
  static std::string read_in_order(const Source& source, bool is_ahead = true) {
    std::string bytes;
    std::string piece(kPiece, '\0');
    while (bytes.size() < source.size()) {
      const auto out = std::as_writable_bytes(std::span(piece));
      const auto got =
          is_ahead ? source.read_ahead(bytes.size(), out, {0, source.size()}) : source.read(bytes.size(), out);
      if (!got) return bytes + "error: " + got.error().message;
      bytes.append(piece, 0, *got);
    }
    return bytes;
  }
  static std::string error_in(const std::string& got) {
    const size_t at = got.find("error: ");
    return at == std::string::npos ? describe(got) : got.substr(at);
  }
  std::vector<uint64_t> pieces() const {
    std::vector<uint64_t> offsets;
    for (uint64_t at = 0; at < all.size(); at += kPiece) offsets.push_back(at);
    return offsets;
  }
  // The number of reads that fail.
  static size_t errors(const Source& source, const std::vector<uint64_t>& offsets) {
    return static_cast<size_t>(
        std::ranges::count_if(offsets, [&](uint64_t at) { return read(source, at).starts_with("error"); }));
  }
  void damage(uint64_t at) { served[at] = static_cast<char>(served[at] ^ 1); }
  std::string blob_path() const {
    return fmt::format("{}/v1/blobs/{}/{}", directory, digest.hex().substr(0, 2), digest.hex());
  }
  bool is_published() const {
    return eventually([&] { return std::filesystem::exists(blob_path()); });
  }
  // All of the cache. Publishing another blob closes the deleted ones.
  void evict(const BlobStorePtr& in) {
    ASSERT_TRUE(CacheMaintenance(directory).collect(0));
    other += '.';
    const BlobRef ref{.name = "other", .digest = sha256(other), .size = other.size()};
    const auto resolved = in->resolve_from(ref, {{server->url("/other"), http::Trust::user}}).value();
    ASSERT_EQ(read(*resolved.verified, 0), other);
  }

  std::mutex mutex;  // guards the next one
  std::vector<std::string> log;
  const std::string all = some_bytes(9 * kMiB + 5);
  const Digest digest = sha256(all);
  std::string served = all;
  std::string other = "other";
  TemporaryDirectory temporary;
  std::string directory = temporary.path("cache");
  std::unique_ptr<HttpServer> server = std::make_unique<HttpServer>([this](const SeenRequest& request, Wire& wire) {
    serve_file(request, wire, request.target == "/other" ? other : served);
  });
};

TEST_F(DeliveredBlobTest, ReaderInOrderGetsEachByteOfTheRightBlob) {
  for (const bool is_ahead : {true, false}) {
    directory = temporary.path(is_ahead ? "ahead" : "cache");
    const auto cache = store();
    const SourcePtr source = blob(cache);
    EXPECT_EQ(describe(read_in_order(*source, is_ahead)), describe(all));
    EXPECT_EQ(source->verification(), VerifiedBy::whole);
    EXPECT_EQ(cache->status().remotes.at(0).verified, "whole");
    EXPECT_TRUE(is_published());
  }
}

TEST_F(DeliveredBlobTest, ReaderInOrderFailsAtTheEndOfAWrongBlob) {
  for (const uint64_t at : {uint64_t{0}, 5 * kMiB, all.size() - 1})
    for (const bool is_ahead : {true, false}) {
      directory = temporary.path(fmt::format("cache-{}-{}", at, is_ahead));
      served = all;
      damage(at);
      const auto cache = store();
      const SourcePtr source = blob(cache);
      const std::string got = read_in_order(*source, is_ahead);
      EXPECT_THAT(error_in(got), HasSubstr("do not match: digest mismatch"));
      EXPECT_LT(got.find("error: "), all.size()) << at;
      EXPECT_THAT(read(*source, 0), HasSubstr("do not match"));
      EXPECT_EQ(source->verification(), VerifiedBy::mismatch);
      EXPECT_FALSE(std::filesystem::exists(blob_path()));
      EXPECT_THAT(error_in(read_in_order(*blob(store()), is_ahead)), HasSubstr("do not match"))
          << "the server is still wrong";
    }
}

// Whatever the order, one read waits: the one after which the reader has all.
TEST_F(DeliveredBlobTest, LastReadInAnyOrderFailsIfTheBlobIsWrong) {
  damage(7 * kMiB);
  std::vector<uint64_t> offsets = pieces();
  std::minstd_rand random;
  for (int round = 0; round < 3; ++round) {
    directory = temporary.path(fmt::format("cache-{}", round));
    std::shuffle(offsets.begin(), offsets.end(), random);
    const auto cache = store();
    const SourcePtr source = blob(cache);
    errors(*source, {offsets.begin(), offsets.end() - 1});  // the last one may have been requested ahead
    EXPECT_THAT(read(*source, offsets.back()), HasSubstr("do not match"));
  }
}

TEST_F(DeliveredBlobTest, ReadsInAnyOrderGetTheRightBlob) {
  std::vector<uint64_t> offsets = pieces();
  std::shuffle(offsets.begin(), offsets.end(), std::minstd_rand());
  const auto cache = store();
  const SourcePtr source = blob(cache);
  for (const uint64_t at : offsets) EXPECT_EQ(read(*source, at), all.substr(at, kPiece));
  EXPECT_EQ(source->verification(), VerifiedBy::whole);
  EXPECT_TRUE(is_published());
}

TEST_F(DeliveredBlobTest, PartsAreServedBeforeTheComparison) {
  damage(7 * kMiB);
  const auto cache = store();
  const SourcePtr source = blob(cache);
  const std::vector<uint64_t> offsets = pieces();
  for (int round = 0; round < 2; ++round) EXPECT_EQ(errors(*source, {offsets.begin() + 1, offsets.end()}), 0u);
  EXPECT_EQ(source->verification(), VerifiedBy::transport);
}

TEST_F(DeliveredBlobTest, EachOfTwoReadersGetsAnError) {
  damage(7 * kMiB);
  for (int round = 0; round < 5; ++round) {
    directory = temporary.path(fmt::format("cache-{}", round));
    const auto cache = store();
    const SourcePtr source = blob(cache);
    std::array<size_t, 2> failed = {};
    const auto read_all = [&](size_t reader) {
      std::vector<uint64_t> offsets = pieces();
      if (reader == 1) std::ranges::reverse(offsets);
      failed[reader] = errors(*source, offsets);
    };
    {
      const std::jthread other(read_all, 1);
      read_all(0);
    }
    EXPECT_GE(failed[0], 1u);
    EXPECT_GE(failed[1], 1u);
  }
}

// As the parallel requests of one reader.
TEST_F(DeliveredBlobTest, ThreadsThatShareTheReadsGetAnError) {
  damage(7 * kMiB);
  for (int round = 0; round < 5; ++round) {
    directory = temporary.path(fmt::format("cache-{}", round));
    const auto cache = store();
    const SourcePtr source = blob(cache);
    const std::vector<uint64_t> offsets = pieces();
    std::atomic<size_t> next = 0;
    std::atomic<size_t> failed = 0;
    const auto read_some = [&] {
      for (size_t i; (i = next++) < offsets.size();) failed += errors(*source, {offsets[i]});
    };
    {
      const std::array others = {std::jthread(read_some), std::jthread(read_some), std::jthread(read_some)};
      read_some();
    }
    EXPECT_GE(failed, 1u);
  }
}

// The locks of two stores exclude each other as those of two processes do.
TEST_F(DeliveredBlobTest, EachOfTwoProcessesGetsAnError) {
  damage(7 * kMiB);
  const std::array caches = {store(), store()};
  const std::array blobs = {blob(caches[0]), blob(caches[1])};
  std::array<size_t, 2> failed = {};
  std::vector<uint64_t> offsets = pieces();
  for (size_t i = 0; i < offsets.size(); ++i)
    for (size_t process = 0; process < 2; ++process) failed[process] += errors(*blobs[process], {offsets[i]});
  EXPECT_GE(failed[0], 1u);
  EXPECT_GE(failed[1], 1u);
  EXPECT_FALSE(std::filesystem::exists(blob_path()));
}

// A process that ends before its comparison leaves blocks of which another one cannot know whether they match.
TEST_F(DeliveredBlobTest, BlocksOfAnEarlierProcessAreComparedBeforeTheEnd) {
  damage(5 * kMiB);
  EXPECT_EQ(read(*blob(store()), 0, 6 * kMiB), served.substr(0, 6 * kMiB));
  served = all;
  const std::string got = read_in_order(*blob(store()));
  EXPECT_THAT(error_in(got), HasSubstr("do not match"));
  EXPECT_EQ(describe(read_in_order(*blob(store()))), describe(all)) << "downloaded again";
}

TEST_F(DeliveredBlobTest, CompleteBlocksOfAnEarlierProcessAreComparedBeforeTheFirstByte) {
  damage(5 * kMiB);
  ASSERT_TRUE(blob(store())->prefetch({0, all.size() - 1}));
  EXPECT_FALSE(std::filesystem::exists(blob_path()));
  served = all;
  const auto cache = store();
  const SourcePtr source = blob(cache);
  EXPECT_EQ(read(*source, 5 * kMiB), all.substr(5 * kMiB, kPiece)) << "downloaded again";
  EXPECT_EQ(describe(read_in_order(*source)), describe(all));
  EXPECT_TRUE(is_published());
}

TEST_F(DeliveredBlobTest, KilledReaderDoesNotWaitForTheComparison) {
  const auto cache = store();
  const SourcePtr source = blob(cache);
  ASSERT_TRUE(source->prefetch({0, all.size() - 1}));
  {
    const CancelScope killed([] { return true; });
    EXPECT_THAT(read(*source, 0), HasSubstr("cancelled"));
  }
  EXPECT_EQ(read(*source, 0), all.substr(0, kPiece));
}

// The kernel, or the reader, has the other half since then.
TEST_F(DeliveredBlobTest, HalfOfAVerifiedBlobThatWasEvictedIsComparedAgain) {
  const auto cache = store();
  const SourcePtr source = blob(cache);
  ASSERT_EQ(describe(read_in_order(*source)), describe(all));
  ASSERT_TRUE(is_published());
  evict(cache);
  damage(7 * kMiB);
  EXPECT_THAT(error_in(read(*source, 7 * kMiB)), HasSubstr("do not match"));
}

TEST_F(DeliveredBlobTest, HalfOfAVerifiedBlobThatWasEvictedIsServedIfItMatches) {
  const auto cache = store();
  const SourcePtr source = blob(cache);
  ASSERT_EQ(describe(read_in_order(*source)), describe(all));
  ASSERT_TRUE(is_published());
  evict(cache);
  EXPECT_EQ(describe(read(*source, 7 * kMiB)), describe(all.substr(7 * kMiB, kPiece)));
  EXPECT_EQ(source->verification(), VerifiedBy::whole);
  EXPECT_TRUE(is_published());
}

// Whose first half was cached by an earlier process.
TEST_F(DeliveredBlobTest, SecondHalfOfACachedBlobThatWasEvictedIsCompared) {
  {
    const auto earlier = store();
    const SourcePtr opened = blob(earlier);  // the publication in the background ends with the last user
    ASSERT_EQ(describe(read_in_order(*opened)), describe(all));
    ASSERT_TRUE(is_published());
  }
  const auto cache = store();
  const SourcePtr source = blob(cache);
  EXPECT_EQ(read(*source, 0), all.substr(0, kPiece));
  evict(cache);
  damage(7 * kMiB);
  EXPECT_THAT(error_in(read(*source, 7 * kMiB)), HasSubstr("do not match"));
}

// The blocks that the other one was compared by are not those that this one gets.
TEST_F(DeliveredBlobTest, ReaderInTheMiddleWhileAnotherOneEndsGetsAnError) {
  const auto cache = store();
  const SourcePtr source = blob(cache);
  for (uint64_t at = 0; at < all.size(); at += kPiece) {
    if (at == 4 * kMiB) evict(cache);
    ASSERT_EQ(describe(read(*source, at)), describe(all.substr(at, kPiece))) << at;
  }
  ASSERT_TRUE(is_published()) << "compared again";
  evict(cache);
  damage(7 * kMiB);
  EXPECT_THAT(error_in(read(*source, 7 * kMiB)), HasSubstr("do not match"));
}

// Without space for the file in the cache, its digest is computed only from reads in the order of the file.
TEST_F(DeliveredBlobTest, BlobThatDoesNotFitInTheCacheIsServedInAnyOrder) {
  std::vector<uint64_t> offsets = pieces();
  std::ranges::reverse(offsets);
  const auto cache = store(5 * kMiB);
  const SourcePtr source = blob(cache);
  for (int pass = 0; pass < 2; ++pass)
    for (const uint64_t at : offsets) EXPECT_EQ(read(*source, at), all.substr(at, kPiece));
  EXPECT_EQ(source->verification(), VerifiedBy::transport);
  const std::scoped_lock lock(mutex);
  EXPECT_THAT(log,
              testing::ElementsAre(HasSubstr("model: the cache has no space for it, so its digest is compared only")));
}

// Blocks are evicted while others are read, so the file is never complete.
TEST_F(DeliveredBlobTest, BlobThatDoesNotFitInTheCacheIsComparedInOrder) {
  const auto cache = store(5 * kMiB);
  const SourcePtr source = blob(cache);
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(describe(read_in_order(*source)), describe(all)) << pass;
  EXPECT_FALSE(std::filesystem::exists(blob_path()));
  damage(5 * kMiB);
  const std::string got = read_in_order(*source);
  EXPECT_THAT(error_in(got), HasSubstr("do not match"));
}

}  // namespace
}  // namespace weightfs::test::delivered_blob_test
