// Signatures by which a user is known to a registry: Ed25519 (RFC 8032), with a key in a file of OpenSSH's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weightfs {

/// A private key. Copies share it; callable from any thread.
class SigningKey {
 public:
  /// Reads the text of a private key file (OpenSSH's PROTOCOL.key, "openssh-key-v1"). Fails with unsupported on a key
  /// of another type, under a passphrase, and on other kinds of files; with corrupt on one that is cut or damaged.
  static Result<SigningKey> parse(std::string_view text);

  /// The public key as SSH sends it: the type and the 32 bytes, each after its length (RFC 8709, section 4).
  const std::string& public_blob() const { return public_blob_; }

  /// The 64 bytes of the signature.
  Result<std::string> sign(std::string_view text) const;

 private:
  struct Pair;

  std::shared_ptr<const Pair> pair_;
  std::string public_blob_;
};

}  // namespace weightfs
