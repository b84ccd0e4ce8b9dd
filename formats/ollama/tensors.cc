#include "formats/ollama/tensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/common/flat.h"
#include "formats/common/limits.h"
#include "formats/gguf/file.h"

namespace weightfs::ollama {
namespace {

// Limits of all layers together, as those of one file.
constexpr uint64_t kMaxTensors = gguf::kMaxTensors;
constexpr uint64_t kMaxHeaderBytes = flat::kMaxHeaderSize;

constexpr const char* kWithout = "; its tensors are missing";

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

// The document leaves open how types are spelled: as safetensors does, ggml or NumPy.
const DType* dtype_spelled(std::string_view text) {
  if (const auto* const stored = flat::find_dtype(upper(text))) return stored->dtype;
  const DType* const dtype = dtype_named(lower_case(text));
  return dtype == nullptr || dtype->block_bytes == 0 ? nullptr : dtype;
}

// Parses `1,2,3`; the empty string is a scalar. Nothing if it is not a shape.
std::optional<Shape> shape_of(std::string_view text) {
  Shape shape;
  const auto trim = [](std::string_view part) {
    const size_t begin = std::min(part.find_first_not_of(' '), part.size());
    return part.substr(begin, part.find_last_not_of(' ') + 1 - begin);
  };
  if (trim(text).empty()) return shape;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = trim(text.substr(begin, end - begin));
    const auto size = parse_number<uint64_t>(part);
    if (!size || shape.size() == kMaxDimensions) return std::nullopt;
    shape.push_back(*size);
    begin = end + 1;
  }
  return shape;
}

// A kind of quantisation, by x/quant of Ollama.
struct Quantization {
  std::string_view name;
  std::string_view alias;
  uint64_t per_word;    // values in a U32
  uint64_t group_size;  // of values that share a scale, if the blob does not define it
};

constexpr std::array kQuantizations = {
    Quantization{"int4", "q4", 8, 64},  Quantization{"int4", "fp4", 8, 64}, Quantization{"int8", "q8", 4, 64},
    Quantization{"int8", "fp8", 4, 64}, Quantization{"nvfp4", "", 8, 16},   Quantization{"mxfp4", "", 8, 32},
    Quantization{"mxfp8", "", 4, 32},
};

const Quantization* quantization_named(std::string_view text) {
  const std::string name = lower_case(text);
  const auto row = std::find_if(kQuantizations.begin(), kQuantizations.end(),
                                [&](const Quantization& q) { return q.name == name || q.alias == name; });
  return row == kQuantizations.end() || name.empty() ? nullptr : &*row;
}

// The quantization of the tensors of one blob: for all, or by name.
class Quantized {
 public:
  explicit Quantized(const Model& blob) {
    for (const auto& [key, value] : blob.metadata)
      if (const std::string* const text = std::get_if<std::string>(&value)) texts_.emplace(key, text);
    for (size_t i = 0; i < blob.tensors.size(); ++i) names_.push_back(blob.tensors.name(i));
    std::sort(names_.begin(), names_.end());
  }

  // Nothing for an unquantised tensor. A companion, for example a scale, is one only beside its base.
  std::optional<Map> facts_of(const TensorView& tensor) const {
    const bool scaled = has_tensor(fmt::format("{}.scale", tensor.name));
    const std::string* const type = own_or_common(tensor, "quant_type");
    if (type == nullptr || (!scaled && !texts_.contains(fmt::format("{}.quant_type", tensor.name))))
      return std::nullopt;
    const Quantization* const known = quantization_named(*type);
    Map facts;
    facts.append("quant_type", known == nullptr ? Value(*type) : Value(known->name));
    if (const std::string* const size = own_or_common(tensor, "group_size"))
      facts.append("group_size", number_or_text(*size));
    else if (known != nullptr)
      facts.append("group_size", known->group_size);
    if (known != nullptr && tensor.stored_dtype == "U32") add_shape(facts, tensor.shape, known->per_word);
    return facts;
  }

 private:
  const std::string* own_or_common(const TensorView& tensor, std::string_view key) const {
    const auto own = texts_.find(fmt::format("{}.{}", tensor.name, key));
    if (own != texts_.end()) return own->second;
    const auto common = texts_.find(key);
    return common == texts_.end() ? nullptr : common->second;
  }

  bool has_tensor(std::string_view name) const { return std::binary_search(names_.begin(), names_.end(), name); }

  static Value number_or_text(const std::string& text) {
    const auto number = parse_number<uint64_t>(text);
    return number ? Value(*number) : Value(text);
  }

  static void add_shape(Map& facts, ShapeView stored, uint64_t per_word) {
    if (stored.empty() || stored.back() > UINT64_MAX / per_word) return;
    List shape(stored.begin(), stored.end());
    shape.back() = stored.back() * per_word;
    facts.append("shape", std::move(shape));
  }

  std::map<std::string_view, const std::string*, std::less<>> texts_;
  std::vector<std::string_view> names_;  // sorted; a hash table would be slow for names that collide
};

Result<uint64_t> header_length(const Source& bytes) {
  if (TRY(detect_content(bytes)) != Content::safetensors) return failure(Code::corrupt, "not a safetensors file");
  return flat::read_length(bytes);
}

Container container_of(const Item& item, const SourcePtr& bytes, const BudgetPtr& budget) {
  return {.name = item.layer.path, .bytes = bytes, .budget = budget};
}

}  // namespace

// Whether a failure is about a blob's bytes; then it was added as a warning. Other failures are returned.
template <class T>
Result<bool> Tensors::reported(const Item& item, const Result<T>& failed) {
  if (failed) return false;
  if (!is_about_the_bytes(failed.error())) return tl::unexpected(failed.error());
  warnings_.miss_file(failed.error().code, "{}: {}{}", quoted(item.layer.path), failed.error().message, kWithout);
  return true;
}

void Tensors::take_tensors(const Item& item, Model read, std::string_view scope) {
  const std::string subject = quoted(item.layer.path) + ": ";
  warnings_.append(read, subject);
  model_.string_pool.splice(model_.string_pool.end(), read.string_pool);
  for (TensorView tensor : read.tensors) {
    tensor.scope = scope;
    model_.tensors.push_back(tensor);
  }
}

Result<void> Tensors::add_model(const Item& item) {
  // The header of one blob may be long, and the layers that name it many.
  if (!models_.insert(*item.layer.descriptor.digest).second) {
    warnings_.add("{}: same as an earlier layer; its tensors are shown once", quoted(item.layer.path));
    return {};
  }
  const auto found = item.blob->found.get();
  const auto bytes = item.blob->bytes.get();
  if (TRY(reported(item, found)) || TRY(reported(item, bytes))) return {};
  const std::string file = found->unverified->identity();
  if (!file.empty() && !model_files_.insert(file).second) {
    warnings_.add("{}: same file as an earlier layer; its tensors are shown once", quoted(item.layer.path));
    return {};
  }
  const auto look = detect_content(*found->unverified);
  if (TRY(reported(item, look))) return {};
  if (*look == Content::other) {
    warnings_.miss_file(Code::corrupt, "{}: neither GGUF nor safetensors{}", quoted(item.layer.path), kWithout);
    return {};
  }
  auto read = read_from_unverified(container_of(item, found->unverified, budget_), *bytes);
  if (TRY(reported(item, read))) return {};
  if (!has_room_for(item, read->tensors.size())) return {};
  const bool first = !std::exchange(has_model_, true);
  if (first) {
    model_.common = std::move(read->common);
    model_.gguf_keys = std::move(read->gguf_keys);
    if (read->add_facts) read->add_facts(read->metadata);
    model_.metadata.append(read->format, std::move(read->metadata));
    for (Document& document : read->documents) model_.documents.push_back(std::move(document));
  }
  const std::string& path = item.layer.path;
  take_tensors(item, std::move(*read), first ? std::string_view() : spellings_.add(path.substr(0, path.rfind('.'))));
  return {};
}

Result<void> Tensors::add_tensor(const Item& item) {
  if (!has_room_for(item, 1)) return {};
  return item.layer.dtype ? add_bare(item) : add_file(item);
}

// The document layout: the blob is the tensor's bytes, described by its media type.
Result<void> Tensors::add_bare(const Item& item) {
  const auto bytes = item.blob->bytes.get();
  if (TRY(reported(item, bytes))) return {};
  const Layer& layer = item.layer;
  if (layer.name.size() > kMaxNameLength) {
    warnings_.miss_tensors(1, Code::unsupported, "tensor {}: a name of {} bytes, at most {}{}", quoted(layer.name),
                           layer.name.size(), kMaxNameLength, kWithout);
    return {};
  }
  Tensor tensor;
  tensor.name = layer.name;
  tensor.stored_dtype = spellings_.add(*layer.dtype);
  tensor.dtype = &kUnknownDType;
  tensor.source = TRY(slice(*bytes, 0, (*bytes)->size()));
  const DType* const dtype = dtype_spelled(*layer.dtype);
  const auto shape = layer.shape ? shape_of(*layer.shape) : std::nullopt;
  const auto warn = [&](const std::string& problem) {
    warnings_.add("tensor {}: {}; shown as bytes", quoted(tensor.name), problem);
  };
  tensor.shape = shape.value_or(Shape{tensor.nbytes()});
  if (!shape) {
    warn(fmt::format("{}{}", layer.shape ? "a shape of " : "no shape", layer.shape ? quoted(*layer.shape) : ""));
  } else if (dtype == nullptr) {
    warn(fmt::format("dtype {} is unknown", quoted(*layer.dtype)));
  } else if (const auto needed = size_in_bytes(*dtype, *shape); needed != tensor.nbytes()) {
    warn(fmt::format("{} bytes, but its shape and dtype {} {}", tensor.nbytes(), tensor.stored_dtype,
                     needed ? fmt::format("need {}", *needed) : "overflow 64 bits or do not fill whole blocks"));
  } else {
    tensor.dtype = dtype;
  }
  model_.per_tensor.edit().digests.emplace(model_.tensors.size(), *layer.descriptor.digest);
  model_.tensors.push_back(tensor);
  return {};
}

// What Ollama writes: a small safetensors file.
Result<void> Tensors::add_file(const Item& item) {
  const Digest& digest = *item.layer.descriptor.digest;
  if (read_.contains(digest)) return add_copies(item);
  if (const auto failed = failures_.find(digest); failed != failures_.end()) {
    warnings_.miss_file(failed->second.code, "{}: {}{}", quoted(item.layer.path), failed->second.message, kWithout);
    return {};
  }
  const auto found = item.blob->found.get();
  const auto bytes = item.blob->bytes.get();
  if (TRY(reported(item, found)) || TRY(reported(item, bytes))) return {};
  const auto length = header_length(*found->unverified);
  if (!length) failures_.emplace(digest, length.error());
  if (TRY(reported(item, length)) || !has_room_for_header(item, *length)) return {};
  auto read = read_from_unverified(container_of(item, found->unverified, budget_), *bytes);
  if (!read) failures_.emplace(digest, read.error());
  if (TRY(reported(item, read)) || !has_room_for(item, read->tensors.size())) return {};
  // Ollama wrote so in the first weeks of 2026.
  const bool by_layer = read->tensors.size() == 1 && read->tensors[0].name == "data" && !item.layer.name.empty();
  if (by_layer) {
    TensorView only = read->tensors[0];
    only.name = item.layer.name;
    read->tensors.replace(0, only);
  }
  const Quantized quantized(*read);
  for (const TensorView& tensor : read->tensors)
    if (auto facts = quantized.facts_of(tensor)) quantization_.append(std::string(tensor.name), std::move(*facts));
  read_[digest] = {*length, model_.tensors.size(), read->tensors.size(), by_layer};
  take_tensors(item, std::move(*read), "");
  return {};
}

// A blob that another layer named before: its tensors once more, without reading it again.
Result<void> Tensors::add_copies(const Item& item) {
  const Read& read = read_.at(*item.layer.descriptor.digest);
  if (!has_room_for_header(item, read.header) || !has_room_for(item, read.count)) return {};
  const auto paid = budget_->charge(Cost::tensor, read.count);
  if (TRY(reported(item, paid))) return {};
  for (size_t i = read.begin; i < read.begin + read.count; ++i) {
    TensorView copy = model_.tensors[i];
    if (read.named_by_layer) copy.name = item.layer.name;
    const auto kept = budget_->charge(Cost::kept, copy.name.size() + copy.shape.size() * sizeof(uint64_t));
    if (TRY(reported(item, kept))) return {};
    model_.tensors.push_back(copy);
  }
  return {};
}

bool Tensors::has_room_for(const Item& item, size_t tensors) {
  if (tensors <= kMaxTensors - model_.tensors.size()) return true;
  warnings_.miss_tensors(tensors, Code::unsupported, "{}: more than {} tensors{}", quoted(item.layer.path), kMaxTensors,
                         kWithout);
  return false;
}

// Headers are bounded all together, or the same blob in each of many layers would fill the memory.
bool Tensors::has_room_for_header(const Item& item, uint64_t length) {
  if (length <= kMaxHeaderBytes - headers_) {
    headers_ += length;
    return true;
  }
  warnings_.miss_file(Code::unsupported, "{}: headers of more than {} bytes in all{}", quoted(item.layer.path),
                      kMaxHeaderBytes, kWithout);
  return false;
}

Map Tensors::take_quantization() {
  quantization_.keep_last_of_each_key();
  return std::exchange(quantization_, {});
}

}  // namespace weightfs::ollama
