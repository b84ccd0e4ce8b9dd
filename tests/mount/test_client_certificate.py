"""--client-certificate: a server that wants one gets it, and no other."""
import os
import ssl
import subprocess
import unittest

from fetching import FetchTestCase
from mounting import run
from scripted_server import Server, correct, responds
from servers import self_signed_certificate
from test_archives import noise
import stores
from tensors import Tensor

MIB = 1 << 20
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class ClientCertificate(FetchTestCase):
    def setUp(self):
        super().setUp()
        pair = self_signed_certificate(self.tmp)
        os.environ["SSL_CERT_FILE"] = pair[0]  # restored by the patch of the base class
        self.openssl("req", "-x509", *NEW_KEY, "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
        self.tensors = [Tensor(f"layer.{i}", "uint8", (MIB,), noise(MIB, seed=i + 1)) for i in range(4)]
        self.model = stores.safetensors(self.tmp, self.tensors)
        self.web, self.other = Server(self, correct(self.model), tls=pair), Server(self, correct(self.model), tls=pair)
        self.web.tls.load_verify_locations(self.path("ca.pem"))
        self.web.tls.verify_mode = ssl.CERT_REQUIRED
        self.url = self.web.url("model.safetensors")
        self.option = ("--client-certificate", f"{self.web.origin}={self.client('me')}")

    def openssl(self, *argv):
        subprocess.run(["openssl", *argv], cwd=self.tmp, check=True, capture_output=True)

    def client(self, name, authority="ca"):
        """The file with a certificate and its key."""
        self.openssl("req", *NEW_KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
                     "-CAcreateserial", "-days", "2", "-out", f"{name}.crt")
        return self.private(f"{name}.pem", self.read_whole(self.tmp, f"{name}.crt") + self.read_whole(self.tmp, f"{name}.key"))

    def private(self, name, content):
        self.write(name, content)
        os.chmod(self.path(name), 0o600)
        return self.path(name)

    def test_server_that_requires_one_is_read(self):
        point = self.mount(*self.option, self.url)
        self.assertEqual(self.read_whole(point, "tensors", "layer.1"), self.tensors[1].data)
        done = run("cat", "--sandbox=off", "--no-cache", *self.option, self.url, "layer.2", text=False)
        self.assertEqual((done.returncode, done.stdout), (0, self.tensors[2].data), done.stderr)

    def test_message_without_one_names_the_option(self):
        done = run("ls", self.url)
        self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
        self.assertIn("requires a client certificate", done.stderr)
        self.assertIn("--client-certificate https://HOST=FILE", done.stderr)
        self.web.tls.maximum_version = ssl.TLSVersion.TLSv1_2  # which has no alert for it
        done = run("ls", self.url)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("if it wants a client certificate, name the file with it by --client-certificate", done.stderr)

    def test_no_other_server_gets_it(self):
        self.other.tls.load_verify_locations(self.path("ca.pem"))
        self.other.tls.verify_mode = ssl.CERT_REQUIRED
        moved = self.web.serve("moved.safetensors", responds(302, Location=self.other.url("model.safetensors")))
        for url in (moved, self.other.url("model.safetensors")):
            self.assertEqual(run("ls", *self.option, url).returncode, 4)
        self.assertEqual(self.other.requests(), [])
        self.assertEqual(len(self.web.requests(path="moved.safetensors")), 1)

    def test_certificate_of_another_authority_is_not_accepted(self):
        self.openssl("req", "-x509", *NEW_KEY, "-days", "2", "-subj", "/CN=stranger", "-keyout", "x.key", "-out", "x.pem")
        done = run("ls", "--client-certificate", f"{self.web.origin}={self.client('you', 'x')}", self.url)
        self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
        self.assertIn("does not accept the client certificate", done.stderr)
        self.assertEqual(self.web.requests(), [])

    def test_files_without_a_pair_are_refused_at_the_start(self):
        certificate, key = (self.read_whole(self.tmp, f"me.{part}") for part in ("crt", "key"))
        cases = ((certificate, "no private key (PEM)"), (key, "no certificate (PEM)"), (b"nonsense", "no certificate (PEM)"),
                 (certificate + self.read_whole(self.tmp, "ca.key"), "that of another certificate"))
        for sandbox in ("on", "off"):
            for content, why in cases:
                with self.subTest(why, sandbox=sandbox):
                    option = f"{self.web.origin}={self.private('wrong.pem', content)}"
                    done = run("ls", "--sandbox", sandbox, "--client-certificate", option, self.url)
                    self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
                    self.assertIn(f"--client-certificate: {self.path('wrong.pem')}: ", done.stderr)
                    self.assertIn(why, done.stderr)
        os.chmod(self.path("me.pem"), 0o640)
        done = run("ls", *self.option, self.url)
        self.assertIn("others have access to it; chmod 600", done.stderr)
        self.assertEqual(self.web.requests(), [])

    def test_server_without_tls_cannot_have_one(self):
        done = run("ls", "--client-certificate", f"http://127.0.0.1={self.path('me.pem')}", self.url)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("a server and its file expected", done.stderr)


if __name__ == "__main__":
    unittest.main()
