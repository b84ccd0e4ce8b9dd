"""Secrets of the user: where they are sent, and that nothing of them is left where others can read it. See docs/security.md."""
import http.server
import os
import subprocess
import threading

from fetching import FetchTestCase
from mounting import LIMIT_S, WEIGHTFS, only_root_mounts, sample_tensors, unittest
import artifacts
import stores

HEADER = ("X-Mirror-Key", "mirror-key-of-the-test")


class RecordingServer:
    """A web server on loopback that keeps the headers of every request. `answer` gets its path, and returns status, headers and body."""

    def __init__(self, test, answer):
        self.seen = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.seen.append((self.path, dict(self.headers.items())))
                status, headers, body = answer(self.path)
                begin, _, end = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
                if status == 200 and begin.isdigit():
                    part = body[int(begin):int(end) + 1 if end else None]
                    headers = {**headers, "Content-Range": f"bytes {begin}-{int(begin) + len(part) - 1}/{len(body)}"}
                    status, body = 206, part
                self.send_response(status)
                for name, value in {"ETag": '"1"', "Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that has closed its connection

        self.server = Quiet(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        for end in (self.server.server_close, thread.join, self.server.shutdown):
            test.addCleanup(end)

    @property
    def host(self):
        return "127.0.0.1:%d" % self.server.server_address[1]

    def url(self, path=""):
        return f"http://{self.host}{path}"


def served(artifact):
    """The answer of a registry with one artifact."""
    def answer(path):
        name = path.partition("?")[0].rpartition("/")[2]
        body = artifact.blobs.get(name, artifact.manifest() if "/manifests/" in path else None)
        kind = artifacts.MANIFEST if "/manifests/" in path else "application/octet-stream"
        return (404, {}, b"") if body is None or "sha256-" in path else (200, {"Content-Type": kind}, body)
    return answer


class SecretsTestCase(FetchTestCase):
    def setUp(self):
        super().setUp()
        model = stores.gguf(self.tmp, sample_tensors(), {"general.architecture": "llama"})
        self.artifact = artifacts.modelpack().add("application/vnd.cncf.model.weight.v1.raw", model, "model.gguf")

    def with_hosts(self, files, *argv):
        """The command line of weightfs in a mount namespace in which containerd has these files: hosts.toml by registry."""
        self.need_mount_namespace()
        for registry, text in files.items():
            self.write(f"etc/containerd/certs.d/{registry}/hosts.toml", text.encode())
        script = 'mount -t overlay -o "lowerdir=$0:/etc" overlay /etc && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, self.path("etc"), WEIGHTFS, *argv]


@only_root_mounts
class SecretHeaders(SecretsTestCase):
    """Headers of a mirror in hosts.toml (semantics 24.4)."""

    def read_through_mirror(self, mirror):
        registry = RecordingServer(self, lambda path: (404, {}, b""))
        hosts = f'[host."{mirror.url()}"]\ncapabilities = ["pull", "resolve"]\n[host."{mirror.url()}".header]\n{HEADER[0]} = "{HEADER[1]}"\n'
        argv = self.with_hosts({registry.host.replace(":", "_") + "_": hosts}, "cat", f"oci://{registry.host}/ai/tiny:latest", "tensors/bias")
        done = subprocess.run(argv, capture_output=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr, done.stdout), (0, b"", sample_tensors()[1].data))
        return registry

    def assert_has_no_secret(self, server):
        self.assertEqual([path for path, headers in server.seen if HEADER[1] in headers.values()], [])

    def test_headers_are_not_sent_to_redirect_target(self):
        target = RecordingServer(self, served(self.artifact))
        mirror = RecordingServer(self, lambda path: (307, {"Location": target.url(path)}, b""))
        registry = self.read_through_mirror(mirror)
        self.assertEqual({headers.get(HEADER[0]) for _, headers in mirror.seen}, {HEADER[1]})
        self.assertTrue(any("/manifests/" in path for path, _ in target.seen) and any("/blobs/" in path for path, _ in target.seen))
        self.assert_has_no_secret(target)
        self.assert_has_no_secret(registry)

    def test_headers_are_sent_to_redirect_target_on_the_mirror(self):
        answer = served(self.artifact)
        mirror = RecordingServer(self, lambda path: answer(path) if path.startswith("/moved") else (307, {"Location": f"/moved{path}"}, b""))
        self.read_through_mirror(mirror)
        self.assertTrue(any(path.startswith("/moved") for path, _ in mirror.seen))
        self.assertEqual({headers.get(HEADER[0]) for _, headers in mirror.seen}, {HEADER[1]})

    def test_headers_are_not_sent_to_token_server(self):
        tokens = RecordingServer(self, lambda path: (200, {"Content-Type": "application/json"}, b'{"token": "T"}'))
        answer = served(self.artifact)
        mirror = RecordingServer(self, lambda path: (401, {"WWW-Authenticate": f'Bearer realm="{tokens.url("/token")}"'}, b"") if not any(
            "Authorization" in headers for _, headers in mirror.seen[-1:]) else answer(path))
        self.read_through_mirror(mirror)
        self.assertTrue(tokens.seen)
        self.assert_has_no_secret(tokens)


if __name__ == "__main__":
    unittest.main()
