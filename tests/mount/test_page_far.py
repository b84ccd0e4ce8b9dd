"""The page of a repository of 400 GB on the double of the Hub: what is transferred for a table and for a picture."""
import contextlib
import json
import struct
import unittest

from browsing import needs_chromium
from devtools import page
from http_serving import HttpServer
from hub_server import File, sha256
from page_testing import ASSETS
from test_hub import KIB, MIB, HubTestCase

SHARDS, TENSORS = 60, 5  # in each shard, the last one large
SHAPE, LARGE_SHAPE = (2048, 4096), (409600, 8192)
TENSOR = 2 * SHAPE[0] * SHAPE[1]  # bytes
SIZES = [TENSOR] * (TENSORS - 1) + [2 * LARGE_SHAPE[0] * LARGE_SHAPE[1]]
WHOLE = SHARDS * sum(SIZES)


class Zeros:
    """A file that begins with a header; all else is zero, and is made when it is asked for."""

    def __init__(self, header, size):
        self.header, self.size = header, size

    def __len__(self):
        return self.size

    def __getitem__(self, part):
        first, end, _ = part.indices(self.size)
        begin = self.header[first:end]
        return begin + bytes(end - first - len(begin))


def name_of(shard):
    return f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors"


def shard_of(shard):
    names = {f"layers.{shard * TENSORS + i}.weight": {"dtype": "BF16", "shape": SHAPE if size == TENSOR else LARGE_SHAPE,
                                                      "data_offsets": [sum(SIZES[:i]), sum(SIZES[:i + 1])]}
             for i, size in enumerate(SIZES)}
    text = json.dumps(names).encode()
    header = struct.pack("<Q", len(text)) + text
    return Zeros(header, len(header) + sum(SIZES))


class Far(HubTestCase):
    def setUp(self):
        super().setUp()
        shards = {name_of(i): shard_of(i) for i in range(SHARDS)}
        index = {f"layers.{i}.weight": name_of(i // TENSORS) for i in range(SHARDS * TENSORS)}
        repository = self.hub.add("org/large", {"model.safetensors.index.json": json.dumps({"weight_map": index}).encode(),
                                                "config.json": b"{}"})
        for name, content in shards.items():
            file = File(name.encode(), True)
            file.content = file.sent = content
            file.sha256 = sha256(name.encode())
            repository.files()[name] = file
        self.headers = sum(len(content.header) for content in shards.values())
        self.server = HttpServer("hf://org/large", folder=self.tmp, options=ASSETS)
        self.addCleanup(self.server.close)

    @contextlib.contextmanager
    def transfers_at_most(self, most):
        self.hub.forget()
        yield
        self.assertLessEqual(self.hub.bytes("cdn"), most)

    def get(self, request):
        response = self.server.get(f"/.weightfs/api/v1/{request}")
        self.assertEqual(response.status, 200, response.body[:200])
        return response.body

    def test_table_needs_the_headers_and_a_picture_its_tensor(self):
        self.assertGreater(WHOLE, 400e9)
        with self.transfers_at_most(1.1 * self.headers + 32 * KIB * SHARDS):
            self.assertEqual(json.loads(self.get("tensors?limit=1"))["total"], SHARDS * TENSORS)
            files = sum(len(shard_of(i)) for i in range(SHARDS))
            self.assertEqual(json.loads(self.get("model"))["bytes"], files)
        with self.transfers_at_most(4 * MIB):
            self.get("heatmap?t=4&mode=sample")
        with self.transfers_at_most(1.05 * TENSOR):
            self.get("heatmap?t=7&mode=full")

    @needs_chromium
    def test_views_open_with_headers_and_samples(self):
        with page(self) as shown:
            shown.open(f"{self.server.url}?view=tensors&sort=name&order=desc")
            shown.wait_for_text(f"layers.{SHARDS * TENSORS - 1}.weight")
            shown.settle()
            for tensor, most in ((4, 4 * MIB), (6, 1.05 * TENSOR)):
                with self.transfers_at_most(most):
                    shown.open(f"{self.server.url}?view=tensor&t={tensor}")
                    shown.wait_for("document.querySelector('canvas.heatmap')?.width > 0")
                    shown.settle()
            self.assertEqual(shown.problems, [])

    @needs_chromium
    def test_statistics_of_the_table_ask_before_they_transfer(self):
        with page(self) as shown:
            shown.open(f"{self.server.url}?view=tensors&q=layers.7.weight")
            shown.wait_for_text("layers.7.weight")
            with self.transfers_at_most(64 * KIB):
                shown.click("Statistics")
                shown.wait_for_text("Read samples from the server (about ")
                shown.settle()
            with self.transfers_at_most(4 * MIB):
                shown.click("main .figures-status button")
                shown.wait_for_text("Statistics of 1 of 1 tensors; 1 from samples")
                shown.wait_for_text("Read all elements (16.0 MiB)")
            with self.transfers_at_most(1.05 * TENSOR):
                shown.click("main .figures-status button")
                shown.wait_for_text("Statistics of 1 of 1 tensors.")
            self.assertEqual(shown.problems, [])


if __name__ == "__main__":
    unittest.main()
