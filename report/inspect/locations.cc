#include "report/inspect/locations.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
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

// The files of the tensors in a view, by the index of the tensor.
class ViewPaths {
 public:
  static Result<ViewPaths> of(Forest& forest, const std::string& directory, size_t count) {
    ViewPaths out;
    const auto ino = forest.resolve(directory, Forest::FinalLink::followed);
    if (!ino && ino.error().code == Code::not_found) return out;
    if (!ino) return tl::unexpected(ino.error());
    out.tree_ = TRY(forest.list(*ino)).tree;
    out.nodes_.resize(count, kNone);
    for (uint32_t i = 0; i < out.tree_->size(); ++i) {
      if (is_cancelled()) return cancelled();
      if (const Node node = out.tree_->node(i); node.kind == NodeKind::tensor && node.first < count)
        out.nodes_[node.first] = i;
    }
    return out;
  }

  /// Empty for a tensor that is not in it.
  std::string path(size_t tensor) const {
    return tensor >= nodes_.size() || nodes_[tensor] == kNone ? std::string() : tree_->path(nodes_[tensor]);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  TreePtr tree_;
  std::vector<uint32_t> nodes_;
};

// The lines of a text, which is never in memory as a whole.
class Lines {
 public:
  explicit Lines(const Source& text) : text_(text) {}

  Result<std::string> next() {
    size_t end = 0;
    for (size_t searched = at_; (end = buffer_.find('\n', searched)) == buffer_.npos;) {
      buffer_.erase(0, std::exchange(at_, 0));
      searched = buffer_.size();
      const std::string piece =
          TRY(read_text(text_, offset_, static_cast<size_t>(std::min<uint64_t>(kPiece, text_.size() - offset_))));
      if (piece.empty()) return failure(Code::corrupt, "tensors.json ends before its last tensor");
      offset_ += piece.size();
      buffer_ += piece;
    }
    std::string line = buffer_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }

 private:
  static constexpr uint64_t kPiece = 256 << 10;

  const Source& text_;
  uint64_t offset_ = 0;
  std::string buffer_;
  size_t at_ = 0;
};

using Local = std::optional<std::pair<size_t, uint64_t>>;

// Whether the record says the byte order of the tensor's bytes.
bool has_known_order(const TensorView& tensor) {
  return views::has_stored_npy(tensor) || tensor.dtype->order != ByteOrder::big;
}

// The local files of the tensors: a number of LocalFiles, and an offset.
Result<std::vector<Local>> local_places(const Model& model, LocalFiles& files) {
  std::vector<Local> out(model.tensors.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (is_cancelled()) return cancelled();
    const TensorView tensor = model.tensors[i];
    if (!tensor.source.refused() && has_known_order(tensor)) out[i] = files.find(tensor.source);
  }
  return out;
}

void append_location(std::string& out, const TensorView& tensor, const Local& at) {
  if (!tensor.source.refused() && views::has_stored_npy(tensor)) {
    out += ", \"descr\": ";
    append_json_string(out, tensor.dtype->npy_descr);
  }
  if (at) out += fmt::format(", \"local\": [{}, {}]", at->first, at->second);
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

Result<void> write_locations(Forest& forest, const std::string& path, const Model& model, const WriteText& write) {
  constexpr uint64_t kStepsOfLocation = 3;
  // A server is asked for it repeatedly, so it is not charged to the budget of the model, but limited by the same size.
  Budget budget(model.budget == nullptr ? UINT64_MAX : model.budget->container_bytes());
  TRY_VOID(budget.charge(Cost::step, kStepsOfLocation * model.tensors.size()));
  std::vector<ViewPaths> views;
  for (const std::string_view view : kViews)
    views.push_back(TRY(ViewPaths::of(forest, below(path, view), model.tensors.size())));
  const Ino ino = TRY(forest.resolve(below(path, "tensors.json")));
  const SourcePtr index = TRY(forest.open(ino));
  Lines lines(*index);
  LocalFiles files;
  const std::vector<Local> places = TRY(local_places(model, files));
  write(fmt::format("\"v\": \"{}\", \"local_files\": {}, \"tensor_list\": [", version_of(model), files.json()));
  // Line i + 1 is that of tensor i, and ends with a brace, and a comma unless it is the last.
  TRY_VOID(lines.next());
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (is_cancelled()) return cancelled();
    const std::string line = TRY(lines.next());
    std::string text = (i == 0 ? "\n" : ",\n") + line.substr(0, line.rfind('}'));
    append_location(text, model.tensors[i], places[i]);
    for (size_t view = 0; view < kViews.size(); ++view) {
      const std::string file = views[view].path(i);
      if (file.empty()) continue;
      text += fmt::format(", \"{}\": ", kViews[view]);
      append_json_string(text, fmt::format("{}/{}", kViews[view], file));
    }
    write(text += '}');
  }
  write("]");
  return {};
}

}  // namespace weightfs
