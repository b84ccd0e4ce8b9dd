// What every container becomes: plain values. The narrow waist of weightfs: formats make a Model, the tree and the
// views are made of one, and neither knows the other.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/digest.h"
#include "base/later.h"
#include "base/source.h"
#include "base/values/value.h"
#include "formats/dtype.h"

namespace weightfs {

/// Sizes of the dimensions, outermost first (C order); empty for a scalar.
using Shape = std::vector<uint64_t>;

/// A Tensor has no more dimensions than this: readers refuse or leave out what has more. Frameworks stop at 64 or
/// before, but the formats have no limit and their own test files go to 300; beyond, a shape is only a way to take
/// memory.
inline constexpr size_t kMostDimensions = 1024;

/// A tensor: little-endian bytes in C order exactly as stored (big-endian GGUF excepted: as stored there too).
struct Tensor {
  std::string name;              ///< as the container spells it: any bytes
  const DType* dtype = nullptr;  ///< never null in a Model; &kUnknownDType when the type is not known
  std::string_view
      stored_dtype;        ///< as the container spells it ("F32", "Q4_0"); lives as long as the Model or for ever
  std::string_view scope;  ///< the graph or module it belongs to, in front of its path; "" for the container itself
  Shape shape;
  Slice source;  ///< its bytes; refused() when the container lies about them (then a warning says how)

  uint64_t nbytes() const { return source.size(); }
};

/// A file that the container is or holds, shown under files/.
struct Part {
  std::string path;                    ///< as the container spells it, '/' between components
  Later<SourcePtr> source;             ///< its bytes
  std::optional<Digest> digest = {};   ///< when the container names it
  std::optional<uint32_t> crc32 = {};  ///< of all its bytes, when the container has it (zip)
  std::optional<Md5> md5 = {};         ///< when the container has it (the MLC tensor cache)
  std::string link_target = {};        ///< not empty: a symbolic link with this text, which stays inside files/
};

/// A text about the model that is rendered when it is asked for: graph.json, a long list of metadata.
struct Document {
  std::string path;         ///< from the top of the tree: "graph.json", "metadata/tokenizer.ggml.tokens.json"
  Later<SourcePtr> source;  ///< the rendered text
};

struct Model;
using ModelPtr = std::shared_ptr<const Model>;

/// A part of a model that is a container itself.
struct Nested {
  size_t part;            ///< its place in the parts
  Later<ModelPtr> model;  ///< read when it is entered
};

/// Lists of metadata with more elements than this become Documents, so that metadata.json stays a page that a person
/// reads.
inline constexpr size_t kLongestInlineList = 1024;

/// A container, read.
struct Model {
  std::string format;   ///< the format's name: "gguf"
  std::string version;  ///< of the format, as its users say it: "3", "V2", "release layout"
  Map common;           ///< what models have in common, where the container says it: name, description, license, …
  Map metadata;         ///< every container-specific field
  std::vector<Tensor> tensors;        ///< in container order
  std::vector<Part> parts;            ///< the container's own files
  std::vector<Document> documents;    ///< rendered when asked for
  std::vector<std::string> warnings;  ///< what was refused or repaired, one line each
  std::deque<std::string> spellings;  ///< owns texts that stored_dtype and scope point into
  BudgetPtr budget;                   ///< of the outermost container; what is rendered is charged to it. May be null.

  // What only containers of files have.
  std::vector<std::string> directories;  ///< those that it names itself, be they empty; spelled as parts are
  std::optional<uint64_t> stored_bytes;  ///< of the container as it is stored; else the sum of its parts
  std::map<size_t, Digest> digests;      ///< of tensors (by their place), where they are known without reading
  /// The elements of tensors of type string (by their place), in C order, UTF-8.
  std::map<size_t, Later<std::shared_ptr<const std::vector<std::string>>>> strings;
  std::vector<std::string> missing;   ///< files that it says it has, and has not
  std::vector<std::string> unlisted;  ///< files that it has, though its list of all its files does not name them
  /// Finds the parts of `itself` that are containers; null where there cannot be any.
  std::function<Result<std::vector<Nested>>(const ModelPtr& itself)> nested;

  /// Set while to know the tensors, the metadata and all warnings takes fetching: this model has what is known before
  /// (format, parts, nested), and this gives the whole one, which has the same parts.
  std::optional<Later<ModelPtr>> whole;
};

/// The bytes that a tensor of this type and shape takes. Nothing on overflow, for an unknown type, and when the
/// elements (for a block type: those of the innermost dimension; for a sub-byte type: all) do not fill whole blocks.
std::optional<uint64_t> size_in_bytes(const DType& dtype, const Shape& shape);

}  // namespace weightfs
