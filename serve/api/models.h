// The models of the tree, with what the tables of the page need.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/later.h"
#include "base/string_arena.h"
#include "formats/entries/entries.h"
#include "formats/model.h"
#include "formats/summary/summary.h"
#include "formats/tokenizer/texts.h"
#include "formats/tokenizer/vocabulary.h"
#include "fs/names.h"
#include "fs/tree/forest.h"
#include "report/plot/make.h"
#include "serve/api/query.h"

namespace weightfs::api {

/// The order of the rows of the table. `verification` begins with what cannot be trusted.
enum class Order { index, name, dtype, shape, parameters, bytes, share, verification };

/// Which tensors the table and the tree show: those that have all of it. What is empty excludes none.
struct Filter {
  std::vector<std::string> words;  ///< of the name, in lower case
  std::string under;               ///< what the name begins with
  std::string dtype;
  std::string layer;  ///< as of layer_of(), or kNoLayer

  bool is_empty() const { return words.empty() && under.empty() && dtype.empty() && layer.empty(); }
  /// Whether it shows nothing that `other` does not show.
  bool is_part_of(const Filter& other) const;
  friend bool operator==(const Filter&, const Filter&) = default;
};

/// The layer of tensors without one.
inline constexpr std::string_view kNoLayer = "other";
/// The layer of a tensor by its name: layer_of(), or kNoLayer.
std::string shown_layer(std::string_view name);

using TextsPtr = std::shared_ptr<const std::vector<tokenizer::ModelText>>;

/// A model of the tree. Callable from any thread.
class OpenModel {
 public:
  /// `path`: of its directory in the tree; "" for the root.
  OpenModel(ModelPtr model, std::string path, std::string version);

  const Model& model() const { return *model_; }
  const ModelPtr& pointer() const { return model_; }
  const std::string& path() const { return path_; }
  /// Identifies the bytes: another one when the model has changed.
  const std::string& version() const { return version_; }

  /// Computed at the first call.
  const summary::Summarised& summarised() const;
  /// The bytes of all tensors.
  uint64_t total_bytes() const { return total_bytes_; }
  /// The elements of a tensor.
  uint64_t parameters(size_t tensor) const;

  std::string name(size_t tensor) const;
  plot::NamedTensor tensor(size_t tensor) const;

  /// All tensors in an ascending order; numbers in names are compared as numbers.
  /// Fails with resource when it is cancelled.
  Result<std::shared_ptr<const std::vector<uint32_t>>> in_order(Order order) const;
  /// For each tensor, whether the filter shows it. Fails with resource, also when it is cancelled.
  Result<std::shared_ptr<const std::vector<char>>> matching(const Filter& filter) const;
  // What a person reads of the metadata, computed at the first call. The last two fail as reading does; the vocabulary
  // is null if the model has none.
  Result<std::shared_ptr<const metadata::Entries>> entries() const { return entries_.get(); }
  Result<tokenizer::VocabularyPtr> vocabulary() const { return vocabulary_.get(); }
  Result<TextsPtr> texts(tokenizer::TextKind kind) const { return texts_.at(static_cast<size_t>(kind)).get(); }

  /// The path of a tensor below tensors/; empty if it is not known.
  std::string file_path(size_t tensor) const;

 private:
  struct FilePaths {
    StringArena texts;
    std::vector<NamedPath> paths;
  };

  Result<void> sort(Order order, std::vector<uint32_t>& all) const;
  bool shows(const Filter& filter, size_t tensor) const;
  Result<std::shared_ptr<const FilePaths>> file_paths() const;

  const ModelPtr model_;
  const std::string path_;
  const std::string version_;
  uint64_t total_bytes_ = 0;
  mutable std::once_flag is_summarised_;
  mutable summary::Summarised summarised_;
  mutable std::mutex mutex_;  // guards the next ones; never held while they are computed
  mutable std::map<Order, std::shared_ptr<const std::vector<uint32_t>>> orders_;
  mutable Filter last_filter_;
  mutable std::shared_ptr<const std::vector<char>> last_match_;
  mutable std::shared_ptr<const FilePaths> paths_;
  const Later<std::shared_ptr<const metadata::Entries>> entries_;
  const Later<tokenizer::VocabularyPtr> vocabulary_;
  const std::array<Later<TextsPtr>, 4> texts_;  // by their kind
};
using OpenModelPtr = std::shared_ptr<const OpenModel>;

/// Which tensors of a model are named.
enum class Names {
  stored,
  gguf  ///< those of a repository of the Hub as a GGUF has them, as comparisons with a GGUF read them
};
/// The model whose directory a path is, with all lazy parts; null for a directory of models. Refuses with 404 any other
/// path, and as reading the model fails.
Accepted<ModelPtr> model_at(Forest& forest, const std::string& path);

/// The beginning of the paths of files that were dropped into the page. Nothing else that is not listed is a model.
inline constexpr std::string_view kDroppedFiles = ".weightfs/dropped/";

/// The models that were used last.
class OpenModels {
 public:
  explicit OpenModels(Forest& forest) : forest_(forest) {}

  /// Refuses with 404 a path that is no model's directory, with 409 if `v` is given and is not the model's version, and
  /// with 422 names of a GGUF for a model that is not a repository of the Hub.
  Accepted<OpenModelPtr> open(const std::string& path, const std::string& v, Names names = Names::stored);

 private:
  static constexpr size_t kMaxOpen = 4;

  struct Opened {
    ModelPtr stored;
    Names names;
    OpenModelPtr model;
  };

  Forest& forest_;
  std::mutex mutex_;          // guards the next one
  std::vector<Opened> open_;  // the last used first
};

/// Whether a text has all words of a search, which are in lower case.
bool has_words(std::string_view text, const std::vector<std::string>& words);

/// Compares names so that layers.2 precedes layers.10.
bool is_before(std::string_view a, std::string_view b);

}  // namespace weightfs::api
