#include "formats/summary/diffusion/diffusion.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/summary/diffusion/denoiser.h"
#include "formats/summary/diffusion/tensor_index.h"
#include "formats/summary/fields.h"

namespace weightfs::summary {
namespace {

struct PictureFamily {
  std::string_view id;  // what architectures of it begin with; a longer one is before its own beginning
  std::string_view title;
  std::string_view group;  // families of a group are not told apart by the tensors
};

constexpr std::array kPictureFamilies = {
    PictureFamily{"stable-diffusion-v1-inpainting", "SD 1.x inpainting", "sd1"},
    PictureFamily{"stable-diffusion-v1", "SD 1.x", "sd1"},
    PictureFamily{"stable-diffusion-v2-inpainting", "SD 2.x inpainting", "sd2"},
    PictureFamily{"stable-diffusion-v2", "SD 2.x", "sd2"},
    PictureFamily{"stable-diffusion-x4-upscaler", "SD x4 upscaler", "sd2"},
    PictureFamily{"stable-diffusion-xl-v1-refiner", "SDXL refiner", "refiner"},
    PictureFamily{"stable-diffusion-xl-v0_9-refiner", "SDXL refiner", "refiner"},
    PictureFamily{"stable-diffusion-xl-turbo", "SDXL Turbo", "sdxl"},
    PictureFamily{"stable-diffusion-xl", "SDXL", "sdxl"},
    PictureFamily{"ssd-1b", "SSD-1B", "sdxl"},
    PictureFamily{"segmind-vega", "Segmind Vega", "sdxl"},
    PictureFamily{"stable-diffusion-v3.5-large", "SD 3.5 large", "sd3"},
    PictureFamily{"stable-diffusion-v3.5-medium", "SD 3.5 medium", "sd3"},
    PictureFamily{"stable-diffusion-v3-medium", "SD 3 medium", "sd3"},
    PictureFamily{"stable-diffusion-v3", "SD 3", "sd3"},
    PictureFamily{"stable-diffusion-3", "SD 3", "sd3"},
    PictureFamily{"stable-video-diffusion", "Stable Video Diffusion", "svd"},
    PictureFamily{"stable-cascade", "Stable Cascade", "cascade"},
    PictureFamily{"flux-1-schnell", "Flux.1 schnell", "flux1"},
    PictureFamily{"flux-1-dev", "Flux.1 dev", "flux1"},
    PictureFamily{"flux-1-fill", "Flux.1 Fill", "flux1"},
    PictureFamily{"flux-1", "Flux.1", "flux1"},
    PictureFamily{"flux-2", "Flux.2", "flux2"},
    PictureFamily{"chroma", "Chroma", "chroma"},
    PictureFamily{"auraflow", "AuraFlow", "auraflow"},
    PictureFamily{"pixart-alpha", "PixArt-alpha", "pixart"},
    PictureFamily{"pixart-sigma", "PixArt-sigma", "pixart"},
    PictureFamily{"hunyuan-dit", "Hunyuan-DiT", "hydit"},
    PictureFamily{"hunyuan-video", "HunyuanVideo", "hyvideo"},
    PictureFamily{"lumina-2", "Lumina 2", "lumina2"},
    PictureFamily{"z-image", "Z-Image", "zimage"},
    PictureFamily{"qwen-image", "Qwen-Image", "qwen"},
    PictureFamily{"hidream-i1", "HiDream-I1", "hidream"},
    PictureFamily{"wan-2", "Wan 2.x", "wan"},
    PictureFamily{"ltx-video", "LTX-Video", "ltx"},
    PictureFamily{"mochi-1", "Mochi 1", "mochi"},
    PictureFamily{"cosmos-1", "Cosmos 1", "cosmos1"},
    PictureFamily{"cosmos-predict2", "Cosmos Predict2", "cosmos2"},
    PictureFamily{"cogvideox", "CogVideoX", "cogvideox"},
};

// Writers of files spell Flux.1-dev in several ways.
std::string normalised(std::string_view architecture) {
  std::string out = lower_case(architecture);
  for (const std::string_view spelling : {"flux.", "flux"})
    if (const std::string_view rest = std::string_view(out).substr(std::min(spelling.size(), out.size()));
        out.starts_with(spelling) && (rest.starts_with('1') || rest.starts_with('2')))
      return fmt::format("flux-{}", rest);
  std::ranges::replace(out, '_', '-');
  return out;
}

const PictureFamily* find_family(std::string_view architecture) {
  const std::string id = normalised(architecture);
  const auto found =
      std::ranges::find_if(kPictureFamilies, [&](const PictureFamily& family) { return id.starts_with(family.id); });
  return found == kPictureFamilies.end() ? nullptr : &*found;
}

// What an architecture of ModelSpec says it is, by what is behind the slash.
std::string_view kind_of_architecture(std::string_view architecture) {
  for (const std::string_view end : {"/vae", "/controlnet", "/textual-inversion", "-textual-inversion"})
    if (architecture.ends_with(end)) return end.substr(1);
  const bool is_whole = architecture.find('/') == architecture.npos && !architecture.ends_with("-lora");
  return is_whole && find_family(architecture) != nullptr ? "diffusion" : "";
}

// ControlNets of the LDM repositories, of diffusers, and of diffusers for transformers.
std::optional<Diffusion> find_control_net(const TensorIndex& tensors) {
  for (const std::string prefix : {"control_model.", ""})
    if (tensors.has(prefix + "input_hint_block.0.weight"))
      return Diffusion{"controlnet", architecture_of_unet(tensors, prefix), ""};
  if (tensors.has("controlnet_cond_embedding.conv_in.weight"))
    return Diffusion{"controlnet", architecture_of_unet(tensors, ""), ""};
  if (tensors.has("controlnet_x_embedder.weight")) return Diffusion{"controlnet", "flux-1", ""};
  if (tensors.has("controlnet_blocks.0.weight") && tensors.has("pos_embed_input.proj.weight"))
    return Diffusion{"controlnet", "stable-diffusion-v3", ""};
  return std::nullopt;
}

// An encoder and decoder of pictures: those of SD 1.x, 2.x and XL have the same tensors.
std::optional<Diffusion> find_vae(const TensorIndex& tensors) {
  for (const std::string prefix : {"", "first_stage_model.", "vae."}) {
    if (tensors.has(prefix + "decoder.middle.0.residual.0.gamma")) return Diffusion{"vae", "", "Wan"};
    const bool has_middle = tensors.has(prefix + "decoder.mid.block_1.conv1.weight") ||
                            tensors.has(prefix + "decoder.mid_block.resnets.0.conv1.weight");
    const Number latent = tensors.size_of(prefix + "decoder.conv_in.weight", 1, 4);
    if (!has_middle || !latent || !tensors.has(prefix + "decoder.conv_out.weight")) continue;
    return Diffusion{"vae", "", *latent == 4 ? "SD" : *latent == 16 ? "Flux.1/SD 3" : *latent == 32 ? "Flux.2" : ""};
  }
  return std::nullopt;
}

// Small additions to a UNet.
std::optional<Diffusion> find_addition(const TensorIndex& tensors) {
  for (const char* const name :
       {"down_blocks.0.motion_modules.0.temporal_transformer.transformer_blocks.0.attention_blocks.0.pos_encoder.pe",
        "mid_block.motion_modules.0.temporal_transformer.norm.bias",
        "up_blocks.2.motion_modules.0.temporal_transformer.norm.weight"})
    if (tensors.has(name)) return Diffusion{"motion-module", "", "AnimateDiff"};
  for (const char* const name : {"ip_adapter.1.to_k_ip.weight", "ip_adapter.0.to_k_ip.weight"})
    if (const Number width = tensors.size_of(name, 1, 2))
      return Diffusion{"ip-adapter", "", std::string(family_by_width(*width))};
  constexpr size_t kMostOfInversion = 4;
  if (tensors.size() > kMostOfInversion) return std::nullopt;
  if (tensors.has("clip_l") && tensors.has("clip_g"))
    return Diffusion{"textual-inversion", "stable-diffusion-xl-v1-base", ""};
  if (const Number width = tensors.size_of("emb_params", 1, 2))
    return Diffusion{"textual-inversion", "", std::string(family_by_width(*width))};
  return std::nullopt;
}

std::optional<Diffusion> find_by_tensors(const TensorIndex& tensors) {
  if (auto found = find_addition(tensors)) return found;
  if (auto found = find_control_net(tensors)) return found;
  for (const std::string prefix : {"model.diffusion_model.", "model.model.", "net.", ""})
    if (const auto architecture = architecture_of_denoiser(tensors, prefix))
      return Diffusion{"diffusion", *architecture, ""};
  return find_vae(tensors);
}

// Parts of a file, by what the names of their tensors begin with.
struct PartOfFile {
  std::string_view beginning, name;
};
constexpr std::array kParts = {PartOfFile{"model.diffusion_model.", "denoiser"},
                               PartOfFile{"first_stage_model.", "vae"},
                               PartOfFile{"vae.", "vae"},
                               PartOfFile{"cond_stage_model.", "text_encoder"},
                               PartOfFile{"conditioner.embedders.0.", "text_encoder"},
                               PartOfFile{"conditioner.embedders.1.", "text_encoder_2"},
                               PartOfFile{"text_encoders.clip_l.", "text_encoder"},
                               PartOfFile{"text_encoders.clip_g.", "text_encoder_2"},
                               PartOfFile{"text_encoders.t5xxl.", "text_encoder_3"},
                               PartOfFile{"text_encoders.", "text_encoder"}};

}  // namespace

std::string_view family_of(std::string_view architecture) {
  const PictureFamily* const family = find_family(architecture);
  return family == nullptr ? "" : family->title;
}

std::string_view family_by_width(uint64_t width) {
  switch (width) {
    case 768:
      return "SD 1.x";
    case 1024:
      return "SD 2.x";
    case 1280:
      return "SDXL refiner";
    case 2048:
      return "SDXL";
    default:
      return "";
  }
}

std::optional<Diffusion> find_diffusion(const Model& model, std::vector<std::string>& warnings) {
  const TensorIndex tensors(model.tensors);
  auto found = find_by_tensors(tensors);
  const std::string stated(text_in(model.metadata, "modelspec.architecture").substr(0, 200));
  const PictureFamily* const family = find_family(stated);
  if (!found) {
    const std::string_view kind = kind_of_architecture(stated);
    if (kind.empty()) return std::nullopt;
    return Diffusion{std::string(kind), stated, family == nullptr ? "" : std::string(family->title)};
  }
  const PictureFamily* const by_tensors = find_family(found->architecture);
  if (found->family.empty() && by_tensors != nullptr) found->family = by_tensors->title;
  if (stated.empty()) return found;
  if (by_tensors != nullptr && family != nullptr && family->group != by_tensors->group) {
    warnings.push_back(fmt::format("modelspec.architecture: {}, but the tensors are those of {}; ignored",
                                   printable(stated), by_tensors->title));
    return found;
  }
  found->architecture = stated;
  // The tensors tell some variants apart, and not others.
  if (family != nullptr && (by_tensors == nullptr || family->id.starts_with(by_tensors->id)))
    found->family = family->title;
  return found;
}

std::vector<Component> components_of_checkpoint(const TensorList& tensors, const std::vector<Counted>& counted,
                                                bool may_lack_tensors) {
  std::vector<Component> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto part =
        std::ranges::find_if(kParts, [&](const PartOfFile& one) { return tensors.name(i).starts_with(one.beginning); });
    if (part == kParts.end()) continue;
    auto component = std::ranges::find(out, part->name, &Component::name);
    if (component == out.end()) component = out.insert(out.end(), Component{std::string(part->name), "", 0, 0});
    if (counted[i].role == Role::parameter)
      component->parameters = counted[i].is_known ? sum(component->parameters, counted[i].elements) : std::nullopt;
    component->bytes = sum(component->bytes, listed_bytes(tensors, i)).value_or(0);
    if (may_lack_tensors) component->parameters = std::nullopt;
  }
  if (out.size() < 2) return {};
  std::ranges::sort(out, {}, &Component::name);
  return out;
}

}  // namespace weightfs::summary
