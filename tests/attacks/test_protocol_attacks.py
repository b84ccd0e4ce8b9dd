"""Attacks on the protocols of `weightfs serve`: the API of the Hub, the registry, the object store, and the mirror of a Hub. Names
that lead elsewhere, names of 64 KiB, thousands of unknown names, and floods of headers and bodies.

Each has a verdict within the limits of the server, reads nothing outside of the models, and makes the mirror request nothing.
"""
import itertools
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
from mounting import WEIGHTFS, Tensor, is_sanitized  # noqa: E402
from http_serving import HttpServer  # noqa: E402
from test_hub import HubTestCase  # noqa: E402
import limits  # noqa: E402

MEMORY_MB = 64
CPU_S = 5 * (limits.DEBUG_SLOWDOWN if limits.is_debug_build(WEIGHTFS) else 1)
MAX_UNKNOWN = 64  # serve/hub/mirror.h
SECRET = b"of another directory"

# Where a name stands in a path, and in a query.
PATHS = (b"/api/models/%s", b"/api/models/org/%s", b"/api/models/%s/demo", b"/api/models/org/%s/refs",
         b"/api/models/org/%s/revision/main", b"/api/models/org/demo/revision/%s", b"/api/models/org/demo/tree/main/%s",
         b"/api/models/local/m.safetensors/tree/%s", b"/%s/demo/resolve/main/config.json", b"/org/%s/resolve/main/config.json",
         b"/org/demo/resolve/%s/config.json", b"/org/demo/resolve/main/%s", b"/local/%s/resolve/main/config.json",
         b"/local/m.safetensors/resolve/main/%s", b"/local/m.safetensors/raw/main/%s", b"/views/%s/resolve/main/model.gguf",
         b"/views/m.safetensors/resolve/main/%s", b"/v2/%s/manifests/latest", b"/v2/m/manifests/%s", b"/v2/m/blobs/%s",
         b"/v2/m/referrers/%s", b"/v2/%s/tags/list", b"/.s3/%s", b"/.s3/m-safetensors/%s")
QUERIES = (b"/api/models/local/m.safetensors/tree/main?limit=%s", b"/api/models/local/m.safetensors/tree/main?cursor=%s",
           b"/v2/m/tags/list?n=%s", b"/v2/m/tags/list?last=%s", b"/v2/m/referrers/sha256:" + b"0" * 64 + b"?artifactType=%s",
           b"/.s3/m-safetensors?prefix=%s", b"/.s3/m-safetensors?delimiter=%s", b"/.s3/m-safetensors?max-keys=%s",
           b"/.s3/m-safetensors?list-type=2&continuation-token=%s", b"/.s3/m-safetensors?list-type=2&start-after=%s",
           b"/.s3/m-safetensors/m.safetensors?response-content-type=%s")
# ORIGIN is the address of the mirrored Hub.
NAMES = (b"%2e%2e", b"%2E%2e", b"..%2fsecret.txt", b"..%2f..%2f..%2fetc%2fpasswd", b"%2e%2e%2fsecret.txt", b"..%5csecret.txt",
         b"a%00b", b"%00", b"..%00", b"%", b"%zz", b"%f", b"%ff%fe", b"%c0%ae%c0%ae%c0%afsecret.txt",
         b"http:%2f%2fORIGIN%2forg%2fdemo", b"%2f%2fORIGIN%2forg%2fdemo", b"ORIGIN%2forg%2fdemo", b"demo@ORIGIN",
         b"org%2fdemo@ORIGIN", b"%0d%0aX-Injected:%201", b"%0aX-Injected:%201", b"%20", b"*", b"[::1]:80", b"a" * 65536,
         b"%2e%2e%2f" * 8192)
TWICE = b"%252e%252e%252fsecret.txt"  # encoded twice: as a revision of a mirrored repository it is refused by the fetcher, with 502
NUMBERS = (b"-1", b"1e9", b"18446744073709551615", b"99999999999999999999")
DOTS = (b"..", b"../..", b"../../secret.txt", b"../" * 100 + b"etc/passwd", b"./../secret.txt")  # removed before names are decoded
REFUSED, ANSWERED = {400, 404, 414}, {200, 400, 404, 414}
FLOODED = (b"/api/models/local/m.safetensors", b"/local/m.safetensors/resolve/main/m.safetensors", b"/v2/m/tags/list",
           b"/v2/m/manifests/latest", b"/.s3", b"/.s3/m-safetensors?list-type=2", b"/.s3/m-safetensors/m.safetensors",
           b"/api/models/org/demo", b"/org/demo/resolve/main/config.json")
TOO_MUCH = (b"A: b\r\n" * 101, b"A: b\r\n" * 100_000, b"X: " + b"a" * 33_000 + b"\r\n",
            b"Authorization: Bearer " + b"a" * (1 << 20) + b"\r\n",
            b"".join(b"X-Amz-Meta-%d: %s\r\n" % (i, b"a" * 1000) for i in range(40)))
LONG = (b"Authorization: AWS4-HMAC-SHA256 Credential=" + b"a/" * 15_000, b"Authorization: Basic " + b"YWFh" * 7_500,
        b"Authorization: AWS4-HMAC-SHA256 " + b"SignedHeaders=a," * 1_800, b"Range: bytes=" + b"0-0," * 7_500,
        b"Accept: " + b"application/vnd.oci.image.index.v1+json," * 750, b"If-None-Match: " + b'"a",' * 7_500,
        b"If-Range: " + b"a" * 30_000, b"User-Agent: ollama/" + b"9." * 15_000, b"X-Amz-Content-Sha256: " + b"0" * 30_000,
        b"X-Forwarded-Proto: " + b"https," * 5_000)
BODIES = (b"[" * 65_000, b'{"paths":' + b"[" * 65_000, b'{"paths":[' + b'"a",' * 15_000 + b'"a"]}',
          b'{"paths":["' + b"a" * 65_000 + b'"]}', b'{"paths":["../secret.txt","..","/etc/passwd","","a\\u0000b","\\ud800"]}',
          b'{"paths":"../secret.txt"}', b"paths=" * 10_000, b"paths=a&" * 8_000, b"\0" * 65_536, b"{}" * 40_000, b"",
          b"paths=%2e%2e%2fsecret.txt&paths=..&paths=%00&paths=%zz&expand=%ff")


class Protocols(HubTestCase):
    """Models of the disk and a mirror. A repository of the Hub is cached."""

    def setUp(self):
        super().setUp()
        self.hub.add("org/demo", {"config.json": b"{}"})
        self.write("secret.txt", SECRET)
        os.mkdir(self.path("models"))
        self.sample("models/m.safetensors", [Tensor("w", "uint8", (5,), b"hello")])
        self.sample("models/other.gguf", format="gguf")
        os.mkdir(self.path("server"))
        self.server = HttpServer(self.path("models"), folder=self.path("server"), options=(
            "--mirror", f"hf={self.hub.url}", "--allow", "org/*", "--mirror-ttl", "3600", "--log-level", "warning"))
        self.addCleanup(self.server.close)
        self.assertEqual(self.server.get("/org/demo/resolve/main/config.json").body, b"{}")
        self.hub.forget()
        self.begun = self.server.spent()
        self.origin = self.hub.servers["hub"].host.encode()

    def tearDown(self):
        self.assertEqual(self.server.get("/m.safetensors/tensors/w").body, b"hello")
        self.assertEqual(self.server.get("/org/demo/resolve/main/config.json").body, b"{}")
        self.assertIsNone(self.server.process.poll(), self.server.error_text())
        self.assertLess(self.server.spent() - self.begun, CPU_S)
        if not is_sanitized():
            self.assertLess(self.server.peak_mb(), MEMORY_MB)
        super().tearDown()

    def problem(self, target, permitted, header=b"", body=None):
        """What is wrong with the response to a request; None if nothing."""
        method = b"GET" if body is None else b"POST"
        length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
        out = self.server.raw(b"%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s%s\r\n%s" %
                              (method, target, length, header, body or b""))
        if not out.startswith(b"HTTP/1.1 ") or int(out[9:12]) not in permitted:
            return f"answered {out[:60]}"
        if SECRET in out or b"root:" in out:
            return f"has bytes of another file: {out[:200]}"
        return "has a header of the client" if b"\nx-injected" in out.partition(b"\r\n\r\n")[0].lower() else None

    def check(self, rows):
        """Rows of (target, permitted statuses, further arguments of problem())."""
        problems = [f"{row[0][:80]}: {problem}" for row in rows if (problem := self.problem(*row))]
        self.assertEqual(problems, [])

    def check_unasked(self, rows):
        """As check(), and nothing is requested from the Hub."""
        self.check(rows)
        self.assertEqual(self.hub.requests(), [])

    def assert_permitted(self, requests):
        """They are for models that an --allow pattern matches."""
        self.assertLessEqual({tuple(request.path.split("/")[:4]) for request in requests}, {("", "api", "models", "org")})

    def test_names_lead_nowhere(self):
        names = [name.replace(b"ORIGIN", self.origin) for name in NAMES]
        self.check_unasked((place % name, REFUSED) for place, name in itertools.product(PATHS, names))
        self.check_unasked((place % TWICE, REFUSED | {502}) for place in PATHS)
        self.check_unasked((place % name, ANSWERED) for place, name in itertools.product(QUERIES, (*names, TWICE, *NUMBERS)))

    def test_dot_segments_stay_in_the_tree(self):
        self.check((place % name, ANSWERED | {301}) for place, name in itertools.product(PATHS, DOTS))
        self.assert_permitted(self.hub.requests())  # "/api/models/org/demo/../secret.txt" is the model org/secret.txt

    def test_ten_thousand_unknown_names(self):
        count = 2_000
        for place in (b"/api/models/org/u%d", b"/api/models/others/u%d", b"/local/u%d/resolve/main/config.json",
                      b"/v2/u%d/manifests/latest", b"/.s3/u-%d/key"):
            requests = [b"GET %s HTTP/1.1\r\nHost: localhost\r\n" % (place % i) for i in range(count)]
            out = self.server.raw(b"\r\n".join(requests), b"Connection: close\r\n\r\n")
            self.assertEqual(out.count(b"HTTP/1.1 404 ") + out.count(b"HTTP/1.1 503 "), count, place)
        self.assertLessEqual(len(self.hub.requests()), MAX_UNKNOWN)
        self.assert_permitted(self.hub.requests())

    def test_floods_of_headers(self):
        self.check_unasked((target, {431}, flood) for target, flood in itertools.product(FLOODED, TOO_MUCH))
        self.check_unasked((target, {200, 206, 304, 400, 401, 403, 404, 416}, field + b"\r\n")
                           for target, field in itertools.product(FLOODED, LONG))

    def test_bodies_of_paths(self):
        for place in (b"/api/models/local/m.safetensors/paths-info/main", b"/api/models/org/demo/paths-info/main"):
            self.check_unasked((place, {200, 400, 413}, b"Content-Type: %s\r\n" % kind, body)
                               for kind in (b"application/json", b"application/x-www-form-urlencoded") for body in BODIES)


if __name__ == "__main__":
    unittest.main()
