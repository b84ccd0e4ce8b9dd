"""A proxy on 127.0.0.1 whose tunnels lead to doubles, for names of servers that a test must not reach. Standard library only."""
import select
import socket

from scripted_server import Server

BLOCK = 1 << 16


class Tunnels:
    """`hosts`: {name: the double, or its port}. Tunnels to other names are refused. It ends with its test."""

    def __init__(self, test, hosts):
        self.hosts = hosts
        self.server = Server(test, self.answer)
        self.origin = self.server.origin

    def names(self):
        """Those to which tunnels were asked for."""
        return {request.target.rpartition(":")[0] for request in self.server.requests()}

    def answer(self, request):
        name, _, port = request.target.rpartition(":")
        if request.method != "CONNECT" or port != "443" or name not in self.hosts:
            return 403, {}, b""
        double = self.hosts[name]
        with socket.create_connection(("127.0.0.1", double if isinstance(double, int) else double.server.port)) as inner:
            request.head(200)
            self.join(request.sock, inner)
        return None

    def join(self, outer, inner):
        """Until either end is closed, or the server ends."""
        other = {outer: inner, inner: outer}
        while not self.server.over.is_set():
            for ready in select.select([outer, inner], [], [], 0.1)[0]:
                data = ready.recv(BLOCK)
                if not data:
                    return
                other[ready].sendall(data)
