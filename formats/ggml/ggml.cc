// The files that whisper.cpp converts its models to: `ggml-base.bin`, older than GGUF (src/whisper.cpp,
// whisper_model_load). A header of numbers, mel filters, a vocabulary, then tensors up to the end of the file.
#include <fmt/core.h>

#include <array>

#include "base/text.h"
#include "formats/common/cursor.h"
#include "formats/common/flat.h"
#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/gguf/types.h"
#include "formats/grouped.h"

namespace weightfs {
namespace ggml {
namespace {

constexpr std::string_view kMagic = "lmgg";

// The formats of llama.cpp before GGUF, which are not read.
struct OtherMagic {
  std::string_view magic, name;
};
constexpr std::array kOthers = {OtherMagic{"tjgg", "GGJT"}, OtherMagic{"fmgg", "GGMF"}, OtherMagic{"algg", "GGLA"}};

// The numbers of the header, in order.
constexpr std::array<const char*, 11> kFields = {"n_vocab",       "n_audio_ctx", "n_audio_state", "n_audio_head",
                                                 "n_audio_layer", "n_text_ctx",  "n_text_state",  "n_text_head",
                                                 "n_text_layer",  "n_mels",      "ftype"};
constexpr size_t kMels = 9, kFileType = 10;

// No model comes near: the largest have a vocabulary of 51,866.
constexpr int32_t kMaxField = 10'000'000;
constexpr int32_t kMaxMels = 1024;
constexpr int32_t kMaxTokens = 1'000'000;

constexpr int32_t kMaxTensorDimensions = 4;  // GGML_MAX_DIMS
constexpr int32_t kMaxTensorName = 1024;
constexpr uint64_t kMinTensorSize = 12;
constexpr int32_t kQuantizationFactor = 1000;  // GGML_QNT_VERSION_FACTOR
constexpr uint64_t kTokenInput = 30;           // the charge of a token besides its bytes

class GgmlReader {
 public:
  explicit GgmlReader(const Container& container)
      : file_(container.bytes), budget_(*container.budget), in_(*file_, 0, file_->size()) {}

  Result<Model> read(const Container& container) {
    TRY_VOID(in_.skip(kMagic.size()));
    TRY_VOID(read_header());
    TRY_VOID(skip_filters());
    TRY_VOID(skip_vocabulary());
    TRY_VOID(read_tensors());
    model_.format = "ggml";
    model_.common.append("architecture", "whisper");
    flat::add_facts(model_.metadata, model_.format, std::move(facts_));
    std::move(warnings_).move_to(model_);
    model_.parts.push_back({container.name, Later<SourcePtr>::of(file_)});
    return std::move(model_);
  }

 private:
  Result<void> read_header() {
    for (size_t i = 0; i < kFields.size(); ++i) {
      const auto value = TRY(in_.number<int32_t>());
      const int32_t smallest = i == kFileType ? 0 : 1;
      if (value < smallest || value > (i == kMels ? kMaxMels : kMaxField))
        return failure(Code::unsupported, fmt::format("{} is {}: not a model of whisper.cpp", kFields[i], value));
      facts_.append(kFields[i], value);
      if (i == kFileType) add_file_type(value);
    }
    return {};
  }

  void add_file_type(int32_t type) {
    const auto name = gguf::file_type_name(static_cast<uint64_t>(type % kQuantizationFactor));
    if (!name.empty()) model_.common.append("file_type", std::string(name));
  }

  Result<void> skip_filters() {
    const auto mels = TRY(in_.number<int32_t>());
    const auto ffts = TRY(in_.number<int32_t>());
    if (mels < 0 || ffts < 0) return failure(Code::corrupt, fmt::format("mel filters of {} by {}", mels, ffts));
    // Two factors below 2^31 and the size of a float fit 64 bits.
    TRY_VOID(in_.skip(static_cast<uint64_t>(mels) * static_cast<uint64_t>(ffts) * sizeof(float)));
    facts_.append("mel_filters", List{Value(mels), Value(ffts)});
    return {};
  }

  Result<void> skip_vocabulary() {
    const auto count = TRY(in_.number<int32_t>());
    if (count < 0 || count > kMaxTokens)
      return failure(Code::corrupt, fmt::format("a vocabulary of {} tokens, at most {}", count, kMaxTokens));
    TRY_VOID(in_.bounded(static_cast<uint64_t>(count), sizeof(uint32_t)));
    for (int32_t i = 0; i < count; ++i) {
      TRY_VOID(budget_.charge(Cost::input, kTokenInput));
      const auto size = TRY(in_.number<uint32_t>());
      TRY_VOID(in_.skip(size));
    }
    facts_.append("tokens", count);
    return {};
  }

  // The first record that does not fit ends the list: no record has a length. Files for tests have no tensors.
  Result<void> read_tensors() {
    while (in_.left() > 0 && !is_cut_) {
      const uint64_t begin = in_.position();
      const auto read = read_tensor();
      if (read) continue;
      if (!is_about_the_bytes(read.error()) || is_exhausted_ || model_.tensors.empty())
        return tl::unexpected(read.error());
      warnings_.miss_tensors(1, Code::corrupt, "tensor {} at byte {}: {}; the rest of the file is not shown",
                             model_.tensors.size(), begin, read.error().message);
      break;
    }
    return {};
  }

  Result<void> read_tensor() {
    if (in_.left() < kMinTensorSize) return failure(Code::corrupt, fmt::format("{} left", counted_bytes(in_.left())));
    const auto dimensions = TRY(in_.number<int32_t>());
    const auto name_size = TRY(in_.number<int32_t>());
    const auto type_number = TRY(in_.number<int32_t>());
    if (dimensions < 0 || dimensions > kMaxTensorDimensions)
      return failure(Code::corrupt, fmt::format("{} dimensions, at most {}", dimensions, kMaxTensorDimensions));
    // Zeros would be scalars without a name.
    if (name_size < 1 || name_size > kMaxTensorName)
      return failure(Code::corrupt, fmt::format("a name of {} bytes, 1 to {} expected", name_size, kMaxTensorName));
    const gguf::TensorType type = gguf::tensor_type(static_cast<uint32_t>(type_number));
    if (type.dtype == &kUnknownDType) return failure(Code::unsupported, fmt::format("type {} is unknown", type_number));
    Shape shape;
    for (int32_t i = 0; i < dimensions; ++i) {
      const auto size = TRY(in_.number<int32_t>());
      if (size < 0) return failure(Code::corrupt, fmt::format("a dimension of size {}", size));
      shape.insert(shape.begin(), static_cast<uint64_t>(size));  // innermost first in the file
    }
    const std::string name = TRY(in_.text(static_cast<uint64_t>(name_size)));
    const auto size = size_in_bytes(*type.dtype, shape);
    if (!size)
      return failure(Code::corrupt, fmt::format("{}: its shape overflows, or rows are not whole blocks", quoted(name)));
    return add(name, type, std::move(shape), *size);
  }

  Result<void> add(const std::string& name, const gguf::TensorType& type, Shape shape, uint64_t size) {
    const auto paid = budget_.charge(Cost::tensor);
    const auto kept = budget_.charge(Cost::kept, name.size() + 8 * shape.size());
    is_exhausted_ = !paid || !kept;
    TRY_VOID(paid);
    TRY_VOID(kept);
    if (!type.note.empty()) warnings_.add("tensor {}: {}: {}", quoted(name), type.name, type.note);
    Tensor tensor;
    tensor.name = name;
    tensor.dtype = type.dtype;
    tensor.stored_dtype = type.name;
    tensor.shape = std::move(shape);
    is_cut_ = size > in_.left();
    if (is_cut_) {
      warnings_.refuse(Code::corrupt, "tensor {}: {} needed, {} left: refused", quoted(name), counted_bytes(size),
                       in_.left());
      warnings_.add_short_by(size - in_.left());
      model_.tensors.push_back(tensor);
      return {};
    }
    tensor.source = TRY(slice(file_, in_.position(), size));
    model_.tensors.push_back(tensor);
    return in_.skip(size);
  }

  SourcePtr file_;
  Budget& budget_;
  Cursor in_;
  Model model_;
  Map facts_;
  Warnings warnings_;
  bool is_exhausted_ = false;  // the budget
  bool is_cut_ = false;        // the file ends in a tensor
};

const OtherMagic* other_magic(std::string_view head) {
  for (const OtherMagic& other : kOthers)
    if (head.starts_with(other.magic)) return &other;
  return nullptr;
}

}  // namespace
}  // namespace ggml

Match matches_ggml(const Probe& probe) {
  return probe.head.starts_with(ggml::kMagic) || ggml::other_magic(probe.head) != nullptr ? Match::yes : Match::no;
}

Result<Model> read_ggml(const Container& container) {
  const std::string magic = TRY(read_text(*container.bytes, 0, ggml::kMagic.size()));
  if (const auto* const other = ggml::other_magic(magic))
    return failure(Code::unsupported, fmt::format("{}, a format of llama.cpp before GGUF, is not supported; "
                                                  "convert the model to GGUF",
                                                  other->name));
  if (magic != ggml::kMagic) return failure(Code::corrupt, "no magic number");
  return ggml::GgmlReader(container).read(container);
}

}  // namespace weightfs
