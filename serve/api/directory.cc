// The models of a directory: their list, and for each the row that `weightfs info DIRECTORY` prints.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/cancel.h"
#include "base/parallel.h"
#include "formats/format.h"
#include "report/info/head.h"
#include "report/text/errors.h"
#include "report/text/map_of.h"
#include "serve/api/handlers.h"

namespace weightfs::api {
namespace {

constexpr size_t kMaxEntries = 1000;

// An entry of a directory. `name` is its path from there.
struct Entry {
  std::string name;
  NodeKind kind;
  Ino ino;
};

// Which entries a directory has: its own ones, or the models below those of its directories that only part the names
// of its models, as in a store of Ollama. Files are only counted then.
enum class Depth { entries, models };

struct Entries {
  Depth depth;
  std::vector<std::string> words;  // that the names must have
  std::vector<Entry> found = {};
  uint64_t files = 0;
  bool is_truncated = false;

  Result<void> add(Forest& forest, Ino directory, const std::string& prefix) {
    const auto all = TRY(forest.list(directory));
    for (uint32_t i = 0; i < all.count && !is_truncated; ++i) {
      const Node node = all.tree->node(all.first + i);
      const std::string name = prefix + node.name();
      const bool is_directory = node.kind == NodeKind::directory;
      if (depth == Depth::models && is_directory) {
        TRY_VOID(add(forest, all.ino_of(i), name + "/"));
        continue;
      }
      const bool is_file = !is_directory && node.kind != NodeKind::tree;
      if (is_file) ++files;
      if ((is_file && depth == Depth::models) || !has_words(name, words)) continue;
      if (found.size() == kMaxEntries)
        is_truncated = true;
      else
        found.push_back({name, node.kind, all.ino_of(i)});
    }
    return {};
  }
};

// The kinds of entries. A tree is a model or a directory of models: those that are not named as a file of a model are
// entered to know which, as far as that takes no longer than a person waits. One that is not entered, or cannot be, is
// a model, whose row reports what it is.
std::vector<const char*> kinds_of(Forest& forest, const std::vector<Entry>& entries) {
  constexpr size_t kMaxEntered = 200;
  constexpr size_t kThreads = 4;
  constexpr std::chrono::milliseconds kPatience{500};
  std::vector<const char*> kinds;
  std::vector<size_t> unknown;
  for (const Entry& entry : entries) {
    const bool is_tree = entry.kind == NodeKind::tree;
    if (is_tree && !is_named_as_model(entry.name) && unknown.size() < kMaxEntered) unknown.push_back(kinds.size());
    kinds.push_back(is_tree ? "model" : entry.kind == NodeKind::directory ? "directory" : "file");
  }
  const auto enter = [&](uint64_t at) -> Result<void> {
    const size_t place = unknown[static_cast<size_t>(at)];
    const auto below = forest.list(entries[place].ino);
    const bool has_model = below && below->count > 0 && below->tree->model() != nullptr;
    if (below && !has_model) kinds[place] = "directory";
    return is_cancelled() ? Result<void>(cancelled()) : Result<void>();
  };
  const auto end = std::chrono::steady_clock::now() + kPatience;
  const CancelScope scope([end] { return std::chrono::steady_clock::now() > end; });
  // What it has found before its end counts; an error is only that it has ended.
  static_cast<void>(in_parallel(unknown.size(), kThreads, enter).has_value());
  return kinds;
}

// What the table shows of a model.
Map row_of(const Model& model, const std::string& path) {
  const summary::Summarised summarised = summary::summarise(model);
  const summary::Summary& summary = summarised.summary;
  const info::Subject subject{model, summary, summarised.tensors, path};
  const auto number = [](const summary::Number& n) { return n ? Value(*n) : Value(nullptr); };
  return map_of({{"path", path},
                 {"kind", "model"},
                 {"title", info::name_of(subject)},
                 {"format", info::format_text(model)},
                 {"what", info::kind_text(summary)},
                 {"tensors", model.tensors.size()},
                 {"parameters", number(summary.parameters)},
                 {"quantised", summary.quantisation ? summary.quantisation->name : summary.dtype},
                 {"bits", summary.bits_per_weight ? Value(*summary.bits_per_weight) : Value(nullptr)},
                 {"bytes", info::model_bytes(model)},
                 {"context", number(summary.context_length)},
                 {"license", summary.license},
                 {"alerts", plain_texts(info::alerts_of(subject, page_style()))}});
}

}  // namespace

Accepted<Content> list_models(const Call& call) {
  const std::string path = call.query.text("dir");
  const auto ino = ACCEPT(accepted(call.forest.resolve(path, Forest::FinalLink::followed)));
  const bool is_single = call.forest.model_of(Forest::kRoot) != nullptr;
  const bool is_model = is_single && path.empty();
  Entries all{call.query.flag("below") ? Depth::models : Depth::entries, ACCEPT(call.query.words("q"))};
  if (const auto listed = is_model ? Result<void>() : all.add(call.forest, ino, ""); !listed)
    return tl::unexpected(refusal_of(listed.error()));
  List entries;
  if (is_model) entries.emplace_back(map_of({{"path", ""}, {"name", call.source}, {"kind", "model"}}));
  const auto kinds = kinds_of(call.forest, all.found);
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::string& name = all.found[i].name;
    entries.emplace_back(
        map_of({{"path", path.empty() ? name : path + "/" + name}, {"name", name}, {"kind", kinds[i]}}));
  }
  return json_content(map_of({{"version", WEIGHTFS_VERSION},
                              {"source", call.source},
                              {"single", is_single},
                              {"drop", call.takes_files ? Value(call.href(kDropPath)) : Value(nullptr)},
                              {"truncated", all.is_truncated},
                              {"files", all.files},
                              {"entries", std::move(entries)}}));
}

Accepted<Content> describe_entry(const Call& call) {
  const std::string path = call.query.text("path");
  const auto failed = [&](const std::string& message) {
    return json_content(map_of({{"path", path}, {"kind", "model"}, {"error", without_name(path, message)}}));
  };
  const auto model = model_at(call.forest, path);
  if (!model && is_cancelled()) return httpd::refused(503, "cancelled");
  if (!model && model.error().status == 404) return tl::unexpected(model.error());
  if (!model) return failed(model.error().message);
  if (*model != nullptr) return json_content(row_of(**model, path));
  const auto ino = ACCEPT(accepted(call.forest.resolve(path, Forest::FinalLink::followed)));
  const auto all = ACCEPT(accepted(call.forest.list(ino)));
  return json_content(map_of({{"path", path}, {"kind", "directory"}, {"entries", all.count}}));
}

}  // namespace weightfs::api
