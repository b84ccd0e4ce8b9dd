#include "tests/fuzz/targets.h"

#include <array>
#include <vector>

namespace weightfs::test {

std::span<const Target* const> targets() {
  static constexpr std::array kOthers = {
      &kContainerTarget,    &kTomlTarget,           &kJsonTarget,
      &kRenderTarget,       &kNamesTarget,          &kZipTarget,
      &kTarTarget,          &kCodecTarget,          &kOllamaManifestTarget,
      &kTfCheckpointTarget, &kTfGraphTarget,        &kSavedModelTarget,
      &kS3ListingTarget,    &kHubListingTarget,     &kBlockListTarget,
      &kTokenizerTarget,    &kMappingTarget,
#ifdef WEIGHTFS_HTTP
      &kHttpRequestTarget,  &kHttpConditionsTarget, &kS3RequestTarget,
#endif
  };
  static const std::vector<const Target*> all = [] {
    std::vector<const Target*> out(kOthers.begin(), kOthers.end());
    for (const Target& target : model_targets()) out.push_back(&target);
    return out;
  }();
  return all;
}

}  // namespace weightfs::test
