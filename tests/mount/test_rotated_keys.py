"""Keys, tokens and logins in files, which are replaced and revoked while readers use a mount: how many reads fail, and how many
requests the server refuses."""
import base64
import errno
import json
import os
import random
import threading
import unittest

from fetching import FetchTestCase
from mounting import LIMIT_S, until
from registry_server import RegistryServer
from s3_server import KEY_ID, REGION, SECRET, Key, Refused
from test_archives import noise
from test_hub import HubTestCase
from test_s3 import S3TestCase
from tensors import Tensor
import artifacts
import stores

READERS = 2
COUNT, SIZE = 160, 64 << 10  # of the tensors: more than 8 MiB, so that they are requested one by one


class Readers:
    """Threads that read tensors which are not cached, in random order. They begin as many reads as they are allowed to."""

    def __init__(self, test, point, tensors):
        self.point, self.tensors = point, random.Random(1).sample(tensors, len(tensors))
        self.allowed = self.begun = self.ended = 0
        self.failed = []  # names and errors
        self.changed = threading.Condition()
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(READERS)]
        for thread in self.threads:
            thread.start()
        test.addCleanup(self.stop)

    def stop(self):
        with self.changed:
            self.tensors = self.tensors[:self.begun]
            self.allowed = self.begun + 1
            self.changed.notify_all()
        for thread in self.threads:
            thread.join(LIMIT_S)

    def run(self):
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.begun < self.allowed)
                if self.begun == len(self.tensors):
                    return
                tensor = self.tensors[self.begun]
                self.begun += 1
            problem = self.problem_of(tensor)
            with self.changed:
                self.ended += 1
                if problem is not None:
                    self.failed.append((tensor.name, problem))
                self.changed.notify_all()

    def problem_of(self, tensor):
        try:
            with open(os.path.join(self.point, "tensors", tensor.name), "rb") as file:
                return None if file.read() == tensor.data else "other bytes"
        except OSError as error:
            return error.errno

    def allow(self, count):
        with self.changed:
            self.allowed += count
            self.changed.notify_all()

    def wait_for(self, ended):
        with self.changed:
            if not self.changed.wait_for(lambda: self.ended >= ended, LIMIT_S):
                raise AssertionError(f"{self.ended} reads have ended, not {ended}; failed: {self.failed}")

    def read(self, count):
        """Reads as many tensors, and waits for their end."""
        self.allow(count)
        self.wait_for(self.allowed)


class Rotated:
    """A kind of keys: its class publishes tensors and returns their URL (`publish`), replaces the file by one with a key
    (`write_key`), makes the server accept some keys only (`accept`), and lists the requests that were refused (`refused`)."""
    REFUSED = errno.EACCES  # the error of a read

    def setUp(self):
        super().setUp()
        self.tensors = [Tensor(f"layer.{i}", "uint8", (SIZE,), noise(SIZE, seed=i + 1)) for i in range(COUNT)]
        self.url = self.publish(stores.safetensors(self.path("."), self.tensors))
        os.mkdir(self.path("keys"))
        self.accept("first")
        self.write_key("first")
        self.readers = Readers(self, self.mount("--prefetch=off", self.url), self.tensors)
        self.readers.read(10)
        self.assertEqual(self.readers.failed, [])
        self.refused_before = len(self.refused())

    def replace(self, name, text):
        """Replaces a file as programs do it that others read meanwhile."""
        os.replace(self.write(f"keys/{name}.new", text.encode()), self.path("keys", name))

    def assert_refused_once(self):
        """Each reader may have a request under way with the old key."""
        refused = self.refused()[self.refused_before:]
        self.assertLessEqual(len(refused), READERS, refused)

    def test_no_read_fails_if_the_old_key_is_valid_after_the_new_one(self):
        self.accept("first", "second")
        self.write_key("second")
        self.readers.read(20)
        self.accept("second")
        self.readers.read(30)
        self.assertEqual(self.readers.failed, [])
        self.assert_refused_once()

    def test_at_most_one_read_fails_if_the_old_key_is_revoked_at_once(self):
        self.readers.allow(60)
        self.readers.wait_for(20)
        self.write_key("second")
        self.accept("second")
        self.readers.wait_for(self.readers.allowed)
        self.readers.read(20)
        self.assertLessEqual(len(self.readers.failed), 1, self.readers.failed)
        self.assert_refused_once()

    def test_revoked_key_is_an_error_until_the_file_has_another(self):
        self.accept()
        self.readers.read(4)
        self.assertEqual((len(self.readers.failed), {error for _, error in self.readers.failed}), (4, {self.REFUSED}))
        self.accept("second")
        self.write_key("second")
        until(lambda: self.readers.problem_of(self.readers.tensors[-1]) is None, "the new key is not used")
        failed = len(self.readers.failed)
        self.readers.read(20)
        self.assertEqual(self.readers.failed[failed:], [])


# semantics 22.3
class TokensOfTheHub(Rotated, HubTestCase):
    """The token is needed to resolve a file. The URL at the CDN, which needs none, expires with each change of keys."""

    def publish(self, data):
        repository = self.hub.add("org/demo", {"model.safetensors": data})
        repository.gated = "manual"
        os.environ["HF_TOKEN_PATH"] = self.path("keys", "token")  # restored by the patch of the base class
        return "hf://org/demo"

    def write_key(self, name):
        self.replace("token", f"hf_{name}\n")

    def accept(self, *names):
        self.hub.tokens = {f"hf_{name}": ["org/demo"] for name in names}
        self.hub.ahead += self.hub.lifetime + 1

    def refused(self):
        return [request for request in self.hub.requests("hub") if request.status in (401, 403)]


class ObjectStore(Rotated):
    def publish(self, data):
        os.environ.update(AWS_SHARED_CREDENTIALS_FILE=self.path("keys", "credentials"), AWS_REGION=REGION)
        return self.store.put("models", "tiny/model.safetensors", data)

    def write_keys(self, key_id, secret, more=""):
        self.replace("credentials", f"[default]\naws_access_key_id = {key_id}\naws_secret_access_key = {secret}\n{more}")

    def refused(self):
        return [request for request in self.store.requests() if request.status in (400, 403)]


# semantics 23.2
class SharedCredentials(ObjectStore, S3TestCase):
    def write_key(self, name):
        self.write_keys(f"AKID{name}", f"secret/{name}")

    def accept(self, *names):
        self.store.keys = {f"AKID{name}": Key(f"secret/{name}") for name in names}


# semantics 23.2
class SessionTokens(ObjectStore, S3TestCase):
    """The next token of the same key is in the file before the old one expires, or when it does."""

    def write_key(self, name):
        self.write_keys(KEY_ID, SECRET, f"aws_session_token = {name}\n")

    def accept(self, *names):
        def check(request):
            if request.headers.get("x-amz-security-token") not in names:
                raise Refused(400, "ExpiredToken", "The provided token has expired.")
        self.store.before = [check]


# semantics 24.1
class DockerLogins(Rotated, FetchTestCase):
    def publish(self, data):
        self.registry = RegistryServer(self)
        os.environ["DOCKER_CONFIG"] = self.path("keys")  # restored by the patch of the base class
        artifact = artifacts.modelpack().add("application/vnd.cncf.model.weight.v1.raw", data, "model.safetensors")
        return self.registry.push(artifact, "ai/tiny", "latest")

    def write_key(self, name):
        auth = base64.b64encode(f"anna:{name}".encode()).decode()
        self.replace("config.json", json.dumps({"auths": {self.registry.host: {"auth": auth}}}))

    def accept(self, *names):
        self.registry.logins = {("anna", name) for name in names}

    def refused(self):
        return [request for request in self.registry.requests() if request.status == 401]


if __name__ == "__main__":
    unittest.main()
