#include "formats/tflite/tensors.h"

#include <fmt/core.h>

#include <set>

#include "base/text.h"
#include "formats/string_pool.h"
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
      const std::string_view scope = spellings_.add(scope_of(i, graph.name));
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
    if (!bytes && !is_permanent(bytes.error())) return tl::unexpected(bytes.error());
    if (bytes && !*bytes) return {};
    TRY_VOID(container_.budget->charge(Cost::tensor));
    TRY_VOID(container_.budget->charge(Cost::kept, entry.name.size() + sizeof(uint64_t) * entry.shape.size()));
    const TypeCode* const type = kTensorTypes.find(entry.type);
    Tensor tensor{.name = std::move(entry.name),
                  .dtype = dtype_of(type),
                  .stored_dtype = type == nullptr ? spellings_.add(fmt::format("type {}", entry.type)) : type->name,
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

  // Sets the shape and the bytes of a tensor.
  Result<void> place(Tensor& tensor, const Entry& entry, const Result<Slice>& found) {
    tensor.shape = TRY(entry.shape.shape());
    const Slice& bytes = TRY(found);
    if (entry.is_sparse) {
      tensor.dtype = &kUnknownDType;
      warnings_.add("tensor {}: sparse; its {} bytes are the stored blocks", quoted(tensor.name), bytes.size());
    }
    if (tensor.dtype->block_bytes > 0) TRY_VOID(check_size(tensor, bytes.size()));
    tensor.source = bytes;
    if (tensor.dtype->name == "string")
      model_.per_tensor.edit().strings.emplace(model_.tensors.size(), later_strings(tensor, container_.budget));
    return {};
  }

  static Result<void> check_size(const Tensor& tensor, uint64_t found) {
    const auto size = size_in_bytes(*tensor.dtype, tensor.shape);
    if (!size) return failure(Code::corrupt, "has a shape of more than 2^64 bytes");
    if (*size == found) return {};
    return failure(Code::corrupt, fmt::format("has {} bytes, and its shape needs {}", found, *size));
  }

  Model& model_;
  const File& file_;
  const Container& container_;
  Warnings& warnings_;
  ExternalBuffers external_;
  std::set<std::string> scopes_;  // names of subgraphs that are in use
  StringPool spellings_{model_.string_pool};
};

}  // namespace

Result<void> add_tensors(Model& model, const File& file, const Container& container, Warnings& warnings) {
  return TensorAdder(model, file, container, warnings).add_all();
}

}  // namespace weightfs::tflite
