// The files that `weightfs export` writes for a model, in a directory or a tar, and a copy of a mount: tensors.json
// names the tensors; their bytes are in tensors/, or in .npy files at the top, in float32/ or in float16/.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/archive/archive_formats.h"
#include "formats/common/flat.h"
#include "formats/common/limits.h"
#include "formats/numpy/array.h"
#include "formats/string_pool.h"

namespace weightfs::exported {
namespace {

constexpr std::string_view kIndex = "tensors.json";
constexpr std::string_view kMetadata = "metadata.json";

// The first line of an index, and all of an empty one, as they are written.
constexpr std::string_view kBegin = "{\"tensors\": [\n{\"name\": \"";
constexpr std::string_view kEmpty = "{\"tensors\": []}";

// A tensor takes some 250 bytes of the index and 20 values.
constexpr uint64_t kMaxIndexSize = 64 << 20;
constexpr uint64_t kMaxMetadataSize = 16 << 20;

bool is_index(std::string_view head) { return head.starts_with(kBegin) || head.starts_with(kEmpty); }

Result<bool> begins_as_index(const Source& bytes) {
  return is_index(TRY(read_text(bytes, 0, std::min<uint64_t>(bytes.size(), kBegin.size()))));
}

// An entry of the index. The texts belong to the index.
struct Entry {
  std::string_view name, path, dtype, stored_dtype;
  Shape shape;
  uint64_t nbytes = 0;
};

Result<uint64_t> size(const Value& value) {
  const int64_t* const number = std::get_if<int64_t>(&value);
  if (number == nullptr || *number < 0) return failure(Code::corrupt, "a size below 2^63 expected");
  return static_cast<uint64_t>(*number);
}

Result<Entry> entry_of(const Value& value) {
  const Map* const map = std::get_if<Map>(&value);
  const List* const shape = map == nullptr ? nullptr : map->find_as<List>("shape");
  const Value* const nbytes = map == nullptr ? nullptr : map->find("nbytes");
  if (shape == nullptr || nbytes == nullptr || map->find_as<std::string>("name") == nullptr)
    return failure(Code::corrupt, "an object with name, shape and nbytes expected");
  const uint64_t bytes = TRY(size(*nbytes));
  Entry entry{
      text_in(*map, "name"), text_in(*map, "path"), text_in(*map, "dtype"), text_in(*map, "stored_dtype"), {}, bytes};
  if (entry.name.size() > kMaxNameLength)
    return failure(Code::corrupt, fmt::format("a name of {} bytes, at most {}", entry.name.size(), kMaxNameLength));
  if (shape->size() > kMaxDimensions)
    return failure(Code::corrupt, fmt::format("{} dimensions, at most {}", shape->size(), kMaxDimensions));
  for (const Value& each : *shape) entry.shape.push_back(TRY(size(each)));
  return entry;
}

// The row with this name whose elements take the bytes of the tensor: an int4 takes a byte, or is packed.
const DType* dtype_of(const Entry& entry) {
  // A GGUF has two orders of mxfp4; only ggml's own has a name.
  const bool is_of_pairs = entry.dtype == "mxfp4" && entry.stored_dtype.empty();
  const DType* const named = is_of_pairs ? mxfp4_of_pairs() : dtype_named(entry.dtype);
  for (const DType* const row : {named, packed_dtype_named(entry.dtype)})
    if (row != nullptr && size_in_bytes(*row, entry.shape) == entry.nbytes) return row;
  return &kUnknownDType;
}

class Reader {
 public:
  Reader(archive::Archive& archive, const Container& container)
      : archive_(archive), container_(container), arrays_(model_, archive.warnings, *container.budget) {}

  Result<Model> read() {
    TRY_VOID(read_metadata());
    TRY_VOID(read_index());
    model_.format = "weightfs-export";
    archive::add_members(model_, std::move(archive_), container_);
    model_.nested = nullptr;  // the .npy files are its tensors
    return std::move(model_);
  }

 private:
  Budget& budget() { return *container_.budget; }

  Result<Value> parse(std::string_view path, uint64_t most_bytes, uint64_t most_values) {
    const Part* const part = archive_.resolve(path);
    if (part == nullptr) return failure(Code::corrupt, fmt::format("no {}", path));
    const SourcePtr bytes = TRY(part->source.get());
    if (bytes->size() > most_bytes)
      return failure(Code::unsupported, fmt::format("{}: {} bytes, at most {}", path, bytes->size(), most_bytes));
    TRY_VOID(budget().charge(Cost::input, bytes->size()));
    return parse_json(*bytes, 0, bytes->size(), budget(), most_values).map_error([&](const Error& error) {
      return Error{error.code, fmt::format("{}: {}", path, error.message)};
    });
  }

  Result<void> read_index() {
    const Value index = TRY(parse(kIndex, kMaxIndexSize, kMaxJsonValues));
    const Map* const map = std::get_if<Map>(&index);
    const List* const tensors = map == nullptr ? nullptr : map->find_as<List>("tensors");
    if (tensors == nullptr) return failure(Code::corrupt, fmt::format("{}: no list of tensors", kIndex));
    for (size_t i = 0; i < tensors->size(); ++i) {
      const auto about = [&](const Error& e) { return Error{e.code, fmt::format("{}: {}: {}", kIndex, i, e.message)}; };
      const Entry entry = TRY(entry_of((*tensors)[i]).map_error(about));
      TRY_VOID(add(entry));
    }
    release(footprint(index), budget());
    return {};
  }

  Result<void> add(const Entry& entry) {
    if (const Part* const raw = archive_.resolve(fmt::format("tensors/{}", entry.path))) return add_raw(entry, *raw);
    for (const char* const folder : {"", "float32/", "float16/"})
      if (const Part* const array = archive_.resolve(fmt::format("{}{}.npy", folder, entry.path)))
        return add_array(entry, *array);
    TRY_VOID(push({}, entry));
    archive_.warnings.miss_file(Code::not_found, "tensor {}: its file is missing", quoted(entry.name));
    archive_.warnings.lose({Code::not_found, "its file is missing"}, {});
    return {};
  }

  Result<void> add_raw(const Entry& entry, const Part& part) {
    const SourcePtr bytes = TRY(part.source.get());
    if (bytes->size() == entry.nbytes) return push(TRY(slice(bytes, 0, entry.nbytes)), entry);
    TRY_VOID(push({}, entry));
    if (bytes->size() < entry.nbytes) archive_.warnings.add_short_by(entry.nbytes - bytes->size());
    archive_.warnings.refuse(Code::corrupt, "tensor {}: {} bytes, {} expected: refused", quoted(entry.name),
                             bytes->size(), entry.nbytes);
    return {};
  }

  // With the type and the shape of the .npy file, which may have been dequantised.
  Result<void> add_array(const Entry& entry, const Part& part) {
    const SourcePtr bytes = TRY(part.source.get());
    const auto head = [&](size_t most) -> Result<std::string> {
      const uint64_t wanted = std::min<uint64_t>(most, bytes->size());
      TRY_VOID(budget().charge(Cost::input, wanted));
      return read_text(*bytes, 0, wanted);
    };
    const auto read = [&]() -> Result<numpy::Header> {
      std::string first = TRY(head(numpy::kUsualHeaderSize));
      return numpy::read_header(std::move(first), head, budget());
    };
    const auto header = read();
    if (header) return arrays_.add(entry.name, *header, TRY(slice(bytes, 0, bytes->size())));
    if (!is_about_the_bytes(header.error())) return tl::unexpected(header.error());
    return arrays_.add_refused(entry.name, header.error().message);
  }

  Result<void> push(const Slice& source, const Entry& entry) {
    TRY_VOID(budget().charge(Cost::tensor));
    TRY_VOID(budget().charge(Cost::kept, entry.name.size() + sizeof(uint64_t) * entry.shape.size()));
    Tensor tensor;
    tensor.name = entry.name;
    tensor.dtype = is_big_endian_ && dtype_of(entry) != &kUnknownDType ? big_endian(dtype_of(entry)) : dtype_of(entry);
    tensor.stored_dtype =
        TRY(spellings_.add(tensor.dtype == &kUnknownDType ? entry.dtype : entry.stored_dtype, budget()));
    // The path of a tensor with a scope has that before the name.
    const size_t scope = entry.path.size() - std::min(entry.path.size(), entry.name.size() + 1);
    if (scope > 0 && entry.path[scope] == '/' && entry.path.ends_with(entry.name))
      tensor.scope = TRY(spellings_.add(entry.path.substr(0, scope), budget()));
    tensor.shape = entry.shape;
    tensor.source = source;
    model_.tensors.push_back(tensor);
    return {};
  }

  // The common fields and the metadata of the exported model. An export as .npy files has none.
  Result<void> read_metadata() {
    if (archive_.resolve(kMetadata) == nullptr) return {};
    const auto parsed = parse(kMetadata, kMaxMetadataSize, flat::kMaxMetadataValues);
    if (!parsed && !is_about_the_bytes(parsed.error())) return tl::unexpected(parsed.error());
    const Map* const all = parsed ? std::get_if<Map>(&*parsed) : nullptr;
    if (all == nullptr) {
      archive_.warnings.add("{}: omitted", parsed ? "metadata.json: not an object" : parsed.error().message);
      return {};
    }
    if (const Map* const metadata = all->find_as<Map>("metadata")) model_.metadata = *metadata;
    const Map* const gguf = model_.metadata.find_as<Map>("gguf");
    is_big_endian_ = text_in(*all, "format") == "gguf" && gguf != nullptr && text_in(*gguf, "byte_order") == "big";
    Map facts;
    for (const auto& [key, value] : *all) {
      const bool is_about_container = key == "format" || key == "version" || key == "source";
      if (is_about_container && std::holds_alternative<std::string>(value)) facts.append(key, value);
      const bool is_common = std::holds_alternative<std::string>(value) || std::holds_alternative<int64_t>(value);
      if (!is_about_container && key != "incomplete" && is_common) model_.common.append(key, value);
    }
    flat::add_facts(model_.metadata, "weightfs-export", std::move(facts));
    return {};
  }

  archive::Archive& archive_;
  const Container& container_;
  Model model_;
  numpy::ArrayAdder arrays_;
  bool is_big_endian_ = false;  // the bytes in tensors/, as a GGUF has them
  StringPool spellings_{model_.string_pool};
};

}  // namespace
}  // namespace weightfs::exported

namespace weightfs {

Result<bool> matches_export(const archive::Archive& archive) {
  const Part* const index = archive.resolve(exported::kIndex);
  if (index == nullptr) return false;
  const auto is =
      index->source.get().and_then([](const SourcePtr& bytes) { return exported::begins_as_index(*bytes); });
  if (!is && !is_about_the_bytes(is.error())) return tl::unexpected(is.error());
  return is && *is;
}

Match matches_export_index(const Probe& entry) {
  return entry.name == exported::kIndex && exported::is_index(entry.head) ? Match::yes : Match::no;
}

Result<bool> is_export_index(const SourcePtr& entry) { return exported::begins_as_index(*entry); }

Result<Model> read_export(archive::Archive archive, const Container& container) {
  return exported::Reader(archive, container).read();
}

}  // namespace weightfs
