#include "cli/fetcher/source_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cache/direct_client.h"
#include "protocols/s3.h"

namespace weightfs::source_gate_test {
namespace {

using http::CredentialsName;
using Kind = CredentialsName::Kind;
using ::testing::HasSubstr;

class CountingKeyring final : public http::Keyring {
 public:
  Result<http::CredentialsPtr> find(const CredentialsName& name, const http::ClientPtr&) override {
    ++found;
    const std::string secret = name.headers.empty() ? "" : " " + name.headers[0];
    return std::make_shared<http::FixedCredentials>(name.server + " " + name.region + secret);
  }
  int found = 0;
};

class SourceGateTest : public ::testing::Test {
 protected:
  void open(const std::vector<std::string>& sources, const std::vector<std::string>& caches = {}) {
    OpenOptions options;
    options.registries.clouds.s3 = std::make_shared<const s3::Settings>(settings);
    options.registries.clouds.google = std::make_shared<const s3::Settings>(
        s3::Settings{.endpoint = "https://storage.googleapis.com", .dialect = &s3::kGoogle});
    options.registries.clouds.azure = std::make_shared<const azure::Settings>(azure_settings);
    options.registries.http = client;
    gate = std::make_unique<SourceGate>(scopes_of(sources, options, caches), keyring, client);
  }

  static fetcher::Asked asked(const std::string& url, Kind kind = Kind::none) {
    fetcher::Asked out;
    out.request.url = url;
    out.credentials = {.kind = kind, .server = "https://forged.example", .region = "eu-west-1"};
    return out;
  }

  // "yes", the credentials, or why it is refused.
  std::string admit(const fetcher::Asked& request) {
    const auto admitted = gate->admit(request);
    if (!admitted) return admitted.error().message;
    return admitted->credentials == nullptr ? "yes" : admitted->credentials->authorization();
  }
  std::string admit(const std::string& url, Kind kind = Kind::none) { return admit(asked(url, kind)); }
  bool is_admitted(const std::string& url) { return admit(url) == "yes"; }
  void redirect(const std::string& from, const std::string& to, Kind kind = Kind::none, bool from_public = false) {
    gate->note_redirect(asked(from, kind), {.status = 200, .url = to, .from_public = from_public});
  }

  s3::Settings settings;
  azure::Settings azure_settings;
  std::shared_ptr<CountingKeyring> keyring = std::make_shared<CountingKeyring>();
  http::ClientPtr client = std::make_shared<http::DirectClient>(http::Options());
  std::unique_ptr<SourceGate> gate;
};

TEST_F(SourceGateTest, ContainerOfAzureIsRequestedBelowItsPrefix) {
  azure_settings.account = "other";
  open({"az://abc/models/a/", "abfss://data@abc.dfs.core.usgovcloudapi.net/b/m.gguf"});
  const std::string url = "https://abc.blob.core.windows.net/models";
  EXPECT_EQ(admit(url + "/a/x.safetensors", Kind::azure), url + " abc");
  EXPECT_EQ(admit(url + "?comp=list&include=metadata&maxresults=5000&prefix=a%2F&restype=container", Kind::azure),
            url + " abc");
  const std::string government = "https://abc.blob.core.usgovcloudapi.net/data";
  EXPECT_EQ(admit(government + "/b/m.gguf", Kind::azure), government + " abc");
  for (const std::string& other :
       {url + "/secret", url + "?comp=list&prefix=&restype=container", url + "/a/x?comp=tags", url + "/a/../secret",
        std::string("https://xyz.blob.core.windows.net/models/a/x"), government + "/a/x"})
    EXPECT_THAT(admit(other, Kind::azure), HasSubstr("refused: ")) << other;
  EXPECT_THAT(admit(url + "/a/x", Kind::bucket), HasSubstr("refused: "));
}

TEST_F(SourceGateTest, UrlOfABlobHasItsOwnScope) {
  open(
      {"https://abc.blob.core.windows.net/models/a/?sv=1&sig=secret", "https://abc.blob.core.windows.net/plain/m?x=1"});
  const std::string url = "https://abc.blob.core.windows.net/models";
  EXPECT_EQ(admit(url + "/a/x", Kind::azure), url + " abc sv=1&sig=secret");
  EXPECT_FALSE(is_admitted(url + "/b/x"));
  EXPECT_TRUE(is_admitted("https://abc.blob.core.windows.net/plain/m?x=1")) << "a query without a signature is plain";
  EXPECT_THAT(admit("https://abc.blob.core.windows.net/plain/m", Kind::azure), HasSubstr("refused: "));
}

TEST_F(SourceGateTest, BlobsOfOneFolderHaveTheirOwnSignatures) {
  const std::string url = "https://abc.blob.core.windows.net/models";
  open({url + "/a/1.gguf?sr=b&sig=A", url + "/a/2.gguf?sr=b&sig=B", "az://abc/models/a/"});
  const auto admit_with = [&](const char* name, std::vector<std::string> signature) {
    fetcher::Asked request;
    request.request.url = url + name;
    request.credentials = {.kind = Kind::azure, .server = url, .region = "abc", .headers = std::move(signature)};
    return admit(request);
  };
  EXPECT_EQ(admit_with("/a/1.gguf", {"sr=b&sig=A"}), url + " abc sr=b&sig=A");
  EXPECT_EQ(admit_with("/a/2.gguf", {"sr=b&sig=B"}), url + " abc sr=b&sig=B");
  EXPECT_EQ(admit_with("/a/3.gguf", {}), url + " abc") << "the credentials of the user";
}

TEST_F(SourceGateTest, LoginIsForTheServerOfTheUrl) {
  open({"https://h.example/dir/m.gguf", "http://h.example/plain/"});
  const std::string url = "https://h.example/dir/m.gguf";
  EXPECT_EQ(admit(url, Kind::site), "https://h.example:443 ");
  EXPECT_EQ(admit("https://h.example/dir/beside", Kind::site), "https://h.example:443 ");
  EXPECT_EQ(admit(url), "yes") << "without credentials if none are asked for";
  for (const char* other : {"https://h.example/other", "https://h.example:444/dir/m.gguf", "http://h.example/plain/x",
                            "http://h.example/dir/m.gguf", "https://evil.example/dir/m.gguf"})
    EXPECT_THAT(admit(other, Kind::site), HasSubstr("refused: ")) << other;
  redirect(url, "https://cdn.example/m", Kind::site);
  redirect(url, "https://h.example/moved", Kind::site);
  EXPECT_THAT(admit("https://cdn.example/m", Kind::site), HasSubstr("refused: "));
  EXPECT_EQ(admit("https://cdn.example/m"), "yes");
  EXPECT_EQ(admit("https://h.example/moved", Kind::site), "https://h.example:443 ");
}

TEST_F(SourceGateTest, RepositoryOfModelScope) {
  open({"ms://org/name@v1"});
  const std::string list = "https://modelscope.cn/api/v1/models/org/name/repo/files?Revision=v1&Recursive=true";
  EXPECT_EQ(admit(list, Kind::modelscope), "https://modelscope.cn ");
  EXPECT_TRUE(is_admitted("https://modelscope.cn/models/org/name/resolve/v1/model.gguf"));
  for (const char* url : {"https://modelscope.cn/api/v1/models/org/other/repo/files?Revision=v1",
                          "https://modelscope.cn/api/v1/models/org/name", "https://modelscope.cn/api/v1/login",
                          "https://modelscope.cn/models/org/name/resolve/../../other/resolve/x",
                          "https://modelscope.ai/models/org/name/resolve/v1/x"})
    EXPECT_THAT(admit(url, Kind::modelscope), HasSubstr("refused: ")) << url;
  EXPECT_THAT(admit(list, Kind::hub), HasSubstr("refused: "));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(admit(list, Kind::modelscope), "https://modelscope.cn ");
  EXPECT_EQ(keyring->found, 3) << "a token that was replaced is used";
}

TEST_F(SourceGateTest, RepositoryOfTheHub) {
  open({"hf://org/repo@main"});
  EXPECT_TRUE(is_admitted("https://huggingface.co/api/models/org/repo/revision/main"));
  EXPECT_TRUE(is_admitted("https://huggingface.co/org/repo/resolve/abc/model.safetensors"));
  EXPECT_EQ(admit("https://huggingface.co/org/repo/resolve/abc/x", Kind::hub), "https://huggingface.co ");
  for (const char* url : {"https://huggingface.co/api/models/org/other/revision/main",
                          "https://huggingface.co/api/models/org/repo-2/revision/main", "https://huggingface.co/",
                          "https://huggingface.co/org/repo/resolve/../../../other/repo/resolve/x",
                          "https://huggingface.co/org/repo/resolve/%2e%2E/%2e%2e/x",
                          "https://huggingface.co/org/repo/resolve/x%2f..%2f..%2fsecret",
                          "https://huggingface.co/org/repo/resolve/x%252f%252e%252e/y",
                          "https://huggingface.co/org/repo/resolve/x%5c..%5cy",
                          "https://huggingface.co/org/repo/resolve/x/..;a/..;b=1/secret",
                          "https://huggingface.co/api/models/org/repo/xet-write-token/main",
                          "https://huggingface.co@evil.example/org/repo/resolve/x",
                          "http://huggingface.co/org/repo/resolve/x", "https://evil.example/org/repo/resolve/x",
                          "https://169.254.169.254/latest/meta-data/", "file:///etc/passwd", ""}) {
    EXPECT_THAT(admit(url), HasSubstr("refused: ")) << url;
    EXPECT_THAT(admit(url, Kind::hub), HasSubstr("refused: ")) << url;
  }
}

TEST_F(SourceGateTest, MirrorRequestsPermittedModelsOfItsHubOnly) {
  const auto scope = scope_of_models("https://hub.example", {"org/*", "one/model"});
  gate = std::make_unique<SourceGate>(std::vector<Scope>{scope}, keyring, client);
  for (const char* url : {"https://hub.example/api/models/org/a.b/revision/main",
                          "https://hub.example/api/models/one/model/tree/abc?recursive=true&expand=false",
                          "https://hub.example/org/repo/resolve/abc/sub/model.safetensors"})
    EXPECT_EQ(admit(url, Kind::hub), "https://hub.example ") << url;
  for (const char* url :
       {"https://hub.example/api/models/other/repo/revision/main", "https://hub.example/one/other/resolve/abc/x",
        "https://hub.example/api/models/org/repo", "https://hub.example/api/models/org/repo/xet-write-token/main",
        "https://hub.example/api/whoami-v2", "https://hub.example/api/org/repo/revision/main",
        "https://hub.example/datasets/org/repo/resolve/abc/x", "https://hub.example/org/repo/resolve/",
        "https://hub.example/org/repo/resolve/../../../one/secret", "https://hub.example/org/%2e%2e/resolve/abc/x",
        "https://hub.example/org/re%2fpo/resolve/abc/x", "https://evil.example/org/repo/resolve/abc/x",
        "http://hub.example/org/repo/resolve/abc/x", "https://hub.example:8443/org/repo/resolve/abc/x"})
    EXPECT_THAT(admit(url, Kind::hub), HasSubstr("refused: ")) << url;
  EXPECT_THAT(admit("https://hub.example/org/repo/resolve/abc/x", Kind::registry), HasSubstr("refused: "));
  // The CDN may be requested by itself, without the token; a new name of a repository may not.
  redirect("https://hub.example/org/repo/resolve/abc/x", "https://cdn.example/x?sig=1", Kind::hub);
  EXPECT_EQ(admit("https://cdn.example/x?sig=1"), "yes");
  redirect("https://hub.example/api/models/org/repo/revision/main",
           "https://hub.example/api/models/new/name/revision/main", Kind::hub);
  EXPECT_THAT(admit("https://hub.example/api/models/new/name/tree/abc", Kind::hub), HasSubstr("refused: "));
}

TEST_F(SourceGateTest, MirrorRequestsPermittedRepositoriesOfItsRegistryOnly) {
  const auto scope = scope_of_repositories("https://registry.example", {"library/*", "one/model"});
  gate = std::make_unique<SourceGate>(std::vector<Scope>{scope}, keyring, client);
  const std::string below = "https://registry.example/v2/";
  const std::string digest = "sha256:" + std::string(64, 'a');
  for (const std::string& name : {std::string("library/tiny"), std::string("library/a/b"), std::string("one/model")})
    for (const std::string& what : {std::string("/manifests/v1"), "/manifests/" + digest, "/blobs/" + digest})
      EXPECT_EQ(admit(below + name + what, Kind::registry), below + name + " ") << "the credentials of the repository";
  EXPECT_EQ(admit(below + "library/tiny/manifests/v1"), "yes") << "without credentials";
  for (const std::string& url :
       {below + "other/model/manifests/v1", below + "library/manifests/v1", below + "library/tiny/tags/list",
        below + "library/tiny/manifests/v1?ns=docker.io", below + "_catalog", below,
        below + "library/../one/x/manifests/v1", below + "library/%2e%2e/x/manifests/v1",
        below + "library/x%2f../manifests/v1", below + "library/tiny/blobs/",
        std::string("https://evil.example/v2/library/tiny/manifests/v1"),
        std::string("http://registry.example/v2/library/tiny/manifests/v1"),
        std::string("https://registry.example:8443/v2/library/tiny/manifests/v1")})
    EXPECT_THAT(admit(url, Kind::registry), HasSubstr("refused: ")) << url;
  EXPECT_THAT(admit(below + "library/tiny/manifests/v1", Kind::hub), HasSubstr("refused: "));
  redirect(below + "library/tiny/blobs/" + digest, "https://cdn.example/x?sig=1", Kind::registry);
  EXPECT_EQ(admit("https://cdn.example/x?sig=1"), "yes");
  EXPECT_THAT(admit("https://cdn.example/x?sig=1", Kind::registry), HasSubstr("refused: "));
}

TEST_F(SourceGateTest, MirrorRequestsPermittedObjectsOfItsStoreOnly) {
  const auto scope = scope_of_objects("https://store.example/s3", {"models/llama/*", "one"});
  gate = std::make_unique<SourceGate>(std::vector<Scope>{scope}, keyring, client);
  const std::string below = "https://store.example/s3/";
  const std::string list = "encoding-type=url&list-type=2&max-keys=1000&prefix=";
  for (const std::string& url :
       {below + "models/llama/a%20b.gguf", below + "models/llama/x/y", below + "one/any/key", below + "one/?" + list,
        below + "models/?" + list + "llama%2F", below + "models/?continuation-token=t%2B&" + list + "llama%2Fx",
        below + "models/?encoding-type=url&marker=x&max-keys=1000&prefix=llama%2F"})
    EXPECT_EQ(admit(url, Kind::bucket), "https://store.example/s3 eu-west-1") << url;
  EXPECT_TRUE(is_admitted(below + "models/llama/x")) << "without credentials";
  for (const std::string& url : {below + "models/other/x",
                                 below + "models/llama",
                                 below + "other/llama/x",
                                 below + "models/llama/x?acl=",
                                 below + "models/llama/x?versionId=1",
                                 below + "models/?" + list,
                                 below + "models/?" + list + "lla",
                                 below + "models/?marker=prefix=llama%2F&" + list + "other",
                                 below + "models/?acl=&prefix=llama%2F",
                                 below + "models/?uploads=",
                                 below + "models",
                                 below,
                                 below + "models/llama/../other/x",
                                 below + "models/llama/%2e%2e/x",
                                 below + "models/llama//x",
                                 below + "models/llama/x%2f..%2f..%2fy",
                                 std::string("https://store.example/models/llama/x"),
                                 std::string("https://evil.example/s3/models/llama/x"),
                                 std::string("http://store.example/s3/models/llama/x"),
                                 std::string("https://store.example:8443/s3/one/x")})
    EXPECT_THAT(admit(url, Kind::bucket), HasSubstr("refused: ")) << url;
  EXPECT_THAT(admit(below + "one/x", Kind::hub), HasSubstr("refused: "));
}

TEST_F(SourceGateTest, RevisionsHaveSlashes) {
  open({"hf://org/repo@refs%2Fpr%2F1"});
  EXPECT_TRUE(is_admitted("https://huggingface.co/api/models/org/repo/revision/refs%2Fpr%2F1"));
  EXPECT_TRUE(is_admitted("https://huggingface.co/org/repo/resolve/abc/a..b/.c"));
}

TEST_F(SourceGateTest, RenamedRepositoryHasItsNewName) {
  const std::string from = "https://huggingface.co/api/models/old/name/revision/main";
  const std::string tree = "https://huggingface.co/api/models/new/name/tree/abc";
  const std::string file = "https://huggingface.co/new/name/resolve/abc/x";
  open({"hf://old/name"});
  EXPECT_FALSE(is_admitted(tree));
  redirect(from, "https://huggingface.co/api/models/new/name/revision/main", Kind::hub);
  for (const std::string& url : {tree, file}) EXPECT_EQ(admit(url, Kind::hub), "https://huggingface.co ") << url;
  EXPECT_FALSE(is_admitted("https://huggingface.co/api/models/new/other/tree/abc"));
  open({"hf://old/name"});
  for (const char* to : {"https://huggingface.co/x", "https://huggingface.co/api/models/new/revision/other",
                         "https://huggingface.co/api/other/new/name/revision/main",
                         "https://evil.example/api/models/new/name/revision/main"}) {
    redirect(from, to, Kind::hub);
    EXPECT_FALSE(is_admitted(tree) || is_admitted(file)) << to;
  }
}

TEST_F(SourceGateTest, NamesOfTheHubAreInAnyCase) {
  open({"hf://Org/Repo"});
  EXPECT_TRUE(is_admitted("https://huggingface.co/org/repo/resolve/abc/x"));
}

// semantics 15.5
TEST_F(SourceGateTest, TokenOfASourceIsForItsServer) {
  client = std::make_shared<http::DirectClient>(http::Options{.has_source_token = true});
  const std::string model = "https://serve.example/m/files/model.safetensors";
  open({"https://serve.example/m/", "oci://other.example/team/model:1"});
  for (const std::string& url : {model, std::string("https://serve.example/.weightfs/api/v1/models")}) {
    EXPECT_EQ(admit(url, Kind::web), "https://serve.example:443 ") << url;
    EXPECT_TRUE(is_admitted(url));
  }
  for (const char* url : {"https://serve.example/other/", "http://serve.example/m/x", "https://serve.example:444/m/x",
                          "https://other.example/v2/team/model/manifests/1"})
    EXPECT_THAT(admit(url, Kind::web), HasSubstr("refused: ")) << url;
  EXPECT_THAT(admit(model, Kind::site), HasSubstr("refused: ")) << "a login, although there is a token";
  redirect(model, "https://cdn.example/x", Kind::web);
  EXPECT_TRUE(is_admitted("https://cdn.example/x"));
  EXPECT_THAT(admit("https://cdn.example/x", Kind::web), HasSubstr("refused: "));
  fetcher::Asked link = asked(model, Kind::web);
  link.request.trust = http::Trust::container;
  EXPECT_THAT(admit(link), HasSubstr("a link with credentials"));
}

TEST_F(SourceGateTest, HostsAreInAnyCase) {
  open({"https://SERVE.example/m/", "oci://Registry.example/team/model:1"});
  for (const char* url :
       {"https://serve.example/m/x", "https://Serve.Example/m/x", "https://registry.example/v2/team/model/manifests/1"})
    EXPECT_TRUE(is_admitted(url)) << url;
  EXPECT_FALSE(is_admitted("https://serve.example/M/x"));
}

TEST_F(SourceGateTest, WithoutATokenUrlsHaveNoCredentials) {
  open({"https://serve.example/m/"});
  EXPECT_TRUE(is_admitted("https://serve.example/m/x"));
  EXPECT_THAT(admit("https://serve.example/m/x", Kind::web), HasSubstr("refused: "));
}

TEST_F(SourceGateTest, TargetElsewhereHasNoCredentials) {
  open({"hf://org/repo"});
  const std::string target = "https://cdn.example/file?Signature=x";
  EXPECT_FALSE(is_admitted(target));
  redirect("https://huggingface.co/org/repo/resolve/abc/x", target, Kind::hub, true);
  EXPECT_TRUE(is_admitted(target));
  EXPECT_TRUE(gate->admit(asked(target))->public_only);
  EXPECT_THAT(admit(target, Kind::hub), HasSubstr("refused: "));
  EXPECT_FALSE(is_admitted("https://cdn.example/other?Signature=x"));
}

TEST_F(SourceGateTest, TargetAtTheSameOriginHasTheCredentials) {
  open({"oci://registry.example/team/model:1"});
  const std::string target = "https://registry.example/artifacts-downloads/x";
  redirect("https://registry.example/v2/team/model/blobs/sha256:00", target, Kind::registry);
  EXPECT_EQ(admit(target, Kind::registry), "https://registry.example/v2/team/model ");
  EXPECT_FALSE(is_admitted("https://registry.example/artifacts-downloads/y"));
}

TEST_F(SourceGateTest, OldTargetsAreForgotten) {
  open({"https://host.example/a"});
  for (size_t i = 0; i <= SourceGate::kMaxLearned; ++i)
    redirect("https://host.example/a", "https://cdn.example/" + std::to_string(i));
  EXPECT_FALSE(is_admitted("https://cdn.example/0"));
  EXPECT_TRUE(is_admitted("https://cdn.example/" + std::to_string(SourceGate::kMaxLearned)));
  redirect("https://host.example/a", "https://cdn.example/" + std::string(SourceGate::kMaxUrl, 'x'));
  EXPECT_FALSE(is_admitted("https://cdn.example/" + std::string(SourceGate::kMaxUrl, 'x')));
}

TEST_F(SourceGateTest, RepositoryOfARegistry) {
  open({"ollama://llama3.2", "oci://registry.example/team/model:1"});
  EXPECT_EQ(admit("https://registry.ollama.ai/v2/library/llama3.2/manifests/latest", Kind::registry),
            "https://registry.ollama.ai/v2/library/llama3.2 ");
  EXPECT_TRUE(is_admitted("https://registry.example/v2/team/model/blobs/sha256:00"));
  EXPECT_FALSE(is_admitted("https://registry.example/v2/team/secret/manifests/1"));
  for (const char* url : {"https://registry.example/v2/_catalog", "https://registry.example/v2/team/model/tags/list",
                          "https://registry.example/v2/team/model/secret/manifests/latest",
                          "https://registry.example/v2/team/model/manifests/1?ns=other.example",
                          "https://registry.example/v2/team/model/manifests/"})
    EXPECT_FALSE(is_admitted(url)) << url;
  EXPECT_THAT(admit("https://registry.example/v2/team/model/manifests/1", Kind::hub), HasSubstr("refused: "));
}

TEST_F(SourceGateTest, DirectoryOfAUrl) {
  open({"https://host.example/models/a.gguf?key=1"});
  EXPECT_TRUE(is_admitted("https://host.example/models/a.gguf?key=1"));
  EXPECT_TRUE(is_admitted("https://host.example/models/a.gguf.fsverity"));
  EXPECT_FALSE(is_admitted("https://host.example/other"));
  EXPECT_FALSE(is_admitted("https://host.example/models"));
}

TEST_F(SourceGateTest, UrlIsThatOfTheUser) {
  open({"https://host.example/a/..%2F..%2Fpasswd?key=1"});
  EXPECT_TRUE(is_admitted("https://host.example/a/..%2F..%2Fpasswd?key=1"));
  EXPECT_FALSE(is_admitted("https://host.example/a/..%2F..%2Fpasswd"));
  EXPECT_FALSE(is_admitted("https://host.example/a/..%2F..%2Fshadow?key=1"));
}

TEST_F(SourceGateTest, DirectoryOfWeightfsServe) {
  open({"https://host.example/store/models/"});
  EXPECT_TRUE(is_admitted("https://host.example/store/models/a/config.json"));
  EXPECT_TRUE(is_admitted("https://host.example/.weightfs/api/v1/models"));
  EXPECT_TRUE(is_admitted("https://host.example/store/"));
  EXPECT_TRUE(is_admitted("https://host.example/"));
  EXPECT_FALSE(is_admitted("https://host.example/store/other"));
}

TEST_F(SourceGateTest, InvalidNamesOpenNothing) {
  open({"https:x", "hf://", "oci://", "s3://bucket/../x", "hf://org/repo"});
  EXPECT_FALSE(is_admitted("https://any.example/"));
  EXPECT_TRUE(is_admitted("https://huggingface.co/org/repo/resolve/abc/x"));
}

TEST_F(SourceGateTest, ScopeIsThatOfTheCredentials) {
  open({"https://huggingface.co/org/repo/resolve/main/a.gguf", "hf://org/repo"});
  EXPECT_EQ(admit("https://huggingface.co/org/repo/resolve/main/a.gguf", Kind::hub), "https://huggingface.co ");
}

TEST_F(SourceGateTest, TokenOfGoogleIsForTheBucketAndPrefix) {
  open({"gs://bucket/models/a/"});
  const std::string place = "https://storage.googleapis.com/bucket/";
  EXPECT_EQ(admit(place + "models/a/x.safetensors?generation=17", Kind::google), "https://storage.googleapis.com ");
  EXPECT_TRUE(is_admitted(place + "?encoding-type=url&list-type=2&max-keys=1000&prefix=models%2Fa%2F"));
  for (const char* rest :
       {"secret", "models/a/x?acl", "models/a/x?generation=1&acl", "?list-type=2&prefix=", "models/a/../../secret"})
    EXPECT_FALSE(is_admitted(place + rest)) << rest;
  EXPECT_FALSE(is_admitted("https://storage.googleapis.com/other/models/a/x"));
  EXPECT_FALSE(is_admitted("https://bucket.s3.us-east-1.amazonaws.com/models/a/x"));
  EXPECT_THAT(admit(place + "models/a/x", Kind::bucket), HasSubstr("refused: "));
}

TEST_F(SourceGateTest, KeysOfABucketInAnyRegion) {
  open({"s3://bucket/models/a/"});
  EXPECT_EQ(admit("https://bucket.s3.eu-west-1.amazonaws.com/models/a/x.safetensors", Kind::bucket), " eu-west-1");
  EXPECT_TRUE(
      is_admitted("https://bucket.s3.us-east-1.amazonaws.com/"
                  "?encoding-type=url&list-type=2&max-keys=1000&prefix=models%2Fa%2F"));
  EXPECT_FALSE(is_admitted("https://bucket.s3.us-east-1.amazonaws.com/secret"));
  for (const char* query :
       {"?list-type=2&prefix=", "?list-type=2&prefix=&prefix=models%2Fa%2F", "?policy&prefix=models%2Fa%2F",
        "?list-type=2&x=&prefix=models%2Fa%2F", "models/a/x?acl", "models/a/x?versionId=1&acl"})
    EXPECT_FALSE(is_admitted(std::string("https://bucket.s3.us-east-1.amazonaws.com/") + query)) << query;
  EXPECT_TRUE(is_admitted("https://bucket.s3.us-east-1.amazonaws.com/models/a/x?versionId=1"));
  EXPECT_THAT(admit("https://bucket.s3.us-east-1.amazonaws.com/models/a/x", Kind::bucket), HasSubstr("another region"));
  EXPECT_FALSE(is_admitted("https://other.s3.us-east-1.amazonaws.com/models/a/x"));
  EXPECT_FALSE(is_admitted("https://bucket.s3.evil.example/models/a/x"));
  EXPECT_FALSE(is_admitted("https://bucket.s3.us-east-1.amazonaws.com.evil.example/models/a/x"));
}

TEST_F(SourceGateTest, BucketWhoseNameEndsLikeTheService) {
  open({"s3://mys3/a/"});
  EXPECT_EQ(admit("https://mys3.s3.eu-west-1.amazonaws.com/a/x", Kind::bucket), " eu-west-1");
}

TEST_F(SourceGateTest, KeysOfABucketAtAnEndpoint) {
  settings.endpoint = "https://store.example:9000/";
  open({"s3://bucket/a/model.gguf"});
  EXPECT_TRUE(is_admitted("https://store.example:9000/bucket/a/model.gguf"));
  EXPECT_FALSE(is_admitted("https://store.example:9000/other/a/model.gguf"));
  EXPECT_FALSE(is_admitted("https://bucket.s3.us-east-1.amazonaws.com/a/model.gguf"));
}

TEST_F(SourceGateTest, PathsHaveNoScope) {
  open({"/models/a.gguf"}, {"https://cache.example/v1/blobs"});
  EXPECT_TRUE(is_admitted("https://cache.example/v1/blobs/ab/abcd"));
  EXPECT_FALSE(is_admitted("https://huggingface.co/org/repo/resolve/abc/x"));
}

TEST_F(SourceGateTest, LinksOfContainersHaveNoCredentials) {
  open({"/models/a.carton"});
  auto link = asked("https://any.example/file");
  link.request.trust = http::Trust::container;
  EXPECT_EQ(admit(link), "yes");
  link.credentials.kind = Kind::hub;
  EXPECT_THAT(admit(link), HasSubstr("refused: "));
}

TEST_F(SourceGateTest, HeadersAreThoseOfDownloads) {
  open({"hf://org/repo"});
  auto request = asked("https://huggingface.co/org/repo/resolve/abc/x");
  request.request.headers = {"Range: bytes=0-1", "If-Range: \"x\"", "Accept: */*"};
  EXPECT_EQ(admit(request), "yes");
  for (const char* header : {"Authorization: Bearer x", "Cookie: a=b", "Host: evil.example", "X-Forwarded-For: ::1",
                             "Range: bytes=0-1\r\nCookie: a=b"}) {
    request.request.headers = {header};
    EXPECT_THAT(admit(request), HasSubstr("refused: ")) << header;
  }
}

TEST_F(SourceGateTest, TokenOfTheHubIsReadAgain) {
  open({"hf://org/repo", "oci://registry.example/team/model:1"});
  for (int i = 0; i < 3; ++i) admit("https://registry.example/v2/team/model/manifests/1", Kind::registry);
  EXPECT_EQ(keyring->found, 1);
  for (int i = 0; i < 3; ++i) admit("https://huggingface.co/org/repo/resolve/abc/x", Kind::hub);
  EXPECT_EQ(keyring->found, 4);
}

}  // namespace
}  // namespace weightfs::source_gate_test
