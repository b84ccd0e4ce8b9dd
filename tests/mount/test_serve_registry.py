"""`weightfs serve` as a registry: a client that follows the pull category of the OCI distribution-spec, the five steps of
`ollama pull`, skopeo if it is installed, and weightfs itself."""
import hashlib
import json
import os
import shutil
import subprocess
import unittest

from http_serving import HttpServer
from mounting import LIMIT_S, Tensor, TestCase, WEIGHTFS
import artifacts
import stores

DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
LARGE = 3 << 20  # bytes: above what is hashed without a line in the log


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def ollama_agent(**fields):
    return {"User_Agent": "ollama/0.30.0 (amd64 linux) Go/go1.24", **fields}


class Pulling(TestCase):
    def serve(self, *sources, options=()):
        server = HttpServer(*sources, options=options, folder=self.tmp)
        self.addCleanup(server.close)
        return server

    def pull(self, server, name, tag="latest", **fields):
        """The manifest and the blobs of a model, each compared with its digest and size."""
        head = server.get(f"/v2/{name}/manifests/{tag}", method="HEAD", **fields)
        answer = server.get(f"/v2/{name}/manifests/{tag}", **fields)
        self.assertEqual((head.status, answer.status), (200, 200), answer.body)
        self.assertEqual(int(head.headers["Content-Length"]), len(answer.body))
        self.assertEqual(answer.headers["Docker-Content-Digest"], sha256(answer.body))
        manifest = json.loads(answer.body)
        self.assertEqual(answer.headers["Content-Type"], manifest["mediaType"])
        blobs = {}
        for each in [manifest["config"], *manifest["layers"]]:
            path = f"/v2/{name}/blobs/{each['digest']}"
            self.assertEqual(int(server.get(path, method="HEAD").headers["Content-Length"]), each["size"])
            blob = server.get(path).body
            self.assertEqual((sha256(blob), len(blob)), (each["digest"], each["size"]))
            blobs[each["digest"]] = blob
        return answer.body, blobs

    def pull_as_ollama(self, server, name, tag="latest"):
        """server/images.go and server/download.go of Ollama."""
        manifest = server.get(f"/v2/{name}/manifests/{tag}", **ollama_agent(Accept=DOCKER))
        self.assertEqual(manifest.status, 200, manifest.body)
        fields = json.loads(manifest.body)
        blobs = {}
        for each in [fields["config"], *fields["layers"]]:
            path = f"/v2/{name}/blobs/{each['digest']}"
            size = int(server.get(path, method="HEAD", **ollama_agent()).headers["Content-Length"])
            direct = server.get(path, **ollama_agent())
            self.assertEqual(direct.status, 200)
            place = direct.headers["Location"]
            self.assertTrue(place.startswith("/v2/"), place)
            part = max(1, size // 3)
            data = b""
            for begin in range(0, size, part):
                end = min(begin + part, size) - 1
                got = server.get(place, **ollama_agent(Range=f"bytes={begin}-{end}"))
                self.assertEqual((got.status, got.headers["Content-Range"]), (206, f"bytes {begin}-{end}/{size}"))
                data += got.body
            self.assertEqual(sha256(data), each["digest"])
            blobs[each["digest"]] = data
        return manifest.body, blobs


class Published(Pulling):
    def layout(self, tags=("v1", )):
        self.artifacts = [
            artifacts.modelpack(name=tag).add("application/vnd.cncf.model.weight.v1.raw",
                                              stores.gguf(self.tmp, [Tensor(f"{tag}.w", "float32", (4,), b"w" * 16)]), "m.gguf")
            for tag in tags
        ]
        return artifacts.layout(self.path("tiny"), *zip(tags, self.artifacts))

    def test_layout_is_served_byte_for_byte(self):
        server = self.serve(self.layout())
        for reference in ("v1", "latest", sha256(self.artifacts[0].manifest())):
            manifest, blobs = self.pull(server, "tiny", reference)
            self.assertEqual(manifest, self.artifacts[0].manifest())
            self.assertEqual(blobs, self.artifacts[0].blobs)

    def test_layout_with_several_tags(self):
        server = self.serve(self.layout(("v1", "v2")))
        self.assertEqual(json.loads(server.get("/v2/tiny/tags/list").body)["tags"], ["v1", "v2"])
        page = server.get("/v2/tiny/tags/list?n=1")
        self.assertEqual(json.loads(page.body)["tags"], ["v1"])
        self.assertEqual(page.headers["Link"], '</v2/tiny/tags/list?n=1&last=v1>; rel="next"')
        self.assertEqual(self.pull(server, "tiny", "v2")[0], self.artifacts[1].manifest())
        self.assertEqual(server.get("/v2/tiny/manifests/latest").status, 404)

    def test_store_of_ollama_is_served_byte_for_byte(self):
        package = stores.Package().add("model", stores.gguf(self.tmp, [Tensor("w", "float32", (4,), b"w" * 16)]))
        package.add("params", b'{"temperature":0.7}\n')
        store = stores.Store(self.path("models"))
        store.put_package("tiny/1b", package)
        server = self.serve(store.root)
        for pull in (self.pull, self.pull_as_ollama):
            manifest, blobs = pull(server, "library/tiny", "1b")
            self.assertEqual(manifest, package.manifest())
            self.assertEqual(sorted(blobs.values()), sorted(package.blobs.values()))
        self.assertEqual(json.loads(server.get("/v2/library/tiny/tags/list").body)["tags"], ["1b"])


class Made(Pulling):
    def gguf(self):
        data = stores.gguf(self.tmp, [Tensor("token_embd.weight", "float32", (LARGE // 4,), bytes(LARGE))])
        return self.write("Tiny.gguf", data), data

    def test_ollama_pulls_a_gguf_of_the_disk(self):
        path, data = self.gguf()
        manifest, blobs = self.pull_as_ollama(self.serve(path), "library/tiny")
        fields = json.loads(manifest)
        self.assertEqual([each["mediaType"] for each in fields["layers"]], ["application/vnd.ollama.image.model"])
        self.assertEqual(blobs[fields["layers"][0]["digest"]], data)
        config = json.loads(blobs[fields["config"]["digest"]])
        self.assertEqual((config["model_format"], config["model_family"]), ("gguf", "llama"))

    def test_manifest_is_the_same_in_each_process_and_hashed_once(self):
        path, data = self.gguf()
        first = self.serve(path)
        manifest, blobs = self.pull(first, "tiny")
        self.assertIn(data, blobs.values())
        self.assertIn("Tiny.gguf: SHA-256", first.error_text())
        first.close()
        second = self.serve(path)
        self.assertEqual(self.pull(second, "tiny")[0], manifest)
        self.assertNotIn("Tiny.gguf: SHA-256", second.error_text())

    def test_blob_that_nothing_names_is_not_searched_by_hashing(self):
        path, data = self.gguf()
        server = self.serve(path)
        self.assertEqual(server.get(f"/v2/tiny/blobs/sha256:{'0' * 64}", method="HEAD").status, 404)
        self.assertEqual(server.get(f"/v2/tiny/blobs/{sha256(data)}", method="HEAD").status, 404)
        self.assertNotIn("SHA-256", server.error_text())
        self.pull(server, "tiny")
        self.assertEqual(server.get(f"/v2/tiny/blobs/{sha256(data)}", method="HEAD").status, 200)
        server.close()
        later = self.serve(path)
        self.assertEqual(later.get(f"/v2/tiny/blobs/{sha256(data)}", method="HEAD").status, 200, "kept in the cache")

    def test_address_is_printed_for_clients(self):
        path, _ = self.gguf()
        server = self.serve(path)
        self.pull(server, "tiny")
        self.assertIn(f"ollama pull {server.url}library/tiny --insecure", server.error_text())

    def test_weightfs_reads_the_model_again(self):
        path, data = self.gguf()
        server = self.serve(path)
        name = f"oci://127.0.0.1:{server.port}/tiny"
        environment = {**os.environ, "WEIGHTFS_CACHE": self.path("client")}
        for command in (["info", "--insecure"], ["verify"]):
            done = subprocess.run([WEIGHTFS, *command, name], env=environment, capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual(done.returncode, 0, done.stderr)
        got = subprocess.run([WEIGHTFS, "cat", name, "files/Tiny.gguf"], env=environment, capture_output=True, timeout=LIMIT_S)
        self.assertEqual(got.stdout, data)

    def test_skopeo_copies_the_model(self):
        if shutil.which("skopeo") is None:
            self.skipTest("needs skopeo, which reads registries as a client of its own")
        path, data = self.gguf()
        server = self.serve(path)
        subprocess.run(["skopeo", "copy", "--src-tls-verify=false", f"docker://127.0.0.1:{server.port}/tiny:latest",
                        f"oci:{self.path('copy')}:latest"], check=True, timeout=LIMIT_S, capture_output=True)
        with open(self.path("copy", "blobs", "sha256", hashlib.sha256(data).hexdigest()), "rb") as file:
            self.assertEqual(file.read(), data)


class Refusals(Pulling):
    def test_token_is_asked_for_as_registries_do(self):
        server = self.serve(self.sample(), options=("--token-file", self.write("token", b"secret\n")))
        answer = server.get("/v2/")
        self.assertEqual((answer.status, answer.headers["WWW-Authenticate"]), (401, 'Basic realm="weightfs"'))
        self.assertEqual(json.loads(answer.body)["errors"][0]["code"], "UNAUTHORIZED")
        self.assertEqual(server.get("/v2/", Authorization="Bearer secret").status, 200)

    def test_shared_caches_keep_nothing_that_needs_a_token(self):
        """RFC 9111, section 3.5."""
        for options, expected in (((), "public, "), (("--token-file", self.write("token", b"secret\n")), "private, ")):
            server = self.serve(self.sample("m.safetensors"), options=options)
            manifest = json.loads(server.get("/v2/m/manifests/latest", Authorization="Bearer secret").body)
            blob = server.get(f"/v2/m/blobs/{manifest['config']['digest']}", Authorization="Bearer secret")
            self.assertTrue(blob.headers["Cache-Control"].startswith(expected), blob.headers["Cache-Control"])

    def test_pushing_is_not_supported(self):
        answer = self.serve(self.sample()).get("/v2/model/blobs/uploads/", method="POST")
        self.assertEqual((answer.status, json.loads(answer.body)["errors"][0]["code"]), (405, "UNSUPPORTED"))


if __name__ == "__main__":
    unittest.main()
