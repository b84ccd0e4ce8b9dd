// The names are those by which ComfyUI (comfy/model_detection.py) and diffusers (loaders/single_file_utils.py) tell
// checkpoints apart.
#include "formats/summary/diffusion/denoiser.h"

#include <array>
#include <string_view>

namespace weightfs::summary {
namespace {

// A transformer is of the first row whose tensors it has; `other` may be empty.
struct Transformer {
  std::string_view tensor, other, architecture;
};
constexpr std::array kTransformers = {
    Transformer{"clip_txt_mapper.weight", "clf.1.weight", "stable-cascade-stage-c"},
    Transformer{"clip_mapper.weight", "clf.1.weight", "stable-cascade-stage-b"},
    Transformer{"double_layers.0.attn.w1q.weight", "", "auraflow"},
    Transformer{"mlp_t5.0.weight", "", "hunyuan-dit"},
    Transformer{"txt_in.individual_token_refiner.blocks.0.norm1.weight", "", "hunyuan-video"},
    Transformer{"double_stream_modulation_img.lin.weight", "img_in.weight", "flux-2"},
    Transformer{"distilled_guidance_layer.norms.0.scale", "double_blocks.0.img_attn.norm.key_norm.scale", "chroma"},
    Transformer{"distilled_guidance_layer.norms.0.weight", "double_blocks.0.img_attn.norm.key_norm.weight", "chroma"},
    Transformer{"t5_yproj.weight", "", "mochi-1"},
    Transformer{"adaln_single.emb.timestep_embedder.linear_1.bias", "patchify_proj.weight", "ltx-video"},
    Transformer{"t_block.1.weight", "ar_embedder.mlp.0.weight", "pixart-alpha"},
    Transformer{"t_block.1.weight", "y_embedder.y_embedding", "pixart-sigma"},
    Transformer{"blocks.block0.blocks.0.block.attn.to_q.0.weight", "", "cosmos-1"},
    Transformer{"blocks.0.mlp.layer1.weight", "x_embedder.proj.1.weight", "cosmos-predict2"},
    Transformer{"blocks.0.norm1.linear.weight", "patch_embed.proj.weight", "cogvideox"},
    Transformer{"head.modulation", "head.head.weight", "wan-2"},
    Transformer{"caption_projection.0.linear.weight", "double_stream_blocks.0.block.adaLN_modulation.1.weight",
                "hidream-i1"},
    Transformer{"txt_norm.weight", "transformer_blocks.0.attn.add_k_proj.weight", "qwen-image"},
    Transformer{"transformer_blocks.0.attn.norm_added_k.weight", "single_transformer_blocks.0.attn.norm_k.weight",
                "flux-1"},
};

// Lumina 2 and Z-Image differ in their width.
std::string lumina(const TensorIndex& tensors, const std::string& prefix) {
  if (!tensors.has(prefix + "noise_refiner.0.attention.k_norm.weight")) return "";
  const Number width = tensors.size_of(prefix + "cap_embedder.1.weight", 0, 2);
  return width == 2304 ? "lumina-2" : width == 3840 ? "z-image" : "";
}

// SD 3 has three versions: 24 blocks, 24 with a second attention, and 38.
std::string sd3(const TensorIndex& tensors, const std::string& prefix) {
  if (!tensors.has(prefix + "joint_blocks.0.context_block.attn.qkv.weight")) return "";
  if (tensors.has(prefix + "joint_blocks.37.x_block.mlp.fc1.weight")) return "stable-diffusion-v3.5-large";
  return tensors.has(prefix + "joint_blocks.0.x_block.attn2.qkv.weight") ? "stable-diffusion-v3.5-medium"
                                                                         : "stable-diffusion-v3-medium";
}

// Dev is guided by a number, schnell is not. Fill and the control models have more inputs.
std::string flux(const TensorIndex& tensors, const std::string& prefix) {
  const std::string norm = prefix + "double_blocks.0.img_attn.norm.key_norm.";
  if (!tensors.has(norm + "scale") && !tensors.has(norm + "weight")) return "";
  const Number inputs = tensors.size_of(prefix + "img_in.weight", 1, 2);
  if (!inputs) return "";
  if (*inputs == 384) return "flux-1-fill";
  return tensors.has(prefix + "guidance_in.in_layer.weight") ? "flux-1-dev" : "flux-1-schnell";
}

// The width of the text that cross-attention reads.
Number cross_width(const TensorIndex& tensors, const std::string& prefix) {
  for (const char* const block :
       {"input_blocks.1.1", "input_blocks.2.1", "input_blocks.4.1", "input_blocks.5.1", "input_blocks.7.1",
        "down_blocks.0.attentions.0", "down_blocks.1.attentions.0", "down_blocks.2.attentions.0"})
    if (const Number width = tensors.size_of(prefix + block + ".transformer_blocks.0.attn2.to_k.weight", 1, 2))
      return width;
  return std::nullopt;
}

// Distilled kinds of SDXL have fewer transformer blocks where the picture is smallest: 4 and 2 instead of 10.
std::string sdxl(const TensorIndex& tensors, const std::string& prefix) {
  const auto has_block = [&](std::string_view number) {
    const std::string end(number);
    return tensors.has(prefix + "input_blocks.7.1.transformer_blocks." + end + ".attn1.to_q.weight") ||
           tensors.has(prefix + "down_blocks.2.attentions.0.transformer_blocks." + end + ".attn1.to_q.weight");
  };
  const bool has_smallest = has_block("0");  // some ControlNets do not
  return !has_smallest || has_block("9") ? "stable-diffusion-xl-v1-base" : has_block("3") ? "ssd-1b" : "segmind-vega";
}

}  // namespace

std::string architecture_of_unet(const TensorIndex& tensors, const std::string& prefix) {
  const Number width = cross_width(tensors, prefix);
  Number inputs = tensors.size_of(prefix + "input_blocks.0.0.weight", 1, 4);
  if (!inputs) inputs = tensors.size_of(prefix + "conv_in.weight", 1, 4);
  if (tensors.has(prefix + "input_blocks.1.1.time_stack.0.attn1.to_q.weight"))
    return "stable-video-diffusion-img2vid-v1";
  const bool is_inpainting = inputs == 9;
  switch (width.value_or(0)) {
    case 768:
      return is_inpainting ? "stable-diffusion-v1-inpainting" : "stable-diffusion-v1";
    case 1024:
      return inputs == 7     ? "stable-diffusion-x4-upscaler"
             : is_inpainting ? "stable-diffusion-v2-inpainting"
                             : "stable-diffusion-v2";
    case 1280:
      return "stable-diffusion-xl-v1-refiner";
    case 2048:
      return sdxl(tensors, prefix);
    default:
      return "";
  }
}

std::optional<std::string> architecture_of_denoiser(const TensorIndex& tensors, const std::string& prefix) {
  for (const Transformer& row : kTransformers)
    if (tensors.has(prefix + std::string(row.tensor)) &&
        (row.other.empty() || tensors.has(prefix + std::string(row.other))))
      return std::string(row.architecture);
  for (const auto& find : {sd3, lumina, flux})
    if (std::string found = find(tensors, prefix); !found.empty()) return found;
  const bool is_unet = tensors.size_of(prefix + "input_blocks.0.0.weight", 0, 4).has_value() ||
                       (tensors.has(prefix + "conv_in.weight") && cross_width(tensors, prefix));
  if (!is_unet) return std::nullopt;
  return architecture_of_unet(tensors, prefix);
}

}  // namespace weightfs::summary
