// The client certificates of --client-certificate: how a server of an organisation knows its users.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cache/direct_client.h"

namespace weightfs {

/// Fails with unsupported, and a sentence without a secret, unless the text has a certificate and its private key,
/// without a password (PEM; RFC 7468). Certificates of authorities may follow.
Result<void> check_client_certificate(std::string_view pem);

/// Reads private files (read_private_file()), by the origins of their servers. Fails as that and
/// check_client_certificate() do, with the name of the file.
Result<http::ClientCertificates> read_client_certificates(const std::map<std::string, std::string>& files);

}  // namespace weightfs
