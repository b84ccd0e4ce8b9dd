#include "formats/oci/layers.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "formats/codec/codec.h"

namespace weightfs::oci {
namespace {

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";

std::string path_in(std::string_view directory, std::string_view name) {
  return directory.empty() ? std::string(name) : fmt::format("{}/{}", directory, name);
}

// Whether `path` is `directory` or below it.
bool is_below(std::string_view path, std::string_view directory) {
  return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

Result<archive::Archive> members_of(const StoredLayer& layer, const std::string& name, const Container& container) {
  if (container.depth >= kMaxNestingDepth) return failure(Code::unsupported, "containers are nested too deep");
  return archive::tar_members({.name = name,
                               .bytes = layer.bytes,
                               .blobs = container.blobs,
                               .depth = container.depth + 1,
                               .budget = container.budget},
                              layer.stated);
}

// The file in a layer that is compressed as a whole. The layer is verified and decoded now: the manifest does not have
// the size of the file.
Result<SourcePtr> decoded(const SourcePtr& stored, const codec::StatedInput& stated, const std::string& name,
                          const Container& container, const codec::DecodeChargePtr& charge) {
  const codec::DecodeCharge::Active active(charge);
  BlobProducer producer;
  producer.name = name;
  producer.key = codec::key_of_decoded(stated.digest, stated.compression);
  producer.depth = container.depth + 1;
  return codec::materialize_compared(
      *container.blobs, std::move(producer), stored, stated.digest,
      [charge, decode = stated.compression == "zstd" ? codec::zstd_stream : codec::gunzip_stream](
          const SourcePtr& bytes) { return codec::charge_decoding(charge, bytes, decode); });
}

// Adds members below a directory. Writers put the directory into the members' names, or leave it out.
Result<void> add_members_below(archive::Builder& builder, std::string directory, archive::Archive& members) {
  while (directory.ends_with('/')) directory.pop_back();
  const std::string last = directory.substr(directory.rfind('/') + 1);
  const auto all_below = [&](std::string_view top) {
    return std::ranges::all_of(members.parts, [&](const Part& part) { return is_below(part.path, top); });
  };
  std::string before = directory;
  if (directory.empty() || all_below(directory))
    before.clear();
  else if (all_below(last))
    before.resize(directory.size() - std::min(directory.size(), last.size() + 1));
  for (Part& part : members.parts) {
    const std::string path = path_in(before, part.path);
    TRY_VOID(builder.charge_member(path));
    if (!part.link_target.empty())
      builder.add_link(path, part.link_target);
    else
      builder.add_file(path, TRY(part.source.get()));
  }
  return {};
}

// Members of images by their paths, as later layers leave them.
class ImageFiles {
 public:
  void add_layer(archive::Archive members) {
    if (members.charge != nullptr) charge_ = members.charge;
    for (const Part& part : members.parts) remove_hidden(part.path);
    for (Part& part : members.parts) {
      const std::string_view name = std::string_view(part.path).substr(part.path.rfind('/') + 1);
      if (!name.starts_with(kWhiteout)) files_.insert_or_assign(part.path, std::move(part));
    }
  }

  Result<archive::Archive> take(const BudgetPtr& budget) && {
    archive::Builder builder(archive::DuplicatePolicy::last_wins, budget);
    for (auto& [path, part] : files_) {
      TRY_VOID(builder.charge_member(path));
      if (!part.link_target.empty())
        builder.add_link(path, part.link_target);
      else
        builder.add_file(path, TRY(part.source.get()));
    }
    archive::Archive files = std::move(builder).finish();
    files.charge = charge_;
    return files;
  }

 private:
  // Removes what a member of a new layer hides: a whiteout, and a file in the place of a directory.
  void remove_hidden(const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string directory = slash == path.npos ? "" : path.substr(0, slash + 1);
    const std::string name = path.substr(directory.size());
    if (name == kOpaque) return remove_below(directory);
    const bool is_whiteout = name.starts_with(kWhiteout);
    const std::string hidden = directory + (is_whiteout ? name.substr(kWhiteout.size()) : name);
    if (is_whiteout) files_.erase(hidden);
    remove_below(hidden + "/");
  }

  void remove_below(const std::string& prefix) {
    auto at = files_.lower_bound(prefix);
    while (at != files_.end() && at->first.starts_with(prefix)) at = files_.erase(at);
  }

  std::map<std::string, Part> files_;
  codec::DecodeChargePtr charge_;  // of the last compressed layer: all charge the same budget
};

}  // namespace

std::optional<codec::StatedInput> stated_of(const Descriptor& layer) {
  if (!layer.digest) return std::nullopt;
  return codec::StatedInput{*layer.digest, form_of(layer).compression};
}

void add_packed(std::vector<FileCheck>& packed, const Descriptor& layer, const SourcePtr& bytes) {
  if (layer.digest)
    packed.push_back({.subject = layer.digest_text,
                      .bytes = Later<SourcePtr>::of(bytes),
                      .expected = FileChecksums(*layer.digest),
                      .of = FileCheck::Of::layer});
}

Result<ArtifactFiles> files_of_artifact(const Manifest& manifest, const Map* kitfile, const OpenBlob& open,
                                        const Container& container) {
  archive::Builder builder(archive::DuplicatePolicy::last_wins, container.budget);
  const KitfilePaths paths = kitfile == nullptr ? KitfilePaths() : kitfile_paths(*kitfile);
  std::map<std::string, int> uses;
  codec::DecodeChargePtr charge;  // of the last compressed layer: all charge the same budget
  std::map<std::string, Later<SourcePtr>> unverified;
  std::vector<FileCheck> packed;
  for (const Descriptor& layer : manifest.layers) {
    const LayerForm form = form_of(layer);
    std::string path = path_of(layer, form, paths, *container.budget);
    if (const int copy = ++uses[path]; copy > 1 && !form.is_tar) path = fmt::format("{}-{}", path, copy);
    const std::string name = path.empty() ? layer.digest_text : path;
    auto bytes = open(layer, name);
    if (!bytes) {
      if (!is_permanent(bytes.error())) return tl::unexpected(bytes.error());
      builder.warnings().miss_file(bytes.error().code, "{}: {}", quoted(name), bytes.error().message);
      continue;
    }
    if (form.is_tar) {
      add_packed(packed, layer, bytes->verified);
      archive::Archive members = TRY(members_of({bytes->verified, stated_of(layer)}, name, container));
      TRY_VOID(add_members_below(builder, path, members));
      if (members.charge != nullptr) charge = members.charge;
      continue;
    }
    if (const auto stated = stated_of(layer); stated && !form.compression.empty()) {
      if (charge == nullptr) charge = std::make_shared<codec::DecodeCharge>(container.budget);
      auto file = decoded(bytes->verified, *stated, name, container, charge);
      if (!file && !is_about_the_bytes(file.error())) return tl::unexpected(file.error());
      if (file) {
        TRY_VOID(builder.charge_member(path));
        builder.add_file(path, std::move(*file));
        add_packed(packed, layer, bytes->verified);
        continue;
      }
      path += form.compression == "zstd" ? ".zst" : ".gz";
      builder.warnings().miss_file(file.error().code, "{}: shown compressed: {}", quoted(path), file.error().message);
    }
    TRY_VOID(builder.charge_member(path));
    // The last layer wins if two have the same path.
    const FileChecksums checksums = layer.digest ? FileChecksums(*layer.digest) : FileChecksums();
    unverified.insert_or_assign(builder.add_file(path, bytes->verified, checksums), bytes->unverified);
  }
  archive::Archive files = std::move(builder).finish();
  files.charge = charge;
  return ArtifactFiles{std::move(files), std::move(unverified), std::move(packed)};
}

Result<archive::Archive> files_of_image(const std::vector<StoredLayer>& layers, const Container& container) {
  ImageFiles files;
  for (size_t i = 0; i < layers.size(); ++i)
    files.add_layer(TRY(members_of(layers[i], fmt::format("layer {}", i + 1), container)));
  return std::move(files).take(container.budget);
}

}  // namespace weightfs::oci
