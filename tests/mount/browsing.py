"""Headless Chromium for tests, and a web server whose pages it opens."""
import base64
import contextlib
import hashlib
import http.server
import os
import signal
import subprocess
import tempfile
import threading

from mounting import LIMIT_S, eventually
from servers import needs, path_of

WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3

needs_chromium = needs("chromium")


def command(folder, *argv):
    # A name that is not resolved here is not resolved elsewhere either: the browser's own services are on other machines.
    rules = "MAP evil.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
    return [path_of("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-breakpad",
            "--no-proxy-server", f"--user-data-dir={folder}", f"--host-resolver-rules={rules}", *argv]


@contextlib.contextmanager
def chromium(test, *argv, **streams):
    """A browser with its own profile, which ends with all its processes after the block."""
    folder = tempfile.mkdtemp(prefix="chromium-", dir=test.tmp)
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams}
    environment = {"PATH": os.environ["PATH"], "HOME": folder}
    process = subprocess.Popen(command(folder, *argv), stdin=subprocess.DEVNULL, env=environment, cwd=folder,
                               start_new_session=True, **streams)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(LIMIT_S)


def dump_dom(test, url):
    """The document of a page after it was loaded, as HTML. In the virtual time of Chromium, timers would not wait for frames of
    other origins, so a page delays the event by an image: see WebServer."""
    with chromium(test, "--dump-dom", url, stdout=subprocess.PIPE) as process:
        out, _ = process.communicate(timeout=LIMIT_S)
    test.assertEqual(process.returncode, 0, out)
    return out.decode()


def opened(test, url):
    """A browser that shows a page during the block, which may open windows. It does not end by itself, as after a download."""
    return chromium(test, "--remote-debugging-port=0", "--disable-popup-blocking", url)


class WebServer:
    """Serves `pages`, {path: (type, bytes)}, on a port of loopback, until the test ends. Pages of other origins may read them, and
    a WebSocket gets the bytes as its first message. /held?QUERY is answered after a request for /done?QUERY."""

    def __init__(self, test, pages=None):
        self.pages = pages or {}
        self.requests = []  # paths, with their queries
        self.on_request = lambda path: None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append(self.path)
                outer.on_request(self.path)
                path, _, query = self.path.partition("?")
                if path == "/held":
                    eventually(lambda: f"/done?{query}" in outer.requests, LIMIT_S)
                page = outer.pages.get(path)
                if page is None:
                    self.send_error(404)
                elif "Sec-WebSocket-Key" in self.headers:
                    outer.send_message(self, page[1])
                else:
                    self.send_response(200)
                    self.send_header("Content-Type", page[0])
                    self.send_header("Content-Length", str(len(page[1])))
                    self.send_header("Access-Control-Allow-Origin", "*")
                    self.end_headers()
                    self.wfile.write(page[1])

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host, self.port = self.server.server_address
        self.origin = f"http://{self.host}:{self.port}"
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        test.addCleanup(self.server.server_close)
        test.addCleanup(thread.join)
        test.addCleanup(self.server.shutdown)

    @staticmethod
    def send_message(handler, text):
        """RFC 6455: the handshake, a short text message, and the end."""
        key = handler.headers["Sec-WebSocket-Key"] + WEBSOCKET
        handler.send_response(101)
        handler.send_header("Upgrade", "websocket")
        handler.send_header("Connection", "Upgrade")
        handler.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        handler.end_headers()
        assert len(text) < 126
        handler.wfile.write(bytes([0x81, len(text)]) + text + b"\x88\x00")
