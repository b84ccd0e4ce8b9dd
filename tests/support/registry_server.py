"""A double of a registry on 127.0.0.1, for tests that count requests, or whose blobs are large: manifests by tag and digest, blobs
with ranges, and Basic logins. Nothing is verified. Standard library only.
"""
import base64
import re

from artifacts import MANIFEST, digest
from scripted_server import Refusal, Server, ranged


class RegistryServer:
    """It ends with its test. `logins`: the pairs of a name and a password that are accepted; None: none is needed."""

    def __init__(self, test, logins=None):
        self.logins = logins
        self.tags = {}   # (repository, tag): digest of a manifest
        self.blobs = {}  # digest: bytes of a blob or manifest, or what is sliced like them
        self.server = Server(test, self.answer)
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
        return ranged(request, content, {"Content-Type": "application/octet-stream", "ETag": f'"{name}"'})

    def check_login(self, request):
        if self.logins is None:
            return
        scheme, _, text = request.authorization.partition(" ")
        given = tuple(base64.b64decode(text).decode().split(":", 1)) if scheme == "Basic" else ()
        if given not in self.logins:
            raise Refusal(401, {"WWW-Authenticate": 'Basic realm="here"'}, b'{"errors": [{"code": "UNAUTHORIZED"}]}')
