#include "protocols/registry/signature.h"

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cstdint>

#include "base/text.h"
#include "base/values/base64.h"

namespace weightfs::registry {
namespace {

// ssh-keygen writes 400 bytes; only the comment may be longer.
constexpr size_t kMaxKeyText = 16 * 1024;

constexpr size_t kKey = 32;  // bytes of a private or public key (RFC 8032, section 5.1.5)

constexpr std::string_view kType = "ssh-ed25519";
constexpr std::string_view kBegin = "-----BEGIN OPENSSH PRIVATE KEY-----";
constexpr std::string_view kEnd = "-----END OPENSSH PRIVATE KEY-----";
constexpr std::string_view kMagic{"openssh-key-v1\0", 15};

tl::unexpected<Error> truncated_key(const char* what) {
  return failure(Code::corrupt, fmt::format("private key: truncated in {}", what));
}
tl::unexpected<Error> damaged(const char* how) { return failure(Code::corrupt, fmt::format("private key: {}", how)); }

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

// A secret that is erased from memory.
struct Secret {
  explicit Secret(std::string bytes) : text(std::move(bytes)) {}
  ~Secret() { OPENSSL_cleanse(text.data(), text.size()); }
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;

  std::string text;
};

// Reads integers and strings in SSH wire format (RFC 4251, section 5).
class SshWireReader {
 public:
  explicit SshWireReader(std::string_view bytes) : left_(bytes) {}

  Result<uint32_t> number(const char* what) {
    if (left_.size() < 4) return truncated_key(what);
    uint32_t n = 0;
    for (size_t i = 0; i < 4; ++i) n = n << 8 | static_cast<uint8_t>(left_[i]);
    left_.remove_prefix(4);
    return n;
  }
  Result<std::string_view> string(const char* what) {
    const uint32_t size = TRY(number(what));
    if (size > left_.size()) return truncated_key(what);
    const std::string_view text = left_.substr(0, size);
    left_.remove_prefix(size);
    return text;
  }
  std::string_view rest() const { return left_; }

 private:
  std::string_view left_;
};

Result<void> take_type(SshWireReader& reader, const char* what) {
  const std::string_view type = TRY(reader.string(what));
  if (type == kType) return {};
  return failure(Code::unsupported, fmt::format("private key: of type {}, {} required", quoted(type), kType));
}

// The base64 text between the two markers, without white space.
Result<std::string> strip_armor(std::string_view text) {
  if (text.size() > kMaxKeyText)
    return failure(Code::unsupported, fmt::format("private key: a file of more than {}", human_size(kMaxKeyText)));
  const size_t begin = text.find(kBegin);
  if (begin == std::string_view::npos)
    return failure(Code::unsupported, "private key: not an OpenSSH private key file");
  text.remove_prefix(begin + kBegin.size());
  const size_t end = text.find(kEnd);
  if (end == std::string_view::npos) return truncated_key("its lines");
  std::string out(text.substr(0, end));
  std::erase_if(out, [](char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; });
  return out;
}

// Parses the public part: type and key.
Result<std::string_view> parse_public_key(std::string_view blob) {
  SshWireReader reader(blob);
  TRY_VOID(take_type(reader, "the public key's type"));
  const std::string_view key = TRY(reader.string("the public key"));
  if (key.size() != kKey || !reader.rest().empty()) return damaged("public key of wrong size");
  return key;
}

// Parses the private part of a file without a passphrase: two equal numbers, the key, a comment, and the padding 1, 2,
// 3… up to a multiple of 8 bytes. The private key has kKey bytes.
Result<std::string_view> parse_private_key(std::string_view part, std::string_view public_key) {
  SshWireReader reader(part);
  const uint32_t check = TRY(reader.number("the check numbers"));
  if (check != TRY(reader.number("the check numbers"))) return damaged("its two check numbers differ");
  TRY_VOID(take_type(reader, "the private key's type"));
  const std::string_view copy = TRY(reader.string("the public key's copy"));
  const std::string_view secret = TRY(reader.string("the private key"));
  TRY(reader.string("the comment"));
  uint8_t expected = 0;
  for (const char c : reader.rest())
    if (static_cast<uint8_t>(c) != ++expected) return damaged("wrong padding");
  if (copy.size() != kKey || secret.size() != 2 * kKey) return damaged("private key of wrong size");
  if (secret.substr(kKey) != copy || copy != public_key) return damaged("its two public keys differ");
  return secret.substr(0, kKey);
}

struct KeyFile {
  std::string_view public_blob;
  std::string_view public_key;
  std::string_view secret;
};

Result<KeyFile> parse_key_file(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return damaged("does not begin with openssh-key-v1");
  SshWireReader reader(bytes.substr(kMagic.size()));
  const std::string_view cipher = TRY(reader.string("the cipher"));
  const std::string_view derivation = TRY(reader.string("the key derivation"));
  if (cipher != "none" || derivation != "none")
    return failure(Code::unsupported, "private key: protected by a passphrase, which is not supported");
  TRY(reader.string("the key derivation's options"));
  if (const uint32_t count = TRY(reader.number("the number of keys")); count != 1)
    return failure(Code::unsupported, fmt::format("private key: a file of {} keys, 1 required", count));
  const std::string_view blob = TRY(reader.string("the public key"));
  const std::string_view public_key = TRY(parse_public_key(blob));
  const std::string_view part = TRY(reader.string("the private part"));
  if (!reader.rest().empty()) return damaged("trailing bytes");
  const std::string_view secret = TRY(parse_private_key(part, public_key));
  return KeyFile{blob, public_key, secret};
}

// The public key of a private key, which may be null; empty when OpenSSL fails.
std::string public_key_of(const EVP_PKEY* key) {
  std::string out(kKey, '\0');
  size_t size = out.size();
  const auto bytes = reinterpret_cast<unsigned char*>(out.data());
  return key != nullptr && EVP_PKEY_get_raw_public_key(key, bytes, &size) == 1 ? out : std::string();
}

}  // namespace

Result<SigningKey> SigningKey::parse(std::string_view text) {
  const Secret lines(TRY(strip_armor(text)));
  auto decoded = from_base64(lines.text);
  if (!decoded) return damaged("its lines are not base64");
  const Secret bytes(std::move(*decoded));
  const KeyFile found = TRY(parse_key_file(bytes.text));
  SigningKey key;
  key.private_key_.reset(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes_of(found.secret), found.secret.size()),
      &EVP_PKEY_free);
  // Signing with a mismatched public key would reveal the private key.
  if (public_key_of(key.private_key_.get()) != found.public_key) return damaged("public and private key do not match");
  key.public_blob_ = found.public_blob;
  return key;
}

Result<std::string> SigningKey::sign(std::string_view text) const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> signing(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  std::string out(2 * kKey, '\0');
  size_t size = out.size();
  if (signing == nullptr || EVP_DigestSignInit(signing.get(), nullptr, nullptr, nullptr, private_key_.get()) != 1 ||
      EVP_DigestSign(signing.get(), reinterpret_cast<unsigned char*>(out.data()), &size, bytes_of(text), text.size()) !=
          1 ||
      size != out.size())
    return failure(Code::resource, "cannot sign: OpenSSL failed");
  return out;
}

}  // namespace weightfs::registry
