// The files of a directory, as the rule of one model asks for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/chosen_files.h"
#include "formats/directory/weight_sets.h"

namespace weightfs::directory {

class DirectoryFiles {
 public:
  /// `files` are sorted by path.
  explicit DirectoryFiles(const std::vector<ChosenFiles::File>& files);

  /// The names of the files in the directory itself, sorted.
  const std::vector<std::string>& names() const { return names_; }

  /// Those of the directories in it that have files.
  const std::vector<std::string>& directories() const { return directories_; }

  /// Whether it has files in a directory below it, or deeper.
  bool has_directory(const std::string& path) const {
    const auto first = paths_.lower_bound(path + "/");
    return first != paths_.end() && first->first.starts_with(path + "/");
  }

  bool has(std::string_view path) const { return paths_.contains(path); }

  /// In bytes; 0 of a file that the directory has not.
  uint64_t size_of(std::string_view path) const {
    const auto found = paths_.find(path);
    return found == paths_.end() ? 0 : found->second;
  }

  /// The sets of weights in the directory itself.
  const std::vector<WeightSet>& sets() const { return sets_; }

  /// Those in a directory below it; their paths begin with it.
  std::vector<WeightSet> sets_in(const std::string& directory) const;

  /// Whether a directory below has weights, other than those that are only another form of the model.
  bool has_weights_below() const;

  /// The packages of Core ML, in any directory below.
  std::vector<ChosenFiles::File> packages() const;

  /// Whether a file of the directory itself keeps the state of a trainer.
  bool is_training_state(std::string_view name) const;

  /// All of these, also in the directories of a trainer.
  std::vector<ChosenFiles::File> training_state() const;

 private:
  FileSizes in(const std::string& directory) const;

  FileSizes paths_;
  std::vector<std::string> names_, directories_;
  bool has_trainer_ = false;  // weights or trainer_state.json in the directory itself
  std::vector<WeightSet> sets_;
};

}  // namespace weightfs::directory
