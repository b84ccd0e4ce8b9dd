#include "formats/gguf/file.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "formats/common/cursor.h"
#include "formats/common/limits.h"
#include "formats/gguf/types.h"
#include "formats/gguf_keys.h"

namespace weightfs::gguf {
namespace {

// Adds `what` before the error message.
template <class T>
Result<T> naming(std::string_view what, Result<T> result) {
  if (!result) result.error().message = fmt::format("{}: {}", what, result.error().message);
  return result;
}

// What llama-quantize writes about the types of the tensors, and about the importance matrix (quantize.imatrix.*).
bool is_about_quantisation(std::string_view key) {
  return key == "general.file_type" || key == "general.quantization_version" || key.starts_with("quantize.");
}

// A key as a file name. If that is too long or only dots, the key's position in the file, in a form that no escape has.
std::string path_of(std::string_view key, uint64_t position) {
  constexpr size_t kMaxComponentLength = 200;
  const bool only_dots = key.find_first_not_of('.') == key.npos;
  std::string name = percent_escaped(key);
  if (only_dots || name.size() > kMaxComponentLength) name = fmt::format("%key-{}", position);
  return fmt::format("metadata/{}.json", name);
}

Result<Dialect> read_dialect(const Source& bytes) {
  Cursor cursor(bytes, 0, 8);
  const std::string magic = TRY(cursor.text(4));
  if (magic != "GGUF") return failure(Code::corrupt, "does not begin with \"GGUF\"");
  const auto version = TRY(cursor.number<uint32_t>());
  // Big-endian files have no mark but their numbers: version 3 reads as 0x03000000.
  const Dialect dialect = (version & 0xFFFF) == 0 ? Dialect{__builtin_bswap32(version), std::endian::big}
                                                  : Dialect{version, std::endian::little};
  if (dialect.version < 1 || dialect.version > 3)
    return failure(Code::unsupported, fmt::format("version {}, 1 to 3 are supported", dialect.version));
  return dialect;
}

// Reads a file front to back.
class FileReader {
 public:
  FileReader(const SourcePtr& bytes, const Dialect& dialect, BudgetPtr budget)
      : bytes_(bytes),
        cursor_(*bytes, 8, kMaxHeaderSize, dialect.order),
        charges_(*budget, Charges::Pass::together),
        budget_(std::move(budget)) {
    file_.dialect = dialect;
  }

  Result<File> run() {
    const uint64_t tensors = TRY(read_count(cursor_, file_.dialect));
    file_.keys = TRY(read_count(cursor_, file_.dialect));
    const uint64_t count = file_.dialect.count_size();
    // The shortest of each: an empty key, a type and one byte; an empty name, no dimensions, a type and an offset.
    const uint64_t smallest_tensor = count + 4 + 4 + 8;
    TRY_VOID(naming("tensors", bounded(tensors, smallest_tensor, kMaxTensors)));
    TRY_VOID(naming("metadata", bounded(file_.keys, count + 4 + 1, kMaxKeys)));
    for (uint64_t i = 0; i < file_.keys; ++i) TRY_VOID(unless_cut("metadata entry", i, file_.keys, read_entry(i)));
    TRY_VOID(read_alignment());
    const uint64_t room = std::min(tensors, cursor_.left() / smallest_tensor);
    file_.tensors.reserve(room);
    file_.types.reserve(room);
    for (uint64_t i = 0; i < tensors; ++i) TRY_VOID(unless_cut("tensor entry", i, tensors, read_tensor(i)));
    file_.header_end = cursor_.position();
    charges_.keep();
    return std::move(file_);
  }

 private:
  // A count up to `most` is read as far as the file goes: it may be right, and the file cut.
  Result<void> bounded(uint64_t count, uint64_t smallest, uint64_t most) {
    if (count <= most) return {};
    TRY_VOID(cursor_.bounded(count, smallest));
    return failure(Code::unsupported, fmt::format("{} entries, at most {} are read", count, most));
  }

  // An error that a length or a number runs over the end of the file names the entry: most likely the file was cut.
  Result<void> unless_cut(std::string_view what, uint64_t position, uint64_t count, Result<void> entry) const {
    if (entry || !cursor_.has_ended() || bytes_->size() > kMaxHeaderSize) return entry;
    return failure(entry.error().code,
                   fmt::format("the header ends after {}: cut in {} {} of {} ({})", human_size(bytes_->size()), what,
                               position + 1, count, entry.error().message));
  }

  Result<void> read_entry(uint64_t position) {
    const uint64_t begin_of_entry = cursor_.position();
    std::string key;
    TRY_VOID(naming(fmt::format("key {}", position), read_string(cursor_, file_.dialect, kMaxNameLength, key)));
    const uint64_t begin = cursor_.position();
    StoredValue stored =
        TRY(naming(fmt::format("key {}", quoted(key)), read_value(cursor_, file_.dialect, room_, *budget_)));
    TRY_VOID(charges_.charge(Cost::input, cursor_.position() - begin));
    TRY_VOID(charges_.charge(Cost::value));
    TRY_VOID(charges_.charge(Cost::kept, 2 * key.size()));  // and in seen_
    if (!seen_.insert(key).second) {
      file_.warnings.add("duplicate key {}; the first value is used", quoted(key));
      return {};
    }
    if (key.empty()) file_.warnings.add("key {} is empty", position);
    TRY_VOID(copy_entry(key, {begin_of_entry, cursor_.position()}));
    if (stored.has_invalid_bool) file_.warnings.add("key {}: bool is neither 0 nor 1; read as true", quoted(key));
    if (stored.has_invalid_text) file_.warnings.add("key {}: text that is not UTF-8", quoted(key));
    if (key == "general.alignment" && stored.type != ValueType::uint32)
      file_.warnings.add("general.alignment is of type {}, not uint32", name_of(stored.type));
    if (!stored.value) TRY_VOID(charges_.charge(Cost::member));
    file_.metadata.append(key, stored.value ? std::move(*stored.value) : set_apart(key, position, stored));
    return {};
  }

  // ggml refuses an empty key; split.* describes one file of several.
  Result<void> copy_entry(const std::string& key, ByteRange entry) {
    if (key.empty() || key.starts_with("split.")) return {};
    const bool is_about = is_about_quantisation(key);
    if (!file_.copied.empty() && file_.copied.back().range.to == entry.from &&
        file_.copied.back().are_about_quantisation == is_about) {
      file_.copied.back().range.to = entry.to;
      ++file_.copied.back().keys;
      return {};
    }
    file_.copied.push_back({entry, 1, is_about});
    return charges_.charge(Cost::kept, sizeof(CopiedEntries) + sizeof(GgufKeys::Entries));
  }

  // Turns a value that is too long for metadata.json into a Document, with a note of its path.
  Value set_apart(const std::string& key, uint64_t position, const StoredValue& stored) {
    const BudgetPtr budget = budget_;
    const uint64_t size = stored.end - stored.begin;
    Map note;
    if (stored.type == ValueType::array) note.append("count", stored.elements);
    if (stored.type != ValueType::array) note.append("nbytes", size - file_.dialect.count_size());
    note.append("type", name_of(stored.element_type));
    if (size > kMaxDocumentBytes - document_bytes_) {
      file_.warnings.add("key {}: {} bytes are too large to be shown", quoted(key), size);
      return note;
    }
    document_bytes_ += size;
    Document document{path_of(key, position),
                      Later<SourcePtr>([=, bytes = bytes_, dialect = file_.dialect]() -> Result<SourcePtr> {
                        return in_memory(TRY(render_json(*bytes, dialect, stored, *budget)));
                      })};
    note.append("path", document.path);
    file_.documents.push_back(std::move(document));
    return note;
  }

  Result<void> read_alignment() {
    const Value* value = file_.metadata.find("general.alignment");
    if (value == nullptr) return {};
    const auto alignment = file_.unsigned_at("general.alignment");
    if (!alignment || !std::has_single_bit(*alignment) || *alignment > kMaxAlignment) {
      const bool integer = std::holds_alternative<int64_t>(*value) || std::holds_alternative<uint64_t>(*value);
      const std::string found = to_json_line(*value);
      return failure(Code::corrupt, fmt::format("general.alignment is {}, a power of two up to {} is needed",
                                                integer ? found : quoted(found), kMaxAlignment));
    }
    file_.alignment = *alignment;
    return {};
  }

  Result<void> read_tensor(uint64_t position) {
    constexpr size_t kMaxGgmlName = 63;       // GGML_MAX_NAME, less its NUL
    constexpr size_t kMaxGgmlDimensions = 4;  // GGML_MAX_DIMS
    Tensor& tensor = tensor_;
    if (auto name = read_string(cursor_, file_.dialect, kMaxNameLength, tensor.name); !name)
      return naming(fmt::format("tensor {}", position), std::move(name));
    const auto offset = read_rest(tensor);
    if (!offset) return naming<void>(fmt::format("tensor {}", quoted(tensor.name)), tl::unexpected(offset.error()));
    TRY_VOID(charges_.charge(Cost::tensor));
    TRY_VOID(charges_.charge(Cost::kept, tensor.name.size() + sizeof(uint64_t) * tensor.shape.size()));
    if (tensor.name.size() > kMaxGgmlName)
      file_.warnings.add("tensor {}: a name of {} bytes, ggml accepts {}", quoted(tensor.name), tensor.name.size(),
                         kMaxGgmlName);
    if (tensor.shape.size() > kMaxGgmlDimensions)
      file_.warnings.add("tensor {}: {} dimensions, ggml accepts {}", quoted(tensor.name), tensor.shape.size(),
                         kMaxGgmlDimensions);
    file_.tensors.push_back(tensor, *offset, 0);
    return {};
  }

  // Returns the offset of the tensor.
  Result<uint64_t> read_rest(Tensor& tensor) {
    const auto dimensions = TRY(cursor_.number<uint32_t>());
    if (dimensions > kMaxDimensions)
      return failure(Code::unsupported, fmt::format("{} dimensions, at most {} are read", dimensions, kMaxDimensions));
    tensor.shape.resize(dimensions);
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      *size = TRY(read_count(cursor_, file_.dialect));
    file_.types.push_back(TRY(cursor_.number<uint32_t>()));
    const uint64_t offset = TRY(cursor_.number<uint64_t>());
    const TensorType type = tensor_type(file_.types.back());
    tensor.dtype = file_.dialect.order == std::endian::big ? big_endian(type.dtype) : type.dtype;
    tensor.stored_dtype = type.name;
    return offset;
  }

  SourcePtr bytes_;
  Cursor cursor_;
  Charges charges_;
  BudgetPtr budget_;
  File file_{};
  std::set<std::string> seen_;
  Tensor tensor_;  // that was read last: its memory is used again
  uint64_t room_ = kMaxInlineBytes;
  uint64_t document_bytes_ = 0;
};

}  // namespace

std::optional<uint64_t> File::unsigned_at(std::string_view key) const {
  const Value* value = metadata.find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<uint64_t>(value)) return *number;
  if (const auto* number = std::get_if<int64_t>(value); number != nullptr && *number >= 0)
    return static_cast<uint64_t>(*number);
  return std::nullopt;
}

std::optional<uint64_t> round_up(uint64_t value, uint64_t alignment) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(value, alignment - 1, &sum)) return std::nullopt;
  return sum & ~(alignment - 1);
}

Result<File> read_file(const SourcePtr& bytes, const BudgetPtr& budget) {
  const Dialect dialect = TRY(read_dialect(*bytes));
  auto file = FileReader(bytes, dialect, budget).run();
  if (!file && file.error().code == Code::corrupt && bytes->size() > kMaxHeaderSize)
    file.error().message += fmt::format(" (at most {} of header are read)", human_size(kMaxHeaderSize));
  return file;
}

}  // namespace weightfs::gguf
