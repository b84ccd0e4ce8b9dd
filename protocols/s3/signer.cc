#include "protocols/s3/signer.h"

#include <fmt/core.h>

#include "protocols/s3/signature.h"

namespace weightfs::s3 {

Result<void> Signer::prepare(const std::stop_token& stop) {
  if (client_ == nullptr) return {};
  const auto found = keys_->get(client_, UserKeys::Clock::now(), stop);
  if (found) return {};
  // The request is not repeated for this: each repetition would repeat the requests for keys, too.
  return failure(is_about_the_network(found.error()) ? given_up(found.error()) : found.error());
}

std::vector<std::string> Signer::headers(std::string_view method, const std::string& url) {
  const auto keys = keys_->current().keys;
  const BucketFlags& flags = keys_->flags();
  SignedRequest request{std::string(method), url, {}, region_};
  if (flags.requester_pays) request.headers["x-amz-request-payer"] = "requester";
  if (!flags.expected_owner.empty()) request.headers["x-amz-expected-bucket-owner"] = flags.expected_owner;
  std::vector<std::string> lines;
  if (keys) {
    request.headers["x-amz-content-sha256"] = kEmptyBody;
    request.headers["x-amz-date"] = amz_date(std::time(nullptr));
    if (!keys->token.empty()) request.headers["x-amz-security-token"] = keys->token;
    lines.push_back("Authorization: " + s3::authorization(request, *keys));
  }
  for (const auto& [name, value] : request.headers) lines.push_back(fmt::format("{}: {}", name, value));
  return lines;
}

std::string Signer::description() {
  const UserKeys::Current current = keys_->current();
  const std::string note = current.note.empty() ? "" : "; " + current.note;
  if (!current.keys) return "tried anonymously" + note;
  constexpr size_t kShown = 4;
  constexpr size_t kMinSize = 16;  // of an id, so that most of it is not shown
  const std::string& id = current.keys->id;
  if (id.size() < kMinSize) return "tried with the access key" + note;
  return fmt::format("tried with the access key ...{}{}", id.substr(id.size() - kShown), note);
}

}  // namespace weightfs::s3
