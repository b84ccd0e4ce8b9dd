// What a model is for.
#pragma once

#include <string>

#include "formats/model.h"
#include "formats/summary/facts/config.h"
#include "formats/summary/small_files.h"

namespace weightfs::summary {

/// The kind by everything that is known (docs/summary.md). `gguf`: the keys of a GGUF, or null.
std::string kind_of(const Model& model, const Config& config, const Map* gguf, SmallFiles& files, const Summary& known);

/// Whether a model_type of transformers has an encoder and a decoder.
bool is_encoder_decoder_type(std::string_view model_type);

}  // namespace weightfs::summary
