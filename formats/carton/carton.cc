#include "formats/carton/carton.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "formats/archive/archive_formats.h"
#include "formats/archive/zip.h"
#include "formats/common/flat.h"

namespace weightfs::carton {
namespace {

// A text of the carton; if it cannot be read, nothing and a warning.
Result<std::optional<std::string>> text_of(const archive::Archive& archive, std::string_view path, uint64_t most,
                                           Warnings& warnings) {
  auto text = archive.text(path, most);
  if (text) return std::move(*text);
  if (!is_about_the_bytes(text.error()) && text.error().code != Code::not_found) return tl::unexpected(text.error());
  warnings.miss_file(text.error().code, "{}", text.error().message);
  return std::nullopt;
}

// For the Part and for the copy of the BlobRef that locates its bytes: the path and the URLs.
Result<void> charge_linked(const BlobRef& wanted, Budget& budget) {
  uint64_t bytes = wanted.name.size();
  for (const std::string& url : wanted.urls) bytes += sizeof(std::string) + url.size();
  TRY_VOID(budget.charge(Cost::member, 2));
  return budget.charge(Cost::kept, 2 * bytes);
}

// Files in MANIFEST that are not in the archive: stored elsewhere, behind a link, or missing.
Result<void> add_linked(archive::Archive& archive, const Container& container, const Manifest& manifest,
                        const Links& links, Warnings& warnings) {
  std::vector<Part> linked;
  std::map<Digest, Later<SourcePtr>> sources;  // several files may have the same digest
  Warnings missing;  // added after the warning about the limit, for which they would leave no room
  bool looking = true;
  // Whether `wanted` is available without a download; false once the budget has no more lookups.
  const auto is_local = [&](const BlobRef& wanted) {
    if (!looking) return false;
    const auto room = container.budget->charge(Cost::lookup);
    looking = room.has_value();
    if (!looking) warnings.add("{}: {}; no more files are searched", quoted(wanted.name), room.error().message);
    return looking && container.blobs->is_local(wanted);
  };
  for (const auto& [path, digest] : manifest.digests) {
    if (archive.find(path) != nullptr) continue;
    const auto urls = links.urls.find(digest.hex());
    const BlobRef wanted{printable(path), digest, std::nullopt,
                         urls == links.urls.end() ? std::vector<std::string>{} : urls->second};
    if (wanted.urls.empty() && !is_local(wanted)) {
      missing.miss_file(Code::not_found, "{}: in MANIFEST, but neither in the carton nor in LINKS", quoted(path));
      if (!path.starts_with("tensor_data/"))
        missing.lose({Code::not_found, fmt::format("{}: missing", quoted(path))}, {});
      continue;
    }
    TRY_VOID(charge_linked(wanted, *container.budget));
    if (!wanted.urls.empty()) container.blobs->note_link();
    const auto find = [blobs = container.blobs, wanted]() -> Result<SourcePtr> {
      return TRY(blobs->resolve(wanted)).verified;
    };
    linked.push_back({path, sources.try_emplace(digest, Later<SourcePtr>(find)).first->second});
  }
  warnings.append(missing, "");
  archive.append(std::move(linked));
  return {};
}

// Sets the digest of each part from MANIFEST.
Result<void> set_digests(Model& model, archive::Archive& archive, const Manifest& manifest, Warnings& warnings,
                         Budget& budget) {
  constexpr uint64_t kVerified = 256;  // bytes of the Source that verifies a digest
  for (Part& part : archive.parts) {
    if (part.path == "MANIFEST" || part.path == "LINKS") continue;
    TRY_VOID(budget.charge(Cost::kept, kVerified + part.path.size()));
    const auto entry = manifest.digests.find(part.path);
    if (entry == manifest.digests.end()) {
      warnings.add("{}: in the carton, but not in MANIFEST", quoted(part.path));
      model.checks.edit().push_back({part.path, part.source, Unlisted()});
      continue;
    }
    part.checksums.set(entry->second);
    if (part.link_target.empty()) archive::expect_digest(part);
  }
  return {};
}

Result<Map> toml_of(const archive::Archive& archive, Warnings& warnings, Budget& budget) {
  const auto text = TRY(text_of(archive, "carton.toml", kMaxTomlSize, warnings));
  if (!text) return Map{};
  auto parsed = parse_toml(*text, budget);
  if (parsed) return std::move(*parsed);
  warnings.miss_file(parsed.error().code, "carton.toml: {}", parsed.error().message);
  return Map{};
}

Result<Links> links_of(const archive::Archive& archive, Warnings& warnings, Budget& budget) {
  if (archive.find("LINKS") == nullptr) return Links{};
  const auto text = TRY(text_of(archive, "LINKS", kMaxTomlSize, warnings));
  if (!text) return Links{};
  auto links = read_links(*text, warnings, budget);
  if (links) return std::move(*links);
  warnings.miss_file(links.error().code, "LINKS: {}", links.error().message);
  return Links{};
}

}  // namespace
}  // namespace weightfs::carton

namespace weightfs {

Result<bool> matches_carton(const archive::Archive& archive) {
  // Every file may be behind a link, even carton.toml.
  return archive.find("carton.toml") != nullptr ||
         (archive.find("MANIFEST") != nullptr && archive.find("LINKS") != nullptr);
}

Result<std::vector<std::string>> files_of_unpacked_carton(const Container& entry) {
  const auto file = open_beside(entry, "MANIFEST");
  if (!file && file.error().code == Code::not_found) return std::vector<std::string>{};
  const SourcePtr bytes = TRY(file);
  if (bytes->size() > carton::kMaxManifestSize) return failure(Code::unsupported, "MANIFEST: too large");
  Warnings ignored;  // given again when it is read as a member
  const carton::Manifest manifest =
      carton::read_manifest(TRY(read_text(*bytes, 0, bytes->size())), ignored, *entry.budget);
  std::set<std::string> paths = {"MANIFEST", "LINKS", "carton.toml"};
  for (const auto& [path, digest] : manifest.digests) paths.insert(path);
  return std::vector<std::string>(paths.begin(), paths.end());
}

Result<Model> read_carton(archive::Archive archive, const Container& container) {
  if (!archive.repeated.empty())
    return failure(Code::corrupt,
                   fmt::format("several members are called {}: Carton reads the first, zip programs the last",
                               quoted(archive.repeated)));
  Model model;
  model.format = "carton";
  Warnings warnings;
  std::optional<carton::Manifest> manifest;
  if (const auto text = TRY(carton::text_of(archive, "MANIFEST", carton::kMaxManifestSize, warnings)))
    manifest = carton::read_manifest(*text, warnings, *container.budget);
  const carton::Links links = TRY(carton::links_of(archive, warnings, *container.budget));
  if (manifest) {
    TRY_VOID(carton::add_linked(archive, container, *manifest, links, warnings));
    TRY_VOID(carton::set_digests(model, archive, *manifest, warnings, *container.budget));
  }
  Map toml = TRY(carton::toml_of(archive, warnings, *container.budget));
  if (!manifest) warnings.miss_file(Code::not_found, "MANIFEST: missing");
  if (const Value* version = toml.find("spec_version")) model.version = to_json_line(*version);
  model.common = carton::common_fields(toml, warnings, *container.budget);
  TRY_VOID(carton::add_tensors(model, archive, manifest.value_or(carton::Manifest{}), warnings, container.budget));
  carton::check_references(toml, archive, model, warnings);

  Map facts;
  if (manifest) facts.append("model_hash", manifest->hash.hex());
  if (manifest) facts.append("files", manifest->digests.size());
  if (!links.urls.empty()) facts.append("links", links.urls.size());
  flat::add_facts(toml, "carton", std::move(facts));
  model.metadata = std::move(toml);

  archive.warnings.append(warnings, "");
  archive::add_members(model, std::move(archive), container);
  return model;
}

Match matches_carton_toml(const Probe& entry) { return entry.name == "carton.toml" ? Match::maybe : Match::no; }

}  // namespace weightfs
