"""diff and info --duplicates on a terminal. tests/cli has the rest."""
import struct
import unittest

from mounting import Hole, Interactive, Tensor, TestCase, on_terminal, run, signal
import archives


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def float32(name, *values):
    return Tensor(name, "float32", (len(values),), floats(*values))


class Comparison(TestCase):
    def model(self, name, *tensors, metadata=None, format="safetensors"):
        return self.sample(name, list(tensors), format, metadata)


class Differences(Comparison):
    def test_hostile_names_are_escaped(self):
        a = self.model("a.safetensors", float32("evil\x1b[31m\n", 1), metadata={"k\x07": "\x1b]0;title\x07"})
        b = self.model("b.safetensors", float32("w", 1, 2))
        for line in run("diff", a, b).stdout.splitlines():
            self.assertTrue(line.replace("\t", "").isprintable(), repr(line))
        shown = on_terminal("diff", a, b, status=1)
        self.assertTrue(shown.replace("\n", "").isprintable(), repr(shown))

    def test_terminal_has_a_table_and_a_summary(self):
        a = self.model("a.safetensors", *(float32(f"layers.{i}.weight", i, 1) for i in range(30)))
        b = self.model("b.safetensors", *(float32(f"layers.{i}.weight", i, 1 + i % 3) for i in range(30)))
        shown = on_terminal("diff", "--stat", a, b, status=1, columns=140)
        self.assertRegex(shown, r"tensor +types +SNR +rel. error +cosine +max +at +mean +differing\n")
        self.assertRegex(shown, r"layers.28.weight +float32 +28.949 dB +0.035692 +0.99937 +1 +\[1\] +0.5 +1\n")
        self.assertIn("30 and 30 tensors: 10 equal, 0 of another type, 20 with other bytes, 0 renamed, 0 missing, 0 added\n", shown)
        self.assertTrue(all(len(line) <= 140 for line in shown.splitlines()), shown)

    def test_terminal_folds_many_metadata(self):
        a = self.model("a.safetensors", float32("w", 1), metadata={f"key{i}": "a" for i in range(9)})
        b = self.model("b.safetensors", float32("w", 2), metadata={f"key{i}": "b" for i in range(9)})
        folded, whole = (on_terminal("diff", *options, a, b, status=1, columns=80) for options in ((), ("--metadata",)))
        self.assertEqual(folded.splitlines()[0].split(), ["change", "name", "A", "B"])
        self.assertEqual(folded.splitlines()[1].split(), ["bytes", "w", "float32", "[1]", "float32", "[1]"])
        self.assertIn("\nmetadata: 9 differ; --metadata lists them\n", folded)
        self.assertNotIn("key0", folded)
        self.assertRegex(whole, r"\nbytes +w .*\nmetadata +metadata.key0 +a +b\n")
        self.assertNotIn("lists them", whole)
        piped = run("diff", a, b).stdout.splitlines()
        self.assertEqual(piped[:2], ["change\tname\tA\tB", "bytes\tw\tfloat32 [1]\tfloat32 [1]"])
        self.assertEqual(piped[2:], [f"metadata\tmetadata.key{i}\ta\tb" for i in range(9)])
        few = self.model("few.safetensors", float32("w", 1), metadata={f"key{i}": "ab"[i == 8] for i in range(9)})
        self.assertIn("metadata.key8", on_terminal("diff", a, few, status=1))

    def test_summary_fits_the_terminal(self):
        a = self.model("a.safetensors", *(float32(f"layers.{i}.weight", i, 1) for i in range(3)))
        for columns in (40, 80):
            shown = on_terminal("diff", a, a, columns=columns)
            self.assertTrue(all(len(line) <= columns for line in shown.splitlines()), shown)
            self.assertEqual(" ".join(shown.split()), "3 and 3 tensors: 3 equal, 0 of another type, 0 with other bytes, "
                             "0 renamed, 0 missing, 0 added")

    # The shell writes its prompt where the line was.
    def test_progress_is_shown_until_it_is_interrupted_and_erased_then(self):
        sources = [self.model(name, Tensor("w", "uint8", (1 << 40,), Hole(1 << 40))) for name in ("a.safetensors", "b.safetensors")]
        command = Interactive("diff", *sources)
        self.addCleanup(command.close)
        shown = command.wait_for("comparing")
        self.assertIn(" of 1.0 TiB", shown)
        command.process.send_signal(signal.SIGINT)
        shown += command.rest()
        self.assertEqual(command.process.returncode, -signal.SIGINT)
        self.assertTrue(shown.endswith("\r\x1b[K"), repr(shown))
        self.assertNotIn(" 0 B/s", shown)


class Contents(Comparison):
    # semantics 26.10
    def test_terminal_counts_files(self):
        for name in "ab":
            with archives.Zip(self.path(name + ".zip")) as file:
                file.write("same.json", b"{}")
                file.write("config.json", name.encode())
        shown = on_terminal("diff", self.path("a.zip"), self.path("b.zip"), status=1)
        self.assertIn("files: 1 equal, 1 different\n", shown)


class DuplicateTensors(Comparison):
    def test_terminal_shows_the_total(self):
        a = self.model("a.safetensors", *(float32(name, 1, 2) for name in "xyz"))
        self.assertIn("1 groups of duplicate tensors waste 16 B\n", on_terminal("info", "--duplicates", a))


if __name__ == "__main__":
    unittest.main()
