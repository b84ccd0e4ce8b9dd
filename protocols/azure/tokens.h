// The sources of Bearer tokens for Azure Storage; settings.cc decides which one is used.
#pragma once

#include <chrono>
#include <string>

#include "protocols/s3/key_source.h"

namespace weightfs::azure {

/// What a token is for: the audience that a service accepts.
constexpr const char* kStorage = "https://storage.azure.com";
constexpr const char* kRegistries = "https://containerregistry.azure.net";

/// An application of Microsoft Entra ID: it has a secret, or a token that another service gives it.
/// (learn.microsoft.com, "OAuth 2.0 client credentials flow".)
struct Application {
  std::string authority;        ///< "https://login.microsoftonline.com", without `/` at its end
  std::string tenant;           ///< an ID or a domain
  std::string client;           ///< its ID
  std::string secret = {};      ///< empty: with the file
  std::string token_file = {};  ///< as Kubernetes projects it; read for each request
  std::string resource = kStorage;
};
s3::KeySourcePtr application(Application settings);

/// The identity of this machine: of its metadata service, or of the service of App Service. (learn.microsoft.com, "How
/// to use managed identities on an Azure VM", "managed identities for App Service": REST endpoint reference.)
struct ManagedIdentity {
  std::string url;                       ///< https, or http of this machine
  std::string client = {};               ///< the ID of an identity; empty: that of the system
  std::string secret = {};               ///< for the header of App Service; empty: of the metadata service
  bool is_named = false;                 ///< the user asked for it
  std::chrono::milliseconds pause{800};  ///< before the second attempt; doubled for each of three more
  std::string resource = kStorage;
};
s3::KeySourcePtr managed_identity(ManagedIdentity settings);

/// Whether this machine is one of Azure, by the asset tag in DMI. The file is read once, because a sandbox hides it.
bool is_machine_of_azure();
bool is_tag_of_azure(const std::string& file);

}  // namespace weightfs::azure
