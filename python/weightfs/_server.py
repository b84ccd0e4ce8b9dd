"""A server process, `weightfs serve`, on a socket in a directory of its own. It ends with the process that started it."""
from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import stat
import subprocess
import tempfile
import threading
import urllib.parse
import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ._connection import Pool, Response, ended_early
from ._errors import Changed, Error, NotFound, Refused, error_of_exit
from ._local import status_of, version_of
from ._program import Process, find_program, words_of

MAX_SOCKET_PATH = 100  # bytes; sun_path has 108
MAX_CUT = 3  # responses of one read that may end early, each continued by the next one
MAX_KNOWN_TAGS = 100_000
API = ".weightfs/api/v1/"


def quoted(path: str) -> str:
    """The target of a request for a path of the tree. No character of a name has a meaning in it."""
    return "/" + urllib.parse.quote(path, safe="/", errors="surrogateescape")


def socket_path() -> str:
    """A path in a directory that does not exist: the server makes it, for this user only, and removes it."""
    for folder in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):
        path = os.path.join(folder, f"weightfs-{secrets.token_hex(12)}", "socket")
        if os.path.isabs(path) and len(os.fsencode(path)) <= MAX_SOCKET_PATH and os.access(folder, os.W_OK | os.X_OK):
            return path
    raise Error(f"no directory for a socket: the path of {tempfile.gettempdir()} is too long, or it cannot be written")


class Child:
    """A running server. Only the process that started it ends it; those that were forked since then use it."""

    def __init__(self, source: str, options: Mapping[str, Any]) -> None:
        self.path = socket_path()
        self.pool = Pool(self.path)
        self.tags: Dict[str, str] = {}  # of the targets that were read
        self.version = ""  # the entity tag of tensors.json
        words = [find_program(), "serve", "--listen", f"unix:{self.path}", "--until-eof", "--log-level=error", *words_of(options),
                 "--", source]
        self.process = Process(words, subprocess.PIPE)
        try:
            if not self.process.stdout.readline():
                self.process.wait()
                status = self.process.status or 0
                raise error_of_exit(status, self.process.log() or f"{source}: weightfs ended with status {status}")
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Ends the server and waits for it. After an interruption, another call completes this."""
        self.pool.close()
        self.process.end()
        if os.getpid() == self.process.owner:  # else it ends with the last process that has its input
            shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)  # the server removes it, unless it was killed


class Server:
    """The server of a source, started by the first request. All bytes are of one version of the model: a request raises Changed
    after the container was replaced, also if the server was killed and started again. Callable from any thread, and in processes
    that were forked."""

    def __init__(self, source: str, options: Mapping[str, Any]) -> None:
        self.source = source
        self.options = dict(options)
        self.status = status_of(source)  # None for a source that is not a path
        self.index = ""  # the digest that identifies the tensors and their files; empty until it is known
        self._lock = threading.RLock()
        self._child: Optional[Child] = None
        self._forget: Optional[Callable[[], object]] = None  # the child's end need not be called when this process exits
        self._is_closed = False
        _servers.add(self)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._stop()

    def _stop(self) -> None:
        if self._child is not None and self._forget is not None:
            self._child.end()
            self._forget()  # last: an interrupted end is completed by the next call, or when this process exits
        self._child = self._forget = None

    def after_fork(self) -> None:
        self._lock = threading.RLock()
        if self._child is not None:
            self._child.pool.after_fork()

    @property
    def version(self) -> str:
        """Identifies the version of the model, as far as it is known."""
        return f"{self.index} {self.status and version_of(self.status)}"

    def check(self) -> None:
        """Raises Changed if the file or directory at the source is another one, or was written."""
        if self.status is not None:
            now = status_of(self.source)
            if now is None or version_of(now) != version_of(self.status):
                raise self._changed()

    def _changed(self) -> Changed:
        return Changed(f"{self.source}: the container has changed since it was opened; open it again")

    def _closed(self) -> Error:
        return Error(f"{self.source}: the model is closed")

    def _start(self) -> Child:
        child = Child(self.source, self.options)
        end = weakref.finalize(self, child.end)
        try:
            child.version = self._tag_of_index(child)
            with child.pool.request("/" + API + "index", {}) as response:
                body = response.read()
            if body is None:
                raise ended_early(API + "index")
            text = index_of(body.decode("utf-8"))
            index = digest_of(text) if self.status else self._digest_of_files(child, text)
            self._check_version(child)
            if self.index and index != self.index:
                raise self._changed()
            # Its values may be in no tensor's identity. The files of a directory are in those; others beside them may change.
            if self.status is not None and not stat.S_ISDIR(self.status.st_mode):
                self.check()
            if self._is_closed:  # by a handler of a signal
                raise self._closed()
        except OSError as error:
            message = child.process.log() or f"{self.source}: the server of weightfs ended when it was started: {error}"
            end()
            raise Error(message) from error
        except BaseException:
            end()
            raise
        self.index, self.text = index, text
        # Last: a process that is forked meanwhile starts another server.
        self._forget, self._child = end.detach, child
        return child

    def _tag_of_index(self, child: Child) -> str:
        try:
            with child.pool.request(quoted("tensors.json"), {}, "HEAD") as response:
                return response.etag or ""
        except NotFound:
            if self.index:
                raise self._changed() from None
            raise Refused(f"{self.source}: not one model; if it is a directory of models, open one of them") from None

    def _digest_of_files(self, child: Child, text: str) -> str:
        """Identifies the index and the files that have the tensors, by their entity tags: those are digests where a server states
        them. The identities in the index are others after a file was verified."""
        tags = {}
        for file in {record["storage"]["file"] for record in json.loads(text)["tensor_list"] if "storage" in record}:
            try:
                with child.pool.request(quoted(f"files/{file}"), {}, "HEAD") as response:
                    tags[file] = response.etag or ""
            except Error:  # not a file of the tree, or one that cannot be read now
                tags[file] = ""
        return digest_of(tensors_of(text) + str(sorted(tags.items()))) if tags and all(tags.values()) else digest_of(text)

    def _check_version(self, child: Child) -> None:
        try:
            child.pool.request(quoted("tensors.json"), {"If-Match": child.version}, "HEAD").close()
        except NotFound:
            raise self._changed() from None

    def _running(self) -> Child:
        with self._lock:
            if self._is_closed:
                raise self._closed()
            child = self._child
            if child is not None and child.process.has_ended():
                self._stop()  # it was killed
                child = None
            return child or self._start()

    def start(self) -> str:
        """Starts the server, and returns the text of its index of tensors."""
        with self._lock:
            self._running()
            return self.text

    def request(self, path: str, fields: Dict[str, str], method: str = "GET", query: str = "") -> Response:
        """A response for a path of the tree, of the version of the model that was opened. If the server has died, another one is
        started, once."""
        for is_last in (False, True):
            child = self._running()
            try:
                return self._request_of(child, quoted(path) + query, fields, method)
            except (ConnectionError, FileNotFoundError) as error:
                if is_last:
                    raise Error(f"{self.source}: the server of weightfs is not running: {error.strerror or error}") from error
                with self._lock:
                    if self._child is child:
                        self._stop()
            except OSError as error:  # such as too many open files
                raise Error(f"{self.source}: no connection to the server of weightfs: {error.strerror}") from error
        raise AssertionError("unreachable")

    def _request_of(self, child: Child, target: str, fields: Dict[str, str], method: str) -> Response:
        tag = child.tags.get(target)
        response = child.pool.request(target, {**fields, "If-Match": tag} if tag else fields, method)
        if tag is None:
            try:
                self._check_version(child)
            except BaseException:
                response.close()
                raise
            if response.etag is not None and len(child.tags) < MAX_KNOWN_TAGS:
                child.tags[target] = response.etag
        return response

    def open(self, path: str, begin: int = 0, end: Optional[int] = None) -> Response:
        """A response with the bytes [begin, end) of a file."""
        if begin == 0 and end is None:
            return self.request(path, {})
        return self.request(path, {"Range": f"bytes={begin}-{'' if end is None else end - 1}"})

    def read_into(self, path: str, begin: int, view: memoryview) -> None:
        """Fills the memory with the bytes from `begin` on."""
        done = 0
        for _ in range(MAX_CUT + 1):
            if done == len(view):
                return
            with self.open(path, begin + done, begin + len(view)) as response:
                if response.size != len(view) - done:
                    raise Error(f"{path}: {response.size} bytes from offset {begin + done} on, {len(view) - done} expected")
                # A response that ends early has failed: the next request says why, or continues.
                done += response.read_into(view[done:])
        if done < len(view):
            raise ended_early(path)

    def read(self, path: str, query: str = "", fields: Optional[Dict[str, str]] = None) -> Tuple[bytes, Response]:
        """A whole body, and its response. A response that ends early is requested once more."""
        for _ in range(2):
            with self.request(path, fields or {}, query=query) as response:
                body = response.read()
            if body is not None:
                return body, response
        raise ended_early(path)

    def text_of(self, path: str) -> str:
        return self.read(path)[0].decode("utf-8")

    def size(self, path: str) -> int:
        try:
            with self.request(path, {}, "HEAD") as response:
                return response.size
        except Error:
            with self.request(path, {}) as response:  # raises with the sentence that a response to HEAD lacks
                return response.size

    def list(self, path: str) -> List[Tuple[str, bool, Optional[int]]]:
        """The entries of a directory: name, whether it is a directory, and size."""
        body, _ = self.read(path.rstrip("/") + "/" if path else "", fields={"Accept": "application/json"})
        return [(entry["name"].rstrip("/"), entry["is_dir"], entry.get("size")) for entry in json.loads(body)]


def index_of(text: str) -> str:
    """The part of an index that is equal for equal containers: its last members, from "v" on. Metadata before it may have members
    of the same names."""
    at = text.rfind('"local_files": [')
    return "{" + text[text.rfind('"v": ', 0, at):]


def tensors_of(text: str) -> str:
    """The part of an index without the identities of tensors."""
    return text[text.find('"local_files"'):]


def digest_of(text: str) -> str:
    """Identifies an index; the end of the text, which braces and white space may follow, is left out."""
    return hashlib.sha256(text.rstrip("} \n").encode("utf-8", "surrogatepass")).hexdigest()


_servers: weakref.WeakSet[Server] = weakref.WeakSet()


def _after_fork() -> None:
    for server in list(_servers):
        server.after_fork()


os.register_at_fork(after_in_child=_after_fork)
