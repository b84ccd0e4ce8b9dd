// What a mount promises of every model, whatever its container was: asked as the kernel would ask it, from the root to
// the last byte. The fuzz target, its replay and the contract suite all ask this.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "fs/forest.h"
#include "fs/layout.h"
#include "fs/listing.h"
#include "fs/npy.h"

namespace weightfs::test {

/// Whether `message` is what we print: one line of UTF-8 without control bytes.
inline bool is_one_line(std::string_view message) {
  const auto control = [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7F; };
  return !message.empty() && is_utf8(message) && std::none_of(message.begin(), message.end(), control);
}

/// Whether `name` can stand in a directory, and is shown the same by every tool.
inline bool is_file_name(std::string_view name) {
  return is_one_line(name) && name != "." && name != ".." && name.size() <= kLongestComponent &&
         name.find('/') == name.npos;
}

/// Walks all that is mounted of one model and keeps the first promise that is broken. Of large files it reads the ends,
/// of many nodes the first, so that its time is bounded.
class Promises {
 public:
  explicit Promises(ModelPtr model) : model_(std::move(model)), forest_(lay_out(model_, "a model", 0)) {}

  /// What is broken; "" if nothing is.
  std::string broken() {
    for (const Tensor& tensor : model_->tensors) check_tensor(tensor);
    walk(Forest::kRoot);
    check_tensor_index();
    check_views();
    for (const std::string& warning : model_->warnings)
      promise(is_one_line(warning), warning, "a warning that is not one line");
    return broken_;
  }

 private:
  static constexpr uint64_t kMostNodes = 2000;
  static constexpr size_t kReadAtEachEnd = 4096;
  static constexpr uint64_t kLongestText = 64 << 20;

  // `subject`: the path or name that it is about. Made text only where it is broken.
  template <class... Parts>
  void promise(bool kept, std::string_view subject, const Parts&... parts) {
    if (!kept && broken_.empty()) broken_ = str(quoted(subject), ": ", parts...);
  }

  void check_tensor(const Tensor& tensor) {
    promise(tensor.dtype != nullptr, tensor.name, "no dtype");
    if (tensor.source.refused() || tensor.dtype == nullptr) return;
    const uint64_t whole = tensor.source.whole()->size();
    promise(tensor.source.offset() <= whole && tensor.nbytes() <= whole - tensor.source.offset(), tensor.name,
            "reaches out of its container");
    if (tensor.dtype == &kUnknownDType) return;
    promise(size_in_bytes(*tensor.dtype, tensor.shape) == tensor.nbytes(), tensor.name, tensor.nbytes(),
            " bytes are not what its shape takes");
  }

  void walk(Ino directory) {
    const std::string path = forest_.path(directory);
    const auto all = forest_.list(directory);
    if (!all) return promise(false, path, all.error().message);
    for (uint32_t i = 0; i < all->count && seen_ < kMostNodes; ++i, ++seen_) {
      const Node& node = all->tree->node(all->first + i);
      const bool sorted = i == 0 || all->tree->node(all->first + i - 1).name() < node.name();
      promise(sorted, path, "names stand twice or in disorder");
      check_node(directory, all->ino + i, node);
    }
  }

  void check_node(Ino directory, Ino ino, const Node& node) {
    const std::string path = forest_.path(ino);
    promise(is_file_name(node.name()), path, "not a name that can be shown");
    promise(forest_.lookup(directory, node.name()) == ino, path, "listed, but not found");
    promise(forest_.resolve(path) == ino, path, "does not lead back to its node");
    promise(forest_.parent(ino) == directory, path, "has another parent");
    const auto attributes = forest_.attributes(ino);
    if (!attributes) return promise(false, path, attributes.error().message);
    if (attributes->is_directory()) return walk(ino);
    if (node.kind == Kind::link)
      promise(forest_.link(ino).value().size() == attributes->size, path, "a link of another size");
    else
      check_file(ino, node, path, attributes->size);
  }

  void check_file(Ino ino, const Node& node, const std::string& path, uint64_t size) {
    const auto source = forest_.open(ino);
    if (node.kind == Kind::file && !path.starts_with("files/")) {
      if (!source) return promise(false, path, source.error().message);
      return check_text(**source, path);
    }
    if (node.kind != Kind::file) check_xattrs(ino, path);
    const bool refused = node.kind == Kind::tensor && forest_.xattrs(ino)[3].second == "0" && !source;
    if (refused) return promise(!model_->warnings.empty(), path, "refused without a warning");
    if (!source) return promise(false, path, source.error().message);
    promise((*source)->size() == size, path, "its size is not that of its bytes");
    check_ends(**source, path);
    if (node.kind != Kind::npy) return;
    ++views_;
    promise(read_text(**source, 0, 6) == "\x93NUMPY", path, "does not begin as a .npy file");
  }

  void check_xattrs(Ino ino, const std::string& path) {
    for (const auto& [name, value] : forest_.xattrs(ino))
      promise(name.starts_with("user.weightfs."), path, "an attribute out of place");
  }

  void check_ends(const Source& source, const std::string& path) {
    std::array<std::byte, kReadAtEachEnd> buffer;
    const uint64_t size = source.size();
    const auto part = std::span(buffer).first(static_cast<size_t>(std::min<uint64_t>(size, buffer.size())));
    promise(source.read(0, part) == part.size(), path, "cannot be read from its beginning");
    promise(source.read(size - part.size(), part) == part.size(), path, "cannot be read to its end");
  }

  // A text that we rendered, read whole.
  void check_text(const Source& source, const std::string& path) {
    promise(source.size() <= kLongestText, path, source.size(), " bytes are too long a text");
    if (!broken_.empty()) return;
    const auto text = read_text(source, 0, source.size());
    if (!text) return promise(false, path, text.error().message);
    promise(is_utf8(*text), path, "not UTF-8");
    if (!path.ends_with(".json")) return;
    const auto json = parse_json(source, 0, source.size());
    if (!json) return promise(false, path, json.error().message);
  }

  // tensors.json tells of each tensor where it is.
  void check_tensor_index() {
    const auto ino = forest_.resolve("tensors.json");
    if (!ino || !broken_.empty()) return promise(ino.has_value(), "tensors.json", "not there");
    const SourcePtr source = forest_.open(*ino).value();
    const Value index = parse_json(*source, 0, source->size()).value();
    const auto* lines = std::get_if<List>(std::get<Map>(index).find("tensors"));
    if (lines == nullptr || lines->size() != model_->tensors.size())
      return promise(false, "tensors.json", "does not list every tensor");
    for (size_t i = 0; i < std::min<size_t>(lines->size(), kMostNodes); ++i)
      check_line(std::get<Map>((*lines)[i]), model_->tensors[i]);
  }

  void check_line(const Map& line, const Tensor& tensor) {
    const auto& path = std::get<std::string>(*line.find("path"));
    const auto ino = forest_.resolve("tensors/" + path);
    if (!ino) return promise(false, path, "in tensors.json, but nowhere else");
    promise(forest_.attributes(*ino)->size == tensor.nbytes(), path, "another tensor than tensors.json says");
    promise(forest_.xattrs(*ino).front().second == tensor.name, path, "another name than tensors.json says");
    // Where names are cut or clash a view may be elsewhere, but never is another tensor's in its place.
    const auto view = forest_.resolve("npy/" + path + ".npy");
    if (view && !forest_.attributes(*view)->is_directory())
      promise(forest_.xattrs(*view) == forest_.xattrs(*ino), path, "its .npy view shows another tensor");
  }

  void check_views() {
    const auto& tensors = model_->tensors;
    const auto expected = std::count_if(tensors.begin(), tensors.end(), has_npy);
    if (seen_ < kMostNodes)
      promise(views_ == expected, "npy", views_, " .npy views of ", expected, " tensors that have one");
  }

  ModelPtr model_;
  Forest forest_;
  uint64_t seen_ = 0;
  ptrdiff_t views_ = 0;
  std::string broken_;
};

}  // namespace weightfs::test
