// NNEF: a directory or a tar with the graph as text (graph.nnef) and a file for each variable (.dat); also one of
// these.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/text.h"
#include "formats/archive/archive_formats.h"
#include "formats/archive/zip.h"
#include "formats/nnef/graph.h"
#include "formats/nnef/tensor_file.h"

namespace weightfs {
namespace nnef {
namespace {

constexpr const char* kGraph = "graph.nnef";
constexpr std::string_view kSuffix = ".dat";
constexpr uint64_t kMaxGraphSize = 16 << 20;
constexpr uint64_t kTensorSteps = 2;

Result<void> add(Model& model, Tensor tensor, Budget& budget) {
  TRY_VOID(budget.charge(Cost::tensor));
  TRY_VOID(budget.charge(Cost::kept, tensor.name.size() + sizeof(uint64_t) * tensor.shape.size()));
  model.tensors.push_back(tensor);
  return {};
}

// Adds the tensor of a member. One that is not valid is refused.
Result<void> add_member(Model& model, Warnings& warnings, const Part& part, Budget& budget) {
  const SourcePtr bytes = TRY(part.source.get());
  const auto head = archive::member_head(*bytes, kHeaderSize, budget);
  if (!head && !is_about_the_bytes(head.error())) return tl::unexpected(head.error());
  if (head && !is_tensor_file(*head)) return {};
  auto read = head ? read_tensor_file(*head, bytes) : tl::unexpected(head.error());
  Tensor tensor = read ? std::move(*read) : Tensor();
  tensor.name = part.path.substr(0, part.path.size() - kSuffix.size());
  if (!read) {
    tensor.dtype = &kUnknownDType;
    warnings.refuse(read.error().code, "tensor {}: {}: refused", quoted(tensor.name), read.error().message);
  }
  return add(model, std::move(tensor), budget);
}

void add_metadata(Model& model, const Graph& graph) {
  const auto ends = [](const std::vector<std::string>& names) {
    List list;
    for (const std::string& name : names) {
      if (list.size() == kMaxInlineList) break;
      Map end;
      end.append("name", name);
      list.emplace_back(std::move(end));
    }
    return list;
  };
  Map operations;
  for (const auto& [name, count] : graph.operations) operations.append(name, count);
  model.version = graph.version;
  model.metadata.append("graph", graph.name);
  model.metadata.append("inputs", ends(graph.inputs));
  model.metadata.append("outputs", ends(graph.outputs));
  model.metadata.append("operations", std::move(operations));
}

std::string text_of(std::span<const uint64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

// Warns about variables without a file, and about those whose file has another shape.
void compare(const TensorList& tensors, const std::vector<Variable>& variables, Warnings& warnings) {
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < tensors.size(); ++i) places.emplace(tensors.name(i), i);
  for (const auto& [label, shape] : variables) {
    const auto found = places.find(label);
    if (found == places.end()) {
      warnings.miss_tensors(1, Code::corrupt, "variable {}: it has no tensor file", quoted(label));
    } else if (const auto stored = tensors.shape(found->second);
               shape && !tensors.is_refused(found->second) && !std::ranges::equal(stored, *shape)) {
      warnings.miss_tensors(0, Code::corrupt, "variable {}: its file has the shape {}, {} has {}", quoted(label),
                            text_of(stored), kGraph, text_of(*shape));
    }
  }
}

// The graph, and warnings about its variables.
Result<void> read_graph(Model& model, Warnings& warnings, const archive::Archive& archive, Budget& budget) {
  const std::string text = TRY(archive.text(kGraph, kMaxGraphSize));
  TRY_VOID(budget.charge(Cost::input, text.size()));
  Charges charges(budget, Charges::Pass::together);
  const auto graph = parse_graph(text, charges);
  if (!graph) return failure(with_message(graph.error(), fmt::format("{}: {}", kGraph, graph.error().message)));
  charges.keep();
  add_metadata(model, *graph);
  if (!graph->is_whole) warnings.miss_tensors(0, Code::corrupt, "{}: it ends before the }} of the graph", kGraph);
  compare(model.tensors, graph->variables, warnings);
  return {};
}

Result<Model> read(archive::Archive archive, const Container& container) {
  Budget& budget = *container.budget;
  Model model;
  Warnings warnings;
  model.format = "nnef";
  {
    const codec::DecodeCharge::Active whole(archive.charge);
    for (const Part& part : archive.parts) {
      if (!part.link_target.empty() || !part.path.ends_with(kSuffix)) continue;
      TRY_VOID(budget.charge(Cost::step, kTensorSteps));
      TRY_VOID(add_member(model, warnings, part, budget));
    }
    TRY_VOID(read_graph(model, warnings, archive, budget));
  }
  archive.warnings.append(warnings, "");
  archive::add_members(model, std::move(archive), container);
  model.nested = nullptr;  // the members are the tensors
  return model;
}

}  // namespace
}  // namespace nnef

Match matches_nnef_tensor(const Probe& probe) { return nnef::is_tensor_file(probe.head) ? Match::yes : Match::no; }

Result<Model> read_nnef_tensor(const Container& container) {
  const uint64_t shown = std::min(container.bytes->size(), nnef::kHeaderSize);
  const std::string head = TRY(read_text(*container.bytes, 0, shown));
  Tensor tensor = TRY(nnef::read_tensor_file(head, container.bytes));
  tensor.name = container.name;
  if (tensor.name.ends_with(nnef::kSuffix)) tensor.name.resize(tensor.name.size() - nnef::kSuffix.size());
  Model model;
  model.format = "nnef-tensor";
  TRY_VOID(nnef::add(model, std::move(tensor), *container.budget));
  model.parts.push_back({container.name, Later<SourcePtr>::of(container.bytes)});
  return model;
}

Result<bool> matches_nnef(const archive::Archive& archive) { return archive.find(nnef::kGraph) != nullptr; }

Match matches_nnef_graph(const Probe& entry) {
  return entry.name == nnef::kGraph && entry.head_contains("version") && entry.head_contains("graph") ? Match::maybe
                                                                                                      : Match::no;
}

Result<Model> read_nnef(archive::Archive archive, const Container& container) {
  return nnef::read(std::move(archive), container);
}

}  // namespace weightfs
