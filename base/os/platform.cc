#include "base/os/platform.h"

namespace weightfs {
namespace {

// This machine's architecture as a GOARCH value.
#if defined(__x86_64__)
constexpr std::string_view kArchitecture = "amd64";
#elif defined(__aarch64__)
constexpr std::string_view kArchitecture = "arm64";
#elif defined(__riscv) && __riscv_xlen == 64
constexpr std::string_view kArchitecture = "riscv64";
#elif defined(__powerpc64__)
constexpr std::string_view kArchitecture = "ppc64le";
#elif defined(__s390x__)
constexpr std::string_view kArchitecture = "s390x";
#else
constexpr std::string_view kArchitecture = "unknown";
#endif

}  // namespace

PlatformFit fit_of_platform(std::string_view os, std::string_view architecture) {
  if (os == "unknown") return PlatformFit::none;
  if (!os.empty() && os != "linux") return PlatformFit::other;
  if (architecture == kArchitecture) return PlatformFit::machine;
  return architecture == "amd64" ? PlatformFit::amd64 : PlatformFit::other;
}

}  // namespace weightfs
