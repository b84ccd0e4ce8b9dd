#include "fs/layout/layout.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/archive/symlink.h"
#include "formats/computed_weights.h"
#include "formats/tokenizer/texts.h"
#include "fs/tree/listing.h"

namespace weightfs {
namespace {

using LaterModel = Later<ModelPtr>;

constexpr std::string_view kMetadata = "metadata/";

// The cost of the directory of a nested model, without its nodes and texts: its trees and their loaders. Measured,
// rounded up.
constexpr uint64_t kModelMemory = 20'000;  // bytes
constexpr uint64_t kModelSteps = 200;      // of Cost::step

Later<TreePtr> tree_of(const LaterModel& model, const views::View& view, Time modified) {
  return Later<TreePtr>([=, &view]() -> Result<TreePtr> {
    TreeBuilder builder(TRY(model.get()));
    builder.set_modified(modified);
    TRY_VOID(builder.add_tensors(view));
    return std::move(builder).freeze();
  });
}

// The tree of another view than tensors/, which has the tree `tensors`.
Later<TreePtr> tree_of(const Later<TreePtr>& tensors, const views::View& view) {
  return Later<TreePtr>([=, &view]() -> Result<TreePtr> {
    const TreePtr all = TRY(tensors.get());
    if (TreePtr shared = TRY(TreeBuilder::share(all, view))) return shared;
    return TRY(tree_of(LaterModel::of(all->model()), view, all->modified()).get());
  });
}

using LaterWeights = Later<std::shared_ptr<const ComputedWeights>>;

// What float32/ shows besides the stored tensors, if the layout has it.
LaterWeights weights_of(const LaterModel& model, const LayoutParts& layout) {
  if (!layout.has(LayoutPart::float32)) return LaterWeights::of(std::make_shared<const ComputedWeights>());
  return LaterWeights([=]() -> Result<std::shared_ptr<const ComputedWeights>> {
    const ModelPtr whole = TRY(model.get());
    return std::make_shared<const ComputedWeights>(TRY(computed_weights(*whole)));
  });
}

// float32/, with the computed weights.
Later<TreePtr> float32_tree(const Later<TreePtr>& tensors, const LaterWeights& weights, const views::View& view) {
  return Later<TreePtr>([=, &view]() -> Result<TreePtr> {
    const TreePtr all = TRY(tensors.get());
    const auto computed = TRY(weights.get());
    if (computed->weights.empty()) return tree_of(tensors, view).get();
    const ModelPtr model = TRY(with_computed(all->model(), computed->weights, Pieces::kept));
    return tree_of(LaterModel::of(model), view, all->modified()).get();
  });
}

// A text about the model, rendered on first use.
template <class Render>
Later<SourcePtr> text(const LaterModel& model, Render render) {
  return Later<SourcePtr>([=]() -> Result<SourcePtr> { return render(*TRY(model.get())); });
}

// The complete model.
LaterModel whole_model(const ModelPtr& model) {
  return model->complete_model ? *model->complete_model : LaterModel::of(model);
}

// Whether a weight of float32/ is not computed, which warnings.txt tells, or why that is not known.
bool has_uncomputed(const Model& model, const LaterWeights& weights) {
  if (!may_have_computed_weights(model)) return false;
  const auto computed = weights.get();
  return !computed || !(*computed)->warnings.empty();
}

// The documents of a model; without those below metadata/ if that is a tree of its own.
std::vector<Document> documents_of(const ModelPtr& model, bool has_tree) {
  std::vector<Document> documents;
  for (const Document& document : model->documents)
    if (!has_tree || !document.path.starts_with(kMetadata)) documents.push_back(document);
  if (has_tree) return documents;
  for (Document& document : tokenizer::template_documents(model)) documents.push_back(std::move(document));
  return documents;
}

// Whether metadata/ is read when it is entered: blobs must be fetched to know its files, or files of a repository may
// have chat templates.
bool has_metadata_tree(const Model& model) {
  return model.complete_model != nullptr || tokenizer::may_have_template_files(model);
}

// Adds the texts about the model at the top of its tree. Their list is made when one is used, because most models of a
// large directory are only listed.
void add_texts(TreeBuilder& builder, const ModelPtr& model, const Later<TreePtr>& tensors, const LaterWeights& weights,
               const std::shared_ptr<const std::string>& name) {
  const bool has_warnings = model->complete_model || !model->warnings.empty() || has_uncomputed(*model, weights);
  std::vector<std::string_view> paths = {"metadata.json", "metadata.toml", "tensors.json"};
  const bool has_tree = has_metadata_tree(*model);
  const std::vector<Document> documents = documents_of(model, has_tree);
  for (const Document& document : documents) paths.push_back(builder.keep(document.path));
  if (has_warnings) paths.push_back("warnings.txt");
  builder.add_files(
      paths, Later<LaterFiles>([=]() -> Result<LaterFiles> {
        const LaterModel whole = whole_model(model);
        auto files = std::make_shared<std::vector<Later<SourcePtr>>>();
        files->push_back(text(whole, [=](const Model& m) { return metadata_json(m, *name); }));
        files->push_back(text(whole, [=](const Model& m) { return metadata_toml(m, *name); }));
        files->push_back(Later<SourcePtr>([=]() -> Result<SourcePtr> { return tensor_index(TRY(tensors.get())); }));
        for (const Document& document : documents_of(model, has_tree)) files->push_back(document.source);
        if (has_warnings)
          files->push_back(text(whole, [=](const Model& m) -> Result<SourcePtr> {
            return warnings_text(m, TRY(weights.get())->warnings);
          }));
        return files;
      }));
}

// metadata/, if it is a tree of its own.
Later<TreePtr> metadata_tree(const LaterModel& model, Time modified) {
  return Later<TreePtr>([=]() -> Result<TreePtr> {
    const ModelPtr whole = TRY(model.get());
    TreeBuilder builder(whole);
    builder.set_modified(modified);
    std::vector<Document> documents = documents_of(whole, false);
    if (tokenizer::may_have_template_files(*whole))
      for (Document& document : TRY(tokenizer::documents_of_template_files(*whole)))
        documents.push_back(std::move(document));
    for (const Document& document : documents)
      if (document.path.starts_with(kMetadata))
        builder.add_file(builder.keep(std::string_view(document.path).substr(kMetadata.size())), document.source);
    return std::move(builder).freeze();
  });
}

// Adds the files of the container at their paths below `directory`, which is empty or ends in `/`.
void add_parts(TreeBuilder& builder, const Model& model, std::string_view directory) {
  StringArena texts;
  const auto parts = part_paths(model, texts);
  builder.reserve_files(parts.size());
  for (const std::string& path : directory_paths(model, parts))
    builder.add_directory(builder.keep(fmt::format("{}{}", directory, path)));
  for (const NamedPath& named : parts) {
    const Part& part = model.parts[named.name()];
    const bool is_same = directory.empty() && named.path().data() == part.path.data();
    const std::string_view path = is_same ? part.path : builder.keep(fmt::format("{}{}", directory, named.path()));
    // A link is resolved from its path here, which can differ from its path in the container.
    if (!part.link_target.empty() && archive::stays_inside(named.path(), part.link_target))
      builder.add_link(path, part.link_target);
    else
      builder.add_file(path, part.source);
  }
}

// files/: its own tree, unless it has one file. Most models of a large directory have one.
void add_files_directory(TreeBuilder& builder, const ModelPtr& model, Time modified) {
  if (model->parts.size() == 1 && model->directories->empty()) return add_parts(builder, *model, "files/");
  builder.add_tree("files", modified, Later<TreePtr>([=]() -> Result<TreePtr> {
                     TreeBuilder files(model);
                     files.set_modified(modified);
                     if (model->budget != nullptr) TRY_VOID(model->budget->charge(Cost::step, model->parts.size()));
                     add_parts(files, *model, "");
                     TRY_VOID(files.charge(model->budget));
                     return std::move(files).freeze();
                   }));
}

// The containers among the parts, at their paths in files/, read when entered.
Later<TreePtr> nested_trees(const ModelPtr& model, const std::string& source, Time modified,
                            const ModelFileOptions& options) {
  return Later<TreePtr>([=]() -> Result<TreePtr> {
    TreeBuilder builder(nullptr);
    builder.set_modified(modified);
    if (model->budget != nullptr) TRY_VOID(model->budget->charge(Cost::step, model->parts.size()));
    StringArena texts;
    const auto paths = in_order_of_parts(part_paths(*model, texts));
    for (const Nested& nested : TRY(model->nested(model))) {
      const std::string path(paths[nested.part]);
      builder.add_tree(builder.keep(path), modified, Later<TreePtr>([=, read = nested.model]() -> Result<TreePtr> {
                         if (model->budget != nullptr) {
                           TRY_VOID(model->budget->charge(Cost::step, kModelSteps));
                           TRY_VOID(model->budget->charge(Cost::kept, kModelMemory));
                         }
                         return lay_out(TRY(read.get()), fmt::format("{}/{}", source, path), modified, options);
                       }));
    }
    TRY_VOID(builder.charge(model->budget));
    return std::move(builder).freeze();
  });
}

}  // namespace

TreePtr lay_out(ModelPtr model, const std::string& source, Time modified, const ModelFileOptions& options,
                std::shared_ptr<const Origin> origin) {
  TreeBuilder builder(model);
  builder.set_modified(modified);
  builder.set_origin(std::move(origin));
  builder.set_container_bytes(file_bytes(*model));
  const LaterModel whole = whole_model(model);
  const auto tensors = tree_of(whole, views::kTensorsView, modified);
  const auto name = std::make_shared<const std::string>(source);
  builder.set_source(name);
  const LayoutParts& layout = options.layout;
  const auto weights = weights_of(whole, layout);
  for (const views::View* const view : views::all())
    if (layout.has(view->directory))
      builder.add_tree(view->directory, modified,
                       view == &views::kTensorsView   ? tensors
                       : view == &views::kFloat32View ? float32_tree(tensors, weights, *view)
                                                      : tree_of(tensors, *view));
  if (layout.has(LayoutPart::views)) builder.add_tree("views", modified, model_files(whole, name, modified, options));
  if (layout.has(LayoutPart::files)) add_files_directory(builder, model, modified);
  if (model->nested && layout.has(LayoutPart::nested))
    builder.add_tree("nested", modified, nested_trees(model, source, modified, options));
  // metadata/ and warnings.txt exist even if they may be empty: a listing must not change later.
  if (layout.has(LayoutPart::metadata)) {
    if (has_metadata_tree(*model)) builder.add_tree("metadata", modified, metadata_tree(whole, modified));
    add_texts(builder, model, tensors, weights, name);
  }
  return std::move(builder).freeze();
}

}  // namespace weightfs
