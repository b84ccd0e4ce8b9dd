"""A server process, `weightfs serve`, on a socket in a directory of its own. It ends with the process that started it."""
from __future__ import annotations

import hashlib
import os
import secrets
import subprocess
import tempfile
import threading
import urllib.parse
import weakref
from typing import IO, Any, Callable, Dict, List, Mapping, Optional, Tuple

from ._connection import Pool, Response, ended_early
from ._errors import Changed, Error, error_of_exit
from ._program import find_program, sentence_of, words_of

MAX_SOCKET_PATH = 100  # bytes; sun_path has 108
END_S = 15  # the server completes responses for 10 seconds
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
        self.owner = os.getpid()
        self.tags: Dict[str, str] = {}  # of the targets that were read
        self.version = ""  # the entity tag of tensors.json
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        words = [find_program(), "serve", "--listen", f"unix:{self.path}", "--until-eof", "--log-level=error", *words_of(options),
                 "--", source]
        try:
            # A session of its own: Ctrl-C in a terminal is for this program only.
            self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
                                            start_new_session=True)
        except OSError as error:
            self._errors.close()
            raise Error(f"{words[0]}: {error.strerror}") from error
        try:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
        except BaseException:
            self.end()
            raise
        if not line:
            status = self.process.wait()
            message = self.log() or f"{source}: weightfs ended with status {status}"
            self.end()
            raise error_of_exit(status, message)

    def log(self) -> str:
        """What the server has written to standard error."""
        self._errors.seek(0)
        return sentence_of(self._errors.read().decode("utf-8", "replace"))

    def end(self) -> None:
        """Ends the server and waits for it."""
        self.pool.close()
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        if os.getpid() != self.owner:  # in a process that was forked: the server ends with the last one that has its input
            process.stdout.close()
            self._errors.close()
            process.returncode = 0  # it is not a child of this process
            return
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stdout.close()
        self._errors.close()
        for remove, path in ((os.unlink, self.path), (os.rmdir, os.path.dirname(self.path))):
            try:
                remove(path)
            except OSError:
                pass  # the server has removed it


class Server:
    """The server of a source, started by the first request. All bytes are of one version of the model: a request raises Changed
    after the container was replaced. Callable from any thread, and in processes that were forked."""

    def __init__(self, source: str, options: Mapping[str, Any]) -> None:
        self.source = source
        self.options = dict(options)
        self.index = ""  # the text that describes the tensors; empty until it is known
        self._lock = threading.RLock()
        self._child: Optional[Child] = None
        self._end: Optional[Callable[[], object]] = None
        self._is_closed = False
        _servers.add(self)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._stop()

    def _stop(self) -> None:
        if self._end is not None:
            self._end()
        self._child = self._end = None

    def after_fork(self) -> None:
        self._lock = threading.RLock()
        if self._child is not None:
            self._child.pool.after_fork()

    def _start(self) -> Child:
        child = Child(self.source, self.options)
        end = weakref.finalize(self, child.end)
        try:
            child.version = self._tag_of_index(child, {})
            with child.pool.request("/" + API + "index", {}) as response:
                text = index_of(response.read().decode("utf-8"))
            self._tag_of_index(child, {"If-Match": child.version})
            if self.index and digest_of(text) != self.index:
                raise Changed(f"{self.source}: the container has changed since it was opened; open it again")
        except BaseException:
            end()
            raise
        self.index, self.text = digest_of(text), text
        # Last: a process that is forked meanwhile starts another server.
        self._end, self._child = end, child
        return child

    @staticmethod
    def _tag_of_index(child: Child, fields: Dict[str, str]) -> str:
        with child.pool.request(quoted("tensors.json"), fields, "HEAD") as response:
            return response.etag or ""

    def _running(self) -> Child:
        with self._lock:
            if self._is_closed:
                raise Error(f"{self.source}: the model is closed")
            child = self._child
            if child is not None and child.owner == os.getpid() and child.process.poll() is not None:
                self._stop()  # it was killed
                child = None
            return child or self._start()

    def start(self) -> str:
        """Starts the server, and returns the text of its index of tensors."""
        with self._lock:
            self._running()
            return self.text

    def request(self, path: str, fields: Dict[str, str], method: str = "GET", query: str = "") -> Response:
        """A response for a path of the tree, of the version of the model that was opened."""
        target = quoted(path) + query
        for is_last in (False, True):
            child = self._running()
            tag = child.tags.get(target)
            try:
                response = child.pool.request(target, {**fields, "If-Match": tag} if tag else fields, method)
                if tag is None and response.etag is not None:
                    try:
                        self._tag_of_index(child, {"If-Match": child.version})
                    except BaseException:
                        response.close()
                        raise
            except OSError as error:
                if is_last:
                    raise Error(f"{self.source}: the server of weightfs is not running: {error.strerror}") from error
                with self._lock:
                    if self._child is child:
                        self._stop()
                continue
            if tag is None and response.etag is not None and len(child.tags) < MAX_KNOWN_TAGS:
                child.tags[target] = response.etag
            return response
        raise AssertionError("unreachable")

    def open(self, path: str, begin: int = 0, end: Optional[int] = None) -> Response:
        """A response with the bytes [begin, end) of a file."""
        if begin == 0 and end is None:
            return self.request(path, {})
        return self.request(path, {"Range": f"bytes={begin}-{'' if end is None else end - 1}"})

    def read_into(self, path: str, begin: int, view: memoryview) -> None:
        """Fills the memory with the bytes from `begin` on."""
        done = 0
        while done < len(view):
            with self.open(path, begin + done, begin + len(view)) as response:
                if response.size != len(view) - done:
                    raise Error(f"{path}: {response.size} bytes from offset {begin + done} on, {len(view) - done} expected")
                count = response.read_into(view[done:])
            # A response that ends early has failed: the next request says why, or continues.
            if count == 0 and done < len(view):
                raise ended_early(path)
            done += count

    def read(self, path: str, query: str = "", fields: Optional[Dict[str, str]] = None) -> Tuple[bytes, Response]:
        """A whole body, and its response."""
        with self.request(path, fields or {}, query=query) as response:
            return response.read(), response

    def text_of(self, path: str) -> str:
        return self.read(path)[0].decode("utf-8")

    def size(self, path: str) -> int:
        try:
            with self.request(path, {}, "HEAD") as response:
                return response.size
        except Error as error:
            if str(error):
                raise
        with self.request(path, {}) as response:  # raises with the sentence that a response to HEAD lacks
            return response.size

    def list(self, path: str) -> List[Tuple[str, bool, Optional[int]]]:
        """The entries of a directory: name, whether it is a directory, and size."""
        import json
        body, _ = self.read(path.rstrip("/") + "/" if path else "", fields={"Accept": "application/json"})
        return [(entry["name"].rstrip("/"), entry["is_dir"], entry.get("size")) for entry in json.loads(body)]


def index_of(text: str) -> str:
    """The part of an index that does not depend on the process that made it."""
    return '{"local_files"' + text.partition('"local_files"')[2]


def digest_of(text: str) -> str:
    """Identifies an index; the end of the text, which braces and white space may follow, is left out."""
    return hashlib.sha256(text.rstrip("} \n").encode("utf-8", "surrogatepass")).hexdigest()


_servers: "weakref.WeakSet[Server]" = weakref.WeakSet()


def _after_fork() -> None:
    for server in list(_servers):
        server.after_fork()


os.register_at_fork(after_in_child=_after_fork)
