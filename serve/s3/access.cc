#include "serve/s3/access.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/signing/sigv4.h"
#include "base/text.h"
#include "fs/http/access_rules.h"
#include "fs/http/protocol/target.h"

namespace weightfs::objects {
namespace {

using httpd::Request;

constexpr size_t kMaxKeyId = 128;
constexpr size_t kMaxRegion = 64;
constexpr std::string_view kSignatureParameter = "X-Amz-Signature";

template <class T>
using Allowed = tl::expected<T, Denial>;

tl::unexpected<Denial> denied(int status, const char* code, std::string message) {
  return tl::unexpected<Denial>({status, code, std::move(message)});
}

// What a request states about its signature.
struct Claim {
  std::string id;
  sigv4::Scope scope = {};
  std::string date = {};
  std::vector<std::string> names = {};  // of the signed headers
  std::string signature = {};
  std::string body = {};                      // as CanonicalRequest::body
  std::optional<std::time_t> valid_for = {};  // seconds, of a presigned URL
};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (;;) {
    const size_t end = text.find(separator);
    out.emplace_back(text.substr(0, end));
    if (end == text.npos) return out;
    text.remove_prefix(end + 1);
  }
}

bool is_unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

enum class UrlPart { path, query };

// A part of a target as it is signed: each byte escaped, or not, as the specification has it, however it was sent.
// Nothing for an invalid escape. A plus in a query is the space that httpd::parameter() reads.
std::optional<std::string> canonical_part(std::string_view text, UrlPart part) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    const bool is_escaped = byte == '%';
    if (is_escaped) {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = high < 0 ? -1 : hex_digit(text[i + 2]);
      if (low < 0) return std::nullopt;
      byte = static_cast<unsigned char>(high * 16 + low);
      i += 2;
    }
    const char c = static_cast<char>(byte);
    if (is_unreserved(c) || (c == '/' && !is_escaped && part == UrlPart::path))
      out += c;
    else if (c == '+' && !is_escaped && part == UrlPart::query)
      out += "%20";
    else
      out += fmt::format("%{:02X}", byte);
  }
  return out;
}

// The query as it is signed, without the signature.
std::optional<std::string> query_to_sign(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> parameters;
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(one.size() + 1, query.size()));
    if (one.empty()) continue;
    const size_t equals = std::min(one.find('='), one.size());
    auto name = canonical_part(one.substr(0, equals), UrlPart::query);
    auto value = canonical_part(one.substr(std::min(equals + 1, one.size())), UrlPart::query);
    if (!name || !value) return std::nullopt;
    if (*name != kSignatureParameter) parameters.emplace_back(std::move(*name), std::move(*value));
  }
  return sigv4::canonical_query(std::move(parameters));
}

// The values of a header as they are signed: joined, with single spaces.
std::optional<std::string> header_to_sign(const Request& request, const std::string& name) {
  std::optional<std::string> out;
  for (const httpd::Field& field : request.fields) {
    if (field.name != name) continue;
    std::string value;
    for (const char c : trimmed(field.value))
      if (c != ' ' || !value.ends_with(' ')) value += c;
    out = out ? *out + "," + value : value;
  }
  return out;
}

// "ID/DAY/REGION/s3/aws4_request".
bool take_credential(Claim& claim, std::string_view text) {
  const auto parts = split(text, '/');
  if (parts.size() != 5 || parts[3] != "s3" || parts[4] != "aws4_request") return false;
  claim.id = parts[0];
  claim.scope = {parts[1], parts[2], parts[3]};
  return !claim.id.empty() && claim.id.size() <= kMaxKeyId && is_visible_ascii(parts[2]) &&
         parts[2].size() <= kMaxRegion;
}

bool take_names(Claim& claim, std::string_view text) {
  claim.names = split(text, ';');
  return std::ranges::is_sorted(claim.names) && std::ranges::adjacent_find(claim.names) == claim.names.end() &&
         !claim.names.front().empty();
}

// `AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…`.
Allowed<Claim> claim_in_header(const Request& request, std::string_view field) {
  const auto malformed = [] {
    return denied(400, "AuthorizationHeaderMalformed", "The authorization header is malformed");
  };
  Claim claim;
  bool has_id = false, has_names = false;
  field.remove_prefix(sigv4::kAlgorithm.size());
  for (const std::string& text : split(field, ',')) {
    const std::string_view pair = trimmed(text);
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view name = pair.substr(0, equals), value = pair.substr(std::min(equals + 1, pair.size()));
    if (name == "Credential") has_id = take_credential(claim, value);
    if (name == "SignedHeaders") has_names = take_names(claim, value);
    if (name == "Signature") claim.signature = value;
  }
  if (!has_id || !has_names || claim.signature.empty()) return malformed();
  const std::string* const date = request.field("x-amz-date");
  if (date == nullptr) return denied(403, "AccessDenied", "A signed request needs the field x-amz-date");
  claim.date = *date;
  const std::string* const body = request.field("x-amz-content-sha256");
  claim.body = body == nullptr ? std::string(sigv4::kEmptyBody) : *body;
  if (claim.body != sigv4::kEmptyBody && claim.body != sigv4::kUnsignedBody)
    return denied(400, "XAmzContentSHA256Mismatch", "A request for reading has an empty body");
  return claim;
}

Allowed<Claim> claim_in_query(std::string_view query) {
  const auto malformed = [](const char* what) {
    return denied(400, "AuthorizationQueryParametersError", fmt::format("{} is missing or not valid", what));
  };
  const auto text = [&](std::string_view name) { return httpd::parameter(query, name).value_or(""); };
  Claim claim;
  if (text("X-Amz-Algorithm") != sigv4::kAlgorithm) return malformed("X-Amz-Algorithm");
  if (!take_credential(claim, text("X-Amz-Credential"))) return malformed("X-Amz-Credential");
  if (!take_names(claim, text("X-Amz-SignedHeaders"))) return malformed("X-Amz-SignedHeaders");
  const auto seconds = parse_number<std::time_t>(text("X-Amz-Expires"));
  if (!seconds || *seconds < 1 || *seconds > kMaxPresigned) return malformed("X-Amz-Expires");
  claim.valid_for = seconds;
  claim.date = text("X-Amz-Date");
  claim.signature = text(kSignatureParameter);
  claim.body = sigv4::kUnsignedBody;
  return claim;
}

Allowed<Claim> claim_of(const Request& request, std::string_view query) {
  const std::string* const field = request.field("authorization");
  if (field != nullptr && field->starts_with(std::string(sigv4::kAlgorithm) + " "))
    return claim_in_header(request, *field);
  if (httpd::parameter(query, kSignatureParameter)) return claim_in_query(query);
  if ((field != nullptr && field->starts_with("AWS")) || httpd::parameter(query, "AWSAccessKeyId"))
    return denied(400, "InvalidRequest", "Requests are signed with AWS4-HMAC-SHA256 only");
  return denied(403, "AccessDenied", "Access Denied");
}

std::optional<Denial> check_time(const Claim& claim, std::time_t now) {
  const auto date = sigv4::parse_amz_date(claim.date);
  if (!date || claim.scope.day != claim.date.substr(0, 8))
    return Denial{403, "AccessDenied", "The date of the request is not valid, or not that of its credential"};
  if (*date - now > kMaxSkew || (!claim.valid_for && now - *date > kMaxSkew))
    return Denial{403, "RequestTimeTooSkewed",
                  "The difference between the request time and the current time is too large"};
  if (claim.valid_for && now > *date + *claim.valid_for) return Denial{403, "AccessDenied", "Request has expired"};
  return std::nullopt;
}

std::optional<Denial> check_names(const Claim& claim, const Request& request) {
  const auto is_signed = [&](const std::string& name) { return std::ranges::binary_search(claim.names, name); };
  const bool has_others = std::ranges::any_of(request.fields, [&](const httpd::Field& field) {
    return field.name.starts_with("x-amz-") && !is_signed(field.name);
  });
  if (is_signed("host") && !has_others) return std::nullopt;
  return Denial{403, "AccessDenied", "There were headers present in the request which were not signed"};
}

// Nothing if the request lacks what it states to have signed.
std::optional<sigv4::CanonicalRequest> canonical_of(const Claim& claim, const Request& request,
                                                    const httpd::Target& target) {
  auto path = canonical_part(target.path, UrlPart::path);
  auto query = query_to_sign(target.query);
  if (!path || !query) return std::nullopt;
  sigv4::CanonicalRequest out{request.method, std::move(*path), std::move(*query), {}, claim.body};
  for (const std::string& name : claim.names) {
    auto value = header_to_sign(request, name);
    if (!value) return std::nullopt;
    out.headers[name] = std::move(*value);
  }
  return out;
}

}  // namespace

Result<AccessKeys> parse_access_keys(std::string_view text) {
  AccessKeys keys;
  size_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    const std::string_view words = trimmed(line);
    if (words.empty() || words.starts_with('#')) continue;
    const size_t end = std::min(words.find_first_of(" \t"), words.size());
    const std::string id(words.substr(0, end)), secret(trimmed(words.substr(end)));
    const bool is_id = id.size() <= kMaxKeyId && is_visible_ascii(id) && id.find_first_of("/,;=") == id.npos;
    if (!is_id || secret.empty() || !is_visible_ascii(secret))
      return failure(Code::unsupported, fmt::format("line {}: not ACCESS_KEY SECRET", number));
    if (!keys.emplace(id, secret).second)
      return failure(Code::unsupported, fmt::format("line {}: the access key is there twice", number));
  }
  if (keys.empty()) return failure(Code::unsupported, "no line ACCESS_KEY SECRET");
  return keys;
}

std::optional<Denial> check_signature(const AccessKeys& keys, const Request& request, std::time_t now) {
  const auto target = httpd::parse_target(request.target);
  if (!target) return Denial{400, "InvalidURI", target.error().message};
  const auto claim = claim_of(request, target->query);
  if (!claim) return claim.error();
  if (auto wrong = check_time(*claim, now)) return wrong;
  if (auto wrong = check_names(*claim, request)) return wrong;
  const auto key = keys.find(claim->id);
  if (key == keys.end()) return Denial{403, "InvalidAccessKeyId", "The access key is not one of this server"};
  const auto text = canonical_of(*claim, request, *target);
  const bool is_same =
      text && httpd::is_equal(claim->signature, sigv4::signature(key->second, claim->date, claim->scope, *text));
  if (is_same) return std::nullopt;
  return Denial{403, "SignatureDoesNotMatch",
                "The request signature we calculated does not match the signature you provided"};
}

}  // namespace weightfs::objects
