// The choice of a manifest from an index that has one for each platform, as `platform` of OCI descriptors names them
// (image-spec, image-index.md).
#pragma once

#include <string_view>

namespace weightfs {

/// How well a manifest fits, from the worst: attestations of BuildKit have an unknown platform. Models are usually the
/// same on all platforms, and amd64 is the one that is always tested.
enum class PlatformFit { none, other, amd64, machine };

/// The fit of a platform for this machine; `architecture` is a GOARCH value. An empty `os` is Linux.
PlatformFit fit_of_platform(std::string_view os, std::string_view architecture);

}  // namespace weightfs
