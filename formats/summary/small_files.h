// The small files beside a model from which its summary has facts: config.json, the model card, and such. They may be
// hostile: each has a limit of size, of values and of depth, and is charged to the model's budget.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"
#include "base/values/value.h"
#include "formats/model.h"

namespace weightfs::summary {

/// Opens the files beside one model. Not thread-safe.
class SmallFiles {
 public:
  explicit SmallFiles(const Model& model) : model_(model) {}
  ~SmallFiles();
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

  /// The object in a JSON file; null if there is none. A byte order mark, NaN and the infinities, which are not JSON,
  /// are accepted; they become null.
  const Map* object(const std::string& path);

  /// The object in a text of at most `most` bytes that the model has; null if it is none. Such a text is parsed once.
  const Map* object_in(const std::string& text, size_t most = 64 * 1024);

  /// The file; null if there is none. A file that cannot be opened for another reason has a warning.
  SourcePtr open(const std::string& path);

  /// As open(), but fails as opening does.
  Result<SourcePtr> checked_open(const std::string& path);

  /// As object(). Fails with corrupt if the file has something else, and as checked_open() and parse_small_json() do.
  Result<const Map*> checked_object(const std::string& path);

  enum class Bytes { verified, unverified };
  /// The first bytes of a file, at most `most`; empty if there is none. Unverified ones must not be served.
  std::string head(const std::string& path, uint64_t most, Bytes bytes = Bytes::verified);

  bool has(const std::string& path) { return open(path) != nullptr; }

  /// Whether the model has a file below this directory, which ends with `/`.
  bool has_below(std::string_view directory) const;

  std::vector<std::string>& warnings() { return warnings_; }

 private:
  using Objects = std::map<std::string, std::unique_ptr<Map>>;  // null: there is none

  BudgetPtr budget_for(uint64_t size) const;
  const Model& model_;
  Objects objects_;                         // by the path of the file
  Objects objects_in_text_;                 // by the text
  std::map<std::string, SourcePtr> files_;  // null: there is none
  std::vector<std::string> warnings_;
};

}  // namespace weightfs::summary
