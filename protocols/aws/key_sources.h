// The sources of keys that expire: services of AWS and of the machine, and a file that a program rewrites. A source
// knows all of its settings; choose_keys.h decides which one is used.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "protocols/s3/key_source.h"

namespace weightfs::aws {

/// Keys in a file in the JSON of a credential_process: {"Version": 1, "AccessKeyId", "SecretAccessKey",
/// "SessionToken", "Expiration"}. ("AWS SDKs and Tools Reference Guide": process credential provider.)
s3::KeySourcePtr credentials_file(std::string path);

/// The Security Token Service.
struct TokenService {
  std::string url;                 ///< "https://sts.eu-west-1.amazonaws.com"
  std::string region;              ///< of its signatures
  Certificates certificates = {};  ///< as s3::Settings::certificates
};

/// AssumeRoleWithWebIdentity: a token in a file, as Kubernetes projects it (IRSA). Reads the file for each request.
struct WebIdentity {
  TokenService service;
  std::string token_file;
  std::string role;          ///< an ARN
  std::string session_name;  ///< of 2 to 64 characters
};
s3::KeySourcePtr web_identity(WebIdentity settings);

/// AssumeRole, signed with other keys.
struct AssumedRole {
  TokenService service;
  std::string role;  ///< an ARN
  std::string session_name;
  std::string external_id = {};       ///< empty: none
  std::string duration = {};          ///< in seconds; empty: that of the service
  std::optional<s3::Keys> keys = {};  ///< that sign
  s3::KeySourcePtr source = {};       ///< of such keys, if there are none
};
s3::KeySourcePtr assumed_role(AssumedRole settings);

/// A service beside a container: task roles of ECS, EKS Pod Identity.
struct Container {
  std::string url;              ///< for which may_give_keys() holds
  std::string token_file = {};  ///< of the Authorization header; read for each request
  std::string token = {};       ///< the header, without a file; empty: none is sent
  Certificates certificates = {};
};
s3::KeySourcePtr container(Container settings);

/// The role of an EC2 instance, by version 2 of its metadata service (IMDSv2).
struct Instance {
  std::string url = "http://169.254.169.254";  ///< for which may_give_keys() holds
  std::chrono::milliseconds timeout{1'000};    ///< of each of three requests
  int attempts = 1;                            ///< of each; they are not those of --retries
  bool is_named = false;                       ///< the user asked for this source: it is not optional
};
s3::KeySourcePtr instance(Instance settings);

/// IAM Identity Center: the token of `aws sso login`, which is only read.
struct SingleSignOn {
  std::string url;         ///< of the portal
  std::string token_file;  ///< see sso_token_file()
  std::string account;
  std::string role;
  std::string profile;  ///< for messages
  Certificates certificates = {};
};
s3::KeySourcePtr single_sign_on(SingleSignOn settings);

/// The name of the token's file in ~/.aws/sso/cache: `key` is the name of a session, or the start URL.
std::string sso_token_file(const std::string& key);

/// Whether a URL of the environment may be asked for keys, so that no variable can send a token elsewhere: https, or
/// http to a loopback address or is_metadata_address(), as a literal. (botocore/utils.py, ContainerMetadataFetcher.)
bool may_give_keys(const std::string& url);

}  // namespace weightfs::aws
