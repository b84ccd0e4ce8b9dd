#include "protocols/azure/signature.h"

#include <fmt/core.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/text.h"
#include "base/values/base64.h"
#include "cache/url.h"

namespace weightfs::azure {
namespace {

using Bytes = std::array<unsigned char, EVP_MAX_MD_SIZE>;

std::string_view text_of(const Bytes& bytes, unsigned size) {
  return {reinterpret_cast<const char*>(bytes.data()), size};
}

// The parameters by their names in lower case, decoded, as "\nname:value"; equal names have their values joined by `,`.
std::string canonical_query(std::string_view query) {
  std::map<std::string, std::vector<std::string>> values;
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), one.size() + 1));
    const size_t equals = std::min(one.find('='), one.size());
    const std::string name = lower_case(http::url_decoded(one.substr(0, equals)));
    values[name].push_back(http::url_decoded(one.substr(std::min(equals + 1, one.size()))));
  }
  std::string text;
  for (auto& [name, list] : values) {
    std::ranges::sort(list);
    text += fmt::format("\n{}:", name);
    for (size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "" : ",") + list[i];
  }
  return text;
}

}  // namespace

std::string text_to_sign(const SignedRequest& request) {
  constexpr auto kStandard = std::to_array<const char*>({"content-encoding", "content-language", "content-length",
                                                         "content-md5", "content-type", "date", "if-modified-since",
                                                         "if-match", "if-none-match", "if-unmodified-since", "range"});
  std::string text = request.method;
  for (const char* const name : kStandard) {
    const auto found = request.headers.find(name);
    text += "\n" + (found == request.headers.end() ? "" : found->second);
  }
  for (const auto& [name, value] : request.headers)
    if (name.starts_with("x-ms-")) text += fmt::format("\n{}:{}", name, value);
  const std::string_view url = request.url;
  const size_t question = std::min(url.find('?'), url.size());
  const size_t path = std::min(url.find('/', url.find("://") + 3), question);
  text += fmt::format("\n/{}{}", request.account, path == question ? "/" : url.substr(path, question - path));
  return text + canonical_query(url.substr(std::min(question + 1, url.size())));
}

std::string shared_key_authorization(const SignedRequest& request, std::string_view key) {
  Bytes mac{};
  unsigned size = 0;
  const std::string text = text_to_sign(request);
  if (::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &size) == nullptr)
    throw std::bad_alloc();
  return fmt::format("SharedKey {}:{}", request.account, base64(text_of(mac, size)));
}

std::string md5_in_base64(std::string_view bytes) {
  Bytes digest{};
  unsigned size = 0;
  if (::EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_md5(), nullptr) != 1) return {};
  return base64(text_of(digest, size));
}

}  // namespace weightfs::azure
