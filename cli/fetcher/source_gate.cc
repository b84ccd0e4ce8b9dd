#include "cli/fetcher/source_gate.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"
#include "cache/url.h"
#include "protocols/s3.h"

namespace weightfs {
namespace {

constexpr size_t kMaxScopes = 1'000;  // with those of renamed repositories
constexpr size_t kMaxOpened = 1'000;

// What a request may say beside its URL.
bool is_harmless(std::string_view header) {
  constexpr std::array<std::string_view, 6> kNames = {"accept",   "range",         "if-match",
                                                      "if-range", "if-none-match", "accept-encoding"};
  const std::string name = lower_case(header.substr(0, header.find(':')));
  return std::ranges::find(kNames, name) != kNames.end() &&
         std::ranges::none_of(header, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

tl::unexpected<Error> not_admitted(const std::string& url, const char* why) {
  return failure(Code::forbidden, fmt::format("{}: refused: {}", http::printable_url(url), why));
}

}  // namespace

// One with these credentials, else one with some of their kind; without credentials any. The kind alone does not tell
// two signatures of URLs in one folder apart.
const Scope* SourceGate::scope_of(const std::string& url, const http::CredentialsName& asked) const {
  const Scope* of_kind = nullptr;
  for (const Scope& scope : scopes_) {
    const bool is_one = asked.kind == http::CredentialsName::Kind::none || asked.kind == scope.credentials.kind;
    if (!is_one || !is_in(scope, url)) continue;
    if (scope.credentials == asked) return &scope;
    if (of_kind == nullptr) of_kind = &scope;
  }
  return of_kind;
}

// The user may log in to a hub or web server again while a mount lasts, so these are read for each request.
Result<http::CredentialsPtr> SourceGate::credentials_of(http::CredentialsName name) {
  using Kind = http::CredentialsName::Kind;
  if (name.kind == Kind::none) return http::CredentialsPtr();
  if (name.kind == Kind::hub || name.kind == Kind::modelscope || name.kind == Kind::site)
    return keyring_->find(name, client_);
  const auto known = std::ranges::find(opened_, name, [](const auto& each) { return each.first; });
  if (known != opened_.end()) return known->second;
  if (opened_.size() >= kMaxOpened) opened_.erase(opened_.begin());
  http::CredentialsPtr found = TRY(keyring_->find(name, client_));
  opened_.emplace_back(std::move(name), found);
  return found;
}

Result<fetcher::Admitted> SourceGate::admit(const fetcher::Asked& asked) {
  using Kind = http::CredentialsName::Kind;
  const http::Request& request = asked.request;
  const Kind kind = asked.credentials.kind;
  if (!std::ranges::all_of(request.headers, is_harmless))
    return not_admitted(request.url, "a header that is not allowed");
  if (request.trust == http::Trust::container) {
    if (kind != Kind::none) return not_admitted(request.url, "a link with credentials");
    return fetcher::Admitted();
  }
  const std::scoped_lock lock(mutex_);
  http::CredentialsName name;
  bool public_only = false;
  if (const Scope* const scope = scope_of(request.url, asked.credentials)) {
    name = credentials_in(*scope, request.url);
    if (name.kind == Kind::bucket) name.region = asked.credentials.region;
    if (kind == Kind::bucket && name.server.empty() && name.region != s3::region_of(request.url, scope->bucket))
      return not_admitted(request.url, "another region");
  } else if (const auto target = targets_.find(http::normalized_url(request.url)); target != targets_.end()) {
    name = target->second.credentials;
    public_only = target->second.public_only;
  } else {
    return not_admitted(request.url, "it belongs to no source of this command");
  }
  if (kind == Kind::none) name = {};
  if (kind != name.kind) return not_admitted(request.url, "other credentials");
  http::CredentialsPtr credentials = TRY(credentials_of(std::move(name)));
  return fetcher::Admitted{std::move(credentials), public_only};
}

void SourceGate::note_redirect(const fetcher::Asked& asked, const http::Response& response) {
  const std::string from = http::normalized_url(asked.request.url), to = http::normalized_url(response.url);
  if (asked.request.trust == http::Trust::container || to.size() > kMaxUrl) return;
  const bool is_same_origin = http::origin_of(from) == http::origin_of(to);
  const std::scoped_lock lock(mutex_);
  const Scope* const scope = scope_of(from, asked.credentials);
  const Target target{is_same_origin && scope != nullptr ? credentials_in(*scope, from) : http::CredentialsName(),
                      response.from_public};
  if (targets_.insert_or_assign(to, target).second) learned_.push_back(to);
  for (; learned_.size() > kMaxLearned; learned_.pop_front()) targets_.erase(learned_.front());
  if (!is_same_origin || scopes_.size() >= kMaxScopes || scope_of(to, asked.credentials) != nullptr) return;
  const std::vector<Scope> renamed = scopes_after_renaming(scopes_, from, to);
  scopes_.insert(scopes_.end(), renamed.begin(), renamed.end());
}

}  // namespace weightfs
