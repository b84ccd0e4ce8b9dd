// `weightfs info DIRECTORY`: the models of a directory as a table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/values/value.h"
#include "formats/model.h"
#include "fs/tree/forest.h"
#include "report/text/style.h"

namespace weightfs::info {

/// An entry of a directory: a model, a file, a directory, or an error.
struct DirectoryItem {
  std::string name;
  ModelPtr model;    ///< null unless it is a model
  std::string type;  ///< "file" or "directory"
  std::optional<Error> error;
};

/// What is wrong with an entry that has an error, without its name.
std::string problem_of(const DirectoryItem& found);

/// Lists a directory recursively down to its models, with all their lazy parts.
Result<std::vector<DirectoryItem>> find_models(Forest& forest);

/// An element for each entry: the content of metadata.json, an error, or a type.
List to_list(const std::vector<DirectoryItem>& items);

/// What a model lacks, in a few words: "DAMAGED: ends 9.8 KiB early". Empty for a complete one.
std::string lack_of(const Model& model);

/// A header and a line for each entry, with tabs: name, format, tensors, bytes, kind, parameters, quantisation, bits
/// per weight, what runs code. What a model lacks, or the error of one that cannot be opened, is in the place of its
/// kind; then its format is empty.
void print_rows(const std::vector<DirectoryItem>& items);

/// The table for people: a head, and a line for each model and each error; by size.
std::string render_models(const std::vector<DirectoryItem>& items, const std::string& source, const Style& style);

}  // namespace weightfs::info
