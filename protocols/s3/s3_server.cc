#include "protocols/s3_server.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/text.h"
#include "cache/url.h"
#include "protocols/s3/bucket_url.h"

namespace weightfs::s3 {
namespace {

constexpr size_t kMaxPermittedKey = 1024;
constexpr size_t kMaxPermittedBucket = 255;

bool matches_wildcards(const std::string& pattern, const std::string& text) {
  return ::fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
}

// Calls `is_it` with the part for keys of each pattern whose bucket matches.
template <class Predicate>
bool any_of_bucket(const std::string& bucket, const std::vector<std::string>& patterns, Predicate is_it) {
  if (!is_file_name(bucket) || bucket.size() > kMaxPermittedBucket || !consists_of(bucket, "._-", true)) return false;
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    const size_t slash = pattern.find('/');
    return matches_wildcards(pattern.substr(0, slash), bucket) &&
           is_it(slash == pattern.npos ? "*" : pattern.substr(slash + 1));
  });
}

// libcurl, proxies and servers remove other components from a URL's path.
bool is_plain_key(std::string_view key) { return key.size() <= kMaxPermittedKey && is_plain_path(key); }

}  // namespace

Result<std::string> parse_endpoint(std::string_view text) {
  std::string url(text);
  while (url.ends_with('/')) url.pop_back();
  if (http::origin_of(url).empty() || url.find_first_of("?#@") != url.npos)
    return failure(Code::unsupported, "s3=: the URL of an object store expected");
  return url;
}

bool is_permitted_bucket(const std::string& bucket, const std::vector<std::string>& patterns) {
  return any_of_bucket(bucket, patterns, [](const std::string&) { return true; });
}

bool is_permitted_object(const std::string& bucket, const std::string& key, const std::vector<std::string>& patterns) {
  return is_plain_key(key) &&
         any_of_bucket(bucket, patterns, [&](const std::string& pattern) { return matches_wildcards(pattern, key); });
}

bool is_permitted_prefix(const std::string& bucket, const std::string& prefix,
                         const std::vector<std::string>& patterns) {
  std::string_view path = prefix;
  if (path.ends_with('/')) path.remove_suffix(1);
  return (prefix.empty() || is_plain_key(path)) && any_of_bucket(bucket, patterns, [&](const std::string& pattern) {
           return pattern.ends_with('*') && matches_wildcards(pattern, prefix);
         });
}

bool is_permitted_request(const std::string& url, const std::string& endpoint,
                          const std::vector<std::string>& patterns) {
  const std::string below = http::normalized_url(endpoint + "/");
  if (!url.starts_with(below)) return false;
  std::string_view rest = std::string_view(url).substr(below.size());
  const std::string bucket(cut_component(rest));
  const size_t question = std::min(rest.find('?'), rest.size());
  const std::string key = http::url_decoded(rest.substr(0, question));
  if (!key.empty()) return question == rest.size() && is_permitted_object(bucket, key, patterns);
  if (!is_of_bucket(url, bucket, endpoint, "")) return false;  // the parameters of a list, each once
  constexpr std::string_view kPrefix = "&prefix=";
  const std::string query = "&" + std::string(rest.substr(std::min(question + 1, rest.size())));
  const size_t begin = query.find(kPrefix);
  if (begin == query.npos) return false;
  const std::string prefix = query.substr(begin + kPrefix.size());
  return is_permitted_prefix(bucket, http::url_decoded(prefix.substr(0, prefix.find('&'))), patterns);
}

}  // namespace weightfs::s3
