#include "fs/views/npy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/numpy/npy_header.h"
#include "fs/views/converted.h"
#include "fs/views/view.h"

namespace weightfs::views {
namespace {

// The code points of UTF-8 text (strings of TOML are UTF-8).
std::u32string code_points(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(utf8_sequence(text), 1);
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    char32_t point = length == 1 ? byte(0) : byte(0) & (0x7FU >> length);
    for (size_t i = 1; i < length; ++i) point = point << 6 | (byte(i) & 0x3FU);
    out += point;
    text.remove_prefix(length);
  }
  return out;
}

// Strings as elements of equal width, padded with zeros: UTF-32, little-endian.
class StringElements final : public Source {
 public:
  StringElements(std::shared_ptr<const std::vector<std::string>> texts, uint64_t width)
      : texts_(std::move(texts)), width_(width) {}

  uint64_t size() const override { return texts_->size() * width_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size()) return size_t{0};
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(out.size(), size() - offset));
    for (size_t done = 0; done < wanted;) {
      const uint64_t at = offset + done;
      const std::string element = element_at(static_cast<size_t>(at / width_));
      const auto begin = static_cast<size_t>(at % width_);
      const size_t count = std::min(element.size() - begin, wanted - done);
      std::memcpy(out.data() + done, element.data() + begin, count);
      done += count;
    }
    return wanted;
  }

 private:
  std::string element_at(size_t i) const {
    std::string element;
    for (const char32_t point : code_points((*texts_)[i])) append_little_endian(element, point, sizeof point);
    element.resize(static_cast<size_t>(width_), '\0');
    return element;
  }

  std::shared_ptr<const std::vector<std::string>> texts_;
  uint64_t width_;  // bytes of an element
};

// The header for an array of a type with this code.
std::string header_of(std::string_view code, ShapeView shape) { return npy_header(fmt::format("'{}'", code), shape); }

// What the array of a .npy view has.
enum class Elements { none, stored, small_integers, float32 };

Elements elements_of(const TensorView& tensor) {
  const DType& dtype = *tensor.dtype;
  if (tensor.source.refused() || tensor.shape.size() > kMaxNpyDimensions) return Elements::none;
  if (dtype.npy_descr.empty()) return has_float32_npy(tensor) ? Elements::float32 : Elements::none;
  return dtype.packed_bits > 0 || dtype.low_bits > 0 ? Elements::small_integers : Elements::stored;
}

}  // namespace

std::string_view npy_type(const TensorView& tensor) {
  switch (elements_of(tensor)) {
    case Elements::none:
      return "";
    case Elements::stored:
      return tensor.dtype->name;
    case Elements::small_integers:
      return tensor.dtype->npy_descr == "|i1" ? "int8" : "uint8";
    case Elements::float32:
      return kFloat32.name;
  }
  return "";
}

bool has_stored_npy(const TensorView& tensor) { return elements_of(tensor) == Elements::stored; }

bool has_float32_npy(const TensorView& tensor) {
  return has_numbers(tensor) && tensor.shape.size() <= kMaxNpyDimensions;
}

bool has_string_npy(const Model& model, size_t tensor) {
  return model.per_tensor->strings.contains(tensor) && model.tensors[tensor].shape.size() <= kMaxNpyDimensions;
}

Result<SourcePtr> string_npy(ShapeView shape, std::shared_ptr<const std::vector<std::string>> texts) {
  uint64_t characters = 1;  // NumPy has no strings of length 0
  for (const std::string& text : *texts) characters = std::max<uint64_t>(characters, code_points(text).size());
  const uint64_t width = characters * sizeof(char32_t);
  if (texts->size() > kMaxStringArrayBytes / width)
    return failure(Code::unsupported, fmt::format("array of {} strings of up to {} characters is larger than {}",
                                                  texts->size(), characters, human_size(kMaxStringArrayBytes)));
  const std::string header = header_of(fmt::format("<U{}", characters), shape);
  return concat({in_memory(header), std::make_shared<StringElements>(std::move(texts), width)});
}

std::string npy_header(const TensorView& tensor) {
  const bool is_float32 = elements_of(tensor) == Elements::float32;
  return header_of(is_float32 ? kFloat32.npy_descr : tensor.dtype->npy_descr, tensor.shape);
}

std::string converted_npy_header(const TensorView& tensor, const DType& type) {
  return header_of(type.npy_descr, tensor.shape);
}

namespace {

// The bytes after the header.
uint64_t size_of_values(const TensorView& tensor) {
  switch (elements_of(tensor)) {
    case Elements::float32:
      return element_count(tensor.shape) * sizeof(float);
    case Elements::small_integers:
      return element_count(tensor.shape);
    default:
      return tensor.nbytes();
  }
}

SourcePtr values_of(const Model& model, size_t index) {
  const TensorView tensor = model.tensors[index];
  switch (elements_of(tensor)) {
    case Elements::float32:
      return converted(model, index, kFloat32);
    case Elements::small_integers:
      return unpacked(std::make_shared<Slice>(tensor.source), *tensor.dtype, element_count(tensor.shape));
    default:
      return std::make_shared<Slice>(tensor.source);
  }
}

bool has_either(const Model& model, size_t tensor) {
  return has_npy(model.tensors[tensor]) || has_string_npy(model, tensor) ||
         model.per_tensor->npy_files.contains(tensor);
}

std::optional<uint64_t> npy_size(const Model& model, size_t tensor) {
  if (model.per_tensor->strings.contains(tensor)) return std::nullopt;
  if (const auto file = model.per_tensor->npy_files.find(tensor); file != model.per_tensor->npy_files.end())
    return file->second.size();
  const TensorView& its = model.tensors[tensor];
  return npy_header(its).size() + size_of_values(its);
}

Result<SourcePtr> open_npy(const Model& model, size_t index) {
  if (const auto file = model.per_tensor->npy_files.find(index); file != model.per_tensor->npy_files.end())
    return std::make_shared<Slice>(file->second);
  const TensorView& tensor = model.tensors[index];
  const auto texts = model.per_tensor->strings.find(index);
  if (texts == model.per_tensor->strings.end()) return concat({in_memory(npy_header(tensor)), values_of(model, index)});
  // The longest string is searched in each of them, and many tensors may share one list.
  const auto all = TRY(texts->second.get());
  if (model.budget != nullptr) TRY_VOID(model.budget->charge(Cost::step, all->size()));
  return string_npy(tensor.shape, all);
}

}  // namespace

extern const View kNpyView;
const View kNpyView = {.directory = "npy", .suffix = ".npy", .has = has_either, .size = npy_size, .open = open_npy};

}  // namespace weightfs::views
