#include "formats/directory/directory_files.h"

#include <algorithm>
#include <array>

#include "formats/one_model.h"

namespace weightfs::directory {
namespace {

constexpr std::string_view kTrainer = "trainer_state.json";

// The first component of a path with its `/`; the whole path of a file in the directory itself.
std::string_view first_of(std::string_view path) { return path.substr(0, path.find('/') + 1); }

bool is_in_itself(std::string_view path) { return path.find('/') == path.npos; }

// Whether a file is of weights that are no state of a trainer.
bool is_weights(std::string_view name) {
  const auto parsed = parse_weight_name(name);
  return parsed && parsed->is_usual && parsed->role != WeightName::Role::index && !is_training_state(name);
}

}  // namespace

DirectoryFiles::DirectoryFiles(const std::vector<ChosenFiles::File>& files) {
  for (const ChosenFiles::File& file : files) {
    paths_.emplace_hint(paths_.end(), file.path, file.bytes);
    const std::string first(file.path.substr(0, file.path.find('/')));
    if (is_in_itself(file.path))
      names_.push_back(file.path);
    else if (directories_.empty() || directories_.back() != first)
      directories_.push_back(first);
  }
  has_trainer_ = has_weights_or_trainer(names_);
  sets_ = find_weight_sets(in(""), "", has_trainer_ ? TrainingState::excluded : TrainingState::included);
}

FileSizes DirectoryFiles::in(const std::string& directory) const {
  const std::string prefix = directory.empty() ? "" : directory + "/";
  FileSizes found;
  for (auto at = paths_.lower_bound(prefix); at != paths_.end() && at->first.starts_with(prefix); ++at) {
    const std::string_view name = std::string_view(at->first).substr(prefix.size());
    if (is_in_itself(name)) found.emplace_hint(found.end(), name, at->second);
  }
  return found;
}

std::vector<WeightSet> DirectoryFiles::sets_in(const std::string& directory) const {
  return find_weight_sets(in(directory), directory + "/", TrainingState::excluded);
}

bool DirectoryFiles::has_weights_below() const {
  constexpr auto kForms = std::to_array<std::string_view>({"onnx/", "openvino/", "original/", "gguf/"});
  return std::ranges::any_of(paths_, [&](const auto& file) {
    const std::string_view path = file.first;
    if (is_in_itself(path) || std::ranges::find(kForms, first_of(path)) != kForms.end()) return false;
    return is_weights(path.substr(path.rfind('/') + 1));
  });
}

std::vector<ChosenFiles::File> DirectoryFiles::packages() const {
  constexpr std::string_view kPackage = ".mlpackage/";
  std::vector<ChosenFiles::File> found;
  for (const auto& [path, bytes] : paths_) {
    const size_t end = path.find(kPackage);
    if (end == path.npos || path.starts_with('.')) continue;
    const std::string package = path.substr(0, end + kPackage.size() - 1);
    if (found.empty() || found.back().path != package) found.push_back({package, 0});
    found.back().bytes += bytes;
  }
  return found;
}

bool DirectoryFiles::is_training_state(std::string_view name) const {
  return has_trainer_ && directory::is_training_state(name);
}

std::vector<ChosenFiles::File> DirectoryFiles::training_state() const {
  std::vector<ChosenFiles::File> found;
  for (const auto& [path, bytes] : paths_) {
    const std::string_view first = is_in_itself(path) ? std::string_view(path) : first_of(path);
    if (is_training_state(first)) found.push_back({path, bytes});
  }
  return found;
}

}  // namespace weightfs::directory

namespace weightfs {

bool is_named_as_training_state(std::string_view name) { return directory::is_training_state(name); }

bool has_weights_or_trainer(const std::vector<std::string>& names) {
  return std::ranges::any_of(
      names, [](const std::string& name) { return name == directory::kTrainer || directory::is_weights(name); });
}

}  // namespace weightfs
