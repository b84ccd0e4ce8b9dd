#include "cli/options/memory_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace weightfs {
namespace {

using info::MemoryQuestion;
using Field = std::optional<uint64_t> (*)(const std::string& text);

constexpr uint64_t kSmallestGpu = uint64_t{64} << 20;
constexpr uint64_t kMostLayers = 1'000'000;

// "8192" or "8k".
std::optional<uint64_t> parse_tokens(const std::string& text) {
  const bool has_unit = text.ends_with('k') || text.ends_with('K');
  const auto number = parse_number<uint64_t>(std::string_view(text).substr(0, text.size() - (has_unit ? 1 : 0)));
  if (!number || *number == 0 || *number > summary::kMostTokens) return std::nullopt;
  const uint64_t tokens = *number * (has_unit ? 1024 : 1);
  return tokens <= summary::kMostTokens ? std::optional(tokens) : std::nullopt;
}

std::optional<uint64_t> parse_gpu(const std::string& text) {
  const auto bytes = parse_size(text);
  return bytes && *bytes >= kSmallestGpu ? bytes : std::nullopt;
}

std::optional<uint64_t> parse_layers(const std::string& text) {
  const auto number = parse_number<uint64_t>(text);
  return number && *number <= kMostLayers ? number : std::nullopt;
}

std::optional<uint64_t> parse_batch(const std::string& text) {
  const auto number = parse_number<uint64_t>(text);
  return number && *number > 0 && *number <= summary::kMostBatch ? number : std::nullopt;
}

// An option with a number, which `set` stores in the question.
Option number_option(std::string name, std::string value, std::string help, std::string wrong, Field parse,
                     std::optional<MemoryQuestion>& question, void (*set)(MemoryQuestion& question, uint64_t number)) {
  return {std::move(name), std::move(value), std::move(help),
          [wrong = std::move(wrong), parse, &question, set](const std::string& text) -> Result<void> {
            const auto number = parse(text);
            if (!number) return failure(Code::unsupported, quoted(text) + " " + wrong);
            if (!question) question.emplace();
            set(*question, *number);
            return {};
          }};
}

Option kv_type_option(std::optional<MemoryQuestion>& question) {
  const auto types = summary::kv_types();
  const std::vector<std::string> names(types.begin(), types.end());
  Option out{"kv-type", "TYPE", "type of the keys and values, of which the memory is shown (default: f16)",
             [names, &question](const std::string& text) -> Result<void> {
               if (std::ranges::find(names, text) == names.end())
                 return failure(Code::unsupported,
                                quoted(text) + " is not a type of keys and values; use " + enumerated(names, " or "));
               if (!question) question.emplace();
               question->kv_type = text;
               return {};
             }};
  out.choices = names;
  return out;
}

}  // namespace

Options memory_options(std::optional<MemoryQuestion>& question) {
  return {
      number_option("ctx", "N", "also show the memory for a context of N tokens (default: 8192, at most the model's)",
                    "is not a number of tokens from 1 to 1073741824", parse_tokens, question,
                    [](MemoryQuestion& of, uint64_t number) { of.context = number; }),
      kv_type_option(question),
      number_option("gpu", "SIZE",
                    "also show whether the model fits into a GPU with so much memory (default: no limit)",
                    "is not the memory of a GPU; use a number such as 24G", parse_gpu, question,
                    [](MemoryQuestion& of, uint64_t number) { of.gpu_bytes = number; }),
      number_option("gpu-layers", "N",
                    "layers on the GPU, of which the memory is shown (default: as many as fit, or all)",
                    "is not a number of layers", parse_layers, question,
                    [](MemoryQuestion& of, uint64_t number) { of.gpu_layers = number; }),
      number_option("batch", "N", "tokens computed at once, for which the memory is shown (default: 512)",
                    "is not a number of tokens from 1 to 1048576", parse_batch, question,
                    [](MemoryQuestion& of, uint64_t number) { of.batch = number; }),
  };
}

}  // namespace weightfs
