"""Models in the registries of clouds without a stored login: the user's keys for the cloud give one. The names of the registries
lead to doubles through a proxy."""
import base64
import json
import os
import time
import unittest

from fetching import FetchTestCase
from aws_keys_server import KeysServer
from azure_server import AzureServer
from gcs_server import CLIENT_SECRET, REFRESH, GcsServer
from mounting import run, sample_tensors
from registry_server import AzureRegistry, GoogleRegistry, PublicAmazonRegistry, RegistryServer
from s3_server import KEY_ID, REGION, SECRET, S3Server
from scripted_server import Server, correct, responds
from servers import needs, self_signed_certificate
from tunnels import Tunnels
import stores

AMAZON = f"123456789012.dkr.ecr.{REGION}.amazonaws.com"
LOOK_ALIKE = f"123456789012.dkr.ecr.{REGION}.amazonaws.com.evil.org"
API = f"api.ecr.{REGION}.amazonaws.com"
PUBLIC = "public.ecr.aws"
GOOGLE = "europe-docker.pkg.dev"
AZURE = "team.azurecr.io"
STORAGE = "storage.example.com"
REGISTRIES_OF_AZURE = "https://containerregistry.azure.net"


@needs("openssl")
class CloudRegistryTestCase(FetchTestCase):
    """`self.tls` is for all names. Requests to the services of clouds that are not doubles are refused by the proxy."""

    def setUp(self):
        super().setUp()
        for name in list(os.environ):
            if name.startswith(("AWS_", "GOOGLE_", "GCE_", "CLOUDSDK_", "AZURE_", "IDENTITY_", "SSL_CERT_", "CURL_CA_")):
                del os.environ[name]  # restored after the test
        os.environ.update(AWS_EC2_METADATA_DISABLED="true", NO_GCE_CHECK="true", XDG_RUNTIME_DIR=self.path("run"))
        self.tls = self_signed_certificate(self.tmp, [AMAZON, LOOK_ALIKE, PUBLIC, GOOGLE, AZURE, STORAGE, API])
        self.proxy = Tunnels(self, {})
        os.environ.update(SSL_CERT_FILE=self.tls[0], https_proxy=self.proxy.origin)
        self.package = stores.tiny(self.tmp, sample_tensors())
        self.model = self.package.blobs[self.package.layers[0]["digest"][7:]]

    def push(self, registry, name):
        """Stores the model in a double, which has this name from now on; returns its URL."""
        manifest = self.package.manifest()
        registry.blobs.update({"sha256:" + digest: data for digest, data in self.package.blobs.items()})
        digest = "sha256:" + stores.sha256(manifest)
        registry.blobs[digest] = manifest
        registry.tags["team/tiny", "latest"] = digest
        self.proxy.hosts[name] = registry
        return f"oci://{name}/team/tiny:latest"

    def assert_is_read(self, url, *options):
        point = self.mount(*options, url)
        self.assertEqual(self.read_whole(point, "files", "model.gguf"), self.model)
        return point

    def status_of(self, point):
        return self.read_whole(point, ".weightfs", "status.json").decode()

    def refused(self, url):
        done = run("ls", "--no-cache", url)
        self.assertEqual(done.returncode, 4, done.stderr)
        return done.stderr

    def authorizations(self, registry):
        return {request.authorization.partition(" ")[0] for request in registry.requests()}


class AmazonTestCase(CloudRegistryTestCase):
    lifetime = 3600

    def setUp(self):
        super().setUp()
        self.keys = KeysServer(self, S3Server(self), self.lifetime)
        self.keys.signers[KEY_ID] = SECRET, None
        os.environ["AWS_ENDPOINT_URL_ECR"] = self.keys.url
        self.registry = RegistryServer(self, self.keys.logins, self.tls)
        self.url = self.push(self.registry, AMAZON)

    def log_in(self):
        os.environ.update(AWS_ACCESS_KEY_ID=KEY_ID, AWS_SECRET_ACCESS_KEY=SECRET)


class Amazon(AmazonTestCase):
    # semantics 15.5
    def test_keys_give_one_login(self):
        self.log_in()
        point = self.assert_is_read(self.url, "--no-cache")
        self.assertEqual(len(self.keys.requests()), 1)
        self.assertEqual(self.authorizations(self.registry), {"", "Basic"})
        status = self.status_of(point)
        self.assertEqual(json.loads(status)["keys"][f"https://{AMAZON}:443"]["from"], "$AWS_ACCESS_KEY_ID")
        for secret in [SECRET, *self.keys.secrets()]:
            self.assertNotIn(secret, status)
        self.assertEqual(run("ls", "--sandbox=off", "--no-cache", self.url).returncode, 0)

    # semantics 15.5
    def test_api_is_at_its_own_name(self):
        self.log_in()
        del os.environ["AWS_ENDPOINT_URL_ECR"]
        api = Server(self, self.keys.respond, tls=self.tls)
        self.proxy.hosts[API] = api.port
        self.assertEqual(run("ls", self.url).returncode, 0)
        self.assertEqual(api.count("POST"), 1)

    # semantics 15.5
    def test_login_does_not_follow_a_redirect(self):
        self.log_in()
        storage = Server(self, lambda request: correct(self.registry.blobs[request.path[1:]])(request), tls=self.tls)
        self.proxy.hosts[STORAGE] = storage.port
        self.registry.storage = f"https://{STORAGE}/"
        self.assert_is_read(self.url)
        self.assertGreater(storage.count(), 0)
        self.assertEqual({request.authorization for request in storage.requests()}, {""})
        self.assertEqual({name for request in storage.requests() for name in request.headers if name.startswith("x-amz")}, set())

    # semantics 15.5
    def test_redirect_of_the_api_is_refused(self):
        self.log_in()
        other = Server(self, responds(200))
        self.keys.server.serve("moved/", responds(307, Location=other.url("x")))
        os.environ["AWS_ENDPOINT_URL_ECR"] = self.keys.server.url("moved")
        self.assertIn("redirect of a request for keys", self.refused(self.url))
        self.assertEqual(other.count(), 0)

    # semantics 15.5
    def test_look_alike_gets_nothing(self):
        self.log_in()
        registry = RegistryServer(self, self.keys.logins, self.tls)
        self.assertIn("there is no docker config)", self.refused(self.push(registry, LOOK_ALIKE)))
        self.assertEqual(self.keys.requests(), [])
        self.assertEqual({request.authorization for request in registry.requests()}, {""})

    # semantics 15.5
    def test_plain_http_gets_nothing(self):
        self.log_in()
        plain = RegistryServer(self, self.keys.logins)
        os.environ["http_proxy"] = plain.server.origin
        done = run("ls", "--insecure", "--no-cache", self.url)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertGreater(plain.server.count(), 0)
        self.assertEqual({request.authorization for request in plain.requests()}, {""})

    # semantics 15.5
    def test_stored_login_is_used_instead(self):
        self.log_in()
        self.keys.logins.append(("anna", "stored"))
        auth = base64.b64encode(b"anna:stored").decode()
        self.write("home/.docker/config.json", json.dumps({"auths": {AMAZON: {"auth": auth}}}).encode())
        self.assert_is_read(self.url)
        self.assertEqual(self.keys.requests(), [])

    # semantics 15.5
    def test_message_has_the_reason(self):
        self.assertIn("tried anonymously: there is no docker config, and there are no keys of AWS for it",
                      self.refused(self.url))
        self.log_in()
        self.keys.signers[KEY_ID] = "another", None
        text = self.refused(self.url)
        self.assertIn(f"login of ecr: {self.keys.url}/: status 400, InvalidSignatureException: No", text)
        self.assertNotIn(SECRET, text)
        os.environ["AWS_PROFILE"] = "none"
        del os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
        self.assertIn('AWS profile "none" not found', self.refused(self.url))

    # semantics 15.5
    def test_public_registry_gives_anonymous_tokens_too(self):
        os.environ["AWS_ENDPOINT_URL_ECR_PUBLIC"] = self.keys.url
        self.keys.login_region = "us-east-1"
        registry = PublicAmazonRegistry(self, PUBLIC, self.tls, is_public=True, keys=self.keys)
        url = self.push(registry, PUBLIC)
        self.assertEqual(run("ls", "--no-cache", url).returncode, 0)
        self.assertEqual((len(self.keys.requests()), self.authorizations(registry)), (0, {"", "Bearer"}))
        self.log_in()
        self.assertEqual(run("ls", "--no-cache", url).returncode, 0)
        self.assertEqual((len(self.keys.requests()), self.authorizations(registry)), (1, {"", "Bearer", "Basic"}))
        self.keys.refusal = 403, "AccessDenied"
        self.assertEqual(run("ls", "--no-cache", url).returncode, 0)


class RenewedLogins(AmazonTestCase):
    lifetime = 4  # seconds: a login is renewed in the last third

    # semantics 15.5
    def test_login_is_renewed_while_a_mount_lasts(self):
        self.log_in()
        point = self.mount("--no-cache", "--prefetch=off", self.url)
        self.assertEqual(len(self.keys.logins), 1)
        time.sleep(self.lifetime)
        del self.keys.logins[0]
        self.assertEqual(self.read_whole(point, "files", "template"), stores.TEMPLATE)
        self.assertEqual(len(self.keys.requests()), 2)


class Google(CloudRegistryTestCase):
    def setUp(self):
        super().setUp()
        self.tokens = GcsServer(self)
        self.registry = GoogleRegistry(self, GOOGLE, self.tls, tokens_of=self.tokens)
        self.url = self.push(self.registry, GOOGLE)

    def log_in(self, refresh=REFRESH):
        self.write("google/key.json", json.dumps({
            "type": "authorized_user", "client_id": "the client", "client_secret": CLIENT_SECRET, "refresh_token": refresh,
            "token_uri": self.tokens.url + "/token"}).encode())
        os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = self.path("google/key.json")

    # semantics 15.5
    def test_access_token_is_the_password(self):
        self.log_in()
        point = self.assert_is_read(self.url)
        self.assertEqual(len(self.tokens.issued), 1)
        keys = json.loads(self.status_of(point))["keys"]
        self.assertEqual(keys[f"https://{GOOGLE}:443"]["from"], self.path("google/key.json"))
        for secret in self.tokens.secrets():
            self.assertNotIn(secret, self.status_of(point))

    # semantics 15.5
    def test_public_model_is_read_in_spite_of_a_login_that_has_expired(self):
        self.log_in("revoked")
        self.assertIn("invalid_grant; run gcloud auth application-default login", self.refused(self.url))
        self.registry.is_public = True
        self.assertEqual(run("ls", "--no-cache", self.url).returncode, 0)

    # semantics 15.5
    def test_without_keys_the_message_has_the_reason(self):
        self.assertIn("there are no keys of Google for it", self.refused(self.url))


class Azure(CloudRegistryTestCase):
    def setUp(self):
        super().setUp()
        self.tokens = AzureServer(self)
        self.tokens.audience = REGISTRIES_OF_AZURE
        self.registry = AzureRegistry(self, AZURE, self.tls, tokens_of=self.tokens)
        self.url = self.push(self.registry, AZURE)

    def log_in(self):
        os.environ.update(AZURE_TENANT_ID="the-tenant", AZURE_CLIENT_ID="the-client", AZURE_CLIENT_SECRET=self.tokens.secret,
                          AZURE_AUTHORITY_HOST=self.tokens.origin)

    # semantics 15.5
    def test_token_is_exchanged_twice(self):
        self.log_in()
        point = self.assert_is_read(self.url)
        self.assertEqual(self.registry.forms, [{"grant_type": "access_token", "service": AZURE, "tenant": "the-tenant"}])
        self.assertEqual(len(self.tokens.of_tokens()), 1)
        self.assertEqual(json.loads(self.status_of(point))["keys"][f"https://{AZURE}:443"]["from"], "client secret")
        for secret in [*self.tokens.secrets(), AzureRegistry.REFRESH]:
            self.assertNotIn(secret, self.status_of(point))

    # semantics 15.5
    def test_keys_of_storage_are_not_for_registries(self):
        os.environ.update(AZURE_STORAGE_ACCOUNT_NAME="x", AZURE_STORAGE_ACCOUNT_KEY=base64.b64encode(b"key").decode())
        self.assertIn("there are no keys of Azure for it", self.refused(self.url))
        self.assertEqual(self.registry.forms, [])

    # semantics 15.5
    def test_refused_exchange_is_named_without_the_token(self):
        self.log_in()
        self.registry.tokens_of = AzureServer(self)  # knows none
        text = self.refused(self.url)
        self.assertIn(f"login of Azure: https://{AZURE}/oauth2/exchange: ", text)
        for secret in self.tokens.secrets():
            self.assertNotIn(secret, text)


if __name__ == "__main__":
    unittest.main()
