"""Logins of podman and skopeo for registries: their files, keys for a part of a registry, identity tokens."""
import base64
import json
import os
import threading
import unittest
import urllib.parse

from fetching import FetchTestCase
from mounting import run, sample_tensors
from scripted_server import Server, correct
from servers import LOGIN, Registry, needs
from test_registry import RegistryTestCase
import stores


def entry_of(user, password):
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


# semantics 15.5
@needs("docker-registry")
class Files(RegistryTestCase):
    """A registry that wants a user and a password."""

    def setUp(self):
        super().setUp()
        os.environ["XDG_RUNTIME_DIR"] = self.path("run")  # restored by the patch of the base class
        self.registry = Registry(self, login=True)
        self.url = self.push(self.registry, self.package)
        self.right, self.wrong = entry_of(*LOGIN), entry_of("anna", "a-wrong-password")

    def log_in(self, file, entries):
        """Writes a file with logins for parts of the registry."""
        self.write(file, json.dumps({"auths": {self.registry.host + part: entry for part, entry in entries.items()}}).encode())

    def test_login_of_podman_is_used(self):
        for file in ("run/containers/auth.json", "home/.config/containers/auth.json"):
            with self.subTest(file):
                self.log_in(file, {"": self.right})
                point = self.mount("--no-cache", self.url)
                self.assertEqual(self.read_whole(point, "files", "model.gguf"), self.model)
                self.unmount(point)
                os.remove(self.path(file))
        self.assertIn("access denied", run("mount", self.url, self.path("mnt")).stderr)

    def test_first_file_with_a_login_is_used(self):
        self.log_in("home/.docker/config.json", {"": self.wrong})
        self.log_in("home/.config/containers/auth.json", {"": self.right})
        self.assertEqual(run("ls", self.url).returncode, 0)
        self.log_in("run/containers/auth.json", {"": self.wrong})
        done = run("ls", "--no-cache", self.url)
        self.assertIn(self.path("run/containers/auth.json"), done.stderr)
        os.environ["REGISTRY_AUTH_FILE"] = self.path("named.json")
        self.log_in("named.json", {"": self.right})
        self.assertEqual(run("ls", "--no-cache", self.url).returncode, 0)

    def test_longest_key_of_the_repository_is_used(self):
        self.log_in("run/containers/auth.json", {"": self.wrong, "/library": self.right, "/librarian": self.wrong})
        self.assertEqual(run("ls", self.url).returncode, 0)

    def test_credential_helper_is_named_and_not_run(self):
        self.write("home/.docker/config.json", json.dumps({"credHelpers": {self.registry.host: "ran"}}).encode())
        program = self.write("bin/docker-credential-ran", f"#!/bin/sh\ntouch {self.path('ran')}\n".encode())
        os.chmod(program, 0o755)
        os.environ["PATH"] = f"{self.path('bin')}:{os.environ['PATH']}"
        done = run("ls", self.url)
        self.assertIn(f'uses the credential helper "ran" for {self.registry.host}, which runs only with '
                      '--credential-helpers (or use podman login, or a file with the login in $REGISTRY_AUTH_FILE)', done.stderr)
        self.assertFalse(os.path.exists(self.path("ran")))


# semantics 15.5
class IdentityTokens(FetchTestCase):
    """A registry whose token server accepts identity tokens."""

    def setUp(self):
        super().setUp()
        os.environ["XDG_RUNTIME_DIR"] = self.path("run")
        self.package = stores.tiny(self.tmp, sample_tensors())
        self.lock = threading.Lock()
        self.valid = {"first": "one"}  # identity token: the token for it
        self.forms = []
        self.registry = Server(self, self.answer)
        self.url = f"ollama://{self.registry.host}/team/tiny:latest"

    def answer(self, request):
        with self.lock:
            if request.path == "/token":
                form = dict(urllib.parse.parse_qsl(request.content.decode()))
                self.forms.append((request.method, form))
                token = self.valid.get(form.get("refresh_token"))
                return (200, {}, json.dumps({"access_token": token}).encode()) if token else (401, {}, b"{}")
            if request.authorization not in [f"Bearer {token}" for token in self.valid.values()]:
                return 401, {"WWW-Authenticate": f'Bearer realm="{self.registry.url("token")}",service="double"'}, b""
        if request.path == "/v2/team/tiny/manifests/latest":
            return 200, {}, self.package.manifest()
        blob = self.package.blobs.get(request.path.rpartition("sha256:")[2])
        return correct(blob)(request) if blob else (404, {}, b"")

    def log_in(self, token):
        """Replaces the file, as podman and docker do."""
        self.write("run/containers/new", json.dumps({"auths": {self.registry.host: {"identitytoken": token}}}).encode())
        os.replace(self.path("run/containers/new"), self.path("run/containers/auth.json"))

    def test_identity_token_is_exchanged_and_read_again_when_it_was_replaced(self):
        self.log_in("first")
        point = self.mount(self.url)
        self.assertEqual(self.forms, [("POST", {"client_id": "weightfs", "grant_type": "refresh_token", "refresh_token": "first",
                                                "scope": "repository:team/tiny:pull", "service": "double"})])
        with self.lock:
            self.valid = {"second": "two"}
        self.log_in("second")
        self.assertEqual(self.read_whole(point, "files", "template"), stores.TEMPLATE)
        self.assertEqual([form["refresh_token"] for _, form in self.forms], ["first", "second"])
        self.assertEqual([request.target for request in self.registry.requests() if "first" in request.target], [])

    def test_refused_identity_token_is_not_in_the_message(self):
        self.log_in("secret-of-the-test")
        done = run("ls", self.url)
        self.assertIn(f"access denied: no token from {self.registry.url('token')}", done.stderr)
        self.assertIn(f"(tried with the identity token of {self.path('run/containers/auth.json')})", done.stderr)
        self.assertNotIn("secret-of-the-test", done.stderr)


if __name__ == "__main__":
    unittest.main()
