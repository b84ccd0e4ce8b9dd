// llamafile: an executable with a zip at its end, which has the model as a stored GGUF member. It is never executed.
// One GGUF is the model; several (a model and its projector) are nested models.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/archive/nested.h"
#include "formats/archive/zip.h"
#include "formats/flat_formats.h"

namespace weightfs {
namespace llamafile {
namespace {

// Actually Portable Executables begin like one of these; other builds are ELF or Windows executables.
constexpr std::array<std::string_view, 2> kPortable = {"MZqFpD", "jartsr"};
constexpr std::array<std::string_view, 2> kNative = {
    "\x7F"
    "ELF",
    "MZ"};

constexpr std::string_view kGguf = "GGUF";

template <size_t size>
bool begins_with_any(std::string_view head, const std::array<std::string_view, size>& magics) {
  return std::any_of(magics.begin(), magics.end(), [&](std::string_view magic) { return head.starts_with(magic); });
}

// So many members are looked at: a llamafile has some 600 time zones beside the model.
constexpr size_t kMaxProbed = 2000;

// The GGUF files among the members. Fails with errors that are not about the bytes.
Result<std::vector<size_t>> find_ggufs(const archive::Archive& archive) {
  std::vector<size_t> found;
  for (size_t i = 0; i < std::min(archive.parts.size(), kMaxProbed); ++i) {
    if (!archive.parts[i].link_target.empty()) continue;
    const SourcePtr member = TRY(archive.parts[i].source.get());
    const auto head = archive::member_head(*member, kGguf.size(), *archive.budget);
    if (!head && !is_about_the_bytes(head.error())) return tl::unexpected(head.error());
    if (head && *head == kGguf) found.push_back(i);
  }
  return found;
}

// The model of a member, whose tensors are ranges of it.
Result<Model> read_member(const Part& part, const Container& container) {
  const auto charge = std::make_shared<codec::DecodeCharge>(container.budget);
  const codec::DecodeCharge::Active active(charge);
  const SourcePtr member = TRY(part.source.get());
  const SourcePtr parsed = TRY(archive::bytes_to_parse(member, charge));
  Model model = TRY(read_gguf({.name = part.path.substr(part.path.rfind('/') + 1),
                               .bytes = parsed,
                               .blobs = container.blobs,
                               .depth = container.depth + 1,
                               .budget = container.budget}));
  TRY_VOID(model.tensors.move_to(member));
  return model;
}

Result<Model> read(const Container& container) {
  archive::Archive archive = TRY(archive::zip_members(container));
  const std::vector<size_t> ggufs = TRY(find_ggufs(archive));
  if (ggufs.empty()) return failure(Code::unsupported, "no GGUF file in the zip");
  Model model;
  if (ggufs.size() == 1) {
    const Part& part = archive.parts[ggufs.front()];
    auto inner = read_member(part, container);
    if (!inner && !is_about_the_bytes(inner.error())) return tl::unexpected(inner.error());
    if (inner)
      model = std::move(*inner);
    else
      archive.warnings.miss_file(inner.error().code, "{}: {}; its tensors are missing", quoted(part.path),
                                 inner.error().message);
  }
  archive.warnings.append(model, "");
  model.warnings.clear();
  model.lacks = {};
  model.format = "llamafile";
  archive::add_members(model, std::move(archive), container);
  model.stored_bytes = container.bytes->size();
  return model;
}

}  // namespace
}  // namespace llamafile

Match matches_llamafile(const Probe& probe) {
  using namespace llamafile;
  if (begins_with_any(probe.head, kPortable)) return Match::maybe;
  return begins_with_any(probe.head, kNative) && matches_zip(probe) == Match::maybe ? Match::maybe : Match::no;
}

Result<Model> read_llamafile(const Container& container) { return llamafile::read(container); }

}  // namespace weightfs
