// The weights of TensorFlow.js: those of a group follow each other without gaps in its files, which are cut anywhere.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/string_pool.h"

namespace weightfs::tfjs {

/// Adds the weights of a manifest to a model: io_utils.ts and weights_loader.ts of tfjs-core 4. The container and the
/// model outlive it.
class Weights {
 public:
  Weights(const Container& container, Model& model, Warnings& warnings)
      : container_(container), model_(model), warnings_(warnings), pool_(model.string_pool) {}

  /// Adds the weights of all groups. Fails with corrupt if a group is not an object with the lists `paths` and
  /// `weights`, or a weight has no name, dtype or list `shape`, and as the budget does.
  Result<void> add(const Value& manifest);

  /// Adds the files to the parts, and the quantisation parameters to the metadata.
  void finish();

 private:
  struct File {
    SourcePtr bytes;  // null if it is not available
    Error reason;
  };

  // The files of a group up to the first that is not available.
  struct Group {
    std::vector<const File*> files;
    std::vector<uint64_t> ends;  // of each, in the group
    SourcePtr bytes;             // of all files
    const File* lost = nullptr;  // the first file that is not available
    std::string lost_name;
    uint64_t at = 0;          // the offset of the next weight
    bool is_unknown = false;  // because the size of a weight before it is not known
    uint64_t refused = 0;     // weights in and behind the lost file
  };

  Result<void> add_group(const Map& group);
  Result<Group> open(const List& paths);
  Result<const File*> file_at(const std::string& path);
  Result<void> add_weight(const Map& weight, Group& group);
  Result<Slice> place(Tensor& tensor, const List& shape, Group& group);
  Result<Slice> range_of(const Group& group, uint64_t size) const;
  Result<uint64_t> size_of_strings(const Group& group, uint64_t count);
  Result<void> add_quantization(const Tensor& tensor, const Map& quantization);

  const Container& container_;
  Model& model_;
  Warnings& warnings_;
  StringPool pool_;
  std::map<std::string, File> files_;  // by path
  List quantization_;
};

}  // namespace weightfs::tfjs
