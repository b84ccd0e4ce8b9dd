// reader: reads a file as programs do that Python is too slow to imitate, and prints the seconds that it took.
//
//   reader random FILE BLOCK READERS COUNT   COUNT different blocks of BLOCK bytes, in random order, by READERS threads
//   reader map FILE                          one byte of each page of a mapping, in order
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

size_t number(std::string_view text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0) {
    std::fputs("reader: not a number\n", stderr);
    std::exit(2);
  }
  return value;
}

template <class Action>
void print_seconds(const Action& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  std::printf("%.9f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

// The places of the blocks, which do not overlap, in an order that is the same in every run.
std::vector<off_t> shuffled(size_t size, size_t block, size_t count) {
  std::vector<off_t> places(size / block);
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<off_t>(i * block);
  std::shuffle(places.begin(), places.end(), std::mt19937_64(1));
  places.resize(std::min(count, places.size()));
  return places;
}

void read_random(int fd, size_t size, size_t block, size_t readers, size_t count) {
  const std::vector<off_t> places = shuffled(size, block, count);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  print_seconds([&] {
    std::atomic<size_t> next = 0;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < readers; ++i)
      threads.emplace_back([&] {
        std::vector<char> buffer(block);
        for (size_t at = next++; at < places.size(); at = next++)
          if (::pread(fd, buffer.data(), block, places[at]) != static_cast<ssize_t>(block)) fail("pread");
      });
    for (std::thread& thread : threads) thread.join();
  });
}

void read_mapping(int fd, size_t size) {
  print_seconds([&] {
    void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) fail("mmap");
    const volatile char* const bytes = static_cast<const char*>(mapped);
    for (size_t at = 0; at < size; at += 4096) (void)bytes[at];
    ::munmap(mapped, size);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (!(mode == "random" && argc == 6) && !(mode == "map" && argc == 3)) {
    std::fputs("usage: reader random FILE BLOCK READERS COUNT | reader map FILE\n", stderr);
    return 2;
  }
  const int fd = ::open(argv[2], O_RDONLY | O_CLOEXEC);
  struct stat file {};
  if (fd < 0 || ::fstat(fd, &file) != 0) fail(argv[2]);
  const auto size = static_cast<size_t>(file.st_size);
  if (mode == "map") {
    read_mapping(fd, size);
  } else {
    read_random(fd, size, number(argv[3]), number(argv[4]), number(argv[5]));
  }
  return 0;
}
