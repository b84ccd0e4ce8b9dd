"""Attacks on the commands that read all numbers of a model: `stats`, `diff --stat` and `plot`.

Each row has an exit status, one line on standard error for a damaged model, and limits for memory and CPU time.
"""
import json
import os
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
from mounting import Hole, Tensor, TestCase  # noqa: E402
import many  # noqa: E402
import pickles  # noqa: E402

MEMORY_MB = 64


def run(*argv, memory_mb=MEMORY_MB):
    return many.run(*argv, memory_mb=memory_mb)


class Numbers(TestCase):
    def model(self, *tensors):
        return self.sample("m.safetensors", list(tensors))

    def test_shapes_with_zeros_have_no_numbers(self):
        source = self.model(Tensor("a", "float32", (0, 1 << 40), b""), Tensor("b", "float16", (1 << 30, 0, 3), b""))
        for options in ((), ("--per-channel",), ("--sample",), ("--exact", "--svd")):
            status, out, err = run("stats", "--json", *options, source)
            self.assertEqual((status, err), (0, ""))
            self.assertEqual([entry["count"] for entry in json.loads(out)["tensors"]], [0, 0])

    def test_shape_of_two_to_the_60_is_refused(self):
        header = json.dumps({"w": {"dtype": "F16", "shape": [1 << 30, 1 << 30], "data_offsets": [0, 1 << 61]}}).encode()
        with open(self.path("m.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + bytes(64))
        for command in (("stats",), ("plot", "-o", self.path("x.png"))):
            status, _, err = run(command[0], self.path("m.safetensors"), *command[1:])
            self.assertEqual((status, err != ""), (5, True))

    def test_views_that_repeat_an_element_are_refused_or_bounded(self):
        stored = pickles.storage("Float", "0", 16)
        for shape in ((1 << 30,), (1 << 20, 1 << 20), (1 << 31, 1 << 29)):
            tensor = pickles.tensor(stored, shape, steps=(0,) * len(shape))
            pickles.write_checkpoint(self.path("m.pt"), pickles.dictionary([("w", tensor)]), [bytes(64)])
            status, _, err = run("stats", self.path("m.pt"))
            self.assertNotEqual((status, err), (0, ""), shape)

    def test_tensors_that_share_their_bytes_are_not_read_without_end(self):
        count = 8 << 20
        stored = pickles.storage("Half", "0", count)
        shared = [(f"t{i}", pickles.tensor(stored, (count,))) for i in range(5000)]
        pickles.write_checkpoint(self.path("m.pt"), pickles.dictionary(shared), [bytes(2 * count)])
        for command in (("stats",), ("plot", "-o", self.path("x.png"))):
            status, _, err = run(command[0], self.path("m.pt"), *command[1:])
            self.assertEqual(status, 4, err)
            self.assertIn("use --sample, or fewer tensors", err)

    def test_refused_tensor_is_one_line(self):
        source = self.model(Tensor("w", "float32", (4, 4), bytes(64)), Tensor("x", "float32", (4, 4), bytes(64)))
        os.truncate(source, os.path.getsize(source) - 4)
        for command in (("stats", source), ("diff", "--stat", source, source), ("plot", source, "-o", self.path("x.png"))):
            status, _, err = run(*command)
            lines = 2 if command[0] in ("diff", "plot") else 1
            self.assertEqual((status, len(err.splitlines())), (2 if command[0] == "diff" else 5, lines))
        self.assertFalse(os.path.exists(self.path("x.png")))

    def test_extreme_numbers_are_valid_json(self):
        most = struct.unpack("<d", b"\xff" * 6 + b"\xef\x7f")[0]
        source = self.model(Tensor("d", "float64", (4,), struct.pack("<4d", most, -most, most, 5e-324)),
                            Tensor("n", "float32", (2, 2), struct.pack("<4f", *[float("nan")] * 4)))
        status, out, _ = run("stats", "--json", "--per-channel", "--svd", source)
        self.assertEqual(status, 0)
        found = json.loads(out, parse_constant=lambda name: self.fail(name))["tensors"]
        self.assertEqual((found[0]["max"], found[1]["nan"]), (most, 4))

    def test_too_many_channels_have_a_reason(self):
        source = self.model(Tensor("w", "float16", (1 << 20, 2), Hole(4 << 20)))
        status, out, err = run("stats", "--json", "--per-channel", source)
        self.assertEqual((status, "1048576 channels" in err), (4, True))
        self.assertIn("at most 262144", json.loads(out)["tensors"][0]["no_channels"])

    def test_memory_does_not_depend_on_the_tensor(self):
        for shape in ((1 << 15, 1 << 15), (1, 1 << 30), (1 << 30, 1)):
            source = self.model(Tensor("w", "float16", shape, Hole(2 << 30)))
            self.assertEqual(run("stats", source)[0], 0)
            self.assertEqual(run("plot", source, "w", "--force", "-o", self.path("x.png"))[0], 0)
            self.assertEqual(run("plot", source, "w", "--sample", "--force", "-o", self.path("x.png"))[0], 0)

    def test_sorted_figures_of_many_tensors_are_refused(self):
        source = self.model(*(Tensor(f"w{i}", "float32", (1,), bytes(4)) for i in range(110_000)))
        status, out, err = many.run_limited([source], "stats", "--sort", "max", source)
        self.assertEqual((status, out), (4, ""))
        self.assertIn("without --sort", err)

    def test_many_tensors_take_little_each(self):
        tensors = [Tensor(f"layers.{i % 700}.w{i}", "float32", (1,), bytes(4)) for i in range(20_000)]
        source = self.model(*tensors)
        self.assertEqual(run("stats", source, memory_mb=120)[0], 0)
        self.assertEqual(run("plot", source, "-o", self.path("x.png"), memory_mb=120)[0], 0)


if __name__ == "__main__":
    unittest.main()
