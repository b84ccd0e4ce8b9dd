#include "report/info/subject.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "formats/code/code.h"
#include "formats/directory/weight_files.h"
#include "formats/format.h"
#include "fs/tree/listing.h"

namespace weightfs::info {
namespace {

using Word = std::pair<std::string_view, std::string_view>;

template <size_t size>
std::string_view word_for(const std::array<Word, size>& words, std::string_view key) {
  const auto found = std::ranges::find(words, key, &Word::first);
  return found == words.end() ? key : found->second;
}

constexpr std::array kKinds = {Word{"causal-lm", "language model"},    Word{"encoder", "encoder"},
                               Word{"speech", "speech model"},         Word{"vision", "vision model"},
                               Word{"embedding", "embedding model"},   Word{"vision-language", "vision-language model"},
                               Word{"pipeline", "diffusion pipeline"}, Word{"projector", "vision projector"},
                               Word{"diffusion", "diffusion model"},   Word{"vae", "VAE"},
                               Word{"controlnet", "ControlNet"},       Word{"ip-adapter", "IP-Adapter"},
                               Word{"motion-module", "motion module"}, Word{"textual-inversion", "textual inversion"},
                               Word{"archive", "archive of files"},    Word{"empty", "no tensors"}};

constexpr std::array kMethods = {Word{"LORA", "LoRA"}, Word{"DORA", "DoRA"},       Word{"LOHA", "LoHa"},
                                 Word{"LOKR", "LoKr"}, Word{"ADALORA", "AdaLoRA"}, Word{"VERA", "VeRA"}};

// Names of plain types, whose bits per weight are known.
constexpr std::array<std::string_view, 3> kPlain = {"F32", "F16", "BF16"};

}  // namespace

std::string kind_text(const summary::Summary& summary) {
  if (summary.kind == "adapter") {
    const std::string_view method = summary.adapter ? std::string_view(summary.adapter->method) : "";
    return method.empty() ? "adapter" : fmt::format("{} adapter", word_for(kMethods, method));
  }
  std::string word(word_for(kKinds, summary.kind));
  if (summary.kind == "diffusion" && summary.components.size() > 1) word = "checkpoint";
  return summary.family.empty() ? word : fmt::format("{} {}", summary.family, word);
}

std::string format_text(const Model& model) {
  const Format* const row = format_named(model.format);
  const std::string format(row == nullptr ? model.format : row->title);
  const std::string version(trimmed(model.version));
  if (version.empty() || traits_of(model.format).has_version_of_storage) return format;
  const bool is_number = version.find_first_not_of("0123456789.") == version.npos;
  return fmt::format(fmt::runtime(is_number ? "{} {}" : "{} ({})"), format, version);
}

std::string quantisation_text(const summary::Summary& summary) {
  if (!summary.quantisation) return "";
  const summary::Quantisation& quantisation = *summary.quantisation;
  std::string out = quantisation.name;
  if (quantisation.is_guessed) out += " (guessed)";
  if (!quantisation.label.empty() && quantisation.label != quantisation.name)
    out += fmt::format(" (file name: {})", quantisation.label);
  return out;
}

namespace {

bool is_plain(const summary::Quantisation& quantisation) {
  return std::ranges::count(kPlain, std::string_view(quantisation.name)) > 0;
}

}  // namespace

std::string short_weights_text(const summary::Summary& summary) {
  const bool has_name = summary.quantisation && (!is_plain(*summary.quantisation) || summary.dtype.empty());
  return has_name ? summary.quantisation->name : summary.dtype;
}

std::string weights_text(const summary::Summary& summary) {
  std::string out = quantisation_text(summary);
  if (out.empty()) return summary.dtype;
  if (summary.bits_per_weight && !is_plain(*summary.quantisation))
    out += fmt::format(": {:.2f} bits per weight", *summary.bits_per_weight);
  return out;
}

uint64_t listed_bytes(const Model& model) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (__builtin_add_overflow(bytes, listed_bytes(model.tensors, i), &bytes)) return UINT64_MAX;
  }
  return bytes;
}

uint64_t model_bytes(const Model& model) {
  if (const auto stored = weight_file_bytes(model); stored && *stored > 0) return *stored;
  uint64_t bytes = 0;
  for (size_t i = 0; i < model.tensors.size(); ++i)
    if (!model.tensors.is_refused(i)) bytes += model.tensors.nbytes(i);
  return bytes;
}

std::string code_text(const Model& model) { return names_of(code_of(model).items); }

std::string unknown_globals(const Model& model) {
  constexpr size_t kShown = 3;
  const auto* const names = model.common.find_as<List>("unknown_globals");
  std::string shown;
  if (names == nullptr) return shown;
  for (size_t i = 0; i < std::min(kShown, names->size()); ++i)
    if (const auto* const name = std::get_if<std::string>(&(*names)[i])) shown += (i == 0 ? "" : ", ") + *name;
  return names->size() <= kShown ? shown : fmt::format("{} and {} more", shown, names->size() - kShown);
}

std::string_view base_name(std::string_view source) {
  while (source.size() > 1 && source.ends_with('/')) source.remove_suffix(1);
  const size_t slash = source.rfind('/');
  return slash == source.npos || slash + 1 == source.size() ? source : source.substr(slash + 1);
}

}  // namespace weightfs::info
