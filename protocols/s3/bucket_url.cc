#include "protocols/s3/bucket_url.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cache/url.h"
#include "protocols/s3.h"

namespace weightfs::s3 {
namespace {

constexpr std::array kHosts = {"s3", "s3-fips", "s3.dualstack", "s3-fips.dualstack"};

// Whether the name may be the first label of a host name that has a certificate.
bool is_host_label(const std::string& bucket) {
  return bucket.size() >= 3 && bucket.size() <= 63 && consists_of(bucket, "-", false) && bucket.front() != '-' &&
         bucket.back() != '-';
}

// Whether a host, with a port or not, is an address: nothing can be before it.
bool is_address(std::string_view host) {
  host = host.substr(0, host.find('/'));
  return host.starts_with('[') || host.find_first_not_of("0123456789.:") == host.npos;
}

bool names_version(std::string_view query) {
  const std::string_view name = query.substr(0, query.find('='));
  return name.size() < query.size() && (name == kAmazon.version_parameter || name == kGoogle.version_parameter);
}

}  // namespace

bool consists_of(std::string_view text, std::string_view others, bool upper_case) {
  return std::ranges::all_of(text, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (upper_case && c >= 'A' && c <= 'Z') ||
           others.find(c) != others.npos;
  });
}

bool is_region(std::string_view text) { return !text.empty() && text.size() <= 40 && consists_of(text, "-", false); }

bool is_generation(std::string_view text) {
  return !text.empty() && text.size() <= 20 && text.find_first_not_of("0123456789") == text.npos;
}

std::string url_of(const std::string& bucket, const std::string& endpoint, std::string_view host,
                   const std::string& region, Addressing addressing) {
  if (!endpoint.empty()) {
    const std::string server = endpoint.substr(0, endpoint.find_last_not_of('/') + 1);
    const size_t host_at = server.find("://");
    const bool is_before_host = addressing == Addressing::host && is_host_label(bucket) && host_at != server.npos &&
                                !is_address(std::string_view(server).substr(host_at + 3));
    if (!is_before_host) return fmt::format("{}/{}", server, bucket);
    return fmt::format("{}{}.{}", server.substr(0, host_at + 3), bucket, server.substr(host_at + 3));
  }
  const std::string domain = region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  if (is_host_label(bucket) && addressing != Addressing::path)
    return fmt::format("https://{}.{}.{}.{}", bucket, host, region, domain);
  return fmt::format("https://{}.{}.{}/{}", host, region, domain, bucket);
}

std::string region_of(const std::string& url, const std::string& bucket) {
  for (const char* const host : kHosts)
    for (const std::string& begin : {fmt::format("https://{}.{}.", bucket, host), fmt::format("https://{}.", host)}) {
      if (!url.starts_with(begin)) continue;
      const size_t end = url.find(".amazonaws.com", begin.size());
      const std::string region = end == url.npos ? "" : url.substr(begin.size(), end - begin.size());
      if (is_region(region)) return region;
    }
  return "";
}

namespace {

// The URL of the bucket that `url` is below, with a `/` at its end; empty if it is none.
std::string place_of(const std::string& url, const std::string& bucket, const std::string& endpoint,
                     const std::string& region) {
  for (const Addressing addressing : {Addressing::path, Addressing::host})
    for (const char* const host : kHosts) {
      std::string place = http::normalized_url(url_of(bucket, endpoint, host, region, addressing) + "/");
      if (url.starts_with(place)) return place;
    }
  return "";
}

}  // namespace

bool is_of_bucket(const std::string& url, const std::string& bucket, const std::string& endpoint,
                  const std::string& folder) {
  const std::string region = endpoint.empty() ? region_of(url, bucket) : "";
  if (endpoint.empty() && region.empty()) return false;
  const std::string place = place_of(url, bucket, endpoint, region);
  if (place.empty()) return false;
  const std::string_view rest = std::string_view(url).substr(place.size());
  const size_t question = std::min(rest.find('?'), rest.size());
  const std::string_view key = rest.substr(0, question);
  std::string_view query = rest.substr(std::min(question + 1, rest.size()));
  if (!key.empty())
    return key.starts_with(http::url_encoded(folder, "/")) &&
           (query.empty() || (names_version(query) && query.find('&') == query.npos));
  // The parameters of a list, each once.
  std::string_view prefix;
  for (size_t parameters = 0; !query.empty(); ++parameters) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), one.size() + 1));
    const std::string_view name = one.substr(0, one.find('='));
    if (name == "list-type" && one != "list-type=2") return false;
    if (name == "prefix" && !std::exchange(prefix, one).empty()) return false;
    constexpr std::array<std::string_view, 6> kNames = {"continuation-token", "encoding-type", "list-type", "marker",
                                                        "max-keys",           "prefix"};
    if (parameters >= kNames.size() || std::ranges::find(kNames, name) == kNames.end()) return false;
  }
  return prefix.starts_with("prefix=" + http::url_encoded(folder));
}

}  // namespace weightfs::s3
