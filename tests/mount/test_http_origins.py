"""Web pages as attackers of `weightfs serve`, in headless Chromium: pages of other origins read nothing, also by DNS rebinding,
unless their origin is permitted, and nothing in a model runs when it is opened. Each attack succeeds against a server without
protection. semantics 29.7"""
import html.parser
import json
import re
import struct
import unittest
import zlib
from urllib.parse import quote, urlencode, urljoin

from browsing import WebServer, dump_dom, needs_chromium, opened
from http_serving import HttpServer
from mounting import Tensor, TestCase, containers, eventually, until
from tcp_proxy import TcpProxy
import archives

SECRET = "words-that-no-page-may-read"
TOKEN = "a-token-of-the-test"
WIDTH, HEIGHT = 3, 5
SETTLES_S = 30  # if all functions of a page return or throw
QUIET_S = 2  # without a request of a page that has been opened


def png():
    """An image of one color."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([1, 2, 3]) * WIDTH) * HEIGHT
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


SENDS = f'<script>parent.postMessage("{SECRET} in " + location.pathname, "*")</script>'.encode()
FILES = {
    "secret.txt": ("text/plain", SECRET.encode()),
    "secret.json": ("application/json", json.dumps({"secret": SECRET}).encode()),
    "x.js": ("text/javascript", f'self.leaked = "{SECRET}"'.encode()),
    "x.css": ("text/css", f"#probe {{ --leaked: {SECRET} }}".encode()),
    "x.png": ("image/png", png()),
    "frame.html": ("text/html", SENDS),
    "object.html": ("text/html", SENDS),
    "embed.html": ("text/html", SENDS),
    "frame.svg": ("image/svg+xml", b'<svg xmlns="http://www.w3.org/2000/svg">' + SENDS + b"</svg>"),
    "events.txt": ("text/event-stream", f"data: {SECRET}\n\n".encode()),
    f"name-{SECRET}": ("text/plain", b"")
}
LISTING = ("text/html", "".join(f'<a href="{name}">{name}</a>' for name in FILES).encode())

# try_to() runs functions that return what they have read, and writes their outcomes into the document.
COMMON = """
const parameter = (name) => new URLSearchParams(location.search).get(name);
const target = parameter("target"), home = parameter("home"), limit = parameter("limit");
new Image().src = home + "/held" + location.search;  // it delays the event after which the document is complete
const url = (name) => target + name;
const text_of = (response) => response.text();

function outcome_of(read) {
  const timeout = new Promise((done) => setTimeout(() => done("timeout"), limit));
  return Promise.race([timeout, Promise.resolve().then(read)]).catch((error) => String(error));
}

// Adds an element, and returns it and the name of its event.
function add(tag, fields, parent = document.body) {
  const element = Object.assign(document.createElement(tag), fields);
  const event = new Promise((done) => { element.onload = () => done("load"); element.onerror = () => done("error"); });
  parent.append(element);
  return [element, event];
}

function write(outcomes) {
  add("pre", {textContent: JSON.stringify(outcomes)});
  fetch(home + "/done" + location.search);
}

async function try_to(reads) {
  const outcomes = await Promise.all(Object.entries(reads).map(async ([name, read]) => [name, await outcome_of(read)]));
  write(Object.fromEntries(outcomes));
}
"""

ATTACKS = """
// The message of a page, or of a frame that names itself.
const message_of = (name) => new Promise((done) => {
  addEventListener("message", (event) => { if (String(event.data).endsWith(name)) done(event.data); });
});

function framed(tag, name) {
  add(tag, tag === "object" ? {data: url(name)} : {src: url(name)});
  return message_of(name);
}

async function document_of(name) {
  const [frame, event] = add("iframe", {src: url(name)});
  await event;
  return frame.contentDocument.documentElement.textContent;
}

// What scripts have stored that are loaded one after the other.
let last = Promise.resolve();
function stored_by(load) {
  return last = last.then(async () => {
    delete self.leaked;
    await load();
    return String(self.leaked);
  });
}

const in_worker = (code) => new Promise((done) => {
  const worker = new Worker(URL.createObjectURL(new Blob([code])));
  worker.onmessage = (event) => done(event.data);
  worker.onerror = (event) => done("error");
});

async function image(fields) {
  const [element, event] = add("img", {...fields, src: url("x.png")});
  await event;
  return element;
}

try_to({
  fetch: () => fetch(url("secret.txt")).then(text_of),
  fetch_json: () => fetch(url("secret.json")).then(text_of),
  fetch_range: () => fetch(url("secret.txt"), {headers: {Range: "bytes=0-"}}).then(text_of),
  fetch_with_preflight: () => fetch(url("secret.txt"), {headers: {"If-None-Match": "x"}}).then(text_of),
  fetch_with_credentials: () => fetch(url("secret.txt"), {credentials: "include"}).then(text_of),
  fetch_without_cors: () => fetch(url("secret.txt"), {mode: "no-cors"}).then(text_of),
  fetch_listing: () => fetch(url("")).then(text_of),
  fetch_error: () => fetch(url("missing")).then((response) => `status ${response.status}`),
  request: () => new Promise((done) => {
    const request = new XMLHttpRequest();
    request.onload = request.onerror = () => done(request.responseText);
    request.open("GET", url("secret.txt"));
    request.send();
  }),
  image: async () => { const element = await image({}); return `${element.naturalWidth} x ${element.naturalHeight}`; },
  pixels: async () => {
    const drawing = document.createElement("canvas").getContext("2d");
    drawing.drawImage(await image({}), 0, 0);
    return `pixel ${drawing.getImageData(0, 0, 1, 1).data}`;
  },
  pixels_with_cors: async () => {
    const drawing = document.createElement("canvas").getContext("2d");
    drawing.drawImage(await image({crossOrigin: "anonymous"}), 0, 0);
    return `pixel ${drawing.getImageData(0, 0, 1, 1).data}`;
  },
  script: () => stored_by(() => add("script", {src: url("x.js")})[1]),
  module: () => stored_by(() => import(url("x.js"))),
  worker: () => in_worker(`importScripts("${url("x.js")}"); postMessage(self.leaked)`),
  stylesheet: async () => {
    const [probe] = add("p", {id: "probe"});
    await add("link", {rel: "stylesheet", href: url("x.css")}, document.head)[1];
    return "style " + getComputedStyle(probe).getPropertyValue("--leaked");
  },
  rules: async () => {
    const [sheet, event] = add("link", {rel: "stylesheet", href: url("x.css")}, document.head);
    await event;
    return sheet.sheet.cssRules[0].cssText;
  },
  document: () => document_of("secret.txt"),
  document_of_listing: () => document_of(""),
  frame: () => framed("iframe", "frame.html"),
  frame_of_image: () => framed("iframe", "frame.svg"),
  object: () => framed("object", "object.html"),
  embed: () => framed("embed", "embed.html"),
  origin_null: () => {
    const code = `fetch("${url("secret.txt")}").then((r) => r.text()).then((t) => parent.postMessage(t + " in null", "*"))`;
    add("iframe", {sandbox: "allow-scripts", srcdoc: `<script>${code}</${"script"}>`});
    return message_of("in null");
  },
  events: () => new Promise((done) => {
    const source = new EventSource(url("events.txt"));
    source.onmessage = (event) => done(event.data);
    source.onerror = () => { source.close(); done("error"); };
  }),
  socket: () => new Promise((done) => {
    const socket = new WebSocket(url("secret.txt").replace("http", "ws"));
    socket.onmessage = (event) => done(event.data);
    socket.onerror = () => done("error");
  }),
});
"""

# What shows that the attack of a name has succeeded; SECRET for all others.
SIGNS = {"image": f"{WIDTH} x {HEIGHT}", "pixels": "pixel 1,2,3,255", "pixels_with_cors": "pixel 1,2,3,255",
         "fetch_error": "status 404"}

# What a page learns about names without reading them: {probe: {kind of the name: outcome}}.
PROBES = """
const names = {file: "secret.txt", active: "frame.html", data: "data", directory: "sub", listing: "sub/",
               missing_file: "missing.txt", missing_active: "missing.html", missing_data: "missing", missing_directory: "nothing",
               missing_listing: "nothing/"};
const fetched = (name, options) => fetch(url(name), {mode: "no-cors", ...options}).then((response) => response.type, () => "error");
const probes = {
  fetch: (name) => fetched(name, {}),
  fetch_redirect: (name) => fetched(name, {redirect: "manual"}),
  image: (name) => add("img", {src: url(name)})[1],
  script: (name) => add("script", {src: url(name)})[1],
  stylesheet: (name) => add("link", {rel: "stylesheet", href: url(name)})[1],
  preload: (name) => add("link", {rel: "preload", as: "image", href: url(name)})[1],
  prefetch: (name) => add("link", {rel: "prefetch", href: url(name)})[1],
  video: (name) => add("video", {src: url(name)})[1],
  object: (name) => add("object", {data: url(name)})[1],
  frame: (name) => add("iframe", {src: url(name)})[1],
};

async function run(probe) {
  const outcomes = {};
  for (const [kind, name] of Object.entries(names)) outcomes[kind] = await outcome_of(() => probe(name));
  return outcomes;
}

Promise.all(Object.entries(probes).map(async ([name, probe]) => [name, await run(probe)])).then(
  (outcomes) => write(Object.fromEntries(outcomes)));
"""

# The name of the page stands for the web server until it has requested /switch, and then for the target.
REBINDING = f"(async () => {{ await fetch('/switch');{ATTACKS}}})();"

PERMITTED = """
const headers = parameter("token") ? {Authorization: `Bearer ${parameter("token")}`} : {};
const get = (name, fields = {}) => fetch(url(name), {headers: {...headers, ...fields}});
const tensor = "tensors/secret";
try_to({
  whole: () => get(tensor).then(text_of),
  range: async () => {
    const response = await get(tensor, {Range: "bytes=6-14"});
    return [response.status, response.headers.get("Content-Range"), await response.text()];
  },
  ranges: async () => {
    const response = await get(tensor, {Range: "bytes=0-4,6-14"});
    return [response.status, response.headers.get("Content-Type").split(";")[0], await response.text()];
  },
  unchanged: async () => {
    const etag = (await get(tensor)).headers.get("ETag");
    return (await get(tensor, {"If-None-Match": etag})).status;
  },
  fields: async () => {
    const fields = (await fetch(url(tensor), {method: "HEAD", headers})).headers;
    return ["Accept-Ranges", "Content-Length", "Last-Modified", "ETag"].map((name) => fields.get(name));
  },
  listing: async () => (await (await get("tensors/", {Accept: "application/json"})).json()).map((entry) => entry.name),
  missing: async () => (await get("tensors/missing")).status,
});
"""


def page_of(*scripts):
    return "text/html", ("<!DOCTYPE html><body>" + "".join(f'<script src="{script}"></script>' for script in scripts)).encode()


class Outcomes(html.parser.HTMLParser):
    """What try_to() has written into a document."""

    def __init__(self, text):
        super().__init__()
        self.text, self.is_inside = "", False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.is_inside = tag == "pre"

    def handle_endtag(self, tag):
        self.is_inside = False

    def handle_data(self, data):
        if self.is_inside:
            self.text += data

    @classmethod
    def of(cls, text):
        return json.loads(cls(text).text)


def pages_of(name, script):
    """/NAME runs the script."""
    return {f"/{name}": page_of("/common.js", f"/{name}.js"), f"/{name}.js": ("text/javascript", script.encode())}


@needs_chromium
class PageTestCase(TestCase):
    def log_of(self, server):
        with open(server.log) as file:
            return file.read()

    def serve(self, source, *options):
        log = self.path("access.log")
        server = HttpServer(source, folder=self.tmp, options=("--access-log", log, *options))
        server.log = log
        self.addCleanup(server.close)
        return server

    def archive(self, files):
        with archives.Zip(self.path("m.zip")) as out:
            for name, data in files.items():
                out.write(name, data)
        return self.path("m.zip")


class OriginTestCase(PageTestCase):
    """A web server with pages, at an origin that is not that of weightfs."""

    def setUp(self):
        super().setUp()
        self.web = WebServer(self, {
            "/common.js": ("text/javascript", COMMON.encode()), **pages_of("attack", ATTACKS), **pages_of("probe", PROBES),
            **pages_of("rebinding", REBINDING), **pages_of("permitted", PERMITTED), "/switch": ("text/plain", b""),
            "/files/": LISTING, **{f"/files/{name}": file for name, file in FILES.items()}
        })
        self.count = 0  # of the pages that were opened

    def serve_files(self, *options):
        files = {name: data for name, (_, data) in FILES.items()}
        return self.serve(self.archive(files | {"data": b"data", "sub/file": b""}), *options)

    def outcomes(self, page, target, origin=None, limit_s=5, token=""):
        """What the functions of a page have read. `limit_s`: for each of them."""
        self.count += 1
        query = {"target": target, "home": self.web.origin, "limit": 1000 * limit_s, "token": token, "count": self.count}
        return Outcomes.of(dump_dom(self, f"{origin or self.web.origin}/{page}?{urlencode(query)}"))

    def at_localhost(self):
        """The origin of the same pages under another name, which is another site."""
        return f"http://localhost:{self.web.port}"

    def succeeded(self, outcomes):
        """The attacks that have read something."""
        self.assertGreater(len(outcomes), 20)
        return {name for name, outcome in outcomes.items() if SIGNS.get(name, SECRET) in outcome}

    def assert_read_nothing(self, outcomes):
        self.assertEqual(self.succeeded(outcomes), set(), outcomes)
        self.assertNotIn(SECRET, json.dumps(outcomes))


class OtherOrigins(OriginTestCase):
    def test_attacks_succeed_without_protection(self):
        outcomes = self.outcomes("attack", f"{self.web.origin}/files/", limit_s=SETTLES_S)
        self.assertEqual(set(outcomes) - self.succeeded(outcomes), set(), outcomes)

    def test_page_of_another_origin_reads_nothing(self):
        server = self.serve_files("--allow-origin", "http://127.0.0.1:1")
        for origin in (self.web.origin, self.at_localhost()):
            with self.subTest(origin):
                self.assert_read_nothing(self.outcomes("attack", f"{server.url}files/", origin))
        for name in ("", "secret.txt", "x.js", "x.png", "x.css", "frame.html", "events.txt"):  # the attacks reach the server
            self.assertIn(f'"GET /files/{name} HTTP/1.1" 403', self.log_of(server))

    def test_page_of_another_origin_cannot_tell_which_files_exist(self):
        server = self.serve_files()
        outcomes = self.outcomes("probe", f"{server.url}files/", self.at_localhost())
        self.assertEqual(len(outcomes), 10)
        told = [(probe, kind, kinds[kind], kinds[f"missing_{kind}"]) for probe, kinds in outcomes.items()
                for kind in ("file", "active", "data", "directory", "listing") if kinds[kind] != kinds[f"missing_{kind}"]]
        self.assertEqual(told, [])

    def rebound(self, server):
        """The outcomes of attacks of a page whose name becomes a name of the address of the server."""
        proxy = TcpProxy(self, (self.web.host, self.web.port))

        def switch(path):
            if path == "/switch":
                proxy.server = (server.host, server.port)

        self.web.on_request = switch
        origin = f"http://evil.example:{proxy.port}"
        return self.outcomes("rebinding", f"{origin}/files/", origin)

    def test_page_whose_name_is_rebound_to_the_server_reads_nothing(self):
        server = self.serve_files()
        self.assert_read_nothing(self.rebound(server))
        self.assertIn('"GET /files/secret.txt HTTP/1.1" 421', self.log_of(server))
        self.assertNotIn(" 200 ", self.log_of(server))

    def test_page_whose_name_is_permitted_as_host_reads(self):
        succeeded = self.succeeded(self.rebound(self.serve_files("--host", "evil.example")))
        self.assertLessEqual({"fetch", "fetch_listing", "fetch_error", "request"}, succeeded)


class PermittedOrigins(OriginTestCase):
    def serve_tensor(self, *options):
        containers.write_safetensors(self.path("m.safetensors"), [Tensor("secret", "int8", (len(SECRET),), SECRET.encode())], None)
        return self.serve(self.path("m.safetensors"), *options)

    def assert_reads(self, outcomes):
        fields = outcomes.pop("fields")
        multipart = outcomes["ranges"].pop()
        for part in (SECRET[0:5], SECRET[6:15], f"bytes 6-14/{len(SECRET)}"):
            self.assertIn(part, multipart)
        self.assertEqual(fields[:2], ["bytes", str(len(SECRET))])
        self.assertTrue(all(fields), fields)
        self.assertEqual(outcomes, {
            "whole": SECRET, "range": [206, f"bytes 6-14/{len(SECRET)}", SECRET[6:15]], "ranges": [206, "multipart/byteranges"],
            "unchanged": 304, "listing": ["secret"], "missing": 404
        })

    def test_permitted_origin_reads_files_ranges_and_listings(self):
        server = self.serve_tensor("--allow-origin", self.web.origin)
        self.assert_reads(self.outcomes("permitted", server.url, limit_s=SETTLES_S))
        self.assertIn('"OPTIONS /tensors/secret HTTP/1.1" 204', self.log_of(server))

    def test_origin_that_differs_from_the_permitted_one_reads_nothing(self):
        server = self.serve_tensor("--allow-origin", self.web.origin)
        outcomes = self.outcomes("permitted", server.url, self.at_localhost(), limit_s=SETTLES_S)
        self.assertEqual(set(outcomes.values()), {"TypeError: Failed to fetch"})

    def test_every_origin_reads_if_all_are_permitted(self):
        server = self.serve_tensor("--allow-origin", "*")
        self.assert_reads(self.outcomes("permitted", server.url, self.at_localhost(), limit_s=SETTLES_S))

    def test_permitted_origin_needs_the_token(self):
        token = self.write("token", TOKEN.encode())
        server = self.serve_tensor("--allow-origin", self.web.origin, "--token-file", token)
        self.assert_reads(self.outcomes("permitted", server.url, token=TOKEN, limit_s=SETTLES_S))
        for wrong in ("", "wrong"):
            outcomes = self.outcomes("permitted", server.url, token=wrong, limit_s=SETTLES_S)
            self.assertNotIn("secret", json.dumps(outcomes))
            self.assertEqual((outcomes["missing"], outcomes["range"][0]), (401, 401))


# A page, an image or a script that sends requests when it runs. BEACON is the URL of a web server, with the name of the file.
PAGE = b"""<img src="BEACON-image"><link rel="stylesheet" href="BEACON-style"><iframe src="BEACON-frame"></iframe>
<meta http-equiv="refresh" content="0; url=BEACON-refresh"><script>new Image().src = "BEACON-script"</script>
<svg onload="new Image().src = 'BEACON-event'"></svg>"""
IMAGE = (b'<svg xmlns="http://www.w3.org/2000/svg" onload="new Image().src = \'BEACON-event\'"><image href="BEACON-image"/>'
         b'<script>new Image().src = "BEACON-script"</script></svg>')
XHTML = (b'<html xmlns="http://www.w3.org/1999/xhtml"><body><img src="BEACON-image"/>'
         b'<script>new Image().src = "BEACON-script"</script></body></html>')
XML = b'<?xml version="1.0"?><?xml-stylesheet type="text/css" href="BEACON-style"?>' + XHTML
SCRIPT = b'new Image().src = "BEACON-script"'
PDF = (b"%PDF-1.7\n1 0 obj<</Type/Catalog/Pages 2 0 R/OpenAction<</S/URI/URI(BEACON-action)>>>>endobj\n"
       b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
       b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/AA<</O 4 0 R>>>>endobj\n"
       b"4 0 obj<</S/JavaScript/JS(app.launchURL\\('BEACON-open'\\))>>endobj\n"
       b"trailer<</Root 1 0 R>>\n%%EOF\n")
ACTIVE = {  # with the type that a server gives them that protects nothing; None if they do not run there either
    "index.html": (PAGE, "text/html"), "PAGE.HTM": (PAGE, "text/html"), "image.svg": (IMAGE, "image/svg+xml"),
    "page.xhtml": (XHTML, "application/xhtml+xml"), "page.xml": (XML, "text/xml"), "x.js": (SCRIPT, None), "x.pdf": (PDF, None),
    "no-ending": (PAGE, "text/html"), "README": (PAGE, "text/html"), "notes.txt": (PAGE, "text/html"),
    "notes.md": (PAGE, "text/html"), "config.json": (PAGE, "text/html"), "image.png": (IMAGE, "image/svg+xml"),
    "page.html.bin": (PAGE, "text/html"), "page.shtml": (PAGE, "text/html"), "page.php": (PAGE, "text/html"),
    "style.xsl": (XHTML, "application/xhtml+xml"), "page.svgz": (IMAGE, "image/svg+xml"),
}


class ActiveContent(PageTestCase):
    """`web` counts the requests that files send when they run."""

    def setUp(self):
        super().setUp()
        self.web = WebServer(self)

    def files(self):
        return {name: data.replace(b"BEACON", f"{self.web.origin}/beacon-{name}".encode()) for name, (data, _) in ACTIVE.items()}

    def beacons(self):
        """The files that have run."""
        return {name for name in ACTIVE for path in self.web.requests if path.startswith(f"/beacon-{name}-")}

    def all_opened(self, urls):
        """A browser with a window for each URL."""
        script = "".join(f"open({json.dumps(url)});" for url in urls)
        self.web.pages["/windows"] = ("text/html", f"<script>{script}</script>".encode())
        return opened(self, f"{self.web.origin}/windows")

    def assert_do_not_run(self, server):
        # Opened in a window they are sent, in a frame of another page they are refused.
        until(lambda: all(re.search(rf'"GET /files/{re.escape(name)} HTTP/1.1" (200|403)', self.log_of(server)) for name in ACTIVE),
              lambda: f"not requested: {self.log_of(server)}")
        self.assertFalse(eventually(self.beacons, QUIET_S), self.web.requests)

    def test_files_run_on_a_server_without_protection(self):
        types = {name: kind for name, (_, kind) in ACTIVE.items() if kind}
        unprotected = WebServer(self, {f"/{name}": (types[name], data) for name, data in self.files().items() if name in types})
        with self.all_opened(f"{unprotected.origin}/{name}" for name in types):
            until(lambda: self.beacons() == set(types), lambda: f"do not run: {set(types) - self.beacons()}")

    def test_files_of_a_model_do_not_run(self):
        server = self.serve(self.archive(self.files()))
        with self.all_opened(f"{server.url}files/{name}" for name in ACTIVE):
            self.assert_do_not_run(server)

    def test_framed_files_of_a_model_do_not_run(self):
        server = self.serve(self.archive(self.files()))
        frames = "".join(f'<iframe src="{server.url}files/{name}"></iframe><object data="{server.url}files/{name}"></object>'
                         for name in ACTIVE)
        self.web.pages["/frames"] = ("text/html", frames.encode())
        with opened(self, f"{self.web.origin}/frames"):
            self.assert_do_not_run(server)


class Elements(html.parser.HTMLParser):
    """The elements of a document, and their links."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.links += [value for name, value in attributes if name in ("href", "src")]
        self.tags |= {name for name, _ in attributes if name.startswith("on")}


class HostileNames(PageTestCase):
    NAMES = ('<img src=beacon onerror=alert(1)>', '"><svg onload=alert(1)>', "' onmouseover='alert(1)", "javascript:alert(1)",
             "&lt;script&gt;", "<style>@import 'beacon';<b>", "<base href=beacon>", "<!--", "]]>", "<meta http-equiv=refresh>",
             "..\\x", "\u202egnp.exe", "http:beacon")
    SHOWN = {"html", "head", "meta", "title", "style", "body", "h1", "form", "input", "table", "tbody", "tr", "td", "a", "p"}

    def assert_is_text(self, server, path):
        document = Elements(dump_dom(self, server.url + path))
        self.assertLessEqual(document.tags, self.SHOWN)
        for link in document.links:
            self.assertTrue(urljoin(server.url + path, link).startswith(server.url), link)
        self.assertNotIn("GET /tensors/beacon", self.log_of(server))
        return document

    def test_names_are_text_in_listings(self):
        path = self.path("m.safetensors")
        containers.write_safetensors(path, [Tensor(name, "int8", (1,), b"x") for name in self.NAMES], None)
        server = self.serve(path)
        document = self.assert_is_text(server, "tensors/")
        for link in document.links:
            self.assertEqual(server.get(f"/tensors/{link}").status, 200, link)
        self.assertEqual(len(document.links), 1 + len(self.NAMES))
        first, second = map(quote, self.NAMES[:2])
        for path in ("tensors/?q=<", f"tensors/?q={second}&limit=1", f"tensors/?limit=1&after={first}"):
            with self.subTest(path):
                self.assert_is_text(server, path)

    def test_names_are_text_in_errors(self):
        server = self.serve(self.archive({"a": b"a"}))
        for name in self.NAMES[:2]:
            document = Elements(dump_dom(self, server.url + quote(name)))
            self.assertLessEqual(document.tags, {"html", "head", "meta", "body", "pre"})


if __name__ == "__main__":
    unittest.main()
