"""A repository of the Hub as a GGUF over hf://: requests and bytes, counted by a double of the Hub."""
import functools
import json
import math
import os
import random
import shutil
import struct
import subprocess
import threading
import unittest

from mounting import WEIGHTFS, MountTestCase, run
from hub_server import Sparse
from test_hub import HubTestCase, KIB, MIB
import containers
import tiny_repository
from tensors import Tensor
from tiny_llamas import llama3_tokenizer

SHARDS = 6
BLOCK = 16 * KIB  # of the cache, and the first bytes of a file that are requested
SOURCE = "hf://org/Llama"


def sparse_shards(shapes, number):
    """The files of a large repository, whose tensors of bfloat16 are zeros, with their index."""
    total, end, shards = 2 * sum(map(math.prod, shapes.values())), 0, [{} for _ in range(number)]
    for name, shape in shapes.items():
        shards[number * end // total][name] = shape
        end += 2 * math.prod(shape)
    files, weight_map = {}, {}
    for i, tensors in enumerate(shards, 1):
        file, header, end = f"model-{i:05d}-of-{number:05d}.safetensors", {}, 0
        for name, shape in tensors.items():
            begin, end = end, end + 2 * math.prod(shape)
            header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
            weight_map[name] = file
        encoded = json.dumps(header).encode()
        files[file] = Sparse(struct.pack("<Q", len(encoded)) + encoded, 8 + len(encoded) + end)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    return {**files, "model.safetensors.index.json": json.dumps(index).encode()}


def repository(hidden, heads, feed_forward, layers):
    """config.json and the tokenizer's files by name, and the shapes of the tensors."""
    tokenizer = llama3_tokenizer()
    document = tiny_repository.config("LlamaForCausalLM", "llama", tokenizer.size, hidden_size=hidden, num_attention_heads=heads,
                                      num_key_value_heads=heads // 4, intermediate_size=feed_forward, num_hidden_layers=layers)
    files = {name: tiny_repository.file_bytes(content) for name, content in {"config.json": document, **tokenizer.files}.items()}
    return files, tiny_repository.decoder(document, tiny_repository.plain_layer(document))


@functools.cache
def weights():
    """The files and the tensors of a repository of 85 MB: noise without infinities. Queries and keys are permuted in a GGUF."""
    files, shapes = repository(hidden=1024, heads=16, feed_forward=2560, layers=4)
    noise = random.Random(65)
    finite = bytes(byte & 0xBF for byte in range(256))
    tensors = {}
    for name, shape in shapes.items():
        data = bytearray(noise.randbytes(2 * math.prod(shape)))
        data[1::2] = data[1::2].translate(finite)
        tensors[name] = Tensor(name, "bfloat16", shape, bytes(data))
    return files, tensors


class GgufOfHub(HubTestCase):
    def setUp(self):
        super().setUp()
        files, self.tensors = weights()
        total = sum(len(tensor.data) for tensor in self.tensors.values())
        shards, begin = [[] for _ in range(SHARDS)], 0
        for tensor in self.tensors.values():
            shards[SHARDS * begin // total].append(tensor)
            begin += len(tensor.data)
        self.folder = self.path("Llama")
        os.makedirs(self.folder)
        containers.write_safetensors_shards(self.folder, shards, {"format": "pt"})
        for name, content in files.items():
            self.write(f"Llama/{name}", content)
        self.files = {name: self.read("Llama", name) for name in os.listdir(self.folder)}
        self.hub.add("org/Llama", self.files)
        self.stored = sum(len(content) for name, content in self.files.items() if name.endswith(".safetensors"))

    def bytes_of(self, *argv):
        done = subprocess.run([WEIGHTFS, *argv], stdin=subprocess.DEVNULL, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""), argv)
        return done.stdout

    def expected(self, view="model.gguf"):
        """The view of the same repository on the disk."""
        return self.bytes_of("cat", self.folder, f"views/{view}")

    def data_requests(self):
        return [each for each in self.hub.requests("cdn") if each.status in (200, 206)]

    def assert_no_byte_twice(self):
        ends = {}
        for each in sorted(self.data_requests(), key=lambda each: (each.path, each.first)):
            self.assertGreaterEqual(each.first, ends.get(each.path, 0), each)
            ends[each.path] = each.first + each.length

    def assert_whole(self, extra=0):
        """The files were transferred once, with about as many requests as tensors and large parts of them."""
        self.assertLessEqual(self.hub.bytes("cdn"), 1.02 * self.stored)
        self.assertGreaterEqual(self.hub.bytes("cdn"), 0.99 * self.stored)
        self.assert_no_byte_twice()
        self.assertLessEqual(len(self.data_requests()), SHARDS + 2 * len(self.tensors) + extra)

    def assert_part(self, least, most):
        """So many bytes were transferred, beside those of the headers."""
        found = self.hub.bytes("cdn")
        self.assertGreaterEqual(found, least)
        self.assertLessEqual(found, most)
        self.assert_no_byte_twice()

    def clear_cache(self):
        shutil.rmtree(self.cache())

    def mounted(self):
        """The path of the view in a new mount. The count of requests begins anew."""
        view = os.path.join(self.mount(SOURCE), "views", "model.gguf")
        os.stat(view)
        self.hub.forget()
        return view


class Header(GgufOfHub):
    def test_list_of_views_costs_headers_and_small_files(self):
        self.assertIn("model.gguf", run("ls", SOURCE, "views").stdout)
        self.assertLessEqual(self.hub.bytes("cdn"), SHARDS * BLOCK)
        self.assertLessEqual(self.hub.bytes("hub"), 2 * sum(len(content) for name, content in self.files.items()
                                                            if not name.endswith(".safetensors")) + 16 * KIB)

    def test_size_costs_headers_and_small_files(self):
        size = os.stat(os.path.join(self.mount(SOURCE), "views", "model.gguf")).st_size
        self.assertLessEqual(self.hub.bytes("cdn"), SHARDS * BLOCK)
        self.assertEqual(size, len(self.expected()))


class LargeHeader(HubTestCase):
    """A repository of 414 GB in 90 files."""

    def test_header_costs_headers_and_small_files(self):
        small, shapes = repository(hidden=16384, heads=128, feed_forward=53248, layers=63)
        files = {**small, **sparse_shards(shapes, 90)}
        self.hub.add("org/Llama", files)
        view = os.path.join(self.mount(SOURCE), "views", "model.gguf")
        data = sum((4 if len(shape) == 1 else 2) * math.prod(shape) for shape in shapes.values())
        self.assertGreater(data, 400 * 10**9)
        header_size = os.stat(view).st_size - data
        with open(view, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            header = os.pread(file.fileno(), header_size, 0)
        self.assertEqual(struct.unpack("<4sIQ", header[:16]), (b"GGUF", 3, len(shapes)))
        for name in ("token_embd.weight", "blk.0.attn_q.weight", "blk.62.ffn_down.weight", "output.weight"):
            self.assertIn(struct.pack("<Q", len(name)) + name.encode(), header)
        self.assertLessEqual(self.hub.bytes("cdn"), (90 + 1) * BLOCK)  # with the page in which the header ends
        self.assertLessEqual(self.hub.bytes("hub"), 2 * sum(len(content) for content in files.values()
                                                            if isinstance(content, bytes)) + 128 * KIB)


class Parts(GgufOfHub):
    def test_first_megabyte_costs_little_more(self):
        view = self.mounted()
        self.assertEqual(subprocess.run(["head", "-c", "1M", view], capture_output=True).stdout, self.expected()[:MIB])
        self.assert_part(least=512 * KIB, most=10 * MIB)

    def test_tensors_of_a_layer_cost_their_bytes(self):
        whole, view = self.expected(), self.mounted()
        of_layer = {name: tensor for name, tensor in self.tensors.items() if ".layers.2." in name and "norm" not in name}
        self.assertEqual(len(of_layer), 7)
        with open(view, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            for name, tensor in of_layer.items():
                begin = whole.index(tensor.data[:512])  # the first row is not moved
                for at in range(begin, begin + len(tensor.data), 256 * KIB):
                    size = min(256 * KIB, begin + len(tensor.data) - at)
                    self.assertEqual(os.pread(file.fileno(), size, at), whole[at:at + size], name)
        total = sum(len(tensor.data) for tensor in of_layer.values())
        self.assert_part(least=0.99 * total, most=1.02 * total + 2 * BLOCK * len(of_layer))

    def test_page_of_a_permuted_tensor_costs_its_rows(self):
        whole, view = self.expected(), self.mounted()
        begin = whole.index(self.tensors["model.layers.1.self_attn.q_proj.weight"].data[:512])
        with open(view, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            at = begin + 700 * KIB
            self.assertEqual(os.pread(file.fileno(), 4 * KIB, at), whole[at:at + 4 * KIB])
        self.assert_part(least=4 * KIB, most=4 * BLOCK)


class Whole(GgufOfHub):
    def test_cat_of_the_mounted_view(self):
        view = self.mounted()
        self.assertEqual(subprocess.run(["cat", view], capture_output=True).stdout, self.expected())
        self.assert_whole()

    def test_reads_of_4_kib(self):
        view = self.mounted()
        self.assertEqual(subprocess.run(["dd", "bs=4k", f"if={view}"], capture_output=True).stdout, self.expected())
        self.assert_whole()

    def test_commands(self):
        for view, dtype in (("model.gguf", "auto"), ("model.q8_0.gguf", "q8_0")):
            expected, out = self.expected(view), self.path(view)
            for argv in (("cat", SOURCE, f"views/{view}"), ("export", "--to", "gguf", "--dtype", dtype, SOURCE, "-"),
                         ("export", "--to", "gguf", "--dtype", dtype, SOURCE, out)):
                with self.subTest(argv[:-1]):
                    self.hub.forget()
                    found = self.bytes_of(*argv)
                    self.assertTrue((found if argv[-1] != out else self.read(view)) == expected)
                    self.assert_whole()
                self.clear_cache()

    def test_two_readers(self):
        view, expected = self.mounted(), self.expected()
        both = [subprocess.Popen(["cat", view], stdout=subprocess.PIPE) for _ in range(2)]
        found = [None, None]

        def read(i):
            found[i] = both[i].communicate()[0]
        readers = [threading.Thread(target=read, args=(i,)) for i in range(2)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        self.assertEqual([content == expected for content in found], [True, True])
        self.assert_whole(extra=len(self.tensors))

    def test_both_views(self):
        view = self.mounted()
        quantised = os.path.join(os.path.dirname(view), "model.q8_0.gguf")
        for path in (view, quantised):
            self.assertEqual(subprocess.run(["cat", path], capture_output=True).stdout, self.expected(os.path.basename(path)))
        self.assert_whole()

    def test_sixteen_readers_get_right_bytes(self):
        view, expected = self.mounted(), self.expected()
        share = -(-len(expected) // 16)
        wrong = []

        def read(i):
            with open(view, "rb") as file:
                for part in ((i + 5 * round) % 16 for round in range(3)):
                    file.seek(part * share)
                    if file.read(share) != expected[part * share:(part + 1) * share]:
                        wrong.append(part)
        readers = [threading.Thread(target=read, args=(i,)) for i in range(16)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        self.assertEqual(wrong, [])
        self.assertLessEqual(self.hub.bytes("cdn"), 1.02 * self.stored)
        self.assert_no_byte_twice()


class Fetch(GgufOfHub):
    def test_fetch_of_a_view_transfers_its_tensors(self):
        for view in ("model.gguf", "model.q8_0.gguf"):
            with self.subTest(view):
                self.hub.forget()
                self.bytes_of("fetch", SOURCE, f"views/{view}")
                self.assert_whole()
                self.hub.forget()
                self.assertTrue(self.bytes_of("cat", SOURCE, f"views/{view}") == self.expected(view))
                self.assertEqual(self.data_requests(), [])
                self.clear_cache()


class Memory(MountTestCase):
    READERS = 16
    LIMIT = 64 << 20

    def test_readers_of_a_large_repository(self):
        files, shapes = repository(hidden=4096, heads=32, feed_forward=14336, layers=8)
        for name, content in files.items():
            self.write(f"Large/{name}", content)
        header, end = {}, 0
        for name, shape in shapes.items():
            begin, end = end, end + 2 * math.prod(shape)
            header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
        encoded = json.dumps(header).encode()
        path = self.write("Large/model.safetensors", struct.pack("<Q", len(encoded)) + encoded)
        os.truncate(path, os.path.getsize(path) + end)
        point = self.mount(self.path("Large"))
        share = (end >> 20) // self.READERS
        for view in ("model.gguf", "model.q8_0.gguf"):
            readers = [subprocess.Popen(["dd", f"if={point}/views/{view}", "of=/dev/null", "bs=1M", f"skip={i * share}",
                                         f"count={share}"], stderr=subprocess.DEVNULL) for i in range(self.READERS)]
            self.assertEqual([reader.wait() for reader in readers], [0] * self.READERS)
        with open(f"/proc/{self.server(point)}/status") as file:
            peak = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))
        self.assertLess(peak, self.LIMIT)


if __name__ == "__main__":
    unittest.main()
