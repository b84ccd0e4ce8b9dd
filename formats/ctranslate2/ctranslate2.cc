// CTranslate2's model.bin: the variables of a model, each with its name, shape and bytes (models/model.cc).
#include <fmt/core.h>

#include <array>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/common/cursor.h"
#include "formats/common/type_codes.h"
#include "formats/common/warnings.h"
#include "formats/format.h"

namespace weightfs {
namespace ctranslate2 {
namespace {

// What the versions of the format have added.
constexpr uint32_t kWithSpec = 2;
constexpr uint32_t kWithAliases = 3;
constexpr uint32_t kWithTypes = 4;
constexpr uint32_t kNewest = 6;

// A variable has a name, a rank, a type and a number of bytes or items.
constexpr uint64_t kSmallestVariable = 2 + 1 + 1 + 4;
constexpr uint64_t kSmallestAlias = 2 + 2;

// Scalars that are settings.
constexpr size_t kMaxSettings = 1024;

constexpr std::array kTypes = {
    TypeCode{0, "float32", "float32"}, TypeCode{1, "int8", "int8"},       TypeCode{2, "int16", "int16"},
    TypeCode{3, "int32", "int32"},     TypeCode{4, "float16", "float16"}, TypeCode{5, "bfloat16", "bfloat16"},
};
// Before types were stored: by the size of an item.
constexpr std::array kOldTypes = {TypeCode{1, "int8", "int8"}, TypeCode{2, "int16", "int16"},
                                  TypeCode{4, "float32", "float32"}};
constexpr TypeCodes<> kElementTypes(kTypes);
constexpr TypeCodes<> kItemTypes(kOldTypes);

class Reader {
 public:
  explicit Reader(const Container& container)
      : container_(container), budget_(*container.budget), in_(*container.bytes, 0, container.bytes->size()) {}

  Result<Model> read() {
    version_ = TRY(in_.number<uint32_t>());
    if (version_ == 0 || version_ > kNewest)
      return failure(Code::unsupported, fmt::format("version {}, 1 to {} are read", version_, kNewest));
    if (version_ >= kWithSpec) {
      spec_ = TRY(text());
      revision_ = TRY(in_.number<uint32_t>());
    }
    auto read = read_variables();
    if (!read && !(in_.has_ended() && !model_.tensors.empty())) return tl::unexpected(read.error());
    if (!read) warnings_.miss_tensors(missing_, Code::corrupt, "the file was cut: {}", read.error().message);
    model_.format = "ctranslate2";
    model_.version = std::to_string(version_);
    if (version_ >= kWithSpec) {
      model_.metadata.append("spec", std::move(spec_));
      model_.metadata.append("revision", revision_);
    }
    if (!settings_.empty()) model_.metadata.append("settings", std::move(settings_));
    if (!aliases_.empty()) model_.metadata.append("aliases", std::move(aliases_));
    model_.parts.push_back({container_.name, Later<SourcePtr>::of(container_.bytes)});
    std::move(warnings_).move_to(model_);
    return std::move(model_);
  }

 private:
  // A length with its NUL, and the bytes.
  Result<std::string> text() {
    const auto size = TRY(in_.number<uint16_t>());
    std::string out = TRY(in_.text(size));
    if (out.empty() || out.back() != '\0')
      return failure(Code::corrupt, fmt::format("a name before byte {} has no end", in_.position()));
    out.pop_back();
    return out;
  }

  Result<void> read_variables() {
    const auto stated = TRY(in_.number<uint32_t>());
    const uint64_t count = TRY(in_.bounded(stated, kSmallestVariable));
    for (uint64_t i = 0; i < count; ++i) {
      missing_ = count - i;
      TRY_VOID(read_variable());
    }
    missing_ = 0;
    if (version_ >= kWithAliases) TRY_VOID(read_aliases());
    if (in_.left() > 0) warnings_.add("{} bytes behind the last variable", in_.left());
    return {};
  }

  Result<void> read_variable() {
    Tensor tensor;
    tensor.name = TRY(text());
    const auto rank = TRY(in_.number<uint8_t>());
    for (uint8_t i = 0; i < rank; ++i) {
      const auto size = TRY(in_.number<uint32_t>());
      tensor.shape.push_back(size);
    }
    const auto code = TRY(in_.number<uint8_t>());
    const TypeCodes<>& types = version_ >= kWithTypes ? kElementTypes : kItemTypes;
    const TypeCode* const type = types.find(code);
    if (type == nullptr) return failure(Code::corrupt, fmt::format("variable {}: type {}", quoted(tensor.name), code));
    tensor.dtype = dtype_of(type);
    tensor.stored_dtype = type->name;
    const auto stated = TRY(in_.number<uint32_t>());
    const uint64_t size = uint64_t{stated} * (version_ >= kWithTypes ? 1 : tensor.dtype->block_bytes);
    const uint64_t at = in_.position();
    TRY_VOID(in_.skip(size));
    if (size_in_bytes(*tensor.dtype, tensor.shape) == size)
      tensor.source = TRY(slice(container_.bytes, at, size));
    else
      warnings_.refuse(Code::corrupt, "tensor {}: {} bytes, which is not the size of its shape: refused",
                       quoted(tensor.name), size);
    TRY_VOID(budget_.charge(Cost::tensor));
    TRY_VOID(budget_.charge(Cost::kept, tensor.name.size() + sizeof(uint64_t) * tensor.shape.size()));
    if (rank == 0 && !tensor.source.refused() && settings_.size() < kMaxSettings) TRY_VOID(add_setting(tensor));
    model_.tensors.push_back(tensor);
    return {};
  }

  // A scalar of an integer type is a setting of the model: num_heads, pre_norm.
  Result<void> add_setting(const Tensor& tensor) {
    if (!tensor.stored_dtype.starts_with("int")) return {};
    const std::string bytes = TRY(read_text(tensor.source, 0, tensor.source.size()));
    const size_t unused = 64 - 8 * bytes.size();
    TRY_VOID(budget_.charge(Cost::value, 2));
    TRY_VOID(budget_.charge(Cost::kept, tensor.name.size()));
    settings_.set(tensor.name, static_cast<int64_t>(little_endian(bytes) << unused) >> unused);
    return {};
  }

  // Further names of variables, such as tied weights.
  Result<void> read_aliases() {
    const auto stated = TRY(in_.number<uint32_t>());
    const uint64_t count = TRY(in_.bounded(stated, kSmallestAlias));
    for (uint64_t i = 0; i < count; ++i) {
      std::string alias = TRY(text());
      std::string name = TRY(text());
      TRY_VOID(budget_.charge(Cost::value, 2));
      TRY_VOID(budget_.charge(Cost::kept, alias.size() + name.size()));
      aliases_.append(std::move(alias), std::move(name));
    }
    aliases_.keep_last_of_each_key();
    return {};
  }

  const Container& container_;
  Budget& budget_;
  Cursor in_;
  Model model_;
  Warnings warnings_;
  uint32_t version_ = 0;
  std::string spec_;
  uint32_t revision_ = 0;
  uint64_t missing_ = 0;  // variables that are not read yet
  Map settings_, aliases_;
};

// A text at an offset, behind its length: visible ASCII and its NUL.
std::optional<std::string_view> text_at(std::string_view head, size_t at) {
  constexpr size_t kLength = 2;
  if (at + kLength > head.size()) return std::nullopt;
  const auto length = static_cast<size_t>(little_endian(head.substr(at, kLength)));
  const std::string_view text = head.substr(at + kLength, length);
  if (length == 0 || text.size() != length || text.back() != '\0') return std::nullopt;
  const std::string_view out = text.substr(0, length - 1);
  return out.empty() || is_visible_ascii(out) ? std::optional(out) : std::nullopt;
}

// Whether a variable goes on here, behind its name: its dimensions, its type or the size of an item, and the number of
// bytes or items, which has to fit.
bool continues_variable(std::string_view bytes, uint64_t version) {
  constexpr size_t kMaxRank = 8, kDimension = 4;
  const size_t rank = bytes.empty() ? kMaxRank + 1 : static_cast<uint8_t>(bytes.front());
  if (rank > kMaxRank || bytes.size() < 1 + kDimension * rank + 1 + kDimension) return false;
  const std::string_view rest = bytes.substr(1 + kDimension * rank);
  const bool has_type = version >= kWithTypes;
  const TypeCode* const type = (has_type ? kElementTypes : kItemTypes).find(static_cast<uint8_t>(rest.front()));
  if (type == nullptr) return false;
  uint64_t items = has_type ? dtype_of(type)->block_bytes : 1;
  for (size_t i = 0; i < rank; ++i) {
    const uint64_t size = little_endian(bytes.substr(1 + kDimension * i, kDimension));
    if (__builtin_mul_overflow(items, size, &items)) return false;
  }
  return items == little_endian(rest.substr(1, kDimension));
}

// From version 2 on, a specification comes first. Its name ends with "Spec" since 1.10; before that it is that of a
// converter, or empty, and the first variable decides.
Match match_with_spec(std::string_view head, uint64_t version) {
  constexpr size_t kNumbers = 4 + 4;  // the revision, and the number of variables
  const auto spec = text_at(head, 4);
  if (!spec) return Match::no;
  if (spec->ends_with("Spec")) return Match::yes;
  if (version > kNewest) return Match::no;
  const size_t name_at = 4 + 2 + spec->size() + 1 + kNumbers;
  const auto first = text_at(head, name_at);
  if (!first || first->empty()) return Match::no;
  return continues_variable(head.substr(name_at + 2 + first->size() + 1), version) ? Match::yes : Match::no;
}

}  // namespace
}  // namespace ctranslate2

// A version and the name of a specification. The first version has a number of variables and the first one instead.
Match matches_ctranslate2(const Probe& probe) {
  constexpr uint64_t kMaxVersion = 100;
  constexpr size_t kFirst = 8;  // of the first variable's name in version 1
  if (probe.head.size() < 12) return Match::no;
  const uint64_t version = little_endian(probe.head.substr(0, 4));
  if (version > 1 && version <= kMaxVersion) return ctranslate2::match_with_spec(probe.head, version);
  const auto first = ctranslate2::text_at(probe.head, kFirst);
  if (version != 1 || !first || first->find('/') == first->npos) return Match::no;
  const std::string_view rest = probe.head.substr(kFirst + 2 + first->size() + 1);
  return ctranslate2::continues_variable(rest, version) ? Match::yes : Match::maybe;
}

Result<Model> read_ctranslate2(const Container& container) { return ctranslate2::Reader(container).read(); }

}  // namespace weightfs
