"""A thousand clients that ask `weightfs serve` for a hundred models at once: all get the right bytes, and the memory of the server
stays bounded. semantics 29.12"""
import asyncio
import hashlib
import json
import random
import re
import resource
import unittest

from http_serving import HttpServer
from mounting import LIMIT_S, Tensor, TestCase, is_sanitized
import stores

CLIENTS, MODELS = 1_000, 100
SIZE = 128 << 10      # bytes of a tensor
LIMIT = 128_000_000   # bytes


class Busy(Exception):
    """The server asks the client to repeat the request."""


class Client:
    """A connection. Requests that the server is too busy for are repeated, as clients of the Hub do."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def body(self, path):
        while True:
            try:
                return await self.response(path)
            except Busy as busy:
                await asyncio.sleep(int(str(busy)))

    async def response(self, path):
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        header = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        fields = {name.lower(): value.strip() for name, value in re.findall(r"(?m)^([^:\s]+):(.*)\r$", header)}
        body = await self.reader.readexactly(int(fields["content-length"]))
        if header.startswith("HTTP/1.1 503 "):
            raise Busy(fields["retry-after"])
        if not header.startswith("HTTP/1.1 200 "):
            raise AssertionError(f"{path}: {header} {body[:200]}")
        return body


class ManyClients(TestCase):
    def setUp(self):
        super().setUp()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limits[1] < CLIENTS + 100:
            self.skipTest(f"at most {limits[1]} descriptors for {CLIENTS} connections")
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
        self.digests = {}
        for i in range(MODELS):
            name = f"m-{i:03}.safetensors"
            values = random.Random(i).randbytes(SIZE)
            data = stores.safetensors(self.tmp, [Tensor("w", "uint8", (SIZE,), values)])
            self.write(f"models/{name}", data)
            self.digests[name] = hashlib.sha256(data).hexdigest()
        self.server = HttpServer(self.path("models"), folder=self.tmp)
        self.addCleanup(self.server.close)

    async def read_as_hub(self, client, name):
        fields = json.loads(await client.body(f"/api/models/local/{name}"))
        self.assertEqual([each["rfilename"] for each in fields["siblings"]], [name])
        return await client.body(f"/local/{name}/resolve/{fields['sha']}/{name}")

    async def read_as_s3(self, client, name):
        listed = await client.body(f"/.s3/{name.replace('.', '-')}?list-type=2")
        self.assertIn(f"<Key>{name}</Key>".encode(), listed)
        return await client.body(f"/.s3/{name.replace('.', '-')}/{name}")

    async def read_as_url(self, client, name):
        return await client.body(f"/{name}/files/{name}")

    async def read_all(self):
        """The clients are connected before the first one sends a request."""
        connections = await asyncio.gather(*(asyncio.open_connection(self.server.host, self.server.port) for _ in range(CLIENTS)))
        names, kinds = list(self.digests), (self.read_as_hub, self.read_as_s3, self.read_as_url)

        async def read(i, connection):
            name = names[i % MODELS]
            data = await kinds[i % len(kinds)](Client(*connection), name)
            return name, hashlib.sha256(data).hexdigest()

        found = await asyncio.gather(*(read(i, connection) for i, connection in enumerate(connections)))
        for _, writer in connections:
            writer.close()
        return found

    def peak(self):
        """The peak memory of the server in bytes, without the pages of the program, which differ by 10 MB between builds."""
        with open(f"/proc/{self.server.process.pid}/status") as file:
            sizes = {name: value for name, _, value in (line.partition(":") for line in file)}
        return (int(sizes["VmHWM"].split()[0]) - int(sizes["RssFile"].split()[0])) << 10

    def test_thousand_clients_read_a_hundred_models(self):
        found = asyncio.run(asyncio.wait_for(self.read_all(), 2 * LIMIT_S))
        self.assertEqual(len(found), CLIENTS)
        self.assertEqual(set(found), set(self.digests.items()))
        if not is_sanitized():
            self.assertLess(self.peak(), LIMIT)


if __name__ == "__main__":
    unittest.main()
