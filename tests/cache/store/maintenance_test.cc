// Maintenance commands on a cache that other processes use.
#include "cache/maintenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/descriptor.h"
#include "cache/disk_quota.h"
#include "tests/cache/cache_fixture.h"
#include "tests/cache/child_process.h"

namespace weightfs::test::maintenance_test {
namespace {

using namespace store;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr time_t kDay = 24 * 3600;

class CacheMaintenanceTest : public CacheFolders {
 protected:
  // Overwrites bytes of a blob, as a faulty disk does.
  void corrupt(const Digest& digest) const {
    std::fstream file(blob_at(digest), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kBlobSize / 2);
    file.put('?').put('!').put('?');
  }
  // Ranges of a remote file, of which kBlobSize bytes are present: all, or whole blocks. Returns the name of their
  // file.
  Digest add_ranges(const std::string& identity, uint64_t size = kBlobSize) const {
    folders();
    std::filesystem::create_directories(directory + "/v1/blocks");
    const Digest name = sha256(identity);
    const size_t whole = kBlobSize / kBlock * kBlock;
    const std::string bytes = some_bytes(size == kBlobSize ? kBlobSize : whole, 1);
    const auto file = BlockFile::open(*folders()->root, blocks_file(name), size, identity, {}).value();
    EXPECT_TRUE(file->write(0, std::as_bytes(std::span(bytes))));
    return name;
  }
  std::string blocks_at(const Digest& name) const { return directory + "/v1/" + blocks_file(name); }
  void damage(const Digest& ranges, uint64_t offset) const {
    std::fstream file(blocks_at(ranges), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put('?').put('!').put('?');
  }
  std::vector<std::string> hexes() const {
    std::vector<std::string> hexes;
    const Inventory contents = maintenance.inventory().value();
    for (const Item& item : contents.items)
      if (item.kind == ItemKind::blob) hexes.push_back(item.digest.hex());
    return hexes;
  }
  VerifyResult verify() const { return maintenance.verify({}).value(); }

  CacheMaintenance maintenance{directory};
};

TEST_F(CacheMaintenanceTest, MissingCacheIsEmptyAndNotCreated) {
  const Digest digest = sha256("");
  EXPECT_EQ(usage_of(maintenance.inventory().value()).all_bytes, 0U);
  EXPECT_EQ(verify().blobs.valid, 0U);
  EXPECT_EQ(maintenance.collect(0).value().blobs, 0U);
  EXPECT_EQ(maintenance.remove_all(PinnedBlobs::remove).value().blobs, 0U);
  EXPECT_EQ(maintenance.pin(digest).error().code, Code::not_found);
  EXPECT_FALSE(maintenance.unpin(digest).value());
  EXPECT_FALSE(std::filesystem::exists(directory));
}

// The process was killed while it created the cache.
TEST_F(CacheMaintenanceTest, IncompleteCacheIsEmpty) {
  std::filesystem::create_directories(directory + "/v1/blobs");
  EXPECT_THAT(maintenance.inventory().value().items, IsEmpty());
}

TEST_F(CacheMaintenanceTest, DirectoryWritableByOthersIsRejected) {
  const Digest digest = add_blob(1);
  std::filesystem::permissions(directory + "/v1", std::filesystem::perms::all);
  const auto refused = HasSubstr("writable by other users");
  EXPECT_THAT(maintenance.inventory().error().message, refused);
  EXPECT_THAT(maintenance.verify({}).error().message, refused);
  EXPECT_THAT(maintenance.collect(0).error().message, refused);
  EXPECT_THAT(maintenance.remove_all(PinnedBlobs::remove).error().message, refused);
  EXPECT_THAT(maintenance.pin(digest).error().message, refused);
  EXPECT_THAT(blobs(), SizeIs(1));
}

// A user who can write to pins/ decides which blobs are kept.
TEST_F(CacheMaintenanceTest, PinsWritableByOthersAreRejected) {
  add_blob(1);
  std::filesystem::create_directories(directory + "/v1/pins");
  std::filesystem::permissions(directory + "/v1/pins", std::filesystem::perms::all);
  EXPECT_THAT(maintenance.inventory().error().message, HasSubstr("v1/pins: writable by other users"));
  EXPECT_FALSE(maintenance.collect(0));
  EXPECT_THAT(blobs(), SizeIs(1));
}

TEST_F(CacheMaintenanceTest, InventoryListsEverything) {
  const Digest older = add_blob(1, 1000);
  const Digest newer = add_blob(2, 2000);
  const Digest left = add_partial(3, 1000);
  const Digest fetched = add_partial(4, 2000);
  const BlockFilePtr fetching = open_held(fetched);
  const SharedDescriptor active = open_locked(write("making/key-1.0123456789abcdef", "bytes"));
  ASSERT_TRUE(maintenance.pin(older).value());
  const Digest absent = sha256("evicted by an earlier version");
  ASSERT_TRUE(add_pin(*folders(), absent).value());
  const Inventory contents = maintenance.inventory().value();
  std::vector<ItemKind> kinds;
  for (const Item& item : contents.items) kinds.push_back(item.kind);
  ASSERT_THAT(kinds, ElementsAre(ItemKind::blob, ItemKind::blob, ItemKind::part, ItemKind::part, ItemKind::absent));
  EXPECT_EQ(contents.items[0].digest, newer);
  EXPECT_EQ(contents.items[0].last_used.tv_sec, 2000);
  EXPECT_FALSE(contents.items[0].pinned);
  EXPECT_EQ(contents.items[1].digest, older);
  EXPECT_EQ(contents.items[1].size, kBlobSize);
  EXPECT_GE(contents.items[1].on_disk, kBlobSize);
  EXPECT_TRUE(contents.items[1].pinned);
  EXPECT_EQ(contents.items[2].digest, fetched);
  EXPECT_TRUE(contents.items[2].is_active);
  EXPECT_EQ(contents.items[3].digest, left);
  EXPECT_EQ(contents.items[3].size, kBlobSize);
  EXPECT_FALSE(contents.items[3].is_active);
  EXPECT_EQ(contents.items[4].digest, absent);
  EXPECT_EQ(contents.temporary_files, 1U);
  EXPECT_EQ(contents.on_disk, disk_usage());
  const Usage usage = usage_of(contents);
  EXPECT_EQ(usage.blobs, 2U);
  EXPECT_EQ(usage.pinned, 1U);
  EXPECT_EQ(usage.pinned_bytes, contents.items[1].on_disk);
  EXPECT_EQ(usage.partial, 2U);
  EXPECT_EQ(usage.all_bytes, disk_usage());
}

TEST_F(CacheMaintenanceTest, InventoryChangesNothing) {
  add_blob(1);
  add_partial(2, 1000);
  write("making/key-1.0123456789abcdef", "left by a killed process");
  const auto before = files_in(directory);
  maintenance.inventory().value();
  EXPECT_EQ(files_in(directory), before);
  EXPECT_FALSE(std::filesystem::exists(directory + "/v1/pins"));
}

TEST_F(CacheMaintenanceTest, ForeignFilesAreIgnored) {
  const std::string hex = sha256("x").hex();
  std::string upper = hex;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) { return std::toupper(c); });
  write("blobs/zz/" + hex, "in another folder");
  write("blobs/" + upper.substr(0, 2) + "/" + upper, "in upper case");
  write("blobs/" + hex, "no folder");
  write("blobs/ab/ab\n\033[2J", "controls");
  write("outside", "target of a link");
  const std::string link = sha256("link").hex();
  const std::string folder = sha256("folder").hex();
  std::filesystem::create_directories(directory + "/v1/blobs/" + folder.substr(0, 2) + "/" + folder);
  std::filesystem::create_directories(directory + "/v1/blobs/" + link.substr(0, 2));
  std::filesystem::create_symlink("../../outside", directory + "/v1/blobs/" + link.substr(0, 2) + "/" + link);
  std::filesystem::create_symlink(directory, directory + "/v1/blobs/aa");
  write("pins/../pins/" + upper, "");
  write("pins/no digest", "");
  const auto before = files_in(directory);
  const Inventory contents = maintenance.inventory().value();
  EXPECT_THAT(contents.items, IsEmpty());
  const VerifyResult checked = verify();
  EXPECT_THAT(checked.mismatched, IsEmpty());
  EXPECT_EQ(maintenance.remove_all(PinnedBlobs::remove).value().blobs, 0U);
  EXPECT_EQ(maintenance.collect(0).value().blobs, 0U);
  auto after = files_in(directory);
  std::erase(after, "v1/lock");
  EXPECT_EQ(after, before);
}

TEST_F(CacheMaintenanceTest, VerifyRemovesOnlyMismatchedBlobs) {
  const Digest right = add_blob(1);
  const Digest wrong = add_blob(2);
  const Digest cut = add_blob(3);
  corrupt(wrong);
  std::filesystem::resize_file(blob_at(cut), kBlobSize - 1);
  add_partial(4, ::time(nullptr));
  ASSERT_TRUE(maintenance.pin(wrong).value());
  const VerifyResult checked = verify();
  EXPECT_EQ(checked.blobs.valid, 1U);
  EXPECT_EQ(checked.blobs.bytes, 3 * kBlobSize - 1);
  EXPECT_THAT(checked.mismatched,
              UnorderedElementsAre(AllOf(HasSubstr(wrong.hex() + ": digest mismatch: found "), HasSubstr("; removed")),
                                   HasSubstr(cut.hex() + ": digest mismatch: found ")));
  EXPECT_THAT(checked.unreadable, IsEmpty());
  EXPECT_THAT(hexes(), ElementsAre(right.hex()));
  EXPECT_THAT(links(), SizeIs(1));
  EXPECT_THAT(block_files(), SizeIs(1));
  const Item last = maintenance.inventory().value().items.back();
  EXPECT_EQ(last.kind, ItemKind::absent);  // still pinned for its next download
  EXPECT_EQ(last.digest, wrong);
  EXPECT_THAT(verify().mismatched, IsEmpty());
  EXPECT_GE(ledger_bytes(), disk_usage());
}

// semantics 16.3
TEST_F(CacheMaintenanceTest, VerifyDropsOnlyDamagedBlocksOfRanges) {
  const Digest ranges = add_ranges("https://host/a \"v1\" 50000");
  damage(ranges, kBlock + 5);
  const VerifyResult checked = verify();
  EXPECT_THAT(checked.mismatched,
              ElementsAre("https://host/a: 1 of 4 cached blocks do not match their checksums; dropped"));
  EXPECT_EQ(checked.blocks.valid, 3U);
  EXPECT_EQ(checked.blocks.all, 4U);
  EXPECT_EQ(checked.blocks.bytes, kBlobSize);
  EXPECT_EQ(checked.ranged_files, 1U);
  EXPECT_EQ(maintenance.inventory()->items.at(0).size, kBlobSize - kBlock);
  const VerifyResult again = verify();
  EXPECT_THAT(again.mismatched, IsEmpty());
  EXPECT_EQ(again.blocks.valid, 3U);
  EXPECT_EQ(again.blocks.all, 3U);
}

TEST_F(CacheMaintenanceTest, VerifyRemovesRangesWithoutValidHeader) {
  const Digest ranges = add_ranges("https://host/a \"v1\" 50000");
  std::filesystem::resize_file(blocks_at(ranges) + ".map", 100);
  EXPECT_THAT(verify().mismatched, ElementsAre(ranges.hex() + ": cached ranges without a valid header; removed"));
  EXPECT_THAT(block_files(), IsEmpty());
  EXPECT_THAT(verify().mismatched, IsEmpty());
}

// Another process is writing it.
TEST_F(CacheMaintenanceTest, VerifySkipsBlockThatIsBeingWritten) {
  const Digest ranges = add_ranges("https://host/a \"v1\" 50000");
  damage(ranges, 5);
  const auto file = BlockFile::of_files(open_blocks_files(*folders(), ranges, O_RDWR)).value();
  const auto claim = BlockFile::claim(file, {0, 1});
  ASSERT_NE(claim, nullptr);
  const VerifyResult checked = verify();
  EXPECT_THAT(checked.mismatched, IsEmpty());
  EXPECT_EQ(checked.blocks.all, 3U);
}

TEST_F(CacheMaintenanceTest, VerifyTellsDecodedCopiesAndRecordsFromBlobs) {
  add_blob(1);
  write_names(*folders(), add_blob(2), {{NameKind::model, "/m.zip"}, {NameKind::member, "/m.zip: weights"}});
  write_names(*folders(), add_blob(3), {{NameKind::model, "/m.zip"}, {NameKind::record, "version of a URL"}});
  const VerifyResult checked = verify();
  for (const VerifyResult::Count& count : {checked.blobs, checked.decoded, checked.records}) {
    EXPECT_EQ(count.valid, 1U);
    EXPECT_EQ(count.all, 1U);
    EXPECT_EQ(count.bytes, kBlobSize);
  }
}

TEST_F(CacheMaintenanceTest, VerifyReportsProgress) {
  add_blob(1);
  add_blob(2);
  std::vector<uint64_t> reported;
  uint64_t total = 0;
  ASSERT_TRUE(maintenance.verify([&](const Digest&, uint64_t bytes, uint64_t all) {
    reported.push_back(bytes);
    total = all;
  }));
  EXPECT_EQ(total, 2 * kBlobSize);
  ASSERT_FALSE(reported.empty());
  EXPECT_TRUE(std::is_sorted(reported.begin(), reported.end()));
  EXPECT_EQ(reported.back(), total);
}

// Another process replaced the blob while the corrupt file was read.
TEST_F(CacheMaintenanceTest, VerifyKeepsReplacementOfMismatchedBlob) {
  const Digest digest = add_blob(1);
  corrupt(digest);
  bool replaced = false;
  ASSERT_TRUE(maintenance.verify([&](const Digest&, uint64_t, uint64_t) {
    if (std::exchange(replaced, true)) return;
    const std::string anew = write("making/anew", some_bytes(kBlobSize, 1));
    std::filesystem::rename(anew, blob_at(digest));
  }));
  EXPECT_TRUE(replaced);
  EXPECT_THAT(hexes(), ElementsAre(digest.hex()));
  EXPECT_EQ(verify().blobs.valid, 1U);
}

TEST_F(CacheMaintenanceTest, BlobEvictedDuringVerifyIsNotMismatch) {
  const Digest first = add_blob(1, 2000);
  const Digest second = add_blob(2, 1000);
  const VerifyResult checked = maintenance
                                   .verify([&](const Digest& digest, uint64_t, uint64_t) {
                                     if (digest == first) std::filesystem::remove(blob_at(second));
                                   })
                                   .value();
  EXPECT_EQ(checked.blobs.valid, 1U);
  EXPECT_THAT(checked.mismatched, IsEmpty());
  EXPECT_THAT(checked.unreadable, IsEmpty());
}

// Exit statuses of child processes; kSkip if a requirement of the test is not met.
constexpr int kPass = 0;
constexpr int kSkip = 77;

TEST_F(CacheMaintenanceTest, UnreadableBlobIsReportedAndKept) {
  const Digest readable = add_blob(1);
  const Digest unreadable = add_blob(2);
  std::filesystem::permissions(blob_at(unreadable), std::filesystem::perms::none);
  for (const char* above : {"", "cache", "cache/v1", "cache/v1/blobs", "cache/v1/index", "cache/v1/making"})
    std::filesystem::permissions(temporary.path(above), std::filesystem::perms(0755));
  Child child([&] {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return kSkip;
    const VerifyResult checked = verify();
    if (checked.blobs.valid != 1 || !checked.mismatched.empty() || checked.unreadable.size() != 1) return 1;
    return checked.unreadable[0].message.starts_with(unreadable.hex()) ? kPass : 2;
  });
  const int status = child.wait();
  if (status == kSkip) GTEST_SKIP() << "this process cannot become another user";
  EXPECT_EQ(status, kPass);
  EXPECT_THAT(hexes(), UnorderedElementsAre(readable.hex(), unreadable.hex()));
}

TEST_F(CacheMaintenanceTest, CollectRemovesAbandonedFiles) {
  const Digest kept = add_blob(1);
  add_partial(2, ::time(nullptr));
  write("making/key-1.0123456789abcdef", some_bytes(kBlobSize, 9));
  link("gone", sha256("missing blob"));
  set_time(link_at("gone"), 1000);
  const GcResult removed = maintenance.collect({}).value();
  EXPECT_EQ(removed.blobs, 0U);
  EXPECT_EQ(removed.partial, 1U);
  EXPECT_EQ(removed.leftovers, 2U);
  EXPECT_GE(removed.bytes, 2 * kBlobSize);
  EXPECT_THAT(removed.not_removed, IsEmpty());
  EXPECT_THAT(making_files(), IsEmpty());
  EXPECT_THAT(hexes(), ElementsAre(kept.hex()));
  EXPECT_THAT(links(), SizeIs(1));
  EXPECT_GE(ledger_bytes(), disk_usage());
  EXPECT_EQ(maintenance.collect({}).value().bytes, 0U);
}

// A writer creates the link before the blob.
TEST_F(CacheMaintenanceTest, CollectKeepsRecentDeadLink) {
  folders();
  link("soon", sha256("future blob"));
  EXPECT_EQ(maintenance.collect({}).value().leftovers, 0U);
  EXPECT_THAT(links(), SizeIs(1));
}

TEST_F(CacheMaintenanceTest, CollectRemovesOutdatedDigestsOfExternalFiles) {
  const std::string target = std::string(kExternalDigest) + sha256("external").hex();
  for (const char* key : {"outdated", "recent"})
    ASSERT_EQ(::symlinkat(target.c_str(), folders()->index->number(), index_link(key).c_str()), 0);
  set_time(link_at("outdated"), 1000);
  EXPECT_EQ(maintenance.collect({}).value().leftovers, 1U);
  EXPECT_THAT(links(), SizeIs(1));
}

TEST_F(CacheMaintenanceTest, CollectAndRemoveSkipActiveWrites) {
  const Digest fetched = add_partial(1, 1000);
  const std::string temporary_file = write("making/key-1.0123456789abcdef", "being written");
  const auto shared = shared_memory();
  Child maker([&] {
    const BlockFilePtr part = open_held(fetched);
    const SharedDescriptor file = open_locked(temporary_file);
    ::sem_post(&shared->first);
    wait_for(shared->second);
    return 0;
  });
  wait_for(shared->first);
  const auto before = making_files();
  const auto blocks_before = block_files();
  EXPECT_EQ(maintenance.collect(0).value().partial, 0U);
  const GcResult all = maintenance.remove_all(PinnedBlobs::remove).value();
  EXPECT_THAT(all.not_removed, ElementsAre(fetched.hex() + ": is being downloaded"));
  const GcResult one = maintenance.remove({fetched}, PinnedBlobs::remove).value();
  EXPECT_THAT(one.not_removed, SizeIs(1));
  EXPECT_EQ(making_files(), before);
  EXPECT_EQ(block_files(), blocks_before);
  EXPECT_TRUE(maintenance.inventory().value().items.at(0).is_active);
  ::sem_post(&shared->second);
  EXPECT_EQ(maker.wait(), 0);
  EXPECT_FALSE(maintenance.inventory().value().items.at(0).is_active);
  EXPECT_EQ(maintenance.collect({}).value().partial, 1U);
  EXPECT_THAT(making_files(), IsEmpty());
}

TEST_F(CacheMaintenanceTest, CollectEvictsLeastRecentlyUsed) {
  const Digest first = add_blob(1, 3000);
  const Digest second = add_blob(2, 1000);
  const Digest third = add_blob(3, 2000);
  const Digest pinned = add_blob(4, 500);
  ASSERT_TRUE(maintenance.pin(pinned).value());
  const uint64_t all = maintenance.inventory().value().on_disk;
  EXPECT_EQ(maintenance.collect(all).value().blobs, 0U);
  EXPECT_EQ(maintenance.collect(all - 1).value().blobs, 1U);
  EXPECT_THAT(hexes(), ElementsAre(first.hex(), third.hex(), pinned.hex()));
  EXPECT_THAT(links(), SizeIs(3));
  const GcResult rest = maintenance.collect(0).value();
  EXPECT_EQ(rest.blobs, 2U);
  EXPECT_THAT(rest.not_removed, ElementsAre(HasSubstr(": the remaining blobs are pinned or being written")));
  EXPECT_THAT(hexes(), ElementsAre(pinned.hex()));
  EXPECT_FALSE(std::filesystem::exists(blob_at(second)));
}

TEST_F(CacheMaintenanceTest, RemoveDeletesNamedBlobsAndLinks) {
  const Digest first = add_blob(1);
  const Digest second = add_blob(2);
  link("another key of the first", first);
  const Digest left = add_partial(3, 1000);
  const GcResult removed = maintenance.remove({first, left, sha256("not cached")}, PinnedBlobs::keep).value();
  EXPECT_EQ(removed.blobs, 1U);
  EXPECT_EQ(removed.partial, 1U);
  EXPECT_THAT(removed.not_removed, IsEmpty());
  EXPECT_THAT(hexes(), ElementsAre(second.hex()));
  EXPECT_THAT(links(), SizeIs(1));
  EXPECT_THAT(making_files(), IsEmpty());
  EXPECT_GE(ledger_bytes(), disk_usage());
  EXPECT_LT(ledger_bytes(), disk_usage() + kBlobSize);
}

TEST_F(CacheMaintenanceTest, PinnedBlobIsRemovedOnlyByForce) {
  const Digest pinned = add_blob(1);
  const Digest other = add_blob(2);
  EXPECT_TRUE(maintenance.pin(pinned).value());
  EXPECT_FALSE(maintenance.pin(pinned).value());
  EXPECT_THAT(maintenance.remove({pinned}, PinnedBlobs::keep).value().not_removed,
              ElementsAre(pinned.hex() + ": is pinned"));
  EXPECT_EQ(maintenance.remove_all(PinnedBlobs::keep).value().blobs, 1U);
  EXPECT_THAT(hexes(), ElementsAre(pinned.hex()));
  EXPECT_EQ(maintenance.remove({pinned}, PinnedBlobs::remove).value().blobs, 1U);
  EXPECT_THAT(blobs(), IsEmpty());
  EXPECT_THAT(files_in(directory + "/v1/pins"), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(blob_at(other)));
}

TEST_F(CacheMaintenanceTest, OnlyCachedBlobsCanBePinned) {
  add_blob(1);
  const auto pinned = maintenance.pin(sha256("not cached"));
  ASSERT_FALSE(pinned);
  EXPECT_EQ(pinned.error().code, Code::not_found);
  EXPECT_THAT(files_in(directory + "/v1/pins"), IsEmpty());
}

// semantics 16.4
TEST_F(CacheMaintenanceTest, PinnedRangesAreKeptUntilTheyAreUnpinned) {
  const Digest pinned = add_ranges("https://host/a \"v1\" 50000");
  add_ranges("https://host/b \"v1\" 50000");
  EXPECT_TRUE(maintenance.pin(pinned).value());
  EXPECT_EQ(usage_of(maintenance.inventory().value()).pinned, 1U);
  EXPECT_EQ(maintenance.collect(0).value().remotes, 1U);
  EXPECT_THAT(maintenance.remove({pinned}, PinnedBlobs::keep).value().not_removed,
              ElementsAre("https://host/a: is pinned"));
  EXPECT_TRUE(std::filesystem::exists(blocks_at(pinned)));
  EXPECT_TRUE(maintenance.unpin(pinned).value());
  EXPECT_EQ(maintenance.collect(0).value().remotes, 1U);
  EXPECT_THAT(block_files(), IsEmpty());
}

TEST_F(CacheMaintenanceTest, ReservedSpaceIsNotCountedAsCached) {
  const Digest ranges = add_ranges("https://host/a \"v1\" 1000000", 1'000'000);
  const uint64_t before = usage_of(maintenance.inventory().value()).remote_bytes;
  const CachedFiles files = open_blocks_files(*folders(), ranges, O_RDWR);
  ASSERT_TRUE(allocate(files.data->number(), 10 * kBlock, 20 * kBlock));
  const Inventory contents = maintenance.inventory().value();
  const Item& item = contents.items.at(0);
  EXPECT_EQ(item.size, 3 * kBlock);
  EXPECT_GE(item.on_disk, 13 * kBlock);
  EXPECT_GE(item.reserved, 9 * kBlock);
  EXPECT_LE(item.reserved, 10 * kBlock);
  EXPECT_EQ(usage_of(contents).reserved_bytes, item.reserved);
  EXPECT_LE(usage_of(contents).remote_bytes, before + kBlock);
  EXPECT_EQ(usage_of(contents).all_bytes, disk_usage());
}

TEST_F(CacheMaintenanceTest, NamesOfPinnedBlobOutliveIt) {
  const Digest pinned = add_blob(1);
  const Digest other = add_blob(2);
  for (const Digest& blob : {pinned, other}) write_names(*folders(), blob, {{NameKind::model, "hf://org/model"}});
  ASSERT_TRUE(maintenance.pin(pinned).value());
  corrupt(pinned);
  corrupt(other);
  EXPECT_THAT(verify().mismatched, SizeIs(2));
  EXPECT_THAT(resolve_name(maintenance.inventory().value(), "hf://org/model"), ElementsAre(pinned));
  EXPECT_THAT(files_in(directory + "/v1/names"), ElementsAre(pinned.hex()));
  ASSERT_TRUE(maintenance.unpin(pinned).value());
  EXPECT_EQ(maintenance.collect({}).value().blobs, 0U);
  EXPECT_THAT(files_in(directory + "/v1/names"), IsEmpty());
}

TEST_F(CacheMaintenanceTest, NameMatchesWholePartsOfNames) {
  Inventory contents;
  const auto add = [&](const std::string& name, NameKind kind) {
    contents.items.push_back({ItemKind::blob, sha256(name), {}});
    contents.items.back().names = {{kind, name}};
    return sha256(name);
  };
  const Digest url = add("https://host/org/model/weights", NameKind::url);
  const Digest member = add("/m/a.zip: weights", NameKind::member);
  const Digest revision = add("hf://org/model@main", NameKind::model);
  add("https://host/org/model2/weights", NameKind::url);
  add("https://host/org/model", NameKind::record);
  EXPECT_THAT(resolve_name(contents, "https://host/org/model"), ElementsAre(url));
  EXPECT_THAT(resolve_name(contents, "https://host/org/model/"), ElementsAre(url));
  EXPECT_THAT(resolve_name(contents, "/m/a.zip"), ElementsAre(member));
  EXPECT_THAT(resolve_name(contents, "hf://org/model"), ElementsAre(revision));
  EXPECT_THAT(resolve_name(contents, "https://host/org/mod"), IsEmpty());
}

TEST_F(CacheMaintenanceTest, OnlyTheNewestNamesAreKept) {
  const Digest blob = add_blob(1);
  std::vector<Name> names;
  for (size_t i = 0; i < 2 * kMaxNamesOfFile; ++i)
    names.push_back({NameKind::url, fmt::format("https://host/{}\n", i)});
  write_names(*folders(), blob, names);
  const std::vector<Name> kept = names_of(*folders(), blob);
  ASSERT_THAT(kept, SizeIs(kMaxNamesOfFile));
  EXPECT_EQ(kept.back(), (Name{NameKind::url, "https://host/31\\x0a"}));
  write_names(*folders(), blob, {{NameKind::url, std::string(10'000, 'x')}, {NameKind::url, "short"}});
  EXPECT_THAT(names_of(*folders(), blob), ElementsAre(Name{NameKind::url, "short"}));
}

TEST_F(CacheMaintenanceTest, UnpinnedBlobIsEvicted) {
  const Digest digest = add_blob(1);
  ASSERT_TRUE(maintenance.pin(digest).value());
  EXPECT_EQ(maintenance.collect(0).value().blobs, 0U);
  EXPECT_TRUE(maintenance.unpin(digest).value());
  EXPECT_FALSE(maintenance.unpin(digest).value());
  EXPECT_EQ(maintenance.collect(0).value().blobs, 1U);
}

TEST_F(CacheMaintenanceTest, DigestIsResolvedByUniquePrefix) {
  Inventory contents;
  const auto digest = [](const std::string& begin) {
    return *digest_of_hex(begin + std::string(64 - begin.size(), '0'));
  };
  contents.items.push_back({ItemKind::blob, digest("abcdef1"), {}});
  contents.items.push_back({ItemKind::blob, digest("abcdef2"), {}});
  contents.items.push_back({ItemKind::part, digest("123456"), {}});
  contents.items.push_back({ItemKind::part, digest("abcdef1"), {}});  // the blob is being downloaded again
  contents.items.push_back({ItemKind::absent, digest("777777"), {}});
  for (const std::string text : {"abcdef1", "ABCDEF1", "sha256:abcdef1", "sha256-abcdef10", "abcdef10000000000000"})
    EXPECT_EQ(resolve_digest_prefix(contents, text).value(), digest("abcdef1")) << text;
  EXPECT_EQ(resolve_digest_prefix(contents, digest("abcdef1").hex()).value(), digest("abcdef1"));
  EXPECT_EQ(resolve_digest_prefix(contents, "123456").value(), digest("123456"));
  EXPECT_EQ(resolve_digest_prefix(contents, "777777").value(), digest("777777"));
  EXPECT_THAT(resolve_digest_prefix(contents, "abcdef").error().message, "abcdef: 2 digests have this prefix");
  EXPECT_THAT(resolve_digest_prefix(contents, "999999").error().message, "999999: not in the cache");
  for (const std::string text :
       {"", "abcde", "sha256:", "abcdeg", "../../", "md5:abcdef", "\xff\xff\xff\xff\xff\xff"}) {
    EXPECT_FALSE(is_digest_prefix(text)) << text;
    EXPECT_FALSE(resolve_digest_prefix(contents, text)) << text;
  }
  EXPECT_FALSE(is_digest_prefix(std::string(65, 'a')));
}

// Several processes run all commands repeatedly.
TEST_F(CacheMaintenanceTest, ConcurrentCollectsLoseNothing) {
  std::vector<std::string> right;
  for (uint32_t seed = 1; seed <= 10; ++seed) right.push_back(add_blob(seed).hex());
  for (uint32_t seed = 11; seed <= 20; ++seed) corrupt(add_blob(seed));
  for (uint32_t seed = 21; seed <= 30; ++seed) add_partial(seed, 1000);
  const Digest pinned = *digest_of_hex(right[0]);
  const auto run_all = [&] {
    for (int turn = 0; turn < 5; ++turn) {
      if (!maintenance.inventory() || !maintenance.verify({}) || !maintenance.collect({})) return 1;
      if (!maintenance.pin(pinned) || !maintenance.unpin(pinned)) return 2;
    }
    return 0;
  };
  Child one(run_all);
  Child other(run_all);
  EXPECT_EQ(one.wait(), 0);
  EXPECT_EQ(other.wait(), 0);
  EXPECT_THAT(hexes(), testing::UnorderedElementsAreArray(right));
  EXPECT_THAT(links(), SizeIs(10));
  EXPECT_THAT(making_files(), IsEmpty());
  EXPECT_GE(ledger_bytes(), disk_usage());
}

class SweepTest : public CacheFolders {};

TEST_F(SweepTest, PartialDownloadIsSweptAfterOneWeek) {
  const time_t now = ::time(nullptr);
  const Digest lately = add_partial(1, now - 6 * kDay);
  add_partial(2, now - 8 * kDay);
  const Digest fetched = add_partial(3, now - 8 * kDay);
  const BlockFilePtr fetching = open_held(fetched);
  const GcResult swept = sweep(*folders());
  EXPECT_EQ(swept.partial, 1U);
  EXPECT_GE(swept.bytes, kBlobSize);
  EXPECT_TRUE(std::filesystem::exists(part_at(lately)));
  EXPECT_TRUE(std::filesystem::exists(part_at(fetched)));
  EXPECT_THAT(block_files(), SizeIs(2));
}

// A killed process, or an earlier version, whose map was the end of the file, has left them.
TEST_F(SweepTest, DataAndMapsWithoutEachOtherAreSweptAtOnce) {
  const Digest whole = add_partial(1, ::time(nullptr));
  const Digest lost_map = add_partial(2, ::time(nullptr));
  const Digest lost_data = add_partial(3, ::time(nullptr));
  std::filesystem::remove(part_at(lost_map) + ".map");
  std::filesystem::remove(part_at(lost_data));
  EXPECT_EQ(sweep(*folders()).leftovers, 2U);
  EXPECT_THAT(files_in(directory + "/v1/blocks"), SizeIs(2));
  EXPECT_TRUE(std::filesystem::exists(part_at(whole)));
}

// They hold the temporary files of earlier versions.
TEST_F(SweepTest, UnlockedFilesOfOtherNamesAreSweptAtOnce) {
  write("making/not-a-digest.part", "bytes");
  write("making/" + std::string(64, 'a') + ".part", "bytes");
  EXPECT_EQ(sweep(*folders()).leftovers, 2U);
  EXPECT_THAT(making_files(), IsEmpty());
}

TEST_F(SweepTest, BlockListsOfEarlierVersionsAreRemoved) {
  const Digest blob = add_blob(1);
  std::filesystem::create_directory(directory + "/v1/lists");
  write("lists/" + blob.hex(), "descriptor and tree");
  std::ignore = sweep(*folders());
  EXPECT_FALSE(std::filesystem::exists(directory + "/v1/lists"));
  EXPECT_TRUE(std::filesystem::exists(blob_at(blob)));
}

// The blob and its link were created again after the removal.
TEST_F(SweepTest, LinkToExistingBlobIsKept) {
  const Digest there = add_blob(1);
  const Digest gone = add_blob(2);
  std::filesystem::remove(blob_at(gone));
  EXPECT_EQ(unlink_dead_links(*folders(), {there, gone}), 1U);
  EXPECT_THAT(links(), ElementsAre(index_link("key 1")));
}

}  // namespace
}  // namespace weightfs::test::maintenance_test
