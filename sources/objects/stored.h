// What the sources in object stores have in common: an object with those beside it, and all objects below a prefix.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "sources/file_list.h"
#include "sources/kinds.h"

namespace weightfs {

/// An object that is named as SOURCE.
struct StoredFile {
  std::string name;   ///< its last component
  std::string shown;  ///< the source, without secrets
  SourcePtr bytes;
  Time modified;  ///< 0: unknown
  std::function<Result<SourcePtr>(std::string_view path)> open_beside;
};

/// Fails with the reason if `check` is for a model and the object is none.
Result<SourceEntry> entry_of_file(StoredFile file, const OpenOptions& options, Check check);

/// An object of a listing.
struct StoredObject {
  std::string_view name;     ///< its whole key
  std::string_view version;  ///< its ETag, or what else identifies its bytes
  ListedEntry entry;
};

/// The objects below a prefix, which are shown like a directory.
class ObjectsBelow {
 public:
  /// `prefix` ends with `/`, or is empty.
  explicit ObjectsBelow(std::string prefix) : prefix_(std::move(prefix)) {}

  /// Programs create empty objects with the name of a directory to show it; these are left out. Fails as
  /// FileListBuilder::add() does.
  Result<void> add(StoredObject object);

  /// Fails with not_found if there are none. `label` is the name of the store, `shown` the source, without secrets.
  Result<SourceEntry> finish(const std::string& label, std::string shown, const OpenOptions& options) &&;

 private:
  const std::string prefix_;
  FileListBuilder files_;
  Sha256 version_;
  Time modified_ = 0;
  bool is_empty_ = true;
};

}  // namespace weightfs
