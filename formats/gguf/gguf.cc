// GGUF: a file, or the files of a split model, as one Model.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "formats/common/flat.h"
#include "formats/common/missing_shards.h"
#include "formats/flat_formats.h"
#include "formats/gguf/file.h"
#include "formats/gguf/split.h"
#include "formats/gguf/tensors.h"
#include "formats/gguf/types.h"
#include "formats/gguf_keys.h"
#include "formats/other_files.h"
#include "formats/output.h"

namespace weightfs::gguf {
namespace {

// What models of every format have in common, by the keys that GGUF has for it (ggml's docs/gguf.md).
constexpr std::array kCommon = {
    std::pair{"general.name", "name"},         std::pair{"general.description", "description"},
    std::pair{"general.author", "author"},     std::pair{"general.organization", "organization"},
    std::pair{"general.license", "license"},   std::pair{"general.url", "url"},
    std::pair{"general.repo_url", "repo_url"}, std::pair{"general.architecture", "architecture"},
    std::pair{"general.type", "type"},         std::pair{"general.size_label", "size_label"},
};

Map common_of(const File& file) {
  Map common;
  for (const auto& [key, name] : kCommon)
    if (const Value* value = file.metadata.find(key); value != nullptr && std::holds_alternative<std::string>(*value))
      common.append(name, *value);
  constexpr uint64_t kGuessed = 1024;  // LLAMA_FTYPE_GUESSED
  const auto number = file.unsigned_at("general.file_type");
  if (!number) return common;
  const auto name = file_type_name(*number & ~kGuessed);
  if (name.empty())
    common.append("file_type", *number);
  else
    common.append("file_type", fmt::format("{}{}", name, (*number & kGuessed) != 0 ? " (guessed)" : ""));
  return common;
}

// The keys as stored; null for version 1, whose lengths have 32 bits. Called before the alignment in use is found: a
// copy has the one that its keys say.
std::shared_ptr<const GgufKeys> keys_of(const File& file, const SourcePtr& bytes) {
  if (file.dialect.version == 1) return nullptr;
  auto keys = std::make_shared<GgufKeys>();
  keys->order = file.dialect.order;
  keys->alignment = file.alignment;
  for (const CopiedEntries& copied : file.copied) {
    auto stored = slice(bytes, copied.range.from, copied.range.to - copied.range.from);
    if (!stored) return nullptr;
    keys->entries.push_back({std::move(*stored), copied.keys, copied.are_about_quantisation});
  }
  return keys;
}

// The facts about the container, apart from its keys. In a split model, those of the first file that was read.
struct Facts {
  Dialect dialect;
  uint64_t alignment = 0;
  uint64_t section = 0;  // where the data begins
  uint64_t tensors = 0;
  uint64_t keys = 0;
  uint32_t shards = 0;  // of a split model
  uint32_t present = 0;

  void add_to(Map& metadata) const {
    Map facts;
    facts.append("version", dialect.version);
    facts.append("byte_order", dialect.order == std::endian::big ? "big" : "little");
    facts.append("alignment", alignment);
    facts.append("data_offset", section);
    facts.append("tensor_count", tensors);
    facts.append("kv_count", keys);
    if (shards > 0) {
      Map split;
      split.append("count", shards);
      split.append("present", present);
      facts.append("split", std::move(split));
    }
    flat::add_facts(metadata, "gguf", std::move(facts));
  }
};

// The Model under construction, of one file or several.
// The header of a further shard has few keys; the number of its bytes is not stored.
constexpr uint64_t kUsualHeader = 16 * 1024;

struct ModelAssembly {
  Model model;
  std::map<std::string, std::string> files;  // by identity: the name under which each was read
  Facts facts;
  Warnings warnings;
  MissingShards missing;
  bool is_unread = false;  // a file cannot be read
  bool full = false;       // a file was omitted, for the tensors that the model has
};

void add_part(ModelAssembly& assembly, const std::string& name, const SourcePtr& bytes) {
  assembly.model.parts.push_back(Part{name, Later<SourcePtr>::of(bytes)});
}

// Adds a file that was read; its warnings get `subject` in front. The first one's metadata is the model's.
void add_file(ModelAssembly& assembly, const std::string& name, const SourcePtr& bytes, File file,
              std::string_view subject) {
  add_part(assembly, name, bytes);
  const uint64_t tensors = file.tensors.size();
  // The limit of one file holds for many, too.
  assembly.full = tensors > kMaxTensors - assembly.model.tensors.size();
  if (assembly.full)
    return assembly.warnings.miss_tensors(
        tensors, Code::unsupported, "{}more than {} tensors: it and later shards are omitted", subject, kMaxTensors);
  const bool is_first = assembly.model.version.empty();
  if (is_first) assembly.model.gguf_keys = keys_of(file, bytes);
  const uint64_t section = place_tensors(file, bytes, assembly.model);
  assembly.warnings.append(file.warnings, subject);
  if (!is_first) return;
  assembly.model.version = std::to_string(file.dialect.version);
  assembly.model.common = common_of(file);
  assembly.model.metadata = std::move(file.metadata);
  assembly.model.documents = std::move(file.documents);
  assembly.facts = {file.dialect, file.alignment, section, tensors, file.keys};
}

Model finish(ModelAssembly assembly) {
  for (const size_t place : flat::repeated_names(assembly.model.tensors))
    assembly.warnings.add("tensor {}: duplicate name", quoted(assembly.model.tensors.name(place)));
  assembly.model.format = "gguf";
  assembly.model.add_facts = [facts = assembly.facts](Map& metadata) { facts.add_to(metadata); };
  std::move(assembly.warnings).move_to(assembly.model);
  return std::move(assembly.model);
}

// Whether the file of a shard was read before under another name; its tensors are shown once.
bool is_read(ModelAssembly& assembly, const std::string& name, const Source& bytes) {
  const std::string identity = bytes.identity();
  if (identity.empty()) return false;
  const auto [file, is_new] = assembly.files.emplace(identity, name);
  if (!is_new) assembly.warnings.add("{}: the same file as {}", quoted(name), quoted(file->second));
  return !is_new;
}

// Opens and reads another shard. Errors become warnings, except those that a retry can avoid.
Result<void> add_sibling(ModelAssembly& assembly, const Container& container, const ShardName& shard, uint32_t number) {
  const std::string name = shard.of(number);
  const std::string subject = fmt::format("{}: ", quoted(name));
  const auto left_out = [&](const Error& error) -> Result<void> {
    if (is_fatal(container, error)) return tl::unexpected(error);
    assembly.is_unread = true;
    assembly.warnings.miss_file(error.code, "{}{}", subject, error.message);
    return {};
  };
  const auto bytes = open_beside(container, name);
  if (!bytes && bytes.error().code == Code::not_found && !is_fatal(container, bytes.error())) {
    assembly.missing.add(name, "");
    return {};
  }
  if (!bytes) return left_out(bytes.error());
  if (is_read(assembly, name, **bytes)) {
    add_part(assembly, name, *bytes);
    return {};
  }
  const auto may_be = check_may_be_shard({.name = name, .bytes = *bytes, .blobs = container.blobs});
  auto file = may_be ? read_file(*bytes, container.budget) : tl::unexpected(may_be.error());
  if (!file) {
    add_part(assembly, name, *bytes);
    return left_out(file.error());
  }
  check_shard(*file, shard, number);
  add_file(assembly, name, *bytes, std::move(*file), subject);
  return {};
}

Model read_alone(const Container& container, File file) {
  ModelAssembly assembly;
  add_file(assembly, container.name, container.bytes, std::move(file), "");
  return finish(std::move(assembly));
}

Result<Model> read_shards(const Container& container, File own, const ShardName& shard) {
  if (shard.count > kMaxShards) {
    own.warnings.miss_file(Code::unsupported, "one of {} shards, shown alone: {} at most are read", shard.count,
                           kMaxShards);
    return read_alone(container, std::move(own));
  }
  const auto total = own.unsigned_at("split.tensors.count");
  std::vector<std::string> names;
  for (uint32_t number = 1; number <= shard.count; ++number) names.push_back(shard.of(number));
  container.folder->prepare(names, [](std::string_view) { return kUsualHeader; });
  ModelAssembly assembly;
  for (uint32_t number = 1; number <= shard.count && !assembly.full; ++number) {
    const std::string name = shard.of(number);
    if (number == shard.number) {
      if (is_read(assembly, name, *container.bytes)) {
        add_part(assembly, name, container.bytes);
        continue;
      }
      check_shard(own, shard, number);
      add_file(assembly, name, container.bytes, std::move(own), fmt::format("{}: ", quoted(name)));
    } else {
      TRY_VOID(add_sibling(assembly, container, shard, number));
    }
  }
  const uint64_t tensors = assembly.model.tensors.size();
  if (assembly.is_unread)
    explain_count(total, tensors, assembly.warnings);
  else if (assembly.missing.empty() && !assembly.full)
    check_count(total, tensors, assembly.warnings);
  assembly.missing.report(shard.count, assembly.warnings);
  assembly.facts.shards = shard.count;
  assembly.facts.present = static_cast<uint32_t>(assembly.model.parts.size());
  return finish(std::move(assembly));
}

}  // namespace
}  // namespace weightfs::gguf

namespace weightfs {

Match matches_gguf(const Probe& probe) { return probe.head.starts_with("GGUF") ? Match::yes : Match::no; }

Result<Model> read_gguf(const Container& container) {
  auto file = gguf::read_file(container.bytes, container.budget);
  if (!file) return failure(file.error().code, fmt::format("gguf: {}", file.error().message));
  const auto shard = container.folder == nullptr ? std::nullopt : gguf::shard_of(container.name, *file);
  if (shard) return gguf::read_shards(container, std::move(*file), *shard);
  if (!gguf::parse_shard_name(container.name))
    gguf::check_alone(*file);
  else if (gguf::shard_of(container.name, *file))
    file->warnings.pass_over_numbers("one of several shards; the others are not beside it and are not read");
  return gguf::read_alone(container, std::move(*file));
}

std::string_view gguf_key_of(std::string_view common_field) {
  const auto row = std::find_if(gguf::kCommon.begin(), gguf::kCommon.end(),
                                [&](const auto& pair) { return common_field == pair.second; });
  return row == gguf::kCommon.end() ? "" : row->first;
}

}  // namespace weightfs
