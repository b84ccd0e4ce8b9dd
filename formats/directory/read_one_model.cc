// Reads the model of a directory: one file, or several that are joined.

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/code/list.h"
#include "formats/common/missing_shards.h"
#include "formats/common/warnings.h"
#include "formats/completeness.h"
#include "formats/directory/pieces.h"
#include "formats/directory/small_json.h"
#include "formats/directory/statements.h"
#include "formats/directory/weight_files.h"
#include "formats/directory/weight_names.h"
#include "formats/one_model.h"

namespace weightfs {
namespace directory {
namespace {

std::string directory_of(std::string_view path) { return std::string(path.substr(0, path.rfind('/') + 1)); }

// Files of the directory that were read, and those of them that the tensors are in.
struct ReadFiles {
  std::vector<std::string> weights, all;

  // Adds those of a model that was read from the file at `path`.
  void add(const Model& read, const std::string& path) {
    all.push_back(path);
    if (read.has_members) return weights.push_back(path);
    for (std::string& file : find_weight_files(read)) weights.push_back(std::move(file));
    for (const Part& part : read.parts) all.push_back(part.path);
  }
};

// A name takes a node of a set, besides its bytes, which are those of the file.
constexpr uint64_t kNameNode = 64;

// Joins the models of several files, with a prefix before the names of their tensors.
class Joiner {
 public:
  explicit Joiner(BudgetPtr budget) : budget_(std::move(budget)), pieces_(*budget_) {}

  Result<void> add(Model read, const std::string& path, const OneModel::Weights& weights) {
    const std::string& prefix = weights.prefix;
    if (weights.are_pieces) TRY_VOID(pieces_.add(read, model_.tensors.size()));
    files_.add(read, path);
    code_.append(read.common, path);
    note_unknown(read);
    if (is_first_) take_facts(read);
    is_first_ = false;
    const size_t first = model_.tensors.size();
    TRY_VOID(budget_->charge(Cost::kept, (prefix.size() + kNameNode) * read.tensors.size()));
    TRY_VOID(budget_->charge(Cost::input, path.size() * read.tensors.size()));  // it may be the scope of each tensor
    const std::string_view scope = model_.string_pool.emplace_back(path);
    model_.tensors.reserve(first + read.tensors.size());
    for (TensorView tensor : read.tensors) {
      const std::string name = prefix + std::string(tensor.name);
      tensor.name = name;
      if (prefix.empty() && !names_.insert(name).second) tensor.scope = scope;
      model_.tensors.push_back(tensor);
    }
    move_statements(read, model_, first);
    model_.string_pool.splice(model_.string_pool.end(), read.string_pool);
    if (!prefix.empty())
      for (Lacks::LostFile& file : read.lacks.edit().lost)
        for (std::string& name : file.tensors) name.insert(0, prefix);
    warnings_.append(read, quoted(path) + ": ");
    // The members of a checkpoint that is a zip are not files of the directory.
    if (read.has_members) return move_checksums(std::move(read.parts), path, model_, *budget_);
    std::ranges::move(read.parts, std::back_inserter(model_.parts));
    return {};
  }

  Result<void> join_pieces() { return pieces_.join(model_.tensors, warnings_); }

  void miss(const std::string& path, const Error& error) {
    warnings_.miss_file(code_of_lack(error), "{}: {}; its tensors are missing", quoted(path), error.message);
  }

  void warn_of_missing_index(const OneModel::Weights& weights) {
    if (weights.are_pieces) {
      // The last ones may be missing unseen, so the number of parameters is not known.
      warnings_.pass_over_numbers(
          "{}: {} files with the pieces that processes saved; the shapes follow from these pieces, as the files do not "
          "say how many processes there were",
          quoted(weights.path), weights.shards.size());
      return report_missing_pieces(weights.shards, warnings_);
    }
    warnings_.add("{}: no index of the shards; {} files are read as one model", quoted(weights.path),
                  weights.shards.size());
  }

  // Shards that do not exist, by the number in the names of the others.
  void miss_shards(const OneModel::Weights& weights) {
    if (weights.count <= weights.shards.size()) return;
    MissingShards missing;
    std::set<uint32_t> present;
    for (const std::string& path : weights.shards)
      if (const auto name = parse_weight_name(std::string_view(path).substr(path.rfind('/') + 1)))
        present.insert(name->number);
    for (uint32_t number = 1; number <= weights.count; ++number)
      if (!present.contains(number)) missing.add(path_of_shard(weights.path, number), "");
    missing.report(weights.count, warnings_);
  }

  bool is_empty() const { return is_first_; }
  ReadFiles& files() { return files_; }

  // What was found about code in all files, among the common fields of the model.
  void add_code(Map& common) && {
    if (!code_.empty()) common.set("code", List());
    std::move(code_).move_to(common);
    if (!unknown_.empty()) common.set("unknown_globals", List(unknown_.begin(), unknown_.end()));
  }
  Model take() && {
    std::move(warnings_).move_to(model_);
    model_.budget = budget_;
    return std::move(model_);
  }

 private:
  void note_unknown(const Model& read) {
    const auto* const names = read.common.find_as<List>("unknown_globals");
    if (names == nullptr) return;
    for (const Value& name : *names)
      if (const auto* const text = std::get_if<std::string>(&name)) unknown_.insert(*text);
  }

  void take_facts(Model& read) {
    model_.format = read.format;
    model_.version = read.version;
    model_.common = std::move(read.common);
    model_.metadata = std::move(read.metadata);
    model_.add_facts = std::move(read.add_facts);
  }

  BudgetPtr budget_;
  Pieces pieces_;
  Model model_;
  Warnings warnings_;
  std::set<std::string, std::less<>> names_;  // of tensors without a prefix
  ReadFiles files_;
  CodeList code_;
  std::set<std::string> unknown_;  // names in pickles
  bool is_first_ = true;
};

// The metadata of a pipeline are those of model_index.json, as in a DDUF.
Result<void> describe_pipeline(Model& model, const OneModel& found, const ModelDirectory& directory) {
  model.format = "diffusers";
  model.version.clear();
  model.common = {};
  model.metadata = {};
  model.add_facts = nullptr;
  const auto index = TRY(read_small_json(*directory.folder, found.pipeline, *model.budget));
  const auto* const fields = index ? std::get_if<Map>(&*index) : nullptr;
  if (fields == nullptr) return {};
  model.metadata = *fields;
  for (const auto& [key, name] : {std::pair{"_name_or_path", "name"}, std::pair{"_class_name", "architecture"}})
    if (const auto* const text = fields->find_as<std::string>(key)) model.common.append(name, *text);
  return {};
}

Result<Model> join(const OneModel& found, const ModelDirectory& directory, ReadFiles& files) {
  const BudgetPtr budget = directory.budget != nullptr ? directory.budget : std::make_shared<Budget>(0);
  Joiner joiner(budget);
  std::optional<Error> first_error;
  for (const OneModel::Weights& weights : found.weights) {
    if (!weights.shards.empty()) joiner.warn_of_missing_index(weights);
    joiner.miss_shards(weights);
    const std::vector<std::string> one = {weights.path};
    for (const std::string& path : weights.shards.empty() ? one : weights.shards) {
      auto read = directory.read(path, budget);
      if (read) {
        move_below(*read, directory_of(path));
        TRY_VOID(joiner.add(std::move(*read), path, weights));
      } else if (may_pass(read.error()) || directory.folder->needs_every_file()) {
        return tl::unexpected(read.error());
      } else {
        joiner.miss(path, read.error());
        if (!first_error) first_error = read.error();
      }
    }
  }
  if (joiner.is_empty()) return tl::unexpected(*first_error);
  TRY_VOID(joiner.join_pieces());
  files = std::move(joiner.files());
  Model model = std::move(joiner).take();
  if (!found.pipeline.empty()) TRY_VOID(describe_pipeline(model, found, directory));
  std::move(joiner).add_code(model.common);
  return model;
}

// The path of the file that opens an alternative.
std::string opening_path(const std::string& alternative) {
  return alternative.ends_with(".mlpackage") ? alternative + "/Manifest.json" : alternative;
}

// Other weights are models in nested/. They are read when they are entered.
void nest_alternatives(Model& model, const ModelDirectory& directory) {
  const auto paths = std::make_shared<std::map<std::string, std::string>>();  // of the part, and in the directory
  const auto add = [&](const std::string& path) { paths->emplace(directory.prefix + path, path); };
  for (const ChosenFiles::File& file : model.chosen->alternatives) add(opening_path(file.path));
  if (!model.chosen->projector.empty()) add(model.chosen->projector);
  if (paths->empty()) return;
  model.nested = [paths, read = directory.read,
                  inner = std::move(model.nested)](const ModelPtr& itself) -> Result<std::vector<Nested>> {
    std::vector<Nested> all = inner ? TRY(inner(itself)) : std::vector<Nested>();
    std::set<size_t> known;
    for (const Nested& one : all) known.insert(one.part);
    for (size_t i = 0; i < itself->parts.size(); ++i) {
      const auto found = paths->find(itself->parts[i].path);
      if (known.contains(i) || found == paths->end()) continue;
      all.push_back({i, Later<ModelPtr>([read, path = found->second]() -> Result<ModelPtr> {
                       return std::make_shared<const Model>(TRY(read(path, nullptr)));
                     })});
    }
    return all;
  };
}

// Puts the directory's own path in front of all paths.
void add_prefix(Model& model, const std::string& prefix) {
  if (prefix.empty()) return;
  const auto add = [&](std::string& path) { path.insert(0, prefix); };
  move_below(model, prefix);
  ChosenFiles& chosen = model.chosen.edit();
  for (std::string& path : chosen.weight_files) add(path);
  for (auto* const files : {&chosen.alternatives, &chosen.training_state})
    for (ChosenFiles::File& file : *files) add(file.path);
  if (!chosen.projector.empty()) add(chosen.projector);
}

// What lists of the directory name, and what it lacks.
void report(Model& model, const OneModel& found) {
  Warnings warnings;
  for (const std::string& line : found.warnings) warnings.add("{}", line);
  for (const std::string& line : found.missing) warnings.miss_file(Code::corrupt, "{}", line);
  std::move(warnings).move_to(model);
}

bool is_below(const Part& part) { return part.path.find('/') != part.path.npos; }

void add_other_parts(Model& model, std::vector<Part> parts) {
  std::set<std::string, std::less<>> shown;
  for (const Part& part : model.parts) shown.insert(part.path);
  for (Part& part : parts)
    if (!shown.contains(part.path)) model.parts.push_back(std::move(part));
}

// Sets the files that were chosen. The alternatives lose what the model itself consists of: shards under unusual names,
// files of the form of a directory.
void choose(Model& model, const OneModel& found, ReadFiles files) {
  ChosenFiles& chosen = model.chosen.edit() = found.chosen;
  // A form whose members are all parts has them in nested/, or its tensors are in the weight files.
  const bool has_all = found.is_own_form && model.has_members;
  if (has_all && model.nested != nullptr) chosen.alternatives.clear();
  if (has_all) files.weights = files.all = find_weight_files(model);
  const std::set<std::string, std::less<>> read(files.all.begin(), files.all.end());
  std::erase_if(chosen.alternatives, [&](const ChosenFiles::File& file) { return read.contains(file.path); });
  chosen.weight_files = std::move(files.weights);
}

}  // namespace
}  // namespace directory

Result<Model> read_one_model(const OneModel& found, ModelDirectory directory) {
  const OneModel::Weights& first = found.weights.front();
  const bool is_one_file = found.weights.size() == 1 && first.shards.empty() && first.prefix.empty();
  directory::ReadFiles files;
  Model model;
  if (is_one_file) {
    model = TRY(directory.read(first.path, nullptr));
    directory::move_below(model, directory::directory_of(first.path));
    files.add(model, first.path);
  } else {
    model = TRY(directory::join(found, directory, files));
  }
  directory::report(model, found);
  // The files of an artifact in a layout are not those of the directory.
  if (!found.is_own_form || model.beside == nullptr) model.beside = directory.folder;
  // What is below such a directory is the format's own.
  if (found.is_own_form) std::erase_if(directory.parts, directory::is_below);
  directory::choose(model, found, std::move(files));
  directory::add_other_parts(model, std::move(directory.parts));
  directory::nest_alternatives(model, directory);
  directory::add_prefix(model, directory.prefix);
  return model;
}

}  // namespace weightfs
