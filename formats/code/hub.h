// Configurations of repositories that name Python code: of transformers, diffusers, sentence-transformers, PEFT,
// TorchServe and skops.
#pragma once

#include <string_view>

#include "formats/code/list.h"
#include "formats/model.h"

namespace weightfs::code {

/// The files of a model, by their paths.
class Paths {
 public:
  explicit Paths(const Model& model);

  /// The part with this path; null if there is none.
  const Part* find(std::string_view path) const;
  bool has(std::string_view path) const { return find(path) != nullptr; }

  /// The part, or the one that it leads to by links between parts; null if that is none.
  const Part* resolve(const Part& part) const;

 private:
  std::vector<const Part*> sorted_;
};

/// Adds what a JSON file of a model names. `path`: of the file.
void add_configuration(const Value& json, std::string_view path, const Paths& files, CodeList& out);

/// Whether add_configuration() knows files of this name.
bool is_configuration(std::string_view path);

}  // namespace weightfs::code
