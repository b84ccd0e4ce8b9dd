"""Azure Blob Storage on 127.0.0.1, for tests: Get Blob by ranges, List Blobs in pages, and the services that give tokens. It
verifies SharedKey signatures by an implementation of its own, shared access signatures, and tokens with their expiry. Standard
library only.
"""
import base64
import datetime
import hashlib
import hmac
import json
import threading
import urllib.parse
from typing import NamedTuple

from s3_server import escaped, in_xml
from scripted_server import Refusal, Server, ranged

ACCOUNT = "teststore"
KEY = base64.b64encode(b"key of the tests, of 32 bytes...").decode()
SAS = "sv=2023-11-03&sr=c&sp=rl&sig=of%2Bthe%2Ftests%3D"
XML = {"Content-Type": "application/xml"}
SIGNED = ("content-encoding", "content-language", "content-length", "content-md5", "content-type", "date", "if-modified-since",
          "if-match", "if-none-match", "if-unmodified-since", "range")
FAILURES = {412: ("ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met."),
            416: ("InvalidRange", "The range specified is invalid for the current size of the resource.")}


class StoredBlob(NamedTuple):
    data: bytes
    is_directory: bool = False
    md5: bytes = None          # that the uploader stated; None: none

    @property
    def etag(self):
        return "0x8D" + hashlib.md5(self.data).hexdigest()[:12].upper()


class Refused(Refusal):
    def __init__(self, status, code, message, headers={}):
        text = in_xml("Error", in_xml("Code", code) + in_xml("Message", f"{message}\nRequestId:0000\nTime:2026-01-02T03:04:05Z"))
        super().__init__(status, {**XML, "x-ms-error-code": code, **headers}, text.encode())


def signature(key, method, target, headers, account=ACCOUNT):
    """As documented in "Authorize with Shared Key"."""
    path, _, query = target.partition("?")
    lines = [method, *(headers.get(name, "") for name in SIGNED)]
    lines += [f"{name}:{headers[name].strip()}" for name in sorted(headers) if name.startswith("x-ms-")]
    parameters = {}
    for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True):
        parameters.setdefault(name.lower(), []).append(value)
    resource = [f"/{account}{path}", *(f"{name}:{','.join(sorted(parameters[name]))}" for name in sorted(parameters))]
    text = "\n".join(lines + resource)
    return base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()


class AzureServer:
    """An account with containers: {name: {blob: StoredBlob}}. The account is the first part of the path, as at an emulator. It ends
    with its test."""

    def __init__(self, test, page=5000, lifetime=3600):
        self.containers, self.public = {}, set()
        self.page, self.lifetime = page, lifetime
        self.tokens = {}            # token: its expiry
        self.grace = datetime.timedelta(0)  # tokens are accepted so long after their expiry: its clock is late
        self.assertion = "federated-token"
        self.secret = "secret/of+the=application"
        self.sas = SAS              # None: revoked
        self.token_status = 200
        self.has_role = True        # who has a token may read
        self.audience = "https://storage.azure.com"  # of tokens
        self.lock = threading.Lock()
        self.server = Server(test, self.answer)
        self.origin = self.server.origin
        self.url = f"{self.origin}/{ACCOUNT}"

    def put(self, container, name, data, **kwargs):
        self.containers.setdefault(container, {})[name] = StoredBlob(data, **kwargs)
        return f"az://{ACCOUNT}/{container}/{name}"

    def requests(self, part=""):
        """Those that were answered."""
        return [request for request in self.server.requests() if request.status and part in request.target]

    def of_blobs(self):
        return self.requests(f"/{ACCOUNT}/")

    def of_tokens(self):
        return self.requests("/oauth2/")

    def secrets(self):
        """All texts that must appear nowhere."""
        return [KEY, "of%2Bthe%2Ftests%3D", "of+the/tests=", self.assertion, self.secret, urllib.parse.quote(self.secret, safe=""),
                *self.tokens]

    def answer(self, request):
        if "/oauth2/" in request.path:
            return self.give_token(request)
        _, account, container, name = (urllib.parse.unquote(request.path) + "///").split("/", 3)
        name = name.rstrip("/")
        if account != ACCOUNT:
            raise Refused(404, "ResourceNotFound", "The specified resource does not exist.")
        if not request.headers.get("x-ms-version"):
            raise Refused(400, "MissingRequiredHeader", "The version is missing.")
        self.check(request, container)
        if container not in self.containers:
            raise Refused(404, "ContainerNotFound", "The specified container does not exist.")
        if request.query.get("comp") == "list" and request.query.get("restype") == "container":
            return 200, XML, self.list(request.query, container).encode()
        return self.get(request, self.containers[container].get(name))

    # ---- who sends a request

    def check(self, request, container):
        given = request.authorization
        if given.startswith("SharedKey "):
            if given != f"SharedKey {ACCOUNT}:{signature(KEY, request.method, request.target, request.headers)}":
                raise Refused(403, "AuthenticationFailed", "Server failed to authenticate the request.")
        elif given.startswith("Bearer "):
            expiry = self.tokens.get(given.partition(" ")[2])
            if expiry is None or datetime.datetime.now() >= expiry + self.grace:
                raise Refused(401, "InvalidAuthenticationInfo", "Lifetime validation failed. The token is expired.",
                              {"WWW-Authenticate": "Bearer authorization_uri=https://login.example/"})
            if not self.has_role:
                raise Refused(403, "AuthorizationPermissionMismatch", "This request is not authorized using this permission.")
        elif "sig" in request.query:
            if self.sas is None or not request.target.endswith(self.sas):
                raise Refused(403, "AuthenticationFailed", "Signature not valid in the specified time frame")
        elif container not in self.public:
            raise Refused(404, "ResourceNotFound", "The specified resource does not exist.")

    def give_token(self, request):
        form = dict(urllib.parse.parse_qsl(request.content.decode()))
        if request.path == "/metadata/identity/oauth2/token":
            valid = request.headers.get("metadata") == "true" and request.query == {
                "api-version": "2018-02-01", "resource": self.audience}
        else:
            valid = (request.method == "POST" and request.path == "/the-tenant/oauth2/v2.0/token" and not request.query
                     and form.get("client_id") == "the-client" and form.get("scope") == self.audience + "/.default"
                     and (form.get("client_assertion") == self.assertion or form.get("client_secret") == self.secret))
        if not valid or self.token_status != 200:
            status = self.token_status if valid else 401
            return status, {"Content-Type": "application/json"}, json.dumps({"error": "invalid_client"}).encode()
        with self.lock:
            token = f"token-of-the-tests.{len(self.tokens) + 1}"
            expiry = datetime.datetime.now() + datetime.timedelta(seconds=self.lifetime)
            self.tokens[token] = expiry
        body = {"token_type": "Bearer", "access_token": token, "expires_in": self.lifetime}
        if request.method == "GET":
            body = {"token_type": "Bearer", "access_token": token, "expires_on": str(int(expiry.timestamp()))}
        return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()

    # ---- blobs

    def list(self, query, container):
        names = sorted(name for name in self.containers[container] if name.startswith(query.get("prefix", "")))
        marker = query.get("marker", "")
        rest = [name for name in names if not marker or name >= base64.b64decode(marker).decode()]
        size = min(self.page, int(query.get("maxresults", "5000")))
        following = base64.b64encode(rest[size].encode()).decode() if len(rest) > size else ""
        blobs = "".join(self.entry(name, self.containers[container][name], "metadata" in query.get("include", ""))
                        for name in rest[:size])
        return (f'\ufeff<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="{container}">'
                f'{in_xml("Blobs", blobs)}{in_xml("NextMarker", escaped(following))}</EnumerationResults>')

    @staticmethod
    def entry(name, stored, has_metadata):
        properties = (in_xml("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT") + in_xml("Etag", stored.etag)
                      + in_xml("Content-Length", str(len(stored.data))))
        metadata = in_xml("hdi_isfolder", "true") if stored.is_directory and has_metadata else ""
        return in_xml("Blob", in_xml("Name", escaped(name)) + in_xml("Properties", properties) + in_xml("Metadata", metadata))

    def get(self, request, stored):
        if stored is None:
            raise Refused(404, "BlobNotFound", "The specified blob does not exist.")
        more = {"x-ms-meta-hdi_isfolder": "true"} if stored.is_directory else {}
        if stored.md5 is not None:
            name = "x-ms-blob-content-md5" if "range" in request.headers else "Content-MD5"
            more[name] = base64.b64encode(stored.md5).decode()
        status, headers, body = ranged(request, stored.data, {
            "ETag": f'"{stored.etag}"', "Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT", **more})
        if status in FAILURES:
            raise Refused(status, *FAILURES[status], headers={**headers, **XML})
        return status, headers, body
