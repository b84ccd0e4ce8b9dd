"""An object store on 127.0.0.1 that speaks a part of the API of Amazon S3: GetObject, HeadObject, ListObjectsV2, ListObjects. It
verifies the signatures of requests (AWS Signature Version 4) by an implementation of its own. Standard library only.

Run as a program, it serves the files of a directory as a bucket, until its standard input ends:
    python3 tests/support/s3_server.py BUCKET DIR
"""
import datetime
import hashlib
import hmac
import os
import re
import sys
import urllib.parse
from typing import NamedTuple

from scripted_server import Refusal, Server, ranged

KEY_ID, SECRET, TOKEN = "AKIDOFTHETESTSABCD", "secret/of+the=tests", "token-of-the-tests"
REGION = "eu-test-1"
XML = {"Content-Type": "application/xml"}
FAILURES = {412: ("PreconditionFailed", "At least one of the pre-conditions you specified did not hold"),
            416: ("InvalidRange", "The requested range is not satisfiable")}


class StoredObject(NamedTuple):
    data: bytes
    storage_class: str = "STANDARD"
    modified: str = "2026-01-02T03:04:05.000Z"
    version: str = ""  # the ID; empty: the bucket has no versions

    @property
    def etag(self):
        return f'"{hashlib.md5(self.data).hexdigest()}"'


class Key(NamedTuple):
    secret: str
    token: str = None                   # of the session; None: that of the server
    expiry: datetime.datetime = None    # None: it does not expire


def escaped(text):
    """The text in XML."""
    return "".join(c if c.isascii() and c.isprintable() and c not in "<>&\"'" else f"&#{ord(c)};" for c in text)


def in_xml(name, content):
    return f"<{name}>{content}</{name}>"


def canonical(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-_.~")


def signature(secret, method, target, headers, signed, date, region, service="s3"):
    """The signature of a request, as documented by AWS: canonical request, string to sign, derived key."""
    path, _, query = target.partition("?")
    pairs = sorted((canonical(name), canonical(value)) for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True))
    text = "\n".join([
        method,
        canonical(urllib.parse.unquote(path), "/"), "&".join(f"{name}={value}" for name, value in pairs),
        "".join(f"{name}:{headers[name].strip()}\n" for name in signed), ";".join(signed), headers["x-amz-content-sha256"]
    ])
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    to_sign = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(text.encode()).hexdigest()}"
    key = ("AWS4" + secret).encode()
    for part in (*scope.split("/"), to_sign):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


class Refused(Refusal):
    def __init__(self, status, code, message, extra="", headers={}):
        text = in_xml("Error", in_xml("Code", code) + in_xml("Message", message) + extra)
        super().__init__(status, {**XML, **headers}, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode())


class S3Server:
    """A store with buckets: {name: {key: StoredObject}}. `public` buckets need no signature. Ends with its test, or by stop()."""

    def __init__(self, test, region=REGION, token=None, page=1000, tls=None):
        self.buckets, self.public = {}, set()
        self.versions = {}        # {(bucket, key, ID): StoredObject}
        self.region, self.token, self.page = region, token, page
        self.keys = {KEY_ID: Key(SECRET)}  # the access keys that are valid
        self.grace = datetime.timedelta(0)  # keys are accepted so long after their expiry: its clock is late
        self.before = []          # scripts that are called first with each request; one that returns a response has answered
        self.v2 = None            # "ignored": it lists by ListObjects only; a status: it refuses ListObjectsV2 with that
        self.listing = None       # replaces the page of a listing: f(query) -> XML
        self.wrong_region_status = 400
        self.clock = lambda: datetime.datetime.now(datetime.timezone.utc)
        self.server = Server(test, self.answer, tls=tls)
        self.url, self.port, self.stop = self.server.origin, self.server.port, self.server.close

    def put(self, bucket, key, data, **kwargs):
        stored = self.buckets.setdefault(bucket, {})[key] = StoredObject(data, **kwargs)
        self.versions[bucket, key, stored.version] = stored
        return f"s3://{bucket}/{key}"

    def requests(self):
        """Those that were answered."""
        return [request for request in self.server.requests() if request.status]

    def sent(self):
        """The bytes of the bodies of all responses."""
        return sum(request.length for request in self.requests())

    def answer(self, request):
        for before in list(self.before):
            if response := before(request):
                return response
        path = urllib.parse.unquote(request.path)
        _, bucket, key = (path + "/" if path.count("/") == 1 else path).split("/", 2)
        self.check_signature(request, bucket)
        if bucket not in self.buckets:
            raise Refused(404, "NoSuchBucket", "The specified bucket does not exist")
        if key == "" and "prefix" in request.query:
            is_v2 = request.query.get("list-type") == "2"
            if is_v2 and self.v2 not in (None, "ignored"):
                raise Refused(self.v2, "InvalidArgument" if self.v2 == 400 else "NotImplemented", "list-type is not known")
            return 200, XML, self.list(request.query, bucket, is_v2 and self.v2 is None).encode()
        return self.get(request, bucket, key)

    def check_signature(self, request, bucket):
        headers = request.headers
        given = headers.get("authorization")
        if given is None:
            if bucket in self.public:
                return
            raise Refused(403, "AccessDenied", "Access Denied.")
        found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/,]+)/(\d{8})/([^/]+)/s3/aws4_request, SignedHeaders=([^,]+), "
                             r"Signature=([0-9a-f]{64})", given)
        if not found:
            raise Refused(400, "AuthorizationHeaderMalformed", "The authorization header is malformed")
        key_id, day, region, signed, mac = found.groups()
        key = self.keys.get(key_id)
        if key is None:
            raise Refused(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
        if region != self.region:
            place = {"x-amz-bucket-region": self.region}
            if self.wrong_region_status == 301:
                raise Refused(301, "PermanentRedirect", "The bucket must be addressed using the specified endpoint", headers=place)
            raise Refused(400, "AuthorizationHeaderMalformed", f"The region '{escaped(region)}' is wrong",
                          in_xml("Region", self.region))
        date = headers.get("x-amz-date", "")
        names = signed.split(";")
        if names != sorted(names) or not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(names):
            raise Refused(403, "AccessDenied", "There were headers present in the request which were not signed")
        token = key.token or self.token
        if token is not None and (headers.get("x-amz-security-token") != token or "x-amz-security-token" not in names):
            raise Refused(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
        if key.expiry and self.clock() >= key.expiry + self.grace:
            raise Refused(400, "ExpiredToken", "The provided token has expired.")
        when = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
        if day != date[:8] or abs((self.clock() - when).total_seconds()) > 15 * 60:
            raise Refused(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.")
        if not hmac.compare_digest(mac, signature(key.secret, request.method, request.target, headers, names, date, region)):
            raise Refused(403, "SignatureDoesNotMatch",
                          "The request signature we calculated does not match the signature you provided.")

    def list(self, query, bucket, is_v2=True):
        if self.listing is not None:
            return self.listing(query)
        prefix, after = query.get("prefix", ""), query.get("continuation-token", "") if is_v2 else ""
        if after and not after.startswith("after+/="):
            raise Refused(400, "InvalidArgument", "The continuation token provided is incorrect")
        last = urllib.parse.unquote(after[len("after+/="):]) if is_v2 else query.get("marker", "")
        keys = sorted(key for key in self.buckets[bucket] if key.startswith(prefix) and key > last)
        size = min(self.page, int(query.get("max-keys", "1000")))
        page, more = keys[:size], len(keys) > size
        encode = urllib.parse.quote_plus if query.get("encoding-type") == "url" else escaped
        text = in_xml("Name", bucket) + in_xml("Prefix", encode(prefix)) + in_xml("KeyCount", str(len(page)))
        text += in_xml("EncodingType", "url") if encode is not escaped else ""
        text += in_xml("IsTruncated", "true" if more else "false")
        if more and is_v2:  # ListObjects states a marker only with a delimiter
            text += in_xml("NextContinuationToken", escaped("after+/=" + urllib.parse.quote(page[-1])))
        for key in page:
            stored = self.buckets[bucket][key]
            text += in_xml("Contents", in_xml("Key", encode(key)) + in_xml("LastModified", stored.modified)
                           + in_xml("ETag", escaped(stored.etag)) + in_xml("Size", str(len(stored.data)))
                           + in_xml("StorageClass", stored.storage_class))
        return f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{text}</ListBucketResult>'

    def get(self, request, bucket, key):
        stored = self.buckets[bucket].get(key)
        if stored is not None and stored.version and "versionId" in request.query:
            stored = self.versions.get((bucket, key, request.query["versionId"]))
            if stored is None:
                raise Refused(404, "NoSuchVersion", "The specified version does not exist.", in_xml("Key", escaped(key)))
        if stored is None:
            raise Refused(404, "NoSuchKey", "The specified key does not exist.", in_xml("Key", escaped(key)))
        if stored.storage_class in ("GLACIER", "DEEP_ARCHIVE"):
            raise Refused(403, "InvalidObjectState", "The operation is not valid for the object's storage class")
        when = datetime.datetime.strptime(stored.modified, "%Y-%m-%dT%H:%M:%S.000Z")
        status, headers, body = ranged(request, stored.data, {
            "ETag": stored.etag, "Last-Modified": when.strftime("%a, %d %b %Y %H:%M:%S GMT"),
            "Content-Type": "binary/octet-stream", **({"x-amz-version-id": stored.version} if stored.version else {})
        })
        if status in FAILURES:
            raise Refused(status, *FAILURES[status], headers=headers)
        return status, headers, body


def main(bucket, folder):
    store = S3Server(test=None)
    store.public.add(bucket)
    for directory, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                store.put(bucket, os.path.relpath(path, folder), file.read())
    print(store.url, flush=True)
    sys.stdin.read()
    store.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
