"""A double of ModelScope on 127.0.0.1, for tests: its list of files, and a second server in the role of its object store, to which
downloads are redirected. Both count requests. Standard library only.
"""
import hashlib
import json
import re
import threading
import urllib.parse

from scripted_server import Refusal, Server, ranged


class ModelScope:
    """The two servers. They end with `test`."""

    def __init__(self, test):
        self.repositories = {}  # (id, revision): {path: content}
        self.sent = {}          # path: content of downloads, which differs in tests of verification
        self.without_digest = set()
        self.private = {}       # id: the token that may read it
        self.code = 200         # of the list, whose status is 200
        self.entries = None     # replaces the entries of the list, for hostile ones
        self.page = None        # replaces the list, for a web page
        self.lock = threading.Lock()
        self.hub = Server(test, self.answer)
        self.store = Server(test, self.answer_of_store)
        self.url = self.hub.origin

    def add(self, id, files, revision="master"):
        self.repositories[id, revision] = files

    def requests(self, path=""):
        """The requests to the hub whose target contains `path`."""
        return [request for request in self.hub.requests() if path in request.target]

    def files(self, request, id, revision):
        token = self.private.get(id)
        cookies = request.headers.get("cookie", "").split("; ")
        is_allowed = token is None or (request.authorization == f"Bearer {token}" and f"m_session_id={token}" in cookies)
        files = self.repositories.get((id, urllib.parse.unquote(revision)))
        if files is None or not is_allowed:
            raise Refusal(404, {}, json.dumps({"Code": 10010205001, "Message": "Record not found"}).encode())
        return files

    def entry(self, path, content):
        digest = "" if path in self.without_digest else hashlib.sha256(content).hexdigest()
        return {"Name": path.rpartition("/")[2], "Path": path, "Type": "blob", "Size": len(content), "Sha256": digest,
                "Revision": "0" * 40, "CommittedDate": 1700000000, "IsLFS": len(content) > 1000}

    def answer(self, request):
        if match := re.fullmatch(r"/api/v1/models/([^/]+/[^/]+)/repo/files", request.path):
            if self.page is not None:
                return 200, {"Content-Type": "text/html"}, self.page
            files = self.files(request, match[1], request.query["Revision"])
            folders = sorted({path.rpartition("/")[0] for path in files} - {""})
            trees = [{"Name": path, "Path": path, "Type": "tree", "Size": 0, "Sha256": ""} for path in folders]
            entries = trees + [self.entry(*file) for file in files.items()] if self.entries is None else self.entries
            body = {"Code": self.code, "Data": {"Files": entries}, "Message": "the message", "Success": self.code == 200}
            return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()
        if match := re.fullmatch(r"/models/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", request.path):
            files = self.files(request, match[1], match[2])
            path = urllib.parse.unquote(match[3])
            if path not in files:
                return 404, {}, b""
            with self.lock:
                content = self.sent.get(path, files[path])
            key = hashlib.sha256(content).hexdigest()
            self.store.serve(key, lambda request: ranged(request, content, {"ETag": f'"{key}"'}))
            return 302, {"Location": self.store.url(key) + "?Signature=of-the-store"}, b""
        return 404, {}, b""

    @staticmethod
    def answer_of_store(request):
        return 403, {}, b""
