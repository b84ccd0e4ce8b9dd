"""Logins of ~/.netrc for models at https URLs: where they are sent, and where not."""
import base64
import errno
import os
import unittest

from fetching import FetchTestCase
from mounting import run
from scripted_server import Server, correct, responds
from servers import self_signed_certificate
from test_archives import noise
import stores
from tensors import Tensor

MIB = 1 << 20


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


# semantics 15.6
class Logins(FetchTestCase):
    def setUp(self):
        super().setUp()
        pair = self_signed_certificate(self.tmp)
        os.environ["SSL_CERT_FILE"] = pair[0]  # restored by the patch of the base class
        self.tensors = [Tensor(f"layer.{i}", "uint8", (MIB,), noise(MIB, seed=i + 1)) for i in range(4)]
        self.model = stores.safetensors(self.tmp, self.tensors)
        self.wanted = basic("me", "s3cret of the test")
        self.web = Server(self, self.answer, tls=pair)
        self.other = Server(self, correct(self.model), tls=pair)
        self.url = self.web.url("dir/model.safetensors")

    def answer(self, request):
        if request.authorization != self.wanted:
            return 401, {"WWW-Authenticate": 'Basic realm="x"'}, b""
        return correct(self.model)(request) if request.path.endswith(".safetensors") else (404, {}, b"")

    def log_in(self, text, mode=0o600, name="home/.netrc"):
        self.write(name, text.encode())
        os.chmod(self.path(name), mode)

    def refused(self, url=None):
        """The message of a command that fails."""
        done = run("ls", url or self.url)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (4, 1), done.stderr)
        self.assertNotIn("s3cret", done.stderr)
        return done.stderr

    def test_login_of_the_host_is_used(self):
        self.log_in('machine 127.0.0.1 login me password "s3cret of the test"\n')
        point = self.mount(self.url)
        self.assertEqual(self.read_whole(point, "tensors", "layer.1"), self.tensors[1].data)
        self.assertEqual({request.authorization for request in self.web.requests()}, {self.wanted})
        self.assertNotIn("s3cret", self.read_whole(point, ".weightfs", "status.json").decode())
        self.unmount(point)
        self.assertEqual(run("ls", "--sandbox=off", "--no-cache", self.url).returncode, 0)
        self.assertEqual(run("ls", self.web.url("dir/")).returncode, 0)

    def test_file_is_read_again(self):
        self.log_in('machine 127.0.0.1 login me password "s3cret of the test"')
        point = self.mount(self.url)
        self.wanted = basic("me", "new")
        with self.assertRaises(OSError) as caught:
            self.read_whole(point, "tensors", "layer.3")
        self.assertIn(caught.exception.errno, (errno.EACCES, errno.EIO))
        self.log_in("machine 127.0.0.1 login me password new")
        self.assertEqual(self.read_whole(point, "tensors", "layer.2"), self.tensors[2].data)

    def test_refusal_has_the_reason_for_no_login(self):
        self.assertIn(f"401 Unauthorized (without a login: {self.path('home/.netrc')} does not exist)", self.refused())
        self.log_in("machine other.example login me password s3cret")
        self.assertIn(f"{self.path('home/.netrc')} has none for 127.0.0.1)", self.refused())
        self.log_in('machine 127.0.0.1 login me password "s3cret of the test"', mode=0o644)
        self.assertIn("is not used: others have access to it; chmod 600)", self.refused())
        self.log_in("machine 127.0.0.1 login me password s3cret")
        self.assertIn(f"(as \"me\" of {self.path('home/.netrc')})", self.refused())
        self.assertEqual(sorted({request.authorization for request in self.web.requests()}), ["", basic("me", "s3cret")])

    def test_token_of_the_source_is_used_instead(self):
        self.log_in('machine 127.0.0.1 login me password "s3cret of the test"')
        self.wanted = "Bearer token-of-the-source"
        token = self.write("source-token", b"token-of-the-source\n")
        for url in (self.url, self.web.url("dir/")):
            self.assertEqual(run("ls", "--source-token-file", token, url).returncode, 0)
        self.assertEqual({request.authorization for request in self.web.requests()}, {self.wanted})

    def test_default_entry_is_not_used(self):
        self.log_in('default login me password "s3cret of the test"')
        self.assertIn("has none for 127.0.0.1", self.refused())
        self.assertEqual({request.authorization for request in self.web.requests()}, {""})

    def test_file_of_the_environment(self):
        self.log_in('machine 127.0.0.1 login me password "s3cret of the test"', name="named")
        os.environ["NETRC"] = self.path("named")
        self.assertEqual(run("ls", self.url).returncode, 0)

    def test_login_does_not_follow_a_redirect_to_another_origin(self):
        self.log_in('machine 127.0.0.1 login me password "s3cret of the test"')
        url = self.web.serve("moved.safetensors", responds(302, Location=self.other.url("model.safetensors")))
        point = self.mount(url)
        self.assertEqual(self.read_whole(point, "tensors", "layer.1"), self.tensors[1].data)
        self.assertEqual({request.authorization for request in self.web.requests()}, {self.wanted})
        self.assertEqual({request.authorization for request in self.other.requests()}, {""})

    def test_login_is_not_sent_over_http(self):
        self.log_in('machine 127.0.0.1 login me password "s3cret of the test"')
        plain = Server(self, correct(self.model))
        self.assertEqual(run("ls", plain.url("model.safetensors")).returncode, 0)
        self.assertEqual({request.authorization for request in plain.requests()}, {""})


if __name__ == "__main__":
    unittest.main()
