// MindSpore's .ckpt: the parameters of a network, without a magic number. As checkpoint.proto of MindSpore 2 describes
// it.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/common/limits.h"
#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/protobuf/dimensions.h"
#include "formats/protobuf/scanner.h"
#include "formats/string_pool.h"

namespace weightfs {
namespace mindspore {
namespace {

using protobuf::bytes;
using protobuf::Fields;
using protobuf::Message;
using protobuf::Range;
using protobuf::Scanner;
using protobuf::varint;

constexpr uint32_t kValue = bytes(1);    // of Checkpoint
constexpr uint32_t kTag = bytes(1);      // of Checkpoint.Value
constexpr uint32_t kTensor = bytes(2);   // of Checkpoint.Value
constexpr uint32_t kDims = 1;            // of TensorProto: the number of the field
constexpr uint32_t kType = bytes(2);     // of TensorProto
constexpr uint32_t kContent = bytes(3);  // of TensorProto

constexpr size_t kMaxSlices = 4096;  // of a parameter, each of 512 MiB
constexpr uint64_t kMaxType = 64;    // bytes
constexpr size_t kMaxShape = 256;    // bytes in front of a type that is searched for

// Types as MindSpore spells them; their dtypes are these in lower case.
constexpr auto kTypes =
    std::to_array<std::string_view>({"Float32", "Float16", "Float64", "BFloat16", "Int8", "Int16", "Int32", "Int64",
                                     "UInt8", "UInt16", "UInt32", "UInt64", "Bool", "Complex64", "Complex128"});

bool is_type(std::string_view name) { return std::ranges::find(kTypes, name) != kTypes.end(); }

// A value of the file: a parameter, or a slice of one.
struct Stored {
  std::string tag, type;
  bool is_tensor = false;
  Shape shape;
  std::optional<std::string> problem;  // of the shape
  Range content;
};

Result<void> read_tensor(Scanner& scanner, const Message& message, Stored& out) {
  out.is_tensor = true;
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == kType) out.type = TRY(scanner.text(field->bytes, kMaxType));
    if (field->tag == kContent) out.content = field->bytes;
    if (field->tag == varint(kDims) || field->tag == bytes(kDims))
      TRY_VOID(protobuf::read_dimensions(scanner, *field, out.shape, out.problem));
  }
  return {};
}

Result<Stored> read_value(Scanner& scanner, const Message& message) {
  Stored stored;
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == kTag) stored.tag = TRY(scanner.text(field->bytes, kMaxNameLength));
    if (field->tag != kTensor) continue;
    const Message tensor = TRY(scanner.child(message, *field));
    TRY_VOID(read_tensor(scanner, tensor, stored));
  }
  return stored;
}

class Reader {
 public:
  explicit Reader(const Container& container)
      : container_(container), scanner_(*container.bytes, container.budget.get()) {}

  Result<Model> read() {
    const Message whole = scanner_.whole();
    Fields fields(scanner_, whole);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != kValue)
        return failure(Code::corrupt, fmt::format("field {} is not a parameter", field->number()));
      const Message message = TRY(scanner_.child(whole, *field));
      Stored stored = TRY(read_value(scanner_, message));
      TRY_VOID(add(std::move(stored)));
    }
    TRY_VOID(finish_parameter());
    if (model_.tensors.empty()) return failure(Code::corrupt, "no parameters");
    model_.format = "mindspore";
    model_.parts.push_back({container_.name, Later<SourcePtr>::of(container_.bytes)});
    std::move(warnings_).move_to(model_);
    return std::move(model_);
  }

 private:
  // A parameter of more than 512 MiB is written as several values of one tag: those after the first add their bytes.
  Result<void> add(Stored stored) {
    if (stored.tag.empty()) return failure(Code::corrupt, "a parameter without a name");
    if (!stored.is_tensor) {
      warnings_.miss_tensors(1, Code::corrupt, "parameter {}: not a tensor: not shown", quoted(stored.tag));
      return {};
    }
    const bool is_slice = !slices_.empty() && first_.tag == stored.tag && first_.type == stored.type &&
                          size_of_slices() < size_in_bytes(*dtype(), first_.shape).value_or(0);
    if (!is_slice) {
      TRY_VOID(finish_parameter());
      first_ = std::move(stored);
      slices_ = {first_.content};
      return {};
    }
    bytes_of_slices_ += stored.content.size();
    if (slices_.size() == kMaxSlices)
      first_.problem = fmt::format("more than {} slices", kMaxSlices);
    else
      slices_.push_back(stored.content);
    return {};
  }

  uint64_t size_of_slices() const { return bytes_of_slices_ + first_.content.size(); }

  const DType* dtype() const { return is_type(first_.type) ? dtype_named(lower_case(first_.type)) : &kUnknownDType; }

  Result<void> finish_parameter() {
    if (slices_.empty()) return {};
    TRY_VOID(container_.budget->charge(Cost::tensor));
    TRY_VOID(container_.budget->charge(Cost::kept, first_.tag.size() + sizeof(uint64_t) * first_.shape.size()));
    const auto stored_dtype = TRY(pool_.add(first_.type, *container_.budget));
    Tensor tensor{.name = first_.tag,
                  .dtype = dtype(),
                  .stored_dtype = stored_dtype,
                  .scope = {},
                  .shape = first_.shape,
                  .source = {}};
    auto values = this->values();
    if (values)
      tensor.source = std::move(*values);
    else
      warnings_.refuse(values.error().code, "tensor {}: {}: refused", quoted(tensor.name), values.error().message);
    model_.tensors.push_back(tensor);
    slices_.clear();
    bytes_of_slices_ = 0;
    return {};
  }

  Result<Slice> values() const {
    if (first_.problem) return failure(Code::corrupt, *first_.problem);
    if (!is_type(first_.type)) return failure(Code::unsupported, fmt::format("type {}", quoted(first_.type)));
    const auto size = size_in_bytes(*dtype(), first_.shape);
    if (!size) return failure(Code::corrupt, "the size of its shape overflows 64 bits");
    if (size_of_slices() != *size)
      return failure(Code::corrupt, fmt::format("{} bytes, {} needed", size_of_slices(), *size));
    if (slices_.size() == 1) return slice(container_.bytes, first_.content.begin, *size);
    std::vector<SourcePtr> parts;
    for (const Range& range : slices_) {
      Slice part = TRY(slice(container_.bytes, range.begin, range.size()));
      parts.push_back(std::make_shared<Slice>(std::move(part)));
    }
    return slice(concat(std::move(parts)), 0, *size);
  }

  const Container& container_;
  Scanner scanner_;
  Model model_;
  StringPool pool_{model_.string_pool};
  Warnings warnings_;
  Stored first_;                  // the parameter that is being read
  std::vector<Range> slices_;     // its bytes; empty if there is none
  uint64_t bytes_of_slices_ = 0;  // of those after the first
};

// The value of the first field of `text`, and what follows it, as far as they are in `text`.
struct First {
  std::string_view value, rest;
};

// Nothing if the first field is another one.
std::optional<First> first_field(std::string_view text, uint32_t tag) {
  const SourcePtr source = in_memory(std::string(text));
  Scanner scanner(*source, nullptr);
  uint64_t at = 0;
  const auto found = scanner.number(at, text.size(), protobuf::WireType::varint);
  const auto size = found ? scanner.number(at, text.size(), protobuf::WireType::varint) : found;
  if (!size || *found != tag) return std::nullopt;
  const std::string_view value = text.substr(static_cast<size_t>(at), *size);
  return First{value, text.substr(static_cast<size_t>(at) + value.size())};
}

}  // namespace
}  // namespace mindspore

// A parameter: its name, then a tensor, which has the name of a type behind its dimensions.
Match matches_mindspore(const Probe& probe) {
  using namespace mindspore;
  const auto value = first_field(probe.head, kValue);
  const auto tag = value ? first_field(value->value, kTag) : std::nullopt;
  const auto tensor = tag ? first_field(tag->rest, kTensor) : std::nullopt;
  if (!tensor) return Match::no;
  const auto has_type = [&](std::string_view type) {
    const std::string field = fmt::format("\x12{}{}", static_cast<char>(type.size()), type);
    return tensor->value.substr(0, kMaxShape).find(field) != std::string_view::npos;
  };
  return std::ranges::any_of(kTypes, has_type) ? Match::maybe : Match::no;
}

Result<Model> read_mindspore(const Container& container) { return mindspore::Reader(container).read(); }

}  // namespace weightfs
