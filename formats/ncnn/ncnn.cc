// ncnn: a .param file with the layers as text, and a .bin file beside it with their weights.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/code/operators.h"
#include "formats/common/strided.h"
#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/grouped.h"
#include "formats/ncnn/layers.h"
#include "formats/ncnn/param.h"
#include "formats/ncnn/table_bytes.h"

namespace weightfs {
namespace ncnn {
namespace {

constexpr uint64_t kMaxParamSize = 16 << 20;

// ModelBinFromDataReader::load of ncnn: the tags of arrays, and the alignment of those with small elements.
constexpr uint32_t kFloat16 = 0x01306B47;
constexpr uint32_t kInt8 = 0x000D4B38;
constexpr uint32_t kFloat32 = 0x0002C056;
constexpr uint64_t kTagSize = 4;
constexpr uint64_t kAlignment = 4;

// Layers whose operators are counted one by one.
constexpr size_t kMaxOperators = 1024;

// An array in the .bin file: where it begins, and the bytes up to the next one.
struct Place {
  const DType* dtype;
  Slice bytes;
  uint64_t stored = 0;
};

class Reader {
 public:
  explicit Reader(const Container& container) : container_(container), budget_(*container.budget) {}

  Result<Model> read() {
    const uint64_t size = container_.bytes->size();
    if (size > kMaxParamSize)
      return failure(Code::unsupported, fmt::format("{} bytes, at most {} are read", size, kMaxParamSize));
    TRY_VOID(budget_.charge(Cost::input, size));
    const std::string text = TRY(read_text(*container_.bytes, 0, size));
    Charges charges(budget_, Charges::Pass::together);  // released with the network
    const Network network = TRY(parse_param(text, charges));
    TRY_VOID(open_weights());
    for (const Layer& layer : network.layers) TRY_VOID(read_layer(layer));
    report_end(network);
    TRY_VOID(add_metadata(network));
    std::move(code_).move_to(model_.common);
    model_.format = "ncnn";
    model_.parts.insert(
        model_.parts.begin(),
        {.path = container_.name, .source = Later<SourcePtr>::of(container_.bytes), .is_structure = true});
    std::move(warnings_).move_to(model_);
    return std::move(model_);
  }

 private:
  // "net.param" and "net.bin".
  Result<void> open_weights() {
    constexpr std::string_view kSuffix = ".param";
    std::string name = container_.name;
    if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
    name += ".bin";
    auto bytes = container_.folder == nullptr ? failure(Code::not_found, "not found") : open_below(container_, name);
    if (!bytes && is_fatal(container_, bytes.error())) return tl::unexpected(bytes.error());
    if (bytes) {
      weights_ = *bytes;
      model_.parts.push_back({name, Later<SourcePtr>::of(*bytes)});
    } else {
      missing_ = fmt::format("{}: {}", quoted(name), bytes.error().message);
      missing_code_ = bytes.error().code;
      stopped_ = "the file of the weights is missing";
    }
    return {};
  }

  Result<void> read_layer(const Layer& layer) {
    ++count_of(layer.type);
    const LayerArrays found = TRY(arrays_of(layer));
    if (!found.is_known) code::add_custom_operator(layer.type, code_);
    for (const Array& array : found.arrays) TRY_VOID(add(layer, array));
    if (found.is_complete || !incomplete_.empty()) return {};
    incomplete_ = fmt::format("the layer {} of type {}, which may read any number of bytes", quoted(layer.name),
                              quoted(layer.type));
    if (stopped_.empty()) stopped_ = fmt::format("it is behind {}", incomplete_);
    return {};
  }

  uint64_t& count_of(const std::string& type) {
    const bool is_new = !operators_.contains(type);
    return operators_[is_new && operators_.size() >= kMaxOperators ? "others" : type];
  }

  Result<void> add(const Layer& layer, const Array& array) {
    Tensor tensor;
    tensor.name = fmt::format("{}.{}", layer.name, array.field);
    tensor.dtype = dtype_named("float32");
    tensor.shape = array.shape;
    auto place = stopped_.empty() ? find(array) : failure(Code::corrupt, stopped_);
    if (!place && !is_about_the_bytes(place.error())) return tl::unexpected(place.error());
    if (place) {
      tensor.dtype = place->dtype;
      tensor.source = std::move(place->bytes);
      at_ += place->stored;
    } else {
      refuse(tensor, place.error());
    }
    tensor.stored_dtype = tensor.dtype->name;
    TRY_VOID(budget_.charge(Cost::tensor));
    TRY_VOID(budget_.charge(Cost::kept, tensor.name.size() + sizeof(uint64_t) * tensor.shape.size()));
    model_.tensors.push_back(tensor);
    return {};
  }

  // Nothing tells where the arrays behind a refused one are.
  void refuse(const Tensor& tensor, const Error& error) {
    if (stopped_.empty()) stopped_ = "an array before it is refused";
    ++refused_;
    if (missing_.empty()) warnings_.refuse(error.code, "tensor {}: {}: refused", quoted(tensor.name), error.message);
  }

  // The writers of ncnn and pnnx end every line.
  void report_end(const Network& network) {
    if (network.ends_in_a_line)
      warnings_.miss_tensors(0, Code::corrupt, "the last layer has no line break at its end: it may be cut");
    if (!missing_.empty() && (refused_ > 0 || !incomplete_.empty())) {
      warnings_.miss_file(missing_code_, "{}", missing_);
      if (incomplete_.empty()) warnings_.lose({missing_code_, missing_}, {});
    }
    if (weights_ == nullptr || refused_ > 0 || at_ == weights_->size()) return;
    if (at_ > weights_->size()) {
      warnings_.add_short_by(at_ - weights_->size());
      return warnings_.miss_tensors(0, Code::corrupt, "the padding behind the last array is cut");
    }
    const uint64_t left = weights_->size() - at_;
    if (!incomplete_.empty())
      warnings_.miss_tensors(1, Code::corrupt, "{} bytes of weights are in or behind {}", left, incomplete_);
    else
      warnings_.add("{} bytes behind the last array", left);
  }

  // The bytes of the next array.
  Result<Place> find(const Array& array) {
    const auto elements = elements_of(array.shape);
    if (!elements || *elements > UINT64_MAX / 8) return failure(Code::corrupt, "its size overflows 64 bits");
    if (array.kind == Array::Kind::plain) return plain("float32", at_, *elements);
    const std::string tag_bytes = TRY(read_text(*weights_, at_, kTagSize));
    const auto tag = static_cast<uint32_t>(little_endian(tag_bytes));
    auto place = tag == kFloat16                       ? plain("float16", at_ + kTagSize, *elements)
                 : tag == kInt8                        ? plain("int8", at_ + kTagSize, *elements)
                 : tag == kFloat32 || sum_of(tag) == 0 ? plain("float32", at_ + kTagSize, *elements)
                                                       : from_table(at_ + kTagSize, *elements);
    if (place) place->stored += kTagSize;
    return place;
  }

  // ncnn adds the bytes of a tag that it does not know.
  static uint32_t sum_of(uint32_t tag) { return (tag & 0xFF) + (tag >> 8 & 0xFF) + (tag >> 16 & 0xFF) + (tag >> 24); }

  Result<Place> plain(std::string_view type, uint64_t at, uint64_t elements) {
    const DType* const dtype = dtype_named(type);
    const uint64_t size = elements * dtype->block_bytes;
    Slice bytes = TRY(slice_at(at, size));
    return Place{dtype, std::move(bytes), aligned(size)};
  }

  // Numbers of one byte each, behind a table of the values that they stand for.
  Result<Place> from_table(uint64_t at, uint64_t elements) {
    const Slice table = TRY(slice_at(at, kTableSize));
    const Slice indices = TRY(slice_at(at + kTableSize, elements));
    const SourcePtr bytes = table_bytes(table, indices);
    Slice all = TRY(slice(bytes, 0, bytes->size()));
    TRY_VOID(charge_gathering(budget_, all, indices));
    return Place{dtype_named("float32"), std::move(all), kTableSize + aligned(elements)};
  }

  Result<Slice> slice_at(uint64_t at, uint64_t size) {
    const uint64_t left = weights_->size() - std::min(at, weights_->size());
    if (size > left) {
      warnings_.add_short_by(size - left);
      return failure(Code::corrupt, fmt::format("{} needed at byte {}, {} left", counted_bytes(size), at, left));
    }
    return slice(weights_, at, size);
  }

  static uint64_t aligned(uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

  Result<void> add_metadata(const Network& network) {
    model_.metadata.append("layers", network.layers.size());
    model_.metadata.append("blobs", network.blobs);
    Map operators;
    for (const auto& [name, count] : operators_) operators.append(name, count);
    model_.metadata.append("operators", std::move(operators));
    std::map<std::string, bool> is_read;
    for (const Layer& layer : network.layers)
      for (const std::string& blob : layer.bottoms) is_read[blob] = true;
    List inputs, outputs;
    for (const Layer& layer : network.layers) {
      for (const std::string& blob : layer.tops) {
        const bool is_input = layer.type == "Input";
        List& ends = is_input ? inputs : outputs;
        if ((!is_input && is_read.contains(blob)) || ends.size() >= kMaxInlineList) continue;
        TRY_VOID(budget_.charge(Cost::value, 8));
        TRY_VOID(budget_.charge(Cost::kept, blob.size()));
        ends.emplace_back(end_of(layer, blob));
      }
    }
    model_.metadata.append("inputs", std::move(inputs));
    model_.metadata.append("outputs", std::move(outputs));
    return {};
  }

  // The sizes of an input are optional: 0 width, 1 height, 11 depth, 2 channels.
  static Map end_of(const Layer& layer, const std::string& blob) {
    Map end;
    end.append("name", blob);
    List shape;
    for (const int id : {2, 11, 1, 0})
      if (layer.type == "Input" && layer.at(id) > 0) shape.emplace_back(layer.at(id));
    if (!shape.empty()) end.append("shape", std::move(shape));
    return end;
  }

  const Container& container_;
  Budget& budget_;
  Model model_;
  Warnings warnings_;
  CodeList code_;
  SourcePtr weights_;
  uint64_t at_ = 0;      // of the next array in the weights
  std::string stopped_;  // why the arrays from here on have no place; empty if they have
  std::string missing_;  // the error of the missing weights
  Code missing_code_ = Code::not_found;
  std::string incomplete_;  // the first layer that may read more than the arrays that are known; empty if there is none
  uint64_t refused_ = 0;
  std::map<std::string, uint64_t> operators_;
};

}  // namespace
}  // namespace ncnn

Match matches_ncnn(const Probe& probe) {
  if (!probe.head.starts_with(ncnn::kMagic) || probe.head.size() == ncnn::kMagic.size()) return Match::no;
  const char next = probe.head[ncnn::kMagic.size()];
  return next == '\n' || next == '\r' || next == ' ' ? Match::yes : Match::no;
}

Result<Model> read_ncnn(const Container& container) { return ncnn::Reader(container).read(); }

}  // namespace weightfs
