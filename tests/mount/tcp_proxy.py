"""A TCP proxy on loopback between a client and a server of a test. It can cut connections, and change its server."""
import contextlib
import select
import socket
import struct
import threading

BUFFER = 65536


class TcpProxy:
    """Forwards each connection to `server`, (address, port), as soon as the client has sent a byte. `server` may be replaced;
    open connections stay with the old one. `cuts`: after how many bytes of the server the first connections are ended. They are
    closed, or reset with `resets`."""

    def __init__(self, test, server, cuts=(), resets=False):
        self.server, self.resets = server, resets
        self.connections = 0  # in which the client has sent a byte
        self._cuts = list(cuts)
        self._lock = threading.Lock()  # guards the rest
        self._open = set()
        self._threads = []
        self._is_closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()
        self.url = f"http://{self.host}:{self.port}/"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        test.addCleanup(self.close)

    def close(self):
        """Ends all connections and threads."""
        with self._lock:
            self._is_closed = True
            for each in (self._listener, *self._open):
                with contextlib.suppress(OSError):  # the other side was faster
                    each.shutdown(socket.SHUT_RDWR)  # wakes up the thread that waits for it
        self._accepting.join()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):  # close()
            while True:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
                self._threads.append(thread)
                thread.start()

    @contextlib.contextmanager
    def _held(self, connection):
        """A connection that close() ends; it is closed after the block."""
        with connection:
            with self._lock:
                if self._is_closed:
                    raise ConnectionAbortedError
                self._open.add(connection)
            try:
                yield connection
            finally:
                with self._lock:
                    self._open.remove(connection)

    def _serve(self, client):
        with contextlib.suppress(OSError), self._held(client):  # an error of one side ends both connections
            request = client.recv(BUFFER)
            if not request:
                return
            with self._lock:
                self.connections += 1
                cut = self._cuts.pop(0) if self._cuts else None
            with self._held(socket.create_connection(self.server)) as server:
                server.sendall(request)
                self._forward(client, server, cut)

    def _forward(self, client, server, left):
        while left != 0:
            for source in select.select([client, server], [], [])[0]:
                data = source.recv(BUFFER)
                if not data:
                    return
                if source is client:
                    server.sendall(data)
                    continue
                client.sendall(data if left is None else data[:left])
                left = None if left is None else max(0, left - len(data))
        if self.resets:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
