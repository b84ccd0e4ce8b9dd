#include "base/os/memory.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/sanitized.h"

namespace weightfs::memory_test {
namespace {

namespace stdfs = std::filesystem;

// A directory in the role of a hierarchy's mount point, with the files of its groups.
class CgroupLimit : public testing::Test {
 protected:
  CgroupLimit() {
    std::string name = stdfs::temp_directory_path() / "weightfs cgroup XXXXXX";
    point_ = ::mkdtemp(name.data());
  }
  ~CgroupLimit() override { stdfs::remove_all(point_); }

  void write(const std::string& file, const std::string& text) {
    stdfs::create_directories((point_ / file).parent_path());
    std::ofstream(point_ / file) << text << '\n';
  }

  // As the kernel writes it: a space is \040.
  std::string escaped_point() const {
    std::string text = point_;
    for (size_t at = 0; (at = text.find(' ', at)) != text.npos;) text.replace(at, 1, "\\040");
    return text;
  }
  std::string v1(const std::string& root = "/") const {
    return "35 31 0:32 " + root + " " + escaped_point() + " rw,relatime - cgroup cgroup rw,cpu,memory\n";
  }
  std::string v2(const std::string& root = "/") const {
    return "41 31 0:38 " + root + " " + escaped_point() +
           " rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate\n";
  }

 private:
  stdfs::path point_;
};

constexpr const char* kRootMount = "23 1 259:1 / / rw,relatime - ext4 /dev/root rw\n";

TEST_F(CgroupLimit, ReadsCgroupV2) {
  write("system.slice/weightfs.service/memory.max", "268435456");
  EXPECT_EQ(cgroup_memory_limit("0::/system.slice/weightfs.service\n", kRootMount + v2()), 268435456U);
}

TEST_F(CgroupLimit, ReadsCgroupV1) {
  write("user/1000/memory.limit_in_bytes", "1048576");
  EXPECT_EQ(cgroup_memory_limit("5:devices:/x\n4:cpu,memory:/user/1000\n", kRootMount + v1()), 1048576U);
}

TEST_F(CgroupLimit, IsMinimumOfGroupAndAncestors) {
  write("memory.max", "4000");
  write("a/memory.max", "1000");
  write("a/b/memory.max", "max");
  write("a/b/c/memory.max", "3000");
  EXPECT_EQ(cgroup_memory_limit("0::/a/b/c\n", v2()), 1000U);
  EXPECT_EQ(cgroup_memory_limit("0::/a/b\n", v2()), 1000U);
  EXPECT_EQ(cgroup_memory_limit("0::/other\n", v2()), 4000U);
  EXPECT_EQ(cgroup_memory_limit("0::/\n", v2()), 4000U);
}

TEST_F(CgroupLimit, UnsetLimitIsNothing) {
  write("a/memory.max", "max");
  write("a/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(cgroup_memory_limit("0::/a\n", v2()), std::nullopt);
  EXPECT_EQ(cgroup_memory_limit("4:memory:/a\n", v1()), std::nullopt);
  EXPECT_EQ(cgroup_memory_limit("0::/missing\n", v2()), std::nullopt);
  EXPECT_EQ(cgroup_memory_limit("0::/a\n", kRootMount), std::nullopt);
  EXPECT_EQ(cgroup_memory_limit("", v2()), std::nullopt);
  EXPECT_EQ(cgroup_memory_limit("", ""), std::nullopt);
}

// v1 has the memory controller; v2 is mounted without one, as systemd's hybrid layout has it.
TEST_F(CgroupLimit, HybridHostUsesV1) {
  write("a/memory.limit_in_bytes", "2000");
  const std::string v2_without_controllers = "42 31 0:39 / /nonexistent/unified rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(
      cgroup_memory_limit("4:memory:/a\n1:name=systemd:/init.scope\n0::/init.scope\n", v1() + v2_without_controllers),
      2000U);
}

TEST_F(CgroupLimit, IgnoresOtherControllers) {
  write("a/memory.limit_in_bytes", "2000");
  EXPECT_EQ(cgroup_memory_limit("3:cpuset:/a\n2:name=memory:/a\n", v1()), std::nullopt);
}

// A container without a cgroup namespace: its own group is mounted, under the path that the host has for it.
TEST_F(CgroupLimit, ReadsContainerWithOwnGroupMounted) {
  write("memory.limit_in_bytes", "5000");
  write("inner/memory.limit_in_bytes", "4000");
  EXPECT_EQ(cgroup_memory_limit("4:memory:/docker/ab\n", v1("/docker/ab")), 5000U);
  EXPECT_EQ(cgroup_memory_limit("4:memory:/docker/ab/inner\n", v1("/docker/ab")), 4000U);
  EXPECT_EQ(cgroup_memory_limit("4:memory:/docker/abc/inner\n", v1("/docker/ab")), 5000U) << "is not below /docker/ab";
  EXPECT_EQ(cgroup_memory_limit("4:memory:/\n", v1("/docker/ab")), 5000U);
}

// cgroup_namespaces(7): paths outside the namespace's root are written with `..`.
TEST_F(CgroupLimit, ReadsCgroupNamespace) {
  write("memory.max", "6000");
  write("a/memory.max", "2000");
  EXPECT_EQ(cgroup_memory_limit("0::/a\n", v2()), 2000U);
  EXPECT_EQ(cgroup_memory_limit("0::/../sibling\n", v2()), 6000U);
  EXPECT_EQ(cgroup_memory_limit("0::/..\n", v2()), 6000U);
  EXPECT_EQ(cgroup_memory_limit("0::/a\n", v2("/..")), 6000U);
  EXPECT_EQ(cgroup_memory_limit("0::/..a\n", v2()), 6000U) << "an ordinary name";
}

TEST_F(CgroupLimit, AcceptsNameWithSpacesAndColons) {
  write("my group:1/memory.max", "700");
  EXPECT_EQ(cgroup_memory_limit("0::/my group:1\n", v2()), 700U);
}

TEST_F(CgroupLimit, DeletedGroupUsesParent) {
  write("a/memory.max", "800");
  EXPECT_EQ(cgroup_memory_limit("0::/a/gone (deleted)\n", v2()), 800U);
}

TEST_F(CgroupLimit, IgnoresMalformedLines) {
  write("memory.max", "900");
  EXPECT_EQ(cgroup_memory_limit("nonsense\n:\n0:\n0::/\n", "x\n- - - - - - -\n1 2 3 / /p rw -\n" + v2()), 900U);
  EXPECT_EQ(cgroup_memory_limit("0::\n", v2()), 900U);
  write("memory.max", "");
  EXPECT_EQ(cgroup_memory_limit("0::/\n", v2()), std::nullopt);
}

TEST(ProcessMemory, HasALimit) {
  EXPECT_GT(process_memory_limit(), 0U);
  EXPECT_LT(process_memory_limit(), uint64_t{1} << 62);
}

TEST(ProcessMemory, CountsSmallAndLargeBlocks) {
  if (test::sanitized()) GTEST_SKIP() << "the sanitizer's allocator does not count";
  const uint64_t before = process_memory_used();
  void* const volatile large = std::malloc(size_t{64} << 20);
  void* const volatile small = std::malloc(1000);
  const uint64_t during = process_memory_used();
  std::free(large);
  std::free(small);
  EXPECT_GE(during, before + (64U << 20) + 1000);
  EXPECT_LT(process_memory_used(), during - (64U << 20));
}

// Exits with 0 if the second block of 16 MiB is returned when it is freed, as the first.
void check_large_blocks() {
  save_memory();
  constexpr size_t kBlock = size_t{16} << 20;
  for (int i = 0; i < 2; ++i) {
    const uint64_t before = ::mallinfo2().hblkhd;
    void* const block = std::malloc(kBlock);
    if (::mallinfo2().hblkhd < before + kBlock) std::_Exit(1);
    std::free(block);
    if (::mallinfo2().hblkhd != before) std::_Exit(2);
  }
  std::_Exit(0);
}

// Exits with 0 if eight threads that allocate at the same time use at most two arenas.
void check_arenas() {
  save_memory();
  std::barrier all(8);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const std::string text(1000, 'x');
      all.arrive_and_wait();
    });
  for (std::thread& thread : threads) thread.join();
  char* text = nullptr;
  size_t size = 0;
  FILE* const file = ::open_memstream(&text, &size);
  ::malloc_info(0, file);
  std::fclose(file);
  std::_Exit(std::string_view(text, size).find("<heap nr=\"2\"") == std::string_view::npos ? 0 : 1);
}

TEST(ProcessMemoryDeathTest, ThreadsShareTwoArenas) {
  if (test::sanitized()) GTEST_SKIP() << "the sanitizer has its own allocator";
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(check_arenas(), testing::ExitedWithCode(0), "");
}

// In a process of its own: the setting is one of the process.
TEST(ProcessMemoryDeathTest, LargeBlocksAreReturned) {
  if (test::sanitized()) GTEST_SKIP() << "the sanitizer has its own allocator";
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(check_large_blocks(), testing::ExitedWithCode(0), "");
}

// Exits with 0 when the limit of the address space is followed.
void check_address_space() {
  const rlimit space{uint64_t{512} << 20, uint64_t{512} << 20};
  if (::setrlimit(RLIMIT_AS, &space) != 0) std::_Exit(2);
  std::_Exit(process_memory_limit() <= (uint64_t{256} << 20) ? 0 : 1);
}

// In a process of its own: the limit is read once a second, and another test may have read it.
TEST(ProcessMemoryDeathTest, LimitIsHalfOfTheAddressSpaceLimit) {
  if (test::sanitized()) GTEST_SKIP() << "a sanitizer needs more addresses than the limit";
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(check_address_space(), testing::ExitedWithCode(0), "");
}

TEST(AvailableMemory, IsPartOfTheMemoryOfTheMachine) {
  const auto machine =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_GT(available_memory(), 0U);
  EXPECT_LT(available_memory(), machine);
}

}  // namespace
}  // namespace weightfs::memory_test
