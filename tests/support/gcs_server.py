"""Google Cloud Storage on 127.0.0.1: a part of its XML API (objects with generations and checksums, listings), and services that
give tokens: the token service (refresh_token, token exchange), impersonation, another provider, and the metadata of a machine.
Standard library only.
"""
import base64
import hashlib
import json
import struct
import threading
import time
import urllib.parse
from typing import NamedTuple

from s3_server import FAILURES, XML, Refused, escaped, in_xml
from scripted_server import Server, ranged

SUBJECT, CLIENT_SECRET, REFRESH = "token-of-the-provider", "secret-of-the-client", "refresh-of-the-user"
PROVIDER = "Bearer of the provider"


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def crc_of_byte(value):
    for _ in range(8):
        value = (value >> 1) ^ 0x82F63B78 if value & 1 else value >> 1
    return value


CRC_TABLE = [crc_of_byte(value) for value in range(256)]


class StoredObject(NamedTuple):
    data: bytes
    generation: int
    hashes: tuple  # of x-goog-hash

    @property
    def etag(self):
        return f'"{hashlib.md5(self.data).hexdigest()}"'


def hashes_of(data):
    return (f"crc32c={base64.b64encode(struct.pack('>I', crc32c(data))).decode()}",
            f"md5={base64.b64encode(hashlib.md5(data).digest()).decode()}")


class GcsServer:
    """Buckets: {name: {key: StoredObject}}, whose older generations are kept in versioned ones only. Ends with its test.
    `lifetime`: seconds of each token."""

    def __init__(self, test, lifetime=3600, page=1000):
        self.buckets, self.public, self.versioned, self.older = {}, set(), set(), {}
        self.lifetime, self.page = lifetime, page
        self.tokens = {}            # {token: its end}
        self.grace = 0              # seconds that a token is accepted after its end: its clock is late
        self.issued = []
        self.accepts = None         # further tokens: f(token)
        self.payer = None           # the project that a request must name
        self.refresh_token = REFRESH
        self.has_account = True     # of the machine
        self.is_down = False        # for requests of objects
        self.next_generation = 1700000000000001
        self.lock = threading.Lock()
        self.server = Server(test, self.answer)
        self.url, self.host = self.server.origin, self.server.host

    def put(self, bucket, key, data, hashes=None):
        with self.lock:
            old = self.buckets.setdefault(bucket, {}).get(key)
            if old is not None and bucket in self.versioned:
                self.older[bucket, key, str(old.generation)] = old
            stored = StoredObject(data, self.next_generation, hashes_of(data) if hashes is None else hashes)
            self.buckets[bucket][key] = stored
            self.next_generation += 1
        return f"gs://{bucket}/{key}"

    def requests(self, part=""):
        return [request for request in self.server.requests() if part in request.target]

    def of_objects(self):
        return [request for request in self.server.requests()
                if request.path.split("/")[1] in self.buckets and request.query.get("list-type") is None]

    def issue(self):
        with self.lock:
            token = f"ya29.token-of-the-tests-{len(self.issued) + 1:04}"
            self.issued.append(token)
            self.tokens[token] = time.time() + self.lifetime
        return token

    def revoke(self):
        """All tokens so far."""
        self.tokens.clear()

    def secrets(self):
        """All texts that must appear nowhere."""
        return self.issued + [SUBJECT, CLIENT_SECRET, REFRESH, PROVIDER]

    def answer(self, request):
        services = {"/token": self.refresh, "/v1/token": self.exchange, "/impersonate": self.impersonate,
                    "/provider": self.provider,
                    "/computeMetadata/v1/instance/service-accounts/default/token": self.metadata}
        if request.path in services:
            status, body = services[request.path](request)
            return status, {"Content-Type": "application/json"}, json.dumps(body).encode()
        _, bucket, key = (urllib.parse.unquote(request.path) + "/").split("/", 2)
        self.check(request, bucket)
        if bucket not in self.buckets:
            raise Refused(404, "NoSuchBucket", "The specified bucket does not exist.")
        if key in ("", "/") and request.query.get("list-type") == "2":
            return 200, XML, self.list(request.query, bucket).encode()
        if self.is_down:
            raise Refused(503, "ServiceUnavailable", "Service unavailable.")
        return self.get(request, bucket, key[:-1])

    def check(self, request, bucket):
        if self.payer is not None and request.headers.get("x-goog-user-project") != self.payer:
            raise Refused(400, "UserProjectMissing", "Bucket is a requester pays bucket but no user project provided.")
        given = request.authorization
        if not given and bucket in self.public:
            return
        if not given:
            raise Refused(403, "AccessDenied", "Access denied.")
        token = given.removeprefix("Bearer ")
        if token != given and (self.tokens.get(token, 0) + self.grace > time.time() or (self.accepts and self.accepts(token))):
            return
        raise Refused(401, "AuthenticationRequired", "Authentication required.",
                      headers={"WWW-Authenticate": 'Bearer realm="https://accounts.google.com/"'})

    def list(self, query, bucket):
        prefix, after = query.get("prefix", ""), query.get("continuation-token", "")
        keys = sorted(key for key in self.buckets[bucket] if key.startswith(prefix) and key > after)
        page, more = keys[:self.page], len(keys) > self.page
        text = in_xml("Name", bucket) + in_xml("EncodingType", "url") + in_xml("IsTruncated", "true" if more else "false")
        if more:
            text += in_xml("NextContinuationToken", escaped(page[-1]))
        for key in page:
            stored = self.buckets[bucket][key]
            text += in_xml("Contents", in_xml("Key", urllib.parse.quote(key)) + in_xml("Generation", str(stored.generation))
                           + in_xml("MetaGeneration", "1") + in_xml("LastModified", "2026-01-02T03:04:05.000Z")
                           + in_xml("ETag", escaped(stored.etag)) + in_xml("Size", str(len(stored.data))))
        return f'<ListBucketResult xmlns="http://doc.s3.amazonaws.com/2006-03-01">{text}</ListBucketResult>'

    def get(self, request, bucket, key):
        stored = self.buckets[bucket].get(key)
        asked = request.query.get("generation")
        if asked and (stored is None or str(stored.generation) != asked):
            stored = self.older.get((bucket, key, asked))
        if stored is None:
            raise Refused(404, "NoSuchKey", "The specified key does not exist.")
        status, headers, body = ranged(request, stored.data, {
            "ETag": stored.etag, "Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT",
            "x-goog-generation": str(stored.generation), "x-goog-hash": ",".join(stored.hashes)})
        if status in FAILURES:
            raise Refused(status, *FAILURES[status], headers=headers)
        return status, headers, body

    def refresh(self, request):
        form = dict(urllib.parse.parse_qsl(request.content.decode()))
        right = {"grant_type": "refresh_token", "client_id": "the client", "client_secret": CLIENT_SECRET,
                 "refresh_token": self.refresh_token}
        if request.method != "POST" or form != right:
            return 400, {"error": "invalid_grant", "error_description": "Bad Request"}
        return 200, {"access_token": self.issue(), "expires_in": self.lifetime, "token_type": "Bearer"}

    def exchange(self, request):
        form = dict(urllib.parse.parse_qsl(request.content.decode()))
        if form.get("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" or form.get("audience") != "//iam/pool":
            return 400, {"error": "invalid_request"}
        if form.get("subject_token") != SUBJECT or form.get("subject_token_type") != "urn:ietf:params:oauth:token-type:jwt":
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": self.issue(), "expires_in": self.lifetime, "token_type": "Bearer"}

    def impersonate(self, request):
        asked = json.loads(request.content)
        if self.tokens.get(request.authorization.removeprefix("Bearer "), 0) < time.time() or asked["lifetime"] != "3600s":
            return 401, {"error": {"code": 401, "message": "no"}}
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.lifetime))
        return 200, {"accessToken": self.issue(), "expireTime": end}

    def provider(self, request):
        return (200, {"value": SUBJECT}) if request.authorization == PROVIDER else (403, {})

    def metadata(self, request):
        if request.headers.get("metadata-flavor") != "Google":
            return 403, {}
        if not self.has_account:
            return 404, {}
        return 200, {"access_token": self.issue(), "expires_in": self.lifetime, "token_type": "Bearer"}
