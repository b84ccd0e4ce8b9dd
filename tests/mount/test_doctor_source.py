"""weightfs doctor SOURCE: which servers are asked, with which keys, what they answer, and what to do about that.
semantics 15.7"""
import json
import os
import subprocess
import unittest

from fetching import FetchTestCase, closed_port
from azure_server import KEY
from gcs_server import CLIENT_SECRET, REFRESH
from mounting import LIMIT_S, WEIGHTFS, on_terminal, sample_tensors
from registry_server import RegistryServer
from s3_server import KEY_ID, SECRET
from scripted_server import Server, correct, responds
from servers import needs, self_signed_certificate
from test_az import AzureTestCase
from test_gs import GsTestCase
from test_hub import TOKEN, HubTestCase
from test_s3 import S3TestCase
import stores

OK = 0
NOT_FOUND, REFUSED, UNAVAILABLE = 3, 4, 8


class DoctorTestCase(FetchTestCase):
    secrets = ()

    def examine(self, source, *options, status=OK, server=""):
        """The checks; of several servers, those of the first whose URL begins with `server`."""
        done = subprocess.run([WEIGHTFS, "doctor", "--json", "--timeout", "5", *options, source], capture_output=True, text=True,
                              timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (status, ""), done.stdout)
        for secret in self.secrets:
            self.assertNotIn(secret, done.stdout)
        checks, is_asked = {}, True
        for check in json.loads(done.stdout):
            self.assertEqual(list(check), ["check", "verdict", "found", "advice"])
            if check["check"] == "server":
                is_asked = check["found"].startswith(server)
            if is_asked or check["check"] == "opening":
                checks.setdefault(check["check"], check)
        self.assertEqual(checks["opening"]["verdict"], "failure" if status else "ok")
        self.assertEqual(bool(checks["opening"]["advice"]), bool(status))
        return checks

    def assert_checks(self, checks, **found):
        for name, text in found.items():
            self.assertIn(text, checks[name]["found"], name)

    def assert_advice(self, checks, text):
        self.assertIn(text, checks["opening"]["advice"])


class Hub(DoctorTestCase, HubTestCase):
    secrets = (TOKEN, "hf_wrong")

    # semantics 15.7
    def test_key_wrong_key_and_no_server(self):
        repository, _ = self.publish(count=1, size=1000)
        repository.private = True
        self.assert_advice(self.examine("hf://org/demo", status=NOT_FOUND), "set HF_TOKEN, or run hf auth login")
        self.hub.tokens[TOKEN] = ["org/demo"]
        os.environ["HF_TOKEN"] = TOKEN
        checks = self.examine("hf://org/demo", server=self.hub.url)
        self.assert_checks(checks, source="hf://org/demo is a repository of the Hugging Face Hub", server=self.hub.url,
                           key="$HF_TOKEN, read ", answer="20", opening="it opens")
        os.environ["HF_TOKEN"] = "hf_wrong"
        checks = self.examine("hf://org/demo", status=REFUSED)
        self.assert_checks(checks, answer="401 Unauthorized")
        self.assert_advice(checks, "does not accept the key of $HF_TOKEN")
        os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{closed_port()}"
        checks = self.examine("hf://org/demo", status=UNAVAILABLE)
        self.assert_checks(checks, answer="none")
        self.assert_advice(checks, "check that the server runs")


class ObjectStore(DoctorTestCase, S3TestCase):
    secrets = (SECRET, KEY_ID)

    # semantics 15.7
    def test_key_wrong_key_and_no_server(self):
        url, _ = self.put_model(count=1, size=1000)
        self.assert_advice(self.examine(url, status=REFUSED), "set AWS_ACCESS_KEY_ID")
        self.login()
        checks = self.examine(url)
        self.assert_checks(checks, source=f"{url} is an object store with the API of Amazon S3", server=self.store.url,
                           key="$AWS_ACCESS_KEY_ID, read ", answer="206 Partial Content")
        self.assert_checks(self.examine("s3://models/tiny/"), opening="it opens")
        self.assert_advice(self.examine("s3://models/none.gguf", status=NOT_FOUND), "check the name")
        os.environ["AWS_SECRET_ACCESS_KEY"] = "wrong"
        checks = self.examine(url, status=REFUSED)
        self.assert_checks(checks, answer="403 Forbidden", key="$AWS_ACCESS_KEY_ID, read ")
        self.assert_advice(checks, "the key of $AWS_ACCESS_KEY_ID is wrong, or has no right to read this")
        os.environ["AWS_ENDPOINT_URL_S3"] = f"http://127.0.0.1:{closed_port()}"
        self.assert_advice(self.examine(url, status=UNAVAILABLE), "check that the server runs")

    # semantics 15.7
    def test_wrong_clock_is_named(self):
        url, _ = self.put_model(count=1, size=1000)
        self.login()
        self.store.before.append(lambda request: (403, {"Date": "Tue, 14 Nov 2000 22:13:20 GMT"}, b""))
        self.assert_advice(self.examine(url, status=REFUSED), "minutes ahead of that of the server")


class Google(DoctorTestCase, GsTestCase):
    secrets = (REFRESH, CLIENT_SECRET, "ya29.")

    # semantics 15.7
    def test_key_wrong_key_and_no_server(self):
        url, _ = self.put_model(count=1, size=1000)
        self.assert_advice(self.examine(url, status=REFUSED), "run gcloud auth application-default login")
        self.use_login()
        checks = self.examine(url)
        self.assert_checks(checks, source="Google Cloud Storage", server=self.store.url, key=self.path("google/key.json"))
        self.assertIn("; expires ", checks["key"]["found"])
        self.use_login(refresh_token="wrong")
        checks = self.examine(url, status=REFUSED)
        self.assert_checks(checks, opening="invalid_grant")
        os.environ["STORAGE_EMULATOR_HOST"] = f"http://127.0.0.1:{closed_port()}"
        self.use_login()
        self.assert_advice(self.examine(url, status=UNAVAILABLE), "check that the server runs")


class Azure(DoctorTestCase, AzureTestCase):
    secrets = (KEY,)

    # semantics 15.7
    def test_key_wrong_key_and_no_server(self):
        url, _ = self.put_model(count=1, size=1000)
        checks = self.examine(url, status=REFUSED)
        self.assert_advice(checks, "check the name; if it is private: set AZURE_STORAGE_ACCOUNT_KEY")
        self.login()
        self.assert_checks(self.examine(url), source="Azure Blob Storage", server=self.store.origin,
                           key="$AZURE_STORAGE_ACCOUNT_KEY, read ")
        os.environ["AZURE_STORAGE_ACCOUNT_KEY"] = "d3Jvbmc="
        self.assert_advice(self.examine(url, status=REFUSED), "the key of $AZURE_STORAGE_ACCOUNT_KEY is wrong")
        os.environ["AZURE_STORAGE_ENDPOINT"] = f"http://127.0.0.1:{closed_port()}/teststore"
        self.assert_advice(self.examine(url, status=UNAVAILABLE), "check that the server runs")


class ModelOfARegistry(DoctorTestCase):
    secrets = ("bWU6", "s3cret")

    # semantics 15.7
    def test_login_wrong_login_and_no_server(self):
        os.environ["XDG_RUNTIME_DIR"] = self.path("run")  # restored by the patch of the base class
        package = stores.tiny(self.tmp, sample_tensors())
        registry = RegistryServer(self, [("me", "s3cret")])
        digest = "sha256:" + stores.sha256(package.manifest())
        registry.blobs.update({digest: package.manifest(), **{"sha256:" + key: data for key, data in package.blobs.items()}})
        registry.tags["team/tiny", "latest"] = digest
        url = f"oci://{registry.host}/team/tiny"
        self.assert_advice(self.examine(url, status=REFUSED), "run podman login or docker login")
        file = self.write("home/.docker/config.json", json.dumps({"auths": {registry.host: {
            "username": "me", "password": "s3cret"}}}).encode())
        self.assert_checks(self.examine(url), source="a model in a registry", server=registry.server.origin, key=file)
        self.write("home/.docker/config.json", json.dumps({"auths": {registry.host: {
            "username": "me", "password": "wrong"}}}).encode())
        checks = self.examine(url, status=REFUSED)
        self.assert_checks(checks, answer="401 Unauthorized")
        self.assert_advice(checks, f"does not accept the key of {file}")
        self.assert_advice(self.examine(f"oci://127.0.0.1:{closed_port()}/team/tiny", status=UNAVAILABLE),
                           "check that the server runs")


@needs("openssl")
class WebServer(DoctorTestCase):
    secrets = ("s3cret",)

    def setUp(self):
        super().setUp()
        self.tls = self_signed_certificate(self.tmp)
        self.model = stores.safetensors(self.path("."), sample_tensors())
        self.web = Server(self, self.answer, tls=self.tls)
        self.url = self.web.url("m.safetensors")

    def answer(self, request):
        if request.authorization != "Basic bWU6czNjcmV0":
            return 401, {"WWW-Authenticate": 'Basic realm="x"'}, b""
        return correct(self.model)(request) if request.path == "/m.safetensors" else (404, {}, b"")

    def log_in(self, password):
        os.chmod(self.write("home/.netrc", f"machine 127.0.0.1 login me password {password}\n".encode()), 0o600)

    # semantics 15.7
    def test_certificate_login_and_wrong_login(self):
        self.assert_advice(self.examine(self.url, status=UNAVAILABLE), "authority in SSL_CERT_FILE")
        os.environ["SSL_CERT_FILE"] = self.tls[0]
        self.assert_advice(self.examine(self.url, status=REFUSED), "add its host to ~/.netrc")
        self.log_in("s3cret")
        self.assert_checks(self.examine(self.url), source="on a web server", server=self.web.origin,
                           key=self.path("home/.netrc"))
        self.log_in("wrong")
        self.assert_advice(self.examine(self.url, status=REFUSED), f"does not accept the key of {self.path('home/.netrc')}")

    # semantics 15.7
    def test_name_proxy_and_missing_file(self):
        self.assert_advice(self.examine("https://no-such-host.invalid/m.gguf", status=UNAVAILABLE), "spelling")
        os.environ["https_proxy"] = f"http://127.0.0.1:{closed_port()}"
        self.assert_advice(self.examine("https://192.0.2.1/m.gguf", status=UNAVAILABLE), "the variable with the proxy")
        del os.environ["https_proxy"]
        plain = Server(self, responds(404))
        checks = self.examine(plain.url("m.gguf"), status=NOT_FOUND)
        self.assert_checks(checks, answer="404 Not Found", key="none: requests are anonymous")
        self.assert_advice(checks, "check the name")

    # semantics 15.7
    def test_query_is_not_shown(self):
        plain = Server(self)
        plain.serve("m.safetensors", correct(self.model))
        checks = self.examine(plain.url("m.safetensors?sig=s3cret"))
        self.assert_checks(checks, source=plain.url("m.safetensors"))


class Local(DoctorTestCase):
    # semantics 15.7
    def test_local_file_and_its_output_on_a_terminal(self):
        file = self.sample()
        checks = self.examine(file)
        self.assertEqual([check["found"] for check in checks.values()], [f"{file} is a local file or directory", "it opens"])
        self.assert_advice(self.examine(self.path("none.gguf"), status=NOT_FOUND), "check the name")
        lines = on_terminal("doctor", os.path.basename(file), columns=80, cwd=self.tmp).splitlines()
        self.assertEqual([line for line in lines if len(line) > 80], [])
        self.assertIn("it opens", lines[-1])

    # semantics 15.7
    def test_sentences_fit_a_terminal(self):
        url = f"https://127.0.0.1:{closed_port()}/models/model.gguf"
        text = on_terminal("doctor", url, columns=80, status=UNAVAILABLE)
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
        self.assertIn("check that the server runs", text)


if __name__ == "__main__":
    unittest.main()
