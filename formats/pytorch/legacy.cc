// Checkpoints of torch before 1.6: pickles of a magic number, a version, facts about the writer, the object and the
// keys of its storages; then the storages in the order of the keys, each with its number of elements in front.
// Reference: _legacy_save and _legacy_load in torch/serialization.py.
#include "formats/pytorch/legacy.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "formats/format.h"

namespace weightfs::pytorch {
namespace {

// The magic number as a pickle has it: LONG1 of ten bytes, or in protocol 0 and 1 a line of digits.
constexpr std::string_view kMagic("\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19", 12);
constexpr std::string_view kMagicLine = "L119547037146038801333356L\n.";
constexpr std::string_view kMagicDigits = "119547037146038801333356";
constexpr int64_t kVersion = 1001;

// PROTO, FRAME and its length may precede the magic number.
constexpr size_t kMaxBefore = 11;

// The bytes of a file that have the magic number.
constexpr uint64_t kMaxHead = 64;

bool has_magic(std::string_view head) {
  if (head.starts_with(kMagicLine)) return true;
  return head.starts_with('\x80') && head.substr(0, 2 + kMaxBefore + kMagic.size()).find(kMagic, 2) != head.npos;
}

// The elements of the storages, by key: those of the identifiers that are no views, and the root of those that are.
std::map<std::string, const TorchType*> types_by_key(const Pickle& pickle) {
  std::map<std::string, const TorchType*> types;
  for (const Index value : pickle.persistent())
    if (auto id = parse_storage_id(pickle, value)) types.emplace(std::move(id->key), id->type);
  return types;
}

class LegacyFile {
 public:
  LegacyFile(SourcePtr bytes, Budget& budget, Contents& contents)
      : bytes_(std::move(bytes)), budget_(budget), contents_(contents), cursor_(*bytes_, 0, bytes_->size()) {}

  /// The object. Finds the storages.
  Result<Pickle> read() {
    TRY_VOID(check_header());
    writer_ = TRY(read_writer());
    Pickle object = TRY(pickle::read_pickle(cursor_, budget_));
    const Pickle keys = TRY(read_next(cursor_, budget_, contents_));
    TRY_VOID(locate_storages(object, keys));
    return object;
  }

  Map take_writer() { return std::move(writer_); }
  StorageBytes storages() const {
    return {.find = [this](std::string_view key) { return storage(key); }};
  }

 private:
  Result<void> check_header() {
    const Pickle magic = TRY(read_next(cursor_, budget_, contents_));
    if (magic.text(magic.root()) != kMagicDigits) return failure(Code::corrupt, "not the magic number of PyTorch");
    const Pickle version = TRY(read_next(cursor_, budget_, contents_));
    const auto number = version.integer(version.root());
    if (number != kVersion)
      return failure(Code::unsupported, fmt::format("version {}, {} is supported", number.value_or(-1), kVersion));
    return {};
  }

  // The byte order and sizes of C types of the writer's machine. Storages are little-endian everywhere.
  Result<Map> read_writer() {
    const Pickle writer = TRY(read_next(cursor_, budget_, contents_));
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
    Cursor number(*bytes_, at, at + sizeof(int64_t));
    const auto elements = TRY(number.number<int64_t>());
    if (elements < 0) return failure(Code::corrupt, fmt::format("{} elements", elements));
    const auto size = storage_size(type, static_cast<uint64_t>(elements));
    if (!size) return failure(Code::corrupt, fmt::format("{} elements, their size overflows", elements));
    return slice(bytes_, at + sizeof(int64_t), *size);
  }

  Result<Slice> storage(std::string_view key) const {
    const auto found = storages_.find(key);
    if (found == storages_.end())
      return failure(Code::corrupt, fmt::format("its storage {} is not in the file", quoted(key)));
    return found->second;
  }

  SourcePtr bytes_;
  Budget& budget_;
  Contents& contents_;
  Cursor cursor_;
  Map writer_;
  std::map<std::string, Slice, std::less<>> storages_;
};

Result<Model> read_legacy(const Container& container) {
  Contents contents(*container.budget);
  LegacyFile file(container.bytes, *container.budget, contents);
  const Pickle object = TRY(file.read());
  const pickle::File around{container.bytes, container.blobs, container.budget, container.depth};
  TRY_VOID(add_pickle(object, around, file.storages(), "", "", contents));
  Model model;
  model.format = "pytorch-legacy";
  model.version = std::to_string(kVersion);
  TRY_VOID(add_contents(model, std::move(contents), file.take_writer()));
  model.parts.push_back({container.name, Later<SourcePtr>::of(container.bytes)});
  return model;
}

}  // namespace

Result<LoadedStorage> storage_in(const Slice& bytes, const pickle::File& around, Contents& out) {
  const auto source = std::make_shared<Slice>(bytes);
  const std::string head = TRY(read_text(*source, 0, std::min<uint64_t>(source->size(), kMaxHead)));
  if (!has_magic(head)) return failure(Code::unsupported, "a file of torch in bytes that is not one before 1.6");
  LegacyFile file(source, *around.budget, out);
  const Pickle object = TRY(file.read());
  TRY_VOID(add_globals(object, "a file of torch in bytes: ", out));
  if (object.kind(object.root()) != Kind::persistent) return failure(Code::corrupt, "a file in bytes is not a storage");
  const StorageId id = TRY(parse_storage_id(object, object.root()));
  auto loaded = TRY(storage_bytes(id, file.storages()));
  return LoadedStorage{id.type, std::move(loaded)};
}

}  // namespace weightfs::pytorch

namespace weightfs {

Match matches_pytorch_legacy(const Probe& probe) { return pytorch::has_magic(probe.head) ? Match::yes : Match::no; }

Result<Model> read_pytorch_legacy(const Container& container) { return pytorch::read_legacy(container); }

}  // namespace weightfs
