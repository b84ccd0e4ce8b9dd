"""`weightfs serve --mirror oci=HOST`: repositories of a registry that are looked up when a client asks for them. semantics 29.12

The double of the registry counts what the mirror requests from it.
"""
import base64
import hashlib
import json
import os
import shutil
import subprocess
import unittest
from unittest import mock

from http_serving import HttpServer
from mounting import LIMIT_S, TestCase, at_once, run, until
from artifacts import INDEX, MANIFEST, as_json, digest, modelpack
from containerd import Containerd
from registry_server import RegistryServer
from test_archives import noise

KIB, MIB = 1 << 10, 1 << 20
MAX_UNKNOWN = 64  # serve/mirror/lookups.h
BLOCK = 64 * KIB
SIZE = 24 * MIB   # of the weights: above 8 MiB, they are read by ranges
WEIGHT = "application/vnd.cncf.model.weight.v1.raw"


def safetensors(size):
    """A container of this size with one tensor."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [size - 128], "data_offsets": [0, size - 128]}}).encode().ljust(120)
    return len(header).to_bytes(8, "little") + header + noise(size - 128, seed=5)


class RegistryMirrorTestCase(TestCase):
    def setUp(self):
        super().setUp()
        patch = mock.patch.dict(os.environ)
        patch.start()
        self.addCleanup(patch.stop)
        self.origin = RegistryServer(self)
        self.weights = safetensors(SIZE)
        self.artifact = modelpack().add(WEIGHT, self.weights, "model.safetensors")
        self.origin.push(self.artifact, "library/tiny", "v1")
        self.manifest = self.artifact.manifest()
        self.blob = f"/v2/library/tiny/blobs/{digest(self.weights)}"
        os.mkdir(self.path("server"))

    def serve(self, *options, allow=("library/*",), sources=()):
        """A mirror; a later one has the same cache."""
        words = [word for pattern in allow for word in ("--allow", pattern)]
        server = HttpServer(*sources, folder=self.path("server"), options=("--mirror", f"oci={self.origin.host}", *words, *options))
        self.addCleanup(server.close)
        return server

    def asked(self, text=""):
        """The requests so far whose path contains `text`."""
        return [request for request in self.origin.requests() if text in request.path]

    def received(self):
        """The bytes of the weights that the registry sent."""
        return sum(request.sent for request in self.asked(digest(self.weights)))

    def code(self, server, path):
        answer = server.get(path)
        return answer.status, json.loads(answer.body)["errors"][0]["code"] if answer.status >= 400 else None


class Pulls(RegistryMirrorTestCase):
    def test_clients_of_a_cold_blob_share_one_download(self):
        server = self.serve()
        for manifest, blob in at_once(8, lambda _: (server.get("/v2/library/tiny/manifests/v1").body,
                                                    server.get(self.blob).body)):
            self.assertEqual(manifest, self.manifest)
            self.assertEqual(hashlib.sha256(blob).digest(), hashlib.sha256(self.weights).digest())
        self.assertLessEqual(self.received(), 1.02 * SIZE)
        self.assertEqual(len(self.asked("/manifests/")), 1)

    def test_parts_cost_these_parts(self):
        server = self.serve()
        starts = [i * 3 * MIB + 100 for i in range(8)]
        size = 256 * KIB
        for start in starts:
            part = server.get(self.blob, Range=f"bytes={start}-{start + size - 1}")
            self.assertEqual((part.status, part.body), (206, self.weights[start:start + size]))
        self.assertLessEqual(self.received(), 1.1 * 8 * size + 8 * 2 * BLOCK + BLOCK)

    def test_answers_are_those_of_the_specification(self):
        server = self.serve()
        self.assertEqual(server.get("/v2/").status, 200)
        for reference in ("v1", digest(self.manifest)):
            for method in ("HEAD", "GET"):
                answer = server.get(f"/v2/library/tiny/manifests/{reference}?ns={self.origin.host}", method=method)
                self.assertEqual((answer.status, answer.headers["Docker-Content-Digest"], answer.headers["Content-Type"],
                                  int(answer.headers["Content-Length"])),
                                 (200, digest(self.manifest), MANIFEST, len(self.manifest)))
        head = server.get(self.blob, method="HEAD")
        self.assertEqual((head.status, head.headers["Docker-Content-Digest"], int(head.headers["Content-Length"])),
                         (200, digest(self.weights), SIZE))
        self.assertEqual(self.received(), 0, "a HEAD costs no bytes")

    def test_index_is_served_as_it_is(self):
        index = as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
            {"mediaType": MANIFEST, "digest": digest(self.manifest), "size": len(self.manifest),
             "platform": {"os": "linux", "architecture": "riscv64"}}]})
        self.origin.blobs[digest(index)] = index
        self.origin.tags["library/tiny", "all"] = digest(index)
        server = self.serve()
        answer = server.get("/v2/library/tiny/manifests/all")
        self.assertEqual((answer.body, answer.headers["Content-Type"]), (index, INDEX))
        self.assertEqual(server.get(f"/v2/library/tiny/manifests/{digest(self.manifest)}").body, self.manifest)

    def test_weightfs_reads_through_the_mirror(self):
        server = self.serve()
        name = f"oci://{self.origin.host}/library/tiny@{digest(self.manifest)}"
        self.assertEqual(hashlib.sha256(server.get(self.blob).body).digest(), hashlib.sha256(self.weights).digest())
        before = len(self.asked("/blobs/"))
        done = run("cat", "--mirror", server.url.rstrip("/"), name, "files/model.safetensors", text=False)
        self.assertEqual((done.returncode, done.stdout == self.weights), (0, True), done.stderr)
        layer = [request for request in self.asked("/blobs/")[before:] if digest(self.weights) in request.path]
        self.assertEqual(layer, [], "the client has the layer from the mirror")

    def test_models_are_served_beside_the_mirror(self):
        server = self.serve(sources=(self.sample("m.safetensors"),))
        self.assertEqual(server.get("/v2/m/manifests/latest").status, 200)
        self.assertEqual(server.get("/v2/library/tiny/manifests/v1").body, self.manifest)

    def test_skopeo_copies_through_the_mirror(self):
        if shutil.which("skopeo") is None:
            self.skipTest("needs skopeo, which reads registries as a client of its own")
        server = self.serve()
        subprocess.run(["skopeo", "copy", "--src-tls-verify=false", f"docker://127.0.0.1:{server.port}/library/tiny:v1",
                        f"oci:{self.path('copy')}:v1"], check=True, timeout=LIMIT_S, capture_output=True)
        with open(self.path("copy", "blobs", *digest(self.weights).split(":")), "rb") as file:
            self.assertEqual(file.read(), self.weights)

    def test_containerd_uses_it_as_a_mirror_of_the_registry(self):
        containerd = Containerd(self)
        server = self.serve()
        hosts = self.path("hosts", self.origin.host)
        os.makedirs(hosts)
        with open(os.path.join(hosts, "hosts.toml"), "w") as file:
            file.write(f'server = "http://127.0.0.1:9"\n[host."{server.url.rstrip("/")}"]\n  capabilities = ["pull", "resolve"]\n')
        containerd.ctr("content", "fetch", "--hosts-dir", self.path("hosts"), f"{self.origin.host}/library/tiny:v1")
        self.assertEqual(digest(containerd.ctr("content", "get", digest(self.weights))), digest(self.weights))
        self.assertLessEqual(self.received(), 1.02 * SIZE)


class Outages(RegistryMirrorTestCase):
    def test_tag_moves_after_the_ttl(self):
        server = self.serve("--mirror-ttl", "1")
        self.assertEqual(server.get("/v2/library/tiny/manifests/v1").body, self.manifest)
        other = modelpack(revision="later").add(WEIGHT, b"other", "model.safetensors")
        self.origin.push(other, "library/tiny", "v1")
        until(lambda: server.get("/v2/library/tiny/manifests/v1").body == other.manifest(), "the new manifest is not served")
        self.assertEqual(server.get(f"/v2/library/tiny/manifests/{digest(self.manifest)}").body, self.manifest)

    def test_cached_repository_is_served_while_the_origin_is_down(self):
        server = self.serve("--mirror-ttl", "1")
        whole = hashlib.sha256(self.weights).digest()
        self.assertEqual(server.get("/v2/library/tiny/manifests/v1").body, self.manifest)
        self.assertEqual(hashlib.sha256(server.get(self.blob).body).digest(), whole)
        self.origin.server.close()
        until(lambda: server.get("/v2/library/tiny/manifests/v1").body == self.manifest
              and "which the origin sent" in server.error_text(), server.error_text)
        server.close()
        server = self.serve()
        self.assertEqual(server.get("/v2/library/tiny/manifests/v1").body, self.manifest)
        self.assertEqual(hashlib.sha256(server.get(self.blob).body).digest(), whole)
        new = server.get("/v2/library/new/manifests/v1")
        self.assertEqual((new.status, bool(new.headers["Retry-After"])), (429, True), new.body)

    def test_wrong_bytes_are_no_complete_response(self):
        config = next(name for name in self.artifact.blobs if name != digest(self.weights))
        right = self.artifact.blobs[config]
        self.origin.blobs[digest(self.weights)] = self.weights[:-1] + bytes([self.weights[-1] ^ 1])
        self.origin.blobs[config] = right[:-1] + b"!"
        self.origin.blobs[digest(self.manifest)] = self.manifest + b" "
        server = self.serve()
        self.assertEqual(server.get(f"/v2/library/tiny/manifests/{digest(self.manifest)}").status, 502)
        self.assertEqual(server.get("/v2/library/tiny/manifests/v1").status, 502)
        for _ in range(2):
            whole = server.get(self.blob)
            self.assertFalse(whole.status == 200 and whole.complete)
            self.assertEqual(server.get(f"/v2/library/tiny/blobs/{config}").status, 502)
        self.origin.blobs.update({digest(self.weights): self.weights, config: right})
        self.assertEqual(hashlib.sha256(server.get(self.blob).body).digest(), hashlib.sha256(self.weights).digest())
        self.assertEqual(server.get(f"/v2/library/tiny/blobs/{config}").body, right)


class Access(RegistryMirrorTestCase):
    def test_other_names_cost_no_request(self):
        server = self.serve(allow=("library/tiny",))
        for path in ("/v2/other/tiny/manifests/v1", "/v2/library/tiny2/manifests/v1", "/v2/library/manifests/v1",
                     f"/v2/library/other/blobs/{digest(b'x')}", "/v2/library/tiny/manifests/v1?ns=other.example",
                     "/v2/Library/Tiny/manifests/v1"):
            self.assertEqual(self.code(server, path), (404, "NAME_UNKNOWN"), path)
        for path in ("/v2/library/%2e%2e/library/tiny/manifests/v1", "/v2/library/tiny%2f..%2fx/manifests/v1",
                     f"/v2/http:%2f%2f{self.origin.host}%2fx/manifests/v1", "/v2/library/tiny/manifests/%2e%2e",
                     "/v2/library/tiny/manifests/v1%3fx", "/v2/library/tiny/tags/list", "/v2/_catalog"):
            self.assertIn(server.get(path).status, (400, 404), path)
        self.assertEqual(self.asked(), [])

    def test_unknown_names_cost_a_bounded_number_of_requests(self):
        server = self.serve("--mirror-ttl", "3600")
        self.assertEqual(server.get("/v2/library/tiny/manifests/v1").status, 200)
        before = len(self.asked())
        seen = {self.code(server, f"/v2/library/unknown-{i}/manifests/v1") for i in range(500)}
        self.assertEqual(seen, {(404, "NAME_UNKNOWN"), (429, "TOOMANYREQUESTS")})
        self.assertLessEqual(len(self.asked()) - before, MAX_UNKNOWN)
        self.assertEqual(server.get("/v2/library/tiny/manifests/v1").status, 200)

    def test_login_is_that_of_the_server(self):
        self.origin.logins = [("anna", "secret")]
        entry = {"auth": base64.b64encode(b"anna:secret").decode()}
        os.environ["REGISTRY_AUTH_FILE"] = self.write("auth.json", json.dumps({"auths": {self.origin.host: entry}}).encode())
        server = self.serve()
        forged = "Basic " + base64.b64encode(b"client:password").decode()
        answer = server.get("/v2/library/tiny/manifests/v1", Authorization=forged)
        self.assertEqual((answer.status, answer.body), (200, self.manifest))
        self.assertEqual(hashlib.sha256(server.get(self.blob).body).digest(), hashlib.sha256(self.weights).digest())
        self.assertNotIn(forged, {request.authorization for request in self.asked()})

    def test_repository_without_access_is_refused(self):
        self.origin.logins = []
        server = self.serve()
        for _ in range(3):
            self.assertEqual(self.code(server, "/v2/library/tiny/manifests/v1"), (403, "DENIED"))
        self.assertLessEqual(len(self.asked("/manifests/")), 2, "the refusal is remembered")

    def test_token_file_is_for_clients(self):
        server = self.serve("--token-file", self.write("token", b"secret\n"))
        self.assertEqual(self.code(server, "/v2/library/tiny/manifests/v1"), (401, "UNAUTHORIZED"))
        self.assertEqual(self.asked(), [])
        self.assertEqual(server.get("/v2/library/tiny/manifests/v1", Authorization="Bearer secret").body, self.manifest)
        self.assertEqual({request.authorization for request in self.asked()}, {""})


if __name__ == "__main__":
    unittest.main()
