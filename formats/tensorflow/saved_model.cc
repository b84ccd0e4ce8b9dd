// SavedModel: a directory with saved_model.pb, a checkpoint of its variables, and assets; also in a tar. As
// saved_model.proto and loader.cc of TensorFlow 2.18 describe it.
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "formats/archive/archive_formats.h"
#include "formats/archive/zip.h"
#include "formats/tensorflow/checkpoint/checkpoint.h"
#include "formats/tensorflow/graph_json.h"
#include "formats/tensorflow/meta_graph.h"

namespace weightfs {
namespace tensorflow {
namespace {

constexpr const char* kFormat = "tensorflow-savedmodel";
constexpr std::string_view kEntry = "saved_model.pb";
constexpr std::string_view kVariableFiles = "variables/variables";
constexpr size_t kMaxMetaGraphs = 16;

class SavedModelReader {
 public:
  SavedModelReader(archive::Archive archive, const Container& container)
      : archive_(std::move(archive)), container_(container) {}

  Result<Model> read() {
    model_.format = kFormat;
    const SourcePtr file = TRY(member(kEntry));
    const codec::DecodeCharge::Active active(charge_);
    Map checkpoint = TRY(read_variables());
    TRY_VOID(read_graphs(file));
    report_missing_variables();
    if (!checkpoint.empty()) model_.metadata.append("checkpoint", std::move(checkpoint));
    archive_.warnings.append(warnings_, "");
    archive::add_members(model_, std::move(archive_), container_);
    model_.nested = nullptr;  // the graph and the variables are the model
    return std::move(model_);
  }

 private:
  // A file of the directory, or a member of the archive, whose decoding is charged while it is parsed.
  Result<SourcePtr> member(std::string_view path) {
    if (container_.name == kEntry) return path == kEntry ? container_.bytes : open_below(container_, path);
    const Part* const part = archive_.resolve(path);
    if (part == nullptr) return failure(Code::not_found, "missing");
    const SourcePtr source = TRY(part->source.get());
    return archive::bytes_to_parse(source, charge_);
  }

  // Whether the directory lacks a file, or the archive a member. A file that cannot be opened now is not missing.
  bool is_missing(const std::string& path) const {
    if (container_.name != kEntry) return archive_.resolve(path) == nullptr;
    const auto file = open_below(container_, path);
    return !file && file.error().code == Code::not_found;
  }

  Result<Map> read_variables() {
    auto index = member(fmt::format("{}.index", kVariableFiles));
    has_index_ = index || index.error().code != Code::not_found;
    if (!has_index_) return Map{};
    auto read = index ? checkpoint(*index) : tl::unexpected(index.error());
    if (read) return std::move(read->metadata);
    if (!is_about_the_bytes(read.error())) return tl::unexpected(read.error());
    model_ = Model{};
    model_.format = kFormat;
    warnings_.miss_file(read.error().code, "{}.index: {}; the variables are missing", kVariableFiles,
                        read.error().message);
    return Map{};
  }

  // Without an index, a model may have no variables: then neither has its graph, nor are there files with their bytes.
  void report_missing_variables() {
    if (has_index_) return;
    const bool has_files = std::ranges::any_of(archive_.parts, [](const Part& part) {
      return part.path.starts_with(fmt::format("{}.data-", kVariableFiles));
    });
    if (has_files || graph_has_variables_)
      warnings_.miss_file(Code::not_found, "{}.index: missing, and with it the variables", kVariableFiles);
  }

  Result<CheckpointFacts> checkpoint(const SourcePtr& index) {
    const Container table{.name = fmt::format("{}.index", kVariableFiles),
                          .bytes = index,
                          .folder = container_.folder,
                          .blobs = container_.blobs,
                          .depth = container_.depth + 1,
                          .budget = container_.budget};
    const CheckpointFiles files{std::string(kVariableFiles), [this](const std::string& path) { return member(path); }};
    auto facts = read_checkpoint(table, files, model_, warnings_);
    for (size_t i = 0; i < model_.tensors.size(); ++i)
      has_variables_ = has_variables_ || model_.tensors.dtype(i) != dtype_named("string");
    return facts;
  }

  Result<void> read_graphs(const SourcePtr& file) {
    const BudgetPtr& budget = container_.budget;
    Scanner scanner(*file, budget.get());
    GraphReader graphs({file, budget}, scanner, model_, warnings_);
    const Message whole = scanner.whole();
    List described;
    Fields fields(scanner, whole);
    while (const auto field = TRY(fields.next())) {
      if (field->tag == saved_model::kSchemaVersion) model_.metadata.set("schema_version", field->value);
      if (field->tag != saved_model::kMetaGraph) continue;
      if (described.size() == kMaxMetaGraphs) return failure(Code::unsupported, "more than 16 graphs");
      const Message meta_graph = TRY(scanner.child(whole, *field));
      const Message graph = TRY(scanner.message_at(meta_graph, meta_graph::kGraph));
      TRY_VOID(graphs.read(graph, has_variables_ ? Constants::large : Constants::all));
      const std::string number = described.empty() ? "" : fmt::format(".{}", described.size());
      add_graph_json(model_, fmt::format("graph{}.json", number), file, graph, budget);
      Map facts = TRY(describe_meta_graph(scanner, meta_graph, *budget));
      TRY_VOID(check_assets(facts));
      described.emplace_back(std::move(facts));
    }
    if (described.empty()) return failure(Code::corrupt, "no graph");
    graph_has_variables_ = graphs.has_variables();
    graphs.take_code().move_to(model_.common);
    return add_metadata(graphs, std::move(described));
  }

  // The files that the graph reads when it is loaded, such as vocabularies.
  Result<void> check_assets(const Map& meta_graph) {
    const auto* const assets = meta_graph.find_as<List>("assets");
    if (assets == nullptr) return {};
    for (const Value& value : *assets) {
      const auto* const name = std::get_if<std::string>(&value);
      if (name == nullptr || !is_plain_path(*name)) continue;
      TRY_VOID(container_.budget->charge(Cost::lookup));
      const std::string path = fmt::format("assets/{}", *name);
      if (!is_missing(path) || !missing_assets_.insert(path).second) continue;
      warnings_.miss_file(Code::not_found, "{}: missing", printable(path));
      warnings_.lose({Code::not_found, "missing"}, {});
    }
    return {};
  }

  Result<void> add_metadata(GraphReader& graphs, List described) {
    const Map& first = std::get<Map>(described.front());
    model_.version = text_in(first, "tensorflow_version");
    TRY_VOID(add_ends(first, graphs, *container_.budget, model_.metadata));
    model_.metadata.append("meta_graphs", std::move(described));
    for (const auto& [key, value] : graphs.facts()) model_.metadata.append(key, value);
    return {};
  }

  archive::Archive archive_;
  const Container& container_;
  codec::DecodeChargePtr charge_ = std::make_shared<codec::DecodeCharge>(container_.budget);
  Model model_;
  Warnings warnings_;
  std::set<std::string> missing_assets_;
  bool has_index_ = false;            // of the checkpoint
  bool has_variables_ = false;        // in the checkpoint
  bool graph_has_variables_ = false;  // whose values are in the checkpoint
};

}  // namespace
}  // namespace tensorflow

Result<bool> matches_saved_model(const archive::Archive& archive) {
  return archive.find(tensorflow::kEntry) != nullptr;
}

// Its first field is the version of the schema, or a graph.
Match matches_saved_model_pb(const Probe& entry) {
  const bool begins = entry.head.starts_with('\x08') || entry.head.starts_with('\x12');
  return entry.name == tensorflow::kEntry && begins ? Match::yes : Match::no;
}

// Those that every one has: further files with variables are found without a listing.
Result<std::vector<std::string>> files_of_saved_model(const Container&) {
  return std::vector<std::string>{"saved_model.pb", "variables/variables.index",
                                  "variables/variables.data-00000-of-00001"};
}

Result<Model> read_saved_model(archive::Archive archive, const Container& container) {
  return tensorflow::SavedModelReader(std::move(archive), container).read().map_error([](const Error& error) {
    return with_message(error, fmt::format("{}: {}", tensorflow::kFormat, error.message));
  });
}

}  // namespace weightfs
