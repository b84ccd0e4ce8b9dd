// What a person asks first about a model.

#include <algorithm>

#include "base/cancel.h"
#include "base/text.h"
#include "formats/completeness.h"
#include "formats/summary/blocks.h"
#include "formats/summary/tensors/tensor_name.h"
#include "fs/tree/listing.h"
#include "report/info/facts.h"
#include "report/info/file_facts.h"
#include "report/info/head.h"
#include "report/inspect/locations.h"
#include "report/text/map_of.h"
#include "serve/api/handlers.h"
#include "serve/api/layer_bars.h"

namespace weightfs::api {
namespace {

constexpr size_t kMaxWarnings = 100;
constexpr size_t kBlocks = 40;
constexpr size_t kMaxFiles = 200;
constexpr uint64_t kMaxTextFile = 64 << 20;  // of a file that a person reads

List blocks_of(const OpenModel& of) {
  List out;
  for (const summary::Block& block : summary::fold_blocks(of.model(), of.summarised().tensors, kBlocks)) {
    std::string types;
    for (const auto& [name, bytes] : block.dtypes) types += (types.empty() ? "" : ", ") + name;
    const double share =
        of.total_bytes() == 0 ? 0 : static_cast<double>(block.bytes) / static_cast<double>(of.total_bytes());
    out.emplace_back(map_of({{"name", block.path},
                             {"members", block.members},
                             {"tensors", block.tensors},
                             {"parameters", block.unknown > 0 ? Value() : Value(block.parameters)},
                             {"bytes", block.bytes},
                             {"share", share},
                             {"types", types},
                             {"refused", block.refused}}));
  }
  return out;
}

// The texts of a model's directory, its subdirectories metadata/ and files/ included.
void add_files(Forest& forest, Ino directory, const std::string& path, List& out) {
  const auto all = forest.list(directory);
  if (!all) return;
  for (uint32_t i = 0; i < all->count && out.size() < kMaxFiles; ++i) {
    const Node node = all->tree->node(all->first + i);
    const std::string name = path + std::string(node.name());
    const Ino ino = all->ino_of(i);
    if (node.kind == NodeKind::directory &&
        (path.empty() ? name == "metadata" || name == "files" : path.starts_with("files/")))
      add_files(forest, ino, name + "/", out);
    if (node.kind == NodeKind::directory || node.kind == NodeKind::tree || !is_named_as_text(name)) continue;
    const auto attributes = forest.known_attributes(ino);
    if (attributes && attributes->size > kMaxTextFile) continue;
    out.emplace_back(map_of({{"path", name}, {"bytes", attributes ? Value(attributes->size) : Value(nullptr)}}));
  }
}

bool has_file(const List& files, std::string_view path) {
  return std::ranges::any_of(files, [&](const Value& file) { return text_in(std::get<Map>(file), "path") == path; });
}

// Whether a licence is more than a name, which is one line.
bool has_licence_text(const OpenModel& of) {
  const auto texts = of.texts(tokenizer::TextKind::licence);
  return texts && std::ranges::any_of(**texts, [](const tokenizer::ModelText& each) {
           return trimmed(each.text).find('\n') != std::string_view::npos;
         });
}

bool has_experts(const TensorList& tensors, const summary::NameParser& names) {
  for (size_t i = 0; i < tensors.size() && !is_cancelled(); ++i)
    if (names.is_expert(tensors.name(i))) return true;
  return false;
}

}  // namespace

Content json_content(const Value& value) { return {.bytes = to_json_line(value)}; }

// As wide as a text may be: a page breaks lines by itself.
info::Style page_style() { return {.width = 100'000}; }

std::string plain_text(const std::string& line) {
  std::string text = info::emit({line}, page_style());
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

List plain_texts(const std::vector<std::string>& lines) {
  List out;
  for (const std::string& line : lines) out.emplace_back(plain_text(line));
  return out;
}

bool is_named_as_text(std::string_view name) {
  for (const std::string_view ending : {".json", ".toml", ".txt", ".md", ".yaml", ".yml", ".jinja", ".py", "LICENSE",
                                        "README", "Modelfile", ".template"})
    if (name.ends_with(ending)) return true;
  return false;
}

Accepted<Content> describe_model(const Call& call) {
  const OpenModelPtr of = ACCEPT(call.model());
  const Model& model = of->model();
  const std::string source = of->path().empty() ? call.source : of->path();
  const summary::Summarised& summarised = of->summarised();
  const info::Subject subject{model, summarised.summary, summarised.tensors, source};
  const info::Style style = page_style();
  List facts, warnings, files;
  for (const info::Fact& fact : info::facts_of(subject, style))
    if (!fact.label.starts_with("warning"))  // they have a list of their own
      facts.emplace_back(map_of({{"label", fact.label}, {"value", plain_text(fact.value)}}));
  for (size_t i = 0; i < std::min(model.warnings.size(), kMaxWarnings); ++i)
    warnings.emplace_back(printable(model.warnings[i]));
  const auto ino = ACCEPT(accepted(call.forest.resolve(of->path(), Forest::FinalLink::followed)));
  add_files(call.forest, ino, "", files);
  const bool has_graph = has_file(files, "graph.json");
  std::string sentence;
  for (const std::string& line : info::sentence_of(subject, style)) sentence += plain_text(line);
  List fact_warnings;
  for (const std::string& warning : summarised.summary.warnings)
    if (fact_warnings.size() < kMaxWarnings && std::ranges::find(model.warnings, warning) == model.warnings.end())
      fact_warnings.emplace_back(printable(warning));
  const std::string licence = info::licence_of(subject);
  const summary::NameParser names(model, summarised.summary);
  Map bars = layer_bars(*of, names);
  if (is_cancelled()) return httpd::refused(503, "cancelled");  // they are not whole
  return json_content(
      map_of({{"path", of->path()},
              {"v", of->version()},
              {"title", info::name_of(subject)},
              {"format", info::format_text(model)},
              {"bytes", info::model_bytes(model)},
              {"sentence", sentence},
              {"alerts", plain_texts(info::alerts_of(subject, style))},
              {"warnings", std::move(warnings)},
              {"warning_count", model.warnings.size()},
              {"fact_warnings", std::move(fact_warnings)},
              {"complete", completeness_of(model).is_complete()},
              {"verification", info::verification_text(subject)},
              {"licence", licence.empty() ? Value() : Value(printable(licence))},
              {"has_licence_text", has_licence_text(*of)},
              {"facts", std::move(facts)},
              {"blocks", blocks_of(*of)},
              {"tensors", model.tensors.size()},
              {"parameters", summarised.summary.parameters ? Value(*summarised.summary.parameters) : Value()},
              {"has_experts", has_experts(model.tensors, names)},
              {"has_graph", has_graph},
              {"bars", std::move(bars)},
              {"files", std::move(files)}}));
}

Accepted<Content> list_locations(const Call& call) {
  const OpenModelPtr of = ACCEPT(call.model());
  Content content{.bytes = "{"};
  const auto written =
      write_locations(call.forest, of->path(), of->model(), [&](std::string_view text) { append(content, text); });
  if (!written) return tl::unexpected(refusal_of(written.error()));
  append(content, "}\n");
  return content;
}

}  // namespace weightfs::api
