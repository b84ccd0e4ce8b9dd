// What went wrong in a transfer of libcurl, as errors whose messages follow the URL.
#pragma once

#include <string>

#include "base/result.h"
#include "cache/certificates.h"

namespace weightfs::http {

/// A failed transfer.
struct FailedTransfer {
  int code;            ///< a CURLcode
  std::string detail;  ///< the words of libcurl or of the TLS library
  std::string system;  ///< those of the system, if it has any; else `detail`
};

/// What weightfs brings to a TLS connection.
struct TlsSide {
  bool insecure;         ///< as Options::insecure
  bool has_certificate;  ///< a client certificate is sent
  Certificates trusted;  ///< the authorities; empty: those of the system
};

/// A connection without TLS, or whose certificates were not accepted. `contact` is the code of a server that does not
/// answer.
Error tls_error(const FailedTransfer& failed, Code contact, const TlsSide& ours);

/// Whether the server ended the connection for want of a client certificate: with TLS 1.3, it does so after the
/// handshake.
bool wants_certificate(const std::string& detail);

/// A response that is not valid; `has_headers`: some have arrived.
Error response_error(const FailedTransfer& failed, bool has_headers);

}  // namespace weightfs::http
