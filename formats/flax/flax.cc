// Flax: a state dict as MessagePack (flax/serialization.py). Maps are nested; their leaves are arrays as extensions.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "formats/common/flat.h"
#include "formats/common/limits.h"
#include "formats/common/warnings.h"
#include "formats/flax/msgpack.h"
#include "formats/format.h"
#include "formats/grouped.h"
#include "formats/string_pool.h"

namespace weightfs {
namespace flax {
namespace {

using Kind = Token::Kind;

// _MsgpackExtType, and the key that marks an array in pieces.
constexpr int8_t kArray = 1;
constexpr int8_t kScalar = 3;
constexpr std::string_view kChunked = "__msgpack_chunked_array__";

// Values that are no arrays (a step, a learning rate) are metadata: so many of them, with texts of so many bytes.
constexpr size_t kMaxFacts = 1024;
constexpr uint64_t kMaxText = 1024;

// The charges of a token, of an array besides its tokens, and of a piece of an array.
constexpr uint64_t kTokenInput = 80;
constexpr uint64_t kArraySteps = 2;
constexpr uint64_t kPieceBytes = 200;

// Flax splits arrays into pieces of 2^30 bytes.
constexpr uint64_t kMaxChunks = 4096;

constexpr uint64_t kMaxDTypeName = 64;

// An array as it is stored: not checked against its size yet.
struct Array {
  Shape shape;
  std::string dtype;
  Slice bytes;
};

class FlaxReader {
 public:
  explicit FlaxReader(const Container& container)
      : file_(container.bytes), budget_(*container.budget), in_(*file_, 0, file_->size(), std::endian::big) {}

  Result<Model> read(const Container& container) {
    const Token root = TRY(next());
    if (root.kind != Kind::map) return failure(Code::corrupt, "not a map");
    TRY_VOID(read_map("", root.number, 1));
    if (model_.tensors.empty()) return failure(Code::unsupported, "no array of Flax");
    if (in_.left() > 0) warnings_.add("{} after the map", counted_bytes(in_.left()));
    if (facts_omitted_ > 0) warnings_.add("{} other values are not shown", facts_omitted_);
    facts_.keep_last_of_each_key();
    model_.format = "flax";
    if (!facts_.empty()) model_.metadata.append("values", std::move(facts_));
    std::move(warnings_).move_to(model_);
    model_.parts.push_back({container.name, Later<SourcePtr>::of(file_)});
    return std::move(model_);
  }

 private:
  // The time is charged as that of input: nothing is kept of most tokens.
  Result<Token> next() {
    TRY_VOID(budget_.charge(Cost::input, kTokenInput));
    return read_token(in_);
  }

  Result<std::string> read_key() {
    const Token token = TRY(next());
    if (token.kind != Kind::text && token.kind != Kind::binary)
      return failure(Code::corrupt, fmt::format("a key before byte {} is not a text", in_.position()));
    if (token.number > kMaxNameLength)
      return failure(Code::corrupt, fmt::format("a key of {} bytes, at most {}", token.number, kMaxNameLength));
    return in_.text(token.number);
  }

  // The marker is the first key, as Flax writes it.
  Result<void> read_map(const std::string& path, uint64_t entries, int depth) {
    if (depth > kMaxDepth) return failure(Code::corrupt, fmt::format("nested deeper than {} maps", kMaxDepth));
    for (uint64_t i = 0; i < entries; ++i) {
      const std::string key = TRY(read_key());
      if (i == 0 && key == kChunked) return read_chunked(path, entries, depth);
      std::string below = path.empty() ? key : fmt::format("{}/{}", path, key);
      if (below.size() > kMaxNameLength)
        return failure(Code::corrupt, fmt::format("a path of {} bytes, at most {}", below.size(), kMaxNameLength));
      TRY_VOID(budget_.charge(Cost::input, below.size()));
      const Token value = TRY(next());
      TRY_VOID(read_value(below, value, depth));
    }
    return {};
  }

  Result<void> read_value(const std::string& path, const Token& token, int depth) {
    if (token.kind == Kind::map) return read_map(path, token.number, depth + 1);
    if (token.kind == Kind::extension && (token.extension == kArray || token.extension == kScalar))
      return read_array(path, token.number);
    return read_fact(path, token, depth);
  }

  // A scalar or a text becomes metadata, everything else is skipped.
  Result<void> read_fact(const std::string& path, const Token& token, int depth) {
    const bool is_scalar = bytes_after(token) == 0 && token.kind != Kind::array && token.kind != Kind::extension;
    const bool is_text = token.kind == Kind::text && token.number <= kMaxText;
    if (facts_.size() >= kMaxFacts || !(is_scalar || is_text)) {
      ++facts_omitted_;
      return skip_rest(token, depth);
    }
    Value value = nullptr;
    if (token.kind == Kind::boolean) value = token.integer != 0;
    if (token.kind == Kind::integer) value = token.integer;
    if (token.kind == Kind::unsigned_integer) value = token.number;
    if (token.kind == Kind::real) value = token.real;
    if (token.kind == Kind::text) value = TRY(in_.text(token.number));
    TRY_VOID(budget_.charge(Cost::value, 2));
    TRY_VOID(budget_.charge(Cost::kept, path.size() + token.number * (is_text ? 1 : 0)));
    facts_.append(path, std::move(value));
    return {};
  }

  Result<void> skip_rest(const Token& token, int depth) {
    if (depth > kMaxDepth) return failure(Code::corrupt, fmt::format("nested deeper than {} values", kMaxDepth));
    if (token.kind != Kind::array && token.kind != Kind::map) return in_.skip(bytes_after(token));
    const uint64_t values = token.kind == Kind::map ? 2 * token.number : token.number;
    for (uint64_t i = 0; i < values; ++i) {
      const Token value = TRY(next());
      TRY_VOID(skip_rest(value, depth + 1));
    }
    return {};
  }

  // An invalid array is refused alone: its extension has a length.
  Result<void> read_array(const std::string& path, uint64_t size) {
    const uint64_t end = in_.position() + size;
    auto array = parse_array(end);
    if (!array && !is_about_the_bytes(array.error())) return tl::unexpected(array.error());
    TRY_VOID(in_.skip(end - in_.position()));
    if (array) return add(path, array->shape, array->dtype, std::move(array->bytes));
    return refuse(path, array.error());
  }

  // The content of an extension: [shape, name of the dtype, bytes].
  Result<Array> parse_array(uint64_t end) {
    TRY_VOID(budget_.charge(Cost::step, kArraySteps));
    // Nothing behind the extension is read for it.
    const auto next_inside = [&]() -> Result<Token> {
      if (in_.position() >= end) return failure(Code::corrupt, "its extension ends early");
      const Token token = TRY(next());
      if (in_.position() > end || bytes_after(token) > end - in_.position())
        return failure(Code::corrupt, "its extension ends early");
      return token;
    };
    const Token list = TRY(next_inside());
    const bool is_array = list.kind == Kind::array && list.number == 3;
    const Token sizes = TRY(next_inside());
    if (!is_array || sizes.kind != Kind::array) return failure(Code::corrupt, "not a list of shape, dtype and bytes");
    if (sizes.number > kMaxDimensions)
      return failure(Code::corrupt, fmt::format("{} dimensions, at most {}", sizes.number, kMaxDimensions));
    TRY_VOID(budget_.charge(Cost::kept, 8 * sizes.number));
    Array array;
    for (uint64_t i = 0; i < sizes.number; ++i) {
      const Token size = TRY(next_inside());
      if (size.kind == Kind::integer)
        return failure(Code::corrupt, fmt::format("a dimension of size {}", size.integer));
      if (size.kind != Kind::unsigned_integer) return failure(Code::corrupt, "a dimension is not an integer");
      array.shape.push_back(size.number);
    }
    const Token dtype = TRY(next_inside());
    if ((dtype.kind != Kind::text && dtype.kind != Kind::binary) || dtype.number > kMaxDTypeName)
      return failure(Code::corrupt, "no name of a dtype");
    array.dtype = TRY(in_.text(dtype.number));
    const Token bytes = TRY(next_inside());
    if (bytes.kind != Kind::binary && bytes.kind != Kind::text) return failure(Code::corrupt, "no bytes");
    array.bytes = TRY(slice(file_, in_.position(), bytes.number));
    return array;
  }

  // {marker: true, shape: {"0": n, ...}, chunks: {"0": array, ...}}.
  Result<void> read_chunked(const std::string& path, uint64_t entries, int depth) {
    const Token marker = TRY(next());
    TRY_VOID(skip_rest(marker, depth));
    std::map<uint64_t, uint64_t> sizes;
    std::map<uint64_t, Array> chunks;
    std::optional<Error> problem;
    for (uint64_t i = 1; i < entries; ++i) {
      const std::string key = TRY(read_key());
      const Token value = TRY(next());
      const bool is_read = value.kind == Kind::map && (key == "shape" || key == "chunks");
      if (is_read && value.number > kMaxChunks)
        problem = Error{Code::unsupported, fmt::format("{} {}, at most {}", value.number, key, kMaxChunks)};
      if (is_read && value.number <= kMaxChunks)
        TRY_VOID(key == "shape" ? read_sizes(value.number, sizes, problem)
                                : read_chunks(value.number, chunks, problem));
      else
        TRY_VOID(skip_rest(value, depth));
    }
    if (problem) return refuse(path, *problem);
    return add_chunked(path, sizes, chunks);
  }

  // Calls `take` with each index and the token of its value. A key that is no new index becomes a problem.
  template <class Take>
  Result<void> read_indexed(uint64_t entries, std::optional<Error>& problem, const Take& take) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < entries; ++i) {
      const std::string key = TRY(read_key());
      const uint64_t index = std::min<uint64_t>(std::strtoull(key.c_str(), nullptr, 10), entries);
      if (index >= entries || std::to_string(index) != key || !seen.insert(index).second)
        problem = problem.value_or(Error{Code::corrupt, fmt::format("the index {} among {}", quoted(key), entries)});
      TRY_VOID(budget_.charge(Cost::kept, kPieceBytes));
      const Token value = TRY(next());
      TRY_VOID(take(index, value));
    }
    return {};
  }

  Result<void> read_sizes(uint64_t entries, std::map<uint64_t, uint64_t>& sizes, std::optional<Error>& problem) {
    return read_indexed(entries, problem, [&](uint64_t index, const Token& size) -> Result<void> {
      if (size.kind != Kind::unsigned_integer) problem = Error{Code::corrupt, "a dimension is not a size"};
      sizes[index] = size.number;
      return skip_rest(size, 0);
    });
  }

  Result<void> read_chunks(uint64_t entries, std::map<uint64_t, Array>& chunks, std::optional<Error>& problem) {
    return read_indexed(entries, problem, [&](uint64_t index, const Token& token) -> Result<void> {
      if (token.kind != Kind::extension || token.extension != kArray) {
        problem = Error{Code::corrupt, "a chunk is not an array"};
        return skip_rest(token, 0);
      }
      const uint64_t end = in_.position() + token.number;
      auto array = parse_array(end);
      if (!array && !is_about_the_bytes(array.error())) return tl::unexpected(array.error());
      if (array)
        chunks[index] = std::move(*array);
      else
        problem = array.error();
      return in_.skip(end - in_.position());
    });
  }

  Result<void> add_chunked(const std::string& path, const std::map<uint64_t, uint64_t>& sizes,
                           const std::map<uint64_t, Array>& chunks) {
    if (sizes.size() > kMaxDimensions || chunks.empty())
      return refuse(path, {Code::corrupt, fmt::format("{} dimensions and {} chunks", sizes.size(), chunks.size())});
    Shape shape;
    for (const auto& [index, size] : sizes) shape.push_back(size);
    std::vector<SourcePtr> pieces;
    for (const auto& [index, chunk] : chunks) {
      if (chunk.dtype != chunks.begin()->second.dtype) return refuse(path, {Code::corrupt, "chunks of several dtypes"});
      pieces.push_back(std::make_shared<Slice>(chunk.bytes));
    }
    const SourcePtr whole = concat(std::move(pieces));
    return add(path, shape, chunks.begin()->second.dtype, TRY(slice(whole, 0, whole->size())));
  }

  Result<Tensor> new_tensor(const std::string& path) {
    TRY_VOID(budget_.charge(Cost::tensor));
    TRY_VOID(budget_.charge(Cost::kept, path.size()));
    Tensor tensor;
    tensor.name = path;
    tensor.dtype = &kUnknownDType;
    return tensor;
  }

  Result<void> refuse(const std::string& path, const Error& why) {
    model_.tensors.push_back(TRY(new_tensor(path)));
    warnings_.refuse(why.code, "tensor {}: {}: refused", quoted(path), why.message);
    return {};
  }

  Result<void> add(const std::string& path, const Shape& shape, const std::string& dtype, Slice bytes) {
    Tensor tensor = TRY(new_tensor(path));
    tensor.shape = shape;
    tensor.stored_dtype = TRY(spellings_.add(dtype, budget_));
    place(tensor, dtype, std::move(bytes));
    model_.tensors.push_back(tensor);
    return {};
  }

  void place(Tensor& tensor, const std::string& dtype, Slice bytes) {
    if (dtype == "object")
      return warnings_.refuse(Code::unsupported, "tensor {}: pickled objects, which are never opened: refused",
                              quoted(tensor.name));
    const DType* const known = dtype_named(dtype);
    if (known == nullptr || known->block_bytes == 0 || is_quantised(*known)) {
      warnings_.add("tensor {}: dtype {} is unknown; shown as bytes", quoted(tensor.name), quoted(dtype));
      tensor.source = std::move(bytes);
      return;
    }
    tensor.dtype = known;
    if (const auto size = size_in_bytes(*known, tensor.shape); size == bytes.size())
      tensor.source = std::move(bytes);
    else
      warnings_.refuse(Code::corrupt, "tensor {}: {} bytes, but its shape and dtype {} {}: refused",
                       quoted(tensor.name), bytes.size(), dtype,
                       size ? fmt::format("need {}", *size) : "overflow 64 bits");
  }

  SourcePtr file_;
  Budget& budget_;
  Cursor in_;
  Model model_;
  Map facts_;
  uint64_t facts_omitted_ = 0;
  Warnings warnings_;
  StringPool spellings_{model_.string_pool};
};

}  // namespace
}  // namespace flax

// There is no magic number: a map, whose first key is a text.
Match matches_flax(const Probe& probe) {
  if (probe.head.size() < 2) return Match::no;
  const auto first = static_cast<uint8_t>(probe.head[0]);
  const size_t key = (first & 0xF0) == 0x80 ? 1 : first == 0xDE ? 3 : first == 0xDF ? 5 : 0;
  if (key == 0 || key >= probe.head.size()) return Match::no;
  const auto mark = static_cast<uint8_t>(probe.head[key]);
  return (mark & 0xE0) == 0xA0 || (mark >= 0xD9 && mark <= 0xDB) ? Match::maybe : Match::no;
}

Result<Model> read_flax(const Container& container) { return flax::FlaxReader(container).read(container); }

}  // namespace weightfs
