"""A double of the Hugging Face Hub for tests, at one address: its API, and a second server in the role of its CDN, to which files
in LFS are redirected with a signed URL that expires. Both count requests and bytes. Standard library only.
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

from scripted_server import Refusal, Server, ranged

MASK = "*" * 64
PUBLIC_NAMES = (".gitattributes", "README.md", "LICENSE", "USE_POLICY"
                )  # beginnings of names of files that a gated repository shows everyone
LFS_NAMES = (".safetensors", ".gguf", ".bin", ".onnx")
SECRET = secrets.token_bytes(16)
CONTENT = {"Content-Type": "application/octet-stream"}


class Refused(Refusal):
    def __init__(self, status, code="", message="", headers={}):
        reasons = {name: text for name, text in {"X-Error-Code": code, "X-Error-Message": message}.items() if text}
        super().__init__(status, {**headers, **reasons}, json.dumps({"error": message or "error"}).encode())


def git_id(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def signature(path, expires):
    return hmac.new(SECRET, f"{path} {expires}".encode(), "sha256").hexdigest()


class Sparse:
    """The content of a large file: a beginning, and zeros. It is sent in parts only."""

    def __init__(self, begin, size):
        self.begin, self.size = begin, size

    def __len__(self):
        return self.size

    def __getitem__(self, part):
        first, end, _ = part.indices(self.size)
        return self.begin[first:end].ljust(end - first, b"\0")


class File:
    def __init__(self, content, is_lfs):
        self.content, self.is_lfs = content, is_lfs
        self.sent = content  # what downloads send: differs in tests of verification
        self.sha256 = sha256(content.begin if isinstance(content, Sparse) else content)  # not that of the zeros: no test reads all
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
    """The two servers, at one address. They end with `test`, or by stop()."""

    def __init__(self, test, address="127.0.0.1"):
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
        self.lock = threading.Lock()
        self.servers = {"hub": Server(test, self.answer, address=address),
                        "cdn": Server(test, self.answer_of_cdn, address=address)}
        self.url, self.cdn_url = (server.origin for server in self.servers.values())

    def stop(self):
        for server in self.servers.values():
            server.close()

    def add(self, id, files, kind="models", **card):
        self.repositories[kind, id] = repository = Repository(id, files, **card)
        return repository

    def requests(self, server=None, path=""):
        """The requests so far to one server, or to both, whose path contains `path`."""
        return [each for name in ((server,) if server else self.servers) for each in self.servers[name].requests()
                if path in each.target]

    def bytes(self, server=None, path=""):
        return sum(each.length for each in self.requests(server, path) if each.status in (200, 206))

    def now(self):
        return time.time() + self.ahead

    def forget(self):
        for server in self.servers.values():
            server.received.clear()

    def take(self, counter):
        """Whether one of a number of special answers is left."""
        with self.lock:
            left = getattr(self, counter)
            setattr(self, counter, max(0, left - 1))
            return left > 0

    def answer(self, request):
        if self.take("too_many"):
            raise Refused(429, message="rate limited", headers={"RateLimit": f'"api";r=0;t={self.wait}',
                                                                "RateLimit-Policy": '"fixed window";"api";q=500;w=300'})
        if match := re.fullmatch(r"/api/(models|datasets|spaces)/([^/]+/[^/]+)/(revision|tree)/([^/]+)(?:/(.*))?", request.path):
            kind, id, what, revision, below = match.groups()
            if id in self.renamed:
                query = request.target[len(request.path):]
                return 307, {"Location": f"/api/{kind}/{self.renamed[id]}/{what}/{revision}{query}"}, b""
            repository = self.repository(request, kind, id, need_access=what == "tree" and not self.lists_gated)
            commit = self.commit(repository, revision)
            if what == "revision":
                return self.json(repository.about(commit))
            return self.tree(request, repository, commit, below)
        if match := re.fullmatch(r"/(?:(datasets|spaces)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", request.path):
            return self.resolve(request, match[1] or "models", *match.groups()[1:])
        raise Refused(404, message="Not Found")

    @staticmethod
    def json(value, headers={}):
        return 200, {"Content-Type": "application/json; charset=utf-8", **headers}, json.dumps(value).encode()

    def token(self, request):
        scheme, _, token = request.authorization.partition(" ")
        if token and (scheme != "Bearer" or token not in self.tokens):
            raise Refused(401, message="Invalid username or password.")
        return token

    def repository(self, request, kind, id, need_access):
        token = self.token(request)
        allowed = self.tokens.get(token, ())
        found = self.repositories.get((kind, id))
        if found is None or (found.private and id not in allowed):
            raise Refused(404 if token else 401, "RepoNotFound",
                          "Repository not found" if token else "Invalid username or password.")
        if found.is_disabled:
            raise Refused(403, message="Access to this resource is disabled.")
        if need_access and found.gated and id not in allowed:
            raise self.gated(id, token)
        return found

    def gated(self, id, token):
        begin = f"Access to model {id} is"
        if not token:
            return Refused(401, "GatedRepo",
                           f"{begin} restricted. You must have access to it and be authenticated to access it. Please log in.")
        if id in self.pending.get(token, ()):
            return Refused(403, "GatedRepo", f"Your request to access model {id} is awaiting a review from the repo authors.")
        return Refused(403, "GatedRepo",
                       f"{begin} restricted and you are not in the authorized list. Visit {self.url}/{id} to ask for access.")

    @staticmethod
    def commit(repository, revision):
        revision = urllib.parse.unquote(revision)
        commit = repository.revisions.get(revision, revision)
        if commit not in repository.commits:
            raise Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def tree(self, request, repository, commit, below):
        query = request.query
        has_access = not repository.gated or repository.id in self.tokens.get(self.token(request), ())
        entries = repository.tree(commit, masked=not has_access)
        if below:
            entries = [each for each in entries if each["path"].startswith(urllib.parse.unquote(below) + "/")]
        if query.get("recursive") != "true":
            depth = urllib.parse.unquote(below or "").count("/") + (1 if below else 0)
            entries = [each for each in entries if each["path"].count("/") == depth]
        begin = int(query.get("cursor", 0))
        headers = {}
        target = None
        if begin + self.page_size < len(entries):
            more = urllib.parse.urlencode({**query, "cursor": begin + self.page_size})
            target = f"{self.public_host or self.url}{request.path}?{more}"
        if self.next_link:
            target = self.next_link(request.target)
        if target:
            headers["Link"] = f'<{target}>; rel="next"'
        return self.json(entries[begin:begin + self.page_size], headers)

    def resolve(self, request, kind, id, revision, path):
        if id in self.renamed:
            prefix = "" if kind == "models" else f"/{kind}"
            return 307, {"Location": f"{prefix}/{self.renamed[id]}/resolve/{revision}/{path}"}, b""
        repository = self.repository(request, kind, id, need_access=not os.path.basename(path).startswith(PUBLIC_NAMES))
        commit = self.commit(repository, revision)
        file = repository.commits[commit].get(urllib.parse.unquote(path))
        if file is None:
            raise Refused(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": commit, "ETag": f'"{file.sha256 if file.is_lfs else file.oid}"'}
        if not file.is_lfs:
            request.wait(self.delay)
            return ranged(request, file.sent, {**CONTENT, **headers})
        place = f"/repos/{hashlib.md5(repository.id.encode()).hexdigest()}/{file.sha256}"
        expires = int((self.now() + self.lifetime) * 1000)
        headers.update({"X-Linked-Etag": f'"{file.sha256}"', "X-Linked-Size": str(len(file.content)),
                        "Location": f"{self.cdn_url}{place}?Expires={expires}&Signature={signature(place, expires)}"})
        return 302, headers, b""

    def answer_of_cdn(self, request):
        expires = int(request.query.get("Expires", 0))
        is_signed = hmac.compare_digest(request.query.get("Signature", ""), signature(request.path, expires))
        if self.take("cdn_refusals") or not is_signed or expires < self.now() * 1000:
            raise Refused(403, message="Request has expired")
        wanted = os.path.basename(request.path)
        for repository in self.repositories.values():
            for files in repository.commits.values():
                for file in files.values():
                    if file.is_lfs and file.sha256 == wanted:
                        return ranged(request, file.sent, {**CONTENT, "ETag": f'"{wanted}"'})
        raise Refused(404, message="Not Found")
