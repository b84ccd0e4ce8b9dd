#include "cache/http/transfer_errors.h"

#include <curl/curl.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace weightfs::http {
namespace {

// CURLE_TOO_LARGE, since curl 8.6: more headers than curl reads. Before, a line that is too long is
// CURLE_OUT_OF_MEMORY.
constexpr int kTooLarge = 100;

constexpr const char* kNameOne = "name the file with it by --client-certificate https://HOST=FILE";

}  // namespace

bool wants_certificate(const std::string& detail) {
  constexpr std::array<std::string_view, 3> kAlerts = {"certificate required", "alert bad certificate",
                                                       "alert unknown ca"};  // of the server, about the client's
  return std::ranges::any_of(kAlerts, [&](std::string_view alert) { return detail.find(alert) != detail.npos; });
}

Error tls_error(const FailedTransfer& failed, Code contact, const TlsSide& ours) {
  const bool has_certificate = ours.has_certificate;
  const Certificates trusted = ours.trusted.empty() ? Certificates::find() : ours.trusted;
  const std::string& detail = failed.detail;
  if (wants_certificate(detail))
    return {Code::forbidden, has_certificate ? "the server does not accept the client certificate"
                                             : fmt::format("the server requires a client certificate; {}", kNameOne)};
  if (failed.code == CURLE_PEER_FAILED_VERIFICATION)
    return {Code::unreachable, why_not_accepted(detail, ours.insecure, trusted)};
  if (failed.code == CURLE_SSL_CACERT_BADFILE) {
    if (trusted.empty()) return {Code::unreachable, kNoCertificates};
    return {Code::unreachable, fmt::format("{}: no certificates can be read from it",
                                           trusted.setting.empty() ? trusted.file : trusted.setting)};
  }
  if (detail.find("wrong version number") != detail.npos || detail.find("packet length too long") != detail.npos)
    return {Code::unreachable, "the server does not speak TLS at this port; use http:// if it is a server without TLS"};
  // What servers answer with TLS 1.2 if they require one.
  const bool is_perhaps_wanted = !has_certificate && detail.find("alert handshake failure") != detail.npos;
  return {contact,
          fmt::format("TLS: {}{}", failed.system,
                      is_perhaps_wanted ? fmt::format("; if it wants a client certificate, {}", kNameOne) : "")};
}

Error response_error(const FailedTransfer& failed, bool has_headers) {
  switch (failed.code) {
    case CURLE_GOT_NOTHING:
      return {Code::network, "closed without a response"};
    case CURLE_PARTIAL_FILE:
      return {Code::network, "truncated: " + failed.detail};
    case CURLE_BAD_CONTENT_ENCODING:
      return {Code::corrupt, "invalid content encoding: " + failed.detail};
    case CURLE_URL_MALFORMAT:
      return {Code::unsupported, failed.detail};
    case CURLE_OUT_OF_MEMORY:
      if (!has_headers) return {Code::resource, failed.detail};
      return {Code::corrupt, "a header is too long"};
    case kTooLarge:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return {Code::corrupt, failed.detail};  // not HTTP
    default:
      return {Code::network, failed.detail};
  }
}

}  // namespace weightfs::http
