// A cache directory, and one member to produce a blob from.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "cache/blob_store.h"
#include "cache/store/blob_backend.h"
#include "tests/cache/test_producer.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary.h"

namespace weightfs::test {

constexpr size_t kMember = 300'000;

/// The file of a new blob with these bytes; null if the backend has no space for it.
inline store::BlockFilePtr written_blob(store::BlobBackend& backend, const store::BlobName& name,
                                        std::string_view bytes) {
  const auto file = backend.open_blocks(store::new_blob_identity(name.text), bytes.size());
  if (!file || !(*file)->hold() || !(*file)->write(0, std::as_bytes(std::span(bytes))) || !(*file)->flush())
    return nullptr;
  return *file;
}

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
  /// What is being written, and nothing of it may be left: the files in v1/making and v1/blocks.
  std::vector<std::string> making_files() const {
    std::vector<std::string> files;
    for (const std::string folder : {"blocks", "making"})
      for (const std::string& name : files_in(fmt::format("{}/v1/{}", directory, folder)))
        files.push_back(fmt::format("{}/{}", folder, name));
    return files;
  }
  /// Files that remain after a while.
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
