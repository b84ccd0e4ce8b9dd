// Which files of a directory are the model that a Model was read from, and which others could be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weightfs {

/// The files of a directory that is one model. Paths are below the directory, as those of Model::parts.
struct ChosenFiles {
  struct File {
    std::string path;
    uint64_t bytes = 0;
  };
  /// A part of a diffusers pipeline with weights of its own; the names of its tensors begin with `NAME/`.
  struct Component {
    std::string name;
    std::string class_name;  ///< as in model_index.json: "UNet2DConditionModel"
  };

  std::vector<std::string> weight_files;  ///< of which the tensors are
  std::vector<File> alternatives;         ///< other weights: the same model in another form, or another one
  std::vector<File> training_state;       ///< of an optimizer or a trainer
  std::string projector;                  ///< of a vision model beside a language model
  std::vector<Component> components;
  std::string repository, commit;  ///< of a cache of the Hub: "org/name"
};

}  // namespace weightfs
