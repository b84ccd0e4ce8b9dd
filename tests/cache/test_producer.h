// Producers for tests of cache/: streams that count, wait, end early or are wrong; and the files that a store left on
// disk.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/blobs.h"
#include "base/text.h"

namespace weightfs::test {

/// Blocks threads until it is opened.
class Gate {
 public:
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

/// The input of a test producer, and its number of starts. May be changed while no stream is active.
struct TestProducer {
  std::string bytes;                   ///< the bytes of the stream
  size_t piece = 100'000;              ///< maximum bytes per call
  std::function<void(size_t)> before;  ///< called before each call, with the position
  std::optional<Error> error;          ///< the error at the end
  std::atomic<int> starts = 0;
};
using TestProducerPtr = std::shared_ptr<TestProducer>;

class TestStream final : public Stream {
 public:
  explicit TestStream(TestProducerPtr test_producer) : producer_(std::move(test_producer)) {}

  Result<size_t> next(std::span<std::byte> out) override {
    if (producer_->before) producer_->before(at_);
    const size_t count = std::min({out.size(), producer_->piece, producer_->bytes.size() - at_});
    if (count == 0 && producer_->error) return tl::unexpected(*producer_->error);
    std::memcpy(out.data(), producer_->bytes.data() + at_, count);
    at_ += count;
    return count;
  }

 private:
  TestProducerPtr producer_;
  size_t at_ = 0;
};

/// `size` pseudo-random bytes; different for every seed.
inline std::string some_bytes(size_t size, uint32_t seed = 1) {
  std::string bytes(size, '\0');
  uint32_t state = seed * 2654435761U + 1;
  for (char& c : bytes) {
    state = state * 1664525U + 1013904223U;
    c = static_cast<char>(state >> 24);
  }
  return bytes;
}

inline TestProducerPtr test_producer(std::string bytes) {
  auto made = std::make_shared<TestProducer>();
  made->bytes = std::move(bytes);
  return made;
}

/// A producer of these bytes, with this key.
inline BlobProducer producer_of(const TestProducerPtr& test_producer, std::string key) {
  BlobProducer producer;
  producer.name = "member";
  producer.size = test_producer->bytes.size();
  producer.key = std::move(key);
  producer.start = [test_producer]() -> Result<StreamPtr> {
    ++test_producer->starts;
    return std::make_unique<TestStream>(test_producer);
  };
  return producer;
}

/// Bytes as text to compare and print: the first few, the number, and the digest.
inline std::string describe(std::string_view bytes) {
  return fmt::format("{}, {} bytes {}", quoted(bytes.substr(0, 20)), bytes.size(), sha256(bytes).hex().substr(0, 8));
}

/// Those bytes of the source as text, or the error.
inline std::string read(const Source& source, uint64_t offset, size_t size) {
  std::string out(size, '?');
  const auto got = source.read(offset, std::as_writable_bytes(std::span(out)));
  return got ? describe(std::string_view(out).substr(0, *got)) : "error: " + got.error().message;
}
inline std::string read(const Source& source) { return read(source, 0, source.size()); }

/// Every file below a directory, sorted by relative path; without directories.
inline std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> files;
  if (!std::filesystem::exists(directory)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_symlink() || !entry.is_directory()) files.push_back(entry.path().lexically_relative(directory));
  std::sort(files.begin(), files.end());
  return files;
}

inline std::string blob_path(std::string_view bytes) {
  const std::string hex = sha256(bytes).hex();
  return fmt::format("v1/blobs/{}/{}", hex.substr(0, 2), hex);
}

/// The paths of the data in v1/blocks of a cache, without their maps.
inline std::vector<std::string> data_files(const std::string& cache) {
  std::vector<std::string> data;
  for (const std::string& name : files_in(cache + "/v1/blocks"))
    if (!name.ends_with(".map")) data.push_back(fmt::format("{}/v1/blocks/{}", cache, name));
  return data;
}

/// The disk space of the files below a directory.
inline uint64_t allocated_in(const std::string& directory) {
  uint64_t sum = 0;
  for (const std::string& file : files_in(directory)) {
    struct stat status {};
    if (::lstat(fmt::format("{}/{}", directory, file).c_str(), &status) == 0)
      sum += static_cast<uint64_t>(status.st_blocks) * 512;
  }
  return sum;
}

}  // namespace weightfs::test
