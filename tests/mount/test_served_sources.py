"""The URL of `weightfs serve` as a SOURCE, and directories on other web servers. semantics 21.1"""
import json
import os
import unittest

from http_serving import HttpServer
from mounting import MountTestCase, run


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


if __name__ == "__main__":
    unittest.main()
