// The result of reading any container: plain values. Formats produce a Model; the tree and the views use one; neither
// depends on the other.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/digest.h"
#include "base/later.h"
#include "base/source.h"
#include "base/values/value.h"
#include "formats/checksums/file_check.h"
#include "formats/checksums/published.h"
#include "formats/chosen_files.h"
#include "formats/dtype.h"
#include "formats/float32.h"
#include "formats/lacks.h"
#include "formats/packed_weight.h"
#include "formats/rare.h"
#include "formats/tensor_list.h"

namespace weightfs {

/// A file of the container, or the container's file itself, shown under files/.
struct Part {
  std::string path;              ///< as in the container, '/' between components
  Later<SourcePtr> source;       ///< its bytes
  FileChecksums checksums = {};  ///< that the container has of it; of a link, those of its target
  std::string link_target = {};  ///< the text of a symbolic link that stays inside files/; empty for a file
  bool is_structure = false;     ///< no tensor is in it: a graph, a configuration, an index of other files
};

/// A text about the model that is rendered on first read: graph.json, a long list of metadata.
struct Document {
  std::string path;         ///< from the top of the tree: "graph.json", "metadata/tokenizer.ggml.tokens.json"
  Later<SourcePtr> source;  ///< the rendered text
};

/// What some tensors have besides their bytes, by their index.
struct PerTensor {
  std::map<size_t, AffineNumbers> affine_numbers;  ///< of quantised tensors
  std::map<size_t, PackedWeight> packed_weights;   ///< of a graph
  std::map<size_t, Digest> digests;                ///< if known without reading
  /// The elements of tensors of type string, in C order, UTF-8.
  std::map<size_t, Later<std::shared_ptr<const std::vector<std::string>>>> strings;
  /// The whole .npy files of arrays of NumPy that have a type without a row of DType: as stored, or made of what a
  /// pickle has.
  std::map<size_t, Slice> npy_files;
};

struct GgufKeys;
struct Model;
class Folder;
using ModelPtr = std::shared_ptr<const Model>;

/// A part of a model that is a container itself.
struct Nested {
  size_t part;            ///< its index in the parts
  Later<ModelPtr> model;  ///< read when its directory is entered
};

/// The maximum length of a list in metadata.json; a longer one becomes a Document, so that metadata.json stays
/// readable.
inline constexpr size_t kMaxInlineList = 1024;

/// The contents of a container.
struct Model {
  std::string format;   ///< the format's name: "gguf"
  std::string version;  ///< of the format, in its users' terms: "3", "V2", "release layout"
  Map common;    ///< the fields that models have in common, if the container has them: name, description, license, …
  Map metadata;  ///< every container-specific field, but for those of add_facts
  /// Adds the facts about the container to a copy of its metadata. They are made when they are shown, because a
  /// directory of ten thousand models would keep them. Null if the metadata has them.
  std::function<void(Map& metadata)> add_facts;
  TensorList tensors;                   ///< in container order
  Rare<PerTensor> per_tensor;           ///< what some of them have besides their bytes
  std::vector<Part> parts;              ///< the files of the container
  Rare<std::vector<FileCheck>> checks;  ///< what bytes can be compared with besides the checksums of the parts
  std::vector<Document> documents;      ///< rendered on first read
  std::vector<std::string> warnings;    ///< problems, one line each
  Rare<Lacks> lacks;                    ///< what of these makes the model incomplete; see completeness_of()
  std::list<std::string> string_pool;   ///< owns strings that stored_dtype and scope refer to
  BudgetPtr budget;                     ///< of the outermost container; renderings are charged to it. May be null.

  std::shared_ptr<const Folder> beside;        ///< the files next to the container, for its summary; may be null
  Rare<ChosenFiles> chosen;                    ///< set if a directory is the model
  std::shared_ptr<const Published> published;  ///< its manifests in a registry or a store; null for other models
  /// Set for a GGUF of version 2 or 3, and for a model whose first file is one.
  std::shared_ptr<const GgufKeys> gguf_keys;

  // Only for containers of files.
  bool has_members = false;  ///< the parts are members of an archive; else the first one is the container's own file
  /// Directories with an entry of their own, even if empty; spelled as in parts.
  Rare<std::vector<std::string>> directories;
  std::optional<uint64_t> stored_bytes;  ///< size of the container in storage; else the sum of its parts
  /// Finds the parts of `itself` that are containers; null if there cannot be any.
  std::function<Result<std::vector<Nested>>(const ModelPtr& itself)> nested;

  /// Set if blobs must be fetched to know the tensors, the metadata and all warnings. This model then has only the
  /// format, the parts and the nested containers; complete_model has everything, with the same parts.
  std::unique_ptr<const Later<ModelPtr>> complete_model;
};

/// Every container-specific field, with the facts about the container.
inline Map metadata_with_facts(const Model& model) {
  Map metadata = model.metadata;
  if (model.add_facts) model.add_facts(metadata);
  return metadata;
}

}  // namespace weightfs
