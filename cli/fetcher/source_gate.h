// Which requests the fetcher sends: those that belong to the sources of its command line, and what links in containers
// name.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cache/fetcher.h"
#include "sources/source.h"

namespace weightfs {

/// Admits requests of the user's trust within the scopes, with the credentials of the scope, and the targets of their
/// redirects: with these credentials at the same origin only. Admits requests of containers' trust anywhere, without
/// credentials; the client permits only public addresses, unless the user permits others.
class SourceGate final : public fetcher::Gate {
 public:
  /// `client` sends the requests for tokens.
  SourceGate(std::vector<Scope> scopes, http::KeyringPtr keyring, http::ClientPtr client)
      : keyring_(std::move(keyring)), client_(std::move(client)), scopes_(std::move(scopes)) {}

  Result<fetcher::Admitted> admit(const fetcher::Asked& asked) override;
  void note_redirect(const fetcher::Asked& asked, const http::Response& response) override;

  static constexpr size_t kMaxLearned = 4'000;  ///< targets of redirects; the oldest are forgotten
  static constexpr size_t kMaxUrl = 16 * 1024;  ///< bytes of one

 private:
  struct Target {
    http::CredentialsName credentials;  // none for another origin
    bool public_only;
  };

  const Scope* scope_of(const std::string& url, const http::CredentialsName& asked) const;
  Result<http::CredentialsPtr> credentials_of(http::CredentialsName name);

  const http::KeyringPtr keyring_;
  const http::ClientPtr client_;
  std::mutex mutex_;  // guards the rest
  std::vector<Scope> scopes_;
  std::map<std::string, Target> targets_;  // by URL
  std::deque<std::string> learned_;        // their URLs, the oldest first
  std::vector<std::pair<http::CredentialsName, http::CredentialsPtr>> opened_;
};

}  // namespace weightfs
