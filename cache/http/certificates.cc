#include "cache/certificates.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <system_error>

#include "base/text.h"

namespace weightfs {
namespace {

// The places of crypto/x509/root_linux.go of Go 1.22.
constexpr std::array kFiles = {"/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Alpine
                               "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL 6
                               "/etc/ssl/ca-bundle.pem",                             // openSUSE
                               "/etc/pki/tls/cacert.pem",                            // OpenELEC
                               "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // RHEL 7 and later
                               "/etc/ssl/cert.pem"};                                 // Alpine
constexpr std::array kDirectories = {"/etc/ssl/certs", "/etc/pki/tls/certs"};

bool is_file_with_bytes(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
}

bool is_directory_with_entries(const std::string& path) {
  std::error_code failed;
  const std::filesystem::directory_iterator first(path, failed);
  return !failed && first != std::filesystem::directory_iterator();
}

}  // namespace

Certificates Certificates::find(const std::string& root) {
  Certificates found;
  found.directory = environment("SSL_CERT_DIR");
  if (!found.directory.empty()) found.setting = "SSL_CERT_DIR=" + found.directory;
  for (const char* const name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    found.file = environment(name);
    if (found.file.empty()) continue;
    found.setting = name + ("=" + found.file);
    return found;
  }
  for (const char* const place : kFiles) {
    if (!is_file_with_bytes(root + place)) continue;
    found.file = root + place;
    return found;
  }
  if (!found.directory.empty()) return found;
  for (const char* const place : kDirectories) {
    if (!is_directory_with_entries(root + place)) continue;
    found.directory = root + place;
    break;
  }
  return found;
}

std::vector<std::string> Certificates::places() {
  std::vector<std::string> all(kFiles.begin(), kFiles.end());
  all.insert(all.end(), kDirectories.begin(), kDirectories.end());
  for (const char* const name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"})
    if (const std::string named = environment(name); !named.empty()) all.push_back(named);
  return all;
}

std::string why_not_accepted(const std::string& detail, bool insecure, const Certificates& trusted) {
  std::string text = "certificate not accepted: " + detail;
  const bool is_unknown = detail.find("issuer") != detail.npos || detail.find("self") != detail.npos ||
                          detail.find("first certificate") != detail.npos;
  if (trusted.empty()) return kNoCertificates;
  if (is_unknown)
    text += trusted.setting.empty() ? "; name a file with the certificate of its authority in SSL_CERT_FILE"
                                    : fmt::format("; its authority is not in {}", trusted.setting);
  if (insecure) text += "; --insecure permits http://, but does not skip the check of certificates";
  return text;
}

}  // namespace weightfs
