// Models that make pictures and films, and their parts, in one file without a configuration: by the names and shapes of
// their tensors, and by the metadata of ModelSpec.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model.h"
#include "formats/summary/counts.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

struct Diffusion {
  std::string kind;          ///< "diffusion", "vae", "controlnet", "ip-adapter", "motion-module", "textual-inversion"
  std::string architecture;  ///< an identifier as of ModelSpec: "stable-diffusion-xl-v1-base"; may be empty
  std::string family;        ///< "SDXL"; may be empty
};

/// What a model is, by its tensors; nothing if it is none of these. What ModelSpec states is more precise if both are
/// of the same family, and stands alone if no tensor is known; otherwise it is ignored with a warning.
std::optional<Diffusion> find_diffusion(const Model& model, std::vector<std::string>& warnings);

/// The family of an architecture of ModelSpec: "SDXL" of "stable-diffusion-xl-v1-base/lora"; empty if it is unknown.
std::string_view family_of(std::string_view architecture);

/// The family whose text encoder has outputs of this width, which cross-attention reads; empty if there is none.
std::string_view family_by_width(uint64_t width);

/// The denoiser, the VAE and the text encoders of a file that has several of them; empty if it has one.
std::vector<Component> components_of_checkpoint(const TensorList& tensors, const std::vector<Counted>& counted,
                                                bool may_lack_tensors);

}  // namespace weightfs::summary
