// Small requests to a registry or its token server, with retries, and with error messages from response bodies.
#pragma once

#include <atomic>
#include <string>

#include "cache/http/client.h"

namespace weightfs {

/// A response with its body.
struct HttpResponse {
  Response head;
  std::string body;
};

/// Sends a request; the body has at most `max_size` bytes. Bodies of error statuses are truncated. Fails as
/// HttpClient::perform() does, and with corrupt when the body is longer. An error status is not a failure.
Result<HttpResponse> send_request(HttpClient& http, const Request& request, size_t max_size,
                                  const std::atomic<bool>& stop);

/// The same, with up to three attempts for network errors and temporary statuses like 429 and 503; then fails with
/// network. Other error statuses are not failures.
Result<HttpResponse> request_with_retry(HttpClient& http, const Request& request, size_t max_size,
                                        const std::atomic<bool>& stop);

/// Describes an error response, as the end of a sentence: ": status 404, manifest unknown". Reads
/// {"errors":[{"code","message"}]} (OCI distribution-spec, "Error Codes"), {"error":"…"} and {"details":"…"}.
std::string error_detail(const HttpResponse& page);

}  // namespace weightfs
