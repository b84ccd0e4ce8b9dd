// Compares two models with what is in them: metadata, tensors, nested models and files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/compare/contents.h"
#include "report/compare/metadata.h"
#include "report/compare/tensors.h"

namespace weightfs::compare {

/// Two models of the same path, with a difference or an error.
struct ModelComparison {
  std::string path;  ///< of a nested model, or of one in a directory; "" for the source
  ModelPtr a;  ///< its tensors are those that were compared: computed weights in the place of packed ones, and those
  ModelPtr b;  ///< of a repository as a GGUF has them, if names are mapped
  NameMapping names;
  MetadataComparison metadata;  ///< empty if names are mapped: a repository and a GGUF state the same in other words
  TensorComparison tensors;

  bool is_different() const;
  bool is_unreadable() const { return !metadata.unreadable.empty() || !tensors.unreadable.empty(); }
};

/// What is known of a file, or of a model that only one side has.
struct FileState {
  std::optional<uint64_t> size;  ///< bytes; nothing if it cannot be known without reading, or for a model's directory
  std::optional<Digest> digest;  ///< if it is known without reading
  std::string link_target;       ///< of a symbolic link
  bool is_model = false;
};

/// A file with other bytes, or that only one side has.
struct FileChange {
  std::string path;
  std::optional<FileState> a;
  std::optional<FileState> b;
};

/// A file or model that cannot be read.
struct UnreadableFile {
  Side side;
  std::string path;
  Error error;
};

/// The result for everything that two sources have.
struct ContentsComparison {
  std::vector<ModelComparison> models;  ///< those with a difference or an error, and the sources themselves
  std::vector<FileChange> files;        ///< that differ
  std::vector<UnreadableFile> unreadable;
  uint64_t equal_tensors = 0;
  uint64_t equal_files = 0;

  bool is_different() const;
  bool is_incomplete() const;
};

/// Compares the models, then models and files of the same path: files by their digests if both are known, else by their
/// sizes and bytes. Files that only one of two containers of different formats has do not count, if both have tensors
/// of their own. Two files that share their bytes with files that were compared before are not read again. Fails with
/// resource, and as finding nested models does.
Result<ContentsComparison> compare_contents(const Contents& a, const Contents& b, const CompareOptions& options);

}  // namespace weightfs::compare
