#include "base/signing/sigv4.h"

#include <fmt/core.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/digest.h"

namespace weightfs::sigv4 {
namespace {

constexpr std::string_view kEnd = "aws4_request";

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned size = 0;
  if (::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &size) == nullptr)
    throw std::bad_alloc();
  return {reinterpret_cast<const char*>(mac.data()), size};
}

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

}  // namespace

std::string names_of(const Headers& headers) {
  std::string names;
  for (const auto& [name, value] : headers) names += (names.empty() ? "" : ";") + name;
  return names;
}

std::string CanonicalRequest::text() const {
  std::string out = fmt::format("{}\n{}\n{}\n", method, path, query);
  for (const auto& [name, value] : headers) out += fmt::format("{}:{}\n", name, value);
  return out + fmt::format("\n{}\n{}", names_of(headers), body);
}

std::string canonical_query(std::vector<std::pair<std::string, std::string>> parameters) {
  std::ranges::sort(parameters);
  std::string query;
  for (const auto& [name, value] : parameters) query += fmt::format("{}{}={}", query.empty() ? "" : "&", name, value);
  return query;
}

std::string Scope::text() const { return fmt::format("{}/{}/{}/{}", day, region, service, kEnd); }

std::string signature(const std::string& secret, std::string_view date, const Scope& scope,
                      const CanonicalRequest& request) {
  const std::string text = fmt::format("{}\n{}\n{}\n{}", kAlgorithm, date, scope.text(), sha256(request.text()).hex());
  std::string key = "AWS4" + secret;
  for (const std::string_view part :
       {std::string_view(scope.day), std::string_view(scope.region), std::string_view(scope.service), kEnd})
    key = hmac_sha256(key, part);
  return hex_of(hmac_sha256(key, text));
}

std::string amz_date(std::time_t time) {
  std::tm date{};
  ::gmtime_r(&time, &date);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &date)};
}

// Only a text that amz_date() writes: strptime(3) also takes shorter numbers and white space.
std::optional<std::time_t> parse_amz_date(const std::string& text) {
  std::tm date{};
  const char* const end = ::strptime(text.c_str(), "%Y%m%dT%H%M%SZ", &date);
  if (end == nullptr || *end != '\0') return std::nullopt;
  const std::time_t time = ::timegm(&date);
  return amz_date(time) == text ? std::optional(time) : std::nullopt;
}

}  // namespace weightfs::sigv4
