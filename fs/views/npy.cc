#include "fs/views/npy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/float32.h"
#include "formats/numpy/npy_header.h"
#include "fs/views/unpacked.h"
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

// The dimensions of the array of the tensor's bytes.
Shape array_shape(const TensorView& tensor) {
  const DType& dtype = *tensor.dtype;
  if (!dtype.npy_packed) return tensor.shape;
  if (tensor.shape.empty() || tensor.shape.back() % dtype.block != 0) return {tensor.nbytes()};
  Shape shape = tensor.shape;
  shape.back() = shape.back() / dtype.block * dtype.block_bytes;
  return shape;
}

// The header for an array of a type with this code.
std::string header_of(std::string_view code, ShapeView shape) { return npy_header(fmt::format("'{}'", code), shape); }

constexpr std::string_view kFloat32Descr = "<f4";

// Whether the .npy view has numbers instead of the bytes of blocks, which no program but ggml reads.
bool is_dequantised(const TensorView& tensor) {
  return tensor.dtype->block > 1 && tensor.dtype->npy_descr.empty() && has_float32_npy(tensor);
}

}  // namespace

bool has_npy(const TensorView& tensor) {
  if (tensor.source.refused() || tensor.shape.size() > kMaxNpyDimensions) return false;
  return !tensor.dtype->npy_descr.empty() || is_dequantised(tensor);
}

bool has_float32_npy(const TensorView& tensor) {
  return !tensor.source.refused() && tensor.shape.size() <= kMaxNpyDimensions && has_float32(*tensor.dtype) &&
         size_in_bytes(*tensor.dtype, tensor.shape) == tensor.nbytes() &&
         element_count(tensor.shape) <= kMaxFloat32Elements;
}

bool has_string_npy(const Model& model, size_t tensor) {
  return model.strings->contains(tensor) && model.tensors[tensor].shape.size() <= kMaxNpyDimensions;
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
  if (is_dequantised(tensor)) return float32_npy_header(tensor);
  return header_of(tensor.dtype->npy_descr, array_shape(tensor));
}

std::string float32_npy_header(const TensorView& tensor) { return header_of(kFloat32Descr, tensor.shape); }

namespace {

// The bytes after the header.
uint64_t size_of_values(const TensorView& tensor) {
  if (is_dequantised(tensor)) return element_count(tensor.shape) * sizeof(float);
  return tensor.dtype->packed_bits == 0 ? tensor.nbytes() : element_count(tensor.shape);
}

SourcePtr values_of(const TensorView& tensor) {
  if (is_dequantised(tensor)) return float32_values(tensor);
  auto stored = std::make_shared<Slice>(tensor.source);
  if (tensor.dtype->packed_bits == 0) return stored;
  return unpacked(std::move(stored), *tensor.dtype, element_count(tensor.shape));
}

bool has_either(const Model& model, size_t tensor) {
  return has_npy(model.tensors[tensor]) || has_string_npy(model, tensor) || model.npy_files->contains(tensor);
}

std::optional<uint64_t> npy_size(const Model& model, size_t tensor) {
  if (model.strings->contains(tensor)) return std::nullopt;
  if (const auto file = model.npy_files->find(tensor); file != model.npy_files->end()) return file->second.size();
  const TensorView& its = model.tensors[tensor];
  return npy_header(its).size() + size_of_values(its);
}

Result<SourcePtr> open_npy(const Model& model, size_t index) {
  if (const auto file = model.npy_files->find(index); file != model.npy_files->end())
    return std::make_shared<Slice>(file->second);
  const TensorView& tensor = model.tensors[index];
  const auto texts = model.strings->find(index);
  if (texts == model.strings->end()) return concat({in_memory(npy_header(tensor)), values_of(tensor)});
  // The longest string is searched in each of them, and many tensors may share one list.
  const auto all = TRY(texts->second.get());
  if (model.budget != nullptr) TRY_VOID(model.budget->charge(Cost::step, all->size()));
  return string_npy(tensor.shape, all);
}

}  // namespace

extern const View kNpyView;
const View kNpyView = {.directory = "npy", .suffix = ".npy", .has = has_either, .size = npy_size, .open = open_npy};

}  // namespace weightfs::views
