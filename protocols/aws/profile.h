// Profiles in the files of the AWS command line. (docs.aws.amazon.com, "AWS SDKs and Tools Reference Guide":
// configuration and credential file settings.)
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "protocols/s3.h"

namespace weightfs::aws {

/// The settings of a file by section: "default", "profile x", "services y". A setting below another one, which is
/// indented, is called "s3.endpoint_url".
using Section = std::map<std::string, std::string, std::less<>>;
using Sections = std::map<std::string, Section, std::less<>>;

/// A profile: its settings in both files.
struct Profile {
  std::string name;
  Section credentials = {};
  Section config = {};
  Section services = {};
  bool is_found = false;

  /// Empty if neither file has it. The credentials come first.
  std::string get(std::string_view setting) const;
  bool has(std::string_view setting) const { return !get(setting).empty(); }
  /// `the profile "x"`, for messages.
  std::string shown() const;
  /// The file of $AWS_CA_BUNDLE, or of `ca_bundle`; empty without one.
  Certificates certificates() const;
  /// Nothing without a key; it may be incomplete.
  std::optional<s3::Keys> keys() const;
};

/// Both files, as they are now.
class ProfileFiles {
 public:
  /// Reads $AWS_SHARED_CREDENTIALS_FILE (default: ~/.aws/credentials) and $AWS_CONFIG_FILE (~/.aws/config). A file that
  /// does not exist is empty. Fails with unsupported above 1 MiB, and with io.
  static Result<ProfileFiles> read();

  static std::string credentials_path();
  static std::string config_path();

  Profile profile(const std::string& name) const;
  /// `[sso-session NAME]`, or null.
  const Section* sso_session(const std::string& name) const;

 private:
  Sections credentials_;
  Sections config_;
};

/// An id and a secret, if one of them is not empty.
std::optional<s3::Keys> keys_of(std::string id, std::string secret, std::string token);

/// Fails with unsupported unless these can sign: both an id and a secret, without spaces and control characters.
Result<void> check_keys(const s3::Keys& keys);

/// The first that is not empty.
std::string first_of(std::initializer_list<std::string> values);

}  // namespace weightfs::aws
