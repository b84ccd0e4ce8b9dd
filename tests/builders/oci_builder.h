// Builds image layouts (OCI image-spec 1.1, image-layout.md) as tars and as files, for tests.
#pragma once

#include <fmt/core.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "tests/builders/tar_builder.h"

namespace weightfs::test::artifacts {

inline std::string digest_text(std::string_view bytes) { return "sha256:" + sha256(bytes).hex(); }

/// A descriptor; `more` is JSON with a comma before it.
inline std::string descriptor(std::string_view media_type, std::string_view bytes, std::string_view more = "") {
  return fmt::format(R"({{"mediaType":"{}","digest":"{}","size":{}{}}})", media_type, digest_text(bytes), bytes.size(),
                     more);
}

/// A layer with the path of its file, or with none.
struct OciLayer {
  std::string_view media_type;
  std::string bytes;
  std::string path = {};
};

/// An artifact: its manifest, and its blobs.
class ArtifactBuilder {
 public:
  explicit ArtifactBuilder(std::string config = R"({"descriptor":{"name":"tiny","licenses":["MIT"]}})")
      : config_(std::move(config)) {}

  ArtifactBuilder& layer(OciLayer layer) {
    layers_.push_back(std::move(layer));
    return *this;
  }

  std::string manifest() const {
    std::string layers;
    for (const OciLayer& each : layers_) {
      const std::string annotations =
          each.path.empty() ? "" : fmt::format(R"(,"annotations":{{"org.cncf.model.filepath":"{}"}})", each.path);
      layers += (layers.empty() ? "" : ",") + descriptor(each.media_type, each.bytes, annotations);
    }
    return fmt::format(R"({{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",)"
                       R"("artifactType":"application/vnd.cncf.model.manifest.v1+json","config":{},"layers":[{}]}})",
                       descriptor("application/vnd.cncf.model.config.v1+json", config_), layers);
  }

  /// Its blobs with the manifest, by the hex digits of their digests.
  std::map<std::string, std::string> blobs() const {
    std::map<std::string, std::string> blobs;
    for (const std::string& bytes : {config_, manifest()}) blobs[sha256(bytes).hex()] = bytes;
    for (const OciLayer& each : layers_) blobs[sha256(each.bytes).hex()] = each.bytes;
    return blobs;
  }

 private:
  std::string config_;
  std::vector<OciLayer> layers_;
};

/// The files of a layout. `entries` are the descriptors in its index.
inline std::map<std::string, std::string> layout_files(const std::vector<ArtifactBuilder>& artifacts) {
  std::map<std::string, std::string> files{{"oci-layout", R"({"imageLayoutVersion":"1.0.0"})"}};
  std::string entries;
  for (const ArtifactBuilder& each : artifacts) {
    const std::string name =
        fmt::format(R"(,"annotations":{{"org.opencontainers.image.ref.name":"v{}"}})", files.size());
    entries +=
        (entries.empty() ? "" : ",") + descriptor("application/vnd.oci.image.manifest.v1+json", each.manifest(), name);
    for (const auto& [hex, bytes] : each.blobs()) files["blobs/sha256/" + hex] = bytes;
  }
  files["index.json"] = fmt::format(R"({{"schemaVersion":2,"manifests":[{}]}})", entries);
  return files;
}

inline std::string tar_of(const std::map<std::string, std::string>& files) {
  tars::TarBuilder b;
  for (const auto& [path, bytes] : files) b.file(path, bytes);
  return b.build();
}

inline constexpr std::string_view kRawWeight = "application/vnd.cncf.model.weight.v1.raw";
inline constexpr std::string_view kTarWeight = "application/vnd.cncf.model.weight.v1.tar";
inline constexpr std::string_view kImageLayer = "application/vnd.oci.image.layer.v1.tar";

}  // namespace weightfs::test::artifacts
