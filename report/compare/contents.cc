#include "report/compare/contents.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "report/inspect/single_model.h"
#include "report/text/words.h"

namespace weightfs::compare {
namespace {

// The sources that tensors are ranges of.
std::set<const Source*> weight_files(const TensorList& tensors) {
  std::set<const Source*> out;
  for (const TensorView& tensor : tensors)
    if (!tensor.source.refused()) out.insert(tensor.source.whole().get());
  return out;
}

bool is_weight_file(const Part& part, const std::set<const Source*>& weights) {
  const auto bytes = part.source.peek();
  return bytes && weights.contains(bytes->get());
}

void sort_items(std::vector<Item>& items) {
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.path < b.path; });
  const auto end =
      std::unique(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.path == b.path; });
  items.erase(end, items.end());
}

// Adds what is below a directory that is no model.
class DirectoryLister {
 public:
  explicit DirectoryLister(Forest& forest) : forest_(forest) {}

  Result<std::vector<Item>> list() && {
    const Forest::Listing all = TRY(forest_.list(Forest::kRoot));
    add_all(all, "");
    sort_items(items_);
    return std::move(items_);
  }

 private:
  void add_all(const Forest::Listing& all, const std::string& path) {
    for (uint32_t i = 0; i < all.count; ++i) {
      const Node node = all.tree->node(all.first + i);
      const std::string name = join_path(path, node.name());
      if (node.kind == NodeKind::directory || node.kind == NodeKind::tree)
        enter(all.ino_of(i), name);
      else if (node.kind == NodeKind::file)
        items_.push_back({name, nullptr, Part{name, Later<SourcePtr>([this_forest = &forest_, ino = all.ino_of(i)] {
                                                return this_forest->open(ino);
                                              })}});
    }
  }

  // A model is read again when it is compared: the forest drops models when memory is short.
  void enter(Ino directory, const std::string& path) {
    const auto inside = forest_.list(directory);
    if (!inside) {
      items_.push_back(
          {path, [error = inside.error()]() -> Result<ModelPtr> { return tl::unexpected(error); }, std::nullopt});
    } else if (inside->tree->model() != nullptr) {
      items_.push_back({path,
                        [forest = &forest_, directory]() -> Result<ModelPtr> {
                          const Forest::Listing listing = TRY(forest->list(directory));
                          return listing.tree->model();
                        },
                        std::nullopt});
    } else {
      add_all(*inside, path);
    }
  }

  Forest& forest_;
  std::vector<Item> items_;
};

class ModelFinder {
 public:
  explicit ModelFinder(const std::function<void(const std::string&, const Error&)>& on_error) : on_error_(on_error) {}

  void add(const std::string& path, const Contents& contents) {
    if (contents.model != nullptr) found_.push_back({path, contents.model});
    for (const Item& item : contents.items) {
      if (item.model == nullptr) continue;
      const auto bytes = item.file ? item.file->source.peek() : std::nullopt;
      if (bytes && !entered_.insert(*bytes).second) continue;
      const std::string name = join_path(path, item.path);
      const auto inner = item.model().and_then([](const ModelPtr& model) { return contents_of(model); });
      if (inner)
        add(name, *inner);
      else
        on_error_(name, inner.error());
    }
  }

  std::vector<FoundModel> take() && { return std::move(found_); }

 private:
  const std::function<void(const std::string&, const Error&)>& on_error_;
  std::set<SourcePtr> entered_;  // a container may be nested under many names, also in itself
  std::vector<FoundModel> found_;
};

}  // namespace

namespace {

// The files of a directory that are the model in another form, or another model: they are compared as files.
std::set<std::string> other_weights(const Model& model) {
  std::set<std::string> paths{model.chosen->projector};
  for (const ChosenFiles::File& file : model.chosen->alternatives) {
    paths.insert(file.path);
    paths.insert(file.path + "/Manifest.json");  // of a package of Core ML
  }
  return paths;
}

}  // namespace

Result<Contents> contents_of(const ModelPtr& model) {
  Contents out{TRY(with_lazy_parts(model)), {}};
  std::map<size_t, Later<ModelPtr>> nested;
  const std::set<std::string> others = other_weights(*out.model);
  if (model->nested)
    for (Nested& one : TRY(model->nested(model)))
      if (!others.contains(model->parts[one.part].path)) nested.emplace(one.part, std::move(one.model));
  const auto weights = weight_files(out.model->tensors);
  const std::set<std::string> chosen(out.model->chosen->weight_files.begin(), out.model->chosen->weight_files.end());
  for (size_t i = 0; i < model->parts.size(); ++i) {
    const Part& part = model->parts[i];
    Item item{part.path, nullptr, part};
    if (const auto found = nested.find(i); found != nested.end())
      item.model = [inner = found->second] { return inner.get(); };
    else if ((i == 0 && !model->has_members) || is_weight_file(part, weights) || chosen.contains(part.path))
      continue;
    out.items.push_back(std::move(item));
  }
  sort_items(out.items);
  return out;
}

Result<Contents> contents_of(Forest& forest) {
  if (const ModelPtr model = forest.model_of(Forest::kRoot)) return contents_of(model);
  Contents contents;
  contents.items = TRY(DirectoryLister(forest).list());
  return contents;
}

Result<std::vector<FoundModel>> models_in(Forest& forest,
                                          const std::function<void(const std::string& path, const Error&)>& on_error) {
  const Contents all = TRY(contents_of(forest));
  ModelFinder finder(on_error);
  finder.add("", all);
  return std::move(finder).take();
}

}  // namespace weightfs::compare
