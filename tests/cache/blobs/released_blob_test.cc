// A compressed blob on a server is not kept beside what was decoded from it.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "cache/blob_store.h"
#include "cache/direct_client.h"
#include "cache/maintenance.h"
#include "tests/cache/fetch_fixture.h"
#include "tests/support/reading.h"
#include "tests/support/temporary.h"

namespace weightfs::test::released_blob_test {
namespace {

using fetch_fixture::quick_retries;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class ReleasedBlobTest : public testing::Test {
 protected:
  BlobStorePtr store(bool keeps_packed = false, std::string model = {}) const {
    StoreOptions options;
    options.directory = directory;
    options.quota = 1 << 30;
    options.fetching.options = quick_retries();
    options.fetching.http = std::make_shared<http::DirectClient>(http::Options());
    options.keeps_packed = keeps_packed;
    options.model = std::move(model);
    return blob_store(std::move(options));
  }
  SourcePtr packed_in(const BlobStorePtr& in) const {
    const BlobRef ref{.name = "layer", .digest = digest, .size = bytes.size()};
    return in->resolve_from(ref, {{server.url("/blob"), http::Trust::user}}).value().verified;
  }
  static std::string all_of(const Source& source) { return read_text(source, 0, source.size()).value_or("error"); }
  BlobProducer producer() const {
    BlobProducer made;
    made.name = "decoded";
    made.key = "sha256 of the layer, decoded";
    made.depth = 1;
    made.start = [text = decoded]() -> Result<StreamPtr> { return stream_of(in_memory(text)); };
    return made;
  }
  std::vector<std::string> cached() const {
    std::vector<std::string> names;
    for (const std::string& path : files_in(directory + "/v1/blobs")) names.push_back(path.substr(path.rfind('/') + 1));
    return names;
  }

  const std::string bytes = some_bytes(300'000);
  const std::string decoded = some_bytes(500'000);
  const Digest digest = sha256(bytes);
  HttpServer server{fetch_fixture::serves(bytes)};
  TemporaryDirectory temporary;
  const std::string directory = temporary.path("cache");
};

TEST_F(ReleasedBlobTest, IsRemovedAndDownloadedAgainWhenItIsRead) {
  const auto first = store();
  const SourcePtr packed = packed_in(first);
  EXPECT_EQ(all_of(*packed), bytes);
  EXPECT_THAT(cached(), ElementsAre(digest.hex()));
  first->release(digest);
  EXPECT_THAT(cached(), IsEmpty());
  EXPECT_EQ(all_of(*packed), bytes);
  EXPECT_EQ(all_of(*packed_in(store())), bytes);
  EXPECT_THAT(cached(), ElementsAre(digest.hex()));
}

TEST_F(ReleasedBlobTest, OpenFileKeepsItsBytes) {
  const auto first = store();
  const SourcePtr packed = packed_in(first);
  EXPECT_EQ(all_of(*packed), bytes);
  const SourcePtr open = packed->verified_file();
  ASSERT_NE(open, nullptr);
  first->release(digest);
  EXPECT_THAT(cached(), IsEmpty());
  EXPECT_EQ(all_of(*open), bytes);
}

TEST_F(ReleasedBlobTest, IsKeptIfAnotherCommandDownloadedItOrItIsToBeKept) {
  EXPECT_EQ(all_of(*packed_in(store())), bytes);
  const auto later = store();
  EXPECT_EQ(all_of(*packed_in(later)), bytes);
  later->release(digest);
  EXPECT_THAT(cached(), ElementsAre(digest.hex()));
  EXPECT_EQ(well(CacheMaintenance(directory).remove_all(PinnedBlobs::remove)).blobs, 1U);
  const auto fetching = store(true);
  EXPECT_EQ(all_of(*packed_in(fetching)), bytes);
  fetching->release(digest);
  EXPECT_THAT(cached(), ElementsAre(digest.hex()));
}

// It has found the blob in the cache, and must find it there afterwards.
TEST_F(ReleasedBlobTest, WhatFetchKeepsStaysThoughAnotherProcessDownloadedIt) {
  const auto mount = store();
  EXPECT_EQ(all_of(*packed_in(mount)), bytes);
  ASSERT_TRUE(packed_in(store(true))->prefetch({0, bytes.size()}));
  mount->release(digest);
  EXPECT_THAT(cached(), ElementsAre(digest.hex()));
}

TEST_F(ReleasedBlobTest, FetchDownloadsAgainWhatIsRemovedWhileItHasItOpen) {
  const auto mount = store();
  EXPECT_EQ(all_of(*packed_in(mount)), bytes);
  const auto fetching = store(true);
  const SourcePtr fetched = packed_in(fetching);
  EXPECT_EQ(all_of(*fetched), bytes);
  mount->release(digest);
  EXPECT_THAT(cached(), IsEmpty());
  ASSERT_TRUE(fetched->prefetch({0, bytes.size()}));
  EXPECT_THAT(cached(), ElementsAre(digest.hex()));
}

TEST_F(ReleasedBlobTest, IsKeptIfAnotherCommandDownloadedItSinceTheLastRelease) {
  const auto first = store();
  const SourcePtr packed = packed_in(first);
  EXPECT_EQ(all_of(*packed), bytes);
  first->release(digest);
  EXPECT_EQ(all_of(*packed_in(store())), bytes);
  EXPECT_EQ(all_of(*packed), bytes);
  first->release(digest);
  EXPECT_THAT(cached(), ElementsAre(digest.hex()));
}

// A file has at most 16 names.
TEST_F(ReleasedBlobTest, NoNumberOfNamesEndsThatItIsKept) {
  const auto mount = store();
  EXPECT_EQ(all_of(*packed_in(mount)), bytes);
  ASSERT_TRUE(packed_in(store(true))->prefetch({0, bytes.size()}));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(all_of(*packed_in(store(false, fmt::format("model {}", i)))), bytes);
  mount->release(digest);
  EXPECT_THAT(cached(), ElementsAre(digest.hex()));
}

TEST_F(ReleasedBlobTest, PinnedOneIsKept) {
  const auto first = store();
  EXPECT_EQ(all_of(*packed_in(first)), bytes);
  ASSERT_TRUE(CacheMaintenance(directory).pin(digest).value_or(false));
  first->release(digest);
  EXPECT_THAT(cached(), ElementsAre(digest.hex()));
}

// Ranges of a file at a URL, which has a version.
class ReleasedRangesTest : public ReleasedBlobTest {
 protected:
  static constexpr uint64_t kBlock = 16 * 1024;

  SourcePtr opened(const BlobStorePtr& in) const { return in->open_url(server.url("/blob")).value(); }
  static uint64_t cached_of(const Source& file) { return well(file.cached({0, file.size()})).now; }

  const uint64_t tail = (bytes.size() - 1) / kBlock * kBlock - kBlock;  // the last two blocks begin there
};

TEST_F(ReleasedRangesTest, BothEndsStayAndOthersAreDownloadedAgain) {
  const auto first = store();
  const SourcePtr packed = opened(first);
  EXPECT_EQ(all_of(*packed), bytes);
  first->release_ranges(packed->identity());
  EXPECT_EQ(cached_of(*packed), kBlock + bytes.size() - tail);
  const SourcePtr later = opened(store());
  const size_t before = server.requests().size();
  EXPECT_EQ(read_text(*later, 0, 4096).value_or("error"), bytes.substr(0, 4096));
  EXPECT_EQ(read_text(*later, bytes.size() - 4096, 4096).value_or("error"), bytes.substr(bytes.size() - 4096));
  EXPECT_EQ(server.requests().size(), before);
  EXPECT_EQ(all_of(*packed), bytes);
  EXPECT_EQ(all_of(*later), bytes);
}

TEST_F(ReleasedRangesTest, IncompleteOnesAreKept) {
  const auto first = store();
  const SourcePtr packed = opened(first);
  EXPECT_EQ(read_text(*packed, 0, 5 * kBlock).value_or("error"), bytes.substr(0, 5 * kBlock));
  first->release_ranges(packed->identity());
  EXPECT_GE(cached_of(*packed), 5 * kBlock);
}

TEST_F(ReleasedRangesTest, ThoseOfAnotherCommandAreKept) {
  EXPECT_EQ(all_of(*opened(store())), bytes);
  const auto later = store();
  const SourcePtr packed = opened(later);
  EXPECT_EQ(all_of(*packed), bytes);
  later->release_ranges(packed->identity());
  EXPECT_EQ(cached_of(*packed), bytes.size());
}

TEST_F(ReleasedRangesTest, WhatFetchKeepsStays) {
  const auto mount = store();
  const SourcePtr packed = opened(mount);
  EXPECT_EQ(all_of(*packed), bytes);
  const auto fetching = store(true);
  const SourcePtr fetched = opened(fetching);
  ASSERT_TRUE(fetched->prefetch({0, bytes.size()}));
  mount->release_ranges(packed->identity());
  fetching->release_ranges(packed->identity());
  EXPECT_EQ(cached_of(*packed), bytes.size());
}

TEST_F(ReleasedRangesTest, PinnedOnesAreKept) {
  const auto first = store();
  const SourcePtr packed = opened(first);
  EXPECT_EQ(all_of(*packed), bytes);
  ASSERT_TRUE(CacheMaintenance(directory).pin(sha256(packed->identity())).value_or(false));
  first->release_ranges(packed->identity());
  EXPECT_EQ(cached_of(*packed), bytes.size());
}

// Another process needs the key only.
TEST_F(ReleasedBlobTest, DecodedOneIsFoundByItsKey) {
  EXPECT_FALSE(store()->is_decoded(producer()));
  EXPECT_EQ(all_of(*store()->materialize(producer()).value()), decoded);
  EXPECT_TRUE(store()->is_decoded(producer()));
  BlobProducer other = producer();
  other.key = "another";
  EXPECT_FALSE(store()->is_decoded(other));
  other.key.clear();
  EXPECT_FALSE(store()->is_decoded(other));
  EXPECT_THAT(cached(), UnorderedElementsAre(sha256(decoded).hex()));
}

}  // namespace
}  // namespace weightfs::test::released_blob_test
