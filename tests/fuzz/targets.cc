#include "tests/fuzz/targets.h"

#include <array>

namespace weightfs::test {

std::span<const Target* const> targets() {
  static constexpr std::array kAll = {
      &kContainerTarget,
      &kTomlTarget,
      &kJsonTarget,
      &kRenderTarget,
      &kNamesTarget,
      &kZipTarget,
      &kTarTarget,
      &kCodecTarget,
      &kOllamaManifestTarget,
      &kGgufTarget,
      &kRtenTarget,
      &kTfliteTarget,
      &kExecutorchTarget,
      &kHdf5Target,
      &kKerasTarget,
      &kKerasShardedTarget,
      &kNemoTarget,
      &kOciTarget,
      &kOciLayoutTarget,
      &kSafetensorsTarget,
      &kSafetensorsIndexTarget,
      &kBintensorsTarget,
      &kOnnxTarget,
      &kCoremlTarget,
      &kPaddleTarget,
      &kTvmParamsTarget,
      &kGgmlTarget,
      &kTfCheckpointTarget,
      &kTfGraphTarget,
      &kSavedModelTarget,
      &kFlaxTarget,
      &kNumpyTarget,
      &kDdufTarget,
      &kLlamafileTarget,
      &kMlfTarget,
      &kTensorCacheTarget,
      &kCartonTarget,
      &kOllamaTarget,
      &kPickleTarget,
      &kPythonTarget,
      &kPytorchLegacyTarget,
      &kS3ListingTarget,
      &kHubListingTarget,
      &kBlockListTarget,
      &kOrtTarget,
      &kNcnnTarget,
      &kDarknetTarget,
      &kCtranslate2Target,
      &kNnefTarget,
      &kXgboostTarget,
      &kLightgbmTarget,
      &kOpenvinoTarget,
      &kCaffeTarget,
      &kTfjsTarget,
      &kDcpTarget,
      &kPt2Target,
      &kMxnetTarget,
      &kMindsporeTarget,
#ifdef WEIGHTFS_HTTP
      &kHttpRequestTarget,
      &kHttpConditionsTarget,
#endif
  };
  return kAll;
}

}  // namespace weightfs::test
