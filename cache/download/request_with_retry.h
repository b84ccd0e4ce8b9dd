// Small requests to the API of a server, with retries, and with error messages from response bodies.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "base/values/value.h"
#include "cache/http/client.h"

namespace weightfs::download {

/// A response with its body.
struct Response {
  http::Response head;
  std::string body;
};

/// Sends a request; the body has at most `max_size` bytes. Bodies of error statuses are truncated. Fails as
/// http::Client::perform() does, and with corrupt when the body is longer. An error status is not a failure.
Result<Response> send_request(http::Client& http, const http::Request& request, size_t max_size,
                              const std::stop_token& stop);

/// Describes an error response, as the end of a sentence: ": status 404, manifest unknown". Reads
/// {"errors":[{"code","message"}]} (OCI distribution-spec, "Error Codes"), {"error":"…"} and {"details":"…"}, as
/// shown_reason().
std::string error_detail(const Response& page);

/// What the body of a refusal says, as shown_reason(): a text of JSON as in error_detail(), the message of XML, or the
/// first line of a plain text. Empty for a web page, and for other bytes.
std::string refusal_reason(const std::string& body);

/// As send_request(), with http::Options::max_retries for network errors, temporary statuses like 429 and 503, and a
/// timeout of an object store; then fails with network, and what `describe` reads in the last response. With
/// http::Options::used_up, later requests to the same URL fail with that at once, and after network errors all to its
/// server. Other error statuses are not failures.
Result<Response> request_with_retry(http::Client& http, const http::Request& request, size_t max_size,
                                    const std::stop_token& stop,
                                    std::string (*describe)(const Response& page) = error_detail);

/// request_with_retry() for keys, without http::Options::used_up: keys that could not be renewed are requested again.
Result<Response> request_keys_with_retry(http::Client& http, const http::Request& request, size_t max_size,
                                         const std::stop_token& stop);

/// The error of a response 200 of an API that is a web page: a login, or the portal of a network. Nothing for others.
std::optional<Error> web_page_error(const Response& page);

/// The body as JSON, of at most 1000 values. Fails as read_json() does.
Result<Value> parse_body(const Response& page);

}  // namespace weightfs::download
