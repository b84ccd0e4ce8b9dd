"""`weightfs serve --mirror hf=URL`: models of a Hub that are looked up when a client asks for them. semantics 29.12

The double of the Hub counts what the mirror requests from it, and from its CDN.
"""
import hashlib
import http.client
import os
import signal
import unittest
import urllib.request

from http_serving import HttpServer
from mounting import LIMIT_S, at_once, run, until
from hub_server import git_id
from scripted_server import Server
from test_archives import noise
from test_hub import HubTestCase, KIB, MIB, TOKEN
from test_serve_hub import Client

MAX_UNKNOWN = 64  # serve/hub/mirror.h
BLOCK = 64 * KIB
SIZE = 24 * MIB   # of the weights: above 8 MiB, they are read by ranges


class MirrorTestCase(HubTestCase):
    def setUp(self):
        super().setUp()
        self.weights = noise(SIZE, seed=5)
        self.config = b'{"hidden_size": 4}\n'
        self.repository = self.hub.add("org/demo", {"model.safetensors": self.weights, "config.json": self.config,
                                                    "sub/vocab.txt": noise(200 * KIB, seed=77)})
        self.commit = self.repository.revisions["main"]
        os.mkdir(self.path("server"))

    def serve(self, *options, allow=("org/*",), sources=()):
        """A mirror; a later one has the same cache."""
        words = [word for pattern in allow for word in ("--allow", pattern)]
        server = HttpServer(*sources, folder=self.path("server"), options=("--mirror", f"hf={self.hub.url}", *words, *options))
        self.addCleanup(server.close)
        self.client = Client(server.url)
        return server

    def file(self, path, revision="main", id="org/demo"):
        return self.client.download(id, revision, path)

    def received(self):
        """The bytes of model.safetensors that the CDN sent."""
        return self.hub.bytes("cdn")


class Fleet(MirrorTestCase):
    def test_clients_of_a_cold_file_share_one_download(self):
        self.serve()
        for content in at_once(8, lambda _: self.file("model.safetensors")):
            self.assertEqual(hashlib.sha256(content).digest(), hashlib.sha256(self.weights).digest())
        self.assertLessEqual(self.received(), 1.02 * SIZE)
        self.assertEqual(len(self.hub.requests("hub", "/revision/")), 1)
        self.assertEqual(len(self.hub.requests("hub", "/tree/")), 1)

    def test_clients_of_parts_cost_these_parts(self):
        self.serve()
        size = 256 * KIB
        starts = [i * 3 * MIB + 100 for i in range(8)]

        def part(i):
            with self.client.request("/org/demo/resolve/main/model.safetensors",
                                     Range=f"bytes={starts[i]}-{starts[i] + size - 1}") as response:
                self.assertEqual(response.status, 206)
                return response.read()
        for _ in range(2):
            for i, content in enumerate(at_once(8, part)):
                self.assertEqual(content, self.weights[starts[i]:starts[i] + size])
        self.assertLessEqual(self.received(), 1.1 * 8 * size + 8 * 2 * BLOCK + BLOCK)

    def test_answers_have_the_digests_of_the_origin(self):
        self.serve()
        info = self.client.model_info("org/demo")
        self.assertEqual((info["id"], info["sha"]), ("org/demo", self.commit))
        tree = self.client.tree("org/demo", self.commit)
        self.assertEqual({path for path, entry in tree.items() if entry["type"] == "file"}, set(self.repository.files()))
        for path, file in self.repository.files().items():
            found = tree[path]["lfs"]["oid"] if file.is_lfs else tree[path]["oid"]
            self.assertEqual(found, file.sha256 if file.is_lfs else file.oid)
            self.assertEqual(self.client.metadata("org/demo", "main", path), (self.commit, found, len(file.content)))
        self.assertEqual(self.received(), 0, "metadata costs no bytes of a file")

    def test_weightfs_reads_through_the_mirror(self):
        _, written = self.publish(id="org/model", count=3, size=4 * MIB)
        server = self.serve()
        os.environ["HF_ENDPOINT"] = server.url
        for tensor in written:
            done = run("cat", "hf://org/model", tensor.name, text=False)
            self.assertEqual((done.returncode, done.stdout), (0, tensor.data), done.stderr)
        done = run("verify", "hf://org/model")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.failure("info", "hf://other/model", status=3)

    def test_models_are_served_beside_the_mirror(self):
        server = self.serve(sources=(self.sample("m.safetensors"),))
        self.assertEqual(self.client.model_info("local/m.safetensors")["id"], "local/m.safetensors")
        self.assertEqual(self.file("config.json"), self.config)
        self.assertEqual(server.get("/tensors/").status, 200)


class Revisions(MirrorTestCase):
    def test_branch_moves_after_the_ttl(self):
        self.serve("--mirror-ttl", "1")
        self.assertEqual(self.file("config.json"), self.config)
        self.repository.commit({"config.json": b"{}"})
        until(lambda: self.file("config.json") == b"{}", "the new commit is not served")
        self.assertEqual(self.file("config.json", self.commit), self.config)

    def test_commit_is_requested_once(self):
        self.serve("--mirror-ttl", "1")
        self.assertEqual(self.file("config.json", self.commit), self.config)

        def has_ttl_passed():
            self.file("config.json")
            return len(self.hub.requests("hub", "/revision/main")) > 1
        until(has_ttl_passed, "the branch is not requested again")
        self.assertEqual(self.file("config.json", self.commit), self.config)
        self.assertEqual(len(self.hub.requests("hub", f"/revision/{self.commit}")), 1)

    def test_renamed_repository_keeps_its_name(self):
        self.hub.renamed["org/old"] = "org/demo"
        self.serve(allow=("org/old",))
        self.assertEqual(self.client.model_info("org/old")["id"], "org/old")
        self.assertEqual(self.file("config.json", id="org/old"), self.config)
        self.assertEqual(self.client.code("/api/models/org/demo"), (404, "RepoNotFound"))


class Outages(MirrorTestCase):
    def test_cached_files_are_served_while_the_origin_is_down(self):
        server = self.serve("--mirror-ttl", "1")
        self.assertEqual(self.file("config.json"), self.config)
        self.assertEqual(hashlib.sha256(self.file("model.safetensors")).digest(), hashlib.sha256(self.weights).digest())
        self.hub.stop()
        until(lambda: self.file("config.json") == self.config and "which the origin sent" in server.error_text(),
              server.error_text)
        server.close()
        server = self.serve()
        self.assertEqual(self.file("config.json"), self.config)
        self.assertEqual(hashlib.sha256(self.file("model.safetensors")).digest(), hashlib.sha256(self.weights).digest())
        self.assertIn("to an earlier process", server.error_text())
        with self.client.request("/org/demo/resolve/main/sub/vocab.txt") as response:
            self.assertEqual((response.status, bool(response.headers["Retry-After"])), (503, True), response.read())
        with self.client.request("/api/models/org/new") as response:
            self.assertEqual((response.status, bool(response.headers["Retry-After"])), (503, True), response.read())

    def test_killed_mirror_resumes(self):
        server = self.serve()
        connection = http.client.HTTPConnection(server.host, server.port, timeout=LIMIT_S)
        self.addCleanup(connection.close)
        connection.request("GET", "/org/demo/resolve/main/model.safetensors")
        half = connection.getresponse().read(SIZE // 2)
        self.assertEqual(half, self.weights[:SIZE // 2])
        server.close(signal.SIGKILL)
        before = self.received()
        self.serve()
        self.assertEqual(hashlib.sha256(self.file("model.safetensors")).digest(), hashlib.sha256(self.weights).digest())
        # The blocks that were being received at the end are requested again; those that a client got are not.
        self.assertLessEqual(self.received() - before, SIZE - len(half) + MIB)

    def test_wrong_bytes_are_no_complete_response(self):
        file = self.repository.files()["model.safetensors"]
        small = self.repository.files()["config.json"]
        file.sent = self.weights[:-1] + bytes([self.weights[-1] ^ 1])
        small.sent = self.config[:-2] + b"x\n"
        server = self.serve()
        for _ in range(2):
            whole = server.get("/org/demo/resolve/main/model.safetensors")
            self.assertFalse(whole.status == 200 and whole.complete)
            self.assertEqual(server.get("/org/demo/resolve/main/config.json").status, 502)
        file.sent, small.sent = self.weights, self.config
        self.assertEqual(hashlib.sha256(self.file("model.safetensors")).digest(), hashlib.sha256(self.weights).digest())
        self.assertEqual(self.file("config.json"), self.config)


class Access(MirrorTestCase):
    def test_other_names_cost_no_request(self):
        server = self.serve(allow=("org/demo",))
        for path in ("/api/models/other/demo", "/other/demo/resolve/main/config.json", "/api/models/org/demo2",
                     "/org/demo-/resolve/main/config.json", "/org/de--mo/resolve/main/x", "/datasets/demo/resolve/main/x",
                     "/org/demo/resolve/a..b/config.json"):
            status, code = self.client.code(path)
            self.assertEqual(status, 404, path)
            self.assertIn(code, ("RepoNotFound", "RevisionNotFound"), path)
        for path in ("/org/%2e%2e/resolve/main/x", "/../org/x/resolve/main/y", "/org/demo%2f..%2fx/resolve/main/y",
                     f"/http:%2f%2f{self.hub.url[7:]}/x/resolve/main/y"):
            self.assertIn(server.get(path).status, (400, 404), path)
        self.assertEqual(self.hub.requests(), [])

    def test_unknown_names_cost_a_bounded_number_of_requests(self):
        self.serve("--mirror-ttl", "3600")
        self.assertEqual(self.file("config.json"), self.config)
        self.hub.forget()
        seen = {self.client.code(f"/api/models/org/unknown-{i}") for i in range(1000)}
        self.assertEqual(seen, {(404, "RepoNotFound"), (503, None)})
        self.assertLessEqual(len(self.hub.requests()), MAX_UNKNOWN)
        self.assertEqual(self.file("config.json"), self.config)

    def test_token_is_that_of_the_server(self):
        self.repository.gated = "manual"
        self.hub.tokens[TOKEN] = ["org/demo"]
        os.environ["HF_TOKEN"] = TOKEN
        self.serve()
        self.client.fields = {"Authorization": "Bearer hf_ofTheClient"}
        self.assertEqual(self.file("config.json"), self.config)
        self.assertEqual(hashlib.sha256(self.file("model.safetensors")).digest(), hashlib.sha256(self.weights).digest())
        self.assertEqual({request.authorization for request in self.hub.requests("hub")}, {f"Bearer {TOKEN}"})
        self.assertEqual({request.authorization for request in self.hub.requests("cdn")}, {""})

    def test_gated_repository_without_access_is_refused(self):
        self.repository.gated = "manual"
        self.serve()
        for _ in range(3):
            self.assertEqual(self.client.code("/org/demo/resolve/main/config.json"), (403, "GatedRepo"))
        self.assertEqual(len(self.hub.requests("hub", "/tree/")), 1, "the refusal is remembered")

    def test_redirect_to_another_server_gets_no_token(self):
        other = Server(self, lambda request: (200, {"Content-Type": "application/json"}, b"[]"))
        answer = self.hub.answer

        def redirected(request):
            if "/org/far/" in request.path:
                return 307, {"Location": other.origin + request.target}, b""
            return answer(request)
        self.hub.servers["hub"].script = redirected
        os.environ["HF_TOKEN"] = TOKEN
        self.serve()
        with self.client.request("/api/models/org/far") as response:
            self.assertEqual(response.status, 502)
        self.assertEqual([request.authorization for request in self.hub.requests()], [f"Bearer {TOKEN}"])
        self.assertEqual([request.authorization for request in other.requests()], [""])

    def test_token_file_is_for_clients(self):
        token = self.write("token", b"hf_secret\n")
        server = self.serve("--token-file", token)
        self.assertEqual(self.client.code("/api/models/org/demo")[0], 401)
        self.assertEqual(self.hub.requests(), [])
        self.assertEqual(Client(server.url, "hf_secret").model_info("org/demo")["sha"], self.commit)

    def test_options_are_checked(self):
        for argv, text in ((["--mirror", f"hf={self.hub.url}"], "use --allow"), ([], "missing SOURCE"),
                           (["--mirror", "oci=https://registry.example"], "use --allow"),
                           (["--mirror", "s3=https://store.example"], "use --allow"),
                           (["--allow", "*", self.sample("m.safetensors")], "use --mirror hf=URL")):
            self.assertIn(text, self.failure("serve", "--listen", "127.0.0.1:0", *argv, status=2))

    def test_small_files_are_compared_by_their_git_id(self):
        self.serve()
        with urllib.request.urlopen(self.client.endpoint + "/org/demo/resolve/main/config.json", timeout=LIMIT_S) as response:
            self.assertEqual(response.headers["ETag"].strip('"'), git_id(self.config))
            self.assertEqual(response.read(), self.config)


if __name__ == "__main__":
    unittest.main()
