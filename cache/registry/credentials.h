// Says to one registry who asks: with a token for the user's Ollama key or docker login, with that login itself, or
// with a token for nobody. Nothing is read, and nobody is asked, before the registry wants to know.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/http/client.h"
#include "cache/registry.h"
#include "cache/registry/token.h"

namespace weightfs {

class RegistryCredentials final : public Credentials {
 public:
  /// `registry` is a URL of it. Of several threads that are challenged one asks for the token, the others wait.
  RegistryCredentials(HttpPtr http, const std::string& registry, Keys keys, Chance chance = Chance::of_system());

  /// What it has, until the time that was given for it is over: then the registry asks again.
  std::string authorization() override;

  /// A Bearer challenge is met with a token (docs/formats/ollama.md):
  /// - for the Ollama key, when the realm is at the registry's own scheme, host and port, and either the service is
  ///   "ollama", or the realm's path ends in /v2/token and there is no docker login. In the second case another kind of
  ///   registry may not know the key, and is asked for a token for nobody;
  /// - otherwise for the docker login, if there is one, or for nobody. The realm may be another host's over https, or
  /// on
  ///   loopback when the registry is; the login goes to it only over https or loopback.
  /// Where the challenge came from a public address, the realm must not lead to one that is not.
  /// A Basic challenge is met with the docker login, by the same rule. False when nothing is left to try; fails with
  /// unsupported when a rule or whoever gives the tokens refuses, when the key or the docker config is needed and
  /// cannot be read, and as ask() does.
  Result<bool> challenged(const Denial& denial, const std::atomic<bool>& stop) override;

  std::string tried() override;

 private:
  // A value for the Authorization header.
  struct Value {
    std::string authorization;  // empty: there is nothing to say
    int64_t lifetime = 0;       // in seconds
    std::string tried;
  };
  struct Renewal {
    bool ended = false;
    bool stopped = false;  // by whoever made it: that is no answer for those who wait
    Result<bool> result = false;
  };

  bool is_current() const;
  Result<bool> renew(const Denial& denial, const std::atomic<bool>& stop, std::unique_lock<std::mutex>& lock);

  Result<Value> answer(const Denial& denial, const std::atomic<bool>& stop);
  Result<Value> with_token(const Challenge& bearer, Reach reach, const std::atomic<bool>& stop);
  Result<Value> with_key(const Challenge& bearer, Reach reach, const std::atomic<bool>& stop);
  Result<Value> with_login(const Challenge& bearer, Reach reach, const std::atomic<bool>& stop);
  Result<Value> with_password();
  std::string without_a_name(const Challenge& bearer, const DockerEntry& entry) const;
  Result<DockerEntry> entry_for(const std::string& origin) const;

  const HttpPtr http_;
  const std::string host_;    // of the registry, with its port if the URL has one
  const std::string origin_;  // of the registry
  const Keys keys_;
  const Chance chance_;

  std::mutex mutex_;  // guards the rest
  std::condition_variable renewed_;
  std::shared_ptr<Renewal> renewal_;  // the one that goes on
  Value value_;
  int64_t until_ = 0;
};

}  // namespace weightfs
