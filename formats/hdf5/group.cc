#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/common/limits.h"
#include "formats/hdf5/btree.h"
#include "formats/hdf5/heap.h"
#include "formats/hdf5/object.h"

namespace weightfs::hdf5 {
namespace {

constexpr uint8_t kLinksByName = 5;  // the type of the B-tree of a new group

// The links of one group.
class LinkList {
 public:
  explicit LinkList(Charges& charges) : charges_(charges) {}

  Result<void> add(Link link) {
    TRY_VOID(charges_.charge(Cost::step));
    TRY_VOID(charges_.charge(Cost::kept, 2 * sizeof(Link) + link.name.size() + link.target.size()));
    links_.push_back(std::move(link));
    return {};
  }

  std::vector<Link> take() { return std::move(links_); }

 private:
  Charges& charges_;
  std::vector<Link> links_;
};

// Reads the symbols of an old group.
class SymbolReader {
 public:
  SymbolReader(Metadata& metadata, LocalHeap heap, LinkList& links) : metadata_(metadata), heap_(heap), links_(links) {}

  /// Reads the symbol node at `address`.
  Result<void> node(uint64_t address) {
    const uint64_t entry = 2 * uint64_t{metadata_.sizes().address} + 24;
    const std::string head = TRY(metadata_.block(address, 8));
    if (!head.starts_with("SNOD")) return failure(Code::corrupt, fmt::format("no symbol node at {}", address));
    const uint64_t count = little_endian(std::string_view(head).substr(6, 2));
    const uint64_t most = 2 * uint64_t{metadata_.file().leaf_k};
    if (most > 0 && count > most)
      return failure(Code::corrupt, fmt::format("a symbol node of {} entries, at most {}", count, most));
    const std::string block = TRY(metadata_.block(address, 8 + count * entry, visited_));
    for (uint64_t i = 0; i < count; ++i) TRY_VOID(symbol(std::string_view(block).substr(8 + i * entry, entry)));
    return {};
  }

 private:
  Result<void> symbol(std::string_view entry) {
    constexpr uint64_t kSoftLink = 2;
    Fields fields(entry, metadata_.sizes());
    Link link;
    const uint64_t name = TRY(fields.number(metadata_.sizes().address));
    link.name = TRY(text(name));
    link.address = TRY(fields.address());
    link.kind = TRY(fields.number(4)) == kSoftLink ? LinkKind::soft : LinkKind::hard;
    TRY_VOID(fields.skip(4));
    const uint64_t target = TRY(fields.number(4));
    if (link.kind == LinkKind::soft) link.target = TRY(text(target));
    return links_.add(std::move(link));
  }

  Result<std::string> text(uint64_t offset) {
    if (offset > heap_.end - heap_.begin)
      return failure(Code::corrupt, fmt::format("a name at {} of a heap of {} bytes", offset, heap_.end - heap_.begin));
    return metadata_.text(heap_.begin + offset, heap_.end);
  }

  Metadata& metadata_;
  LocalHeap heap_;
  LinkList& links_;
  Visited visited_;
};

Result<void> read_symbols(Metadata& metadata, const Message& table, LinkList& links) {
  Fields fields(table.data, metadata.sizes());
  const uint64_t tree = TRY(fields.address());
  const uint64_t heap_address = TRY(fields.address());
  const LocalHeap heap = TRY(read_local_heap(metadata, heap_address));
  SymbolReader reader(metadata, heap, links);
  return for_each_child(metadata, tree, TreeType::group, metadata.sizes().length, 2 * metadata.file().internal_k,
                        [&](std::string_view, uint64_t child) { return reader.node(child); });
}

Result<Link> read_link(std::string_view message, Sizes sizes) {
  constexpr uint64_t kHasType = 8, kHasOrder = 4, kHasCharset = 16;
  constexpr uint64_t kHard = 0, kSoft = 1, kExternal = 64;
  Fields fields(message, sizes);
  if (const auto version = TRY(fields.number(1)); version != 1)
    return failure(Code::corrupt, fmt::format("a link of version {}", version));
  const uint64_t flags = TRY(fields.number(1));
  const uint64_t type = (flags & kHasType) != 0 ? TRY(fields.number(1)) : kHard;
  if ((flags & kHasOrder) != 0) TRY_VOID(fields.skip(8));
  if ((flags & kHasCharset) != 0) TRY_VOID(fields.skip(1));
  Link link;
  const uint64_t name = TRY(fields.number(size_t{1} << (flags & 3)));
  link.name = TRY(fields.text(name));
  link.kind = type == kHard       ? LinkKind::hard
              : type == kSoft     ? LinkKind::soft
              : type == kExternal ? LinkKind::external
                                  : LinkKind::other;
  if (type == kHard) {
    link.address = TRY(fields.address());
  } else {
    const uint64_t size = TRY(fields.number(2));
    link.target = TRY(fields.text(size));
  }
  return link;
}

Result<void> read_dense(Metadata& metadata, const Message& info, LinkList& links) {
  constexpr uint64_t kHasOrder = 1, kHash = 4;
  Fields fields(info.data, metadata.sizes());
  if (const auto version = TRY(fields.number(1)); version != 0)
    return failure(Code::corrupt, fmt::format("link info of version {}", version));
  if ((TRY(fields.number(1)) & kHasOrder) != 0) TRY_VOID(fields.skip(8));
  const uint64_t heap_address = TRY(fields.address());
  const uint64_t tree = TRY(fields.address());
  if (heap_address == kUndefined || tree == kUndefined) return {};
  FractalHeap heap = TRY(FractalHeap::open(metadata, heap_address));
  return for_each_record(metadata, tree, kLinksByName, [&](std::string_view record) -> Result<void> {
    if (record.size() < kHash) return failure(Code::corrupt, fmt::format("a record of {} bytes", record.size()));
    const HeapObject object = TRY(heap.object(record.substr(kHash)));
    return links.add(TRY(read_link(object.bytes, metadata.sizes())));
  });
}

// An external link has its version and flags, then two texts.
void name_target(Link& link) {
  if (link.kind != LinkKind::external || link.target.empty()) return;
  std::string text = link.target.substr(1);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  if (const size_t end = text.find('\0'); end != text.npos) text[end] = ':';
  link.target = std::move(text);
}

// Bytes of paths that are compared in one step of the budget.
constexpr uint64_t kBytesOfStep = 64;

Result<void> charge_path(Metadata& metadata, std::string_view path) {
  return metadata.charge(Cost::step, 1 + path.size() / kBytesOfStep);
}

// Goes to the place that a path is relative to: the root, or the group of its link, which ends before `name`.
void leave(std::string& at, size_t name, std::string_view target) { at.resize(target.starts_with('/') ? 0 : name); }

// The library ends a name at a zero byte and divides it at `/`, and finds one of several links of a name.
Result<void> check_names(const std::vector<Link>& links) {
  const auto is_invalid = [](const Link& link) {
    return link.name.empty() || link.name == "." ||
           link.name.find_first_of(std::string_view("/\0", 2)) != link.name.npos;
  };
  if (const auto invalid = std::ranges::find_if(links, is_invalid); invalid != links.end())
    return failure(Code::corrupt, fmt::format("{} is not a valid name of a link", quoted(invalid->name)));
  const auto repeated = std::ranges::adjacent_find(links, {}, &Link::name);
  if (repeated == links.end()) return {};
  return failure(Code::corrupt, fmt::format("two links are called {}: programs differ in which one they follow",
                                            quoted(repeated->name)));
}

}  // namespace

bool is_group(const Object& object) {
  return object.find(MessageType::symbol_table) != nullptr || object.find(MessageType::link_info) != nullptr ||
         object.find(MessageType::link) != nullptr || object.find(MessageType::group_info) != nullptr;
}

Result<std::vector<Link>> read_links(Metadata& metadata, const Object& group, Charges& charges) {
  LinkList list(charges);
  for (const Message& message : group.messages) {
    if (message.type == MessageType::symbol_table) TRY_VOID(read_symbols(metadata, message, list));
    if (message.type == MessageType::link_info) TRY_VOID(read_dense(metadata, message, list));
    if (message.type != MessageType::link) continue;
    Link link = TRY(read_link(message.data, metadata.sizes()));
    TRY_VOID(list.add(std::move(link)));
  }
  std::vector<Link> links = list.take();
  std::ranges::for_each(links, name_target);
  std::ranges::stable_sort(links, {}, &Link::name);
  TRY_VOID(check_names(links));
  return links;
}

Result<std::optional<std::string>> follow_soft_link(Metadata& metadata, const SoftLinks& links, std::string_view path) {
  const auto first = links.find(path);
  if (first == links.end()) return std::string(path);
  std::string at(path);             // of what was followed, without soft links
  std::string left(first->second);  // to be followed from there
  const size_t slash = path.rfind('/');
  leave(at, slash == path.npos ? 0 : slash, left);
  int followed = 1;
  for (size_t next = 0; next < left.size();) {
    const size_t begin = next;
    const size_t end = std::min(left.find('/', begin), left.size());
    next = std::min(end + 1, left.size());
    const std::string name = left.substr(begin, end - begin);
    if (name.empty() || name == ".") continue;
    const size_t group = at.size();
    at += (group == 0 ? "" : "/") + name;
    if (at.size() >= kMaxNameLength) return std::nullopt;
    TRY_VOID(charge_path(metadata, at));
    const auto link = links.find(at);
    if (link == links.end()) continue;
    if (++followed > kMaxSoftLinks) return std::nullopt;
    left = std::string(link->second) + "/" + left.substr(next);
    TRY_VOID(charge_path(metadata, left));
    leave(at, group, left);
    next = 0;
  }
  return at;
}

}  // namespace weightfs::hdf5
