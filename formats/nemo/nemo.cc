// NeMo: a tar, often compressed, with a checkpoint of PyTorch, its configuration and vocabularies. Reference:
// nemo/core/connectors/save_restore_connector.py of NeMo 1.
#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/archive/archive_formats.h"
#include "formats/archive/zip.h"
#include "formats/code/list.h"
#include "formats/common/flat.h"
#include "formats/directory/statements.h"

namespace weightfs::nemo {
namespace {

constexpr std::string_view kCheckpoint = "model_weights.ckpt";

// The checkpoint: at the top, or in the one directory that some archives have.
const Part* checkpoint_of(const archive::Archive& archive) {
  if (const Part* const part = archive.resolve(kCheckpoint)) return part;
  const auto found = std::find_if(archive.parts.begin(), archive.parts.end(), [](const Part& part) {
    const size_t slash = part.path.find('/');
    return part.link_target.empty() && slash != part.path.npos &&
           std::string_view(part.path).substr(slash + 1) == kCheckpoint;
  });
  return found == archive.parts.end() ? nullptr : &*found;
}

// The checkpoint as a model; nothing, and a warning, if it cannot be read.
Result<std::optional<Model>> read_checkpoint(const Part& part, const archive::Archive& archive,
                                             const Container& container, Warnings& warnings) {
  const auto read = [&]() -> Result<Model> {
    if (container.depth >= kMaxNestingDepth) return failure(Code::unsupported, "containers are nested too deep");
    const auto charge = std::make_shared<codec::DecodeCharge>(container.budget);
    const codec::DecodeCharge::Active whole(archive.charge);
    const SourcePtr member = TRY(part.source.get());
    const codec::DecodeCharge::Active active(charge);
    const SourcePtr bytes = TRY(archive::bytes_to_parse(member, charge));
    return read_model({.name = std::string(kCheckpoint),
                       .bytes = bytes,
                       .blobs = container.blobs,
                       .depth = container.depth + 1,
                       .budget = container.budget});
  };
  auto model = read();
  if (model) return std::optional(std::move(*model));
  if (!is_about_the_bytes(model.error())) return tl::unexpected(model.error());
  warnings.miss_file(model.error().code, "{}", model.error().message);
  return std::nullopt;
}

}  // namespace
}  // namespace weightfs::nemo

namespace weightfs {

Result<bool> matches_nemo(const archive::Archive& archive) { return nemo::checkpoint_of(archive) != nullptr; }

Result<Model> read_nemo(archive::Archive archive, const Container& container) {
  const Part* const part = nemo::checkpoint_of(archive);
  if (part == nullptr) return failure(Code::unsupported, fmt::format("no {} in the archive", nemo::kCheckpoint));
  Model model;
  Map facts;
  facts.append("checkpoint", part->path);
  if (auto read = TRY(nemo::read_checkpoint(*part, archive, container, archive.warnings))) {
    facts.append("checkpoint_format", read->format);
    archive.warnings.append(*read, fmt::format("{}: ", nemo::kCheckpoint));
    read->warnings.clear();
    CodeList code;
    code.append(read->common, part->path);
    model.common = std::move(read->common);
    if (!code.empty()) model.common.set("code", to_list(code.items()));
    model.metadata = std::move(read->metadata);
    model.tensors = std::move(read->tensors);
    model.string_pool = std::move(read->string_pool);
    TRY_VOID(directory::move_checksums(std::move(read->parts), part->path, model, *container.budget));
  }
  model.format = "nemo";
  flat::add_facts(model.metadata, model.format, std::move(facts));
  archive::add_members(model, std::move(archive), container);
  return model;
}

}  // namespace weightfs
