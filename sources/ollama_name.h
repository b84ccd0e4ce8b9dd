// The local stores of Ollama.
#pragma once

#include <string>
#include <vector>

namespace weightfs {

/// $OLLAMA_MODELS, else ~/.ollama/models and the store of the system service.
std::vector<std::string> local_ollama_stores();

}  // namespace weightfs
