#include "serve/s3/buckets.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/cancel.h"
#include "base/text.h"
#include "formats/format.h"
#include "serve/hub/names.h"

namespace weightfs::objects {
namespace {

constexpr size_t kMinPart = 3;
constexpr size_t kMaxPart = 63;
constexpr size_t kMaxBucketName = 255;  // that clients accept (botocore, handlers.py)
constexpr int kMaxDepth = 16;           // of directories of models
constexpr std::chrono::seconds kPatience{5};

bool is_entered(const Node& node) { return node.kind == NodeKind::directory || node.kind == NodeKind::tree; }

struct NamedEntry {
  std::string part;
  uint32_t index;  // in the listing
};

// The directories of a listing with different parts.
std::vector<NamedEntry> named_entries(const Forest::Listing& all) {
  std::vector<NamedEntry> entries;
  std::unordered_set<std::string> used;
  std::unordered_map<std::string, unsigned> count;  // of entries with this part so far
  for (uint32_t i = 0; i < all.count; ++i) {
    const Node node = all.tree->node(all.first + i);
    if (!is_entered(node)) continue;
    const std::string natural = bucket_part(node.name());
    unsigned& number = count[natural];
    std::string part = ++number == 1 ? natural : fmt::format("{}-{}", natural, number);
    while (!used.insert(part).second) part = fmt::format("{}-{}", natural, ++number);
    entries.push_back({std::move(part), i});
  }
  return entries;
}

// The bucket of the model that is the root.
std::string name_of_root(const Tree& tree) { return bucket_part(hub::name_of_source(tree.source())); }

}  // namespace

std::string bucket_part(std::string_view name) {
  std::string out;
  for (const char c : lower_case(name)) {
    const bool is_kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (is_kept)
      out += c;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  out.resize(std::min(out.size(), kMaxPart));
  while (out.ends_with('-')) out.pop_back();
  if (out.size() < kMinPart) out += out.empty() ? "model" : "-model";
  return out;
}

Result<void> Buckets::add(Ino directory, const std::string& above, int depth, std::vector<Bucket>& out) {
  const Forest::Listing all = TRY(forest_.list(directory));
  for (const NamedEntry& entry : named_entries(all)) {
    if (out.size() >= kMaxBuckets) return {};
    const Node node = all.tree->node(all.first + entry.index);
    const std::string name = above + entry.part;
    bool is_model = node.kind == NodeKind::tree;
    if (is_model && !is_named_as_model(node.name()) && !is_cancelled()) {
      const auto entered = forest_.list(all.ino_of(entry.index));
      is_model = !entered || entered->tree->model() != nullptr;
    }
    if (!is_model && depth > 0)
      TRY_VOID(add(all.ino_of(entry.index), name + ".", depth - 1, out));
    else if (is_model && name.size() <= kMaxBucketName)
      out.push_back({name, all.tree->modified_of_tree(node)});
  }
  return {};
}

Result<std::vector<Bucket>> Buckets::list() {
  const Forest::Listing root = TRY(forest_.list(Forest::kRoot));
  std::vector<Bucket> out;
  if (root.tree->model() != nullptr) {
    out.push_back({name_of_root(*root.tree), root.tree->modified()});
    return out;
  }
  const auto end = std::chrono::steady_clock::now() + kPatience;
  const CancelScope scope([end] { return std::chrono::steady_clock::now() > end; });
  TRY_VOID(add(Forest::kRoot, "", kMaxDepth, out));
  return out;
}

Result<std::optional<hub::FoundModel>> Buckets::find(std::string_view name) {
  const Forest::Listing root = TRY(forest_.list(Forest::kRoot));
  if (root.tree->model() != nullptr)
    return name == name_of_root(*root.tree) ? std::optional(hub::FoundModel{"", root.tree}) : std::nullopt;
  Ino directory = Forest::kRoot;
  std::string place;
  for (int depth = 0; depth <= kMaxDepth; ++depth) {
    const std::string_view part = name.substr(0, name.find('.'));
    const bool is_last = part.size() == name.size();
    name.remove_prefix(is_last ? name.size() : part.size() + 1);
    const Forest::Listing all = TRY(forest_.list(directory));
    const auto entries = named_entries(all);
    const auto found = std::ranges::find(entries, part, &NamedEntry::part);
    if (found == entries.end()) return std::nullopt;
    const Node node = all.tree->node(all.first + found->index);
    place += node.name() + "/";
    directory = all.ino_of(found->index);
    const Forest::Held entered = TRY(forest_.hold(directory));
    const bool is_model = node.kind == NodeKind::tree && entered.tree->model() != nullptr;
    if (is_model && is_last) return hub::FoundModel{place, entered.tree, entered.in_use};
    if (is_model || is_last) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace weightfs::objects
