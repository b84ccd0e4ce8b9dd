"""Models in Azure Blob Storage, mounted from a double that verifies signatures and tokens, and from Azurite: the bytes, the
requests, and who sends them."""
import base64
import datetime
import errno
import hashlib
import hmac
import json
import os
import signal
import subprocess
import time
import unittest
import urllib.parse
import urllib.request

from fetching import FetchTestCase
from mounting import run, until
from azure_server import ACCOUNT, KEY, SAS, AzureServer, signature
from servers import ended_with_parent, listening_port
from test_urls import KIB, MIB, tensors
import npm_packages
import stores

AZURITE = "3.35.0"  # later ones need Node 22
EACH_READ = ("--all", "--no-cache", "--prefetch=off")  # is a request


class AzureTestCase(FetchTestCase):
    lifetime = 3600  # of tokens, in seconds

    def setUp(self):
        super().setUp()
        for name in list(os.environ):
            if name.startswith(("AZURE_", "IDENTITY_")):
                del os.environ[name]  # restored after the test
        self.store = self.start_store()
        os.environ.update(AZURE_STORAGE_ENDPOINT=self.store.url, AZURE_STORAGE_ACCOUNT_NAME=ACCOUNT)

    def start_store(self):
        return AzureServer(self, lifetime=self.lifetime)

    def login(self):
        os.environ["AZURE_STORAGE_ACCOUNT_KEY"] = KEY

    def use_client_secret(self):
        os.environ.update(AZURE_TENANT_ID="the-tenant", AZURE_CLIENT_ID="the-client", AZURE_CLIENT_SECRET=self.store.secret,
                          AZURE_AUTHORITY_HOST=self.store.origin)

    def use_workload_identity(self):
        self.write("token", self.store.assertion.encode())
        os.environ.update(AZURE_TENANT_ID="the-tenant", AZURE_CLIENT_ID="the-client", AZURE_FEDERATED_TOKEN_FILE=self.path("token"),
                          AZURE_AUTHORITY_HOST=self.store.origin)

    def put_model(self, name="tiny/model.safetensors", count=4, size=200 * KIB):
        written = tensors(count, size)
        return self.store.put("models", name, stores.safetensors(self.path("."), written)), written

    def put_files(self, count=400):
        for number in range(count):
            self.store.put("models", f"zoo/{number:03}.bin", bytes([number % 251]) * 3000)
        return f"az://{ACCOUNT}/models/zoo/"

    def read_file(self, point, number):
        self.assertEqual(self.read_whole(point, f"{number:03}.bin"), bytes([number % 251]) * 3000)

    def message(self, *argv):
        done = run("info", *argv)
        self.assertEqual(done.stdout.strip() if done.returncode else "", "")
        return done.returncode, done.stderr.strip()

    def assert_no_secret(self, text):
        for secret in self.store.secrets():
            self.assertNotIn(secret, text)


class Blobs(AzureTestCase):
    # semantics 23.10
    def test_path_is_a_model_file(self):
        self.login()
        url, written = self.put_model("with space/m + é=%41.safetensors")
        point = self.mount(url)
        for tensor in written:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)
        self.assertEqual(json.loads(self.read_whole(point, "metadata.json"))["source"], url)
        self.assertEqual({request.status for request in self.store.requests()}, {206})
        self.assertTrue(all(request.authorization.startswith("SharedKey ") for request in self.store.requests()))

    # semantics 23.10
    def test_prefix_is_listed_in_pages(self):
        self.login()
        self.store.page = 3
        for number in range(7):
            self.put_model(f"my zoo/{number}.safetensors", count=1)
        listing = run("ls", f"az://{ACCOUNT}/models/my zoo/").stdout.split()
        self.assertEqual(listing, [f"{number}.safetensors" for number in range(7)])
        self.assertEqual(len(self.store.requests("comp=list")), 3)

    # semantics 23.10
    def test_directory_of_a_hierarchical_namespace_is_a_prefix_and_no_file(self):
        self.login()
        _, written = self.put_model("llama/model.safetensors")
        for name in ("llama", "llama/empty"):
            self.store.put("models", name, b"", is_directory=True)
        point = self.mount(f"az://{ACCOUNT}/models/llama")
        self.assertEqual(self.read_whole(point, "tensors", written[0].name), written[0].data)
        self.assertEqual(os.listdir(os.path.join(point, "files")), ["model.safetensors"])

    # semantics 23.10
    def test_tensor_is_read_by_its_range(self):
        self.login()
        url, written = self.put_model(count=8, size=400 * KIB)
        self.assertEqual(run("cat", url, f"tensors/{written[5].name}", text=False).stdout, written[5].data)
        sent = sum(request.length for request in self.store.of_blobs())
        self.assertLess(sent, 4 * 400 * KIB)

    # semantics 23.10
    def test_public_blob_is_read_with_a_token_that_has_no_role(self):
        self.use_client_secret()
        self.store.has_role = False
        url, written = self.put_model(count=2)
        self.store.public.add("models")
        self.assertEqual(self.message(url)[0], 4)
        del os.environ["AZURE_STORAGE_ACCOUNT_NAME"]  # the token is for no account in particular
        before = len(self.store.of_blobs())
        done = run("cat", url, f"tensors/{written[1].name}", text=False)
        self.assertEqual((done.stderr, done.stdout), (b"", written[1].data))
        self.assertEqual(self.store.of_blobs()[before].status, 403)
        self.assertEqual({request.authorization for request in self.store.of_blobs()[before + 1:]}, {""})
        self.store.public.clear()
        self.assertIn("tried with the token of client secret, and anonymously", self.message(url)[1])

    # semantics 23.10
    def test_abfs_names_its_server(self):
        code, text = self.message("abfs://models@teststore.example/m.gguf")
        self.assertEqual(code, 4)
        self.assertIn("write abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH", text)
        self.login()
        self.put_model()
        listed = run("ls", f"abfss://models@{ACCOUNT}.dfs.core.windows.net/tiny/model.safetensors", "files")
        self.assertEqual(listed.stdout.split(), ["model.safetensors"])

    # semantics 23.10
    def test_md5_of_the_uploader_is_compared(self):
        self.login()
        data = stores.safetensors(self.path("."), tensors(1, 4 * KIB))
        url = self.store.put("models", "m.safetensors", data, md5=hashlib.md5(data).digest())
        self.assertEqual(run("info", url).returncode, 0)
        wrong = self.store.put("models", "wrong.safetensors", data, md5=hashlib.md5(b"other").digest())
        code, text = self.message(wrong)
        self.assertEqual(code, 7)
        self.assertIn("the bytes do not match Content-MD5", text)

    # semantics 23.10
    def test_replaced_blob_is_an_error_of_the_read(self):
        self.login()
        url = self.put_files(3)
        point = self.mount(*EACH_READ, url)
        self.read_file(point, 0)
        self.store.put("models", "zoo/001.bin", b"\xff" * 3000)
        with self.assertRaises(OSError) as caught:
            self.read_whole(point, "001.bin")
        self.assertEqual(caught.exception.errno, errno.EIO)
        self.assertIn(412, {request.status for request in self.store.requests()})

    # semantics 23.10
    def test_offline_uses_what_was_seen(self):
        self.login()
        _, written = self.put_model()
        for url in (f"az://{ACCOUNT}/models/tiny/", f"az://{ACCOUNT}/models/tiny/model.safetensors"):
            whole = run("cat", url, f"tensors/{written[1].name}", text=False)
            self.assertEqual(whole.stdout, written[1].data)
            count = len(self.store.requests())
            again = run("cat", "--offline", url, f"tensors/{written[1].name}", text=False)
            self.assertEqual(again.stdout, written[1].data)
            self.assertEqual(len(self.store.requests()), count)
        self.assertEqual(self.message("--offline", f"az://{ACCOUNT}/other/x/")[0], 8)


class Credentials(AzureTestCase):
    # semantics 23.10
    def test_public_container_needs_none(self):
        url, _ = self.put_model()
        code, text = self.message(url)
        self.assertEqual(code, 4)
        self.assertIn("access denied", text)
        self.assertIn("tried anonymously", text)
        self.store.public.add("models")
        self.assertEqual(run("info", url).returncode, 0)
        self.assertEqual({request.authorization for request in self.store.requests()}, {""})

    # semantics 23.10
    def test_wrong_key_is_refused(self):
        os.environ["AZURE_STORAGE_ACCOUNT_KEY"] = "AAAA"
        url, _ = self.put_model()
        code, text = self.message(url)
        self.assertEqual(code, 4)
        self.assertIn("AuthenticationFailed: Server failed to authenticate the request (tried with the key of "
                      "$AZURE_STORAGE_ACCOUNT_KEY)", text)
        self.assertNotIn("RequestId", text)

    # semantics 23.10
    def test_signature_is_sent_and_shown_nowhere(self):
        os.environ["AZURE_STORAGE_SAS_TOKEN"] = "?" + SAS
        url = self.put_files(3)
        process, point = self.foreground(*EACH_READ, "--log-level", "debug", url)
        self.read_file(point, 1)
        status = self.read_whole(point, ".weightfs", "status.json").decode()
        self.assertEqual(json.loads(status)["keys"][self.store.origin]["from"], "$AZURE_STORAGE_SAS_TOKEN")
        self.store.sas = None  # revoked
        with self.assertRaises(OSError) as caught:
            self.read_whole(point, "002.bin")
        self.assertEqual(caught.exception.errno, errno.EACCES)
        log = "\n".join(self.end(process))
        self.assertIn("AuthenticationFailed", log)
        self.assert_no_secret(status + log)
        self.assertTrue(all(request.target.endswith(SAS) for request in self.store.requests()))

    # semantics 23.10
    def test_connection_string_has_everything(self):
        del os.environ["AZURE_STORAGE_ENDPOINT"], os.environ["AZURE_STORAGE_ACCOUNT_NAME"]
        url, _ = self.put_model()
        os.environ["AZURE_STORAGE_CONNECTION_STRING"] = f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={self.store.url};"
        self.assertEqual(run("info", url).returncode, 0)
        os.environ["AZURE_STORAGE_CONNECTION_STRING"] = f"BlobEndpoint={self.store.url};SharedAccessSignature={SAS}"
        self.assertEqual(run("info", url).returncode, 0)
        self.assertTrue(self.store.requests(SAS))

    # semantics 15.4
    def test_plain_http_is_for_loopback(self):
        os.environ["AZURE_STORAGE_ENDPOINT"] = "http://store.example/teststore"
        code, text = self.message(f"az://{ACCOUNT}/models/x")
        self.assertEqual(code, 4)
        self.assertIn("AZURE_STORAGE_ENDPOINT=http://store.example/teststore: http:// needs --insecure", text)

    # semantics 23.10
    def test_secret_of_an_application_gives_a_token(self):
        self.use_client_secret()
        url, _ = self.put_model()
        self.assertEqual(run("info", url).returncode, 0)
        self.assertEqual(len(self.store.of_tokens()), 1)
        self.store.secret = "another secret"
        code, text = self.message(url)
        self.assertEqual(code, 4)
        self.assertIn("client secret: ", text)
        self.assert_no_secret(text)

    # semantics 23.10
    def test_managed_identity_is_asked_by_name(self):
        os.environ["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = self.store.origin
        url, _ = self.put_model()
        self.assertEqual(run("info", url).returncode, 0)
        self.assertEqual([request.path for request in self.store.of_tokens()], ["/metadata/identity/oauth2/token"])


class RenewedTokens(AzureTestCase):
    lifetime = 5  # seconds: tokens are renewed in their last third

    # semantics 23.10
    def test_token_is_renewed_before_it_ends(self):
        self.use_workload_identity()
        point = self.mount(*EACH_READ, self.put_files())
        for number in range(390):
            self.read_file(point, number)
            if len(self.store.of_tokens()) >= 3:
                break
            time.sleep(0.1)  # it spreads the reads over the life of the tokens
        self.assertGreaterEqual(len(self.store.of_tokens()), 3)
        self.assertEqual({request.status for request in self.store.of_blobs()} - {200, 206}, set())
        status = self.read_whole(point, ".weightfs", "status.json").decode()
        self.assertEqual(json.loads(status)["keys"][self.store.origin]["from"], "workload identity")
        self.assert_no_secret(status)


class RevokedTokens(AzureTestCase):
    # semantics 23.10
    def test_refused_token_is_requested_again(self):
        self.use_workload_identity()
        point = self.mount(*EACH_READ, self.put_files(5))
        self.read_file(point, 0)
        self.store.tokens.clear()  # revoked
        self.store.tokens["placeholder"] = None
        self.read_file(point, 1)
        self.assertIn(401, {request.status for request in self.store.of_blobs()})
        self.assertEqual(len(self.store.of_tokens()), 2)

    # semantics 23.10
    def test_read_without_a_valid_token_is_denied(self):
        self.use_workload_identity()
        point = self.mount(*EACH_READ, self.put_files(5))
        self.read_file(point, 0)
        self.store.tokens.clear()
        self.store.token_status = 400
        with self.assertRaises(OSError) as caught:
            self.read_whole(point, "001.bin")
        self.assertEqual(caught.exception.errno, errno.EACCES)


class FromAzurite(AzureTestCase):
    """The emulator of Microsoft. It verifies signatures, and lists and sends blobs in its own way: all blobs in one page, with
    empty elements, and chunked."""
    NAME = "with space/m + é & <b>=%.safetensors"

    def start_store(self):
        folder = npm_packages.folder_with(f"azurite@{AZURITE}")
        if folder is None:
            self.skipTest("azurite is not installed")
        program = os.path.join(folder, "node_modules", "azurite", "dist", "src", "blob", "main.js")
        os.mkdir(self.path("store"))
        with open(self.path("azurite.log"), "wb") as log:
            self.process = subprocess.Popen(
                ["node", program, "--blobHost", "127.0.0.1", "--blobPort", "0", "--location", self.path("store"), "--silent",
                 "--disableTelemetry"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
                preexec_fn=ended_with_parent(signal.SIGKILL))
        self.addCleanup(self.end_store)
        until(lambda: listening_port(self.process.pid) or self.process.poll() is not None, "azurite does not start")
        self.assertIsNone(self.process.poll(), self.read("azurite.log"))
        self.origin = f"http://127.0.0.1:{listening_port(self.process.pid)}"
        self.url = f"{self.origin}/{ACCOUNT}"
        return self

    def end_store(self):
        self.process.terminate()
        self.process.wait(60)

    def put(self, target, data=b"", **headers):
        """A signed request, by the implementation of the double."""
        path = f"/{ACCOUNT}/{target}"
        now = datetime.datetime.now(datetime.timezone.utc)
        sent = {"x-ms-version": "2023-11-03", "x-ms-date": now.strftime("%a, %d %b %Y %H:%M:%S GMT"),
                "content-type": "application/octet-stream", **{name.replace("_", "-"): text for name, text in headers.items()}}
        if data:
            sent["content-length"] = str(len(data))
        sent["authorization"] = f"SharedKey {ACCOUNT}:{signature(KEY, 'PUT', path, sent)}"
        with urllib.request.urlopen(urllib.request.Request(self.origin + path, data, sent, method="PUT"), timeout=60) as answer:
            self.assertEqual(answer.status, 201)

    def upload(self, name, data, container="models"):
        self.put(f"{container}/{urllib.parse.quote(name)}", data, x_ms_blob_type="BlockBlob")

    def upload_models(self, **access):
        self.put("models?restype=container", **access)
        written = tensors(3, MIB)
        data = stores.safetensors(self.path("."), written)
        for name in ("zoo/a.safetensors", "zoo/b.safetensors", self.NAME):
            self.upload(name, data)
        self.upload("zoo/notes.txt", b"text")
        return written

    def assert_models_are_right(self, written):
        point = self.mount("--all", f"az://{ACCOUNT}/models", at="all")
        self.assertEqual(sorted(os.listdir(point)), ["with space", "zoo"])
        self.assertEqual(self.read_whole(point, "zoo", "notes.txt"), b"text")
        point = self.mount(f"az://{ACCOUNT}/models/zoo/")
        for name in ("a.safetensors", "b.safetensors"):
            for tensor in written:
                self.assertEqual(self.read_whole(point, name, "tensors", tensor.name), tensor.data)
        point = self.mount("--no-cache", f"az://{ACCOUNT}/models/{self.NAME}", at="name")
        self.assertEqual(self.read_whole(point, "tensors", written[2].name), written[2].data)
        status, text = self.message(f"az://{ACCOUNT}/models/absent")
        self.assertEqual(status, 3)
        self.assertIn("no such blob, and no blobs below it", text)

    def shared_access(self, permissions, end="2190-01-01T00:00:00Z"):
        """A signature for the account. ("Create an account SAS", version 2020-12-06 and later.)"""
        fields = {"sv": "2023-11-03", "ss": "b", "srt": "sco", "sp": permissions, "se": end}
        text = "\n".join([ACCOUNT, permissions, "b", "sco", "", end, "", "", fields["sv"], "", ""])
        mac = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        return urllib.parse.urlencode({**fields, "sig": base64.b64encode(mac).decode()})

    def refused(self):
        status, text = self.message(f"az://{ACCOUNT}/models/zoo/a.safetensors")
        self.assertEqual(status, 4)
        return text

    # semantics 23.10
    def test_requests_are_signed_by_the_key(self):
        written = self.upload_models()
        self.login()
        self.assert_models_are_right(written)
        self.assertIn("ContainerNotFound: The specified container does not exist", self.message(f"az://{ACCOUNT}/absent/x")[1])
        os.environ["AZURE_STORAGE_ACCOUNT_KEY"] = base64.b64encode(b"another key").decode()
        self.assertIn("AuthorizationFailure: Server failed to authenticate the request", self.refused())

    # semantics 23.10
    def test_shared_access_signature_may_read_and_list(self):
        written = self.upload_models()
        os.environ["AZURE_STORAGE_SAS_TOKEN"] = self.shared_access("rl")
        self.assert_models_are_right(written)
        os.environ["AZURE_STORAGE_SAS_TOKEN"] = self.shared_access("rl", end="2020-01-01T00:00:00Z")
        self.assertIn("AuthorizationFailure", self.refused())

    # semantics 23.10
    def test_public_container_needs_no_key(self):
        self.assert_models_are_right(self.upload_models(x_ms_blob_public_access="container"))

    # semantics 23.10
    def test_replaced_blob_is_an_error_of_the_read(self):
        self.upload_models()
        self.upload("zoo/notes.txt", bytes(3000))
        self.login()
        point = self.mount(*EACH_READ, f"az://{ACCOUNT}/models/zoo/")
        self.upload("zoo/notes.txt", b"\xff" * 3000)
        with self.assertRaises(OSError) as caught:
            self.read_whole(point, "notes.txt")
        self.assertEqual(caught.exception.errno, errno.EIO)


if __name__ == "__main__":
    unittest.main()
