// Builds the index of an MLC tensor cache for tests, from records that may be wrong.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace weightfs::test {

/// A tensor's record; `shape` is JSON.
inline std::string cache_tensor(std::string_view name, std::string_view shape, std::string_view dtype,
                                std::string_view format, uint64_t nbytes, uint64_t offset) {
  return fmt::format("{}{}{}{}{}{}{}{}{}{}{}{}}}", R"({"name": ")", name, R"(", "shape": )", shape, R"(, "dtype": ")",
                     dtype, R"(", "format": ")", format, R"(", "nbytes": )", nbytes, R"(, "byteOffset": )", offset);
}

inline std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

/// A shard's record; `md5sum` is JSON, and omitted when it is empty.
inline std::string cache_shard(std::string_view path, uint64_t nbytes, const std::vector<std::string>& tensors,
                               std::string_view md5sum = "") {
  return fmt::format("{}{}{}{}{}{}]{}{}}}", R"({"dataPath": ")", path, R"(", "format": "raw-shard", "nbytes": )",
                     nbytes, R"(, "records": [)", joined(tensors), md5sum.empty() ? "" : R"(, "md5sum": )", md5sum);
}

/// The index; `metadata` is JSON, and omitted when it is empty.
inline std::string cache_index(const std::vector<std::string>& shards, std::string_view metadata = "") {
  return fmt::format("{{{}{}{}{}{}]}}\n", metadata.empty() ? "" : R"("metadata": )", metadata,
                     metadata.empty() ? "" : ", ", R"("records": [)", joined(shards));
}

}  // namespace weightfs::test
