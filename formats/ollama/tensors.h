// The tensors of a model that Ollama keeps: those of its model layers, and those that are layers themselves.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "formats/ollama/ollama.h"

namespace weightfs::ollama {

/// Adds layers to a model, one after the other. What is wrong with a blob's bytes becomes a warning; add() fails when
/// bytes cannot be had.
class Tensors {
 public:
  /// `budget`: pays for reading them.
  Tensors(Model& model, Warnings& warnings, BudgetPtr budget)
      : model_(model), warnings_(warnings), budget_(std::move(budget)) {}

  /// The first model layer gives the model its metadata, documents and common fields; tensors of further ones have the
  /// file's name as scope.
  Result<void> add_model(const Item& item);

  /// A tensor, or what a blob has of them: with its scales, or packed experts.
  Result<void> add_tensor(const Item& item);

  /// How quantised tensors are to be read, by name: quant_type, group_size, the shape that is meant.
  Map take_quantization();

 private:
  Result<void> add_bare(const Item& item);
  Result<void> add_file(const Item& item);
  bool has_room_for(const Item& item, size_t tensors);
  bool has_room_for_header(const Item& item, uint64_t length);
  Result<void> add_copies(const Item& item);
  void take_tensors(const Item& item, Model read, std::string_view scope);
  std::string_view spelled(std::string_view text);
  template <class T>
  Result<bool> said(const Item& item, const Result<T>& failed);

  Model& model_;
  Warnings& warnings_;
  bool has_model_ = false;
  BudgetPtr budget_;
  std::set<Digest> models_;            // whose layers were added
  std::set<std::string> model_files_;  // identities of their bytes: one file may have several digests for its names

  // A tensor blob that was read: where its tensors stand in the model.
  struct Read {
    uint64_t header;  // its length
    size_t begin, count;
    bool named_by_layer;
  };
  std::map<Digest, Read> read_;
  std::map<Digest, std::string> failures_;  // why a tensor blob could not be read: it is not tried again
  uint64_t headers_ = 0;                    // bytes of all safetensors headers so far
  Map quantization_;
  std::map<std::string, std::string_view, std::less<>> spelled_;  // what is in the model's spellings
};

}  // namespace weightfs::ollama
