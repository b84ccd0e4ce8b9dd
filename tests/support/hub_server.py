"""A double of the Hugging Face Hub on 127.0.0.1, for tests: its API, and a second server in the role of its CDN, to which files in
LFS are redirected with a signed URL that expires. Both count requests and bytes. Standard library only.
"""
import hashlib
import hmac
import json
import os
import re
import secrets
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

MASK = "*" * 64
PUBLIC_NAMES = (".gitattributes", "README.md", "LICENSE", "USE_POLICY"
                )  # beginnings of names of files that a gated repository shows everyone
LFS_NAMES = (".safetensors", ".gguf", ".bin", ".onnx")
SECRET = secrets.token_bytes(16)


class HubRequest(NamedTuple):
    server: str  # "hub" or "cdn"
    method: str
    path: str    # with its query
    status: int
    bytes: int   # of the body
    authorization: str
    range: str


class Refusal(Exception):
    def __init__(self, status, code="", message="", headers=()):
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers)


def git_id(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class File:
    def __init__(self, content, is_lfs):
        self.content, self.is_lfs = content, is_lfs
        self.sent = content  # what downloads send: differs in tests of verification
        self.sha256 = sha256(content)
        self.pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(content)}\n".encode()
        self.oid = git_id(self.pointer if is_lfs else content)

    def entry(self, path, masked=False):
        out = {"type": "file", "oid": self.oid, "size": len(self.content), "path": path}
        if self.is_lfs:
            out["lfs"] = {"oid": MASK if masked else self.sha256, "size": len(self.content), "pointerSize": len(self.pointer)}
            out["xetHash"] = MASK if masked else sha256(self.pointer)
        return out


class Repository:
    """A repository with its commits. `files` are the contents by path; names of LFS_NAMES are in LFS."""

    def __init__(self, id, files, **card):
        self.id, self.card = id, card
        self.commits, self.revisions = {}, {}
        self.gated = False    # or "auto", "manual"
        self.private = False
        self.is_disabled = False
        self.entries = None   # replaces the entries of the list, for hostile ones
        self.commit(files)

    def commit(self, files, revision="main"):
        """A new commit with these files; `revision` is moved to it."""
        name = hashlib.sha1(f"{self.id} {len(self.commits)}".encode()).hexdigest()
        self.commits[name] = {path: File(content, path.endswith(LFS_NAMES)) for path, content in sorted(files.items())}
        self.revisions[revision] = name
        return name

    def files(self, revision="main"):
        return self.commits[self.revisions[revision]]

    def about(self, commit):
        return {"_id": "0", "id": self.id, "modelId": self.id, "sha": commit, "private": self.private, "gated": self.gated,
                "disabled": self.is_disabled, "lastModified": "2024-05-06T07:08:09.000Z", "tags": ["safetensors", "region:us"],
                "library_name": "transformers", "pipeline_tag": "text-generation", "cardData": self.card,
                "siblings": [{"rfilename": path} for path in self.commits[commit]]}

    def tree(self, commit, masked=False):
        if self.entries is not None:
            return self.entries
        files = self.commits[commit]
        folders = {path[:i] for path in files for i, c in enumerate(path) if c == "/"}
        return ([{"type": "directory", "oid": "0" * 40, "size": 0, "path": path} for path in sorted(folders)] +
                [file.entry(path, masked) for path, file in files.items()])


class Hub:
    """The two servers. They end with `test`, or by stop()."""

    def __init__(self, test=None):
        self.repositories = {}       # by (kind, id)
        self.renamed = {}            # old id: new id
        self.tokens = {}             # token: ids of the gated and private repositories that it may read
        self.page_size = 1000
        self.public_host = None      # in Link headers, instead of the own one
        self.next_link = None        # function of the request's path that returns a Link target, for hostile lists
        self.pending = {}            # token: ids of the gated repositories to which it has requested access
        self.lists_gated = True  # the files of gated repositories are listed without access, with masked digests, as the Hub does
        self.too_many = 0            # so many requests are answered with 429
        self.wait = 1                # seconds, in the RateLimit header of these
        self.cdn_refusals = 0        # so many requests to the CDN are answered with 403
        self.lifetime = 3600         # seconds, of signed URLs
        self.ahead = 0               # seconds, of the hub's clock
        self.delay = threading.Event()  # cleared: files in Git are not sent until it is set
        self.delay.set()
        self.received = []
        self.lock = threading.Lock()
        self.servers = {name: _Server(name, self) for name in ("hub", "cdn")}
        self.url = self.servers["hub"].url
        self.cdn_url = self.servers["cdn"].url
        if test is not None:
            test.addCleanup(self.stop)

    def stop(self):
        self.delay.set()
        for server in self.servers.values():
            server.stop()
        self.servers = {}

    def add(self, id, files, kind="models", **card):
        self.repositories[kind, id] = repository = Repository(id, files, **card)
        return repository

    def requests(self, server=None, path=""):
        """The requests so far to one server, or to both, whose path contains `path`."""
        with self.lock:
            return [each for each in self.received if server in (None, each.server) and path in each.path]

    def bytes(self, server=None, path=""):
        return sum(each.bytes for each in self.requests(server, path) if each.status in (200, 206))

    def now(self):
        return time.time() + self.ahead

    def forget(self):
        with self.lock:
            self.received.clear()

    def take(self, counter):
        """Whether one of a number of special answers is left."""
        with self.lock:
            left = getattr(self, counter)
            setattr(self, counter, max(0, left - 1))
            return left > 0


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, address):
        pass  # the client has closed the connection


class _Server:
    def __init__(self, name, hub):
        class Handler(_HubHandler if name == "hub" else _CdnHandler):
            pass
        Handler.hub, Handler.name = hub, name
        self.http = _Threads(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    hub = name = None

    def do_GET(self):
        if not self.hub.servers:  # stopped: a connection that is still open does not help
            self.close_connection = True
            return
        try:
            status, headers, body = self.answer(urllib.parse.urlsplit(self.path))
        except Refusal as refusal:
            status, headers = refusal.status, dict(refusal.headers)
            if refusal.code:
                headers["X-Error-Code"] = refusal.code
            if refusal.message:
                headers["X-Error-Message"] = refusal.message
            body = json.dumps({"error": refusal.message or "error"}).encode()
        if self.command == "HEAD":
            headers["Content-Length"] = str(len(body))
            body = b""
        request = HubRequest(self.name, self.command, self.path, status, len(body), self.headers.get("Authorization", ""),
                             self.headers.get("Range", ""))
        with self.hub.lock:
            self.hub.received.append(request)
        if "/resolve/" in self.path and body:
            self.hub.delay.wait(60)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client needs no more

    do_HEAD = do_POST = do_GET

    def log_message(self, *arguments):
        pass

    def ranged(self, content, headers):
        """The answer to a request for a range of this content, or for all of it."""
        headers = {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream", **headers}
        if "If-Match" in self.headers and self.headers["If-Match"] != headers.get("ETag"):
            return 412, {}, b""
        if headers.get("ETag") == self.headers.get("If-None-Match", ""):
            return 304, {"ETag": headers["ETag"]}, b""
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not match:
            return 200, headers, content
        first, last = int(match[1]), min(int(match[2] or len(content)), len(content) - 1)
        if first >= len(content):
            return 416, {"Content-Range": f"bytes */{len(content)}"}, b""
        return 206, {**headers, "Content-Range": f"bytes {first}-{last}/{len(content)}"}, content[first:last + 1]


def signature(path, expires):
    return hmac.new(SECRET, f"{path} {expires}".encode(), "sha256").hexdigest()


class _HubHandler(_Handler):
    def answer(self, url):
        if self.hub.take("too_many"):
            raise Refusal(429, message="rate limited", headers={"RateLimit": f'"api";r=0;t={self.hub.wait}',
                                                                "RateLimit-Policy": '"fixed window";"api";q=500;w=300'})
        if match := re.fullmatch(r"/api/(models|datasets|spaces)/([^/]+/[^/]+)/(revision|tree)/([^/]+)(?:/(.*))?", url.path):
            kind, id, what, revision, below = match.groups()
            if id in self.hub.renamed:
                query = f"?{url.query}" if url.query else ""
                return 307, {"Location": f"/api/{kind}/{self.hub.renamed[id]}/{what}/{revision}{query}"}, b""
            repository = self.repository(kind, id, need_access=what == "tree" and not self.hub.lists_gated)
            commit = self.commit(repository, urllib.parse.unquote(revision))
            if what == "revision":
                return self.json(repository.about(commit))
            return self.tree(repository, commit, url, below)
        if match := re.fullmatch(r"/(?:(datasets|spaces)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", url.path):
            return self.resolve(match[1] or "models", *match.groups()[1:])
        raise Refusal(404, message="Not Found")

    def json(self, value, headers=()):
        return 200, {"Content-Type": "application/json; charset=utf-8", **dict(headers)}, json.dumps(value).encode()

    def token(self):
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if token and (scheme != "Bearer" or token not in self.hub.tokens):
            raise Refusal(401, message="Invalid username or password.")
        return token

    def repository(self, kind, id, need_access):
        token = self.token()
        allowed = self.hub.tokens.get(token, ())
        found = self.hub.repositories.get((kind, id))
        if found is None or (found.private and id not in allowed):
            raise Refusal(404 if token else 401, "RepoNotFound",
                          "Repository not found" if token else "Invalid username or password.")
        if found.is_disabled:
            raise Refusal(403, message="Access to this resource is disabled.")
        if need_access and found.gated and id not in allowed:
            raise self.gated(id, token)
        return found

    def gated(self, id, token):
        begin = f"Access to model {id} is"
        if not token:
            return Refusal(401, "GatedRepo",
                           f"{begin} restricted. You must have access to it and be authenticated to access it. Please log in.")
        if id in self.hub.pending.get(token, ()):
            return Refusal(403, "GatedRepo", f"Your request to access model {id} is awaiting a review from the repo authors.")
        return Refusal(403, "GatedRepo",
                       f"{begin} restricted and you are not in the authorized list. Visit {self.hub.url}/{id} to ask for access.")

    def commit(self, repository, revision):
        commit = repository.revisions.get(revision, revision)
        if commit not in repository.commits:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def tree(self, repository, commit, url, below):
        query = dict(urllib.parse.parse_qsl(url.query))
        has_access = not repository.gated or repository.id in self.hub.tokens.get(self.token(), ())
        entries = repository.tree(commit, masked=not has_access)
        if below:
            entries = [each for each in entries if each["path"].startswith(urllib.parse.unquote(below) + "/")]
        if query.get("recursive") != "true":
            depth = urllib.parse.unquote(below or "").count("/") + (1 if below else 0)
            entries = [each for each in entries if each["path"].count("/") == depth]
        begin = int(query.get("cursor", 0))
        headers = {}
        target = None
        if begin + self.hub.page_size < len(entries):
            more = urllib.parse.urlencode({**query, "cursor": begin + self.hub.page_size})
            target = f"{self.hub.public_host or self.hub.url}{url.path}?{more}"
        if self.hub.next_link:
            target = self.hub.next_link(self.path)
        if target:
            headers["Link"] = f'<{target}>; rel="next"'
        return self.json(entries[begin:begin + self.hub.page_size], headers)

    def resolve(self, kind, id, revision, path):
        if id in self.hub.renamed:
            prefix = "" if kind == "models" else f"/{kind}"
            return 307, {"Location": f"{prefix}/{self.hub.renamed[id]}/resolve/{revision}/{path}"}, b""
        repository = self.repository(kind, id, need_access=not os.path.basename(path).startswith(PUBLIC_NAMES))
        commit = self.commit(repository, urllib.parse.unquote(revision))
        file = repository.commits[commit].get(urllib.parse.unquote(path))
        if file is None:
            raise Refusal(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": commit, "ETag": f'"{file.sha256 if file.is_lfs else file.oid}"'}
        if not file.is_lfs:
            return self.ranged(file.sent, headers)
        place = f"/repos/{hashlib.md5(repository.id.encode()).hexdigest()}/{file.sha256}"
        expires = int((self.hub.now() + self.hub.lifetime) * 1000)
        headers.update({"X-Linked-Etag": f'"{file.sha256}"', "X-Linked-Size": str(len(file.content)),
                        "Location": f"{self.hub.cdn_url}{place}?Expires={expires}&Signature={signature(place, expires)}"})
        return 302, headers, b""


class _CdnHandler(_Handler):
    def answer(self, url):
        query = dict(urllib.parse.parse_qsl(url.query))
        expires = int(query.get("Expires", 0))
        is_signed = hmac.compare_digest(query.get("Signature", ""), signature(url.path, expires))
        if self.hub.take("cdn_refusals") or not is_signed or expires < self.hub.now() * 1000:
            raise Refusal(403, message="Request has expired")
        wanted = os.path.basename(url.path)
        for repository in self.hub.repositories.values():
            for files in repository.commits.values():
                for file in files.values():
                    if file.is_lfs and file.sha256 == wanted:
                        return self.ranged(file.sent, {"ETag": f'"{wanted}"'})
        raise Refusal(404, message="Not Found")
