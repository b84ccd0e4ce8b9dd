#include "protocols/s3/signature.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cache/url.h"

namespace weightfs::s3 {
namespace {

// As libcurl sends it: without the port if it is that of the scheme.
std::string host_header(const std::string& url) {
  std::string origin = http::origin_of(url);
  for (const std::string_view port : {":80", ":443"}) {
    const bool is_default = origin.starts_with(port == ":80" ? "http:" : "https:");
    if (is_default && origin.ends_with(port)) origin.resize(origin.size() - port.size());
  }
  return origin.substr(std::min(origin.find("://") + 3, origin.size()));
}

sigv4::CanonicalRequest canonical(const SignedRequest& request) {
  sigv4::CanonicalRequest out{request.method, "/", "", request.headers, std::string(kEmptyBody)};
  std::string_view url = request.url;
  url = url.substr(0, url.find('#'));
  const size_t host = std::min(url.find("://"), url.size() - std::min<size_t>(url.size(), 3)) + 3;
  const size_t question = std::min(url.find('?', host), url.size());
  const size_t slash = std::min(url.find('/', host), question);
  if (slash < question) out.path = url.substr(slash, question - slash);
  std::vector<std::pair<std::string, std::string>> parameters;
  for (std::string_view rest = url.substr(std::min(question + 1, url.size())); !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const size_t equals = std::min(one.find('='), one.size());
    parameters.emplace_back(one.substr(0, equals), one.substr(std::min(equals + 1, one.size())));
  }
  out.query = sigv4::canonical_query(std::move(parameters));
  out.headers["host"] = host_header(request.url);
  if (const auto body = request.headers.find("x-amz-content-sha256"); body != request.headers.end())
    out.body = body->second;
  return out;
}

}  // namespace

std::string canonical_request(const SignedRequest& request) { return canonical(request).text(); }

std::string authorization(const SignedRequest& request, const Keys& keys) {
  const std::string& date = request.headers.at("x-amz-date");
  const sigv4::Scope scope{date.substr(0, 8), request.region, request.service};
  const sigv4::CanonicalRequest text = canonical(request);
  return fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", sigv4::kAlgorithm, keys.id, scope.text(),
                     sigv4::names_of(text.headers), sigv4::signature(keys.secret, date, scope, text));
}

}  // namespace weightfs::s3
