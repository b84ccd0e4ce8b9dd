// A model in several files (shards): `model.safetensors.index.json` maps tensors to shards, which are safetensors
// files; `pytorch_model.bin.index.json` maps them to checkpoints of PyTorch. As huggingface_hub writes it
// (serialization/_base.py, split_state_dict_into_shards_factory), or as edited by hand.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/files/unverified.h"
#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/code/list.h"
#include "formats/common/flat.h"
#include "formats/common/missing_shards.h"
#include "formats/directory/statements.h"
#include "formats/flat_formats.h"
#include "formats/grouped.h"
#include "formats/other_files.h"
#include "formats/safetensors/unlisted_shards.h"
#include "formats/safetensors/weight_map.h"

namespace weightfs::safetensors {
namespace {

// The functions of a shard that is a pickle: fields that are common to models, and what joins the first ones.
constexpr std::string_view kDangerous = "dangerous_globals";
constexpr std::string_view kUnknown = "unknown_globals";
constexpr std::string_view kSeparator = ", ";

// Merges the shards' models, in order, and warns about errors of the weight map.
class Merger {
 public:
  Merger(Index& index, Budget& budget) : index_(index), budget_(budget), warnings_(std::move(index.warnings)) {
    model_.tensors.reserve(index.weights.size());
  }

  Result<void> add(Shard& shard, Model read) {
    const std::string_view name = model_.string_pool.emplace_back(shard.name);
    TRY_VOID(budget_.charge(Cost::input, name.size() * read.tensors.size()));  // it may be the scope of each tensor
    if (index_.is_stale) TRY_VOID(charge_names(read.tensors));
    directory::move_statements(read, model_, model_.tensors.size());
    if (read.has_members) TRY_VOID(directory::move_checksums(std::move(read.parts), name, model_, budget_));
    model_.string_pool.splice(model_.string_pool.end(), read.string_pool);
    warnings_.append(read, fmt::format("shard {}: ", quoted(name)));
    for (TensorView tensor : read.tensors) {
      if (!is_at_home(tensor, shard)) tensor.scope = name;
      model_.tensors.push_back(tensor);
    }
    if (shards_.empty()) take_metadata(read);
    add_dangerous(read);
    code_.append(read.common, shard.name);
    shards_.append(std::string(name), std::move(read.metadata));
    model_.parts.push_back({std::string(name), Later<SourcePtr>::of(*shard.bytes)});
    shard.was_read = true;
    return {};
  }

  // The tensors of a file with several names are shown once.
  void add_hard_link(const Shard& shard) {
    warnings_.add("shard {}: the same file as {}", quoted(shard.name), quoted(shard.same->name));
    model_.parts.push_back({std::string(shard.name), Later<SourcePtr>::of(*shard.bytes)});
  }

  // A shard that is there, and is not read.
  void pass_over(const Shard& shard) {
    if (*shard.bytes == nullptr) return;  // not opened
    model_.parts.push_back({std::string(shard.name), Later<SourcePtr>::of(*shard.bytes)});
  }

  void miss(const Shard& shard, const Error& error) {
    lost_.emplace(&shard, error);
    if (error.code == Code::not_found)
      missing_.add(shard.name, index_.is_stale ? "" : "; " + lost_tensors(shard.weights, "missing"));
    else if (index_.is_stale)
      warnings_.miss_file(error.code, "shard {}: {}; its tensors are missing", quoted(shard.name), error.message);
    else
      warnings_.miss_file(error.code, "shard {}: {}; {}", quoted(shard.name), error.message,
                          lost_tensors(shard.weights, "missing"));
    warnings_.add_missing_tensors(shard.weights);
  }

  // A file that is called a shard of the model, and whose tensors the weight map does not have.
  void leave_out(std::string_view name) {
    warnings_.miss_file(Code::corrupt, "shard {}: not in the weight_map; its tensors are missing", quoted(name));
  }

  Model finish(const Container& container) {
    missing_.report(index_.shards.size(), warnings_);
    for (const Weight& weight : index_.weights) compare(weight);
    if (!index_.is_stale) tell_lost_tensors();  // else they are not known
    if (!all_dangerous_.empty()) model_.common.set(std::string(kDangerous), std::move(all_dangerous_));
    if (!code_.empty()) model_.common.set("code", List());  // that of the first shard is among those of all
    std::move(code_).move_to(model_.common);
    if (!unknown_.empty()) model_.common.set(std::string(kUnknown), List(unknown_.begin(), unknown_.end()));
    Map facts;
    if (index_.metadata) facts.append("metadata", std::move(*index_.metadata));
    facts.append("shards", std::move(shards_));
    flat::add_facts(model_.metadata, "index", std::move(facts));
    model_.parts.insert(
        model_.parts.begin(),
        {.path = container.name, .source = Later<SourcePtr>::of(container.bytes), .is_structure = true});
    std::move(warnings_).move_to(model_);
    return std::move(model_);
  }

 private:
  // The names that is_at_home() keeps.
  Result<void> charge_names(const TensorList& tensors) {
    constexpr uint64_t kNode = 64;  // of a set
    for (size_t i = 0; i < tensors.size(); ++i) TRY_VOID(budget_.charge(Cost::kept, kNode + tensors.name(i).size()));
    return {};
  }

  // Whether a tensor is in the shard of the weight map, or in no other shard.
  bool is_at_home(const TensorView& tensor, const Shard& shard) {
    Weight* const weight = index_.find(tensor.name);
    if (weight == nullptr) {
      if (!index_.is_stale)
        warnings_.add("tensor {} in {} is not in the weight_map", quoted(tensor.name), quoted(shard.name));
      return unlisted_.emplace(tensor.name).second;
    }
    if (&weight->shard->file() == &shard) return weight->found = true;
    if (weight->elsewhere == Weight::kNowhere) weight->elsewhere = model_.tensors.size();
    return false;
  }

  // A missing shard is damage (formats/common/missing_shards.h).
  void tell_lost_tensors() {
    std::map<const Shard*, std::vector<std::string>> tensors;
    for (Weight& weight : index_.weights)
      if (!weight.found && weight.elsewhere == Weight::kNowhere && lost_.contains(&weight.shard->file()))
        tensors[&weight.shard->file()].push_back(std::move(weight.tensor));
    for (const auto& [shard, error] : lost_) {
      const bool is_missing = error.code == Code::not_found;
      warnings_.lose({is_missing ? Code::corrupt : error.code,
                      fmt::format("shard {}: {}", quoted(shard->name), is_missing ? "missing" : error.message)},
                     std::move(tensors[shard]));
    }
  }

  void compare(const Weight& weight) {
    const Shard& home = weight.shard->file();
    if (weight.elsewhere == Weight::kNowhere) {
      if (home.was_read && !weight.found)
        warnings_.miss_tensors(1, Code::corrupt, "tensor {} is not in {}", quoted(weight.tensor), quoted(home.name));
      return;
    }
    TensorView tensor = model_.tensors[weight.elsewhere];
    const std::string also = weight.found ? fmt::format(" and in {}", quoted(home.name)) : "";
    warnings_.add("tensor {} is in {}{}; weight_map lists {}", quoted(weight.tensor), quoted(tensor.scope), also,
                  quoted(home.name));
    if (weight.found) return;
    tensor.scope = {};
    model_.tensors.replace(weight.elsewhere, tensor);
  }

  // Shards repeat each other's metadata. The model's metadata are those of a single file.
  void take_metadata(const Model& first) {
    model_.format = first.format;
    model_.common = first.common;
    for (const auto& [key, value] : first.metadata)
      if (key != first.format) model_.metadata.append(key, value);
  }

  // Functions that run code or may do so, of all shards that are pickles, each once.
  void add_dangerous(const Model& read) {
    if (const auto* const unknown = read.common.find_as<List>(kUnknown))
      for (const Value& name : *unknown) unknown_.insert(std::get<std::string>(name));
    const Value* const names = read.common.find(kDangerous);
    const auto* const text = names == nullptr ? nullptr : std::get_if<std::string>(names);
    if (text == nullptr) return;
    for (size_t at = 0; at < text->size();) {
      const size_t end = std::min(text->find(kSeparator, at), text->size());
      const std::string name = text->substr(at, end - at);
      if (dangerous_.insert(name).second) all_dangerous_.append(all_dangerous_.empty() ? "" : kSeparator).append(name);
      at = end + kSeparator.size();
    }
  }

  static Model empty() {
    Model model;
    model.format = "safetensors";
    return model;
  }

  Index& index_;
  Budget& budget_;
  Model model_ = empty();
  Map shards_;  // the metadata of each
  Warnings warnings_;
  MissingShards missing_;
  std::map<const Shard*, Error> lost_;
  std::set<std::string> unlisted_;  // tensors that are in no line of the weight map
  std::set<std::string> dangerous_, unknown_;
  CodeList code_;
  std::string all_dangerous_;  // the same, in the order of the shards
};

// The bytes before the tensors of a safetensors file; of another format the first ones.
uint64_t header_size(std::string_view head) {
  if (head.size() < flat::kPrefix || head.starts_with("PK")) return head.size();
  const uint64_t length = little_endian(head.substr(0, flat::kPrefix));
  return flat::kPrefix + std::min(length, flat::kMaxHeaderSize);
}

std::vector<std::string> names_of(const Index& index) {
  std::vector<std::string> names;
  for (const auto& [name, shard] : index.shards) names.push_back(name);
  return names;
}

std::vector<std::string> names_of_needed(const Index& index) {
  std::vector<std::string> names;
  for (const auto& [name, shard] : index.shards)
    if (shard.is_needed) names.push_back(name);
  return names;
}

// Opens the shards, and finds the names of the same file. A fatal error ends this: a server is not asked for more. A
// shard that is not needed is opened only where that shows whether it is there without a request.
Result<void> open_shards(Index& index, const Container& container) {
  if (const auto names = names_of_needed(index); !names.empty()) container.folder->prepare(names, header_size);
  std::map<std::string, Shard*> files;  // by identity
  for (auto& [name, shard] : index.shards) {
    if (!shard.is_needed && !container.folder->lists_files()) continue;
    shard.bytes = open_beside(container, name);
    if (!shard.bytes && is_fatal(container, shard.bytes.error())) return tl::unexpected(shard.bytes.error());
    const std::string identity = shard.bytes ? (*shard.bytes)->identity() : "";
    if (identity.empty()) continue;
    const auto [file, is_new] = files.emplace(identity, &shard);
    if (is_new) continue;
    shard.same = file->second;
    if (shard.is_needed) file->second->is_needed = true;
  }
  return {};
}

// The format of a shard, by its first bytes.
Result<std::string_view> format_of(const Container& shard) {
  TRY_VOID(check_may_be_shard(shard));
  const Source& bytes = *shard.bytes;
  const std::string head = TRY(read_text(bytes, 0, std::min<uint64_t>(bytes.size(), kHeadSize)));
  const Probe probe{shard.name, head, "", bytes.size()};
  if (matches_pytorch_legacy(probe) == Match::yes) return "pytorch-legacy";
  return head.starts_with("PK\3\4") ? "pytorch" : "safetensors";
}

// A shard that is read by its header alone. Fails with unsupported for another one.
Result<Model> read_header(const Container& shard) {
  const std::string_view format = TRY(format_of(shard));
  if (format != "safetensors") return failure(Code::unsupported, "more than a header is needed");
  return read_as(format, shard);
}

// Verification takes all bytes of a file, so its header is read before (semantics 12.3). If it cannot be read, the
// verified bytes decide.
Result<Model> read_shard(const Shard& shard, const Container& container) {
  const SourcePtr bytes = TRY(shard.bytes);
  Container file{std::string(shard.name), bytes, nullptr, container.blobs, container.depth, container.budget};
  if (const SourcePtr early = bytes->unverified()) {
    file.bytes = early;
    auto model = read_header(file);
    if (model) TRY_VOID(model->tensors.move_to(bytes));
    if (model || !is_about_the_bytes(model.error())) return model;
    if (const auto* const read = dynamic_cast<const UnverifiedBytes*>(early.get())) read->forget();
    file.bytes = bytes;
  }
  return read_as(TRY(format_of(file)), file);
}

// Whether the model has all of these tensors; their names are sorted.
bool has_tensors(const Model& model, const std::vector<std::string>& names) {
  std::set<std::string_view> found;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const auto name = std::lower_bound(names.begin(), names.end(), model.tensors.name(i));
    if (name != names.end() && *name == model.tensors.name(i)) found.insert(*name);
  }
  return found.size() == names.size();
}

Result<Model> read_shards(Index& index, const Container& container) {
  TRY_VOID(open_shards(index, container));
  Merger merger(index, *container.budget);
  std::optional<Error> first_error;
  bool any = index.shards.empty();
  for (auto& [name, shard] : index.shards) {
    if (shard.same != nullptr) {
      merger.add_hard_link(shard);
    } else if (!shard.is_needed && shard.bytes) {
      merger.pass_over(shard);
      any = true;
    } else if (auto model = read_shard(shard, container)) {
      TRY_VOID(merger.add(shard, std::move(*model)));
      any = true;
    } else if (is_fatal(container, model.error())) {
      return tl::unexpected(model.error());
    } else {
      merger.miss(shard, model.error());
      if (!first_error) first_error = model.error();
    }
  }
  if (any) {
    for (const std::string& name : TRY(unlisted_shards(names_of(index), container))) merger.leave_out(name);
    return merger.finish(container);
  }
  return failure(first_error->code, fmt::format("none of {} shards can be read, the first: {}: {}", index.shards.size(),
                                                quoted(index.shards.begin()->first), first_error->message));
}

// The model of the shards that have the needed tensors; nothing if the index is wrong about one of them.
Result<std::optional<Model>> read_chosen_shards(Index& index, const Container& container) {
  Model model = TRY(read_shards(index, container));
  for (const std::string& tensor : *container.needed_tensors)
    if (const Weight* const weight = index.find(tensor); weight == nullptr || !weight->found) return std::nullopt;
  return std::optional(std::move(model));
}

Result<Model> read_whole_index(const Container& container) {
  Index index = TRY(read_index(*container.bytes, *container.budget));
  return read_shards(index, container);
}

// Other files without the tensors of the index are not its model: then its own shards are missing.
Result<Model> read_model(const Container& container) {
  Index index = TRY(read_index(*container.bytes, *container.budget));
  if (container.folder == nullptr)
    return failure(Code::unsupported, "no other files in its directory; its shards are needed");
  const OtherFiles others = TRY(files_of_stale_index(names_of(index), container));
  if (others.names.empty()) {
    if (container.needed_tensors == nullptr || !index.choose_shards(*container.needed_tensors))
      return read_shards(index, container);
    if (auto some = TRY(read_chosen_shards(index, container))) return *std::move(some);
    return read_whole_index(container);
  }
  const std::vector<std::string> listed = index.replace_shards(others.names);
  auto model = read_shards(index, container);
  if (!model && is_fatal(container, model.error())) return model;
  if (others.are_named || (model && has_tensors(*model, listed))) return model;
  return read_whole_index(container);
}

}  // namespace
}  // namespace weightfs::safetensors

namespace weightfs {

// Any JSON object may be an index, and many other JSON files are stored beside a model: it must begin like an index.
// Writers put "metadata" first, which may be long, and "weight_map" next.
Match matches_safetensors_index(const Probe& probe) {
  const auto& [name, head, tail, size] = probe;
  constexpr const char* kWhite = " \t\r\n";
  const size_t first = head.find_first_not_of(kWhite);
  if (first == std::string_view::npos || head[first] != '{' || size > safetensors::kMaxIndexSize) return Match::no;
  if (head.find("\"weight_map\"") != std::string_view::npos) return Match::maybe;
  const size_t key = head.find_first_not_of(kWhite, first + 1);
  const bool more = head.size() < size;
  return more && key != std::string_view::npos && head.substr(key).starts_with("\"metadata\"") ? Match::maybe
                                                                                               : Match::no;
}

Result<Model> read_safetensors_index(const Container& container) { return safetensors::read_model(container); }

}  // namespace weightfs
