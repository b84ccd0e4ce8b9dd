#include "protocols/registry/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "base/values/base64.h"
#include "tests/support/ssh_key.h"

namespace weightfs::test::registry_signature_test {
namespace {

using namespace registry;
using testing::HasSubstr;

std::string armour(const std::string& bytes) {
  return "-----BEGIN OPENSSH PRIVATE KEY-----\n" + base64(bytes) + "\n-----END OPENSSH PRIVATE KEY-----\n";
}

// As SSH writes an integer and a string (RFC 4251, section 5).
std::string number(uint32_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8), static_cast<char>(n)};
}
std::string text(const std::string& bytes) { return number(static_cast<uint32_t>(bytes.size())) + bytes; }

// The bytes of kSshKey, built from parts that tests change.
struct KeyFile {
  std::string cipher = "none";
  std::string derivation = "none";
  uint32_t count = 1;
  uint32_t first_check = 7;
  uint32_t second_check = 7;
  std::string type = "ssh-ed25519";
  std::string open = from_base64(kSshPublicKey)->substr(19);
  std::string private_copy = open;
  std::string secret = *from_base64("Ck5WIXR1DB66ccQ2Bwc+NHrHGhDqBydmhP1N3NGZkWw=") + open;
  std::string comment = "me@here";
  std::string padding = {1, 2, 3};
  std::string behind = {};

  std::string bytes() const {
    const std::string both = number(first_check) + number(second_check) + text(type) + text(private_copy) +
                             text(secret) + text(comment) + padding;
    return std::string("openssh-key-v1\0", 15) + text(cipher) + text(derivation) + text("") + number(count) +
           text(text(type) + text(open)) + text(both) + behind;
  }
};

std::string error_of(const std::string& file) {
  const auto key = SigningKey::parse(file);
  return key ? "a key" : key.error().message;
}
std::string error_of(const KeyFile& file) { return error_of(armour(file.bytes())); }

std::string signature_of(const SigningKey& key, std::string_view what) { return base64(key.sign(what).value()); }

// Made with `openssl pkeyutl -sign -rawin` and the same key.
constexpr std::string_view kAbcSigned =
    "ZvMq/tEXSCwDe1RQRM+zGm4RBYfxuenBMxiyvDfV5JuvEEVlHx+IkpapvMwKmrZnrwoINfDHahmVJ7y/8eLvAg==";

TEST(SigningKey, SignsAsOpensslDoes) {
  const auto key = SigningKey::parse(kSshKey);
  ASSERT_TRUE(key) << key.error().message;
  EXPECT_EQ(base64(key->public_blob()), kSshPublicKey);
  EXPECT_EQ(signature_of(*key, "abc"), kAbcSigned);
  const SigningKey copy = *key;
  EXPECT_EQ(signature_of(copy, "abc"), kAbcSigned);
}

// RFC 8032, section 7.1, tests 1 and 2.
TEST(SigningKey, MatchesTestVectors) {
  KeyFile file;
  file.private_copy = file.open = *from_base64("11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=");
  file.secret = *from_base64("nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=") + file.open;
  EXPECT_EQ(signature_of(SigningKey::parse(armour(file.bytes())).value(), ""),
            "5VZDAMNgrHKQhuLMgG6CioSHfx645dl02HPgZSJJAVVfuIIVkKM7rMYeOXAc+bRr0lv18FlbviRlUUFDjnoQCw==");
  file.private_copy = file.open = *from_base64("PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=");
  file.secret = *from_base64("TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=") + file.open;
  EXPECT_EQ(signature_of(SigningKey::parse(armour(file.bytes())).value(), "r"),
            "kqAJqfDUyrhyDoILX2QlQKKye1QWUD+Ps3YiI+vbadoIWsHkPhWZbkWPNhPQ8R2MOHsurrQwKu6wDSkWErsMAA==");
}

TEST(SigningKey, ParsesKeysOfTestBuilder) {
  EXPECT_EQ(error_of(KeyFile{}), "a key");
  std::string windows = armour(KeyFile{}.bytes());
  windows.insert(windows.find('\n'), "\r");
  EXPECT_EQ(error_of("a line before\n" + windows), "a key");
}

TEST(SigningKey, ReportsUnsupportedKeys) {
  EXPECT_EQ(error_of("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
            "private key: not an OpenSSH private key file");
  EXPECT_EQ(error_of(""), "private key: not an OpenSSH private key file");
  EXPECT_EQ(error_of(std::string(20'000, 'x')), "private key: a file of more than 16.0 KiB");
  EXPECT_EQ(error_of(KeyFile{.cipher = "aes256-ctr", .derivation = "bcrypt"}),
            "private key: protected by a passphrase, which is not supported");
  EXPECT_EQ(error_of(KeyFile{.type = "ssh-rsa"}), "private key: of type \"ssh-rsa\", ssh-ed25519 required");
  EXPECT_EQ(error_of(KeyFile{.count = 2}), "private key: a file of 2 keys, 1 required");
  for (const KeyFile& file : {KeyFile{.cipher = "aes256-ctr"}, KeyFile{.type = "ssh-rsa"}, KeyFile{.count = 2}})
    EXPECT_EQ(SigningKey::parse(armour(file.bytes())).error().code, Code::unsupported);
}

TEST(SigningKey, ReportsDamage) {
  EXPECT_EQ(error_of(KeyFile{.second_check = 8}), "private key: its two check numbers differ");
  EXPECT_EQ(error_of(KeyFile{.open = "short"}), "private key: public key of wrong size");
  EXPECT_EQ(error_of(KeyFile{.private_copy = std::string(32, 'x')}), "private key: its two public keys differ");
  EXPECT_EQ(error_of(KeyFile{.secret = "short"}), "private key: private key of wrong size");
  EXPECT_EQ(error_of(KeyFile{.padding = {1, 3}}), "private key: wrong padding");
  EXPECT_EQ(error_of(KeyFile{.behind = "x"}), "private key: trailing bytes");
  EXPECT_EQ(error_of(armour("others")), "private key: does not begin with openssh-key-v1");
  EXPECT_EQ(error_of("-----BEGIN OPENSSH PRIVATE KEY-----\n!!!!\n-----END OPENSSH PRIVATE KEY-----\n"),
            "private key: its lines are not base64");
  EXPECT_EQ(error_of(std::string(kSshKey.substr(0, 200))), "private key: truncated in its lines");
}

// Signatures with a wrong public key would reveal the private key.
TEST(SigningKey, MismatchedPublicKeyIsRejected) {
  KeyFile file;
  const std::string secret = file.secret.substr(0, 32);
  file.open = file.private_copy = std::string(32, 'x');
  file.secret = secret + file.open;
  EXPECT_EQ(error_of(file), "private key: public and private key do not match");
}

TEST(SigningKey, TruncatedKeyIsRejected) {
  const std::string whole = KeyFile{}.bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto key = SigningKey::parse(armour(whole.substr(0, size)));
    ASSERT_FALSE(key) << size;
    EXPECT_EQ(key.error().code, Code::corrupt) << size;
    EXPECT_THAT(key.error().message, HasSubstr(size < 15 ? "does not begin with" : "truncated in ")) << size;
  }
}

TEST(SigningKey, FlippedByteIsRejectedOrHarmless) {
  const std::string whole = KeyFile{}.bytes();
  size_t same = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string wrong = whole;
    wrong[at] = static_cast<char>(wrong[at] ^ 0x41);
    const auto key = SigningKey::parse(armour(wrong));
    if (!key) continue;
    ++same;
    EXPECT_EQ(signature_of(*key, "abc"), kAbcSigned) << at;
    EXPECT_EQ(base64(key->public_blob()), kSshPublicKey) << at;
  }
  EXPECT_EQ(same, KeyFile{}.comment.size());
}

}  // namespace
}  // namespace weightfs::test::registry_signature_test
