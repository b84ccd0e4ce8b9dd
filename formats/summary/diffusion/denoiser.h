// The architecture of a denoiser (a UNet or a transformer of a diffusion model), by the names and shapes of its
// tensors.
#pragma once

#include <optional>
#include <string>

#include "formats/summary/diffusion/tensor_index.h"

namespace weightfs::summary {

/// "stable-diffusion-xl-v1-base" of a denoiser whose tensors begin with `prefix`; empty for a UNet of an unknown
/// architecture; nothing if there is no denoiser.
std::optional<std::string> architecture_of_denoiser(const TensorIndex& tensors, const std::string& prefix);

/// The architecture of a UNet, or of a copy of its encoder as a ControlNet has; empty if it is not known.
std::string architecture_of_unet(const TensorIndex& tensors, const std::string& prefix);

}  // namespace weightfs::summary
