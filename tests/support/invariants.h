// The invariants of every mounted model, whatever its format. They are checked as the kernel would access the tree,
// from the root to the last byte. Shared by the fuzz target, its replay and the contract suite.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/text.h"
#include "base/values/json.h"
#include "formats/format.h"
#include "fs/layout/layout.h"
#include "fs/tree/forest.h"
#include "fs/tree/listing.h"
#include "fs/views/npy.h"
#include "tests/support/one_line.h"
#include "tests/support/small_disk.h"

namespace weightfs::test {

/// Walks the whole tree of a model and of its nested containers, and keeps the first violation. Of large files it reads
/// the ends, of many nodes the first, so that its time is bounded.
class ModelInvariants {
 public:
  explicit ModelInvariants(ModelPtr model) : forest_(lay_out(std::move(model), "a model", 0)) {}

  /// The first violation; "" if there is none.
  std::string violation() {
    check_mount(Forest::kRoot, 0, Bytes::plain);
    return violation_;
  }

 private:
  static constexpr uint64_t kMaxNodes = 2000;
  static constexpr size_t kReadAtEachEnd = 4096;
  static constexpr uint64_t kMaxText = 64 << 20;
  static constexpr uint64_t kMaxModelFile = 1 << 20;

  // Bytes of an archive, chunks of HDF5 and values of old checkpoints are verified only after decoding: reading may
  // fail because of their content.
  enum class Bytes { plain, unpacked };

  // One model's tree: the container's, or that of a container in it.
  struct Mount {
    ModelPtr model;
    std::string at;  // its path; if not empty, with a `/` at the end
    int depth;       // the number of containers around it
    Bytes bytes;
    ptrdiff_t views = 0;
  };

  // `subject`: the path or name. The message is built only for a violation.
  template <class... Values>
  void require(bool holds, std::string_view subject, fmt::format_string<Values...> format, Values&&... values) {
    if (!holds && violation_.empty())
      violation_ = fmt::format("{}: {}", quoted(subject), fmt::format(format, std::forward<Values>(values)...));
  }

  void check_mount(Ino root, int depth, Bytes bytes) {
    const std::string path = forest_.path(root);
    require(depth <= kMaxNestingDepth, path, "is nested in {} containers, the limit is {}", depth, kMaxNestingDepth);
    const auto metadata = forest_.lookup(root, "metadata.json");
    if (!metadata) return require(false, path, "has no metadata.json");
    const ModelPtr outline = forest_.model_of(*metadata);
    const auto whole = outline->complete_model ? outline->complete_model->get() : outline;
    const ModelPtr model = whole.value_or(outline);
    const bool has_old_checkpoint = model->format == "tensorflow-savedmodel" ||
                                    (model->format == "tensorflow-checkpoint" && model->version == "V1");
    const bool decoded = model->nested != nullptr || model->stored_bytes || model->format == "hdf5" ||
                         model->format.starts_with("keras") || has_old_checkpoint;
    Mount mount{model, path.empty() ? "" : path + "/", depth, decoded ? Bytes::unpacked : bytes};
    if (!whole) return check_outline(mount, root, whole.error());
    for (const TensorView& tensor : model->tensors) check_tensor(tensor);
    walk(mount, root);
    check_tensor_index(mount);
    check_views(mount);
    for (const std::string& warning : model->warnings)
      require(is_one_line(warning), warning, "a warning that is not one line");
  }

  // An incomplete model cannot be completed here, because nothing is fetched; it has its files.
  void check_outline(Mount& mount, Ino root, const Error& error) {
    const auto files = forest_.lookup(root, "files");
    require(error.code == Code::network && is_one_line(error.message), mount.at, "{}", error.message);
    require(files.has_value(), mount.at, "has no files");
    if (files) walk(mount, *files);
  }

  // Errors of invalid bytes. For bytes of an archive also exhausted space.
  static bool is_refusal(const Error& error) {
    const bool by_content =
        error.code == Code::corrupt || error.code == Code::unsupported || error.code == Code::mismatch;
    return is_one_line(error.message) && (by_content || SmallDisk::refused(error));
  }

  void check_tensor(const TensorView& tensor) {
    require(tensor.dtype != nullptr, tensor.name, "no dtype");
    if (tensor.source.refused() || tensor.dtype == nullptr) return;
    const uint64_t whole = tensor.source.whole()->size();
    require(tensor.source.offset() <= whole && tensor.nbytes() <= whole - tensor.source.offset(), tensor.name,
            "reaches out of its container");
    // The size of strings does not follow from the shape.
    if (tensor.dtype == &kUnknownDType || tensor.dtype->block_bytes == 0) return;
    require(size_in_bytes(*tensor.dtype, tensor.shape) == tensor.nbytes(), tensor.name,
            "{} bytes are not what its shape takes", tensor.nbytes());
  }

  void walk(Mount& mount, Ino directory) {
    const std::string path = forest_.path(directory);
    const auto all = forest_.list(directory);
    if (!all) return require(false, path, "{}", all.error().message);
    for (uint32_t i = 0; i < all->count && seen_ < kMaxNodes; ++i, ++seen_) {
      const Node node = all->tree->node(all->first + i);
      const bool sorted = i == 0 || all->tree->node(all->first + i - 1).text < node.text;
      require(sorted, path, "names stand twice or in disorder");
      check_node(mount, directory, all->ino + i, node);
    }
  }

  void check_node(Mount& mount, Ino directory, Ino ino, const Node& node) {
    const std::string path = forest_.path(ino);
    require(is_file_name(node.name()), path, "not a name that can be shown");
    require(forest_.lookup(directory, node.name()) == ino, path, "listed, but not found");
    require(forest_.resolve(path) == ino, path, "does not lead back to its node");
    require(forest_.parent(ino) == directory, path, "has another parent");
    if (node.kind == NodeKind::tree && path.starts_with(mount.at + "nested/")) return enter(mount, ino, path);
    const auto attributes = forest_.attributes(ino);
    if (!attributes) return check_unreadable(mount, node, path, attributes.error());
    if (attributes->is_directory()) return walk(mount, ino);
    if (node.kind == NodeKind::link)
      check_link(mount, path, forest_.link(ino).value(), attributes->size);
    else
      check_file(mount, ino, node, path, attributes->size);
  }

  // A nested container. If it is unreadable, there is a message; not_found has become absent, and nothing is fetched.
  void enter(const Mount& mount, Ino ino, const std::string& path) {
    const auto inner = forest_.list(ino);
    if (inner) return check_mount(ino, mount.depth + 1, Bytes::unpacked);
    const bool is_missing = inner.error().code == Code::absent || inner.error().code == Code::network;
    require(is_refusal(inner.error()) || is_missing, path, "{}", inner.error().message);
    require(is_one_line(inner.error().message), path, "an error in disorder");
  }

  static bool is_npy(const Mount& mount, const Node& node, const std::string& path) {
    return node.kind == NodeKind::tensor &&
           (path.starts_with(mount.at + "npy/") || path.starts_with(mount.at + "float32/"));
  }

  // A file whose size is known only after reading: behind a link of a carton, or a string array.
  void check_unreadable(Mount& mount, const Node& node, const std::string& path, const Error& error) {
    const bool texts = is_npy(mount, node, path) && mount.model->per_tensor->strings.contains(node.first);
    const bool member = node.kind == NodeKind::file && path.starts_with(mount.at + "files/");
    const bool linked = member && error.code == Code::network;  // and here nothing is fetched
    require(linked || ((texts || (member && mount.bytes == Bytes::unpacked)) && is_refusal(error)), path, "{}",
            error.message);
    if (texts) ++mount.views;
  }

  // A link stays in files/ regardless of other links on its path: `..` is only at its beginning.
  void check_link(const Mount& mount, const std::string& path, std::string_view target, uint64_t size) {
    const std::string files = mount.at + "files/";
    require(path.starts_with(files), path, "a link beside the files");
    require(target.size() == size && size > 0, path, "a link of another size");
    require(!target.starts_with('/') && target.find('\0') == target.npos, path, "a link to {}", quoted(target));
    auto above =
        std::count(path.begin() + static_cast<ptrdiff_t>(std::min(files.size(), path.size())), path.end(), '/');
    bool down = false;
    for (size_t begin = 0, end = 0; begin <= target.size(); begin = end + 1) {
      end = std::min(target.find('/', begin), target.size());
      const std::string_view component = target.substr(begin, end - begin);
      if (component == "..")
        require(!down && --above >= 0, path, "a link that leads out, to {}", quoted(target));
      else if (!component.empty() && component != ".")
        down = true;
    }
  }

  void check_file(Mount& mount, Ino ino, const Node& node, const std::string& path, uint64_t size) {
    const auto source = forest_.open(ino);
    const bool of_another_format =
        path.starts_with(mount.at + "views/") && !path.ends_with(".json") && !path.ends_with("/warnings.txt");
    if (of_another_format && source) return check_model_file(mount, *source, path);
    if (node.kind == NodeKind::file && !path.starts_with(mount.at + "files/")) {
      if (!source) return require(false, path, "{}", source.error().message);
      return check_text(**source, path);
    }
    if (node.kind != NodeKind::file) check_xattrs(mount, ino, node, path);
    const bool refused = node.kind == NodeKind::tensor && !is_npy(mount, node, path) &&
                         forest_.xattrs(ino).value()[3].second == "0" && !source;
    if (refused) return require(!mount.model->warnings.empty(), path, "refused without a warning");
    if (!source) return require(false, path, "{}", source.error().message);
    require((*source)->size() == size, path, "its size is not that of its bytes");
    check_ends(mount, **source, path);
    if (!is_npy(mount, node, path)) return;
    ++mount.views;
    const auto magic = read_text(**source, 0, 6);
    const bool undecodable = !magic && mount.bytes == Bytes::unpacked && is_refusal(magic.error());
    require(undecodable || magic == "\x93NUMPY", path, "does not begin as a .npy file");
  }

  // A file of views/ is valid in its format.
  void check_model_file(const Mount& mount, const SourcePtr& source, const std::string& path) {
    check_ends(mount, *source, path);
    if (source->size() > kMaxModelFile || !violation_.empty()) return;
    auto bytes = read_text(*source, 0, source->size());
    if (!bytes)
      return require(bytes.error().code == Code::network || is_refusal(bytes.error()), path, "{}",
                     bytes.error().message);
    const std::string format = path.substr(path.rfind('.') + 1);
    const SourcePtr copy = in_memory(std::move(*bytes));
    const auto model = read_model({.name = path, .bytes = copy}, format_named(format));
    if (!model) return require(false, path, "{}", model.error().message);
    // A GGUF has the metadata of the container, with what is strange in it.
    if (format == "safetensors") require(model->warnings.empty(), path, "has warnings");
    for (const TensorView& tensor : model->tensors) require(!tensor.source.refused(), path, "a tensor is refused");
  }

  void check_xattrs(const Mount& mount, Ino ino, const Node& node, const std::string& path) {
    const auto xattrs = forest_.xattrs(ino).value();
    for (const auto& [name, value] : xattrs) {
      require(name.starts_with("user.weightfs."), path, "an attribute out of place");
      if (name != "user.weightfs.sha256") continue;
      const auto digest = mount.model->per_tensor->digests.find(node.first);
      require(digest != mount.model->per_tensor->digests.end() && digest_of_hex(value) == digest->second, path,
              "the digest of another tensor");
    }
  }

  void check_ends(const Mount& mount, const Source& source, const std::string& path) {
    std::array<std::byte, kReadAtEachEnd> buffer;
    const uint64_t size = source.size();
    const auto part = std::span(buffer).first(static_cast<size_t>(std::min<uint64_t>(size, buffer.size())));
    for (const uint64_t offset : {uint64_t{0}, size - part.size()}) {
      const auto got = source.read(offset, part);
      if (got)
        require(got == part.size(), path, "cannot be read at byte {}", offset);
      else
        require(got.error().code == Code::network || (mount.bytes == Bytes::unpacked && is_refusal(got.error())), path,
                "{}", got.error().message);
    }
  }

  // A text that we rendered, read whole.
  void check_text(const Source& source, const std::string& path) {
    require(source.size() <= kMaxText, path, "{} bytes are too long a text", source.size());
    if (!violation_.empty()) return;
    const auto text = read_text(source, 0, source.size());
    if (!text) return require(false, path, "{}", text.error().message);
    require(is_utf8(*text), path, "not UTF-8");
    if (!path.ends_with(".json")) return;
    // Values nested kMaxDepth deep in a container are some levels deeper in the document.
    const auto json = parse_json(source, 0, source.size());
    const bool is_deep = !json && json.error().message.starts_with("JSON nested deeper");
    if (!json && !is_deep) return require(false, path, "{}", json.error().message);
  }

  // tensors.json has the storage of each tensor.
  void check_tensor_index(const Mount& mount) {
    const auto ino = forest_.resolve(mount.at + "tensors.json");
    if (!ino || !violation_.empty()) return require(ino.has_value(), mount.at, "no tensors.json");
    const SourcePtr source = forest_.open(*ino).value();
    const Value index = parse_json(*source, 0, source->size()).value();
    const auto* lines = std::get_if<List>(std::get<Map>(index).find("tensors"));
    const auto& tensors = mount.model->tensors;
    if (lines == nullptr || lines->size() != tensors.size())
      return require(false, mount.at, "tensors.json does not list every tensor");
    for (size_t i = 0; i < std::min<size_t>(lines->size(), kMaxNodes); ++i)
      check_line(mount, std::get<Map>((*lines)[i]), tensors[i]);
  }

  void check_line(const Mount& mount, const Map& line, const TensorView& tensor) {
    const auto& path = std::get<std::string>(*line.find("path"));
    const auto ino = forest_.resolve(fmt::format("{}tensors/{}", mount.at, path));
    if (!ino) return require(false, path, "in tensors.json, but nowhere else");
    require(forest_.attributes(*ino)->size == tensor.nbytes(), path, "another tensor than tensors.json says");
    require(forest_.xattrs(*ino).value().front().second == tensor.name, path, "another name than tensors.json says");
    if (const Value* storage = line.find("storage")) check_storage(mount, std::get<Map>(*storage), tensor);
    // Where names are cut or clash a view may be elsewhere, but never is another tensor's in its place.
    const auto view = forest_.resolve(fmt::format("{}npy/{}.npy", mount.at, path));
    const auto known = view ? forest_.known_attributes(*view) : std::nullopt;
    if (!view || (known && known->is_directory())) return;
    require(forest_.xattrs(*view).value() == forest_.xattrs(*ino).value(), path, "its .npy view shows another tensor");
  }

  // The storage file of a tensor exists and is long enough.
  void check_storage(const Mount& mount, const Map& storage, const TensorView& tensor) {
    const auto file =
        forest_.resolve(fmt::format("{}files/{}", mount.at, std::get<std::string>(*storage.find("file"))));
    if (!file) return require(false, tensor.name, "its file is nowhere");
    const auto attributes = forest_.attributes(*file);
    require(attributes && tensor.source.offset() <= attributes->size &&
                tensor.nbytes() <= attributes->size - tensor.source.offset(),
            tensor.name, "its file is too short");
  }

  void check_views(const Mount& mount) {
    ptrdiff_t expected = 0;
    for (size_t i = 0; i < mount.model->tensors.size(); ++i) {
      if (views::has_npy(mount.model->tensors[i]) || views::has_string_npy(*mount.model, i) ||
          mount.model->per_tensor->npy_files.contains(i))
        ++expected;
      if (views::has_float32_npy(mount.model->tensors[i])) ++expected;
    }
    if (seen_ < kMaxNodes)
      require(mount.views == expected, mount.at + "npy", "{} .npy files, {} expected", mount.views, expected);
  }

  Forest forest_;
  uint64_t seen_ = 0;
  std::string violation_;
};

}  // namespace weightfs::test
