#include "cli/inspect/locations.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/cancel.h"
#include "base/digest.h"
#include "base/files/file_source.h"
#include "base/files/leaf.h"
#include "base/values/value.h"
#include "fs/views/npy.h"

namespace weightfs {
namespace {

constexpr size_t kHashedTensors = 4096;
constexpr std::array<std::string_view, 2> kViews = {"npy", "float32"};

std::string below(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}/{}", path, name);
}

// The local files that have bytes of tensors, and their number in "local_files".
class LocalFiles {
 public:
  /// The file and the offset of bytes that are there as they are, and that no digest protects: those are served only
  /// after they were verified.
  std::optional<std::pair<size_t, uint64_t>> find(const Source& source) {
    if (source.verification() != VerifiedBy::unknown) return std::nullopt;
    const auto extent = extent_of(source);
    struct stat status {};
    if (!extent || ::fstat(extent->fd, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    std::string identity = FileStatus(status).identity();
    // A cached blob, which others may remove, has the identity of what it was made of.
    if (!source.identity().starts_with(identity + " ")) return std::nullopt;
    const auto [known, is_new] = numbers_.emplace(std::move(identity), numbers_.size());
    if (is_new) in_order_.push_back(known->first);
    return std::pair(known->second, extent->offset);
  }

  std::string json() const {
    std::string out;
    for (const std::string& identity : in_order_) {
      out += out.empty() ? "[" : ", ";
      append_json_string(out, identity);
    }
    return out.empty() ? "[]" : out + "]";
  }

 private:
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<std::string> in_order_;
};

// The path of each tensor's file in a view, by the index of the tensor; empty for those that are not in it.
Result<std::vector<std::string>> paths_in(Forest& forest, const std::string& directory, size_t count) {
  std::vector<std::string> paths(count);
  const auto ino = forest.resolve(directory, Forest::FinalLink::followed);
  if (!ino && ino.error().code == Code::not_found) return paths;
  if (!ino) return tl::unexpected(ino.error());
  const Forest::Listing listed = TRY(forest.list(*ino));
  const Tree& tree = *listed.tree;
  for (uint32_t i = 0; i < tree.size(); ++i) {
    if (is_cancelled()) return cancelled();
    if (const Node node = tree.node(i); node.kind == NodeKind::tensor && node.first < count)
      paths[node.first] = tree.path(i);
  }
  return paths;
}

void append_location(std::string& out, const TensorView& tensor, LocalFiles& files) {
  if (tensor.source.refused()) return;
  if (views::has_stored_npy(tensor)) {
    out += ", \"descr\": ";
    append_json_string(out, tensor.dtype->npy_descr);
  } else if (tensor.dtype->order == ByteOrder::big) {
    return;  // the record does not say the byte order
  }
  if (const auto at = files.find(tensor.source)) out += fmt::format(", \"local\": [{}, {}]", at->first, at->second);
}

}  // namespace

// If there are many tensors, some are taken, evenly.
std::string version_of(const Model& model) {
  const size_t step = model.tensors.size() / kHashedTensors + 1;
  std::string text = fmt::format("{} {} {}\n", model.format, model.version, model.tensors.size());
  for (size_t i = 0; i < model.tensors.size(); i += step)
    text +=
        fmt::format("{} {} {}\n", model.tensors.name(i), model.tensors[i].source.identity(), model.tensors.nbytes(i));
  constexpr size_t kDigits = 32;
  return sha256(text).hex().substr(0, kDigits);
}

Result<std::string> locations_json(Forest& forest, const std::string& path, const Model& model) {
  std::vector<std::vector<std::string>> views;
  for (const std::string_view view : kViews)
    views.push_back(TRY(paths_in(forest, below(path, view), model.tensors.size())));
  const Ino ino = TRY(forest.resolve(below(path, "tensors.json")));
  const SourcePtr index = TRY(forest.open(ino));
  const std::string lines = TRY(read_text(*index, 0, index->size()));
  // A server is asked for it repeatedly, so it is not charged to the budget of the model, but limited by the same size.
  Budget budget(model.budget == nullptr ? UINT64_MAX : model.budget->container_bytes());
  TRY_VOID(budget.charge(Cost::rendered, lines.size()));
  LocalFiles files;
  std::string list;
  // Line i + 1 is that of tensor i, and ends with a brace, and a comma unless it is the last.
  size_t begin = lines.find('\n') + 1;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (is_cancelled()) return cancelled();
    const size_t end = lines.find('\n', begin), before = list.size();
    const std::string_view line(lines.data() + begin, lines.rfind('}', end) - begin);
    list += list.empty() ? "\n" : ",\n";
    list += line;
    append_location(list, model.tensors[i], files);
    for (size_t view = 0; view < kViews.size(); ++view) {
      if (views[view][i].empty()) continue;
      list += fmt::format(", \"{}\": ", kViews[view]);
      append_json_string(list, fmt::format("{}/{}", kViews[view], views[view][i]));
    }
    list += '}';
    TRY_VOID(budget.charge(Cost::rendered, list.size() - before));
    begin = end + 1;
  }
  return fmt::format("\"v\": \"{}\", \"local_files\": {}, \"tensor_list\": [{}]", version_of(model), files.json(),
                     list);
}

}  // namespace weightfs
