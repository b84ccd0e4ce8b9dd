"""An HTTP server on loopback, in a separate process, for containers with URLs."""
import os
import signal
import socket

ENDLESS = 256 << 20  # bytes


class Helper:
    def __init__(self, pid, port):
        self.pid, self.port = pid, port

    def stop(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def start(answer):
    """Calls `answer(connection, method)` for each request, one request per connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    pid = os.fork()
    if pid != 0:
        port = listener.getsockname()[1]
        listener.close()
        return Helper(pid, port)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            try:
                head = b""
                while b"\r\n\r\n" not in head and (piece := connection.recv(4096)):
                    head += piece
                answer(connection, head.split(b" ")[0].decode())
            except OSError:
                pass  # the client has disconnected
            os._exit(0)
        connection.close()


def endless(connection, method):
    """A body without a length: ENDLESS bytes, as an approximation of an endless body."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    if method != "HEAD":
        block = bytes(1 << 20)
        for _ in range(ENDLESS // len(block)):
            connection.sendall(block)


def endless_header(connection, method):
    """An endless header field."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Endless: ")
    for _ in range(256):
        connection.sendall(b"x" * (1 << 20))


def lying_length(connection, method):
    """A length of 2^60 bytes, and a body of a few."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1152921504606846976\r\nConnection: close\r\n\r\n" +
                       (b"" if method == "HEAD" else b"few bytes"))
