// Which files of a directory are its one model: the same rule for directories on disk, repositories, artifacts and
// archives. It is decided by the names of the files, and by small JSON files where the names do not decide.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/chosen_files.h"
#include "formats/format.h"

namespace weightfs {

/// A directory, as the rule sees it.
struct DirectoryView {
  std::vector<ChosenFiles::File> files;       ///< below the directory, sorted by path
  std::vector<std::string> directories = {};  ///< names of directories in it, if their files are not among `files`
  const Folder& folder;                       ///< opens the small files
  Budget& budget;                             ///< is charged for them
  /// Whether it was published as a whole: what is below it belongs to it, and `model.safetensors` is its model. The
  /// names of files decide whenever they can, because each file is a request.
  bool is_published = false;
  /// Whether a file of the directory is a model. Null if a file alone does not make the directory a model.
  std::function<Result<bool>(const std::string& name)> is_model = {};
  /// Whether a directory below it has files named as models. Null if that does not matter.
  std::function<bool()> has_models_below = {};
};

/// The model of a directory.
struct OneModel {
  /// A file that is opened, or shards without an index.
  struct Weights {
    std::string path;                 ///< of the file; of the first shard
    std::vector<std::string> shards;  ///< all of them; empty if `path` opens everything
    std::string prefix;               ///< of the names of the tensors: "unet/"
    uint32_t count = 0;               ///< of the shards, with missing ones, as the names of `shards` say
    bool are_pieces = false;          ///< the shards have pieces of tensors: see formats/directory/pieces.h
  };
  std::vector<Weights> weights;
  std::string pipeline;                    ///< the path of model_index.json, of a pipeline
  bool is_own_form = false;                ///< one format describes the directory: nothing of it is chosen
  std::vector<std::string> missing = {};   ///< a sentence for each part that is listed, and that the directory lacks
  std::vector<std::string> warnings = {};  ///< about the files that list parts
  ChosenFiles chosen;                      ///< all but the files with the weights, which are known when they are open
};

/// Whether files with these names, sorted by byte, may make their directory one model together with what is below it.
bool may_be_one_model(const std::vector<std::string>& names);

/// The model of a directory; nothing if it is a directory of models. Fails with io, and as opening a file does.
Result<std::optional<OneModel>> find_one_model(const DirectoryView& directory);

/// The model that the file at `path` is, instead of that of the rule, with the others as alternatives. Fails with
/// not_found.
Result<OneModel> find_model_file(const DirectoryView& directory, std::string_view path);

/// Whether a file has a usual name of weights: also of a checkpoint that is called pytorch_model.bin.
bool is_named_as_weights(std::string_view name);

/// Whether a file or a directory has the name of one that keeps the state of an optimizer or a trainer. It is no model
/// in a directory that has_weights_or_trainer().
bool is_named_as_training_state(std::string_view name);
bool has_weights_or_trainer(const std::vector<std::string>& names);

/// A directory that is one model, as its source opens it.
struct ModelDirectory {
  /// Reads the file at a path as a model. Its cost is charged to `budget`, or to its own if that is null.
  std::function<Result<Model>(const std::string& path, const BudgetPtr& budget)> read;
  std::shared_ptr<const Folder> folder;  ///< of the directory
  std::vector<Part> parts;               ///< all files in it and below it
  std::string prefix = {};               ///< of all paths in the model: "repository/" in an archive
  BudgetPtr budget = {};                 ///< of the container around the directory; null if it is the outermost one
};

/// Reads the model. All files of the directory are parts of it; other weights are nested in it. Fails as reading does.
Result<Model> read_one_model(const OneModel& found, ModelDirectory directory);

}  // namespace weightfs
