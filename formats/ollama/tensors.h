// The tensors of an Ollama model: those in model layers, and layers that are tensors themselves.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "formats/ollama/ollama.h"
#include "formats/string_pool.h"

namespace weightfs::ollama {

/// Adds layers to a model, one after the other. Invalid blobs become warnings; the methods fail if bytes are not
/// available.
class Tensors {
 public:
  /// `budget` is charged for reading them.
  Tensors(Model& model, Warnings& warnings, BudgetPtr budget)
      : model_(model), warnings_(warnings), budget_(std::move(budget)) {}

  /// The first model layer provides the model's metadata, documents and common fields; tensors of further layers have
  /// the file's name as scope.
  Result<void> add_model(const Item& item);

  /// Adds a tensor, or the tensors of a blob: with its scales, or packed experts.
  Result<void> add_tensor(const Item& item);

  /// The quantization of tensors, by name: quant_type, group_size, the effective shape.
  Map take_quantization();

 private:
  Result<void> add_bare(const Item& item);
  Result<void> add_file(const Item& item);
  bool has_room_for(const Item& item, size_t tensors);
  bool has_room_for_header(const Item& item, uint64_t length);
  Result<void> add_copies(const Item& item);
  void take_tensors(const Item& item, Model read, std::string_view scope);
  template <class T>
  Result<bool> reported(const Item& item, const Result<T>& failed);

  Model& model_;
  Warnings& warnings_;
  bool has_model_ = false;
  BudgetPtr budget_;
  std::set<Digest> models_;            // blobs whose layers were added
  std::set<std::string> model_files_;  // identities of their files: a file may have several digests as names

  // A tensor blob that was read, and the place of its tensors in the model.
  struct Read {
    uint64_t header;  // its length
    size_t begin, count;
    bool named_by_layer;
  };
  std::map<Digest, Read> read_;
  std::map<Digest, Error> failures_;  // errors of tensor blobs, which are not retried
  uint64_t headers_ = 0;              // bytes of all safetensors headers so far
  Map quantization_;
  StringPool spellings_{model_.string_pool};
};

}  // namespace weightfs::ollama
