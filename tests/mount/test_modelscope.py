"""Repositories of ModelScope (ms://org/name), mounted from a double of it: requests, verification, tokens, offline."""
import errno
import json
import os
import unittest

from fetching import FetchTestCase
from modelscope_server import ModelScope
from mounting import run
from test_archives import noise
import stores
from tensors import Tensor

MIB = 1 << 20
TOKEN = "ms-secretOfTheTest"


class ModelScopeTestCase(FetchTestCase):
    def setUp(self):
        super().setUp()
        for name in ("MODELSCOPE_API_TOKEN", "MODELSCOPE_HOME", "MODELSCOPE_DOMAIN"):
            os.environ.pop(name, None)  # restored by the patch of the base class
        self.site = ModelScope(self)
        os.environ["MODELSCOPE_ENDPOINT"] = self.site.url
        self.tensors = [Tensor(f"layer.{i}", "uint8", (4 * MIB,), noise(4 * MIB, seed=i + 1)) for i in range(4)]
        self.model = stores.safetensors(self.tmp, self.tensors)
        self.files = {"model.safetensors": self.model, "config.json": b'{"hidden_size": 4}\n', "sub/a b+c.txt": b"text"}
        self.site.add("org/demo", self.files)

    def failure(self, *argv, status):
        """The message of a command that fails."""
        done = run(*argv)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr.strip()


# semantics 22.10
class Repositories(ModelScopeTestCase):
    def test_repository_is_a_model_with_its_files(self):
        point = self.mount("ms://org/demo")
        self.assertEqual(len(self.site.requests()), 1 + len(self.site.requests("/resolve/")))
        for tensor in self.tensors:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)
        for path, content in self.files.items():
            self.assertEqual(self.read_whole(point, "files", path), content)
        metadata = json.loads(self.read_whole(point, "metadata.json"))
        self.assertEqual((metadata["source"], metadata["repository"]), ("ms://org/demo@master", "org/demo"))
        self.assertEqual(os.stat(os.path.join(point, "files", "config.json")).st_mtime, 1700000000)

    def test_tensor_is_read_by_ranges(self):
        point = self.mount("ms://org/demo")
        self.assertEqual(self.read_whole(point, "tensors", "layer.2"), self.tensors[2].data)
        sent = [request for request in self.site.store.requests() if request.status in (200, 206)]
        self.assertEqual({request.status for request in sent if request.length > 1000}, {206})
        self.assertLess(sum(request.length for request in sent), 6 * MIB)

    def test_branch_with_a_slash_and_a_path(self):
        other = stores.safetensors(self.tmp, [Tensor("other", "uint8", (2, ), b"ab")])
        self.site.add("org/demo", {"x/model.safetensors": other}, revision="feature/x")
        self.assertEqual(run("cat", "ms://org/demo@feature%2Fx/x/model.safetensors", "tensors/other").stdout, "ab")
        self.assertEqual(run("cat", "ms://org/demo@feature%2Fx/x", "tensors/other").stdout, "ab")
        self.assertIn("no such file or directory", self.failure("ls", "ms://org/demo/absent", status=3))

    def test_wrong_bytes_are_not_served(self):
        self.site.sent["config.json"] = b'{"hidden_size": 5}\n'
        point = self.mount("ms://org/demo")
        with self.assertRaises(OSError) as caught:
            self.read_whole(point, "files", "config.json")
        self.assertEqual(caught.exception.errno, errno.EIO)
        self.unmount(point)
        self.site.sent = {"model.safetensors": self.model[:-1] + bytes([self.model[-1] ^ 1])}
        self.assertEqual(run("fetch", "ms://org/demo").returncode, 7)

    def test_file_without_digest_is_left_out(self):
        self.site.without_digest.add("sub/a b+c.txt")
        point = self.mount("ms://org/demo")
        self.assertEqual(sorted(os.listdir(os.path.join(point, "files"))), ["config.json", "model.safetensors"])
        self.assertIn(b"the list has no SHA-256 of it", self.read_whole(point, "warnings.txt"))

    def test_offline_shows_what_was_listed(self):
        self.assertEqual(run("cat", "ms://org/demo", "tensors/layer.1", text=False).stdout, self.tensors[1].data)
        requests = len(self.site.requests())
        self.assertEqual(run("cat", "--offline", "ms://org/demo", "tensors/layer.1", text=False).stdout, self.tensors[1].data)
        self.assertEqual(len(self.site.requests()), requests)
        self.assertIn("not cached", self.failure("ls", "--offline", "ms://org/other", status=8))


# semantics 22.10
class Refusals(ModelScopeTestCase):
    def test_token_is_sent_to_the_server_only(self):
        self.site.private["org/demo"] = TOKEN
        message = self.failure("ls", "ms://org/demo", status=3)
        self.assertIn("or it is private (without a token; set MODELSCOPE_API_TOKEN)", message)
        self.write("home/.modelscope/token", TOKEN.encode() + b"\n")
        self.assertEqual(run("cat", "ms://org/demo", "tensors/layer.0", text=False).stdout, self.tensors[0].data)
        self.assertGreater(len(self.site.store.requests()), 0)
        for request in self.site.store.requests():
            self.assertNotIn(TOKEN, str(request.headers))
        os.environ["MODELSCOPE_API_TOKEN"] = "wrong"
        message = self.failure("ls", "ms://org/demo", status=3)
        self.assertIn("(with the token of $MODELSCOPE_API_TOKEN)", message)
        self.assertNotIn("wrong", message)

    def test_errors_of_the_list(self):
        self.site.code = 10990101008
        self.assertIn('the server reports 10990101008: "the message"', self.failure("ls", "ms://org/demo", status=4))
        self.site.code = 200
        for entries in ("x", [1], [{"Type": "blob", "Path": "a"}], [{"Type": "blob", "Size": 1}],
                        [{"Type": "blob", "Path": "a", "Size": -1}], [{"Type": "blob", "Path": "a", "Size": 1 << 60}]):
            with self.subTest(entries):
                self.site.entries = entries
                self.failure("ls", "--no-cache", "ms://org/demo", status=5)

    def test_web_page_instead_of_the_list_is_named(self):
        self.site.page = b"<html><title>Sign in</title>"
        self.assertIn("the server sent a web page (text/html)", self.failure("ls", "ms://org/demo", status=4))

    def test_hostile_paths_are_left_out(self):
        self.site.entries = [self.site.entry(path, b"x") for path in ("../up", "/etc/passwd", "a//b", "a/./b", "ok.txt")]
        point = self.mount("--all", "ms://org/demo")
        self.assertEqual(os.listdir(point), ["ok.txt"])

    def test_digest_is_required_of_the_name(self):
        self.assertIn("no digest in the name", self.failure("ls", "--require-digest", "ms://org/demo", status=4))
        self.assertEqual(self.site.requests(), [])


if __name__ == "__main__":
    unittest.main()
