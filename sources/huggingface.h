// What other folders need to know of models on the Hugging Face Hub (sources/huggingface.cc).
#pragma once

#include <string>

namespace weightfs::huggingface {

/// The file with the user's token: $HF_TOKEN_PATH, $HF_HOME/token, or ~/.cache/huggingface/token. It may be missing.
std::string token_path();

/// Whether $HF_HUB_OFFLINE or $TRANSFORMERS_OFFLINE forbids requests to the Hub.
bool is_offline();

}  // namespace weightfs::huggingface
