// Which URLs are read as blobs of Azure, and the credentials that these need.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "sources/kinds.h"

namespace weightfs::azure_source_test {
namespace {

const std::string kServer = "https://acct.blob.core.windows.net/";

TEST(BlobUrl, IsBelowAContainer) {
  for (const char* const path :
       {"models/m.gguf", "models/dir/", "models/", "$root/m.gguf", "models/m.gguf?sv=1&sig=x", "models?sv=1&sig=x"})
    EXPECT_TRUE(is_blob_url(kServer + path)) << path;
  for (const char* const path : {"", "model.gguf", "model.gguf?sv=1&sig=x", "models", "models/m.gguf?x=1", "UPPER/m"})
    EXPECT_FALSE(is_blob_url(kServer + path)) << path;
  EXPECT_FALSE(is_blob_url("https://a.blob.core.windows.net/models/m.gguf")) << "not an account";
  EXPECT_FALSE(is_blob_url("https://acct.example/models/m.gguf"));
}

TEST(BlobUrl, MayBeReadAsAPlainUrl) {
  OpenOptions options;
  options.registries.clouds.azure = std::make_shared<const azure::Settings>();
  const auto scopes = scopes_of({kServer + "models/m.gguf"}, options, {});
  ASSERT_GT(scopes.size(), 1u);
  EXPECT_EQ(scopes.front().paths, Scope::Paths::container);
  EXPECT_EQ(scopes.back().paths, Scope::Paths::one);
  EXPECT_NE(scopes.back().credentials.kind, http::CredentialsName::Kind::azure);
}

TEST(BlobName, SignatureIsRefusedAndNotShown) {
  const OpenOptions options;
  for (const std::string name : {"//acct/models/m.gguf", "//acct/models", "//models@acct.dfs.core.windows.net/m.gguf",
                                 "//models@h.example/m.gguf"}) {
    const bool is_abfs = name.find('@') != name.npos;
    const auto opened = (is_abfs ? open_abfs_file : open_blob_file)(name + "?sv=1&sig=TOPSECRET", options);
    ASSERT_FALSE(opened) << name;
    EXPECT_NE(opened.error().message.find("a name with a signature is not supported"), std::string::npos) << name;
    EXPECT_EQ(opened.error().message.find("TOPSECRET"), std::string::npos) << name;
  }
  EXPECT_EQ(open_blob_file("//acct/models/what?.gguf", options).error().message.find("signature"), std::string::npos);
}

TEST(BlobUrl, NeedsNoCredentials) {
  const char* const secret = std::getenv("AZURE_CLIENT_SECRET");
  const std::string before = secret == nullptr ? "" : secret;
  ::setenv("AZURE_CLIENT_SECRET", "secret", 1);  // without a tenant
  OpenOptions options;
  EXPECT_TRUE(read_credentials({kServer + "models/m.gguf"}, options));
  EXPECT_FALSE(read_credentials({"az://acct/models/m.gguf"}, options));
  ::unsetenv("AZURE_CLIENT_SECRET");
  if (!before.empty()) ::setenv("AZURE_CLIENT_SECRET", before.c_str(), 1);
}

}  // namespace
}  // namespace weightfs::azure_source_test
