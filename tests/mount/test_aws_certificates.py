"""The authorities of $AWS_CA_BUNDLE and of `ca_bundle`: for object stores and for services that give keys, and for nothing else."""
import os
import unittest

from mounting import run
from aws_keys_server import KeysServer
from s3_server import REGION, S3Server
from scripted_server import Server, correct
from servers import needs, self_signed_certificate
from test_renewed_keys import ROLE
from test_s3 import S3TestCase


@needs("openssl")
class AwsCertificates(S3TestCase):
    """A store with https, whose authority the system does not know."""

    def setUp(self):
        super().setUp()
        self.url, self.written = self.put_model()

    def start_store(self):
        os.mkdir(self.path("authority"))
        self.certificate, _ = self.tls = self_signed_certificate(self.path("authority"))
        return S3Server(self, tls=self.tls)

    def refused(self, url=None):
        done = run("ls", "--no-cache", "--timeout", "5", url or self.url)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (8, 1), done.stderr)
        return done.stderr

    # semantics 15.3
    def test_file_of_the_variable_is_used(self):
        self.login()
        self.assertIn("certificate not accepted", self.refused())
        os.environ["AWS_CA_BUNDLE"] = self.certificate
        point = self.mount(self.url)
        for tensor in self.written:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)
        self.unmount(point)
        self.assertEqual(run("ls", "--sandbox=off", "--no-cache", self.url).returncode, 0)

    # semantics 15.3
    def test_file_of_the_profile_is_used_after_the_variable(self):
        self.login()
        self.write("home/.aws/config", f"[default]\nca_bundle = {self.certificate}\n".encode())
        self.assertEqual(run("ls", "--no-cache", self.url).returncode, 0)
        os.environ["AWS_CA_BUNDLE"] = self.path("absent.pem")
        self.assertIn(f"AWS_CA_BUNDLE={self.path('absent.pem')}: no certificates can be read from it", self.refused())
        del os.environ["AWS_CA_BUNDLE"]
        self.write("home/.aws/config", f"[default]\nca_bundle = {self.path('absent.pem')}\n".encode())
        self.assertIn(f'ca_bundle of the profile "default": {self.path("absent.pem")}: no certificates can be read from it',
                      self.refused())

    # semantics 15.3
    def test_relative_path_is_one_of_this_directory(self):
        self.login()
        os.environ["AWS_CA_BUNDLE"] = os.path.relpath(self.certificate)
        self.assertEqual(run("ls", "--no-cache", self.url).returncode, 0)

    # semantics 15.3
    def test_file_replaces_the_authorities_of_the_system(self):
        self.login()
        os.environ["SSL_CERT_FILE"] = self.certificate
        self.assertEqual(run("ls", "--no-cache", self.url).returncode, 0)
        os.mkdir(self.path("other"))
        os.environ["AWS_CA_BUNDLE"] = self_signed_certificate(self.path("other"))[0]
        self.assertIn(f"AWS_CA_BUNDLE={os.environ['AWS_CA_BUNDLE']}", self.refused())

    # semantics 15.3
    def test_other_sources_do_not_use_it(self):
        os.environ["AWS_CA_BUNDLE"] = self.certificate
        web = Server(self, tls=self.tls)
        self.assertIn("SSL_CERT_FILE", self.refused(web.serve("m.safetensors", correct(b"0" * 1000))))
        self.assertEqual(web.count(), 0)

    # semantics 15.3
    def test_requests_for_keys_use_it(self):
        keys = KeysServer(self, self.store, tls=self.tls)
        token = self.write("token", keys.web_token.encode())
        os.environ.update(AWS_WEB_IDENTITY_TOKEN_FILE=token, AWS_ROLE_ARN=ROLE, AWS_ENDPOINT_URL_STS=keys.url,
                          AWS_REGION=REGION)
        self.assertIn("certificate not accepted", self.refused())
        self.assertEqual(len(keys.issued), 0)
        os.environ["AWS_CA_BUNDLE"] = self.certificate
        self.assertEqual(run("ls", "--no-cache", self.url).returncode, 0)
        self.assertEqual(len(keys.issued), 1)


if __name__ == "__main__":
    unittest.main()
