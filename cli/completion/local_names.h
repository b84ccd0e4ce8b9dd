// Names on this machine that complete a word: models in local stores, mount points, cached digests, users. Nothing here
// uses the network, or a mount.
#pragma once

#include <string>
#include <vector>

#include "cli/options/open_options.h"

namespace weightfs::completion {

/// `ollama:NAME` of each model in the local stores of Ollama.
std::vector<std::string> ollama_names();

/// `hf://ORG/REPO` of each model in the cache of huggingface_hub.
std::vector<std::string> hub_names();

/// The mount points of weightfs; below the working directory also as relative paths.
std::vector<std::string> mount_points();

/// The digests in the cache of weightfs: of blobs, partial downloads and ranges.
std::vector<std::string> cached_digests();

/// The names in a file such as /etc/passwd, which is read directly: a directory service may block.
std::vector<std::string> names_in(const char* file);

/// Whether the name of a tensor stands for its file, as in `ls` and `cat`.
enum class TensorNames { no, if_no_path };

/// The paths in a model that begin with `word`, without those below other directories; those of directories end in `/`.
std::vector<std::string> paths_in_model(SourceInput& input, const std::string& word, TensorNames tensors);

/// The names of the tensors of a model that begin with `word`.
std::vector<std::string> tensors_in_model(SourceInput& input, const std::string& word);

}  // namespace weightfs::completion
