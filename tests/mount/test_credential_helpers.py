"""--credential-helpers: programs that give logins for registries, and those that misbehave."""
import base64
import json
import os
import signal
import subprocess
import threading
import time
import unittest

from fetching import FetchTestCase
from mounting import WEIGHTFS, run, sample_tensors
from scripted_server import Server, correct
import stores

SECRET = "secret-of-the-helper"


# semantics 15.5
class CredentialHelpers(FetchTestCase):
    """A registry that wants a login."""

    def setUp(self):
        super().setUp()
        os.environ["XDG_RUNTIME_DIR"] = self.path("run")  # restored by the patch of the base class
        os.environ["PATH"] = f"{self.path('bin')}:{os.environ['PATH']}"
        self.package = stores.tiny(self.tmp, sample_tensors())
        self.lock = threading.Lock()
        self.password = SECRET
        self.registry = Server(self, self.answer)
        self.url = f"ollama://{self.registry.host}/team/tiny:latest"
        self.configure({"credHelpers": {self.registry.host: "keys"}})

    def answer(self, request):
        with self.lock:
            right = "Basic " + base64.b64encode(f"anna:{self.password}".encode()).decode()
        if request.authorization != right:
            return 401, {"WWW-Authenticate": 'Basic realm="double"'}, b""
        if request.path == "/v2/team/tiny/manifests/latest":
            return 200, {}, self.package.manifest()
        blob = self.package.blobs.get(request.path.rpartition("sha256:")[2])
        return correct(blob)(request) if blob else (404, {}, b"")

    def configure(self, config):
        self.write("home/.docker/config.json", json.dumps(config).encode())

    def helper(self, script, name="keys"):
        program = self.write(f"bin/docker-credential-{name}", f"#!/bin/sh\n{script}\n".encode())
        os.chmod(program, 0o755)

    def prints(self, secret, name="keys"):
        """A helper that gives a login, and notes each run."""
        login = json.dumps({"ServerURL": "", "Username": "anna", "Secret": secret})
        self.helper(f"read server\necho \"$1 $server\" >>{self.path('runs')}\nenv >{self.path('environment')}\n"
                    f"echo '{login}'", name)

    def runs(self):
        return self.read_whole(self.tmp, "runs").decode().splitlines() if os.path.exists(self.path("runs")) else []

    def ls(self, *options):
        return run("ls", "--no-cache", "--credential-helpers", *options, self.url)

    def refusal(self, *options):
        done = self.ls(*options)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn(SECRET, done.stderr)
        return done.stderr

    def test_helper_gives_the_login_in_each_process_model(self):
        self.prints(SECRET)
        for sandbox in ("on", "off"):
            done = self.ls("--sandbox", sandbox)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.runs(), [f"get {self.registry.host}"] * 2)

    def test_helper_does_not_run_without_the_option(self):
        self.prints(SECRET)
        done = run("ls", "--no-cache", self.url)
        self.assertIn('uses the credential helper "keys"', done.stderr)
        self.assertIn("runs only with --credential-helpers", done.stderr)
        self.assertEqual(self.runs(), [])

    def test_helper_of_another_registry_does_not_run(self):
        self.prints(SECRET, "other")
        self.configure({"credHelpers": {"other.example": "other"}})
        self.assertIn("has no login", self.refusal())
        self.assertEqual(self.runs(), [])

    def test_helper_of_the_registry_wins_over_the_store_and_the_file(self):
        self.prints(SECRET)
        wrong = {"auth": base64.b64encode(b"anna:wrong").decode()}
        self.configure({"credHelpers": {self.registry.host: "keys"}, "credsStore": "none", "auths": {self.registry.host: wrong}})
        self.assertEqual(self.ls().returncode, 0)

    def test_login_of_the_file_is_used_if_the_helper_has_none(self):
        self.helper("echo credentials not found in native keychain; exit 1")
        right = {"auth": base64.b64encode(f"anna:{SECRET}".encode()).decode()}
        self.configure({"credsStore": "keys", "auths": {self.registry.host: right}})
        self.assertEqual(self.ls().returncode, 0)

    def test_helper_gets_no_secrets(self):
        self.prints(SECRET)
        os.environ.update(HF_TOKEN="t0ken", AWS_SECRET_ACCESS_KEY="k3y", DBUS_SESSION_BUS_ADDRESS="unix:path=/bus")
        self.assertEqual(self.ls().returncode, 0)
        environment = self.read_whole(self.tmp, "environment").decode()
        self.assertIn("DBUS_SESSION_BUS_ADDRESS=unix:path=/bus", environment)
        for secret in ("t0ken", "k3y"):
            self.assertNotIn(secret, environment)

    def test_helpers_that_misbehave_are_named_without_what_they_print(self):
        for script, why in ((f"echo {SECRET}; exit 1", "failed with exit status 1"),
                            (f"echo {SECRET} >&2; exit 2", "failed with exit status 2"),
                            (f"echo {SECRET}", "printed no login: not a JSON object"),
                            ("yes " + SECRET + " | head -c 1048576", "printed more than 32.0 KiB"),
                            ("kill -9 $$", "did not run")):
            with self.subTest(why):
                self.helper(script)
                self.assertIn(f'uses the credential helper "keys" for {self.registry.host}, which {why}', self.refusal())

    def test_names_that_are_no_names_of_helpers_are_refused(self):
        for name in ("../evil", "Keys", "a b"):
            self.configure({"credHelpers": {self.registry.host: name}})
            self.assertIn("is not run: not a name of a credential helper", self.refusal())

    def test_missing_program_is_named(self):
        self.assertIn("docker-credential-keys is not on PATH", self.refusal())

    def test_file_that_others_may_write_to_names_no_program(self):
        self.prints(SECRET)
        os.chmod(self.path("home/.docker/config.json"), 0o666)
        self.assertIn("others may write to it", self.refusal())
        self.assertEqual(self.runs(), [])

    def test_command_ends_while_its_helper_hangs(self):
        self.helper(f"echo $$ >{self.path('pid')}.new; mv {self.path('pid')}.new {self.path('pid')}; exec sleep 1000")
        command = subprocess.Popen([WEIGHTFS, "ls", "--no-cache", "--credential-helpers", self.url], stderr=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL)
        self.addCleanup(command.kill)
        deadline = time.monotonic() + 60
        while not os.path.exists(self.path("pid")) and time.monotonic() < deadline:
            time.sleep(0.02)
        helper = int(self.read_whole(self.tmp, "pid"))
        command.send_signal(signal.SIGINT)
        command.wait(timeout=20)
        while os.path.exists(f"/proc/{helper}") and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertFalse(os.path.exists(f"/proc/{helper}"))

    def test_source_of_the_key_is_shown_and_the_secret_is_not(self):
        self.prints(SECRET)
        done = run("doctor", "--credential-helpers", self.url)
        self.assertIn("credential helper keys, read ", done.stdout)
        point = self.mount("--no-cache", "--credential-helpers", self.url)
        status = self.read_whole(point, ".weightfs", "status.json").decode()
        self.assertIn("credential helper keys", status)
        for text in (done.stdout, done.stderr, status):
            self.assertNotIn(SECRET, text)


if __name__ == "__main__":
    unittest.main()
