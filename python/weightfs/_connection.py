"""HTTP over a local socket: connections that are used again, ranges, and responses that are read into the memory of an array."""
from __future__ import annotations

import http.client
import json
import os
import socket
from typing import Dict, List, Optional

from ._errors import Changed, Error, Unavailable, error_of_response

MAX_IDLE = 32  # connections
MAX_ERROR = 64 * 1024  # bytes of a sentence


class LocalConnection(http.client.HTTPConnection):
    """A connection to a socket file. It never times out: the program itself does, when a source does not respond."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
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

    def __init__(self, pool: Pool, connection: LocalConnection, response: http.client.HTTPResponse) -> None:
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

    def read(self) -> Optional[bytes]:
        """The whole body, or None if the server ended it early."""
        try:
            return self._response.read()
        except (OSError, http.client.HTTPException):
            return None

    def sentence(self) -> str:
        """The body of an error."""
        try:
            text = self._response.read(MAX_ERROR).decode("utf-8", "replace").strip()
            return str(json.loads(text)["error"]) if self.header("Content-Type") == "application/json" else text
        except (OSError, ValueError, http.client.HTTPException):
            return ""  # it was cut

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

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Pool:
    """The idle connections to one server. Callable from any thread, and from a handler of a signal: it has no lock, because
    append() and pop() of a list are atomic. A process that was forked begins with no connection."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._idle: List[LocalConnection] = []
        self._pid = os.getpid()
        self._is_closed = False

    def after_fork(self) -> None:
        """The sockets are those of the parent, which does not notice that they are closed here."""
        self._pid = os.getpid()
        self._close_idle()

    def take(self) -> Optional[LocalConnection]:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def give_back(self, connection: LocalConnection) -> None:
        if len(self._idle) >= MAX_IDLE or connection.sock is None or self._pid != os.getpid():
            connection.close()
            return
        self._idle.append(connection)
        if self._is_closed:
            self._close_idle()

    def close(self) -> None:
        self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        connection = self.take()
        while connection is not None:
            connection.close()
            connection = self.take()

    def request(self, target: str, fields: Dict[str, str], method: str = "GET") -> Response:
        """Sends a request for a target that is escaped. Raises what the response says, and OSError if there is no connection, as
        when the server is not running."""
        response = self._exchange(target, fields, method)
        if response.status < 300:
            return response
        with response:
            message = response.sentence()
        if 300 <= response.status < 400:
            raise Error(f"{target}: a directory, not a file")
        if response.status in (412, 409):
            raise Changed(f"{target}: the container has changed since it was opened; open it again")
        message = message or f"{target}: the server of weightfs sent status {response.status}"
        raise error_of_response(response.status, response.header("Weightfs-Error"), message)

    def _exchange(self, target: str, fields: Dict[str, str], method: str) -> Response:
        used = self.take()
        if used is not None:
            try:
                return self._send(used, target, fields, method)
            except ConnectionError:
                self._close_idle()  # the server has closed this one, and perhaps the others
        return self._send(LocalConnection(self.path), target, fields, method)

    def _send(self, connection: LocalConnection, target: str, fields: Dict[str, str], method: str) -> Response:
        try:
            connection.request(method, target, headers=fields)
            return Response(self, connection, connection.getresponse())
        except http.client.HTTPException as error:
            connection.close()
            if isinstance(error, OSError):
                raise
            raise Error(f"the server of weightfs sent no valid response: {error!r}") from error
        except BaseException:
            connection.close()
            raise


def ended_early(target: str) -> Error:
    return Unavailable(f"{target}: the server ended the response before its end")
