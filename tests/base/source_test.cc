// The contract suite over every Source, then the tests of each one.
#include "base/source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/cancel.h"
#include "base/files/file_source.h"
#include "base/files/leaf.h"
#include "base/files/private_file.h"
#include "base/os/descriptor.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary.h"

namespace weightfs::source_test {
namespace {

using testing::HasSubstr;

std::string text(const Source& source, uint64_t offset = 0, size_t size = 1000) {
  std::string out(size, '?');
  const auto got = source.read(offset, std::as_writable_bytes(std::span(out)));
  if (!got) return "error: " + got.error().message;
  out.resize(*got);
  return out;
}

// The bytes of pieces of two bytes, from these offsets on.
std::string pieces(const Source& source, const std::vector<uint64_t>& offsets) {
  std::string out(2 * offsets.size(), '?');
  const auto bytes = std::as_writable_bytes(std::span(out));
  std::vector<Piece> wanted;
  for (const uint64_t offset : offsets) wanted.push_back({offset, bytes.subspan(2 * wanted.size(), 2)});
  const auto done = read_pieces(source, wanted);
  return done ? out : "error: " + done.error().message;
}

// Every kind of source, holding "0123456789".
struct Kind {
  std::string name;
  std::function<SourcePtr(const TemporaryDirectory&)> make;
};

class EverySource : public testing::TestWithParam<Kind> {
 protected:
  TemporaryDirectory directory;
  SourcePtr source = GetParam().make(directory);
};

TEST_P(EverySource, ReportsSize) { EXPECT_EQ(source->size(), 10U); }
TEST_P(EverySource, ReadsAll) { EXPECT_EQ(text(*source), "0123456789"); }
TEST_P(EverySource, ReadsAnyRange) {
  for (size_t offset = 0; offset <= 10; ++offset)
    for (size_t size = 0; size + offset <= 10; ++size)
      EXPECT_EQ(text(*source, offset, size), std::string("0123456789").substr(offset, size));
}
TEST_P(EverySource, ReadsShortOnlyAtEnd) {
  EXPECT_EQ(text(*source, 7, 10), "789");
  EXPECT_EQ(text(*source, 10, 10), "");
  EXPECT_EQ(text(*source, 11, 10), "");
  EXPECT_EQ(text(*source, UINT64_MAX, 10), "");
}
TEST_P(EverySource, ReadsPieces) {
  EXPECT_EQ(pieces(*source, {}), "");
  EXPECT_EQ(pieces(*source, {8, 0, 3, 2}), "89013423");
}
TEST_P(EverySource, RefusesPiecesBehindTheEnd) {
  EXPECT_EQ(pieces(*source, {0, 9}), "error: ends at byte 10, 2 bytes needed at 9");
  EXPECT_EQ(pieces(*source, {UINT64_MAX}), "error: ends at byte 10, 2 bytes needed at 18446744073709551615");
}
TEST_P(EverySource, ServesManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_EQ(text(*source, 2, 5), "23456");
    });
  for (auto& thread : threads) thread.join();
}
TEST_P(EverySource, ExtentHoldsSameBytes) {
  const auto extent = extent_of(*source);
  if (!extent) return;
  std::string out(extent->size, '?');
  EXPECT_EQ(::pread(extent->fd, out.data(), out.size(), static_cast<off_t>(extent->offset)), 10);
  EXPECT_EQ(out, "0123456789");
}

TEST_P(EverySource, PlacesCoverAllBytes) {
  for (const Opens opens : {Opens::nothing, Opens::files}) {
    for (uint64_t offset = 0; offset < 10; ++offset) {
      const auto place = source->place(offset, opens);
      ASSERT_TRUE(place);
      EXPECT_GE(place->length, 1U) << offset;
      EXPECT_LE(place->length, 10 - offset);
    }
    for (const uint64_t offset : {uint64_t{10}, uint64_t{11}, UINT64_MAX}) {
      const auto place = source->place(offset, opens);
      ASSERT_TRUE(place);
      EXPECT_EQ(place->length, 0U) << offset;
    }
  }
}

SourcePtr file(const TemporaryDirectory& directory, const std::string& bytes) {
  return open_file(directory.write("source", bytes)).value();
}

INSTANTIATE_TEST_SUITE_P(
    Sources, EverySource,
    testing::Values(
        Kind{"Memory", [](const auto&) { return in_memory("0123456789"); }},
        Kind{"File", [](const auto& d) { return file(d, "0123456789"); }},
        Kind{"SliceOfFile",
             [](const auto& d) { return std::make_shared<Slice>(slice(file(d, "ab0123456789cd"), 2, 10).value()); }},
        Kind{"Concat",
             [](const auto& d) {
               return concat({in_memory("01"), in_memory(""), file(d, "23456"), in_memory("789"), in_memory("")});
             }},
        Kind{"Lazy",
             [](const auto&) {
               return lazy(10, Later<SourcePtr>([]() -> Result<SourcePtr> { return in_memory("0123456789"); }));
             }}),
    [](const auto& kind) { return kind.param.name; });

TEST(Slice, RefusesRangeOutsideSource) {
  const SourcePtr ten = in_memory("0123456789");
  EXPECT_TRUE(slice(ten, 10, 0));
  EXPECT_FALSE(slice(ten, 10, 1));
  EXPECT_FALSE(slice(ten, 11, 0));
  EXPECT_FALSE(slice(ten, 1, UINT64_MAX));
  EXPECT_FALSE(slice(ten, UINT64_MAX, UINT64_MAX));
}

TEST(Slice, EmptySliceCannotBeRead) { EXPECT_EQ(text(Slice()), "error: refused when the container was read"); }

TEST(Lazy, FailsIfComputedSizeDiffers) {
  const auto source = lazy(3, Later<SourcePtr>([]() -> Result<SourcePtr> { return in_memory("four"); }));
  EXPECT_THAT(text(*source), HasSubstr("produced 4 bytes, expected 3"));
}

TEST(OpenFile, RefusesNonRegularFile) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo(directory.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(open_file(directory.path("pipe")).error().code, Code::io);
  EXPECT_EQ(open_file(directory.path("")).error().code, Code::io);
  EXPECT_EQ(open_file(directory.path("absent")).error().code, Code::not_found);
}

class ChangedFile : public testing::Test {
 protected:
  // The clock that stamps files ticks every few milliseconds: an older time makes the next write a new one for sure.
  void SetUp() override {
    path = directory.write("container", "0123456789");
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), std::array<timespec, 2>{{{1, 0}, {1, 0}}}.data(), 0), 0);
    source = open_file(path).value();
    ASSERT_EQ(text(*source), "0123456789");
    wait_for_a_tick();
  }
  // Waits until the next change gets another change time: the clock of file times ticks every few milliseconds.
  void wait_for_a_tick() const {
    struct stat now {};
    ASSERT_EQ(::stat(path.c_str(), &now), 0);
    struct stat later = now;
    while (later.st_ctim.tv_sec == now.st_ctim.tv_sec && later.st_ctim.tv_nsec <= now.st_ctim.tv_nsec)
      ASSERT_EQ(::stat(directory.write("scratch", "x").c_str(), &later), 0);
  }
  void write_in_place() const { std::fstream(path, std::ios::in | std::ios::out) << "9876543210"; }
  void put_time_back() const {
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), std::array<timespec, 2>{{{1, 0}, {1, 0}}}.data(), 0), 0);
  }
  void expect_refused() {
    EXPECT_THAT(pieces(*source, {0, 4}), HasSubstr("changed or replaced"));
    EXPECT_THAT(text(*source, 0, 2), HasSubstr("changed or replaced"));
    EXPECT_THAT(text(*source, 5, 2), HasSubstr("changed or replaced"));
  }
  TemporaryDirectory directory;
  std::string path;
  SourcePtr source;
};

// semantics 6.1
TEST_F(ChangedFile, TruncationFailsReads) {
  ASSERT_EQ(::truncate(path.c_str(), 4), 0);
  expect_refused();
}
TEST_F(ChangedFile, GrowthFailsReads) {
  std::ofstream(path, std::ios::app) << "more";
  expect_refused();
}
TEST_F(ChangedFile, RewriteInPlaceFailsReads) {
  std::fstream(path, std::ios::in | std::ios::out) << "9876543210";
  expect_refused();
}
TEST_F(ChangedFile, ReplacementFailsReads) {
  std::filesystem::rename(directory.write("other", "0123456789"), path);
  expect_refused();
}
// The times of a file do not change with its directory, so that is noticed by the next look at the path.
TEST_F(ChangedFile, ReplacementOfItsDirectoryFailsReads) {
  const std::string folder = directory.path("model");
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/file") << "0123456789";
  const SourcePtr moved = open_file(folder + "/file").value();
  EXPECT_EQ(text(*moved), "0123456789");
  std::filesystem::rename(folder, directory.path("before"));
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/file") << "9876543210";
  EXPECT_TRUE(test::eventually([&] { return text(*moved) != "0123456789"; }));
  EXPECT_THAT(text(*moved), HasSubstr("changed or replaced"));
}
TEST_F(ChangedFile, FailsEvenAfterTimesAreRestored) {
  std::fstream(path, std::ios::in | std::ios::out) << "9876543210";
  expect_refused();
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), std::array<timespec, 2>{{{1, 0}, {1, 0}}}.data(), 0), 0);
  EXPECT_THAT(text(*source), HasSubstr("changed or replaced"));
}
TEST_F(ChangedFile, RewriteWithRestoredTimeFailsReads) {
  write_in_place();
  put_time_back();
  expect_refused();
}
TEST_F(ChangedFile, SettingTimesFailsReads) {
  put_time_back();
  expect_refused();
}
TEST_F(ChangedFile, RewriteAfterAcceptedChangeFailsReads) {
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  EXPECT_EQ(text(*source), "0123456789");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(text(*source), "0123456789");
  wait_for_a_tick();
  write_in_place();
  put_time_back();
  expect_refused();
}
TEST_F(ChangedFile, RewriteAfterRenameFailsReads) {
  std::filesystem::rename(path, directory.path("elsewhere"));
  EXPECT_EQ(text(*source), "0123456789");
  path = directory.path("elsewhere");
  wait_for_a_tick();
  write_in_place();
  put_time_back();
  expect_refused();
}
// A rename of its directory is not a change of the file: the change time stays, and so does the unused explanation.
TEST_F(ChangedFile, RewriteAfterDirectoryRenameFailsReads) {
  std::filesystem::create_directory(directory.path("a"));
  path = directory.write("a/container", "0123456789");
  put_time_back();
  source = open_file(path).value();
  std::filesystem::rename(directory.path("a"), directory.path("b"));
  EXPECT_EQ(text(*source), "0123456789");
  path = directory.path("b/container");
  wait_for_a_tick();
  write_in_place();
  put_time_back();
  expect_refused();
}
// Whoever may write to the file may do so and then explain the change time.
TEST_F(ChangedFile, AnyChangeOfFileWritableByOthersFailsReads) {
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  source = open_file(path).value();
  EXPECT_EQ(text(*source), "0123456789");
  wait_for_a_tick();
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  expect_refused();
}
TEST_F(ChangedFile, BecomingWritableByOthersFailsReads) {
  ASSERT_EQ(::chmod(path.c_str(), 0622), 0);
  expect_refused();
}
// semantics 6.2
TEST_F(ChangedFile, HardLinkKeepsReadsWorking) {
  std::filesystem::create_hard_link(path, directory.path("link"));
  EXPECT_EQ(text(*source), "0123456789");
  EXPECT_EQ(text(*source), "0123456789");
}
TEST_F(ChangedFile, RenameKeepsReadsWorking) {
  std::filesystem::rename(path, directory.path("elsewhere"));
  EXPECT_EQ(text(*source), "0123456789");
  std::filesystem::rename(directory.path("elsewhere"), path);
  EXPECT_EQ(text(*source), "0123456789");
}
TEST_F(ChangedFile, ChmodKeepsReadsWorking) {
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  EXPECT_EQ(text(*source), "0123456789");
}
TEST(PrivateFile, IsNotWritableByOtherUsers) {
  struct stat file {};
  file.st_uid = ::geteuid();
  file.st_gid = 12345;
  const auto is_private = [&](mode_t mode) {
    file.st_mode = S_IFREG | mode;
    return is_private_file(file);
  };
  EXPECT_TRUE(is_private(0644));
  EXPECT_FALSE(is_private(0646));
  EXPECT_FALSE(is_private(0664));
  file.st_uid = 0;
  EXPECT_TRUE(is_private(0644));
  file.st_uid = ::geteuid() + 1;
  EXPECT_FALSE(is_private(0644));
}
// Runs in a process of its own: the private group of its user is looked up once.
[[noreturn]] void check_group_of_root() {
  constexpr uid_t kUser = 4242;  // of no group that could be its private one
  if (::geteuid() == 0 && ::setresuid(kUser, kUser, kUser) != 0) std::_Exit(1);
  struct stat file {};
  file.st_uid = ::geteuid();
  file.st_mode = S_IFREG | 0664;
  file.st_gid = 0;
  if (!is_private_file(file)) std::_Exit(2);
  file.st_gid = 12345;
  std::_Exit(is_private_file(file) ? 3 : 0);
}
TEST(PrivateFileDeathTest, GroupOfRootMayWriteAndOtherGroupsMayNot) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(check_group_of_root(), testing::ExitedWithCode(0), "");
}
// The first 10 bytes of a file, mapped to write them.
class Mapping {
 public:
  explicit Mapping(const std::string& path)
      : file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)),
        bytes_(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0)) {
    if (bytes_ == MAP_FAILED) throw std::runtime_error("mmap failed");
  }
  ~Mapping() { ::munmap(bytes_, kSize); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  void write_first(char c) { *static_cast<volatile char*>(bytes_) = c; }

 private:
  static constexpr size_t kSize = 10;
  Descriptor file_;
  void* bytes_;
};
// semantics 6.3
TEST_F(ChangedFile, WriteThroughAMappingToADirtyPageIsNotDetected) {
  Mapping mapping(path);
  mapping.write_first('a');
  source = open_file(path).value();
  EXPECT_EQ(text(*source), "a123456789");
  wait_for_a_tick();
  mapping.write_first('b');
  EXPECT_EQ(text(*source), "b123456789");
}
TEST_F(ChangedFile, WriteThroughAMappingToACleanPageIsDetected) {
  Mapping(path).write_first('a');
  expect_refused();
}
// Since Linux 6.13 the times always differ on most file systems.
TEST_F(ChangedFile, WriteInTheSameTickIsDetectedOnlyIfTheChangeTimeDiffers) {
  const auto change_time = [&] {
    struct stat file {};
    EXPECT_EQ(::stat(path.c_str(), &file), 0);
    return std::pair(file.st_ctim.tv_sec, file.st_ctim.tv_nsec);
  };
  for (int i = 0; i < 100; ++i) {
    directory.write("container", "0123456789");
    source = open_file(path).value();
    const auto opened = change_time();
    write_in_place();
    if (change_time() == opened)
      EXPECT_EQ(text(*source), "9876543210");
    else
      EXPECT_THAT(text(*source), HasSubstr("changed or replaced"));
  }
}
TEST_F(ChangedFile, RewriteWithTheTimePutBackAndAChangeOfModeIsNotDetectedInAPrivateFile) {
  write_in_place();
  put_time_back();
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(text(*source), "9876543210");
}
TEST_F(ChangedFile, RewriteWithTheTimePutBackIsDetectedIfAReadPrecedesTheChangeOfMode) {
  write_in_place();
  put_time_back();
  expect_refused();
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  expect_refused();
}
TEST_F(ChangedFile, RewriteWithTheTimePutBackAndAChangeOfModeIsDetectedIfOthersMayWrite) {
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  source = open_file(path).value();
  wait_for_a_tick();
  write_in_place();
  put_time_back();
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  expect_refused();
}
// semantics 16.8
class VerifiedBytes final : public Source {
 public:
  explicit VerifiedBytes(VerifiedBy verification) : verification_(verification) {}
  uint64_t size() const override { return 10; }
  Result<size_t> read(uint64_t, std::span<std::byte>) const override { return failure(Code::io, "not read"); }
  VerifiedBy verification() const override { return verification_; }

 private:
  VerifiedBy verification_;
};
SourcePtr verified(VerifiedBy verification) { return std::make_shared<VerifiedBytes>(verification); }
TEST(Verification, IsThatOfTheSourceThatHasTheBytes) {
  EXPECT_EQ(in_memory("bytes")->verification(), VerifiedBy::unknown);
  EXPECT_EQ(Slice().verification(), VerifiedBy::unknown);
  for (const auto verification :
       {VerifiedBy::mismatch, VerifiedBy::unpinned, VerifiedBy::transport, VerifiedBy::blocks, VerifiedBy::whole}) {
    EXPECT_EQ(slice(verified(verification), 2, 5)->verification(), verification);
    const Later<SourcePtr> later([=]() -> Result<SourcePtr> { return verified(verification); });
    const SourcePtr lazily = lazy(10, later);
    EXPECT_EQ(lazily->verification(), VerifiedBy::unknown) << "it must not be computed for this";
    ASSERT_TRUE(later.get());
    EXPECT_EQ(lazily->verification(), verification);
  }
}
TEST(Verification, OfAConcatenationIsTheWorstOfItsParts) {
  EXPECT_EQ(concat({in_memory("head"), verified(VerifiedBy::whole)})->verification(), VerifiedBy::whole);
  EXPECT_EQ(concat({verified(VerifiedBy::whole), verified(VerifiedBy::transport), verified(VerifiedBy::blocks)})
                ->verification(),
            VerifiedBy::transport);
  EXPECT_EQ(concat({verified(VerifiedBy::transport), verified(VerifiedBy::mismatch)})->verification(),
            VerifiedBy::mismatch);
  EXPECT_EQ(concat({in_memory("a"), in_memory("b")})->verification(), VerifiedBy::unknown);
}
// Ten bytes, the ranges that it got advice about, and the number of groups of pieces that were read together.
class TenBytes final : public Leaf {
 public:
  uint64_t size() const override { return 10; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return in_memory("0123456789")->read(offset, out);
  }
  void advise(ByteRange range, Advice) const override { ranges.emplace_back(range.from, range.to); }
  Result<void> read_pieces(std::span<const Piece> pieces) const override {
    ++groups;
    return Leaf::read_pieces(pieces);
  }

  mutable int groups = 0;
  mutable std::vector<std::pair<uint64_t, uint64_t>> ranges;
};
TEST(Advice, ReachesTheSourcesThatHaveTheBytes) {
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
  const auto first = std::make_shared<TenBytes>();
  const auto second = std::make_shared<TenBytes>();
  const SourcePtr both = concat({in_memory("head"), first, second});
  const auto part = std::make_shared<Slice>(slice(both, 2, 20).value());
  advise(*part, {0, 100}, Advice::reads_soon);
  EXPECT_EQ(first->ranges, (Ranges{{0, 10}}));
  EXPECT_EQ(second->ranges, (Ranges{{0, 8}}));
  advise(*part, {5, 6}, Advice::reads_soon);
  EXPECT_EQ(first->ranges, (Ranges{{0, 10}, {3, 4}}));
  const Later<SourcePtr> later([=]() -> Result<SourcePtr> { return second; });
  const SourcePtr lazily = lazy(10, later);
  advise(*lazily, {1, 2}, Advice::has_read);
  EXPECT_EQ(second->ranges.size(), 1u) << "it must not be computed for this";
  ASSERT_TRUE(later.get());
  advise(*lazily, {1, 2}, Advice::has_read);
  EXPECT_EQ(second->ranges.back(), std::pair(uint64_t{1}, uint64_t{2}));
}
TEST(Pieces, OfOneLeafAreReadTogether) {
  const auto leaf = std::make_shared<TenBytes>();
  const SourcePtr both = concat({in_memory("head"), leaf});
  EXPECT_EQ(pieces(*slice(both, 5, 9), {6, 0, 3}), "781245");
  EXPECT_EQ(leaf->groups, 1);
  EXPECT_EQ(pieces(*both, {3, 5}), "d012");
  EXPECT_EQ(leaf->groups, 1) << "of both parts";
  EXPECT_THAT(pieces(Slice(), {0}), HasSubstr("refused"));
}

// The place of a byte: the number of its leaf in `leaves`, the offset there, and how many bytes follow.
std::string place_of(const Source& source, uint64_t offset, const std::vector<SourcePtr>& leaves,
                     Opens opens = Opens::nothing) {
  const auto place = source.place(offset, opens);
  if (!place) return "error: " + place.error().message;
  const Source* const leaf = place->leaf;
  const auto is_leaf = [&](const SourcePtr& each) { return each.get() == leaf; };
  const auto found = std::ranges::find_if(leaves, is_leaf);
  const std::string name = leaf == nullptr ? "none" : std::to_string(found - leaves.begin());
  return name + " at " + std::to_string(place->offset) + ": " + std::to_string(place->length);
}

TEST(Place, OfASliceOfASliceIsInTheLeaf) {
  const SourcePtr leaf = std::make_shared<TenBytes>();
  const auto inner = std::make_shared<Slice>(slice(leaf, 2, 6).value());
  const Slice outer = slice(inner, 1, 3).value();
  EXPECT_EQ(place_of(*leaf, 4, {leaf}), "0 at 4: 6");
  EXPECT_EQ(place_of(*inner, 0, {leaf}), "0 at 2: 6");
  EXPECT_EQ(place_of(outer, 0, {leaf}), "0 at 3: 3");
  EXPECT_EQ(place_of(outer, 2, {leaf}), "0 at 5: 1");
  EXPECT_EQ(place_of(outer, 3, {leaf}), "0 at 6: 0");
  EXPECT_EQ(place_of(outer, UINT64_MAX, {leaf}), "0 at 6: 0");
}

TEST(Place, EndsWithThePartOfAConcatenation) {
  const std::vector<SourcePtr> leaves = {std::make_shared<TenBytes>(), std::make_shared<TenBytes>()};
  const SourcePtr all = concat({leaves[0], in_memory(""), in_memory("head"), leaves[1]});
  EXPECT_EQ(place_of(*all, 0, leaves), "0 at 0: 10");
  EXPECT_EQ(place_of(*all, 9, leaves), "0 at 9: 1");
  EXPECT_EQ(place_of(*all, 10, leaves), "none at 0: 4");
  EXPECT_EQ(place_of(*all, 13, leaves), "none at 0: 1");
  EXPECT_EQ(place_of(*all, 14, leaves), "1 at 0: 10");
  EXPECT_EQ(place_of(*all, 23, leaves), "1 at 9: 1");
  EXPECT_EQ(place_of(*all, 24, leaves), "1 at 10: 0");
  EXPECT_EQ(place_of(*all, UINT64_MAX, leaves), "1 at 10: 0");
  const Slice middle = slice(all, 8, 8).value();
  EXPECT_EQ(place_of(middle, 0, leaves), "0 at 8: 2");
  EXPECT_EQ(place_of(middle, 2, leaves), "none at 0: 4");
  EXPECT_EQ(place_of(middle, 6, leaves), "1 at 0: 2");
  EXPECT_EQ(place_of(*concat({}), 0, leaves), "none at 0: 0");
}

TEST(Place, OfALazySourceIsKnownOnceItIsMade) {
  const SourcePtr leaf = std::make_shared<TenBytes>();
  const Later<SourcePtr> later([=]() -> Result<SourcePtr> { return leaf; });
  const SourcePtr lazily = lazy(10, later);
  const SourcePtr other_size = lazy(9, later);
  for (const Opens opens : {Opens::nothing, Opens::files})
    EXPECT_EQ(place_of(*lazily, 4, {leaf}, opens), "none at 0: 6") << "it must not be computed for this";
  EXPECT_FALSE(later.peek());
  ASSERT_TRUE(later.get());
  EXPECT_EQ(place_of(*lazily, 4, {leaf}), "0 at 4: 6");
  EXPECT_EQ(place_of(*other_size, 4, {leaf}), "none at 0: 5") << "its reads fail";
}

TEST(Place, OfAnEmptySliceIsItsOffset) {
  const SourcePtr leaf = std::make_shared<TenBytes>();
  EXPECT_EQ(place_of(slice(leaf, 4, 0).value(), 0, {leaf}), "0 at 4: 0");
  EXPECT_EQ(place_of(slice(leaf, 10, 0).value(), 0, {leaf}), "0 at 10: 0");
  EXPECT_THAT(place_of(Slice(), 0, {leaf}), HasSubstr("refused"));
}

TEST(Extent, IsInOneFile) {
  const TemporaryDirectory directory;
  const SourcePtr numbers = file(directory, "0123456789");
  EXPECT_EQ(extent_of(*numbers)->size, 10U);
  const SourcePtr inner = std::make_shared<Slice>(slice(concat({in_memory("head"), numbers}), 5, 4).value());
  ASSERT_TRUE(extent_of(*inner));
  EXPECT_EQ(extent_of(*inner)->offset, 1U);
  EXPECT_EQ(extent_of(*inner)->size, 4U);
  EXPECT_FALSE(extent_of(*concat({in_memory("head"), numbers})));
  EXPECT_FALSE(extent_of(*concat({numbers, in_memory("tail")})));
  EXPECT_FALSE(extent_of(*in_memory("0123456789")));
  EXPECT_FALSE(extent_of(Slice()));
}

TEST(IsReady, IfAllBytesAre) {
  const TemporaryDirectory directory;
  const SourcePtr remote = verified(VerifiedBy::blocks);
  EXPECT_TRUE(is_ready(*file(directory, "0123456789")));
  EXPECT_TRUE(is_ready(*file(directory, "")));
  EXPECT_TRUE(is_ready(*concat({})));
  EXPECT_FALSE(is_ready(*remote));
  EXPECT_FALSE(is_ready(*slice(remote, 5, 0)));
  EXPECT_FALSE(is_ready(Slice()));
  const SourcePtr parts = concat({in_memory("head"), file(directory, "0123456789"), remote});
  EXPECT_FALSE(is_ready(*parts));
  EXPECT_TRUE(is_ready(*slice(parts, 2, 12)));
  EXPECT_FALSE(is_ready(*slice(parts, 2, 13)));
  const Later<SourcePtr> later([]() -> Result<SourcePtr> { return in_memory("0123456789"); });
  const SourcePtr lazily = lazy(10, later);
  EXPECT_FALSE(is_ready(*lazily));
  ASSERT_TRUE(later.get());
  EXPECT_TRUE(is_ready(*lazily));
}

TEST(Cancel, EndsReadsOfAFile) {
  const TemporaryDirectory directory;
  const SourcePtr source = file(directory, "0123456789");
  bool cancelled = false;
  const CancelScope scope([&] { return cancelled; });
  {
    const CancelScope inner([] { return false; });
    EXPECT_EQ(text(*source), "0123456789");
    cancelled = true;
    EXPECT_THAT(text(*source), HasSubstr("cancelled"));
  }
  cancelled = false;
  EXPECT_EQ(text(*source), "0123456789");
}
// semantics 6.2
TEST_F(ChangedFile, UnlinkKeepsReadsWorking) {
  std::filesystem::remove(path);
  EXPECT_EQ(text(*source), "0123456789");
}

// The mapped bytes, as a system call copies them; "not mapped", or the error.
std::string mapped_text(const Source& whole, uint64_t offset, size_t size) {
  const auto mapped = map_bytes(whole, offset, size);
  if (!mapped) return "error: " + mapped.error().message;
  if (!*mapped) return "not mapped";
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return "no pipe";
  const Descriptor from(ends[0]);
  const Descriptor to(ends[1]);
  const auto bytes = (*mapped)->bytes;
  std::string out(20, '?');
  const bool copied = ::write(to.number(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  out.resize(copied && !bytes.empty() ? static_cast<size_t>(::read(from.number(), out.data(), out.size())) : 0);
  return out;
}

// A file that can be mapped: the file system tells which pages are in the page cache.
class MappedFile : public ChangedFile {
 protected:
  void SetUp() override {
    ChangedFile::SetUp();
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::byte byte;
    const iovec to{&byte, 1};
    if (::preadv2(file.number(), &to, 1, 0, RWF_NOWAIT) != 1) GTEST_SKIP() << "the file system has no RWF_NOWAIT";
  }
  void permit(mode_t mode) const { ASSERT_EQ(::chmod(path.c_str(), mode), 0); }
};

// docs/design/reading.md
TEST_F(MappedFile, IsWriteProtected) {
  EXPECT_EQ(mapped_text(*source, 0, 20), "not mapped");
  permit(0400);
  EXPECT_EQ(mapped_text(*source, 0, 20), "0123456789");
  EXPECT_EQ(mapped_text(*source, 8, 20), "89");
  EXPECT_EQ(mapped_text(*source, 10, 20), "");
  permit(0600);
  EXPECT_EQ(mapped_text(*source, 0, 20), "not mapped");
}

// docs/design/reading.md
TEST_F(MappedFile, IsNotMappedAfterAChange) {
  permit(0400);
  EXPECT_EQ(mapped_text(*source, 0, 20), "0123456789");
  permit(0600);
  write_in_place();
  permit(0400);
  EXPECT_THAT(mapped_text(*source, 0, 20), HasSubstr("changed or replaced"));
  EXPECT_THAT(text(*source), HasSubstr("changed or replaced"));
}

TEST_F(MappedFile, SliceAndConcatenationMapTheirOwnBytes) {
  permit(0400);
  EXPECT_EQ(mapped_text(*slice(source, 2, 5), 1, 20), "3456");
  EXPECT_EQ(mapped_text(*slice(source, 2, 5), 5, 20), "");
  EXPECT_EQ(mapped_text(*lazy(10, Later<SourcePtr>::of(source)), 4, 3), "456");
  EXPECT_EQ(mapped_text(*in_memory("bytes"), 0, 5), "not mapped");
  const SourcePtr parts = concat({in_memory("head"), source});
  EXPECT_EQ(mapped_text(*parts, 0, 4), "not mapped");
  EXPECT_EQ(mapped_text(*parts, 2, 4), "not mapped") << "of both parts";
  EXPECT_EQ(mapped_text(*parts, 4, 3), "012");
  EXPECT_EQ(mapped_text(*parts, 12, 20), "89");
  EXPECT_EQ(mapped_text(*parts, 14, 20), "");
  EXPECT_THAT(mapped_text(Slice(), 0, 1), HasSubstr("refused"));
}

// The bytes of a whole file, or the reason why there is none.
std::string whole_text(const Source& whole) {
  const auto file = open_whole_file(whole);
  if (!file) return "error: " + file.error().message;
  EXPECT_EQ(::fcntl(file->number(), F_GETFL) & O_ACCMODE, O_RDONLY);
  std::string out(20, '?');
  out.resize(static_cast<size_t>(std::max<ssize_t>(::pread(file->number(), out.data(), out.size(), 0), 0)));
  return out;
}

// semantics 6.4
TEST_F(ChangedFile, WholeFileIsOpenedOnlyIfItIsWriteProtected) {
  EXPECT_EQ(whole_text(*source), "error: file is writable");
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  EXPECT_EQ(whole_text(*source), "0123456789");
  for (const mode_t mode : {0644U, 0464U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(whole_text(*source), "error: file is writable");
  }
}
TEST_F(ChangedFile, WholeFileOfChangedFileIsNotOpened) {
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  const std::string other = directory.write("other", "9876543210");
  ASSERT_EQ(::rename(other.c_str(), path.c_str()), 0);
  EXPECT_THAT(whole_text(*source), HasSubstr("changed or replaced"));
  expect_refused();
}
TEST_F(ChangedFile, WholeFileIsThatOfASliceOfAllBytesOnly) {
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  EXPECT_EQ(whole_text(slice(source, 0, 10).value()), "0123456789");
  EXPECT_EQ(whole_text(slice(source, 1, 9).value()), "error: part of a larger file");
  EXPECT_EQ(whole_text(slice(source, 0, 9).value()), "error: part of a larger file");
  EXPECT_EQ(whole_text(*in_memory("0123456789")), "error: not a local file");
}
TEST(WholeFile, FileOfAnotherUserIsNotOpened) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const TemporaryDirectory directory;
  const SourcePtr source = file(directory, "0123456789");
  const std::string path = std::filesystem::directory_iterator(directory.path(""))->path();
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  EXPECT_EQ(whole_text(*open_file(path).value()), "error: file is writable");
}

TEST(ReadText, AllocatesNothingBeyondTheSource) {
  const SourcePtr ten = in_memory("0123456789");
  EXPECT_EQ(read_text(*ten, 2, 3).value(), "234");
  EXPECT_EQ(read_text(*ten, 0, uint64_t{1} << 60).error().code, Code::corrupt);
  EXPECT_EQ(read_text(*ten, UINT64_MAX, 2).error().code, Code::corrupt);
}

}  // namespace
}  // namespace weightfs::source_test
