#include "protocols/s3/signer.h"

#include <fmt/core.h>

#include "protocols/s3/signature.h"

namespace weightfs::s3 {

std::vector<std::string> Signer::headers(std::string_view method, const std::string& url) {
  if (!keys_) return {};
  SignedRequest request{std::string(method), url, {}, region_};
  request.headers["x-amz-content-sha256"] = kEmptyBody;
  request.headers["x-amz-date"] = amz_date(std::time(nullptr));
  if (!keys_->token.empty()) request.headers["x-amz-security-token"] = keys_->token;
  std::vector<std::string> lines = {"Authorization: " + s3::authorization(request, *keys_)};
  for (const auto& [name, value] : request.headers) lines.push_back(fmt::format("{}: {}", name, value));
  return lines;
}

std::string Signer::description() {
  if (!keys_) return note_.empty() ? "tried anonymously" : fmt::format("tried anonymously; {}", note_);
  constexpr size_t kShown = 4;
  constexpr size_t kMinSize = 16;  // of an id, so that most of it is not shown
  if (keys_->id.size() < kMinSize) return "tried with the access key";
  return fmt::format("tried with the access key ...{}", keys_->id.substr(keys_->id.size() - kShown));
}

}  // namespace weightfs::s3
