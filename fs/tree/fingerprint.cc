#include "fs/tree/fingerprint.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

namespace weightfs {
namespace {

uint64_t mixed(uint64_t hash, uint64_t value) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  hash = (hash ^ value) * kMultiplier;
  return hash ^ hash >> 32;
}

// For a source that is a file or a slice of one (see File::identity() and Slice::identity()).
void add_identity(FileIdentities& files, const Source& source) {
  const std::string identity = source.identity();
  if (!identity.starts_with("file ")) return;
  const std::string_view file = std::string_view(identity).substr(0, identity.find(" ["));
  const uint64_t hash = std::hash<std::string_view>()(file);
  if (files.empty() || files.back() != hash) files.push_back(hash);
}

}  // namespace

uint64_t fingerprint_of(const Tree& tree) {
  uint64_t hash = tree.size();
  for (uint32_t i = 0; i < tree.size(); ++i) {
    const Node node = tree.node(i);
    hash = mixed(hash, std::hash<std::string>()(node.name()));
    hash = mixed(hash, uint64_t{tree.parent(i)} << 8 | static_cast<uint64_t>(node.kind));
    hash = mixed(hash, uint64_t{node.first} << 32 | node.count);
    if (node.kind == NodeKind::tensor) hash = mixed(hash, tree.tensor(node).nbytes());
  }
  return hash;
}

FileIdentities file_identities(const Model& model) {
  constexpr size_t kMaxParts = 1'000;  // their files are opened; the members of an archive are one
  FileIdentities files;
  const Source* previous = nullptr;
  for (const TensorView& tensor : model.tensors) {
    const Source* const whole = tensor.source.whole().get();
    if (whole != nullptr && whole != previous) add_identity(files, *whole);
    previous = whole;
  }
  for (size_t i = 0; i < std::min(model.parts.size(), kMaxParts); ++i)
    if (const auto source = model.parts[i].source.peek()) add_identity(files, **source);
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

bool may_be_same(const FileIdentities& a, const FileIdentities& b) {
  return std::includes(a.begin(), a.end(), b.begin(), b.end()) || std::includes(b.begin(), b.end(), a.begin(), a.end());
}

}  // namespace weightfs
