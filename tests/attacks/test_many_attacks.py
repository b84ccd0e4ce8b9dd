"""Every command for models of very many tensors of one element, of a million names and of many trees: within the memory and the
processor time that their bytes allow (semantics 20.3).
"""
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mounting import MountTestCase, TestCase, is_sanitized  # noqa: E402
from processes import cpu_s_of, peak_mb_of  # noqa: E402
import limits  # noqa: E402
import many  # noqa: E402

LISTING = (("info",), ("info", "--json"), ("info", "--json", "--tensors"), ("ls",), ("ls", "-l"), ("ls", "-l", "-R"),
           ("verify",), ("verify", "--safe"), ("fetch",))
NUMBERS = (("stats",), ("stats", "--json"), ("stats", "--sample"), ("stats", "--exact"), ("stats", "--json", "--svd"))
FORMATS = ("safetensors", "gguf", "npz", "tar")
OVER_BUDGET, DIFF_OVER_BUDGET = 4, 2  # diff has the statuses of diff(1)


class Many(TestCase):
    def check(self, sources, *argv, expected=(0,), makes_files=False):
        status, out, err = many.run_limited(sources, *argv, makes_files=makes_files)
        self.assertIn(status, expected, (argv, err))
        if status in (OVER_BUDGET, DIFF_OVER_BUDGET):
            self.assertNotEqual(err, "", argv)
            if argv[0] != "ls":  # as ls(1), it prints what can be listed
                self.assertEqual(out, "", argv)

    def check_numbers(self, source, other, expected=(0,)):
        for command in NUMBERS:
            self.check([source], *command, source, expected=expected)
        if not source.endswith(".txt"):  # its tensors have one axis
            self.check([source], "stats", "--per-channel", source, expected=expected)
        self.check([source], "plot", source, "--force", "-o", self.path("x.png"), expected=expected)
        refused = (DIFF_OVER_BUDGET,) if OVER_BUDGET in expected else ()
        for options in ((), ("--json",), ("--stat",), ("--stat", "--json")):
            self.check([source, other], "diff", *options, source, other, expected=(*expected, 1, *refused))

    def check_listing(self, source, expected=(0,)):
        for command in LISTING:
            self.check([source], *command, source, expected=expected)
        for file in ("metadata.json", "tensors.json"):
            self.check([source], "cat", source, file, expected=expected)
        self.check([source], "info", "--duplicates", source, expected=expected)

    def check_export(self, source, expected=(0,)):
        for form in FORMATS:
            self.check([source], "export", "--skip-unsupported", "--to", form, source, self.path("out"), expected=expected)
            if os.path.exists(self.path("out")):
                os.remove(self.path("out"))
        self.check([source], "export", "--skip-unsupported", "--to", "npy", source, self.path("out.d"), expected=expected,
                   makes_files=True)
        shutil.rmtree(self.path("out.d"), ignore_errors=True)

    def test_numbers_of_100_000_tensors_of_each_width(self):
        for dtype in many.WIDTHS:
            with self.subTest(dtype):
                a = many.safetensors(self.path("a.safetensors"), many.TENSORS, dtype)
                b = many.safetensors(self.path("b.safetensors"), many.TENSORS, dtype, seed=7)
                self.check_numbers(a, b)

    def test_numbers_of_100_000_tensors_of_one_block(self):
        for name in many.BLOCKS:
            with self.subTest(name):
                a = many.gguf(self.path("a.gguf"), many.TENSORS, name)
                self.check_numbers(a, a)

    def test_figures_take_less_than_64_mb(self):
        """docs/numbers.md, Limits."""
        for dtype in ("F64", "F16"):
            source = many.safetensors(self.path("m.safetensors"), many.TENSORS, dtype)
            for options in ((), ("--json",), ("--exact",), ("--json", "--per-channel", "--svd")):
                self.assertEqual(many.run("stats", *options, source, memory_mb=64)[0], 0)

    def test_listing_and_exporting_100_000_tensors(self):
        a = many.safetensors(self.path("a.safetensors"), many.TENSORS, "F32")
        self.check_listing(a)
        self.check_export(a)

    def test_every_command_of_a_million_names(self):
        a = many.safetensors(self.path("a.safetensors"), many.NAMES, "F16")
        b = many.safetensors(self.path("b.safetensors"), many.NAMES, "F16", seed=7)
        self.check_listing(a, expected=(0, OVER_BUDGET))
        self.check_numbers(a, b, expected=(0, OVER_BUDGET))

    def test_every_command_of_1500_trees(self):
        a = many.lightgbm(self.path("a.txt"))
        self.check_listing(a)
        self.check_numbers(a, a)
        self.check_export(a)


class ManyMounted(MountTestCase):
    def check_find(self, source, least):
        process, point = self.foreground(source)
        found = subprocess.run(["find", point], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout.count(b"\n")
        self.assertGreater(found, least)
        if not is_sanitized():
            size = limits.bytes_of(source)
            self.assertLess(peak_mb_of(process.pid), many.memory_mb(size))
            self.assertLess(cpu_s_of(process.pid), many.cpu_s(size) + found * limits.CPU_PER_REQUEST_S * many.SLOWDOWN)
        self.unmount(point)
        self.assertEqual(process.wait(), 0)

    def test_find_in_100_000_tensors_of_each_width(self):
        for dtype in many.WIDTHS:
            with self.subTest(dtype):
                self.check_find(many.safetensors(self.path("m.safetensors"), many.TENSORS, dtype), 3 * many.TENSORS)

    def test_find_in_a_million_names(self):
        self.check_find(many.safetensors(self.path("m.safetensors"), many.NAMES, "F16"), 3 * many.NAMES)

    def test_find_in_1500_trees(self):
        self.check_find(many.lightgbm(self.path("m.txt")), 10 * many.TREES)


if __name__ == "__main__":
    unittest.main()
