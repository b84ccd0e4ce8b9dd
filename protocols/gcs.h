// Models in Google Cloud Storage: its XML API is that of protocols/s3.h with tokens instead of signatures. Tokens are
// those of Google's application default credentials.
// (cloud.google.com/docs/authentication/application-default-credentials, google/auth/_default.py and
// environment_vars.py of google-auth.)
#pragma once

#include <memory>
#include <string>

#include "cache/http/client.h"
#include "protocols/s3.h"

namespace weightfs::s3 {
class UserKeys;
}

namespace weightfs::gcs {

/// The user's tokens and endpoint. The tokens are of the first of these that exists: the file of
/// $GOOGLE_APPLICATION_CREDENTIALS; that of gcloud (application_default_credentials.json in $CLOUDSDK_CONFIG, default:
/// ~/.config/gcloud); the metadata service, if this machine is one of Google, $K_SERVICE or $CLOUD_RUN_JOB is set, or
/// $GCE_METADATA_HOST names it. At $STORAGE_EMULATOR_HOST, gcloud's file and the machine are not looked at; without
/// https, an endpoint that is not loopback gets no token. Sends no request. Fails with unsupported if the credentials
/// that a variable names cannot be read or are of another kind, if their URLs must not be asked, and if the user pays
/// for requests without a project.
Result<s3::Settings> settings_of_user(const s3::BucketFlags& flags = {});

/// As settings_of_user(), for a renewal: fails with unsupported, too, instead of a note without tokens, because
/// gcloud's file may be incomplete while it is written.
Result<s3::Settings> settings_for_renewal(const s3::BucketFlags& flags);

/// Sends the tokens, renewed before they end by requests of `client`. `project`: as in s3::Settings.
http::CredentialsPtr credentials_for(std::shared_ptr<s3::UserKeys> tokens, std::string project, http::ClientPtr client);

}  // namespace weightfs::gcs
