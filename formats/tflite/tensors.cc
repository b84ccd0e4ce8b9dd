#include "formats/tflite/tensors.h"

#include <fmt/core.h>

#include <set>

#include "base/text.h"
#include "formats/tflite/external.h"
#include "formats/tflite/strings.h"
#include "formats/tflite/types.h"

namespace weightfs::tflite {
namespace {

// The maximum length of a subgraph's name in the paths of its tensors.
constexpr uint64_t kMaxScopeName = 255;

class TensorAdder {
 public:
  TensorAdder(Model& model, const File& file, const Container& container, Warnings& warnings)
      : model_(model), file_(file), container_(container), warnings_(warnings), external_(file, container) {}

  Result<void> add_all() {
    for (uint64_t i = 0; i < file_.subgraphs.size(); ++i) {
      const Graph graph = TRY(read_graph(file_, i));
      if (graph.tensors.size() == 0) continue;
      TRY_VOID(container_.budget->charge(Cost::value));
      const std::string_view scope = pooled(scope_of(i, graph.name));
      for (uint64_t id = 0; id < graph.tensors.size(); ++id) {
        Entry entry = TRY(read_entry(graph.tensors, id));
        TRY_VOID(add(std::move(entry), scope));
      }
    }
    for (Part& part : external_.parts()) model_.parts.push_back(std::move(part));
    return {};
  }

 private:
  // The main subgraph's tensors are on top. Others are below their name, or their number if it has no name of its own.
  std::string scope_of(uint64_t index, const std::string& name) {
    if (index == 0) return {};
    const bool is_usable = !name.empty() && name.size() <= kMaxScopeName && name.find('/') == name.npos;
    return fmt::format("subgraphs/{}", is_usable && scopes_.insert(name).second ? name : std::to_string(index));
  }

  Result<void> add(Entry entry, std::string_view scope) {
    auto bytes = entry.external != 0 ? optional(external_.bytes(entry.external)) : bytes_of_buffer(file_, entry.buffer);
    // A failed disk or a lack of memory would be a failure again.
    if (!bytes && !is_about_the_tensor(bytes.error())) return tl::unexpected(bytes.error());
    if (bytes && !*bytes) return {};
    TRY_VOID(container_.budget->charge(Cost::tensor));
    TRY_VOID(container_.budget->charge(Cost::kept, entry.name.size() + sizeof(uint64_t) * entry.shape.size()));
    const TensorType type = tensor_type(entry.type);
    Tensor tensor{.name = std::move(entry.name),
                  .dtype = type.dtype,
                  .stored_dtype = type.name.empty() ? pooled(fmt::format("type {}", entry.type)) : type.name,
                  .scope = scope,
                  .shape = {},
                  .source = {}};
    const auto placed = place(tensor, entry, bytes.map([](const std::optional<Slice>& found) { return *found; }));
    if (!placed)
      warnings_.refuse(placed.error().code, "tensor {}{}: {}", quoted(tensor.name),
                       scope.empty() ? "" : fmt::format(" ({})", printable(scope)), placed.error().message);
    model_.tensors.push_back(tensor);
    return {};
  }

  static Result<std::optional<Slice>> optional(Result<Slice> bytes) {
    return std::move(bytes).map([](Slice slice) { return std::optional(std::move(slice)); });
  }

  static bool is_about_the_tensor(const Error& error) { return is_permanent(error); }

  // Sets the shape and the bytes of a tensor.
  Result<void> place(Tensor& tensor, const Entry& entry, const Result<Slice>& found) {
    tensor.shape = TRY(shape_of(entry));
    const Slice& bytes = TRY(found);
    if (entry.is_sparse) {
      tensor.dtype = &kUnknownDType;
      warnings_.add("tensor {}: sparse; its {} bytes are the stored blocks", quoted(tensor.name), bytes.size());
    }
    if (tensor.dtype->block_bytes > 0) TRY_VOID(check_size(tensor, bytes.size()));
    tensor.source = bytes;
    if (tensor.dtype->name == "string")
      model_.strings.edit().emplace(model_.tensors.size(), later_strings(tensor, container_.budget));
    return {};
  }

  static Result<void> check_size(const Tensor& tensor, uint64_t found) {
    const auto size = size_in_bytes(*tensor.dtype, tensor.shape);
    if (!size) return failure(Code::corrupt, "has a shape of more than 2^64 bytes");
    if (*size == found) return {};
    return failure(Code::corrupt, fmt::format("has {} bytes, and its shape needs {}", found, *size));
  }

  // A text that the model owns, once.
  std::string_view pooled(const std::string& text) {
    const auto known = spellings_.find(text);
    if (known != spellings_.end()) return *known;
    return *spellings_.insert(model_.string_pool.emplace_back(text)).first;
  }

  Model& model_;
  const File& file_;
  const Container& container_;
  Warnings& warnings_;
  ExternalBuffers external_;
  std::set<std::string> scopes_;          // names of subgraphs that are in use
  std::set<std::string_view> spellings_;  // the strings in model_.string_pool
};

}  // namespace

Result<Shape> shape_of(const Entry& entry) {
  if (entry.shape.size() > kMaxDimensions)
    return failure(Code::unsupported,
                   fmt::format("has {} dimensions, more than {}", entry.shape.size(), kMaxDimensions));
  const auto dimensions = TRY(entry.shape.numbers<int32_t>(kMaxDimensions));
  Shape shape;
  for (const int32_t dimension : dimensions) {
    if (dimension < 0) return failure(Code::corrupt, fmt::format("has a dimension of {}", dimension));
    shape.push_back(static_cast<uint64_t>(dimension));
  }
  return shape;
}

Result<void> add_tensors(Model& model, const File& file, const Container& container, Warnings& warnings) {
  return TensorAdder(model, file, container, warnings).add_all();
}

}  // namespace weightfs::tflite
