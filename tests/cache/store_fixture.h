// A cache directory, and one member to produce a blob from.
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "cache/blob_store.h"
#include "tests/cache/test_producer.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary.h"

namespace weightfs::test {

constexpr size_t kMember = 300'000;

class StoreDirectory : public testing::Test {
 protected:
  /// Opens a store in `directory`, like another process.
  BlobsPtr store(std::optional<uint64_t> quota = 100 << 20) {
    return blob_store({directory, quota, [this](const std::string& line) {
                         const std::scoped_lock lock(mutex);
                         log.push_back(line);
                       }});
  }
  std::vector<std::string> files() const { return files_in(directory); }
  std::vector<std::string> blobs() const { return files_in(directory + "/v1/blobs"); }
  std::vector<std::string> making_files() const { return files_in(directory + "/v1/making"); }
  /// Files that remain after a while: a store makes a file to test for fs-verity, perhaps after the last read.
  std::vector<std::string> remaining_making_files() const {
    eventually([&] { return making_files().empty(); });
    return making_files();
  }

  TemporaryDirectory temporary;
  std::string directory = temporary.path("deep/cache");
  std::mutex mutex;
  std::vector<std::string> log;
  std::string bytes = some_bytes(kMember);
  TestProducerPtr member = test_producer(bytes);
};

}  // namespace weightfs::test
