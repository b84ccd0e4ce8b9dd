// Ed25519 signatures (RFC 8032) with a key from an OpenSSH private key file, which identify a user to Ollama's
// registry.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace weightfs::registry {

/// A private key. Copies share it; thread-safe.
class SigningKey {
 public:
  /// Parses the text of a private key file (OpenSSH's PROTOCOL.key, "openssh-key-v1"). Fails with unsupported for other
  /// key types, keys with a passphrase, and other files; with corrupt for truncated or damaged ones.
  static Result<SigningKey> parse(std::string_view text);

  /// The public key in SSH wire format: type and 32 bytes, each with its length (RFC 8709, section 4).
  const std::string& public_blob() const { return public_blob_; }

  /// The 64 bytes of the signature.
  Result<std::string> sign(std::string_view text) const;

 private:
  std::shared_ptr<evp_pkey_st> private_key_;
  std::string public_blob_;
};

}  // namespace weightfs::registry
