"""HTTP over a local socket: connections that are used again, ranges, and responses that are read into the memory of an array."""
from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from typing import Dict, List, Optional

from ._errors import Changed, Error, Unavailable, error_of_response

TIMEOUT_S = 24 * 3600  # the program itself times out when a server does not respond
MAX_IDLE = 32  # connections
MAX_ERROR = 64 * 1024  # bytes of a sentence


class LocalConnection(http.client.HTTPConnection):
    """A connection to a socket file."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.connect(self.path)
        except OSError:
            self.sock.close()
            raise


class Response:
    """A response whose body has not been read yet. After `close()` its connection is used for the next request."""

    def __init__(self, pool: "Pool", connection: LocalConnection, response: http.client.HTTPResponse) -> None:
        self._pool = pool
        self._connection = connection
        self._response = response
        self.status = response.status
        self.size = int(response.getheader("Content-Length") or 0)
        self.etag = response.getheader("ETag")

    @property
    def total(self) -> int:
        """The size of the whole file."""
        whole = (self._response.getheader("Content-Range") or "").rpartition("/")[2]
        return int(whole) if whole.isdigit() else self.size

    def header(self, name: str) -> Optional[str]:
        return self._response.getheader(name)

    def read(self) -> bytes:
        """The whole body."""
        try:
            return self._response.read()
        except http.client.HTTPException as error:
            raise Unavailable(f"the server ended a response before its end: {error!r}") from error

    def sentence(self) -> str:
        """The body of an error."""
        text = self._response.read(MAX_ERROR).decode("utf-8", "replace").strip()
        return str(json.loads(text)["error"]) if self.header("Content-Type") == "application/json" else text

    def read_into(self, view: memoryview) -> int:
        """Fills the memory, and returns how many bytes the server sent: fewer than requested if it ended the response."""
        done = 0
        while done < len(view):
            try:
                count = self._response.readinto(view[done:])
            except (OSError, http.client.HTTPException):
                break
            if count <= 0:
                break
            done += count
        return done

    def close(self) -> None:
        # The rest of a body is not read: the connection is then useless.
        is_complete = self._response.isclosed() or self._response.length == 0
        self._response.close()
        if is_complete:
            self._pool.give_back(self._connection)
        else:
            self._connection.close()

    def __enter__(self) -> "Response":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Pool:
    """The idle connections to one server. Callable from any thread; a process that was forked begins with none."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._idle: List[LocalConnection] = []
        self._pid = os.getpid()
        self._is_closed = False

    def after_fork(self) -> None:
        """Another thread may have held the lock. The sockets are those of the parent, which does not notice that they are closed
        here."""
        self._lock = threading.Lock()
        idle, self._idle, self._pid = self._idle, [], os.getpid()
        for connection in idle:
            connection.close()

    def take(self) -> Optional[LocalConnection]:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give_back(self, connection: LocalConnection) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE and connection.sock is not None and not self._is_closed and self._pid == os.getpid():
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for connection in idle:
            connection.close()

    def request(self, target: str, fields: Dict[str, str], method: str = "GET") -> Response:
        """Sends a request for a target that is escaped. Raises what the response says, and OSError if the server is not
        running."""
        while True:
            used = self.take()
            connection = used or LocalConnection(self.path)
            try:
                connection.request(method, target, headers=fields)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if used is not None:
                    continue  # the server has closed an idle connection
                if isinstance(error, OSError):
                    raise
                raise Error(f"the server of weightfs sent no valid response: {error!r}") from error
            except BaseException:
                connection.close()
                raise
            found = Response(self, connection, response)
            if response.status < 300:
                return found
            with found:
                message = found.sentence()
                if 300 <= response.status < 400:
                    raise Error(f"{target}: a directory, not a file")
                if response.status in (412, 409):
                    raise Changed(f"{target}: the container has changed since it was opened; open it again")
                raise error_of_response(response.status, response.getheader("Weightfs-Error"), message)


def ended_early(target: str) -> Error:
    return Unavailable(f"{target}: the server ended the response before its end")
