// Credential helpers: programs of the user that print a login for a registry, as docker runs them
// (docker-credential-helpers, "Development"). This folder asks for their answers; cli/fetcher/ runs them.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "protocols/registry.h"

namespace weightfs::registry {

/// A login for a registry.
struct Login {
  std::string user;
  std::string password;
  std::string identity_token = {};  ///< replaces the password: a token server exchanges it for tokens
};

/// A helper of a file with logins, and the registry that it is asked for.
struct HelperUse {
  std::string name;    ///< the program is docker-credential-NAME; as in the file: not checked
  std::string server;  ///< as docker names it: "registry.example:5000", of Docker Hub "https://index.docker.io/v1/"
  auto operator<=>(const HelperUse&) const = default;
};

/// Lower-case letters, digits and `-`, at most 64.
bool is_helper_name(std::string_view name);

/// The helpers that the user's files name for the registries `hosts`, each with its file. Files that cannot be read
/// have none.
std::vector<std::pair<HelperUse, std::string>> configured_helpers(const CredentialPaths& paths,
                                                                  const std::vector<std::string>& hosts);

/// What a helper printed, and its exit status.
struct HelperOutput {
  int status = 0;
  std::string text = {};
};

/// Asks credential helpers. Thread-safe. A helper is asked again after kBetweenAnswers at the earliest; until then its
/// last answer is returned.
class CredentialHelpers {
 public:
  /// Runs a helper. Fails with network if the work of the thread is cancelled, else with the reason, for a message.
  using Run = std::function<Result<HelperOutput>(const HelperUse& use, const std::stop_token& stop)>;
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kBetweenAnswers{10};

  explicit CredentialHelpers(
      Run run, std::function<Clock::time_point()> now = [] { return Clock::now(); })
      : run_(std::move(run)), now_(std::move(now)) {}

  /// The login. Fails with not_found if the helper has none for the registry, with network if the work of the thread is
  /// cancelled, else with unsupported. No error has text that the helper printed, which may be secret.
  Result<Login> login(const HelperUse& use, const std::stop_token& stop);

 private:
  struct Answer {
    Clock::time_point time;
    Result<Login> login;
  };

  const Run run_;
  const std::function<Clock::time_point()> now_;
  std::timed_mutex mutex_;  // guards the rest; held while a helper runs
  std::map<HelperUse, Answer> answers_;
};

}  // namespace weightfs::registry
