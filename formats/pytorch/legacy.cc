// Checkpoints of torch before 1.6: pickles of a magic number, a version, facts about the writer, the object and the
// keys of its storages; then the storages in the order of the keys, each with its number of elements in front.
// Reference: _legacy_save and _legacy_load in torch/serialization.py.
#include <fmt/core.h>

#include <map>

#include "base/text.h"
#include "formats/format.h"
#include "formats/pytorch/contents.h"

namespace weightfs::pytorch {
namespace {

// The magic number as a pickle has it: LONG1 of ten bytes, or in protocol 0 and 1 a line of digits.
constexpr std::string_view kMagic("\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19", 12);
constexpr std::string_view kMagicLine = "L119547037146038801333356L\n.";
constexpr std::string_view kMagicDigits = "119547037146038801333356";
constexpr int64_t kVersion = 1001;

// PROTO, FRAME and its length may precede the magic number.
constexpr size_t kMaxBefore = 11;

// The elements of the storages, by key: those of the identifiers that are no views, and the root of those that are.
std::map<std::string, const TorchType*> types_by_key(const Pickle& pickle) {
  std::map<std::string, const TorchType*> types;
  for (const Index value : pickle.persistent())
    if (auto id = parse_storage_id(pickle, value)) types.emplace(std::move(id->key), id->type);
  return types;
}

class LegacyCheckpoint {
 public:
  explicit LegacyCheckpoint(const Container& container)
      : container_(container), cursor_(*container.bytes, 0, container.bytes->size()), contents_(*container.budget) {}

  Result<Model> read() && {
    TRY_VOID(check_header());
    Map facts = TRY(read_writer());
    const Pickle object = TRY(read_pickle(cursor_, *container_.budget));
    const Pickle keys = TRY(read_pickle(cursor_, *container_.budget));
    TRY_VOID(locate_storages(object, keys));
    const StorageBytes storages{.find = [&](std::string_view key) { return storage(key); }};
    TRY_VOID(add_pickle(object, storages, "", "", contents_));
    Model model;
    model.format = "pytorch-legacy";
    model.version = std::to_string(kVersion);
    TRY_VOID(add_contents(model, std::move(contents_), std::move(facts)));
    model.parts.push_back({container_.name, Later<SourcePtr>::of(container_.bytes)});
    return model;
  }

 private:
  Result<void> check_header() {
    const Pickle magic = TRY(read_pickle(cursor_, *container_.budget));
    if (magic.text(magic.root()) != kMagicDigits) return failure(Code::corrupt, "not the magic number of PyTorch");
    const Pickle version = TRY(read_pickle(cursor_, *container_.budget));
    const auto number = version.integer(version.root());
    if (number != kVersion)
      return failure(Code::unsupported, fmt::format("version {}, {} is supported", number.value_or(-1), kVersion));
    return {};
  }

  // The byte order and sizes of C types of the writer's machine. Storages are little-endian everywhere.
  Result<Map> read_writer() {
    const Pickle writer = TRY(read_pickle(cursor_, *container_.budget));
    constexpr size_t kFacts = 32;
    Map facts;
    const std::vector<Index> items = writer.items(writer.root(), kFacts);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const auto number = writer.integer(items[i + 1]);
      if (!number || writer.kind(items[i]) != Kind::text) continue;
      const bool is_flag = writer.kind(items[i + 1]) == Kind::boolean;
      facts.set(std::string(writer.text(items[i])), is_flag ? Value(*number != 0) : Value(*number));
    }
    return facts;
  }

  // Each number of elements is read: if one is wrong, all later storages are elsewhere.
  Result<void> locate_storages(const Pickle& object, const Pickle& keys) {
    if (keys.kind(keys.root()) != Kind::list) return failure(Code::corrupt, "the keys of the storages are not a list");
    const auto types = types_by_key(object);
    uint64_t at = cursor_.position();
    for (const Index item : keys.items(keys.root())) {
      TRY_VOID(contents_.charges.charge(Cost::step, 3));
      std::string key(keys.text(item));
      const auto type = types.find(key);
      if (type == types.end())
        return stop(fmt::format("storage {}: in the list of keys, but no tensor has it", quoted(key)));
      const auto bytes = locate(type->second, at);
      if (!bytes && !is_about_the_bytes(bytes.error())) return tl::unexpected(bytes.error());
      if (!bytes) return stop(fmt::format("storage {}: {}", quoted(key), bytes.error().message));
      at = bytes->offset() + bytes->size();
      storages_.insert_or_assign(std::move(key), *bytes);
    }
    return {};
  }

  // Later storages cannot be found.
  Result<void> stop(const std::string& reason) {
    contents_.warnings.refuse(Code::corrupt, "{}; it and later storages are missing", reason);
    return {};
  }

  Result<Slice> locate(const TorchType* type, uint64_t at) const {
    Cursor number(*container_.bytes, at, at + sizeof(int64_t));
    const auto elements = TRY(number.number<int64_t>());
    if (elements < 0) return failure(Code::corrupt, fmt::format("{} elements", elements));
    const auto size = storage_size(type, static_cast<uint64_t>(elements));
    if (!size) return failure(Code::corrupt, fmt::format("{} elements, their size overflows", elements));
    return slice(container_.bytes, at + sizeof(int64_t), *size);
  }

  Result<Slice> storage(std::string_view key) const {
    const auto found = storages_.find(key);
    if (found == storages_.end())
      return failure(Code::corrupt, fmt::format("its storage {} is not in the file", quoted(key)));
    return found->second;
  }

  const Container& container_;
  Cursor cursor_;
  Contents contents_;
  std::map<std::string, Slice, std::less<>> storages_;
};

}  // namespace
}  // namespace weightfs::pytorch

namespace weightfs {

Match matches_pytorch_legacy(const Probe& probe) {
  if (probe.head.starts_with(pytorch::kMagicLine)) return Match::yes;
  const bool is_pickle = probe.head.starts_with('\x80');
  return is_pickle && probe.head.substr(2, pytorch::kMaxBefore + pytorch::kMagic.size()).find(pytorch::kMagic) !=
                          probe.head.npos
             ? Match::yes
             : Match::no;
}

Result<Model> read_pytorch_legacy(const Container& container) { return pytorch::LegacyCheckpoint(container).read(); }

}  // namespace weightfs
