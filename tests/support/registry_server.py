"""A double of a registry on 127.0.0.1, for tests that count requests, or whose blobs are large: manifests by tag and digest, blobs
with ranges, and Basic logins; of registries of clouds, with token servers of their own. Nothing is verified. Standard library
only.
"""
import base64
import json
import re
import time
import urllib.parse

from artifacts import MANIFEST, digest
from scripted_server import Refusal, Server, ranged


def basic_login(request):
    scheme, _, text = request.authorization.partition(" ")
    return tuple(base64.b64decode(text).decode().split(":", 1)) if scheme == "Basic" else ()


class RegistryServer:
    """It ends with its test. `logins`: the pairs of a name and a password that are accepted; None: none is needed."""

    def __init__(self, test, logins=None, tls=None):
        self.logins = logins
        self.storage = None  # the beginning of URLs to which requests of blobs are redirected
        self.tags = {}   # (repository, tag): digest of a manifest
        self.blobs = {}  # digest: bytes of a blob or manifest, or what is sliced like them
        self.server = Server(test, self.answer, tls=tls)
        self.host, self.requests = self.server.host, self.server.requests

    def push(self, artifact, repository, tag, large={}):
        """Stores an Artifact; `large` are its blobs by digest that it does not have itself. Returns its URL."""
        manifest = artifact.manifest()
        self.blobs.update({**{digest(data): data for data in artifact.blobs.values()}, **large, digest(manifest): manifest})
        self.tags[repository, tag] = digest(manifest)
        return f"oci://{self.host}/{repository}:{tag}"

    def answer(self, request):
        self.check_login(request)
        found = re.fullmatch(r"/v2/(.+)/(manifests|blobs)/([^/]+)", request.path)
        repository, kind, name = found.groups() if found else ("", "", "")
        name = self.tags.get((repository, name), name)
        if name not in self.blobs:
            raise Refusal(404, {"Content-Type": "application/json"}, b'{"errors": [{"code": "NAME_UNKNOWN"}]}')
        content = self.blobs[name]
        if kind == "manifests":
            return 200, {"Content-Type": MANIFEST, "Docker-Content-Digest": name}, content
        if self.storage:
            return 307, {"Location": self.storage + name}, b""
        return ranged(request, content, {"Content-Type": "application/octet-stream", "ETag": f'"{name}"'})

    def check_login(self, request):
        if self.logins is None:
            return
        if basic_login(request) not in self.logins:
            raise Refusal(401, {"WWW-Authenticate": 'Basic realm="here"'}, b'{"errors": [{"code": "UNAUTHORIZED"}]}')


class TokenRegistry(RegistryServer):
    """A registry at a name (None: at its address), which accepts tokens of its token server until they end. `is_public`: it gives
    them without a login, too."""
    realm = "/v2/token"

    def __init__(self, test, name=None, tls=None, is_public=False):
        self.is_public = is_public
        self.tokens = {}  # {token: its end}
        self.lifetime = 3600
        self.grace = 0    # seconds that a token is accepted after its end: its clock is late
        super().__init__(test, tls=tls)
        self.name = name or self.host
        self.url = f"https://{name}" if name else self.server.origin

    def answer(self, request):
        return self.token(request) if request.path == self.realm else super().answer(request)

    def check_login(self, request):
        scheme, _, token = request.authorization.partition(" ")
        if scheme != "Bearer" or self.tokens.get(token, 0) + self.grace <= time.time():
            challenge = f'Bearer realm="{self.url}{self.realm}",service="{self.name}",scope="repository:team/tiny:pull"'
            raise Refusal(401, {"WWW-Authenticate": challenge}, b'{"errors": [{"code": "UNAUTHORIZED"}]}')

    def issue(self):
        token = f"token-of-the-registry-{len(self.tokens) + 1}"
        self.tokens[token] = time.time() + self.lifetime
        return 200, {}, json.dumps({"access_token": token, "expires_in": self.lifetime}).encode()

    def token(self, request):
        is_anonymous = self.is_public and not request.authorization
        return self.issue() if is_anonymous or self.is_login(request) else (401, {}, b"{}")


class GoogleRegistry(TokenRegistry):
    """`tokens_of`: the double (gcs_server.py) whose access tokens are passwords."""

    def __init__(self, *args, tokens_of, **kwargs):
        super().__init__(*args, **kwargs)
        self.tokens_of = tokens_of

    def is_login(self, request):
        given = basic_login(request)
        return given[:1] == ("oauth2accesstoken",) and self.tokens_of.tokens.get(given[1], 0) > time.time()


class PublicAmazonRegistry(TokenRegistry):
    """`keys`: the double (aws_keys_server.py) that gives logins."""
    realm = "/token/"

    def __init__(self, *args, keys, **kwargs):
        super().__init__(*args, **kwargs)
        self.keys = keys

    def is_login(self, request):
        return basic_login(request) in self.keys.logins


class AzureRegistry(TokenRegistry):
    """`tokens_of`: the double (azure_server.py) whose access tokens are exchanged for refresh tokens."""
    realm = "/oauth2/token"
    REFRESH = "refresh-token-of-the-registry"

    def __init__(self, *args, tokens_of, **kwargs):
        super().__init__(*args, **kwargs)
        self.tokens_of = tokens_of
        self.forms = []  # of exchanges

    def answer(self, request):
        if request.path != "/oauth2/exchange":
            return super().answer(request)
        form = dict(urllib.parse.parse_qsl(request.content.decode()))
        self.forms.append({name: text for name, text in form.items() if name != "access_token"})
        if request.method != "POST" or request.query or form.get("access_token") not in self.tokens_of.tokens:
            return 401, {}, b"{}"
        return 200, {}, json.dumps({"refresh_token": self.REFRESH}).encode()

    def is_login(self, request):
        form = dict(urllib.parse.parse_qsl(request.content.decode()))
        return (request.method, form.get("grant_type"), form.get("service"), form.get("refresh_token")) == (
            "POST", "refresh_token", self.name, self.REFRESH)
