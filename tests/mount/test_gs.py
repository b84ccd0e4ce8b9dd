"""Models in Google Cloud Storage, mounted from a double with generations, checksums, and the services that give tokens."""
import base64
import errno
import json
import os
import subprocess
import threading
import time
import unittest

from fetching import FetchTestCase
from gcs_server import CLIENT_SECRET, PROVIDER, REFRESH, SUBJECT, GcsServer, crc32c
from mounting import run
from test_archives import noise
from test_urls import KIB, MIB, tensors
import stores

EACH_READ = ("--all", "--no-cache", "--prefetch=off")  # is a request


class GsTestCase(FetchTestCase):
    lifetime = 3600

    def setUp(self):
        super().setUp()
        for name in list(os.environ):
            if name.startswith(("GOOGLE_", "GCE_", "CLOUDSDK_", "AWS_")):
                del os.environ[name]  # restored after the test
        os.environ["NO_GCE_CHECK"] = "true"  # this machine may be an instance
        self.store = GcsServer(self, self.lifetime)
        os.environ["STORAGE_EMULATOR_HOST"] = self.store.url

    def put_model(self, key="tiny/model.safetensors", count=4, size=64 * KIB, bucket="models", **kwargs):
        written = tensors(count, size)
        return self.store.put(bucket, key, stores.safetensors(self.path("."), written), **kwargs), written

    def use(self, **fields):
        """The credentials of the environment: a file."""
        self.write("google/key.json", json.dumps(fields).encode())
        os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = self.path("google/key.json")

    def use_login(self, **fields):
        self.use(**{"type": "authorized_user", "client_id": "the client", "client_secret": CLIENT_SECRET,
                    "refresh_token": REFRESH, "token_uri": self.store.url + "/token", **fields})

    def use_external(self, source, **fields):
        self.use(**{"type": "external_account", "audience": "//iam/pool",
                    "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                    "token_url": self.store.url + "/v1/token", "credential_source": source, **fields})

    def info(self, *argv):
        done = run("info", *argv)
        return done.returncode, done.stderr.strip()

    def assert_is_read(self, url, written, *options, **kwargs):
        point = self.mount(*options, url, **kwargs)
        for tensor in written:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)
        return point

    def assert_unreadable(self, *path, error=errno.EIO):
        with self.assertRaises(OSError) as caught:
            self.read_whole(*path)
        self.assertEqual(caught.exception.errno, error)


class Objects(GsTestCase):
    # semantics 23.8
    def test_public_object_is_read_without_a_token(self):
        url, written = self.put_model()
        self.store.public.add("models")
        self.assert_is_read(url, written)
        self.assertEqual({request.authorization for request in self.store.requests()}, {""})

    # semantics 23.8
    def test_later_requests_name_the_generation(self):
        url, written = self.put_model(size=MIB)
        self.store.public.add("models")
        self.assert_is_read(url, written)
        first, *others = [request.query.get("generation") for request in self.store.of_objects()
                          if request.path.endswith("/model.safetensors")]
        self.assertIsNone(first)
        self.assertEqual(set(others), {"1700000000000001"})

    # semantics 23.8
    def test_prefix_is_listed_by_pages_and_read(self):
        self.store.public.add("models")
        self.store.page = 2
        for number in range(5):
            self.store.put("models", f"zoo/{number}.bin", noise(3000, seed=number))
        point = self.mount(*EACH_READ, "gs://models/zoo/")
        for number in range(5):
            self.assertEqual(self.read_whole(point, f"{number}.bin"), noise(3000, seed=number))
        self.assertEqual(len(self.store.requests("list-type")), 3)
        self.assertTrue(all("generation" in request.query for request in self.store.of_objects()))

    # semantics 23.8
    def test_replaced_object_is_an_error_without_versions(self):
        self.store.public.add("models")
        self.store.put("models", "zoo/a.bin", noise(3000))
        point = self.mount(*EACH_READ, "gs://models/zoo/")
        self.store.put("models", "zoo/a.bin", noise(3000, seed=2))
        self.assert_unreadable(point, "a.bin")

    # semantics 23.8
    def test_replaced_object_is_read_in_a_bucket_with_versions(self):
        self.store.public.add("models")
        self.store.versioned.add("models")
        url, written = self.put_model()
        self.store.put("models", "zoo/a.bin", noise(3000))
        point = self.mount(*EACH_READ, "gs://models/zoo/", at="zoo")
        self.store.put("models", "zoo/a.bin", noise(3000, seed=2))
        self.store.put("models", "tiny/model.safetensors", b"no model")
        self.assertEqual(self.read_whole(point, "a.bin"), noise(3000))
        self.assert_is_read(url + "?generation=1700000000000001", written)
        self.assertEqual(self.info(url + "?generation=5"), (3, f"weightfs: {url}?generation=5: no such version"))

    def put_wrong(self, data):
        wrong = (f"crc32c={base64.b64encode((crc32c(data) ^ 1).to_bytes(4, 'big')).decode()}",)
        self.store.put("models", "zoo/wrong.bin", data, hashes=wrong)

    # semantics 23.8
    def test_bytes_with_another_checksum_are_an_error_when_all_were_read(self):
        self.store.public.add("models")
        data = noise(300 * KIB)
        self.put_wrong(data)
        self.store.put("models", "zoo/right.bin", data)
        self.store.put("models", "zoo/small.bin", b"small", hashes=("md5=AAAAAAAAAAAAAAAAAAAAAA==",))
        point = self.mount("--all", "--prefetch=off", "gs://models/zoo/")
        self.assertEqual(self.read_whole(point, "right.bin"), data)
        self.assert_unreadable(point, "wrong.bin")
        self.assert_unreadable(point, "small.bin")

    # semantics 23.8
    def test_bytes_with_another_checksum_do_not_stay_in_the_cache(self):
        self.store.public.add("models")
        data = noise(300 * KIB)
        self.put_wrong(data)
        point = self.mount("--all", "--prefetch=off", "gs://models/zoo/")
        self.assert_unreadable(point, "wrong.bin")
        with open(os.path.join(point, "wrong.bin"), "rb") as file, self.assertRaises(OSError):
            file.read(100)
        part = data[200 * KIB:200 * KIB + 100]
        kept = [name for folder, _, names in os.walk(self.cache()) for name in names
                if not os.path.islink(os.path.join(folder, name)) and part in self.read_whole(folder, name)]
        self.assertEqual(kept, [])

    # semantics 23.8
    def test_checksum_is_requested_once_and_compared_later(self):
        self.store.public.add("models")
        data = noise(4 * MIB)
        self.store.put("models", "zoo/wrong.bin", data, hashes=("crc32c=AAAAAA==", ))
        for at in ("first", "second"):
            before = len(self.store.of_objects())
            point = self.mount("--all", "--prefetch=off", "gs://models/zoo/", at=at)
            with open(os.path.join(point, "wrong.bin"), "rb", buffering=0) as file:
                self.assertEqual(file.read(100), data[:100])
        self.assertEqual([request for request in self.store.of_objects()[before:] if not request.first], [])
        self.assert_unreadable(point, "wrong.bin")

    # semantics 23.8
    def test_bytes_are_compared_after_an_outage(self):
        self.store.public.add("models")
        data = noise(300 * KIB)
        self.put_wrong(data)
        self.store.put("models", "zoo/right.bin", data)
        point = self.mount("--all", "--prefetch=off", "--retries", "0", "gs://models/zoo/")
        self.store.is_down = True
        self.assert_unreadable(point, "right.bin", error=errno.EHOSTUNREACH)
        self.assert_unreadable(point, "wrong.bin", error=errno.EHOSTUNREACH)
        self.store.is_down = False
        self.assertEqual(self.read_whole(point, "right.bin"), data)
        self.assert_unreadable(point, "wrong.bin")

    # semantics 23.8
    def test_offline_uses_what_was_seen(self):
        url, written = self.put_model()
        self.store.public.add("models")
        self.assert_is_read(url, written, at="first")
        before = len(self.store.requests())
        self.assert_is_read(url, written, "--offline")
        self.assertEqual(len(self.store.requests()), before)

    # semantics 23.8
    def test_requester_pays_names_a_project(self):
        url, written = self.put_model()
        self.store.public.add("models")
        self.store.payer = "the-project"
        self.assertNotEqual(self.info(url)[0], 0)
        status, text = self.info("--requester-pays", url)
        self.assertNotEqual(status, 0)
        self.assertIn("GOOGLE_CLOUD_QUOTA_PROJECT", text)
        os.environ["GOOGLE_CLOUD_QUOTA_PROJECT"] = "the-project"
        self.assert_is_read(url, written, "--requester-pays")

    # semantics 23.8
    def test_plain_http_to_another_host_is_refused(self):
        os.environ["STORAGE_EMULATOR_HOST"] = "192.0.2.1:9000"
        status, text = self.info("gs://models/a.safetensors")
        self.assertNotEqual(status, 0)
        self.assertIn("STORAGE_EMULATOR_HOST=http://192.0.2.1:9000: http:// needs --insecure", text)


class Tokens(GsTestCase):
    # semantics 23.9
    def test_login_of_gcloud_is_refused_with_its_remedy(self):
        url, _ = self.put_model()
        self.use_login()
        self.store.refresh_token = "another"
        status, text = self.info(url)
        self.assertNotEqual(status, 0)
        self.assertIn("gcloud auth application-default login", text)
        for secret in self.store.secrets():
            self.assertNotIn(secret, text)

    # semantics 23.9
    def test_service_account_signs_its_tokens(self):
        key = self.path("rsa.pem")
        subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", key], check=True,
                       capture_output=True)
        subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", key + ".pub"], check=True)
        with open(key, encoding="ascii") as file:
            self.use(type="service_account", client_email="reader@project.iam.gserviceaccount.com", private_key_id="key1",
                     private_key=file.read())
        seen = []

        def accepts(token):
            head, claims, signature = token.split(".")
            name = self.write(f"signature{len(seen)}.{threading.get_ident()}", base64.urlsafe_b64decode(signature + "=="))
            done = subprocess.run(["openssl", "dgst", "-sha256", "-verify", key + ".pub", "-signature", name],
                                  input=f"{head}.{claims}".encode(), capture_output=True)
            seen.append([json.loads(base64.urlsafe_b64decode(part + "==")) for part in (head, claims)])
            return done.returncode == 0
        self.store.accepts = accepts
        url, written = self.put_model()
        self.assert_is_read(url, written)
        head, claims = seen[0]
        self.assertEqual(head, {"alg": "RS256", "typ": "JWT", "kid": "key1"})
        self.assertEqual((claims["iss"], claims["exp"] - claims["iat"]), ("reader@project.iam.gserviceaccount.com", 3600))
        self.assertLess(abs(claims["iat"] - time.time()), 300)

    # semantics 23.9
    def test_external_token_of_a_file_is_exchanged_and_impersonates(self):
        self.write("google/subject", SUBJECT.encode() + b"\n")
        self.use_external({"file": self.path("google/subject")},
                          service_account_impersonation_url=self.store.url + "/impersonate")
        url, written = self.put_model()
        self.assert_is_read(url, written)
        self.assertEqual(len(self.store.requests("/impersonate")), 1)
        self.assertEqual({request.authorization for request in self.store.of_objects()}, {"Bearer " + self.store.issued[1]})

    # semantics 23.9
    def test_external_token_of_a_url_is_exchanged(self):
        self.use_external({"url": self.store.url + "/provider", "headers": {"Authorization": PROVIDER},
                           "format": {"type": "json", "subject_token_field_name": "value"}})
        url, written = self.put_model()
        self.assert_is_read(url, written)
        self.assertEqual(len(self.store.issued), 1)

    # semantics 23.9
    def test_token_is_not_sent_to_a_service_that_is_not_of_google(self):
        self.write("google/subject", SUBJECT.encode())
        self.use_external({"file": self.path("google/subject")}, token_url="https://sts.example.com/v1/token")
        url, _ = self.put_model()
        status, text = self.info(url)
        self.assertNotEqual(status, 0)
        self.assertIn("token_url https://sts.example.com/v1/token: refused", text)
        self.assertEqual(self.store.requests(), [])

    # semantics 23.9
    def test_machine_is_asked_if_it_is_named(self):
        url, written = self.put_model()
        self.assertIn("tried anonymously", self.info(url)[1])
        os.environ["GCE_METADATA_HOST"] = self.store.host
        self.assert_is_read(url, written)
        self.assertEqual(len(self.store.issued), 1)

    # semantics 23.9
    def test_machine_without_an_account_reads_public_objects(self):
        url, written = self.put_model()
        self.store.public.add("models")
        self.store.has_account = False
        os.environ["GCE_METADATA_HOST"] = self.store.host
        self.assert_is_read(url, written)

    # semantics 23.9
    def test_revoked_token_is_replaced_once(self):
        self.use_login()
        for number in range(2):
            self.store.put("models", f"zoo/{number}.bin", noise(3000, seed=number))
        point = self.mount(*EACH_READ, "gs://models/zoo/")
        self.store.revoke()
        self.assertEqual(self.read_whole(point, "0.bin"), noise(3000, seed=0))
        self.assertEqual(len(self.store.issued), 2)
        self.store.revoke()
        self.store.refresh_token = "another"
        with self.assertRaises(OSError):
            self.read_whole(point, "1.bin")


class RenewedTokens(GsTestCase):
    lifetime = 5  # seconds: tokens are renewed in their last third

    # semantics 23.9
    def test_tokens_are_renewed_before_they_end_and_are_nowhere(self):
        self.use_login()
        for number in range(300):
            self.store.put("models", f"zoo/{number:03}.bin", bytes([number % 251]) * 3000)
        point = self.mount(*EACH_READ, "gs://models/zoo/")
        for number in range(290):
            self.assertEqual(self.read_whole(point, f"{number:03}.bin"), bytes([number % 251]) * 3000)
            if len(self.store.issued) >= 3:
                break
            time.sleep(0.1)  # it spreads the reads over the life of the tokens
        self.assertGreaterEqual(len(self.store.issued), 3)
        self.assertEqual({request.status for request in self.store.of_objects()} - {200, 206}, set())
        text = self.read_whole(point, ".weightfs", "status.json").decode()
        self.assertEqual(json.loads(text)["keys"][self.store.url]["from"], self.path("google/key.json"))
        files = [self.read_whole(folder, name).decode(errors="replace") for folder, _, names in os.walk(self.cache())
                 for name in names if not os.path.islink(os.path.join(folder, name))]
        for secret in self.store.secrets():
            self.assertFalse([1 for content in [text, *files] if secret in content])


if __name__ == "__main__":
    unittest.main()
