#include "fs/tree/forest.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/blobs.h"
#include "base/text.h"
#include "fs/tree/listing.h"
#include "fs/views/view.h"

namespace weightfs {
namespace {

// A listed file exists, even if its container has been deleted since. The error must not be not_found, because the
// kernel would cache that the name does not exist.
template <class T>
Result<T> absent_is_io(Result<T> made) {
  if (!made && made.error().code == Code::not_found) made.error().code = Code::io;
  return made;
}

void add_verification(std::vector<Xattr>& xattrs, const Source& source) {
  const std::string_view verification = to_text(source.verification());
  if (!verification.empty()) xattrs.emplace_back("user.weightfs.verified", verification);
}

}  // namespace

Forest::Forest(TreePtr root, std::vector<Xattr> root_xattrs, ModelLimits limits)
    : trees_(std::move(limits)), root_xattrs_(std::move(root_xattrs)), container_bytes_(root->container_bytes()) {
  trees_.add(std::move(root));
}

void Forest::add_unlisted(std::string name, TreePtr tree) {
  unlisted_ = std::move(name);
  const uint32_t nodes = tree->size();
  unlisted_has_trees_ = tree->tree_count() > 0;
  unlisted_root_ = trees_.add(std::move(tree));
  unlisted_end_ = unlisted_root_ + nodes;
}

bool Forest::is_unlisted(Ino ino) const {
  const Ino added = unlisted_has_trees_ ? trees_.in_added(ino) : ino;
  return added >= unlisted_root_ && added < unlisted_end_;
}

bool Forest::is_dynamic(Ino ino) const {
  const auto at = trees_.find_loaded(ino);  // trees with dynamic files are never dropped
  return at && at->node().kind == NodeKind::dynamic;
}

Result<Ino> Forest::lookup(Ino directory, std::string_view name) {
  if (directory == kRoot && !unlisted_.empty() && name == unlisted_) return unlisted_root_;
  const NodeHandle in = TRY(trees_.enter(directory));
  const auto child = in.tree().find(in.index, name);
  if (!child) return failure(Code::not_found, fmt::format("{} does not exist", quoted(name)));
  return in.ino_of(*child);
}

Result<Ino> Forest::parent(Ino ino) const {
  if (ino == kRoot || ino == unlisted_root_) return kRoot;
  const NodeHandle at = TRY(trees_.load(ino));
  return at.ino_of(at.tree().parent(at.index));
}

std::optional<Attributes> Forest::known_attributes(Ino ino) const {
  const auto at = trees_.find_loaded(ino);
  if (!at) return std::nullopt;
  const Tree& tree = at->tree();
  const Node node = at->node();
  const auto of_size = [&](uint64_t size) { return Attributes{node.kind, size, 1, tree.modified()}; };
  switch (node.kind) {
    case NodeKind::directory:
      return Attributes{node.kind, 0, 2 + tree.directories_in(at->index), tree.modified()};
    case NodeKind::tree:
      return Attributes{node.kind, 0, 1, tree.modified_of_tree(node)};
    case NodeKind::tensor: {
      const auto size = tree.view().size(*tree.model(), node.first);
      return size ? std::optional(of_size(*size)) : std::nullopt;
    }
    case NodeKind::link:
      return of_size(tree.link(node).size());
    case NodeKind::file:
      if (const auto source = tree.known_file(node)) return of_size((*source)->size());
      return std::nullopt;
    case NodeKind::dynamic:
      return std::nullopt;
  }
  return std::nullopt;
}

Result<Attributes> Forest::attributes(Ino ino) const {
  const NodeHandle at = TRY(trees_.load(ino));  // keeps the tree in memory
  if (const auto known = known_attributes(ino)) return *known;
  const SourcePtr source = TRY(open(ino));
  return Attributes{at.node().kind, source->size(), 1, at.tree().modified()};
}

Result<Attributes> Forest::unsized_attributes(Ino ino) const {
  const NodeHandle at = TRY(trees_.load(ino));
  return Attributes{at.node().kind, 0, 1, at.tree().modified()};
}

Result<Forest::Listing> Forest::list(Ino directory) {
  const NodeHandle at = TRY(trees_.enter(directory));
  const Node node = at.node();
  const Ino first = node.count == 0 ? 0 : at.ino_of(node.first);
  return Listing{at.tree_ptr, node.first, node.count, first, at.numbers};
}

Result<Forest::Held> Forest::hold(Ino directory) {
  NodeHandle at = TRY(trees_.enter(directory));
  return Held{std::move(at.tree_ptr), std::move(at.in_use)};
}

Result<SourcePtr> Forest::open(Ino ino) const {
  const NodeHandle at = TRY(trees_.load(ino));
  auto source = open(at);
  if (!source && trees_.free_descriptors()) source = open(at);
  return source;
}

Result<SourcePtr> Forest::open(const NodeHandle& at) const {
  const Node node = at.node();
  switch (node.kind) {
    case NodeKind::file:
      return absent_is_io(at.tree().file(node));
    case NodeKind::dynamic:
      return at.tree().dynamic_file(node)();
    case NodeKind::tensor:
      return absent_is_io(at.tree().view().open(*at.tree().model(), node.first));
    case NodeKind::directory:
    case NodeKind::tree:
    case NodeKind::link:
      break;
  }
  return failure(Code::io, "not a file");
}

Result<std::string> Forest::link(Ino ino) const {
  const NodeHandle at = TRY(trees_.load(ino));
  if (at.node().kind != NodeKind::link) return failure(Code::io, "not a symbolic link");
  return at.tree().link(at.node());
}

Result<std::vector<Xattr>> Forest::xattrs(Ino ino) const {
  if (ino == kRoot) return root_xattrs_;
  const NodeHandle at = TRY(trees_.load(ino));
  if (at.node().kind != NodeKind::tensor) return xattrs_of_file(at);
  const Model& model = *at.tree().model();
  const TensorView& tensor = at.tree().tensor(at.node());
  std::vector<Xattr> xattrs = {{"user.weightfs.name", std::string(tensor.name)},
                               {"user.weightfs.dtype", std::string(dtype_text(tensor))},
                               {"user.weightfs.shape", shape_text(tensor.shape)},
                               {"user.weightfs.nbytes", std::to_string(tensor.nbytes())},
                               {"user.weightfs.format", model.format}};
  const auto digest = model.per_tensor->digests.find(at.node().first);
  if (digest != model.per_tensor->digests.end()) xattrs.emplace_back("user.weightfs.sha256", digest->second.hex());
  add_verification(xattrs, tensor.source);
  return xattrs;
}

std::optional<Digest> Forest::digest(Ino ino, const SourcePtr& source) const {
  const auto at = trees_.find_loaded(ino);
  if (!at || at->tree().model() == nullptr) return std::nullopt;
  const Model& model = *at->tree().model();
  if (at->node().kind == NodeKind::tensor) {
    if (&at->tree().view() != &views::kTensorsView) return std::nullopt;
    const auto digest = model.per_tensor->digests.find(at->node().first);
    return digest == model.per_tensor->digests.end() ? std::nullopt : std::optional(digest->second);
  }
  for (const Part& part : model.parts)
    if (const auto* const digest = part.checksums.get<Digest>(); digest != nullptr && part.source.peek() == source)
      return *digest;
  return std::nullopt;
}

std::vector<Xattr> Forest::xattrs_of_file(const NodeHandle& at) {
  std::vector<Xattr> xattrs;
  if (at.node().kind != NodeKind::file) return xattrs;
  if (const auto source = at.tree().known_file(at.node())) add_verification(xattrs, **source);
  return xattrs;
}

Result<Ino> Forest::resolve(std::string_view path, FinalLink final_link) {
  constexpr int kMaxLinks = 40;  // MAXSYMLINKS of Linux
  std::string left(path);
  int links = 0;
  Ino ino = kRoot;
  while (!left.empty()) {
    const size_t end = std::min(left.find('/'), left.size());
    const std::string name = left.substr(0, end);
    left.erase(0, end + 1);
    if (name.empty() || name == ".") continue;
    const Ino found = name == ".." ? TRY(parent(ino)) : TRY(lookup(ino, name));
    const bool is_last = left.find_first_not_of('/') == left.npos;
    if (TRY(trees_.load(found)).node().kind != NodeKind::link || (is_last && final_link == FinalLink::kept)) {
      ino = found;
      continue;
    }
    if (++links > kMaxLinks)
      return failure(Code::io, fmt::format("{}: too many levels of symbolic links", quoted(name)));
    left = fmt::format("{}/{}", TRY(link(found)), left);  // the target is relative to the link's directory
  }
  return ino;
}

std::string Forest::path(Ino ino) const {
  const std::string path = trees_.path(ino);
  return is_unlisted(ino) ? fmt::format("{}{}{}", unlisted_, path.empty() ? "" : "/", path) : path;
}

std::optional<Forest::TensorRef> Forest::tensor_of(Ino ino) const {
  const auto at = trees_.find_loaded(ino);
  if (!at || at->node().kind != NodeKind::tensor) return std::nullopt;
  return TensorRef{at->tree().model(), at->node().first};
}

ModelPtr Forest::model_of(Ino ino) const {
  const auto at = trees_.load(ino);
  return at ? at->tree().model() : nullptr;
}

Changes Forest::update(Ino directory, const TreePtr& before, const TreePtr& tree) {
  Changes changes = trees_.update(directory, before, tree);
  if (directory == kRoot && trees_.tree_at(kRoot) == tree) container_bytes_ = tree->container_bytes();
  return changes;
}

Changes Forest::replace_root(TreePtr tree) {
  container_bytes_ = tree->container_bytes();
  return trees_.replace_root(std::move(tree));
}

uint64_t Forest::container_bytes() const { return container_bytes_; }

uint64_t Forest::node_count() const { return trees_.node_count(); }

}  // namespace weightfs
