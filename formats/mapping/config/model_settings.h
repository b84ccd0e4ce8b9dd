// What the keys of one model are made of, for the functions that write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/mapping/config/rope_settings.h"
#include "formats/mapping/config/settings.h"
#include "formats/mapping/keys.h"

namespace weightfs::mapping {

struct ModelSettings {
  Repository& repository;
  Settings& settings;
  RopeSettings rope;
  Keys& keys;
  uint32_t file_type;  ///< llama_ftype
  uint32_t layers;     ///< num_hidden_layers
  uint32_t blocks;     ///< layers, and those of multi-token prediction

  Arch arch() const { return repository.architecture().id; }
  /// "llama.block_count" of "block_count".
  std::string key(std::string_view name) const {
    return std::string(repository.architecture().name).append(".").append(name);
  }
  // Nothing is not written.
  void u32(std::string_view name, Integer value) const {
    if (value) keys.u32(key(name), *value);
  }
  void f32(std::string_view name, Real value) const {
    if (value) keys.f32(key(name), *value);
  }
};

/// The keys that most architectures have, in the converter's order, general.file_type last.
void add_common_keys(const ModelSettings& model);

/// Refuses rope_type for an architecture without any; "dynamic" changes nothing before the stated context.
void refuse_rope_scaling(const ModelSettings& model);

/// The keys that the architecture has besides, or instead.
void add_keys_of_architecture(const ModelSettings& model);

// Parts of add_keys_of_architecture(), by the family; those of gemma2 are all of its keys.
void add_gemma2_keys(const ModelSettings& model);
void add_gemma3_keys(const ModelSettings& model);
void add_gemma4_keys(const ModelSettings& model);
void add_qwen_moe_keys(const ModelSettings& model);
void add_qwen35_keys(const ModelSettings& model);
void add_deepseek2_keys(const ModelSettings& model);

/// Adds the order of layers with a window if it is not that of llama.cpp, and refuses another order of layers without
/// rotation, for which there is no key. After add_keys_of_architecture().
void handle_order_of_layers(const ModelSettings& model);

/// The number of layers for multi-token prediction that the repository has tensors of, in the form of Qwen 3.5.
uint32_t layers_of_mtp(Repository& repository, Settings& settings);

/// True for each layer whose layer_types is `type`. Empty, and a refusal, if it has not `layers` entries; empty if it
/// is missing.
std::vector<bool> layers_of_type(Settings& settings, uint32_t layers, std::string_view type);

/// The size of a head in the layers of Gemma 4 that have full attention.
uint32_t head_dim_of_full_layers(Settings& settings);

}  // namespace weightfs::mapping
