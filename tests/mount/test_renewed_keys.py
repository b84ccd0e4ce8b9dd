"""Keys for object stores that expire while a mount lasts, from doubles of the services that give them."""
import datetime
import errno
import hashlib
import json
import os
import time
import unittest

from mounting import run, until
from aws_keys_server import KeysServer
from s3_server import KEY_ID, REGION, SECRET
from test_s3 import S3TestCase

ROLE = "arn:aws:iam::123456789012:role/reader"
EACH_READ = ("--all", "--no-cache", "--prefetch=off")  # is a request


class RenewedKeysTestCase(S3TestCase):
    """Each file of the bucket is small: reading it is one request, which is signed with the keys of that moment."""

    lifetime = 5  # seconds: keys are renewed in their last third

    def setUp(self):
        super().setUp()
        self.service = KeysServer(self, self.store, self.lifetime)
        os.environ["AWS_REGION"] = REGION
        for number in range(400):
            self.store.put("models", f"zoo/{number:03}.bin", bytes([number % 251]) * 3000)
        self.next = 0

    def read_next(self, point):
        number, self.next = self.next, self.next + 1
        self.assertEqual(self.read_whole(point, f"{number:03}.bin"), bytes([number % 251]) * 3000)

    def read_until_issued(self, point, count):
        """Reads without a failure until so many keys were given."""
        for _ in range(390 - self.next):
            self.read_next(point)
            if len(self.service.issued) >= count:
                return
            time.sleep(0.1)  # it spreads the reads over the life of the keys
        self.fail(f"only {len(self.service.issued)} keys")

    def assert_no_refusal(self):
        self.assertEqual({request.status for request in self.store.requests()} - {200, 206}, set())

    def use_web_identity(self, token="token-of-the-pod"):
        """A projected token as in a pod: two links, of which one is replaced."""
        folder = self.path("serviceaccount")
        os.makedirs(os.path.join(folder, "..1"))
        self.write("serviceaccount/..1/token", token.encode())
        os.symlink("..1", os.path.join(folder, "..data"))
        os.symlink("..data/token", os.path.join(folder, "token"))
        os.environ.update(AWS_WEB_IDENTITY_TOKEN_FILE=os.path.join(folder, "token"), AWS_ROLE_ARN=ROLE,
                          AWS_ENDPOINT_URL_STS=self.service.url)

    def rotate_web_identity(self, token):
        folder = self.path("serviceaccount")
        os.makedirs(os.path.join(folder, "..2"))
        self.write("serviceaccount/..2/token", token.encode())
        os.symlink("..2", os.path.join(folder, "..next"))
        os.replace(os.path.join(folder, "..next"), os.path.join(folder, "..data"))
        self.service.web_token = token

    def assert_keys_are_from(self, point, origin):
        text = self.read_whole(point, ".weightfs", "status.json").decode()
        sent = json.loads(text)["keys"][self.store.url]
        self.assertEqual(sent["from"], origin)
        self.assertIn(sent["expires"], [key.expiry.strftime("%Y-%m-%dT%H:%M:%SZ") for _, key in self.service.issued])
        for secret in self.service.secrets():
            self.assertNotIn(secret, text)

    def rewrite(self, name, text):
        self.write(name + ".new", text.encode())
        os.replace(self.path(name + ".new"), self.path(name))

    def files_of_cache(self):
        return [self.read_whole(folder, name).decode(errors="replace") for folder, _, names in os.walk(self.cache())
                for name in names if not os.path.islink(os.path.join(folder, name))]


class AcrossExpiries(RenewedKeysTestCase):
    # semantics 23.2
    def test_web_identity_is_renewed_with_a_token_that_is_replaced(self):
        self.use_web_identity()
        point = self.mount(*EACH_READ, "s3://models/zoo/")
        self.read_until_issued(point, 2)
        self.rotate_web_identity("second-token-of-the-pod")
        self.read_until_issued(point, 4)
        self.assert_no_refusal()
        self.assertNotIn("token", " ".join(request.target for request in self.service.requests()))
        self.assert_keys_are_from(point, "STS web identity")

    # semantics 23.2
    def test_container_is_asked_with_the_token_of_its_file(self):
        self.service.authorization = "first token"
        self.write("pod/token", b"first token\n")
        os.environ.update(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{self.service.url}/container/x",
                          AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=self.path("pod/token"))
        point = self.mount(*EACH_READ, "s3://models/zoo/")
        self.read_until_issued(point, 2)
        self.service.authorization = "second token"
        self.rewrite("pod/token", "second token\n")
        self.read_until_issued(point, 4)
        self.assert_no_refusal()
        self.assert_keys_are_from(point, "container metadata")

    # semantics 23.2
    def test_instance_is_asked_by_version_two(self):
        del os.environ["AWS_EC2_METADATA_DISABLED"]
        os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = self.service.url
        point = self.mount(*EACH_READ, "s3://models/zoo/")
        self.read_until_issued(point, 3)
        self.assert_no_refusal()
        self.assertEqual(len(self.service.requests("/api/token")), len(self.service.issued))
        self.assert_keys_are_from(point, "instance metadata")

    # semantics 23.2
    def test_file_is_read_again_when_its_keys_expire(self):
        def rewrite():
            self.rewrite("keys/lease.json", json.dumps({"Version": 1, **{
                "SessionToken" if name == "Token" else name: text for name, text in self.service.as_json().items()}}))
        rewrite()
        point = self.mount(*EACH_READ, "--credentials-file", self.path("keys/lease.json"), "s3://models/zoo/")
        for count in (2, 3, 4):
            before = len(self.store.requests())
            rewrite()
            for _ in range(80):
                self.read_next(point)
                if any(self.service.issued[-1][0] in request.authorization for request in self.store.requests()[before:]):
                    break
                time.sleep(0.1)
            else:
                self.fail("the new keys are not used")
            self.assertEqual(len(self.service.issued), count)
        self.assert_no_refusal()
        self.assert_keys_are_from(point, self.path("keys/lease.json"))


class Sources(RenewedKeysTestCase):
    lifetime = 3600

    def assert_one_key_is_used(self):
        listed = run("ls", "--all", "s3://models/zoo/")
        self.assertEqual((listed.returncode, listed.stderr), (0, ""))
        self.assertEqual(len(self.service.issued), 1)
        self.assertTrue(all(self.service.issued[0][0] in request.authorization for request in self.store.requests()))

    # semantics 23.2
    def test_role_is_assumed_with_the_keys_of_another_profile(self):
        self.service.signers[KEY_ID] = SECRET, None
        self.write("home/.aws/credentials", f"[base]\naws_access_key_id={KEY_ID}\naws_secret_access_key={SECRET}\n".encode())
        self.write("home/.aws/config", f"[profile work]\nrole_arn = {ROLE}\nsource_profile = base\nexternal_id = a b/c\n".encode())
        os.environ.update(AWS_PROFILE="work", AWS_ENDPOINT_URL_STS=self.service.url)
        self.assert_one_key_is_used()
        self.service.signers[KEY_ID] = "other", None
        status, text = self.message("s3://models/zoo/000.bin")
        self.assertEqual(status, 4)
        self.assertIn(f"the role {ROLE}: {self.service.url}/: status 403, SignatureDoesNotMatch: No", text)

    # semantics 23.2
    def test_single_sign_on_uses_the_login_of_the_command_line(self):
        self.write("home/.aws/config", b"[default]\nsso_session = s\nsso_account_id = 123456789012\nsso_role_name = Reader\n"
                                       b"[sso-session s]\nsso_start_url = https://start.example\nsso_region = eu-west-1\n")
        os.environ["AWS_ENDPOINT_URL_SSO"] = self.service.url
        name = "home/.aws/sso/cache/" + hashlib.sha1(b"s").hexdigest() + ".json"
        status, text = self.message("s3://models/zoo/000.bin")
        self.assertEqual(status, 4)
        self.assertIn("run: aws sso login --profile default", text)
        self.write(name, json.dumps({"accessToken": self.service.login, "expiresAt": "2190-01-01T00:00:00Z"}).encode())
        self.assert_one_key_is_used()

    # semantics 23.2
    def test_address_that_may_not_give_keys_is_refused(self):
        os.environ.update(AWS_CONTAINER_CREDENTIALS_FULL_URI="http://203.0.113.1/x", AWS_CONTAINER_AUTHORIZATION_TOKEN="hidden")
        status, text = self.message("s3://models/zoo/000.bin")
        self.assertEqual(status, 4)
        self.assertIn("AWS_CONTAINER_CREDENTIALS_FULL_URI=http://203.0.113.1/x: refused", text)
        self.assertEqual(self.store.requests(), [])

    # semantics 23.2
    def test_redirect_of_a_service_is_refused(self):
        self.use_web_identity()
        os.environ["AWS_ENDPOINT_URL_STS"] = self.store.server.serve("sts/", lambda request: (
            307, {"Location": self.service.url + "/"}, b""))
        status, text = self.message("s3://models/zoo/000.bin")
        self.assertEqual(status, 4)
        self.assertIn("redirect of a request for keys", text)
        self.assertEqual(self.service.requests(), [])

    # semantics 23.2
    def test_payer_and_owner_are_signed(self):
        self.login()
        done = run("ls", "--all", "--requester-pays", "--expected-bucket-owner", "123456789012", "s3://models/zoo/")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for request in self.store.requests():
            self.assertEqual(request.headers.get("x-amz-request-payer"), "requester")
            self.assertEqual(request.headers.get("x-amz-expected-bucket-owner"), "123456789012")
            self.assertIn("x-amz-expected-bucket-owner;x-amz-request-payer", request.authorization)
        self.assertEqual(run("ls", "--expected-bucket-owner", "1", "s3://models/zoo/").returncode, 2)


class Refusals(RenewedKeysTestCase):
    lifetime = 3600

    def read_fails(self, point):
        with self.assertRaises(OSError) as caught:
            self.read_next(point)
        return caught.exception.errno

    # semantics 23.2
    def test_revoked_key_is_forbidden_with_a_reason_until_it_is_back(self):
        self.use_web_identity()
        process, point = self.foreground(*EACH_READ, "s3://models/zoo/")
        self.read_next(point)
        key_id, key = self.service.issued[-1]
        del self.store.keys[key_id]
        self.service.refusal = 403, "AccessDenied"
        self.assertEqual(self.read_fails(point), errno.EACCES)
        self.store.keys[key_id] = key
        self.read_next(point)
        log = "\n".join(self.end(process))
        self.assertIn("web identity", log)
        self.assertIn("AccessDenied", log)

    # semantics 23.2
    def test_new_keys_replace_those_that_a_store_refuses(self):
        self.use_web_identity()
        point = self.mount(*EACH_READ, "s3://models/zoo/")
        self.read_next(point)
        del self.store.keys[self.service.issued[-1][0]]
        self.read_next(point)
        self.assertEqual(len(self.service.issued), 2)
        self.assertEqual(self.count(status=403), 1)

    # semantics 23.2
    def test_secrets_of_services_appear_nowhere(self):
        self.use_web_identity()
        process, point = self.foreground("--all", "--prefetch=off", "--log-level", "debug", "s3://models/zoo/")
        self.read_next(point)
        self.service.refusal = 403, "AccessDenied"
        del self.store.keys[self.service.issued[-1][0]]
        self.assertEqual(self.read_fails(point), errno.EACCES)
        texts = [self.read_whole(point, ".weightfs", name).decode() for name in os.listdir(os.path.join(point, ".weightfs"))]
        for pid in (process.pid, self.server(point)):
            with open(f"/proc/{pid}/cmdline") as file:
                texts.append(file.read())
        texts += self.end(process) + self.files_of_cache()
        for text in texts:
            for secret in self.service.secrets():
                self.assertNotIn(secret, text)


class Outages(RenewedKeysTestCase):
    lifetime = 2

    # semantics 14.8
    def test_service_is_asked_as_often_as_retries_say(self):
        self.use_web_identity()
        self.service.refusal = 503, "ServiceUnavailable"
        status, text = self.message("--retries", "1", "s3://models/zoo/")
        self.assertEqual((status, len(self.service.requests())), (8, 2))
        self.assertIn("STS web identity", text)
        self.assertEqual(self.store.requests(), [])

    # semantics 23.2
    def test_old_keys_of_an_instance_are_used_while_metadata_fails(self):
        del os.environ["AWS_EC2_METADATA_DISABLED"]
        os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = self.service.url
        point = self.mount(*EACH_READ, "s3://models/zoo/")
        self.read_next(point)
        self.service.refusal = 500, "InternalError"
        key_id, key = self.service.issued[-1]
        self.store.keys[key_id] = key._replace(expiry=None)  # AWS extends it
        asked = len(self.service.requests())
        until(lambda: datetime.datetime.now(datetime.timezone.utc) > key.expiry, "the key has not expired")
        for _ in range(5):
            self.read_next(point)
        until(lambda: len(self.service.requests()) > asked, "metadata were not asked again")
        self.assert_no_refusal()
        self.assertTrue(all(issued[0] == key_id for issued in self.service.issued))


if __name__ == "__main__":
    unittest.main()
