#include "cache/registry/signature.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cstdint>

#include "base/text.h"
#include "cache/registry/base64.h"

namespace weightfs {
namespace {

// A file of ssh-keygen's has 400 bytes; its comment is the only part that may grow.
constexpr size_t kLongestFile = 16 * 1024;

constexpr size_t kKey = 32;  // bytes of a private and of a public key (RFC 8032, section 5.1.5)

constexpr std::string_view kType = "ssh-ed25519";
constexpr std::string_view kBegin = "-----BEGIN OPENSSH PRIVATE KEY-----";
constexpr std::string_view kEnd = "-----END OPENSSH PRIVATE KEY-----";
constexpr std::string_view kMagic{"openssh-key-v1\0", 15};

tl::unexpected<Error> cut(const char* what) { return failure(Code::corrupt, str("private key: cut short in ", what)); }
tl::unexpected<Error> damaged(const char* how) { return failure(Code::corrupt, str("private key: ", how)); }

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

// A secret that leaves no copy in memory.
struct Secret {
  explicit Secret(std::string bytes) : text(std::move(bytes)) {}
  ~Secret() { OPENSSL_cleanse(text.data(), text.size()); }
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;

  std::string text;
};

// Takes integers and strings off the front, as SSH writes them (RFC 4251, section 5).
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  Result<uint32_t> number(const char* what) {
    if (left_.size() < 4) return cut(what);
    uint32_t n = 0;
    for (size_t i = 0; i < 4; ++i) n = n << 8 | static_cast<uint8_t>(left_[i]);
    left_.remove_prefix(4);
    return n;
  }
  Result<std::string_view> string(const char* what) {
    const uint32_t size = TRY(number(what));
    if (size > left_.size()) return cut(what);
    const std::string_view text = left_.substr(0, size);
    left_.remove_prefix(size);
    return text;
  }
  std::string_view rest() const { return left_; }

 private:
  std::string_view left_;
};

Result<void> take_type(Reader& reader, const char* what) {
  const std::string_view type = TRY(reader.string(what));
  if (type == kType) return {};
  return failure(Code::unsupported, str("private key: of type ", quoted(type), ", ", kType, " is needed"));
}

// The base 64 between the two marks, without white space.
Result<std::string> armoured(std::string_view text) {
  if (text.size() > kLongestFile)
    return failure(Code::unsupported, str("private key: a file of more than ", human_size(kLongestFile)));
  const size_t begin = text.find(kBegin);
  if (begin == std::string_view::npos)
    return failure(Code::unsupported, "private key: not an OpenSSH private key file");
  text.remove_prefix(begin + kBegin.size());
  const size_t end = text.find(kEnd);
  if (end == std::string_view::npos) return cut("its lines");
  std::string out(text.substr(0, end));
  std::erase_if(out, [](char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; });
  return out;
}

struct Halves {
  std::string_view secret;  // of kKey bytes, as is
  std::string_view open;
};

// The public part: type and key.
Result<std::string_view> public_half(std::string_view blob) {
  Reader reader(blob);
  TRY_VOID(take_type(reader, "the public key's type"));
  const std::string_view key = TRY(reader.string("the public key"));
  if (key.size() != kKey || !reader.rest().empty()) return damaged("a public key of a wrong size");
  return key;
}

// The private part of a file without a passphrase: two equal numbers, the key, a comment, and 1, 2, 3… up to a multiple
// of 8 bytes.
Result<Halves> both_halves(std::string_view part) {
  Reader reader(part);
  const uint32_t check = TRY(reader.number("the check numbers"));
  if (check != TRY(reader.number("the check numbers"))) return damaged("its two check numbers differ");
  TRY_VOID(take_type(reader, "the private key's type"));
  const std::string_view open = TRY(reader.string("the public key's copy"));
  const std::string_view secret = TRY(reader.string("the private key"));
  TRY(reader.string("the comment"));
  uint8_t wanted = 0;
  for (const char c : reader.rest())
    if (static_cast<uint8_t>(c) != ++wanted) return damaged("wrong padding");
  if (open.size() != kKey || secret.size() != 2 * kKey) return damaged("a private key of a wrong size");
  if (secret.substr(kKey) != open) return damaged("its two public keys differ");
  return Halves{secret.substr(0, kKey), open};
}

struct Contents {
  std::string_view public_blob;
  Halves halves;
};

Result<Contents> contents(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return damaged("does not begin with openssh-key-v1");
  Reader reader(bytes.substr(kMagic.size()));
  const std::string_view cipher = TRY(reader.string("the cipher"));
  const std::string_view derivation = TRY(reader.string("the key derivation"));
  if (cipher != "none" || derivation != "none")
    return failure(Code::unsupported, "private key: under a passphrase, which cannot be asked for here");
  TRY(reader.string("the key derivation's options"));
  if (const uint32_t count = TRY(reader.number("the number of keys")); count != 1)
    return failure(Code::unsupported, str("private key: a file of ", count, " keys, 1 is needed"));
  const std::string_view blob = TRY(reader.string("the public key"));
  const std::string_view open = TRY(public_half(blob));
  const std::string_view part = TRY(reader.string("the private part"));
  if (!reader.rest().empty()) return damaged("more bytes than a key has");
  const Halves halves = TRY(both_halves(part));
  if (halves.open != open) return damaged("its two public keys differ");
  return Contents{blob, halves};
}

}  // namespace

struct SigningKey::Pair {
  explicit Pair(std::string_view secret)
      : evp(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes_of(secret), secret.size())) {}
  ~Pair() { EVP_PKEY_free(evp); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // The public key that belongs to the private one; empty when OpenSSL fails.
  std::string open() const {
    std::string out(kKey, '\0');
    size_t size = out.size();
    const auto bytes = reinterpret_cast<unsigned char*>(out.data());
    return evp != nullptr && EVP_PKEY_get_raw_public_key(evp, bytes, &size) == 1 ? out : std::string();
  }

  EVP_PKEY* evp;
};

Result<SigningKey> SigningKey::parse(std::string_view text) {
  const Secret lines(TRY(armoured(text)));
  auto decoded = from_base64(lines.text);
  if (!decoded) return damaged("its lines are no base 64");
  const Secret bytes(std::move(*decoded));
  const Contents found = TRY(contents(bytes.text));
  SigningKey key;
  auto pair = std::make_shared<Pair>(found.halves.secret);
  // Who signs for a public key that is not its own gives the private one away.
  if (pair->open() != found.halves.open) return damaged("the public key is not that of the private key");
  key.pair_ = std::move(pair);
  key.public_blob_ = found.public_blob;
  return key;
}

Result<std::string> SigningKey::sign(std::string_view text) const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> signing(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  std::string out(2 * kKey, '\0');
  size_t size = out.size();
  if (signing == nullptr || EVP_DigestSignInit(signing.get(), nullptr, nullptr, nullptr, pair_->evp) != 1 ||
      EVP_DigestSign(signing.get(), reinterpret_cast<unsigned char*>(out.data()), &size, bytes_of(text), text.size()) !=
          1 ||
      size != out.size())
    return failure(Code::resource, "cannot sign: OpenSSL failed");
  return out;
}

}  // namespace weightfs
