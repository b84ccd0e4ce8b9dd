// TVM's Model Library Format, versions 1 to 7, and the package that tvmc makes by default. The first is
// python/tvm/micro/model_library_format.py of TVM 0.8 to 0.18, the second python/tvm/driver/tvmc/model.py.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/archive/archive_formats.h"
#include "formats/common/flat.h"
#include "formats/common/json_outline.h"
#include "formats/tvm/params.h"

namespace weightfs::tvm {
namespace {

constexpr const char* kMetadata = "metadata.json";
constexpr std::string_view kParameters = "parameters/";
constexpr int64_t kMaxVersion = 7;

// metadata.json has six values for each operator of the model: 20,000 of them fit.
constexpr uint64_t kMaxMetadataSize = 16 << 20;
constexpr uint64_t kMaxJsonValues = 131'072;

// There is one for each module, and one module as a rule.
constexpr size_t kMaxParamsFiles = 100;

// A .params file among the members.
struct ParamsFile {
  const Part* part;
  std::string name;  // the path without directory and suffix: the module's name
  size_t begin = 0;  // its tensors are [begin, end) of all
  size_t end = 0;
};

// The contents of the .params files.
struct Parameters {
  std::vector<ParamsFile> files;
  TensorList tensors;
  std::list<std::string> string_pool;
};

struct Module {
  std::string name;
  const Map* fields;
};

Result<bool> has_magic(const Part& part) {
  const auto head = part.source.get().and_then(
      [](const SourcePtr& bytes) { return read_text(*bytes, 0, std::min<uint64_t>(bytes->size(), 8)); });
  if (!head && !is_about_the_bytes(head.error())) return tl::unexpected(head.error());
  return head && is_params(*head);
}

// The first documentation of the format has `.json`, exporters write `.params`.
std::string_view without_suffix(std::string_view path) {
  for (const std::string_view suffix : {kParamsSuffix, std::string_view(".json")})
    if (path.ends_with(suffix)) return path.substr(0, path.size() - suffix.size());
  return {};
}

// The files in parameters/; those named `.params` should be lists of parameters.
Result<std::vector<ParamsFile>> in_parameters(const archive::Archive& archive) {
  std::vector<ParamsFile> files;
  for (const Part& part : archive.parts) {
    if (!part.path.starts_with(kParameters) || !part.link_target.empty()) continue;
    const std::string_view name = without_suffix(std::string_view(part.path).substr(kParameters.size()));
    if (name.empty() || (!part.path.ends_with(kParamsSuffix) && !TRY(has_magic(part)))) continue;
    files.push_back({&part, std::string(name)});
    if (files.size() > kMaxParamsFiles) break;
  }
  return files;
}

// The files at the root of a package: `mod.params` beside the graph `mod.json`, under any name.
Result<std::vector<ParamsFile>> at_root(const archive::Archive& archive) {
  std::vector<ParamsFile> files;
  for (const Part& part : archive.parts) {
    if (part.path.find('/') != part.path.npos || !part.path.ends_with(kParamsSuffix) || !part.link_target.empty())
      continue;
    std::string name(without_suffix(part.path));
    const bool has_graph = archive.find("mod.json") != nullptr || archive.find(name + ".json") != nullptr;
    if (name.empty() || !has_graph || !TRY(has_magic(part))) continue;
    files.push_back({&part, std::move(name)});
    if (files.size() > kMaxParamsFiles) break;
  }
  return files;
}

Result<bool> any_has_magic(const std::vector<ParamsFile>& files) {
  for (const ParamsFile& file : files)
    if (TRY(has_magic(*file.part))) return true;
  return false;
}

// Equal for two files with the same bytes: hard links, members that share their data.
std::string identity_of(const SourcePtr& file) {
  std::string identity = file->identity();
  return identity.empty() ? fmt::format("at {}", fmt::ptr(file.get())) : identity;
}

// Reads the .params files one after the other into one list of tensors.
class ParametersReader {
 public:
  ParametersReader(std::vector<ParamsFile> files, Warnings& warnings, Budget& budget)
      : warnings_(warnings), budget_(budget) {
    all_.files = std::move(files);
    if (all_.files.size() > kMaxParamsFiles) {
      all_.files.resize(kMaxParamsFiles);
      warnings_.miss_file(Code::unsupported, "more than {} files of parameters; the first are read", kMaxParamsFiles);
    }
  }

  Result<Parameters> read() {
    for (ParamsFile& file : all_.files) {
      file.begin = file.end = all_.tensors.size();
      const SourcePtr bytes = TRY(file.part->source.get());
      const auto [same, is_new] = read_.try_emplace(identity_of(bytes), &file);
      if (!is_new) {
        share(file, *same->second);
        continue;
      }
      auto params = read_params(bytes, budget_);
      if (!params && !is_about_the_bytes(params.error())) return tl::unexpected(params.error());
      if (!params) {
        warnings_.miss_file(params.error().code, "{}: {}; its tensors are missing", quoted(file.part->path),
                            params.error().message);
        continue;
      }
      TRY_VOID(add(file, std::move(*params)));
    }
    return std::move(all_);
  }

 private:
  template <class... Values>
  void warn(const ParamsFile& file, fmt::format_string<Values...> format, Values&&... values) {
    warnings_.add("{}: {}", quoted(file.part->path), fmt::format(format, std::forward<Values>(values)...));
  }

  // Another name of the same file adds no tensors.
  void share(ParamsFile& file, const ParamsFile& first) {
    file.begin = first.begin;
    file.end = first.end;
    warn(file, "the same file as {}, where its tensors are shown", quoted(first.part->path));
  }

  Result<void> add(ParamsFile& file, Params params) {
    warnings_.append(params.warnings, quoted(file.part->path) + ": ");
    const std::string_view scope =
        all_.files.size() > 1 ? all_.string_pool.emplace_back(file.name) : std::string_view();
    TRY_VOID(budget_.charge(Cost::input, scope.size() * params.tensors.size()));  // it is read with each tensor
    all_.string_pool.splice(all_.string_pool.end(), params.string_pool);
    for (TensorView tensor : params.tensors) {
      tensor.scope = scope;
      all_.tensors.push_back(tensor);
    }
    file.end = all_.tensors.size();
    return {};
  }

  Warnings& warnings_;
  Budget& budget_;
  Parameters all_;
  std::map<std::string, const ParamsFile*> read_;  // by the identity of their bytes
};

// Charges the budget twice: library_facts copies most of it.
Result<Map> read_metadata(const archive::Archive& archive, Budget& budget) {
  const auto about = [](const Error& error) {
    return Error{error.code, fmt::format("{}: {}", kMetadata, error.message)};
  };
  const std::string text = TRY(archive.text(kMetadata, kMaxMetadataSize));
  Value root = TRY(parse_json(*in_memory(text), 0, text.size(), budget, kMaxJsonValues).map_error(about));
  const Footprint size = footprint(root);
  if (auto room = charge(size, budget); !room) {
    release(size, budget);
    return tl::unexpected(about(room.error()));
  }
  if (Map* const map = std::get_if<Map>(&root)) return std::move(*map);
  return failure(Code::corrupt, fmt::format("{}: no JSON object", kMetadata));
}

// Up to version 6, and in the operator style, the whole is about one model.
std::vector<Module> modules_of(const Map& metadata) {
  std::vector<Module> modules;
  if (const Map* const named = metadata.find_as<Map>("modules")) {
    for (const auto& [name, fields] : *named)
      if (const Map* const map = std::get_if<Map>(&fields)) modules.push_back({name, map});
  } else if (const std::string* const name = metadata.find_as<std::string>("model_name")) {
    modules.push_back({*name, &metadata});
  }
  return modules;
}

// The targets as version 6 has them, a list; before, they were keyed by device type.
Value targets_in(const Value& target) {
  const Map* const by_device = std::get_if<Map>(&target);
  if (by_device == nullptr) return target;
  List targets;
  for (const auto& [device, text] : *by_device) targets.push_back(text);
  return targets;
}

// The facts that all versions have.
Map facts_of(const Map& fields) {
  Map facts;
  const auto keep = [&](const char* key, const char* stored) {
    if (const Value* const value = fields.find(stored); value != nullptr && facts.find(key) == nullptr)
      facts.append(key, *value);
  };
  keep("style", "style");
  keep("executors", "executors");
  keep("executors", "runtimes");  // up to version 4
  if (const Value* const target = fields.find("target")) facts.append("targets", targets_in(*target));
  keep("exported", "export_datetime");
  const Map* const memory = fields.find_as<Map>("memory");
  const Map* const functions = memory == nullptr ? nullptr : memory->find_as<Map>("functions");
  const Value* const main = functions == nullptr ? nullptr : functions->find("main");
  if (main != nullptr) facts.append("memory", *main);
  return facts;
}

// The graph executor's storage: the memory itself in version 1, a list in it since.
const List* storage_of(const Map& fields) {
  const Value* memory = fields.find("memory");
  const Map* const since_2 = memory == nullptr ? nullptr : std::get_if<Map>(memory);
  if (since_2 != nullptr) memory = since_2->find("sids");
  return memory == nullptr ? nullptr : std::get_if<List>(memory);
}

// Exporters use the wrong node for a storage's size, so most sizes are wrong.
class SizeCheck {
 public:
  void add(const List& storage, const TensorList& tensors, const ParamsFile& file) {
    const auto [row, is_new] = sizes_.try_emplace(file.begin);
    Sizes& sizes = row->second;
    for (size_t i = file.begin; is_new && i < file.end; ++i)
      if (!tensors.is_refused(i)) sizes.emplace(tensors.name(i), tensors.nbytes(i));
    for (const Value& value : storage)
      if (const Map* const entry = std::get_if<Map>(&value)) check(*entry, sizes);
  }

  void warn(Warnings& warnings) const {
    if (wrong_ > 0)
      warnings.add("{}: size_bytes is wrong for {} of {} parameters ({}); sizes from the .params file are used",
                   kMetadata, wrong_, known_, example_);
  }

 private:
  using Sizes = std::map<std::string_view, uint64_t>;

  void check(const Map& entry, const Sizes& sizes) {
    const std::string* const name = entry.find_as<std::string>("input_binding");
    const Value* const value = entry.find("size_bytes");
    const int64_t* const stored = value == nullptr ? nullptr : std::get_if<int64_t>(value);
    if (name == nullptr || stored == nullptr) return;
    const auto size = sizes.find(*name);
    if (size == sizes.end()) return;
    ++known_;
    if (std::cmp_equal(*stored, size->second)) return;
    if (wrong_++ == 0) example_ = fmt::format("{}: {}, it has {}", quoted(*name), *stored, size->second);
  }

  std::map<size_t, Sizes> sizes_;  // of the tensors of each file by its first one: modules may share a file
  uint64_t known_ = 0;
  uint64_t wrong_ = 0;
  std::string example_;
};

// The file with a module's parameters: the one of its name, or the only one of the only module.
const ParamsFile* file_of(const Module& module, size_t modules, const std::vector<ParamsFile>& files) {
  const auto named =
      std::find_if(files.begin(), files.end(), [&](const ParamsFile& f) { return f.name == module.name; });
  if (named != files.end()) return &*named;
  return modules == 1 && files.size() == 1 ? &files.front() : nullptr;
}

void check_sizes(const std::vector<Module>& modules, const Parameters& parameters, Warnings& warnings) {
  SizeCheck check;
  for (const Module& module : modules) {
    const List* const storage = storage_of(*module.fields);
    const ParamsFile* const file = file_of(module, modules.size(), parameters.files);
    if (storage != nullptr && file != nullptr) check.add(*storage, parameters.tensors, *file);
  }
  check.warn(warnings);
}

std::string version_of(const Map& metadata, Warnings& warnings) {
  const Value* const version = metadata.find("version");
  const int64_t* const number = version == nullptr ? nullptr : std::get_if<int64_t>(version);
  if (number != nullptr && (*number < 1 || *number > kMaxVersion))
    warnings.add("{}: version {}, 1 to {} are supported", kMetadata, *number, kMaxVersion);
  if (number != nullptr) return std::to_string(*number);
  warnings.add("{}: {}", kMetadata, version == nullptr ? "no version" : "the version is not a number");
  const std::string* const text = metadata.find_as<std::string>("version");
  return text == nullptr ? "" : *text;
}

// The number of tensors of each file: 0 if constants were linked into the code.
Map counts_of(const std::vector<ParamsFile>& files) {
  Map counts;
  for (const ParamsFile& file : files) counts.append(file.part->path, file.end - file.begin);
  return counts;
}

Map library_facts(const Map& metadata, const std::vector<Module>& modules, const Parameters& parameters) {
  Map facts;
  if (const Value* const version = metadata.find("version")) facts.append("version", *version);
  Map by_name;
  for (const Module& module : modules) by_name.append(module.name, facts_of(*module.fields));
  facts.append("modules", std::move(by_name));
  facts.append("parameters", counts_of(parameters.files));
  return facts;
}

// An archive with parameters in the place of a library is one, even if its metadata.json is invalid.
Result<bool> is_library(const archive::Archive& archive) {
  const Part* const metadata = archive.resolve(kMetadata);
  if (metadata == nullptr) return false;
  const auto bytes = metadata->source.get();
  if (!bytes && !is_about_the_bytes(bytes.error())) return tl::unexpected(bytes.error());
  if (!bytes) return false;
  if (TRY(is_mlf_metadata(*bytes))) return true;
  return any_has_magic(TRY(in_parameters(archive)));
}

Result<Model> library_of(archive::Archive archive, const Container& container) {
  auto files = TRY(in_parameters(archive));
  Parameters parameters = TRY(ParametersReader(std::move(files), archive.warnings, *container.budget).read());
  auto metadata = read_metadata(archive, *container.budget);
  if (!metadata && !is_about_the_bytes(metadata.error())) return tl::unexpected(metadata.error());
  std::string version;
  std::vector<Module> modules;
  if (metadata) {
    version = version_of(*metadata, archive.warnings);
    modules = modules_of(*metadata);
    check_sizes(modules, parameters, archive.warnings);
  } else {
    archive.warnings.miss_file(metadata.error().code, "{}", metadata.error().message);
    metadata = Map{};
  }
  Map facts = library_facts(*metadata, modules, parameters);
  Model model = archive::model_of(std::move(archive), container, "tvm-mlf");
  model.version = std::move(version);
  if (modules.size() == 1) model.common.append("name", modules[0].name);
  model.metadata = std::move(*metadata);
  flat::add_facts(model.metadata, model.format, std::move(facts));
  model.tensors = std::move(parameters.tensors);
  model.string_pool = std::move(parameters.string_pool);
  return model;
}

Result<Model> package_of(archive::Archive archive, const Container& container) {
  auto files = TRY(at_root(archive));
  Parameters parameters = TRY(ParametersReader(std::move(files), archive.warnings, *container.budget).read());
  Map facts;
  facts.append("parameters", counts_of(parameters.files));
  Model model = archive::model_of(std::move(archive), container, "tvm-package");
  flat::add_facts(model.metadata, model.format, std::move(facts));
  model.tensors = std::move(parameters.tensors);
  model.string_pool = std::move(parameters.string_pool);
  return model;
}

}  // namespace
}  // namespace weightfs::tvm

namespace weightfs {

// Many files are named metadata.json and have a version. The keys that all exporters write are required too.
Result<bool> is_mlf_metadata(const SourcePtr& metadata) {
  const auto keys = outline(*metadata, tvm::kMaxMetadataSize);
  if (!keys && !is_about_the_bytes(keys.error())) return tl::unexpected(keys.error());
  if (!keys || (!holds<int64_t>(*keys, "version") && !holds<std::string>(*keys, "version"))) return false;
  if (holds<Map>(*keys, "modules")) return true;
  return holds<std::string>(*keys, "model_name") &&
         (keys->find("memory") != nullptr || keys->find("target") != nullptr);
}

Result<bool> matches_mlf(const archive::Archive& archive) {
  if (TRY(tvm::is_library(archive))) return true;
  return !TRY(tvm::at_root(archive)).empty();
}

Result<Model> read_mlf(archive::Archive archive, const Container& container) {
  const bool library = TRY(tvm::is_library(archive));
  return library ? tvm::library_of(std::move(archive), container) : tvm::package_of(std::move(archive), container);
}

// Sorted keys, as all exporters but those of the operator style write them, have `version` last.
Match matches_mlf_metadata(const Probe& probe) {
  if (probe.name != tvm::kMetadata || !probe.begins_json_object()) return Match::no;
  const auto has_version = [](std::string_view text) { return text.find("\"version\"") != text.npos; };
  return has_version(probe.head) || has_version(probe.tail) ? Match::maybe : Match::no;
}

}  // namespace weightfs
