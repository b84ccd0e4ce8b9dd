// The summary of a model: what a person asks first, such as the number of parameters, the quantisation, the context
// and the memory. It is computed from the model's tensors and metadata, and from small files next to it (config.json,
// the model card), never from the data of tensors. docs/summary.md documents every field.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/values/value.h"
#include "formats/summary/counts.h"

namespace weightfs {

struct Model;

namespace summary {

using Number = std::optional<uint64_t>;

/// How weights are stored, if they are not of a plain type. Every GGUF has one.
struct Quantisation {
  std::string name;    ///< "Q4_K_M", "GPTQ 4-bit g128"
  std::string method;  ///< "gptq", "mlx", …: as in the formats, lower case; "gguf" for a GGUF
  Number bits, group_size;
  std::string label;        ///< of the file's name, if the publisher uses one that is no file type: "UD-Q4_K_XL"
  bool is_guessed = false;  ///< from the types of the tensors, because the file does not state it
};

struct Rope {
  std::string type;              ///< "yarn", "llama3", …; empty if positions are not scaled
  std::optional<double> factor;  ///< of the scaling
  Number original_context_length;
  std::optional<double> base;
};

/// The keys and values that attention keeps for one sequence, in float16.
struct KvCache {
  uint64_t bytes_per_token = 0;  ///< while the token is inside of every window
  Number bytes_at_context;       ///< at the full context, windows respected, with the recurrent state
  Number recurrent_state_bytes;
  Number window = {};  ///< tokens that layers with a window keep; the largest. Only on the screen
};

/// A LoRA or another adapter.
struct Adapter {
  std::string method;  ///< "LORA", "DORA", "IA3", …
  Number rank;
  std::string rank_text;  ///< "8, some 16" if the rank is not the same everywhere
  std::optional<double> alpha;
  bool uses_rslora = false;                 ///< the scale is alpha / sqrt(rank)
  std::vector<std::string> target_modules;  ///< sorted
  std::string base_model;
  std::string task;                    ///< "CAUSAL_LM"
  std::string base_version = {};       ///< of a model of pictures, as stored: "sdxl_base_v1-0"; else its family
  std::string trigger_phrase = {};     ///< what a prompt must contain, as stated
  std::vector<std::string> tags = {};  ///< of the captions that it was trained with: the most frequent ones first
};

/// A part of a pipeline that has weights.
struct Component {
  std::string name;  ///< its directory
  std::string class_name;
  Number parameters = 0;
  uint64_t bytes = 0;
};

/// Another file with weights in the same directory, which is not opened.
struct Alternative {
  std::string path;
  std::string format;  ///< by its name; may be empty
  uint64_t bytes = 0;
};

/// An operator of a graph, with the number of its nodes.
struct Operator {
  std::string name;
  uint64_t count = 0;
};

/// An unknown field is an empty text, an empty list or no number.
struct Summary {
  std::string kind;  ///< "causal-lm", "encoder", …; never empty
  std::string name;
  std::string architecture, architecture_class;
  std::string family;  ///< of a diffusion model or a part of one: "SDXL"
  Number parameters, parameters_active, parameters_embedding, parameters_head, parameters_mtp, parameters_vision,
      parameters_audio;
  Number buffer_elements, optimizer_elements;
  uint64_t weight_bytes = 0;  ///< of parameters and their companions
  std::optional<double> bits_per_weight;
  std::string dtype;  ///< of most parameters
  std::optional<Quantisation> quantisation;
  Number layers, encoder_layers, hidden_size, heads, kv_heads, head_dim, ffn_size;
  std::string attention;  ///< "MHA", "GQA", "MQA", "MLA" or "none"
  Number sliding_window;
  Number experts, experts_used, experts_shared, expert_ffn_size;
  Number context_length;
  Rope rope;
  Number vocabulary_size;
  std::string tokenizer;
  std::optional<bool> has_chat_template;
  std::vector<std::string> chat_template_names;
  bool template_has_tools = false, template_has_thinking = false;  ///< only on the screen
  std::optional<bool> tied_embeddings;
  std::optional<KvCache> kv_cache;
  Number embedding_size;
  std::string pooling;
  Number labels, image_size, patch_size;
  std::vector<std::string> inputs, outputs;  ///< "image float32 [batch,3,224,224]"
  std::vector<Operator> operators;           ///< the most frequent first, then by name
  std::string opset, producer;               ///< of a graph; only on the screen
  std::string delegates;                     ///< of a graph whose weights are not visible; only on the screen
  Map generation;
  std::string license;
  std::vector<std::string> base_models;
  std::vector<std::string> tags, languages;
  std::string repository, commit;
  std::optional<Adapter> adapter;
  std::vector<Component> components;
  std::string projector;                  ///< the path of a projector in another file
  std::vector<std::string> weight_files;  ///< paths below files/
  std::vector<Alternative> alternatives;
  std::vector<Alternative> training_state;  ///< JSON has the paths
  Number training_steps;                    ///< of trainer_state.json; only on the screen
  std::vector<std::string> warnings;        ///< about fields that were ignored
};

/// A summary with the counts that it was computed from.
struct Summarised {
  Summary summary;
  std::vector<Counted> tensors;  ///< by the index of the tensor
};

/// Summarises a model. Fields of small files that cannot be read, are too large or are of the wrong type are absent,
/// with a warning. The work is charged to the model's budget; what exceeds it is absent.
Summarised summarise(const Model& model);

/// The fields under their stable names (docs/summary.md), without `blocks` and `refused`.
Map to_map(const Summary& summary);

}  // namespace summary
}  // namespace weightfs
