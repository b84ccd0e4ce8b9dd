#include "formats/tensorflow/checkpoint/checkpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/flat_formats.h"
#include "formats/tensorflow/checkpoint/bundle.h"
#include "formats/tensorflow/checkpoint/table.h"
#include "formats/tensorflow/checkpoint/version1.h"
#include "formats/tensorflow/fields.h"
#include "formats/tensorflow/graph_json.h"
#include "formats/tensorflow/node.h"

namespace weightfs {
namespace tensorflow {
namespace {

constexpr std::string_view kSuffix = ".index";

// The first entry has the list of tensors in version 1, the header in version 2.
Result<bool> is_version_1(BlockEntries& first) {
  if (!TRY(first.next()) || !first.key().empty())
    return failure(Code::corrupt, "no header: the first key is not empty");
  const Message message{{first.value()}, 0};
  Fields fields(first.scanner(), message);
  const auto field = TRY(fields.next());
  return field && field->tag == saved_slices::kMeta;
}

constexpr std::array kFacts = {
    std::pair{"global_step", "global_step"},
    std::pair{"save_counter/.ATTRIBUTES/VARIABLE_VALUE", "save_counter"},
    std::pair{"optimizer/iter/.ATTRIBUTES/VARIABLE_VALUE", "optimizer_iterations"},
};

// Numbers that say when the checkpoint was written: they are read when the metadata is shown.
void add_counters(Model& model) {
  std::vector<std::pair<const char*, Slice>> counters;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const auto* const row =
        std::ranges::find(kFacts, model.tensors.name(i), [](const auto& fact) { return fact.first; });
    if (row == kFacts.end() || model.tensors.dtype(i) != dtype_named("int64") || !model.tensors.shape(i).empty())
      continue;
    if (!model.tensors.is_refused(i)) counters.emplace_back(row->second, model.tensors[i].source);
  }
  if (counters.empty()) return;
  model.add_facts = [counters](Map& metadata) {
    for (const auto& [key, bytes] : counters) {
      int64_t number = 0;
      if (read_exact(bytes, 0, std::as_writable_bytes(std::span(&number, 1)))) metadata.set(key, number);
    }
  };
}

// The graph of TensorFlow 1 that was saved with the variables: PREFIX.meta.
Result<void> add_graph(const Container& container, const std::string& prefix, Model& model, Warnings& warnings) {
  if (container.folder == nullptr || !container.folder->lists_files()) return {};
  const std::string name = prefix + ".meta";
  const auto left_out = [&](const Error& error) -> Result<void> {
    if (may_pass(error)) return tl::unexpected(error);
    if (error.code != Code::not_found) warnings.add("{}: {}; the graph is not shown", quoted(name), error.message);
    return {};
  };
  const auto file = open_below(container, name);
  if (!file) return left_out(file.error());
  Scanner scanner(**file, container.budget.get());
  const Message whole = scanner.whole();
  const auto kind = kind_of_graph(scanner, whole);
  if (!kind && !is_about_the_bytes(kind.error())) return tl::unexpected(kind.error());
  if (!kind) return left_out(kind.error());
  if (*kind != GraphKind::meta_graph) return {};
  const Message graph = TRY(scanner.message_at(whole, meta_graph::kGraph));
  add_graph_json(model, "graph.json", *file, graph, container.budget);
  model.parts.push_back({.path = name, .source = Later<SourcePtr>::of(*file), .is_structure = true});
  return {};
}

Result<Model> read_index(const Container& container) {
  const std::string_view name = container.name;
  CheckpointFiles files{std::string(name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : name),
                        [&](const std::string& path) -> Result<SourcePtr> {
                          if (container.folder == nullptr) return failure(Code::not_found, "no files beside the index");
                          return open_below(container, path);
                        }};
  Model model;
  Warnings warnings;
  model.parts.push_back(
      {.path = container.name, .source = Later<SourcePtr>::of(container.bytes), .is_structure = true});
  CheckpointFacts facts = TRY(read_checkpoint(container, files, model, warnings));
  TRY_VOID(add_graph(container, files.prefix, model, warnings));
  model.format = "tensorflow-checkpoint";
  model.version = std::move(facts.version);
  model.metadata = std::move(facts.metadata);
  std::move(warnings).move_to(model);
  return model;
}

}  // namespace

Result<CheckpointFacts> read_checkpoint(const Container& container, const CheckpointFiles& files, Model& out,
                                        Warnings& warnings) {
  Table table = TRY(Table::open(container));
  if (table.blocks().empty()) return failure(Code::corrupt, "no header: the table is empty");
  const BlockHandle handle = table.blocks().front().handle;
  const SourcePtr block = TRY(table.bytes(handle));
  BlockEntries first = TRY(BlockEntries::of(block, container.budget.get()));
  CheckpointFacts facts;
  if (TRY(is_version_1(first))) {
    facts.version = "V1";
    // It may have values, too.
    if (handle.size <= kMaxVerifiedFirst) TRY_VOID(table.check(handle));
    FileCheck blocks = TRY(table.checked_blocks(container.name));
    out.checks.edit().push_back(std::move(blocks));
    TRY_VOID(read_checkpoint_v1(container, std::move(table), first, out, warnings));
  } else {
    facts.version = "V2";
    facts.metadata = TRY(BundleReader(container, files, out, warnings).read(table));
  }
  add_counters(out);
  return facts;
}

}  // namespace tensorflow

// The end of a member of an archive is not known before it is decoded: its name decides.
Match matches_tensorflow_checkpoint(const Probe& probe) {
  if (probe.tail.empty() && probe.name.ends_with(tensorflow::kSuffix)) return Match::maybe;
  if (probe.tail.ends_with(tensorflow::kTableMagic)) return Match::yes;
  // An index that was cut has no end. Its first entry has no key; the header in it ends with the version.
  constexpr std::string_view kVersion = "\x1A\2\x08\1";
  constexpr size_t kFirstEntry = 24;
  const bool begins = probe.head.substr(0, kFirstEntry).find(kVersion) != std::string_view::npos;
  return begins && probe.name.ends_with(tensorflow::kSuffix) ? Match::maybe : Match::no;
}

Result<Model> read_tensorflow_checkpoint(const Container& container) { return tensorflow::read_index(container); }

bool is_only_checkpoint(std::string_view index, const std::vector<std::string>& names) {
  const std::string_view stem = index.substr(0, index.size() - tensorflow::kSuffix.size());
  const std::string data = fmt::format("{}.data-00000-of-", stem);
  const auto begins_data = [&](std::string_view name) { return name.starts_with(data); };
  const auto is_other = [&](std::string_view name) { return !name.starts_with(stem) && is_named_as_model(name); };
  return std::ranges::any_of(names, begins_data) && std::ranges::none_of(names, is_other);
}

}  // namespace weightfs
