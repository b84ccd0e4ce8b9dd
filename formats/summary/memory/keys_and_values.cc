#include "formats/summary/memory/keys_and_values.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "formats/summary/memory/parts.h"

namespace weightfs::summary {
namespace {

constexpr auto kKvTypes =
    std::to_array<std::string_view>({"f16", "bf16", "f32", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"});
constexpr uint64_t kPadding = 256;  // of the tokens

uint64_t padded(uint64_t tokens) { return (tokens + kPadding - 1) / kPadding * kPadding; }

// The bytes of `heads` keys or values for a token.
Result<uint64_t> row_bytes(uint64_t heads, uint64_t size, const DType& type, std::string_view name) {
  if (size % type.block != 0)
    return failure(Code::unsupported, fmt::format("{} keeps blocks of {}, which do not divide a head of {}; use f16",
                                                  name, type.block, size));
  const Number bytes = product(heads, product(size / type.block, type.block_bytes));
  if (!bytes) return failure(Code::unsupported, "a token has more keys and values than any memory");
  return *bytes;
}

}  // namespace

std::span<const std::string_view> kv_types() { return kKvTypes; }

const DType* kv_type_named(std::string_view name) {
  if (std::ranges::find(kKvTypes, name) == kKvTypes.end()) return nullptr;
  if (name == "f16") return dtype_named("float16");
  if (name == "bf16") return dtype_named("bfloat16");
  return dtype_named(name == "f32" ? "float32" : name);
}

uint64_t kept_tokens(const MemoryChoice& choice, Number window) {
  const uint64_t context = padded(choice.context);
  if (!window || *window >= context) return context;
  return padded(std::min(context, *window + std::min(choice.batch, choice.context)));
}

Result<uint64_t> kept_bytes(const LayerCache& layer, const MemoryChoice& choice) {
  const DType* const type = kv_type_named(choice.kv_type);
  if (type == nullptr)
    return failure(Code::unsupported, fmt::format("\"{}\" is not a type of keys and values", choice.kv_type));
  if (layer.heads == 0) return uint64_t{0};
  const uint64_t keys = TRY(row_bytes(layer.heads, layer.key, *type, choice.kv_type));
  const uint64_t values = TRY(row_bytes(layer.heads, layer.value, *type, choice.kv_type));
  const Number bytes = product(sum(keys, values), kept_tokens(choice, layer.window));
  if (bytes.value_or(kMostBytes) >= kMostBytes)
    return failure(Code::unsupported, "the keys and values have more bytes than any memory");
  return *bytes;
}

}  // namespace weightfs::summary
