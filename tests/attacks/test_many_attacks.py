"""Every command for models of very many tensors of one element, of a million names and of many trees: within the memory and the
processor time that their bytes allow (semantics 20.3).
"""
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mounting import TestCase  # noqa: E402
import many  # noqa: E402

LISTING = (("info",), ("info", "--json"), ("info", "--json", "--tensors"), ("ls",), ("ls", "-l"), ("ls", "-l", "-R"),
           ("verify",), ("verify", "--safe"), ("fetch",))
NUMBERS = (("stats",), ("stats", "--json"), ("stats", "--sample"), ("stats", "--exact"), ("stats", "--json", "--svd"))
FORMATS = ("safetensors", "gguf", "npz", "tar")
OVER_BUDGET = 4


class Many(TestCase):
    def check(self, sources, *argv, expected=(0,)):
        status, out, err = many.run_limited(sources, *argv)
        self.assertIn(status, expected, (argv, err))
        if status == OVER_BUDGET:
            self.assertEqual(out, "", argv)
            self.assertNotEqual(err, "", argv)

    def check_numbers(self, source, other, expected=(0,)):
        for command in NUMBERS:
            self.check([source], *command, source, expected=expected)
        if not source.endswith(".txt"):  # its tensors have one axis
            self.check([source], "stats", "--per-channel", source, expected=expected)
        self.check([source], "plot", source, "--force", "-o", self.path("x.png"), expected=expected)
        for options in ((), ("--json",), ("--stat",), ("--stat", "--json")):
            self.check([source, other], "diff", *options, source, other, expected=(*expected, 1))

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
        self.check([source], "export", "--skip-unsupported", "--to", "npy", source, self.path("out.d"), expected=expected)
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


if __name__ == "__main__":
    unittest.main()
