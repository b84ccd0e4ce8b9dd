"""`weightfs serve --mirror s3=URL`: objects of a store that are looked up when a client asks for them. semantics 29.13

The double of the store verifies signatures, and counts what the mirror requests from it.
"""
import hashlib
import json
import os
import threading
import unittest
from unittest import mock

from http_serving import HttpServer
from mounting import TestCase, run, until
from s3_server import KEY_ID, REGION, SECRET, S3Server
from test_archives import noise
from test_serve_s3 import NAMES, Client, code_of

KIB, MIB = 1 << 10, 1 << 20
MAX_UNKNOWN = 64  # serve/mirror/lookups.h
BLOCK = 64 * KIB
SIZE = 24 * MIB
KEY = "llama/model.safetensors"


def safetensors(size):
    """A container of this size with one tensor."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [size - 128], "data_offsets": [0, size - 128]}}).encode().ljust(120)
    return len(header).to_bytes(8, "little") + header + noise(size - 128, seed=5)


class S3MirrorTestCase(TestCase):
    def setUp(self):
        super().setUp()
        patch = mock.patch.dict(os.environ)
        patch.start()
        self.addCleanup(patch.stop)
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ.update(AWS_EC2_METADATA_DISABLED="true", AWS_ACCESS_KEY_ID=KEY_ID, AWS_SECRET_ACCESS_KEY=SECRET,
                          AWS_REGION=REGION)
        self.store = S3Server(self)
        self.weights = safetensors(SIZE)
        self.store.put("models", KEY, self.weights)
        self.store.put("models", "llama/config.json", b'{"model_type": "llama"}')
        self.store.put("models", "llama/sub/a b & c+d.txt", b"spaces")
        self.store.put("models", "other/secret.txt", b"secret")
        self.store.put("private", "x", b"private")
        os.mkdir(self.path("server"))

    def serve(self, *options, allow=("models/llama/*",), sources=()):
        """A mirror; a later one has the same cache."""
        words = [word for pattern in allow for word in ("--allow", pattern)]
        server = HttpServer(*sources, folder=self.path("server"), options=("--mirror", f"s3={self.store.url}", *words, *options))
        self.addCleanup(server.close)
        return server

    def received(self, key=KEY):
        """The bytes of an object that the store sent."""
        return sum(request.sent for request in self.store.requests() if request.path == f"/models/{key}")

    def has_all(self, response):
        return response.status == 200 and hashlib.sha256(response.body).digest() == hashlib.sha256(self.weights).digest()


class Reads(S3MirrorTestCase):
    def test_clients_of_a_cold_object_share_one_download(self):
        client = Client(self.serve())
        results = [None] * 8

        def read(i):
            results[i] = self.has_all(client.ask(f"/models/{KEY}"))
        threads = [threading.Thread(target=read, args=(i,)) for i in range(len(results))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [True] * len(results))
        self.assertLessEqual(self.received(), 1.02 * SIZE)

    def test_parts_cost_these_parts(self):
        client = Client(self.serve())
        starts, size = [i * 3 * MIB + 100 for i in range(8)], 256 * KIB
        for start in starts:
            part = client.ask(f"/models/{KEY}", Range=f"bytes={start}-{start + size - 1}")
            self.assertEqual((part.status, part.body == self.weights[start:start + size]), (206, True))
        self.assertLessEqual(self.received(), 1.1 * 8 * size + 8 * 2 * BLOCK + BLOCK)

    def test_fields_are_those_of_the_origin(self):
        client = Client(self.serve())
        head = client.ask(f"/models/{KEY}", "HEAD")
        stored = self.store.buckets["models"][KEY]
        self.assertEqual((head.status, head.headers["ETag"], int(head.headers["Content-Length"]), head.headers["Last-Modified"]),
                         (200, stored.etag, SIZE, "Fri, 02 Jan 2026 03:04:05 GMT"))
        self.assertLessEqual(self.received(), 16 * KIB, "a HEAD costs the first bytes")
        self.assertEqual(client.ask(f"/models/{KEY}", If_None_Match=stored.etag).status, 304)
        self.assertEqual(code_of(client.ask(f"/models/{KEY}", If_Match='"other"')), (412, "PreconditionFailed"))
        self.assertEqual(code_of(client.ask(f"/models/{KEY}", Range=f"bytes={SIZE}-")), (416, "InvalidRange"))
        self.assertEqual(client.ask("/models/llama/sub/a b & c+d.txt").body, b"spaces")

    def test_lists_have_the_objects_below_a_permitted_prefix(self):
        client = Client(self.serve())
        self.store.page = 2
        expected = {KEY: SIZE, "llama/config.json": 23, "llama/sub/a b & c+d.txt": 6}
        for size in (1, 2, 1000):
            self.assertEqual(client.list("models", size, prefix="llama/"), (expected, []))
            keys, prefixes = client.list("models", size, prefix="llama/", delimiter="/")
            self.assertEqual((set(keys), prefixes), ({KEY, "llama/config.json"}, ["llama/sub/"]))
        first = client.xml("/models", prefix="llama/", **{"max-keys": "1"})
        self.assertEqual(first.findtext(f"{NAMES}NextMarker"), "llama/config.json")
        self.assertEqual(first.findtext(f"{NAMES}Contents/{NAMES}ETag"), self.store.buckets["models"]["llama/config.json"].etag)
        self.assertEqual(client.list("models", 10, prefix="llama/none/"), ({}, []))
        lists = [request for request in self.store.requests() if request.query.get("prefix") == "llama/"]
        self.assertEqual(len(lists), 2, "two pages of the origin, once")

    def test_weightfs_reads_through_the_mirror(self):
        server = self.serve()
        os.environ.update(AWS_ENDPOINT_URL=f"{server.url}.s3", WEIGHTFS_CACHE=self.path("cache"))
        for source in (f"s3://models/{KEY}", "s3://models/llama/", "s3://models/llama"):
            done = run("cat", source, "files/model.safetensors", text=False)
            self.assertEqual((done.returncode, done.stdout == self.weights), (0, True), done.stderr)
        self.assertLessEqual(self.received(), 1.02 * SIZE)

    def test_models_are_served_beside_the_mirror(self):
        client = Client(self.serve(sources=(self.sample("m.safetensors"),)))
        self.assertEqual([each.text for each in client.xml("/").iter(f"{NAMES}Name")], ["m-safetensors"])
        self.assertEqual(client.ask("/m-safetensors", "HEAD").status, 200)
        self.assertTrue(self.has_all(client.ask(f"/models/{KEY}")))

    def test_line_for_clients_is_printed(self):
        server = self.serve()
        self.assertIn(f"export AWS_ENDPOINT_URL={server.url}.s3", server.error_text().splitlines())


class Outages(S3MirrorTestCase):
    def test_replaced_object_is_seen_after_the_ttl(self):
        client = Client(self.serve("--mirror-ttl", "1"))
        self.assertTrue(self.has_all(client.ask(f"/models/{KEY}")))
        self.assertEqual(len(client.list("models", 1000, prefix="llama/")[0]), 3)
        self.store.put("models", KEY, b"other bytes")
        self.store.put("models", "llama/new.txt", b"new")
        until(lambda: client.ask(f"/models/{KEY}").body == b"other bytes", "the new object is not served")
        until(lambda: len(client.list("models", 1000, prefix="llama/")[0]) == 4, "the new object is not listed")

    def test_cached_objects_are_served_while_the_origin_is_down(self):
        options = ("--mirror-ttl", "1", "--retries", "0")
        server = self.serve(*options)
        client = Client(server)
        self.assertTrue(self.has_all(client.ask(f"/models/{KEY}")))
        listed = client.list("models", 1000, prefix="llama/")
        self.store.stop()
        until(lambda: self.has_all(client.ask(f"/models/{KEY}")) and client.list("models", 1000, prefix="llama/") == listed
              and server.error_text().count("which the origin sent") >= 2, server.error_text)
        server.close()
        client = Client(self.serve(*options))
        self.assertTrue(self.has_all(client.ask(f"/models/{KEY}")))
        self.assertEqual(client.list("models", 1000, prefix="llama/"), listed)
        self.assertIn(client.ask("/models/llama/new.txt").status, (503, 504))

    def test_object_that_is_replaced_while_it_is_read_is_not_mixed(self):
        client = Client(self.serve("--mirror-ttl", "3600"))
        self.assertEqual(client.ask(f"/models/{KEY}", Range="bytes=0-9").body, self.weights[:10])
        self.store.put("models", KEY, self.weights[:-1] + bytes([self.weights[-1] ^ 1]))
        part = client.ask(f"/models/{KEY}", Range=f"bytes={SIZE - 10}-")
        self.assertNotEqual(part.status, 206, "bytes of another version")


class Access(S3MirrorTestCase):
    def test_other_names_cost_no_request(self):
        client = Client(self.serve())
        for path, expected in (("/private/x", (404, "NoSuchBucket")), ("/private", (404, "NoSuchBucket")),
                               ("/models/other/secret.txt", (404, "NoSuchKey")), ("/models/llama", (404, "NoSuchKey")),
                               ("/models/llama/../other/secret.txt", (404, "NoSuchKey")),
                               ("/models/llama//x", (404, "NoSuchKey")), ("/models", (403, "AccessDenied"))):
            self.assertEqual(code_of(client.ask(path)), expected, path)
        for prefix in ("other/", "", "lla", "llama/../"):
            self.assertEqual(code_of(client.ask("/models", parameters={"prefix": prefix, "list-type": "2"})), (403, "AccessDenied"))
        for path in ("/.s3/models/llama/%2e%2e/other/secret.txt", "/.s3/models/llama%2f..%2fother%2fsecret.txt",
                     "/.s3/..%2fprivate/x", "/.s3/models%2fllama/x", "/.s3/http:%2f%2f127.0.0.1%2fx/y",
                     "/.s3/models/llama/x%00", "/.s3/models/llama/..%5cother%5csecret.txt"):
            self.assertIn(client.server.get(path).status, (400, 403, 404), path)
        self.assertEqual([request.path for request in self.store.requests()], [])

    def test_unknown_names_cost_a_bounded_number_of_requests(self):
        client = Client(self.serve("--mirror-ttl", "3600"))
        self.assertTrue(self.has_all(client.ask(f"/models/{KEY}")))
        before = len(self.store.requests())
        seen = {code_of(client.ask(f"/models/llama/unknown-{i}")) for i in range(300)}
        self.assertEqual(seen, {(404, "NoSuchKey"), (503, "SlowDown")})
        for i in range(300):
            client.ask("/models", parameters={"prefix": f"llama/unknown-{i}/"})
        self.assertLessEqual(len(self.store.requests()) - before, 2 * MAX_UNKNOWN)
        self.assertTrue(self.has_all(client.ask(f"/models/{KEY}")))

    def test_keys_are_those_of_the_server(self):
        client = Client(self.serve(), "the secret of a client")
        self.assertTrue(self.has_all(client.ask(f"/models/{KEY}")))
        signed = {request.headers["authorization"].split("/")[0] for request in self.store.requests()}
        self.assertEqual(signed, {f"AWS4-HMAC-SHA256 Credential={KEY_ID}"})

    def test_store_without_access_is_refused(self):
        os.environ["AWS_SECRET_ACCESS_KEY"] = "another"
        client = Client(self.serve())
        for _ in range(3):
            self.assertEqual(code_of(client.ask(f"/models/{KEY}")), (403, "AccessDenied"))

    def test_token_or_access_key_is_needed(self):
        keys = self.write("s3.keys", f"{KEY_ID} client-secret\n".encode())
        os.chmod(keys, 0o600)
        server = self.serve("--token-file", self.write("token", b"t0ken\n"), "--s3-keys", keys)
        for client in (Client(server), Client(server, "wrong")):
            self.assertEqual(client.ask(f"/models/{KEY}").status, 403)
            self.assertEqual(client.ask("/models", parameters={"prefix": "llama/"}).status, 403)
        self.assertEqual(self.store.requests(), [])
        self.assertTrue(self.has_all(Client(server, "client-secret").ask(f"/models/{KEY}")))
        self.assertTrue(self.has_all(server.get(f"/.s3/models/{KEY}", Authorization="Bearer t0ken")))


if __name__ == "__main__":
    unittest.main()
