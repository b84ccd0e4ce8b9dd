#include <archive.h>
#include <curl/curl.h>
#include <expat.h>
#include <fmt/core.h>
#include <isa-l.h>
#include <lzma.h>
#include <openssl/crypto.h>
#include <seccomp.h>
#include <zip.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/doctor/checks.h"
#include "fs/fuse/session.h"

namespace weightfs::doctor {
namespace {

std::string joined(unsigned a, unsigned b, unsigned c) { return fmt::format("{}.{}.{}", a, b, c); }

// Those that read bytes of containers and servers: what the program uses now, which may be newer than what it was built
// with. isa-l does not tell.
std::vector<std::pair<std::string, std::string>> libraries() {
  const scmp_version* const seccomp = ::seccomp_version();
  const XML_Expat_Version expat = ::XML_ExpatVersionInfo();
  const auto number = [](int value) { return static_cast<unsigned>(value); };
  const unsigned archive = number(::archive_version_number());
  return {
      {"curl", ::curl_version_info(CURLVERSION_NOW)->version},
      {"expat", joined(number(expat.major), number(expat.minor), number(expat.micro))},
      {"isa-l", joined(ISAL_MAJOR_VERSION, ISAL_MINOR_VERSION, ISAL_PATCH_VERSION)},
      {"libarchive", joined(archive / 1'000'000, archive / 1000 % 1000, archive % 1000)},
      {"libfuse", fuse::library_version()},
      {"liblzma", ::lzma_version_string()},
      {"libseccomp", joined(seccomp->major, seccomp->minor, seccomp->micro)},
      {"libzip", ::zip_libzip_version()},
      {"openssl", ::OpenSSL_version(OPENSSL_VERSION_STRING)},
      {"zlib", ::zlibVersion()},
      {"zstd", ::ZSTD_versionString()},
  };
}

}  // namespace

Checks check_libraries() {
  std::string found;
  for (const auto& [name, version] : libraries())
    found += fmt::format("{}{} {}", found.empty() ? "" : ", ", name, version);
  return {{"libraries", Verdict::ok, found}};
}

}  // namespace weightfs::doctor
