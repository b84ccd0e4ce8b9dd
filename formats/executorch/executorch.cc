// ExecuTorch: .ptd files with named tensors, and .pte files with programs.

#include <algorithm>

#include "base/text.h"
#include "base/values/rendering.h"
#include "formats/executorch/file.h"
#include "formats/executorch/graph.h"
#include "formats/executorch/program.h"
#include "formats/executorch/tensors.h"

namespace weightfs {
namespace executorch {
namespace {

constexpr uint64_t kIdentifierOffset = 4;

Result<void> add_flat_tensor(File& file, TensorAdder& adder) {
  file.segments = TRY(file.root.tables(1));
  const auto named = TRY(file.root.tables(2));
  return adder.named_data(named);
}

Error named(const Error& error) { return {error.code, "executorch: " + error.message}; }

Result<SourcePtr> render_graph(const SourcePtr& bytes, const BudgetPtr& budget) {
  const File file = TRY(open_file(bytes, kProgramIdentifier, *budget));
  return charged_text(TRY(graph_json(file, *budget)), budget);
}

// Rendered when it is read.
Document graph_document(const Container& container) {
  return {"graph.json", Later<SourcePtr>([bytes = container.bytes, budget = container.budget] {
            return render_graph(bytes, budget).map_error(named);
          })};
}

// Segments may have no tensor of a known type, or padding at their end.
void report_end(const File& file, Warnings& warnings) {
  const uint64_t behind = file.source->size() - std::min(file.segment_base.value_or(0), file.source->size());
  if (file.segments_size <= behind) return;
  warnings.add_short_by(file.segments_size - behind);
  warnings.miss_tensors(0, Code::corrupt, "{} bytes of segments at byte {}, {} are in the file", file.segments_size,
                        file.segment_base.value_or(0), behind);
}

Result<Model> read(const Container& container, std::string_view identifier) {
  File file = TRY(open_file(container.bytes, identifier, *container.budget));
  Model model;
  model.format = "executorch";
  model.version = identifier;
  const auto version = TRY(file.root.number<uint32_t>(0));
  model.metadata.append("schema_version", version);
  if (file.segment_base) model.metadata.append("segment_base", *file.segment_base);
  model.parts.push_back({container.name, Later<SourcePtr>::of(container.bytes)});
  model.stored_bytes = container.bytes->size();
  TensorAdder adder(model, file, *container.budget);
  if (identifier == kDataIdentifier) {
    TRY_VOID(add_flat_tensor(file, adder));
  } else {
    TRY_VOID(add_program(model, file, adder, *container.budget));
    model.documents.push_back(graph_document(container));
  }
  report_end(file, adder.warnings());
  std::move(adder.warnings()).move_to(model);
  return model;
}

bool has_identifier(std::string_view head, std::string_view identifier) {
  return head.size() >= kIdentifierOffset && head.substr(kIdentifierOffset).starts_with(identifier);
}

}  // namespace
}  // namespace executorch

Match matches_executorch(const Probe& probe) {
  using namespace executorch;
  const bool is_one = has_identifier(probe.head, kDataIdentifier) || has_identifier(probe.head, kProgramIdentifier);
  return is_one ? Match::yes : Match::no;
}

Result<Model> read_executorch(const Container& container) {
  using namespace executorch;
  const std::string head = TRY(read_text(
      *container.bytes, 0, std::min<uint64_t>(container.bytes->size(), kIdentifierOffset + kDataIdentifier.size())));
  for (const std::string_view identifier : {kDataIdentifier, kProgramIdentifier})
    if (has_identifier(head, identifier)) return read(container, identifier);
  return failure(Code::unsupported, "no file identifier FT01 or ET12");
}

}  // namespace weightfs
