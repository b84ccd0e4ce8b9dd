// Which layers of a model have attention, with which window, by its config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "formats/summary/facts/config.h"

namespace weightfs::summary {

enum class Layer : uint8_t {
  full,       ///< attention to all tokens
  sliding,    ///< attention to the tokens of a window
  recurrent,  ///< a state instead of keys and values
  both,       ///< full attention and a state
  none        ///< neither
};

/// The type of each of `layers` layers. Nothing if the file states attention of a kind that is not known.
std::optional<std::vector<Layer>> layers_by_config(const Config& config, const Summary& known, uint64_t layers);

/// Whether a window is stated of a model whose family may use it in some layers, and nothing says in which. `types`: of
/// its layers.
bool has_unknown_windows(const Config& config, const std::vector<Layer>& types);

}  // namespace weightfs::summary
