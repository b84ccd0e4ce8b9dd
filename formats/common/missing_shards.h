// The shards of a model that do not exist. Other files of a model may be optional, its shards are not: a missing one is
// damage.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/common/warnings.h"

namespace weightfs {

class MissingShards {
 public:
  /// `lost` is what the model lacks with it: "; 7 tensors are missing", or nothing.
  void add(std::string_view name, std::string lost) { shards_.push_back({std::string(name), std::move(lost)}); }

  bool empty() const { return shards_.empty(); }

  /// Whether a warning is the one with the numbers: "1 of 3 shards is missing: m-00002-of-00003.gguf".
  static bool is_report(std::string_view warning) {
    const auto has = [&](const char* text) { return warning.find(fmt::format(" shards {}", text)) != warning.npos; };
    return has(kIsMissing) || has(kAreMissing);
  }

  /// Adds a warning for each; the first one has the numbers. `total`: of all shards, with those that are missing.
  void report(uint64_t total, Warnings& warnings) const {
    bool is_first = true;
    for (const auto& [name, lost] : shards_) {
      if (is_first)
        warnings.miss_file(Code::corrupt, "{} of {} shards {}{}{}{}", shards_.size(), total,
                           shards_.size() == 1 ? kIsMissing : kAreMissing, printable(name), others(), lost);
      else
        warnings.miss_file(Code::corrupt, "shard {}: missing{}", quoted(name), lost);
      is_first = false;
    }
  }

 private:
  static constexpr const char* kIsMissing = "is missing: ";
  static constexpr const char* kAreMissing = "are missing: ";

  struct Shard {
    std::string name, lost;
  };

  std::string others() const { return shards_.size() == 1 ? "" : fmt::format(" and {} more", shards_.size() - 1); }

  std::vector<Shard> shards_;
};

}  // namespace weightfs
