#include <fmt/core.h>

#include <utility>

#include "protocols/gcs.h"
#include "protocols/s3/user_keys.h"

namespace weightfs::gcs {
namespace {

class Bearer final : public http::Credentials {
 public:
  Bearer(std::shared_ptr<s3::UserKeys> tokens, std::string project, http::ClientPtr client)
      : tokens_(std::move(tokens)), project_(std::move(project)), client_(std::move(client)) {}

  Result<void> prepare(const std::stop_token& stop) override {
    if (client_ == nullptr) return {};
    const auto found = tokens_->get(client_, s3::UserKeys::Clock::now(), stop);
    if (found) return {};
    // The request is not repeated for this: each repetition would repeat the requests for tokens, too.
    return failure(is_about_the_network(found.error()) ? given_up(found.error()) : found.error());
  }

  std::string authorization() override { return value_of(tokens_->current()); }

  std::vector<std::string> headers(std::string_view /*method*/, const std::string& /*url*/) override {
    if (!tokens_->flags().requester_pays || project_.empty()) return {};
    return {"x-goog-user-project: " + project_};
  }

  // A token was revoked, or has expired by the clock of the server.
  Result<bool> on_unauthorized(const http::Response& /*response*/, const http::SentKeys& sent,
                               const std::stop_token& stop) override {
    const s3::UserKeys::Current current = tokens_->current();
    if (value_of(current) != sent.authorization) return true;
    return read_again(current.generation, stop);
  }
  uint64_t generation() override { return tokens_->current().generation; }
  bool read_again(uint64_t sent, const std::stop_token& stop) override {
    return tokens_->renew(sent, s3::UserKeys::Clock::now(), client_, stop);
  }

  http::KeyOrigin key_origin() override { return tokens_->current().origin; }
  std::string description() override {
    const s3::UserKeys::Current current = tokens_->current();
    const std::string note = current.note.empty() ? "" : "; " + current.note;
    if (!current.keys) return "tried anonymously" + note;
    return fmt::format("tried with a token of {}{}", current.origin.from, note);
  }

 private:
  static std::string value_of(const s3::UserKeys::Current& current) {
    return current.keys ? "Bearer " + current.keys->token : "";
  }

  const std::shared_ptr<s3::UserKeys> tokens_;
  const std::string project_;
  const http::ClientPtr client_;
};

}  // namespace

http::CredentialsPtr credentials_for(std::shared_ptr<s3::UserKeys> tokens, std::string project,
                                     http::ClientPtr client) {
  return std::make_shared<Bearer>(std::move(tokens), std::move(project), std::move(client));
}

}  // namespace weightfs::gcs
