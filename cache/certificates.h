// The certificates of trusted authorities, which distributions keep in different places. libcurl knows only the place
// of the system where it was built, so they are looked for at run time.
#pragma once

#include <string>
#include <vector>

namespace weightfs {

/// Where trusted authorities are read from.
struct Certificates {
  std::string file = {};       ///< many certificates (PEM); empty if there is none
  std::string directory = {};  ///< certificates named by their hashes; may be several, separated by colons
  std::string setting =
      {};  ///< the variable that names them: "SSL_CERT_FILE=/x"; empty if they are those of the system

  bool empty() const { return file.empty() && directory.empty(); }

  /// Those of the first variable that is set: $CURL_CA_BUNDLE, $SSL_CERT_FILE; $SSL_CERT_DIR in addition. Else the
  /// first file of the system's places that is not empty, else the first directory. `root` precedes those places.
  static Certificates find(const std::string& root = "");

  /// All places in which find() looks, also those that do not exist.
  static std::vector<std::string> places();
};

/// Why a certificate was not accepted: the words of the TLS library, and what to do. `trusted`: the authorities.
std::string why_not_accepted(const std::string& detail, bool insecure,
                             const Certificates& trusted = Certificates::find());

/// Said where there is none.
inline constexpr const char* kNoCertificates = "no certificates found: install ca-certificates, or set SSL_CERT_FILE";

}  // namespace weightfs
