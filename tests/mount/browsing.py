"""Headless Chromium for tests, and a web server whose pages it opens."""
import base64
import contextlib
import hashlib
import os
import signal
import subprocess
import tempfile

from mounting import LIMIT_S, eventually
from scripted_server import Server
from servers import needs, path_of

WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
CLOSE = {"Connection": "close"}  # a name that becomes one of another server gets a new connection

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
        self.on_request = lambda path: None
        self.server = Server(test, self.answer)
        self.host, self.port, self.origin = self.server.address, self.server.port, self.server.origin

    @property
    def requests(self):
        """Paths, with their queries."""
        return [request.target for request in self.server.requests()]

    def answer(self, request):
        self.on_request(request.target)
        if request.path == "/held":
            eventually(lambda: request.target.replace("/held", "/done", 1) in self.requests or self.server.over.is_set(), LIMIT_S)
        kind, data = self.pages.get(request.path, (None, b""))
        if kind is None:
            return 404, CLOSE, data
        if "sec-websocket-key" in request.headers:
            return self.send_message(request, data)
        return 200, {"Content-Type": kind, "Access-Control-Allow-Origin": "*", **CLOSE}, data

    @staticmethod
    def send_message(request, text):
        """RFC 6455: the handshake, a short text message, and the end."""
        key = request.headers["sec-websocket-key"] + WEBSOCKET
        request.head(101, Upgrade="websocket", Connection="Upgrade",
                     Sec_WebSocket_Accept=base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        assert len(text) < 126
        request.body(bytes([0x81, len(text)]) + text + b"\x88\x00")
