#include "formats/computed/packing_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/computed/expert_blocks.h"
#include "formats/summary/tensors/target_groups.h"

namespace weightfs::computed {
namespace {

using summary::Fields;
using summary::SmallFiles;

constexpr size_t kMaxConfigGroups = 16;

// The models with layers whose weights are transposed (Conv1D of transformers).
constexpr auto kTransposed =
    std::to_array<std::string_view>({"decision_transformer", "gpt2", "imagegpt", "openai-gpt", "clvp"});

// An object that describes the packing, and the method that it states.
struct Description {
  Fields fields;
  std::string method;
};

Description describe(const Fields& fields, std::string_view default_method) {
  std::string method = lower_case(fields.text({"quant_method"}));
  if (method.empty()) method = default_method;
  return {fields, std::move(method)};
}

// The first of the files that has it: config.json, those of AutoGPTQ and AutoAWQ, that of ModelOpt.
Description find_description(SmallFiles& files) {
  auto& warnings = files.warnings();
  const auto open = [&](const char* name) { return Fields(files.object(name), name, warnings); };
  const Fields config = open("config.json");
  constexpr auto kObjects = std::to_array<std::string_view>({"quantization_config", "compression_config"});
  Fields stated = config.object(kObjects);
  if (!stated) stated = config.object({"text_config"}).object(kObjects);
  if (stated) return describe(stated, "");
  if (const Fields own = open("quantize_config.json")) return describe(own, own.has("w_bit") ? "awq" : "gptq");
  if (const Fields own = open("quant_config.json")) return describe(own, own.has("w_bit") ? "awq" : "");
  return describe(open("hf_quant_config.json").object({"quantization"}), "modelopt");
}

bool has_float8(const ModulePieces& pieces) {
  return pieces.has("weight", {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"});
}

}  // namespace

PackingRules PackingRules::read(SmallFiles& files) {
  PackingRules out;
  const auto [fields, method] = find_description(files);
  if (!fields) return out;
  if (method == "gptq") {
    const Fields config(files.object("config.json"), "config.json", files.warnings());
    const std::string type = config.text({"model_type"});
    const bool is_transposed = std::ranges::find(kTransposed, type) != kTransposed.end();
    out.rules_ = Gptq{is_transposed ? failure(Code::unsupported, fmt::format("the weights of {} are transposed", type))
                                    : gptq_rules(fields)};
  } else if (method == "awq") {
    out.rules_ = Awq{awq_group_size(fields)};
  } else if (method == "fp8" || method == "fbgemm_fp8") {
    out.rules_ = Scaled{fp8_rules(fields)};
  } else if (method == "modelopt") {
    out.rules_ = Scaled{modelopt_rules(fields)};
  } else if (method == "mxfp4") {
    out.rules_ = Mxfp4{};
  } else if (method == "compressed-tensors") {
    out.set_compressed(fields);
  }
  return out;
}

void PackingRules::set_compressed(const Fields& quantisation) {
  Compressed method;
  const std::string format = quantisation.text({"format"});
  const std::string sparse = quantisation.object({"sparsity_config"}).text({"format"});
  const Fields groups = quantisation.object({"config_groups"});
  if (groups)
    for (const auto& [name, value] : *groups.map()) {
      if (method.groups.size() == kMaxConfigGroups) break;
      const Fields group = groups.object({name});
      method.targets.push_back({{}, {}, group.texts("targets")});
      if (sparse.empty() || sparse == "dense")
        method.groups.push_back(compressed_rules(group, format));
      else
        method.groups.push_back(
            failure(Code::unsupported, fmt::format("sparsity_config.format is {}", printable(sparse))));
    }
  rules_ = std::move(method);
}

std::string_view PackingRules::weight_of(const ModulePieces& pieces) const {
  if (std::holds_alternative<Gptq>(rules_) || std::holds_alternative<Awq>(rules_))
    return pieces.has("qweight") ? "qweight" : "";
  if (std::holds_alternative<Mxfp4>(rules_)) return pieces.has("blocks") && pieces.has("scales") ? "blocks" : "";
  const bool is_scaled = pieces.has("weight_scale") || pieces.has("weight_scale_inv");
  if (std::holds_alternative<Scaled>(rules_))
    return is_scaled && (has_float8(pieces) || pieces.has("weight", {"uint8"})) ? "weight" : "";
  if (pieces.has("weight_packed")) return "weight_packed";
  return is_scaled && (has_float8(pieces) || pieces.has("weight", {"int8"})) ? "weight" : "";
}

Result<MatrixPtr> PackingRules::matrix(ModulePieces& pieces) const {
  if (const auto* const method = std::get_if<Gptq>(&rules_)) return gptq_matrix(TRY(method->rules), pieces);
  if (const auto* const method = std::get_if<Awq>(&rules_)) return awq_matrix(TRY(method->group_size), pieces);
  if (const auto* const method = std::get_if<Scaled>(&rules_)) return scaled_matrix(TRY(method->rules), pieces);
  if (std::holds_alternative<Mxfp4>(rules_)) return mxfp4_matrix(pieces);
  return compressed(std::get<Compressed>(rules_), pieces);
}

Result<MatrixPtr> PackingRules::compressed(const Compressed& method, ModulePieces& pieces) const {
  if (method.groups.empty()) return failure(Code::unsupported, "no config_groups");
  const auto* const target =
      method.groups.size() == 1 ? method.targets.data() : summary::targeted_group(method.targets, pieces.name());
  if (target == nullptr) return failure(Code::unsupported, "which group of config_groups it is in is not known");
  return compressed_matrix(TRY(method.groups[static_cast<size_t>(target - method.targets.data())]), pieces);
}

}  // namespace weightfs::computed
