#include "fs/tree/listing.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "base/values/rendering.h"
#include "formats/code/code.h"
#include "formats/completeness.h"
#include "formats/summary/blocks.h"
#include "formats/summary/summary.h"
#include "fs/views/npy.h"

namespace weightfs {
namespace {

// The model's budget; an unlimited one for a model that was not read from a container.
BudgetPtr budget_for(const Model& model) {
  return model.budget != nullptr ? model.budget : std::make_shared<Budget>(std::numeric_limits<uint64_t>::max());
}

void append(std::string& out, uint64_t number) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void append_shape(std::string& out, ShapeView shape) {
  out += '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ',';
    append(out, shape[i]);
  }
  out += ']';
}

// tensors.json, rendered line by line. Only the offsets of blocks of lines are kept; a read renders the blocks that it
// covers.
class TensorIndex final : public Source {
 public:
  explicit TensorIndex(TreePtr tree) : tree_(std::move(tree)), budget_(budget_for(model())) {}
  ~TensorIndex() override { budget_->release(Cost::kept, kept_); }
  TensorIndex(const TensorIndex&) = delete;
  TensorIndex& operator=(const TensorIndex&) = delete;

  // Computes the offsets of the blocks. Renders each line once, but does not keep it.
  Result<void> measure() {
    if (count() == 0) size_ = kEmpty.size();
    TRY_VOID(budget_->charge(Cost::step, count()));
    if (count() > 0) TRY_VOID(find_parts());
    TRY_VOID(find_nodes());
    std::string line;
    for (size_t i = 0; i < count(); ++i) {
      if (blocks_.empty() || size_ - blocks_.back().begin >= kBlockSize) blocks_.push_back({size_, i});
      line.clear();
      append_line(line, i);
      TRY_VOID(budget_->charge(Cost::rendered, line.size()));
      budget_->release(Cost::rendered, line.size());
      size_ += line.size();
    }
    return {};
  }

  uint64_t size() const override { return size_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size_) return size_t{0};
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset));
    std::string text;
    if (count() == 0) {
      text = kEmpty.substr(static_cast<size_t>(offset));
    } else {
      const auto begins_after = [](uint64_t at, const Block& block) { return at < block.begin; };
      const Block block = *std::prev(std::upper_bound(blocks_.begin(), blocks_.end(), offset, begins_after));
      const auto skip = static_cast<size_t>(offset - block.begin);
      for (size_t i = block.line; i < count() && text.size() < skip + wanted; ++i) append_line(text, i);
      text.erase(0, skip);
    }
    std::memcpy(out.data(), text.data(), wanted);
    return wanted;
  }

 private:
  // Finds the paths of the parts that contain tensors.
  Result<void> find_parts() {
    std::unordered_set<const Source*> used;
    for (const TensorView& tensor : model().tensors) used.insert(tensor.source.whole().get());
    StringArena texts;
    const auto paths = in_order_of_parts(part_paths(model(), texts));
    for (size_t i = 0; i < paths.size(); ++i) {
      const auto source = model().parts[i].source.peek();
      if (!source || !used.contains(source->get())) continue;
      const uint64_t bytes = 128 + paths[i].size();
      TRY_VOID(budget_->charge(Cost::kept, bytes));
      kept_ += bytes;
      part_of_[source->get()] = paths[i];
    }
    return {};
  }

  // The view tensors/ has every tensor.
  Result<void> find_nodes() {
    const uint64_t bytes = count() * sizeof(uint32_t);
    TRY_VOID(budget_->charge(Cost::kept, bytes));
    kept_ += bytes;
    node_of_tensor_.resize(count());
    for (uint32_t i = 0; i < tree_->size(); ++i)
      if (const Node node = tree_->node(i); node.kind == NodeKind::tensor) node_of_tensor_[node.first] = i;
    return {};
  }

  static constexpr uint64_t kBlockSize = 16 * 1024;
  static constexpr std::string_view kEmpty = "{\"tensors\": []}\n";

  const Model& model() const { return *tree_->model(); }
  size_t count() const { return model().tensors.size(); }

  // Line `i`; the first and the last line include the begin and end of the array.
  void append_line(std::string& out, size_t i) const {
    const TensorView& t = model().tensors[i];
    out += i == 0 ? "{\"tensors\": [\n{\"name\": " : "{\"name\": ";
    append_json_string(out, t.name);
    out += ", \"path\": ";
    append_json_string(out, tree_->path(node_of_tensor_[i]));
    out += ", \"dtype\": ";
    append_json_string(out, dtype_text(t));
    out += ", \"stored_dtype\": ";
    append_json_string(out, t.stored_dtype);
    out += ", \"shape\": ";
    append_shape(out, t.shape);
    out += ", \"nbytes\": ";
    append(out, t.nbytes());
    append_storage(out, i);
    out += i + 1 == count() ? "}\n]}\n" : "},\n";
  }

  void append_storage(std::string& out, size_t i) const {
    const TensorView& t = model().tensors[i];
    if (t.source.refused()) {
      out += ", \"refused\": true";
      return;
    }
    const auto part = part_of_.find(t.source.whole().get());
    if (part != part_of_.end()) {
      out += ", \"storage\": {\"file\": ";
      append_json_string(out, part->second);
      out += ", \"offset\": ";
      append(out, t.source.offset());
      out += '}';
    }
    const auto digest = model().per_tensor->digests.find(i);
    if (digest != model().per_tensor->digests.end()) out += ", \"sha256\": \"" + digest->second.hex() + '"';
  }

  TreePtr tree_;
  BudgetPtr budget_;
  uint64_t kept_ = 0;  // bytes charged
  std::unordered_map<const Source*, std::string> part_of_;
  std::vector<uint32_t> node_of_tensor_;
  struct Block {
    uint64_t begin;  // offset of its first line
    size_t line;
  };
  std::vector<Block> blocks_;
  uint64_t size_ = 0;
};

}  // namespace

std::string_view dtype_text(const TensorView& tensor) {
  return tensor.dtype == &kUnknownDType ? tensor.stored_dtype : tensor.dtype->name;
}

std::string shape_text(ShapeView shape) {
  std::string out;
  append_shape(out, shape);
  return out;
}

namespace {

// The last component of a path or a URL.
std::string_view last_component(std::string_view source) {
  while (source.ends_with('/')) source.remove_suffix(1);
  return source.substr(source.rfind('/') + 1);
}

// What is in docs/summary.md.
Map summary_of(const Model& model, const std::string& source, const Completeness& completeness) {
  summary::Summarised summarised = summary::summarise(model);
  if (summarised.summary.name.empty()) summarised.summary.name = last_component(source);
  Map out = summary::to_map(summarised.summary);
  const auto blocks = summary::fold_blocks(model, summarised.tensors, summary::kBlocksInJson);
  if (!blocks.empty()) out.set("blocks", summary::to_list(blocks));
  if (!completeness.is_complete()) {
    Map refused;
    refused.append("tensors", completeness.unreadable);
    if (completeness.short_by > 0) refused.append("bytes_missing", completeness.short_by);
    out.set("refused", std::move(refused));
  }
  return out;
}

}  // namespace

Map metadata_of(const Model& model, const std::string& source) {
  std::map<std::string_view, uint64_t> dtypes;
  std::map<std::string_view, std::string_view> npy_types;  // of types that npy/ has as others
  const DType* known = nullptr;                            // the type of a tensor whose type in npy/ was looked up
  uint64_t bytes = 0;
  uint64_t refused = 0;
  for (const TensorView& tensor : model.tensors) {
    ++dtypes[dtype_text(tensor)];
    bytes += tensor.nbytes();
    if (tensor.source.refused()) ++refused;
    if (tensor.dtype == known) continue;
    const std::string_view in_npy = views::npy_type(tensor);
    if (!in_npy.empty()) known = tensor.dtype;
    if (!in_npy.empty() && in_npy != tensor.dtype->name) npy_types.emplace(tensor.dtype->name, in_npy);
  }
  Map counts;
  for (const auto& [dtype, count] : dtypes) counts.append(std::string(dtype), count);
  Map in_npy;
  for (const auto& [dtype, other] : npy_types) in_npy.append(std::string(dtype), other);

  Map tensors;
  tensors.append("count", model.tensors.size());
  if (refused > 0) tensors.append("refused", refused);
  tensors.append("nbytes", bytes);
  tensors.append("dtypes", std::move(counts));
  if (!in_npy.empty()) tensors.append("npy_dtypes", std::move(in_npy));

  Map out;
  const std::vector<CodeItem> code = code_of(model).items;
  if (!code.empty()) out.append("code", to_list(code));
  out.append("format", model.format);
  if (!model.version.empty()) out.append("version", model.version);
  out.append("source", source);
  for (const auto& [key, value] : model.common)
    if (key != "code") out.set(key, value);
  const Completeness completeness = completeness_of(model);
  if (!completeness.is_complete()) out.set("incomplete", to_sentence(completeness));
  out.set("summary", summary_of(model, source, completeness));
  out.set("tensors", std::move(tensors));
  out.set("metadata", metadata_with_facts(model));
  return out;
}

std::vector<NamedPath> part_paths(const Model& model, StringArena& texts) {
  std::vector<TensorName> names;
  names.reserve(model.parts.size());
  for (const Part& part : model.parts) names.push_back({"", part.path});
  return paths_of(names, "", texts, Percent::kept);
}

std::vector<std::string_view> in_order_of_parts(const std::vector<NamedPath>& part_paths) {
  std::vector<std::string_view> paths(part_paths.size());
  for (const NamedPath& part : part_paths) paths[part.name()] = part.path();
  return paths;
}

std::vector<std::string> directory_paths(const Model& model, const std::vector<NamedPath>& part_paths) {
  const auto is_part = [&](std::string_view path) {
    const auto less = [](const NamedPath& part, std::string_view p) { return path_less(part.path(), p); };
    const auto found = std::lower_bound(part_paths.begin(), part_paths.end(), path, less);
    return found != part_paths.end() && found->path() == path;
  };
  std::vector<std::string> out;
  for (const std::string& directory : *model.directories) {
    if (std::count(directory.begin(), directory.end(), '/') >= static_cast<std::ptrdiff_t>(kMaxComponents)) continue;
    std::string path;
    bool clashes = false;
    for (size_t begin = 0; begin <= directory.size();) {
      const size_t end = std::min(directory.find('/', begin), directory.size());
      path += (path.empty() ? "" : "/") +
              component(std::string_view(directory).substr(begin, end - begin), "", Percent::kept);
      clashes = clashes || is_part(path);
      begin = end + 1;
    }
    if (!clashes) out.push_back(std::move(path));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

uint64_t file_bytes(const Model& model) {
  if (model.stored_bytes) return *model.stored_bytes;
  uint64_t bytes = 0;
  for (const Part& part : model.parts)
    if (const auto made = part.source.peek()) bytes += (*made)->size();
  return bytes;
}

Result<SourcePtr> tensor_index(TreePtr tensors) {
  const auto index = std::make_shared<TensorIndex>(std::move(tensors));
  TRY_VOID(index->measure());
  return index;
}

namespace {

// Calls `render` with metadata_of the model. The copy is charged while it exists.
template <class Render>
Result<SourcePtr> render_metadata(const Model& model, const std::string& source, const Render& render) {
  const BudgetPtr budget = budget_for(model);
  Footprint copy = footprint(model.metadata);
  const Footprint common = footprint(model.common);
  copy.values += common.values;
  copy.bytes += common.bytes;
  TRY_VOID(charge(copy, *budget));
  auto text = render(metadata_of(model, source), *budget);
  release(copy, *budget);
  if (!text) return tl::unexpected(text.error());
  return charged_text(std::move(*text), budget);
}

}  // namespace

Result<SourcePtr> metadata_json(const Model& model, const std::string& source) {
  return render_metadata(model, source, [](Map map, Budget& budget) { return to_json(Value(std::move(map)), budget); });
}

Result<SourcePtr> metadata_toml(const Model& model, const std::string& source) {
  return render_metadata(model, source, [](const Map& map, Budget& budget) { return to_toml(map, budget); });
}

Result<SourcePtr> warnings_text(const Model& model, std::span<const std::string> more) {
  const BudgetPtr budget = budget_for(model);
  auto text = rendered(*budget, [&](TextSink& out) {
    if (const std::string incomplete = to_sentence(completeness_of(model)); !incomplete.empty())
      out.append(incomplete + "\n");
    for (const std::span<const std::string> warnings : {std::span<const std::string>(model.warnings), more})
      for (const std::string& warning : warnings) {
        out.append(printable(warning));
        out.append(1, '\n');
      }
  });
  if (!text) return tl::unexpected(text.error());
  return charged_text(std::move(*text), budget);
}

}  // namespace weightfs
