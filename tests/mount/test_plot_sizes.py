"""Pictures of 1 to 100 tensors, and of odd ones: everything is there, the right way up, and no text is on another."""
import base64
import os
import re
import struct
import unittest

from mounting import Hole, Tensor, TestCase, on_terminal, run
from pictures import pixels_of
from test_plot import BOTTOM, LEFT, RIGHT, TOP

COUNTS = (1, 8, 9, 10, 11, 16, 17, 100)
ROWS = 8
WHITE = (255, 255, 255)
WARMTHS = [-114, -128, -91, -32, 53, 143, 188, 140]  # of the colours of `steps()`
LINES = {"RMS": (0, 114, 178), "largest": (213, 94, 0)}


def floats(name, shape, *values):
    return Tensor(name, "float32", shape, struct.pack(f"<{len(values)}f", *values))


def steps(number, first=0.5 - ROWS / 2):
    """A column of numbers, by default from below to above 0, in the other direction in every second tensor."""
    values = [first + row for row in range(ROWS)]
    return floats(f"t{number:03}", (ROWS, 1), *(values if number % 2 == 0 else values[::-1]))


def warmth(pixel):
    """Below 0 for blue, 0 for white, above 0 for orange."""
    return pixel[0] - pixel[2]


def dark_rows(rows, left, right):
    """The rows that have a dark pixel between these columns."""
    return [y for y, row in enumerate(rows) if any(max(pixel) < 120 for pixel in row[left:right])]


class Sizes(TestCase):
    def plot(self, source, *options, status=0):
        done = run("plot", source, *options, "-o", "-", text=False)
        self.assertEqual((done.returncode, done.stderr), (status, b""))
        return pixels_of(done.stdout)

    def refused(self, source, *options):
        """The sentence of a picture that is not drawn; no file is left."""
        out = self.path("refused.png")
        done = run("plot", source, *options, "-o", out)
        self.assertEqual((done.returncode, os.path.exists(out)), (2, False), done.stderr)
        return done.stderr

    def check_panel(self, rows, number):
        """A heat map of `steps()`, whose rows are all there in their order, with the scale and texts beside it."""
        width, area = len(rows[0]), rows[TOP:len(rows) - BOTTOM]
        middle = (LEFT + width - RIGHT) // 2
        found = [warmth(area[len(area) * (2 * row + 1) // (2 * ROWS)][middle]) for row in range(ROWS)]
        self.assertEqual(found, WARMTHS if number % 2 == 0 else WARMTHS[::-1])
        scale = [warmth(row[width - RIGHT + 20]) for row in (area[1], area[len(area) // 2], area[-2])]
        self.assertTrue(scale[0] > 60 and abs(scale[1]) < 20 and scale[2] < -60, scale)
        # Texts: the title above the area, the label below it, the words of the scale beside it; none at the edges.
        self.assertTrue(set(dark_rows(rows, LEFT, middle)) & set(range(6, TOP - 4)))
        self.assertTrue(set(dark_rows(rows, middle - 30, middle + 30)) & set(range(len(rows) - 20, len(rows) - 5)))
        words = dark_rows(rows, width - 20, width)
        self.assertGreater(words[-1] - words[0], 90)
        self.assertEqual([dark_rows(rows[:6], 0, width), dark_rows(rows[-5:], 0, width)], [[], []])

    def test_height_grows_with_the_tensors(self):
        source = self.sample("m.safetensors", [steps(number) for number in range(max(COUNTS))])
        for count in COUNTS:
            with self.subTest(count):
                rows = self.plot(source, *(f"t{number:03}" for number in range(count)))
                self.assertEqual((len(rows[0]), len(rows)), (1200, max(800, 200 * count)))
                height = len(rows) // count
                for number in range(count):
                    self.check_panel(rows[number * height:(number + 1) * height], number)

    def test_size_that_was_asked_for_is_kept_or_refused(self):
        source = self.sample("m.safetensors", [steps(number) for number in range(100)])
        rows = self.plot(source, "t00*", "--size", "300x1500")
        self.assertEqual((len(rows[0]), len(rows)), (300, 1500))
        for number in range(10):
            self.check_panel(rows[150 * number:150 * (number + 1)], number)
        said = "which needs 300x1500; use a larger size, or leave it out"
        for size in ("300x1499", "1200x800", "800x600"):
            self.assertIn(said, self.refused(source, "t00*", "--size", size))
        self.assertIn("leave it out, or name fewer tensors", self.refused(source, "t*", "--size", "1200x8192"))

    def test_channels_are_panels_too(self):
        source = self.sample("m.safetensors", [floats(f"t{number:02}", (1, 6), 1, 1, 1, 4, 4, 4) for number in range(12)])
        rows = self.plot(source, "*", "--kind", "channels")
        self.assertEqual(len(rows), 2400)
        for number in range(12):
            panel = rows[200 * number:200 * (number + 1)]
            left, right = (max((warmth(row[x]), y) for y, row in enumerate(panel)) for x in (LEFT + 50, 1200 - RIGHT - 50))
            self.assertGreater(min(left[0], right[0]), 60)  # orange
            self.assertGreater(left[1], right[1] + 60)  # it rises to the right

    def test_histogram_lines_differ_by_colour_or_dashes(self):
        source = self.sample("m.safetensors", [floats(f"t{number:02}", (2,), 0, number + 1) for number in range(17)])
        self.assertIn("17 tensors match; a histogram shows at most 16: name fewer",
                      self.refused(source, "*", "--kind", "histogram"))
        names = [f"t{number:02}" for number in range(16)]
        self.assertIn("which needs 300x336", self.refused(source, *names, "--kind", "histogram", "--size", "300x335"))
        rows = self.plot(source, *names, "--kind", "histogram", "--size", "300x336")
        bars = [rows[TOP + 12 + 16 * line - 4][300 - RIGHT + 8:300 - RIGHT + 20] for line in range(16)]
        self.assertEqual(len({tuple(bar) for bar in bars}), 16)  # of the same colour, one has gaps
        self.assertEqual([len(set(bar) - {WHITE}) > 0 for bar in bars], [True] * 16)

    def test_overview_has_a_line_for_each_row(self):
        for count in (2, 40, 100):
            layers = [floats(f"h.{layer}.w", (1,), 1.1 ** layer) for layer in range(count)]
            rows = self.plot(self.sample("m.safetensors", layers), "--kind", "overview")
            self.assertEqual(len(rows), max(800, TOP + BOTTOM + 13 * count))
            area = rows[TOP:len(rows) - BOTTOM]
            bright = [sum(area[len(area) * (2 * layer + 1) // (2 * count)][600]) for layer in range(count)]
            self.assertEqual(bright, sorted(bright))
            names = dark_rows(area, 40, LEFT - 8)  # each name has its own lines of pixels
            self.assertEqual(sum(1 for y in names if y - 1 not in names), count)
        self.assertIn("which needs 300x580; use a larger size, or leave it out", self.refused(
            self.sample("m.safetensors", [floats(f"h.{layer}.w", (1,), layer) for layer in range(500)]), "--size", "300x500"))

    def test_terminal_that_draws_gets_an_image_for_each_tensor(self):
        source = self.sample("m.safetensors", [steps(number) for number in range(11)])
        shown = on_terminal("plot", source, "t*", TERM="xterm-kitty", columns=80)
        images = re.findall(r"\033_Ga=T(.*?m=0;.*?)\033\\", shown, flags=re.DOTALL)
        self.assertEqual(len(images), 11)
        for number, image in enumerate(images):
            rows = pixels_of(base64.b64decode("".join(re.findall(r"m=\d;([^\033]*)", image))))
            self.check_panel(rows, number)


class Odd(TestCase):
    """Tensors without elements, with one, and without numbers."""
    SIZE = (400, 300)

    def area(self, *options):
        done = run("plot", self.source(), *options, "--size", "400x300", "-o", "-", text=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        rows = pixels_of(done.stdout)
        return [row[LEFT:400 - RIGHT] for row in rows[TOP:300 - BOTTOM]], [row[400 - RIGHT:] for row in rows[TOP:300 - BOTTOM]]

    def source(self):
        nan, inf = float("nan"), float("inf")
        return self.sample("m.safetensors", [
            floats("nan", (2, 2), *[nan] * 4), floats("inf", (2, 2), inf, -inf, nan, inf), floats("empty", (0, 5)),
            floats("one", (1,), 3.5), floats("scalar", (), -2), floats("equal", (2, 2), *[0.25] * 4),
            floats("zeros", (4,), *[0] * 4), floats("some", (1, 4), 1, nan, 1, nan)])

    def test_scale_without_numbers_is_not_invented(self):
        for name in ("nan", "inf", "empty"):
            area, beside = self.area(name)
            self.assertEqual({abs(warmth(pixel)) > 60 for row in beside for pixel in row}, {False}, name)
            self.assertEqual({pixel for row in area[5:-5] for pixel in row[5:-5]}, {WHITE if name == "empty" else (214, 0, 147)})
            words = "no elements" if name == "empty" else "no finite numbers"
            for kind in ("heatmap", "channels"):
                done = run("plot", self.source(), name, "--kind", kind, "--graphics", "text")
                self.assertEqual((done.returncode, words in done.stdout), (0, True), done.stdout)
        for name in ("one", "scalar", "equal", "zeros"):
            _, beside = self.area(name)
            self.assertEqual({abs(warmth(pixel)) > 60 for row in beside for pixel in row}, {True, False}, name)

    def test_channel_without_numbers_is_a_gap_and_a_single_one_a_line(self):
        area, _ = self.area("one", "--kind", "channels")
        row, = {y for y, row in enumerate(area) if row.count(LINES["largest"]) > 100}
        self.assertLess(row, 12)
        for name in ("nan", "empty"):
            area, _ = self.area(name, "--kind", "channels")
            self.assertFalse(set(LINES.values()) & {pixel for row in area for pixel in row}, name)
        area, _ = self.area("some", "--kind", "channels")
        row, = [row for row in area if LINES["largest"] in row]
        drawn = [pixel == LINES["largest"] for pixel in row]
        width = len(row)
        self.assertEqual([drawn[width * place // 12] for place in (1, 4, 8, 11)], [True, False, True, False])

    def test_number_of_a_constant_tensor_is_in_the_middle(self):
        for name in ("one", "scalar", "equal", "zeros"):
            area, _ = self.area(name, "--kind", "histogram")
            bar = [x for x, pixel in enumerate(area[len(area) // 2]) if pixel == LINES["RMS"]]
            self.assertTrue(bar and all(abs(x - len(area[0]) / 2) < 4 for x in bar), (name, bar))

    def test_histogram_without_numbers_is_refused(self):
        for name in ("nan", "inf", "empty"):
            out = self.path("x.png")
            done = run("plot", self.source(), name, "--kind", "histogram", "-o", out)
            self.assertEqual((done.returncode, done.stderr), (4, "weightfs: there is no finite number\n"))
            self.assertFalse(os.path.exists(out))


class Texts(TestCase):
    def test_text_has_all_tensors_and_their_rows(self):
        source = self.sample("m.safetensors", [steps(number, 0) for number in range(max(COUNTS))])
        for count in COUNTS:
            done = run("plot", source, *(f"t{number:03}" for number in range(count)), "--graphics", "text")
            panels = done.stdout.strip("\n").split("\n\n")
            self.assertEqual((done.returncode, len(panels)), (0, count))
            for number, panel in enumerate(panels):
                title, *rows = panel.split("\n")
                self.assertTrue(title.startswith(f"t{number:03}"), title)
                shades = [" .:-=+*%#".index(row[1]) for row in rows[:-3]]
                self.assertGreaterEqual(len(shades), 6 if count > 4 else ROWS)
                self.assertEqual(shades, sorted(set(shades), reverse=number % 2 == 1))

    def test_sample_is_marked_where_the_title_is_cut_and_only_if_it_is_one(self):
        name = "a" * 100
        large = self.sample("large.safetensors", [Tensor(name, "float32", (4096, 4096), Hole(1 << 26))])
        small = self.sample("small.safetensors", [steps(0), steps(1)])
        for options in ((name,), (name, "--kind", "histogram"), ("--kind", "overview")):
            for columns in (40, 80):
                shown = on_terminal("plot", large, *options, "--sample", columns=columns, LC_ALL="C.UTF-8")
                self.assertRegex(shown.splitlines()[0], r"  \(sampled\)$")
                self.assertLessEqual(len(shown.splitlines()[0]), columns)
        for options in (("t000",), ("t*", "--kind", "histogram"), ("--kind", "overview")):
            self.assertNotIn("sampled", run("plot", small, *options, "--sample", "--graphics", "text").stdout)


if __name__ == "__main__":
    unittest.main()
