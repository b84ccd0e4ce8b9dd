// Which keys are used for s3://: the first source that the user has set, in the order of botocore
// (create_credential_resolver). An error of that one is final.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocols/aws/profile.h"
#include "protocols/s3/key_source.h"

namespace weightfs::aws {

/// Keys, or a source of them, or neither.
struct ChosenKeys {
  std::optional<s3::Keys> keys = {};
  s3::KeySourcePtr source = {};
  std::string from = {};                ///< as s3::Settings::keys_from
  std::string note = {};                ///< why there are neither, if the user has set something
  std::vector<std::string> files = {};  ///< that the source reads
};

/// What a choice depends on beside the environment.
struct ChoiceOf {
  const ProfileFiles& files;
  const Profile& profile;
  bool is_profile_required;      ///< the user named it: it must exist, unless keys come before it
  std::string region;            ///< of the token service, which makes keys for every region
  std::string credentials_file;  ///< as in s3::BucketFlags
};

/// Sends no request. Fails with unsupported if the settings of the source contradict each other, lack something, or
/// name a service that must not be asked.
Result<ChosenKeys> choose_keys(const ChoiceOf& of);

/// The URL of a service of AWS in a region, "https://sts.eu-west-1.amazonaws.com" for the host "sts", or what a
/// variable names instead; without `/` at its end. Fails with unsupported if either is not valid.
Result<std::string> service_url(const char* variable, const std::string& host, const std::string& region,
                                const std::string& domain = {});

/// Whether this machine is an instance of EC2, by the vendor in DMI. The file is read once, because a sandbox hides it.
bool is_instance_of_ec2();
bool is_vendor_of_ec2(const std::string& file);

}  // namespace weightfs::aws
