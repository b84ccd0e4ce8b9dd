// TFLite: a FlatBuffer of subgraphs, tensors and buffers, sometimes followed by a zip of associated files.

#include <vector>

#include "base/values/little_endian.h"
#include "base/values/rendering.h"
#include "formats/archive/nested.h"
#include "formats/archive/zip_end.h"
#include "formats/tflite/graph.h"
#include "formats/tflite/metadata.h"
#include "formats/tflite/quantization.h"
#include "formats/tflite/structure.h"
#include "formats/tflite/tensors.h"

namespace weightfs {
namespace tflite {
namespace {

constexpr std::string_view kIdentifier = "TFL3";
constexpr uint64_t kIdentifierOffset = 4;
constexpr uint32_t kVersion = 3;

Error named(const Error& error) { return {error.code, "tflite: " + error.message}; }

// A document that is rendered from the file when it is read.
using Render = Result<std::string> (*)(const File& file, Budget& budget);

Result<SourcePtr> rendered(const SourcePtr& bytes, const BudgetPtr& budget, Render render) {
  const File file = TRY(open_file(bytes, *budget));
  return charged_text(TRY(render(file, *budget)), budget);
}

Document document(const char* path, const Container& container, Render render) {
  return {path, Later<SourcePtr>([bytes = container.bytes, budget = container.budget, render] {
            return rendered(bytes, budget, render).map_error(named);
          })};
}

// Few parameters are in metadata.json, many in a document.
Result<void> add_quantization(Model& model, const File& file, const Container& container) {
  const auto size = TRY(quantization_size(file));
  if (size.constants == 0) return {};
  if (size.numbers <= kMaxInlineList) {
    Value constants = TRY(quantization_list(file));
    TRY_VOID(charge(footprint(constants), *container.budget));
    model.metadata.append("quantization", std::move(constants));
    return {};
  }
  model.documents.push_back(document("metadata/quantization.json", container, quantization_json));
  Map note;
  note.append("count", size.constants);
  note.append("path", model.documents.back().path);
  model.metadata.append("quantization", std::move(note));
  return {};
}

// Whether the header of a member of a zip follows the FlatBuffer, near the end of the tables that were read.
Result<bool> begins_zip(const Source& bytes, uint64_t end) {
  constexpr uint64_t kSearched = 4096;
  constexpr std::string_view kMember = "PK\3\4";
  constexpr size_t kNeeded = 4, kMethod = 8, kHeader = 30;
  const uint64_t shown = std::min(kSearched, bytes.size() - std::min(bytes.size(), end));
  const std::string text = TRY(read_text(bytes, end, shown));
  const std::string_view header = std::string_view(text).substr(std::min(text.find(kMember), text.size()));
  if (header.size() < kHeader) return !header.empty() && end + shown == bytes.size();
  constexpr uint64_t kNewest = 63, kStored = 0, kDeflated = 8;
  const uint64_t needed = little_endian(header.substr(kNeeded, 2)), method = little_endian(header.substr(kMethod, 2));
  return needed <= kNewest && (method == kStored || method == kDeflated);
}

// The members of a zip after the FlatBuffer, as parts; whether there is a zip with an end. The file itself is not one
// of its nested models.
Result<bool> add_associated_files(Model& model, const Container& container, Warnings& warnings) {
  const auto end = archive::find_zip_end(*container.bytes);
  if (!end) return is_about_the_bytes(end.error()) ? Result<bool>(false) : tl::unexpected(end.error());
  Container zip = container;
  const Slice from_begin = TRY(slice(container.bytes, end->begin, container.bytes->size() - end->begin));
  zip.bytes = std::make_shared<Slice>(from_begin);
  auto members = archive::zip_members(zip);
  if (!members) {
    if (!is_about_the_bytes(members.error())) return tl::unexpected(members.error());
    warnings.miss_file(members.error().code, "associated files: {}", members.error().message);
    warnings.lose(members.error(), {});
    return true;
  }
  std::vector<bool> is_read(members->parts.size());
  is_read.push_back(true);  // the file, which is the next part
  archive::add_members(model, std::move(*members), container, std::move(is_read));
  return true;
}

Result<Model> read(const Container& container) {
  const File file = TRY(open_file(container.bytes, *container.budget));
  Model model;
  Warnings warnings;
  model.format = "tflite";
  const auto version = TRY(file.model.number<uint32_t>(0));
  model.version = std::to_string(version);
  if (version != kVersion) warnings.add("schema version {}, not {}", version, kVersion);
  Charges charges(*container.budget);  // released with the names
  const auto operators = TRY(operator_code_names(file, charges));
  TRY_VOID(check_structure(file, operators));
  const bool has_zip = TRY(add_associated_files(model, container, warnings));
  model.parts.push_back({container.name, Later<SourcePtr>::of(container.bytes)});
  model.stored_bytes = container.bytes->size();
  TRY_VOID(add_tensors(model, file, container, warnings));
  TRY_VOID(add_metadata(model, file, operators, *container.budget, warnings));
  TRY_VOID(add_quantization(model, file, container));
  const auto last = check_last_buffer(file);
  if (!last && !is_about_the_bytes(last.error())) return tl::unexpected(last.error());
  if (!last) warnings.miss_tensors(0, Code::corrupt, "the last buffer: {}", last.error().message);
  if (!has_zip && TRY(begins_zip(*container.bytes, file.bytes->end())))
    warnings.miss_file(Code::corrupt, "associated files: the zip behind the model has no end");
  model.documents.push_back(document("graph.json", container, graph_json));
  std::move(warnings).move_to(model);
  return model;
}

}  // namespace
}  // namespace tflite

Match matches_tflite(const Probe& probe) {
  return probe.head.substr(std::min<size_t>(tflite::kIdentifierOffset, probe.head.size()))
                 .starts_with(tflite::kIdentifier)
             ? Match::yes
             : Match::no;
}

Result<Model> read_tflite(const Container& container) {
  const auto identifier = read_text(*container.bytes, tflite::kIdentifierOffset, tflite::kIdentifier.size());
  if (!identifier && identifier.error().code != Code::corrupt) return tl::unexpected(identifier.error());
  if (!identifier || *identifier != tflite::kIdentifier) return failure(Code::unsupported, "no file identifier TFL3");
  return tflite::read(container);
}

}  // namespace weightfs
