#include "formats/directory/weight_names.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"

namespace weightfs::directory {
namespace {

struct Suffix {
  std::string_view text;
  Family family;
};

// The first that matches. Models of one device or compiler are shown as other weights, but never chosen among several.
constexpr auto kSuffixes = std::to_array<Suffix>({
    {".safetensors", Family::safetensors},
    {".bin", Family::pytorch},
    {".pt", Family::pytorch},
    {".pth", Family::pytorch},
    {".pt2", Family::other},
    {".ckpt", Family::pytorch},
    {".h5", Family::tensorflow},
    {".hdf5", Family::tensorflow},
    {".msgpack", Family::flax},
    {".keras", Family::keras},
    {".gguf", Family::gguf},
    {".onnx", Family::onnx},
    {".xml", Family::openvino},
    {".tflite", Family::other},
    {".mlmodel", Family::other},
    {".llamafile", Family::other},
    {".ggml", Family::other},
    {".pte", Family::other},
    {".rten", Family::other},
    {".nemo", Family::other},
    {".dduf", Family::other},
    {".bintensors", Family::other},
    {".bt", Family::other},
    {".pdiparams", Family::other},
});

// Checkpoints of PyTorch with the suffix .bin.
constexpr auto kUsualBins =
    std::to_array<std::string_view>({"pytorch_model", "diffusion_pytorch_model", "adapter_model", "model",
                                     "consolidated", "ggml-", "pytorch_lora_weights", "open_clip_pytorch_model"});

constexpr auto kTrainingFiles = std::to_array<const char*>(
    {"optimizer.pt", "optimizer.bin", "optimizer.safetensors", "scheduler.pt", "scheduler.bin", "scaler.pt",
     "rng_state*.pth", "random_states_*.pkl", "training_args.bin", "*_optim_states.pt", "mp_rank_*_model_states.pt",
     "latest", "zero_to_fp32.py", "events.out.tfevents.*", "global_step*/", "pytorch_model_fsdp*/", "optimizer_0/"});

std::optional<uint32_t> number_at(std::string_view text) {
  constexpr size_t kMaxDigits = 6;
  if (text.empty() || text.size() > kMaxDigits || text.find_first_not_of("0123456789") != text.npos)
    return std::nullopt;
  return parse_number<uint32_t>(text);
}

size_t digits_at(std::string_view text, size_t from) {
  return std::min(text.find_first_not_of("0123456789", from), text.size()) - from;
}

// Takes "-00001-of-00004" out of the base: "model-00001-of-00004.fp16" becomes "model.fp16".
void take_number(WeightName& name) {
  constexpr std::string_view kOf = "-of-";
  const size_t of = name.base.rfind(kOf);
  if (of == name.base.npos) return;
  const std::string_view text = name.base;
  const size_t dash = text.substr(0, of).rfind('-');
  if (dash == text.npos || dash == 0) return;
  const size_t digits = digits_at(text, of + kOf.size());
  const size_t end = of + kOf.size() + digits;
  if (end < text.size() && text[end] != '.') return;
  const auto number = number_at(text.substr(dash + 1, of - dash - 1));
  const auto count = number_at(text.substr(of + kOf.size(), digits));
  if (!number || !count || *number < 1 || *number > *count || *count < 2) return;
  name.role = WeightName::Role::shard;
  name.number = *number;
  name.count = *count;
  name.base.erase(dash, end - dash);
}

// "model.safetensors.index.json", "model.safetensors.index.fp16.json" (diffusers, a variant)
std::optional<WeightName> parse_index_name(std::string_view name) {
  constexpr std::string_view kIndex = ".index.";
  constexpr std::string_view kJson = "json";
  if (!name.ends_with(".json")) return std::nullopt;
  const size_t at = name.rfind(kIndex);
  if (at == name.npos) return std::nullopt;
  const std::string_view file = name.substr(0, at);
  const std::string_view variant = name.substr(at + kIndex.size());
  for (const Suffix& suffix : kSuffixes) {
    if (!file.ends_with(suffix.text) || suffix.family > Family::flax) continue;
    WeightName parsed;
    parsed.family = suffix.family;
    parsed.role = WeightName::Role::index;
    parsed.base = file.substr(0, file.size() - suffix.text.size());
    if (variant != kJson) parsed.base.append(".").append(variant.substr(0, variant.size() - kJson.size() - 1));
    return parsed;
  }
  return std::nullopt;
}

// Files with these suffixes are mostly something else.
bool is_model_of_family(Family family, std::string_view base) {
  if (family == Family::openvino) return base.starts_with("openvino_");
  return true;
}

bool matches(const char* pattern, const std::string& name) { return ::fnmatch(pattern, name.c_str(), 0) == 0; }

// Whether the name of a GGUF has a quantisation: only a model has one.
bool names_quantisation(const std::string& lower_name) {
  return std::ranges::any_of(std::to_array<const char*>({"*[._-]q[1-8]_*", "*[._-]iq[1-8]_*", "*[._-]tq[12]_*"}),
                             [&](const char* pattern) { return matches(pattern, lower_name); });
}

bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const auto is_letter = [&](size_t i) {
      return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i]));
    };
    if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + word.size())) return true;
  }
  return false;
}

}  // namespace

std::optional<WeightName> parse_weight_name(std::string_view name) {
  if (name.starts_with('.')) return std::nullopt;
  if (auto index = parse_index_name(name)) return index;
  const auto suffix = std::ranges::find_if(kSuffixes, [&](const Suffix& each) { return name.ends_with(each.text); });
  if (suffix == kSuffixes.end() || name.size() == suffix->text.size()) return std::nullopt;
  WeightName parsed;
  parsed.family = suffix->family;
  parsed.base = name.substr(0, name.size() - suffix->text.size());
  if (!is_model_of_family(parsed.family, parsed.base)) return std::nullopt;
  if (suffix->text == ".bin") {
    const auto begins = [&](std::string_view usual) { return parsed.base.starts_with(usual); };
    // Shards of MLC, and the weights of an OpenVINO model.
    if (parsed.base.starts_with("params_shard_") || parsed.base.starts_with("openvino_")) return std::nullopt;
    parsed.is_usual = std::ranges::any_of(kUsualBins, begins);
  }
  take_number(parsed);
  return parsed;
}

std::string path_of_shard(const std::string& path, uint32_t number) {
  const size_t of = path.rfind("-of-");
  const size_t digits = path.rfind('-', of - 1) + 1;
  return fmt::format("{}{:0{}}{}", path.substr(0, digits), number, of - digits, path.substr(of));
}

bool is_training_state(std::string_view name) {
  const std::string text(name);
  return std::ranges::any_of(kTrainingFiles, [&](const char* pattern) { return matches(pattern, text); });
}

GgufUse use_of_gguf(std::string_view name) {
  const std::string text = lower_case(name);
  const auto has = [&](std::string_view part) { return text.find(part) != text.npos; };
  if (has("mmproj")) return GgufUse::projector;
  if (has("imatrix") && !names_quantisation(text)) return GgufUse::importance_matrix;
  if (has("lora")) return GgufUse::adapter;
  if (has_word(text, "mtp") || has_word(text, "nextn")) return GgufUse::predictor;
  return GgufUse::model;
}

}  // namespace weightfs::directory
