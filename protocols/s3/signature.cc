#include "protocols/s3/signature.h"

#include <fmt/core.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <new>
#include <vector>

#include "base/digest.h"
#include "cache/url.h"

namespace weightfs::s3 {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned size = 0;
  if (::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &size) == nullptr)
    throw std::bad_alloc();
  return {reinterpret_cast<const char*>(mac.data()), size};
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

// As libcurl sends it: without the port if it is that of the scheme.
std::string host_header(const std::string& url) {
  std::string origin = http::origin_of(url);
  for (const std::string_view port : {":80", ":443"}) {
    const bool is_default = origin.starts_with(port == ":80" ? "http:" : "https:");
    if (is_default && origin.ends_with(port)) origin.resize(origin.size() - port.size());
  }
  return origin.substr(std::min(origin.find("://") + 3, origin.size()));
}

struct Target {
  std::string path;
  std::string query;  // sorted, each parameter with `=`
};

Target target_of(std::string_view url) {
  url = url.substr(0, url.find('#'));
  const size_t host = std::min(url.find("://"), url.size() - std::min<size_t>(url.size(), 3)) + 3;
  const size_t question = std::min(url.find('?', host), url.size());
  const size_t slash = std::min(url.find('/', host), question);
  const std::string path(url.substr(slash, question - slash));
  std::vector<std::string> parameters;
  for (std::string_view rest = url.substr(std::min(question + 1, url.size())); !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    parameters.emplace_back(one);
    if (one.find('=') == one.npos) parameters.back() += '=';
  }
  std::ranges::sort(parameters);
  std::string query;
  for (const std::string& parameter : parameters) query += (query.empty() ? "" : "&") + parameter;
  return {path.empty() ? "/" : path, std::move(query)};
}

std::map<std::string, std::string> all_headers(const SignedRequest& request) {
  auto headers = request.headers;
  headers["host"] = host_header(request.url);
  return headers;
}

std::string names_of(const std::map<std::string, std::string>& headers) {
  std::string names;
  for (const auto& [name, value] : headers) names += (names.empty() ? "" : ";") + name;
  return names;
}

}  // namespace

std::string amz_date(std::time_t time) {
  std::tm date{};
  ::gmtime_r(&time, &date);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &date)};
}

std::string canonical_request(const SignedRequest& request) {
  const Target target = target_of(request.url);
  const auto headers = all_headers(request);
  std::string out = fmt::format("{}\n{}\n{}\n", request.method, target.path, target.query);
  for (const auto& [name, value] : headers) out += fmt::format("{}:{}\n", name, value);
  const auto body = headers.find("x-amz-content-sha256");
  return out + fmt::format("\n{}\n{}", names_of(headers), body == headers.end() ? kEmptyBody : body->second);
}

std::string authorization(const SignedRequest& request, const Keys& keys) {
  const std::string& date = request.headers.at("x-amz-date");
  const std::string day = date.substr(0, 8);
  const std::string scope = fmt::format("{}/{}/{}/aws4_request", day, request.region, request.service);
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}", kAlgorithm, date, scope, sha256(canonical_request(request)).hex());
  std::string key = "AWS4" + keys.secret;
  for (const std::string_view part : {std::string_view(day), std::string_view(request.region),
                                      std::string_view(request.service), std::string_view("aws4_request")})
    key = hmac(key, part);
  return fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm, keys.id, scope,
                     names_of(all_headers(request)), hex(hmac(key, text)));
}

}  // namespace weightfs::s3
