// The user's keys and tokens, behind names that have no secret: the process that reads containers has the names only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/http/request.h"

namespace weightfs::http {

class Client;
using ClientPtr = std::shared_ptr<Client>;

/// Which credentials of the user.
struct CredentialsName {
  enum class Kind : uint8_t {
    none,
    hub,         ///< the token for a server with the API of the Hub
    registry,    ///< a key or login for a registry
    bucket,      ///< an access key for an object store
    web,         ///< the keys of --source-token-file and --header-file, for the server of a URL that is a source
    modelscope,  ///< the token for ModelScope
    site,        ///< the login for the https server of a URL that is a source
    google,      ///< the token for Google Cloud Storage
    azure,       ///< what the user has for an account of Azure Storage, or the signature of a URL (`headers`)
  };
  static constexpr uint64_t kKinds = 9;
  Kind kind = Kind::none;
  std::string server = {};                ///< its URL
  std::string region = {};                ///< of a bucket; the account of a container
  std::vector<std::string> headers = {};  ///< "Name: value" of the configuration of a registry, sent with each request

  bool operator==(const CredentialsName&) const = default;
};

/// Thread-safe.
class Keyring {
 public:
  virtual ~Keyring() = default;
  Keyring() = default;
  Keyring(const Keyring&) = delete;
  Keyring& operator=(const Keyring&) = delete;

  /// Never null. `client` sends the requests for tokens. Fails if they cannot be read.
  virtual Result<CredentialsPtr> find(const CredentialsName& name, const ClientPtr& client) = 0;
};

using KeyringPtr = std::shared_ptr<Keyring>;

}  // namespace weightfs::http
