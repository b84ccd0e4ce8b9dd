"""Mounts whose keys end every few seconds: no read fails while keys of each kind end, one after the other: four, and twenty with
EXHAUSTIVE=1. A key that the server revokes is an error of the read with its reason, until the server accepts it again. All kinds
run at the same time."""
import base64
import datetime
import errno
import hashlib
import json
import os
import random
import threading
import time
import unittest

from fetching import FetchTestCase
from aws_keys_server import KeysServer
from azure_server import ACCOUNT, AzureServer
from gcs_server import CLIENT_SECRET, REFRESH, SUBJECT, GcsServer
from mounting import until
from registry_server import RegistryServer, TokenRegistry, basic_login
from s3_server import KEY_ID, REGION, SECRET, S3Server, in_xml
from servers import needs, self_signed_certificate
from test_archives import noise
from test_renewed_keys import ROLE
from tensors import Tensor
from tunnels import Tunnels
import artifacts
import stores

EXPIRIES = 20 if "EXHAUSTIVE" in os.environ else 4
LIFETIME = 3         # seconds of a key, which is renewed in its last third
OF_REGISTRIES = 2    # logins and tokens of registries are renewed at the whole second
GRACE = 6            # seconds that a key is accepted after its stated end, because this machine may be slow
COUNT = 800          # files or tensors: more than are read
FILE, TENSOR = 3000, 32 << 10  # bytes
EACH_READ = ("--all", "--no-cache", "--prefetch=off")  # is a request
AMAZON = f"123456789012.dkr.ecr.{REGION}.amazonaws.com"
LOGIN = ("anna", "secret")
REASON = "the key was revoked"
FOREIGN = ("AWS_", "GOOGLE_", "GCE_", "CLOUDSDK_", "AZURE_", "IDENTITY_", "SSL_CERT_", "CURL_CA_")


class Kind:
    """A double whose keys end soon, and what a mount needs to get them: `environment`, `options`, `url`. `reads` are the paths in
    the mount and their bytes; `objects` is the beginning of the paths of requests that need a key."""
    objects = "/models/"
    options = EACH_READ
    refusal = {"Content-Type": "application/xml"}, in_xml("Error", in_xml("Code", "AccessDenied") + in_xml("Message", REASON))

    def __init__(self, test):
        self.test, self.name = test, type(self).__name__
        self.environment = {"HOME": test.path(self.name), "WEIGHTFS_CACHE": test.path(self.name, "cache"),
                            "XDG_RUNTIME_DIR": test.path("run"), "AWS_EC2_METADATA_DISABLED": "true", "NO_GCE_CHECK": "true"}
        self.reads = []
        os.mkdir(test.path(self.name))
        self.set_up()

    def write(self, name, text):
        """Replaces a file, as programs do it that others read meanwhile; returns its path."""
        path = self.test.path(self.name, name)
        os.replace(self.test.write(f"{self.name}/{name}.new", text.encode()), path)
        return path

    def put_files(self, **fields):
        self.reads = [((f"{number:03}.bin", ), bytes([number % 251]) * FILE) for number in range(COUNT)]
        for (name, ), data in self.reads:
            self.store.put("models", f"zoo/{name}", data, **fields)

    # ---- what the double has seen

    def key_in(self, authorization):
        """What names the key of a request."""
        return authorization

    def requests(self):
        """Those with a key."""
        return [request for request in self.store.server.requests()
                if request.status and request.authorization and request.path.startswith(self.objects)]

    def expired(self):
        """How many of the keys that were used the double does not accept any more."""
        used = {self.key_in(request.authorization) for request in self.requests()}
        now = time.time()
        return sum(end + GRACE <= now for key, end in self.ends().items() if key in used)

    def revoke(self):
        """The double refuses all keys; returns what ends that."""
        server, answer = self.store.server, self.store.server.script
        headers, body = self.refusal

        def refuse(request):
            is_refused = request.authorization and request.path.startswith(self.objects)
            return (403, headers, body.encode()) if is_refused else answer(request)
        server.script = refuse

        def restore():
            server.script = answer
        return restore


class AmazonKeys(Kind):
    url = "s3://models/zoo/"

    def set_up(self):
        self.store = S3Server(self.test)
        self.store.grace = datetime.timedelta(seconds=GRACE)
        self.service = KeysServer(self.test, self.store, LIFETIME)
        self.environment.update(AWS_ENDPOINT_URL_S3=self.store.url, AWS_REGION=REGION)
        self.put_files()
        self.use_keys()

    def key_in(self, authorization):
        return authorization.partition("Credential=")[2].partition("/")[0]

    def ends(self):
        return {key_id: key.expiry.timestamp() for key_id, key in list(self.service.issued)}


class Role(AmazonKeys):
    def use_keys(self):
        self.service.signers[KEY_ID] = SECRET, None
        self.write(".aws/credentials", f"[base]\naws_access_key_id={KEY_ID}\naws_secret_access_key={SECRET}\n")
        self.write(".aws/config", f"[profile work]\nrole_arn = {ROLE}\nsource_profile = base\n")
        self.environment.update(AWS_PROFILE="work", AWS_ENDPOINT_URL_STS=self.service.url)


class WebIdentity(AmazonKeys):
    def use_keys(self):
        self.environment.update(AWS_WEB_IDENTITY_TOKEN_FILE=self.write("token", self.service.web_token), AWS_ROLE_ARN=ROLE,
                                AWS_ENDPOINT_URL_STS=self.service.url)


class SingleSignOn(AmazonKeys):
    def use_keys(self):
        self.write(".aws/config", "[default]\nsso_session = s\nsso_account_id = 123456789012\nsso_role_name = Reader\n"
                                  "[sso-session s]\nsso_start_url = https://start.example\nsso_region = eu-west-1\n")
        self.write(f".aws/sso/cache/{hashlib.sha1(b's').hexdigest()}.json",
                   json.dumps({"accessToken": self.service.login, "expiresAt": "2190-01-01T00:00:00Z"}))
        self.environment["AWS_ENDPOINT_URL_SSO"] = self.service.url


class Container(AmazonKeys):
    def use_keys(self):
        self.service.authorization = "token of the container"
        self.environment.update(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{self.service.url}/container/x",
                                AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=self.write("token", self.service.authorization))


class Instance(AmazonKeys):
    def use_keys(self):
        del self.environment["AWS_EC2_METADATA_DISABLED"]
        self.environment.update(AWS_EC2_METADATA_SERVICE_ENDPOINT=self.service.url, AWS_METADATA_SERVICE_TIMEOUT="20")


class CredentialsFile(AmazonKeys):
    """Another program replaces the file before its keys end."""

    def use_keys(self):
        os.mkdir(self.test.path(self.name, "keys"))
        self.replace()
        self.options = (*EACH_READ, "--credentials-file", self.test.path(self.name, "keys/lease.json"))
        ends = threading.Event()
        program = threading.Thread(target=self.replace_until, args=(ends, ))
        program.start()
        self.test.addCleanup(program.join)
        self.test.addCleanup(ends.set)

    def replace_until(self, ends):
        while not ends.wait(LIFETIME / 4):
            self.replace()

    def replace(self):
        fields = self.service.as_json()
        self.write("keys/lease.json", json.dumps({"Version": 1, "SessionToken": fields.pop("Token"), **fields}))


class GoogleTokens(Kind):
    url = "gs://models/zoo/"

    def set_up(self):
        self.store = GcsServer(self.test, LIFETIME)
        self.store.grace = GRACE
        self.environment["STORAGE_EMULATOR_HOST"] = self.store.url
        self.put_files(hashes=())  # they would take the double long
        self.use_keys()

    def ends(self):
        return {f"Bearer {token}": end for token, end in dict(self.store.tokens).items()}


class GoogleLogin(GoogleTokens):
    def use_keys(self):
        self.environment["GOOGLE_APPLICATION_CREDENTIALS"] = self.write("key.json", json.dumps({
            "type": "authorized_user", "client_id": "the client", "client_secret": CLIENT_SECRET, "refresh_token": REFRESH,
            "token_uri": self.store.url + "/token"}))


class GoogleServiceAccount(GoogleTokens):
    """It is impersonated. A token that the key of an account signs lasts an hour, whatever a server says."""

    def use_keys(self):
        self.environment["GOOGLE_APPLICATION_CREDENTIALS"] = self.write("key.json", json.dumps({
            "type": "external_account", "audience": "//iam/pool", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": self.store.url + "/v1/token", "credential_source": {"file": self.write("subject", SUBJECT)},
            "service_account_impersonation_url": self.store.url + "/impersonate"}))


class GoogleMetadata(GoogleTokens):
    def use_keys(self):
        self.environment.update(GCE_METADATA_HOST=self.store.host, GCE_METADATA_TIMEOUT="20")


class AzureTokens(Kind):
    url = f"az://{ACCOUNT}/models/zoo/"
    objects = f"/{ACCOUNT}/models"

    def set_up(self):
        self.store = AzureServer(self.test, lifetime=LIFETIME)
        self.store.grace = datetime.timedelta(seconds=GRACE)
        self.environment.update(AZURE_STORAGE_ENDPOINT=self.store.url, AZURE_STORAGE_ACCOUNT_NAME=ACCOUNT)
        self.put_files()
        self.use_keys()

    def ends(self):
        return {f"Bearer {token}": end.timestamp() for token, end in dict(self.store.tokens).items()}


class ClientSecret(AzureTokens):
    def use_keys(self):
        self.environment.update(AZURE_TENANT_ID="the-tenant", AZURE_CLIENT_ID="the-client", AZURE_CLIENT_SECRET=self.store.secret,
                                AZURE_AUTHORITY_HOST=self.store.origin)


class ManagedIdentity(AzureTokens):
    def use_keys(self):
        self.environment["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = self.store.origin


class Registry(Kind):
    """A model whose tensors are read in random order, so that each is requested."""
    objects = "/v2/team/"
    options = ("--prefetch=off", )
    refusal = {"Content-Type": "application/json"}, json.dumps({"errors": [{"code": "DENIED", "message": REASON}]})
    seed = 0

    def set_up(self):
        self.store = self.start()
        written = [Tensor(f"layer.{i}", "uint8", (TENSOR, ), noise(TENSOR, seed=self.seed + i)) for i in range(COUNT)]
        data = stores.safetensors(self.test.path("."), written)
        artifact = artifacts.modelpack().add("application/vnd.cncf.model.weight.v1.raw", data, "model.safetensors")
        self.url = self.store.push(artifact, "team/tiny", "latest")
        self.reads = [(("tensors", tensor.name), tensor.data) for tensor in random.Random(1).sample(written, COUNT)]


class RegistryToken(Registry):
    """A stored login gives tokens that end."""

    class Double(TokenRegistry):
        def is_login(self, request):
            return basic_login(request) == LOGIN

    def start(self):
        registry = self.Double(self.test)
        registry.lifetime, registry.grace = OF_REGISTRIES, GRACE
        auth = base64.b64encode(":".join(LOGIN).encode()).decode()
        self.write("config.json", json.dumps({"auths": {registry.host: {"auth": auth}}}))
        self.environment["DOCKER_CONFIG"] = self.test.path(self.name)
        return registry

    def ends(self):
        return {f"Bearer {token}": end for token, end in dict(self.store.tokens).items()}


class AmazonRegistry(Registry):
    """Keys of AWS give logins that end."""
    seed = 10_000

    class Logins:
        """Those that have not ended."""

        def __init__(self, ends):
            self.ends = ends

        def __contains__(self, login):
            return self.ends.get(login, 0) + GRACE > time.time()

    def start(self):
        tls = self_signed_certificate(self.test.path(self.name), [AMAZON])
        self.service = KeysServer(self.test, S3Server(self.test), OF_REGISTRIES)
        self.service.signers[KEY_ID] = SECRET, None
        registry = RegistryServer(self.test, self.Logins(self.service.login_ends), tls)
        proxy = Tunnels(self.test, {AMAZON: registry})
        self.environment.update(SSL_CERT_FILE=tls[0], https_proxy=proxy.origin, AWS_ENDPOINT_URL_ECR=self.service.url,
                                AWS_ACCESS_KEY_ID=KEY_ID, AWS_SECRET_ACCESS_KEY=SECRET)
        registry.host = AMAZON  # in its URL
        return registry

    def ends(self):
        return {"Basic " + base64.b64encode(":".join(login).encode()).decode(): end
                for login, end in dict(self.service.login_ends).items()}


KINDS = (Role, WebIdentity, SingleSignOn, Container, Instance, CredentialsFile, GoogleLogin, GoogleServiceAccount, GoogleMetadata,
         ClientSecret, ManagedIdentity, RegistryToken, AmazonRegistry)


class Reader:
    """A thread that reads what is not cached from a mount, until enough keys have ended; then the key is revoked for a while."""

    def __init__(self, test, kind):
        self.test, self.kind, self.problem, self.count = test, kind, None, 0
        environment = {name: text for name, text in os.environ.items() if not name.startswith(FOREIGN)}
        self.process, self.point = test.foreground(*kind.options, kind.url, at=f"mnt-{kind.name}",
                                                   env={**environment, **kind.environment})
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            self.read_across_expiries()
            self.refused = [request for request in self.kind.requests() if request.status in (400, 401, 403)]
            self.read_while_revoked()
        except Exception as error:  # the test reports those of all threads
            self.problem = f"{self.kind.name}, after {self.count} reads and {self.kind.expired()} expiries: {error!r}"

    def read(self):
        """The next file or tensor, or the same again if that fails."""
        path, data = self.kind.reads[self.count]
        with open(os.path.join(self.point, *path), "rb") as file:
            if file.read() != data:
                raise AssertionError(f"{path}: other bytes")
        self.count += 1

    def read_across_expiries(self):
        while self.kind.expired() < EXPIRIES:
            for _ in range(5):
                self.read()
                time.sleep(0.1)  # it spreads the reads over the life of the keys

    def read_while_revoked(self):
        restore = self.kind.revoke()
        found = self.error_of_read()
        restore()
        if found != errno.EACCES:
            raise AssertionError(f"with a revoked key: {errno.errorcode.get(found, found)}")
        until(lambda: self.error_of_read() is None, "the key that is accepted again is not used")

    def error_of_read(self):
        try:
            self.read()
        except OSError as error:
            return error.errno
        return None


@needs("openssl")
class ExpiringKeys(FetchTestCase):
    # semantics 15.5, 23.2, 23.9, 23.10, 24.1
    def test_no_read_fails_while_keys_end(self):
        readers = [Reader(self, kind(self)) for kind in KINDS]
        for reader in readers:
            reader.thread.start()
        for reader in readers:
            reader.thread.join()
        self.assertEqual([reader.problem for reader in readers if reader.problem], [])
        for reader in readers:
            with self.subTest(reader.kind.name):
                self.assertEqual(reader.refused, [])
                self.assertIn(REASON, "\n".join(self.end(reader.process)))


if __name__ == "__main__":
    unittest.main()
