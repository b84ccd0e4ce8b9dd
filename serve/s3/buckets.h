// The buckets of a server: one for each outermost model of the tree.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "fs/tree/forest.h"
#include "serve/hub/repository.h"

namespace weightfs::objects {

/// The name of an entry of a directory as a part of the name of a bucket: small letters and digits, with single hyphens
/// for runs of others between them, 3 to 63 characters. (docs.aws.amazon.com, "General purpose bucket naming rules".)
std::string bucket_part(std::string_view name);

struct Bucket {
  std::string name;  ///< the parts of its path, with points between them
  Time modified = 0;
};

/// Callable from any thread. The forest must outlive it.
class Buckets {
 public:
  explicit Buckets(Forest& forest) : forest_(forest) {}

  static constexpr size_t kMaxBuckets = 10'000;

  /// The buckets in the order of the tree, at most kMaxBuckets. The second of two entries of equal parts has `-2`
  /// behind it. An entry that is not named as a model is entered to find out, for a few seconds in all; one that is not
  /// entered counts as a model. Fails as listing a directory does.
  Result<std::vector<Bucket>> list();

  /// The model of a bucket; nothing if there is none. Enters only what leads to it, and fails as that does.
  Result<std::optional<hub::FoundModel>> find(std::string_view name);

 private:
  Result<void> add(Ino directory, const std::string& above, int depth, std::vector<Bucket>& out);

  Forest& forest_;
};

}  // namespace weightfs::objects
