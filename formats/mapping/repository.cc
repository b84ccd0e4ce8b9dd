#include "formats/mapping/repository.h"

#include <fmt/core.h>

#include <array>

#include "base/text.h"
#include "formats/computed_weights.h"
#include "formats/format.h"

namespace weightfs::mapping {
namespace {

constexpr size_t kMaxFields = 4096;  // of config.json; Map::set is linear

// The objects of the text model (conversion/base.py, load_hparams and find_hparam).
constexpr auto kTextObjects = std::to_array<std::string_view>({"llm_config", "language_config", "text_config"});

std::string first_class(const Map& config) {
  const auto* const classes = config.find_as<List>("architectures");
  if (classes == nullptr || classes->empty()) return "";
  const auto* const name = std::get_if<std::string>(&classes->front());
  return name == nullptr ? "" : *name;
}

const Map* text_object(const Map& config) {
  for (const std::string_view name : kTextObjects)
    if (const auto* const text = config.find_as<Map>(name)) return text;
  if (const auto* const thinker = config.find_as<Map>("thinker_config")) return thinker->find_as<Map>("text_config");
  return nullptr;
}

}  // namespace

Result<void> Repository::compute_float8() {
  const summary::Fields quantisation = config().object({"quantization_config"});
  if (!quantisation || quantisation.text({"quant_method"}) != "fp8") return {};
  if (!may_have_computed_weights(*stored_)) return {};
  const ComputedWeights computed = TRY(computed_weights(*stored_));
  model_ = TRY(with_computed(stored_, computed.weights, Pieces::left_out));
  return {};
}

Result<std::unique_ptr<Repository>> Repository::open(const ModelPtr& model, std::string name) {
  std::unique_ptr<Repository> made(new Repository(model, std::move(name)));
  const Map* const config = made->files_.object("config.json");
  if (config == nullptr) return failure(Code::unsupported, "no config.json beside the tensors");
  const Map* const text = text_object(*config);
  if (config->size() > kMaxFields || (text != nullptr && text->size() > kMaxFields))
    return failure(Code::unsupported, fmt::format("config.json has more than {} fields", kMaxFields));
  made->config_ = *config;
  if (text != nullptr)
    for (const auto& [key, value] : *text) made->config_.set(key, value);
  made->class_name_ = text == nullptr ? first_class(*config) : first_class(*text);
  if (made->class_name_.empty()) made->class_name_ = first_class(*config);
  if (made->class_name_.empty()) return failure(Code::unsupported, "config.json names no class (architectures)");
  made->architecture_ = architecture_of_class(made->class_name_);
  if (made->architecture_ == nullptr)
    return failure(Code::unsupported,
                   fmt::format("no architecture of llama.cpp is known for {}", printable(made->class_name_)));
  TRY_VOID(made->compute_float8());
  return made;
}

}  // namespace weightfs::mapping
