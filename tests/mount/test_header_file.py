"""--header-file: headers of a private file, and the one server that gets them."""
import os
import unittest

from fetching import FetchTestCase
from mounting import run
from scripted_server import Server, correct, responds
from test_archives import noise
import stores
from tensors import Tensor

MIB = 1 << 20


class HeaderFile(FetchTestCase):
    def setUp(self):
        super().setUp()
        self.tensors = [Tensor(f"layer.{i}", "uint8", (MIB,), noise(MIB, seed=i + 1)) for i in range(4)]
        self.model = stores.safetensors(self.tmp, self.tensors)
        self.wanted = "first s3cret"
        self.web = Server(self, self.answer)
        self.other = Server(self, correct(self.model))
        self.url = self.web.url("dir/model.safetensors")
        self.option = ("--header-file", f"{self.web.origin}={self.headers('X-Key: first s3cret')}")

    def headers(self, text, mode=0o600, name="headers"):
        self.write(name, text.encode())
        os.chmod(self.path(name), mode)
        return self.path(name)

    def answer(self, request):
        if request.headers.get("x-key") != self.wanted:
            return 403, {}, b""
        return correct(self.model)(request) if request.path.endswith(".safetensors") else (404, {}, b"")

    def keys(self, server):
        return {request.headers.get("x-key") for request in server.requests()}

    def test_server_gets_them_with_each_request(self):
        for options in ((), ("--sandbox=off", "--no-cache")):
            done = run("cat", *options, *self.option, self.url, "layer.2", text=False)
            self.assertEqual((done.returncode, done.stdout), (0, self.tensors[2].data), done.stderr)
        point = self.mount(*self.option, self.url)
        self.assertEqual(self.read_whole(point, "tensors", "layer.1"), self.tensors[1].data)
        self.assertEqual(self.keys(self.web), {"first s3cret"})
        self.assertNotIn("s3cret", self.read_whole(point, ".weightfs", "status.json").decode())

    def test_file_is_read_again_when_it_changes(self):
        point = self.mount(*self.option, self.url)
        self.wanted = "another"
        self.headers("X-Key: another\n", name="new")
        os.replace(self.path("new"), self.path("headers"))
        self.assertEqual(self.read_whole(point, "tensors", "layer.3"), self.tensors[3].data)

    def test_no_other_server_gets_them(self):
        redirecting = self.web.serve("moved.safetensors", responds(302, Location=self.other.url("model.safetensors")))
        self.assertEqual(run("ls", *self.option, redirecting).returncode, 0)
        self.assertEqual(run("ls", *self.option, self.other.url("model.safetensors")).returncode, 0)
        self.assertEqual(self.keys(self.other), {None})
        back = self.other.serve("back.safetensors", responds(302, Location=self.url))
        self.assertEqual(run("ls", *self.option, back).returncode, 4)
        self.assertIn(None, self.keys(self.web))

    def test_tokens_of_two_servers(self):
        tokens = [self.headers(text, name=text) for text in ("one", "two")]
        servers = [Server(self, correct(self.model)) for _ in tokens]
        options = [f"--source-token-file={server.origin}={token}" for server, token in zip(servers, tokens)]
        done = run("info", *options, *(server.url("model.safetensors") for server in servers))
        self.assertEqual(done.returncode, 0, done.stderr)
        for server, token in zip(servers, ("one", "two")):
            self.assertEqual({request.authorization for request in server.requests()}, {f"Bearer {token}"})

    def test_file_that_others_can_read_and_wrong_lines_are_refused(self):
        cases = (("X-Key: s3cret", 0o644, "others have access to it; chmod 600"), ("Host: s3cret", 0o600, "line 1: the header"),
                 ("X-Key: a\r\n", 0o600, "line 1: not a header"), ("s3cret", 0o600, "line 1: not a header"),
                 ("", 0o600, "no header"))
        for sandbox in ("on", "off"):
            for text, mode, why in cases:
                with self.subTest(why, sandbox=sandbox):
                    self.headers(text, mode)
                    done = run("info", "--sandbox", sandbox, *self.option, self.url)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn("--header-file: ", done.stderr)
                    self.assertIn(why, done.stderr)
                    self.assertNotIn("s3cret", done.stderr)
        self.assertEqual(self.web.requests(), [])

    def test_wrong_servers_are_refused(self):
        for value in ("headers", "=headers", "https://h.example/path=headers", "https://h.example", "https://h.example=",
                      "https://me:secret@h.example=headers", "ftp://h.example=headers"):
            done = run("info", "--header-file", value, self.url)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn("a server and its file expected", done.stderr)


if __name__ == "__main__":
    unittest.main()
