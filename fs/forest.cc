#include "fs/forest.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>

#include "base/blobs.h"
#include "base/text.h"
#include "fs/listing.h"
#include "fs/npy.h"

namespace weightfs {
namespace {

// An inode number holds a node's number + 1 below and its tree's number above: 2^24 trees of 2^40 nodes.
constexpr int kNodeBits = 40;
constexpr uint64_t kNodeMask = (uint64_t{1} << kNodeBits) - 1;

// What was entered stays in memory, and a few kilobytes of containers in containers can hold a lot of it: when so much
// is taken, no more is entered.
uint64_t memory_in_use() { return ::mallinfo2().uordblks + ::mallinfo2().hblkhd; }

uint64_t most_memory() {
  constexpr uint64_t kAlways = uint64_t{1} << 30;
  static const uint64_t all =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::max(kAlways, all / 4);
}

Result<SourcePtr> npy_source(const Model& model, size_t place) {
  const Tensor& tensor = model.tensors[place];
  const auto texts = model.strings.find(place);
  if (texts != model.strings.end()) return string_npy(tensor.shape, TRY(texts->second.get()));
  return concat({in_memory(npy_header(tensor)), std::make_shared<Slice>(tensor.source)});
}

// What a name stands for exists, even if what it is made from has gone: that is an error, not an absence to be
// remembered.
template <class T>
Result<T> present(Result<T> made) {
  if (!made && made.error().code == Code::not_found) made.error().code = Code::io;
  return made;
}

}  // namespace

Forest::Forest(TreePtr root, std::vector<Xattr> root_xattrs) : root_xattrs_(std::move(root_xattrs)) {
  planted_.push_back({std::move(root), 0, kRoot});
}

// It grows from nowhere: it answers to a number of its own.
void Forest::hide(std::string name, TreePtr tree) {
  hidden_ = std::move(name);
  planted_.push_back({std::move(tree), 1, (Ino{1} << kNodeBits) + 1});
}

bool Forest::is_hidden(Ino ino) const { return !hidden_.empty() && ino >> kNodeBits == 1; }

Forest::Place Forest::place(Ino ino) const {
  const std::scoped_lock lock(mutex_);
  return {&planted_[ino >> kNodeBits], static_cast<uint32_t>((ino & kNodeMask) - 1)};
}

// A directory's own place, or the root of the tree that it is, made now if nobody was here before.
Result<Forest::Place> Forest::enter(Ino directory) {
  const Place here = place(directory);
  if (here.node().kind == Kind::directory) return here;
  if (here.node().kind != Kind::tree) return failure(Code::not_found, str(path(directory), ": not a directory"));
  const Later<TreePtr>& grown = here.tree().tree(here.node());
  if (!grown.peek() && memory_in_use() > most_memory())
    return failure(Code::unavailable,
                   str(path(directory), ": so many models are open that there is no memory for more"));
  TreePtr tree = TRY(present(grown.get()));
  const std::scoped_lock lock(mutex_);
  const auto known = grown_from_.find(directory);
  if (known != grown_from_.end()) return Place{known->second, Tree::kRoot};
  planted_.push_back({std::move(tree), static_cast<uint32_t>(planted_.size()), directory});
  grown_from_.emplace(directory, &planted_.back());
  return Place{&planted_.back(), Tree::kRoot};
}

Ino Forest::ino_of(const Planted& planted, uint32_t index) const {
  if (index == Tree::kRoot) return planted.at;
  return (uint64_t{planted.number} << kNodeBits) + index + 1;
}

Result<Ino> Forest::lookup(Ino directory, std::string_view name) {
  if (directory == kRoot && !hidden_.empty() && name == hidden_) return planted_[1].at;
  const Place in = TRY(enter(directory));
  const auto child = in.tree().find(in.index, name);
  if (!child) return failure(Code::not_found, str(quoted(name), " does not exist"));
  return ino_of(*in.planted, *child);
}

Ino Forest::parent(Ino ino) const {
  if (ino == kRoot) return kRoot;
  const Place at = place(ino);
  if (ino == at.planted->at) return kRoot;  // the hidden one: any other is reached by the node that it grew from
  return ino_of(*at.planted, at.node().parent);
}

std::optional<Attributes> Forest::known_attributes(Ino ino) const {
  const Place at = place(ino);
  const Tree& tree = at.tree();
  const Node& node = at.node();
  const auto of_size = [&](uint64_t size) { return Attributes{node.kind, size, 1, tree.modified()}; };
  switch (node.kind) {
    case Kind::directory:
      return Attributes{node.kind, 0, 2 + tree.directories_in(at.index), tree.modified()};
    case Kind::tree:
      return Attributes{node.kind, 0, 1, tree.modified_of_tree(node)};
    case Kind::tensor:
      return of_size(tree.tensor(node).nbytes());
    case Kind::npy:
      if (tree.model()->strings.contains(node.first)) return std::nullopt;
      return of_size(npy_header(tree.tensor(node)).size() + tree.tensor(node).nbytes());
    case Kind::link:
      return of_size(tree.link(node).size());
    case Kind::file:
      if (const auto source = tree.file(node).peek()) return of_size((*source)->size());
      return std::nullopt;
    case Kind::live:
      return std::nullopt;
  }
  return std::nullopt;
}

Result<Attributes> Forest::attributes(Ino ino) const {
  if (const auto known = known_attributes(ino)) return *known;
  const SizeQuery query;
  const SourcePtr source = TRY(open(ino));
  return Attributes{place(ino).node().kind, source->size(), 1, place(ino).tree().modified()};
}

Attributes Forest::unsized_attributes(Ino ino) const {
  const Place at = place(ino);
  return {at.node().kind, 0, 1, at.tree().modified()};
}

Result<Forest::Listing> Forest::list(Ino directory) {
  const Place at = TRY(enter(directory));
  const Node& node = at.node();
  return Listing{&at.tree(), node.first, node.count, ino_of(*at.planted, node.first)};
}

Result<SourcePtr> Forest::open(Ino ino) const {
  const Place at = place(ino);
  const Node& node = at.node();
  switch (node.kind) {
    case Kind::file:
      return present(at.tree().file(node).get());
    case Kind::live:
      return at.tree().live(node)();
    case Kind::npy:
      return present(npy_source(*at.tree().model(), node.first));
    case Kind::tensor: {
      const Tensor& tensor = at.tree().tensor(node);
      if (tensor.source.refused())
        return failure(Code::corrupt, str("tensor ", quoted(tensor.name), " was refused: see warnings.txt"));
      return std::make_shared<Slice>(tensor.source);
    }
    case Kind::directory:
    case Kind::tree:
    case Kind::link:
      break;
  }
  return failure(Code::io, "not a file");
}

Result<std::string> Forest::link(Ino ino) const {
  const Place at = place(ino);
  if (at.node().kind != Kind::link) return failure(Code::io, "not a symbolic link");
  return at.tree().link(at.node());
}

std::vector<Xattr> Forest::xattrs(Ino ino) const {
  if (ino == kRoot) return root_xattrs_;
  const Place at = place(ino);
  if (at.node().kind != Kind::tensor && at.node().kind != Kind::npy) return {};
  const Model& model = *at.tree().model();
  const Tensor& tensor = at.tree().tensor(at.node());
  std::vector<Xattr> xattrs = {{"user.weightfs.name", tensor.name},
                               {"user.weightfs.dtype", std::string(dtype_text(tensor))},
                               {"user.weightfs.shape", shape_text(tensor.shape)},
                               {"user.weightfs.nbytes", std::to_string(tensor.nbytes())},
                               {"user.weightfs.format", model.format}};
  const auto digest = model.digests.find(at.node().first);
  if (digest != model.digests.end()) xattrs.emplace_back("user.weightfs.sha256", digest->second.hex());
  return xattrs;
}

Result<Ino> Forest::resolve(std::string_view path, Last last) {
  constexpr int kMostLinks = 40;  // as Linux
  std::string left(path);
  int links = 0;
  Ino ino = kRoot;
  while (!left.empty()) {
    const size_t end = std::min(left.find('/'), left.size());
    const std::string name = left.substr(0, end);
    left.erase(0, end + 1);
    if (name.empty() || name == ".") continue;
    const Ino found = name == ".." ? parent(ino) : TRY(lookup(ino, name));
    const bool is_last = left.find_first_not_of('/') == left.npos;
    if (place(found).node().kind != Kind::link || (is_last && last == Last::kept)) {
      ino = found;
      continue;
    }
    if (++links > kMostLinks) return failure(Code::io, str(quoted(name), ": links that lead in a circle"));
    left = str(TRY(link(found)), "/", left);  // it leads on from the directory that it lies in
  }
  return ino;
}

std::string Forest::path(Ino ino) const {
  const Place at = place(ino);
  const std::string within = at.tree().path(at.index);
  if (at.planted->number == 0) return within;
  if (ino == at.planted->at || place(at.planted->at).planted == at.planted)
    return str(hidden_, within.empty() ? "" : "/", within);
  return str(path(at.planted->at), within.empty() ? "" : "/", within);
}

ModelPtr Forest::model_of(Ino ino) const {
  const Place at = place(ino);
  return at.tree().model();
}

uint64_t Forest::container_bytes() const {
  const std::scoped_lock lock(mutex_);
  return planted_.front().tree->container_bytes();
}

uint64_t Forest::node_count() const {
  const std::scoped_lock lock(mutex_);
  uint64_t sum = 0;
  for (const Planted& planted : planted_) sum += planted.tree->size();
  return sum;
}

}  // namespace weightfs
