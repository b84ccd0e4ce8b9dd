#include "formats/mapping/agreement.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/text.h"
#include "formats/mapping/config/settings.h"
#include "formats/names/names.h"

namespace weightfs::mapping {
namespace {

constexpr uint32_t of(std::initializer_list<Arch> archs) {
  uint32_t bits = 0;
  for (const Arch arch : archs) bits |= bit(arch);
  return bits;
}

constexpr uint32_t kGemmaFamily = of({Arch::gemma2, Arch::gemma3, Arch::gemma4});

bool is_one_of(const Repository& repository, uint32_t archs) {
  return (bit(repository.architecture().id) & archs) != 0;
}

Error computes(const Repository& repository, std::string_view what, std::string_view stated) {
  return {Code::unsupported, fmt::format("llama.cpp computes {} with {}, config.json states {}",
                                         repository.architecture().name, what, stated)};
}

// The activation of the feed-forward network is part of an architecture.
Result<void> check_activation(Repository& repository) {
  const std::string stated = repository.config().text({"hidden_activation", "hidden_act"});
  const bool is_bert = repository.architecture().id == Arch::bert;
  const std::string_view expected = is_one_of(repository, kGemmaFamily) ? "gelu_pytorch_tanh"
                                    : is_bert                           ? std::string_view("gelu")
                                                                        : "silu";
  if (stated.empty() || stated == expected || (expected == "silu" && stated == "swish")) return {};
  return failure(computes(repository, expected, printable(stated)));
}

// The scale of attention of Gemma 2 and 3 depends on the number of layers (src/models/gemma2.cpp, gemma3.cpp).
Result<void> check_scale(Repository& repository) {
  const Arch arch = repository.architecture().id;
  const summary::Fields config = repository.config();
  const auto stated = config.real({"query_pre_attn_scalar"});
  if (!stated || (arch != Arch::gemma2 && arch != Arch::gemma3)) return {};
  const uint64_t layers = config.number({"num_hidden_layers"}).value_or(0);
  const uint64_t heads = config.number({"num_attention_heads"}).value_or(0);
  const bool is_27b = layers == (arch == Arch::gemma2 ? 46U : 62U);
  const auto head = config.number({"head_dim"});
  const uint64_t hidden = config.number({"hidden_size"}).value_or(0);
  if (is_27b ? heads == 0 : !head) return {};  // a default of the class
  const uint64_t expected = is_27b ? hidden / heads : *head;
  if (std::fabs(*stated - static_cast<double>(expected)) < 0.5) return {};
  return failure(
      computes(repository, fmt::format("a query_pre_attn_scalar of {}", expected), fmt::format("{}", *stated)));
}

// Whether the weights of the chosen experts are divided by their sum (build_moe_ffn in src/models/).
Result<void> check_router(Repository& repository) {
  const Arch arch = repository.architecture().id;
  if (!is_one_of(repository, of({Arch::qwen2moe, Arch::qwen3moe, Arch::qwen35moe}))) return {};
  const bool expected = arch != Arch::qwen2moe;
  const auto stated = repository.config().flag("norm_topk_prob");
  if (!stated || *stated == expected) return {};
  return failure(computes(repository, expected ? "norm_topk_prob" : "no norm_topk_prob", *stated ? "true" : "false"));
}

// Architectures that rotate whole heads, whatever a field of theirs states.
Result<void> check_rotation(Repository& repository) {
  constexpr uint32_t kPartial = of({Arch::phi3, Arch::glm4, Arch::qwen35, Arch::qwen35moe, Arch::gemma4});
  const auto stated = repository.config().real({"partial_rotary_factor"});
  if (!stated || *stated == 1 || is_one_of(repository, kPartial)) return {};
  return failure(computes(repository, "a partial_rotary_factor of 1", fmt::format("{}", *stated)));
}

// A tensor of the GGUF by its name; nothing if there is none.
std::optional<TensorView> named(const TensorList& tensors, std::string_view name) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors.name(i) == name) return tensors[i];
  return std::nullopt;
}

// llama.cpp uses the embeddings where a GGUF has no output.
Result<void> check_output(Repository& repository, const TensorList& tensors) {
  const auto is_tied = repository.config().flag("tie_word_embeddings");
  if (is_tied.value_or(true) || is_one_of(repository, kGemmaFamily | bit(Arch::bert)) ||
      named(tensors, "output.weight"))
    return {};
  const TensorList& stored = repository.model().tensors;
  const auto is_of_a_whole_model = [](const TensorView& tensor) { return tensor.name.starts_with("model."); };
  if (std::ranges::none_of(stored, is_of_a_whole_model)) return {};  // a model without a head, for embeddings
  return failure(Code::unsupported, "lm_head.weight is missing, and tie_word_embeddings is false");
}

// A size that config.json states, and the dimension of a tensor that has it.
struct Size {
  std::string_view tensor;
  size_t dimension;
  uint64_t stated;  // 0: not stated
  std::string_view field;
};

Result<void> check_sizes(Repository& repository, const TensorList& tensors) {
  const summary::Fields config = repository.config();
  const uint64_t hidden = config.number({"hidden_size", "n_embd", "dim"}).value_or(0);
  const uint64_t inner = config.number({"intermediate_size"}).value_or(0);
  // With the defaults of the class, as the keys have them: Gemma 3 of 12B states its heads, and not their size.
  Settings settings(repository);
  const uint64_t heads = settings.integer({"num_attention_heads"}).value_or(0);
  const uint64_t keys = settings.heads_of_keys().value_or(static_cast<uint32_t>(heads));
  const uint64_t head = settings.stated_head_dim().value_or(heads == 0 ? 0 : static_cast<uint32_t>(hidden / heads));
  const bool has_plain_heads =
      !is_one_of(repository, of({Arch::gemma4, Arch::deepseek2, Arch::qwen35, Arch::qwen35moe, Arch::bert}));
  const auto of_heads = [&](uint64_t count) {
    uint64_t rows = 0;
    return has_plain_heads && !__builtin_mul_overflow(count, head, &rows) ? rows : uint64_t{0};
  };
  const auto all = std::to_array<Size>({
      {"token_embd.weight", 1, hidden, "hidden_size"},
      {"blk.0.ffn_down.weight", 1, repository.architecture().id == Arch::gemma4 ? 0 : inner, "intermediate_size"},
      {"blk.0.attn_q.weight", 0, of_heads(heads), "num_attention_heads and head_dim"},
      {"blk.0.attn_k.weight", 0, of_heads(keys), "num_key_value_heads and head_dim"},
  });
  for (const Size& size : all) {
    const auto tensor = named(tensors, size.tensor);
    if (!tensor || size.stated == 0 || tensor->shape.size() != 2 || tensor->shape[size.dimension] == size.stated)
      continue;
    return failure(Code::unsupported,
                   fmt::format("{} has {} {}, config.json states {} ({})", size.tensor, tensor->shape[size.dimension],
                               size.dimension == 0 ? "rows" : "columns", size.stated, size.field));
  }
  return {};
}

// llama.cpp refuses a file with tensors behind the last layer.
Result<void> check_layers(Repository& repository, const TensorList& tensors) {
  const uint64_t layers = Settings(repository).layers();
  const uint64_t further = is_one_of(repository, of({Arch::qwen35, Arch::qwen35moe})) ? summary::kMaxLayers : 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors.name(i);
    if (!name.starts_with("blk.")) continue;
    const auto layer = parse_number<uint64_t>(name.substr(4, name.find('.', 4) - 4));
    if (layer && *layer >= layers + further)
      return failure(Code::unsupported, fmt::format("{}, and config.json states {} layers", quoted(name), layers));
  }
  return {};
}

// A tensor that a layer may lack, such as a bias, is in each layer of most architectures or in none: llama.cpp would
// compute a layer without it.
Result<void> check_parts_of_layers(Repository& repository, const TensorList& tensors) {
  constexpr uint32_t kAlike =
      of({Arch::llama, Arch::granite, Arch::smollm3, Arch::mistral3, Arch::qwen2, Arch::qwen3, Arch::gemma2,
          Arch::gemma3, Arch::gpt_oss, Arch::phi3, Arch::olmo2, Arch::glm4, Arch::bert});
  if (!is_one_of(repository, kAlike)) return {};
  const uint64_t layers =
      repository.config().number({"n_layers", "num_hidden_layers", "n_layer", "num_layers"}).value_or(0);
  std::map<std::string_view, uint64_t> counts;  // as many as the table has rows
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors.name(i);
    if (name.starts_with("blk.")) ++counts[name.substr(name.find('.', 4) + 1)];
  }
  for (const auto& [part, count] : counts)
    if (count != layers)
      return failure(Code::unsupported, fmt::format("{} is in {} of {} layers", quoted(part), count, layers));
  return {};
}

}  // namespace

Result<void> check_agreement(Repository& repository, const TensorList& tensors) {
  TRY_VOID(check_activation(repository));
  TRY_VOID(check_scale(repository));
  TRY_VOID(check_router(repository));
  TRY_VOID(check_rotation(repository));
  TRY_VOID(check_output(repository, tensors));
  TRY_VOID(check_sizes(repository, tensors));
  TRY_VOID(check_layers(repository, tensors));
  return check_parts_of_layers(repository, tensors);
}

}  // namespace weightfs::mapping
