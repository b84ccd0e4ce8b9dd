"""Attacks on the commands that read all numbers of a model: `stats`, `diff --stat` and `plot`.

Each row has an exit status, one line on standard error for a damaged model, and limits for memory and CPU time.
"""
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
from mounting import WEIGHTFS, Hole, Tensor, TestCase, is_sanitized  # noqa: E402
import limits  # noqa: E402
import pickles  # noqa: E402

MEMORY_MB = 64
MAX_PRINTED = 1 << 20
EMPTY_MB = 20  # of a command for an empty model
# Rendering a million numbers takes longer without optimisation than parsing does.
SLOWDOWN = 3 * limits.DEBUG_SLOWDOWN if limits.is_debug_build(WEIGHTFS) else 1
CPU_S = 20 * SLOWDOWN


def run(*argv, memory_mb=MEMORY_MB):
    """Status, standard output and error of a command within its limits."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([WEIGHTFS, *argv], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S)))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        # Without the text of a hundred thousand tensors: the next process begins with the memory of this one (fork(2)).
        printed, problems = out.read(MAX_PRINTED), err.read()
    assert len(problems.splitlines()) <= (2 if argv[0] in ("diff", "plot") else 1), problems  # of each model; of the file
    if not is_sanitized():
        assert usage.ru_maxrss < memory_mb * 1000, (argv, usage.ru_maxrss)
    return process.returncode, printed, problems


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
            self.assertEqual(status, 1, err)
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

    def limited(self, source, *argv):
        """Runs a command of a source within the budget of its bytes, and returns what `run` does."""
        size = sum(limits.bytes_of(each) for each in source) if isinstance(source, tuple) else limits.bytes_of(source)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = run(*argv, memory_mb=(limits.MEMORY_BASE + limits.MEMORY_PER_BYTE * size) / 1e6 + EMPTY_MB)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if not is_sanitized():
            self.assertLess(used, (limits.CPU_BASE_S + limits.CPU_PER_BYTE_S * size) * SLOWDOWN, argv)
        return result

    def test_100_000_tensors_of_one_element_of_each_width(self):
        count = 100_000
        for dtype, width in (("float64", 8), ("int64", 8), ("uint8", 1), ("float32", 4), ("float16", 2)):
            source = self.model(*(Tensor(f"layers.{i % 700}.w{i}", dtype, (1,), (i * 2654435761 % 2**31).to_bytes(4, "big") * 2)
                                  for i in range(count)) if width == 8 else
                                (Tensor(f"layers.{i % 700}.w{i}", dtype, (1,), (i % 97).to_bytes(width, "little"))
                                 for i in range(count)))
            for options in ((), ("--json",), ("--sample",)):
                status, out, err = self.limited(source, "stats", *options, source)
                self.assertEqual((status, err, len(out)), (0, "", MAX_PRINTED), (dtype, options))
            self.assertEqual(self.limited(source, "plot", source, "--force", "-o", self.path("x.png"))[0], 0)
            os.remove(source)

    def test_100_000_tensors_of_one_block(self):
        count = 100_000
        names = [f"blk.{i % 700}.w{i}".encode() for i in range(count)]
        header = b"GGUF" + struct.pack("<IQQ", 3, count, 0) + b"".join(
            struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, 32, 2, 32 * i) for i, name in enumerate(names))
        with open(self.path("m.gguf"), "wb") as file:
            file.write(header + bytes(-len(header) % 32) + bytes(32 * count))
        for options in ((), ("--json",)):
            status, _, err = self.limited(self.path("m.gguf"), "stats", *options, self.path("m.gguf"))
            self.assertEqual((status, err), (0, ""), options)

    def test_lightgbm_of_1500_trees(self):
        arrays = ("split_feature=0 1", "split_gain=1.5 0.25", "threshold=0.5 1.5", "decision_type=2 2", "left_child=1 -1",
                  "right_child=-2 -3", "leaf_value=1 -2.5 0.125", "leaf_weight=1 2 3", "leaf_count=4 5 6",
                  "internal_value=0 1", "internal_weight=0 9", "internal_count=9 6")
        with open(self.path("m.txt"), "w") as file:
            file.write("tree\nversion=v4\nnum_class=1\n\n")
            for i in range(1500):
                file.write(f"Tree={i}\nnum_leaves=3\nnum_cat=0\n" + "\n".join(arrays) + "\nshrinkage=0.1\n\n\n")
            file.write("end of trees\n\nfeature_importances:\n")
        for options in ((), ("--json",)):
            status, out, err = self.limited(self.path("m.txt"), "stats", *options, self.path("m.txt"))
            self.assertEqual((status, err), (0, ""), options)
            self.assertGreater(out.count("\n"), 1500)

    def test_sorted_figures_of_many_tensors_are_refused(self):
        source = self.model(*(Tensor(f"w{i}", "float32", (1,), bytes(4)) for i in range(200_000)))
        status, out, err = self.limited(source, "stats", "--sort", "max", source)
        self.assertEqual((status, out), (4, ""))
        self.assertIn("without --sort", err)

    def test_many_tensors_take_little_each(self):
        tensors = [Tensor(f"layers.{i % 700}.w{i}", "float32", (1,), bytes(4)) for i in range(20_000)]
        source = self.model(*tensors)
        self.assertEqual(run("stats", source, memory_mb=120)[0], 0)
        self.assertEqual(run("plot", source, "-o", self.path("x.png"), memory_mb=120)[0], 0)


if __name__ == "__main__":
    unittest.main()
