"""The URL of `weightfs serve` as a SOURCE, and directories on other web servers. semantics 21.1"""
import json
import os
import unittest

from http_serving import HttpServer
from mounting import MountTestCase, Tensor, run
from scripted_server import Server, correct, responds
from test_archives import noise
import stores

SIZE = 300_000


class ServedTree(MountTestCase):
    def serve(self, *sources, **options):
        server = HttpServer(*sources, folder=self.path("server"), **options)
        self.addCleanup(server.close)
        return server

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("server"))

    def test_served_model_is_opened_by_its_files(self):
        source = self.sample(metadata={"note": "served"})
        url = self.serve(source).url
        done = run("info", "--json", url)
        self.assertEqual(done.returncode, 0, done.stderr)
        expected, found = json.loads(run("info", "--json", source).stdout), json.loads(done.stdout)
        for key in ("format", "tensors", "metadata"):
            self.assertEqual(found[key], expected[key])
        self.assertEqual(run("stats", url).stdout, run("stats", source).stdout)
        self.assertEqual(run("cat", url, "bias", text=False).stdout, run("cat", source, "bias", text=False).stdout)
        done = run("diff", source, url)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        point = self.mount(url)
        with open(os.path.join(point, "tensors", "bias"), "rb") as file:
            self.assertEqual(file.read(), run("cat", source, "bias", text=False).stdout)

    def test_directory_of_models_and_a_model_in_it(self):
        os.makedirs(self.path("models/repo"))
        self.sample("models/a b.safetensors")
        self.sample("models/c.gguf", format="gguf")
        self.sample("models/repo/model.safetensors")
        self.write("models/repo/config.json", b'{"model_type": "llama", "num_hidden_layers": 2}')
        url = self.serve(self.path("models")).url
        listed = {line.split("\t")[0]: line.split("\t")[1] for line in run("info", url).stdout.splitlines()[1:]}
        self.assertEqual(listed, {"a b.safetensors": "safetensors", "c.gguf": "gguf", "repo": "safetensors"})
        done = run("info", "--json", url + "a%20b.safetensors/")
        self.assertEqual((done.returncode, json.loads(done.stdout)["format"]), (0, "safetensors"), done.stderr)
        found = json.loads(run("info", "--json", url + "repo/").stdout)
        self.assertEqual(found["summary"]["architecture"], "llama")
        self.assertEqual(run("ls", url, "c.gguf").stdout, run("ls", self.path("models/c.gguf")).stdout)

    def test_directory_without_a_model_and_other_servers_are_refused(self):
        url = self.serve(self.sample()).url
        for path in ("tensors/", "tensors/encoder/"):
            done = run("info", url + path)
            self.assertEqual((done.returncode, done.stdout), (4, ""))
            self.assertEqual(done.stderr, f"weightfs: {url}{path}: is a directory of the model {url}; name the model\n")

    def test_server_with_a_token_is_refused(self):
        self.write("token", b"secret\n")
        url = self.serve(self.sample(), options=("--token-file", self.path("token"))).url
        done = run("info", url)
        self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
        self.assertIn("401", done.stderr)
        done = run("info", "--source-token-file", self.write("other", b"guessed\n"), url)
        self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
        self.assertIn(f"401 Unauthorized (with the token of {self.path('other')})", done.stderr)

    def test_server_with_a_token_is_a_source(self):
        token = self.write("token", b"secret\n")
        source = self.sample()
        url = self.serve(source, options=("--token-file", token)).url
        with_token = ("--source-token-file", token)
        done = run("info", "--json", *with_token, url)
        self.assertEqual(done.returncode, 0, done.stderr)
        for at in (url, f"{url}files/{os.path.basename(source)}"):
            self.assertEqual(run("cat", *with_token, at, "bias", text=False).stdout, run("cat", source, "bias", text=False).stdout)
        point = self.mount(url, *with_token)
        with open(os.path.join(point, "tensors", "bias"), "rb") as file:
            self.assertEqual(file.read(), run("cat", source, "bias", text=False).stdout)
        self.assertEqual(run("cat", "--sandbox=off", *with_token, url, "bias", text=False).returncode, 0)


class SourceToken(MountTestCase):
    """Where the token of --source-token-file is sent (semantics 15.5)."""

    def setUp(self):
        super().setUp()
        self.data = noise(4 * SIZE, seed=7)
        tensors = [Tensor(f"w{i}", "uint8", (SIZE,), self.data[i * SIZE:(i + 1) * SIZE]) for i in range(4)]
        self.model = stores.safetensors(self.path("."), tensors)
        self.web = Server(self)
        self.token = self.write("token", b"first\n")

    def authorizations(self, server, path=""):
        return [request.authorization for request in server.requests() if path in request.target]

    def test_token_is_read_again_under_a_mount(self):
        point = self.mount(self.web.serve("m.safetensors", correct(self.model)), "--source-token-file", self.token)
        before = len(self.authorizations(self.web))
        self.assertEqual(set(self.authorizations(self.web)), {"Bearer first"})
        for replaced in (lambda: self.write("token", b"second"), lambda: os.replace(self.write("new", b"second"), self.token)):
            replaced()
        with open(os.path.join(point, "tensors", "w3"), "rb") as file:
            self.assertEqual(file.read(), self.data[3 * SIZE:])
        self.assertGreater(len(self.authorizations(self.web)), before)
        self.assertEqual(set(self.authorizations(self.web)[before:]), {"Bearer second"})

    def test_token_is_not_sent_behind_a_redirect_to_another_server(self):
        other = Server(self)
        target = other.serve("m.safetensors", correct(self.model))
        url = self.web.serve("m.safetensors", responds(302, Location=target))
        done = run("cat", "--source-token-file", self.token, url, "w3", text=False)
        self.assertEqual((done.returncode, done.stdout), (0, self.data[3 * SIZE:]), done.stderr)
        self.assertEqual(set(self.authorizations(self.web)), {"Bearer first"})
        self.assertEqual(set(self.authorizations(other)), {""})

    def test_other_sources_do_not_get_it(self):
        other = Server(self)
        urls = [server.serve("m.safetensors", correct(self.model)) for server in (self.web, other)]
        done = run("info", "--source-token-file", self.token, *urls)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("--source-token-file: the sources are on several servers", done.stderr)
        run("info", "--source-token-file", self.token, f"oci://{self.web.host}/ai/tiny")
        self.assertEqual(set(self.authorizations(self.web, "/v2/")), {""})
        self.assertEqual((self.authorizations(self.web, "m.safetensors"), self.authorizations(other)), ([], []))

    def test_files_that_are_no_token_are_refused(self):
        url = self.web.serve("m.safetensors", correct(self.model))
        for sandbox in ("on", "off"):
            for content, status, why in ((b"two words", 4, "not a token"), (b"", 4, "not a token"), (None, 3, "missing")):
                with self.subTest(content, sandbox=sandbox):
                    path = self.path("missing") if content is None else self.write("wrong", content)
                    done = run("info", "--sandbox", sandbox, "--source-token-file", path, url)
                    self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
                    self.assertIn(why, done.stderr)
        self.assertEqual(self.web.requests(), [])


if __name__ == "__main__":
    unittest.main()
