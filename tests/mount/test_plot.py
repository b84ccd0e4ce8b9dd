"""Pictures: the pixels of PNGs, and what a terminal gets."""
import base64
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import unittest
import zlib
from xml.etree import ElementTree

from mounting import WEIGHTFS, Hole, Tensor, TestCase, on_terminal, run
from pictures import pixels_of

LEFT, RIGHT, TOP, BOTTOM = 96, 116, 34, 46  # around the plot area (report/plot/draw.cc)


SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"


def objects_of(pdf):
    """The dictionary and the inflated stream of each object of a PDF, by its number, found by the table at the end."""
    table = int(re.search(rb"startxref\n(\d+)\n%%EOF\n$", pdf)[1])
    head, _, entries = pdf[table:].split(b"\n", 2)
    assert head == b"xref", head
    found = {}
    for number, offset in enumerate(re.findall(rb"(\d{10}) 00000 n \n", entries), 1):
        text = pdf[int(offset):]
        assert text.startswith(b"%d 0 obj\n" % number), text[:20]
        dictionary = text.split(b"\n", 2)[1]
        length = re.search(rb"/Length (\d+)", dictionary)
        begin = text.find(b"stream\n") + 7
        found[number] = (dictionary.decode(), zlib.decompress(text[begin:begin + int(length[1])]) if length else b"")
    return found


class Pictures(TestCase):
    def written(self, name, *arguments):
        path = self.path(name)
        done = run("plot", *arguments, "--force", "-o", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(path, "rb") as file:
            return file.read()

    def plot(self, source, *options, size=(400, 300)):
        done = run("plot", source, *options, "--size", f"{size[0]}x{size[1]}", "-o", "-", text=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        rows = pixels_of(done.stdout)
        self.assertEqual((len(rows[0]), len(rows)), size)
        return rows

    def area(self, rows):
        """The plot area of a single panel."""
        return [row[LEFT:len(row) - RIGHT] for row in rows[TOP:len(rows) - BOTTOM]]

    def matrix(self, rows, columns, values):
        data = bytearray(struct.pack("<f", 0.01) * (rows * columns))
        for (row, column), value in values.items():
            struct.pack_into("<f", data, 4 * (row * columns + column), value)
        return self.sample("m.safetensors", [Tensor("w", "float32", (rows, columns), bytes(data))])

    def test_outlier_is_in_its_place_at_every_zoom(self):
        for rows, columns in ((10, 10), (500, 30), (40, 3000), (700, 900)):
            row, column = rows * 3 // 5, columns * 2 // 7
            source = self.matrix(rows, columns, {(row, column): -9})
            for size in ((300, 300), (500, 400), (1300, 1000)):
                area = self.area(self.plot(source, "w", size=size))
                height, width = len(area), len(area[0])
                blue = [(y, x) for y in range(height) for x in range(width)
                        if area[y][x][2] > area[y][x][0] + 60]  # blue is below 0
                self.assertTrue(blue, (rows, columns, size))
                for y, x in blue:
                    self.assertLessEqual(abs((y + 0.5) / height - (row + 0.5) / rows), 1 / rows + 2 / height)
                    self.assertLessEqual(abs((x + 0.5) / width - (column + 0.5) / columns), 1 / columns + 2 / width)

    def test_cells_have_the_colours_of_their_signs(self):
        source = self.matrix(2, 2, {(0, 0): -1, (0, 1): 1, (1, 0): 0, (1, 1): float("nan")})
        area = self.area(self.plot(source, "w"))
        quarter = lambda y, x: area[len(area) * (1 + 2 * y) // 4][len(area[0]) * (1 + 2 * x) // 4]
        self.assertEqual([quarter(0, 0), quarter(0, 1), quarter(1, 0), quarter(1, 1)],
                         [(16, 60, 130), (140, 62, 0), (247, 247, 247), (214, 0, 147)])

    def test_models_in_an_archive_are_drawn_like_others(self):
        source = self.matrix(8, 8, {(4, 2): -5})
        of_source = self.area(self.plot(source, "w"))
        for kind in ("zip", "tar", "gztar"):
            with self.subTest(kind):
                archive = shutil.make_archive(self.path("m"), kind, os.path.dirname(source), os.path.basename(source))
                self.plot(archive)
                self.assertTrue(self.area(self.plot(archive, "--kind", "heatmap")) == of_source)

    def test_window_is_a_part(self):
        source = self.matrix(20, 20, {(10, 10): -5})
        area = self.area(self.plot(source, "w", "--window", "10:11,10:12"))
        self.assertGreater(area[5][5][2], area[5][5][0])
        self.assertEqual(area[5][-5], area[-5][-5])
        for window, words in (("0:21,0:1", "20 rows and 20 columns"), ("3:3,0:1", "not inside"), ("all", "is not a window")):
            self.assertIn(words, run("plot", source, "w", "--window", window, "-o", "-").stderr)

    def test_axes_are_chosen(self):
        data = struct.pack("<24f", *(1.0 if i == 23 else -1.0 for i in range(24)))
        source = self.sample("m.safetensors", [Tensor("w", "float32", (2, 3, 4), data)])
        area = self.area(self.plot(source, "w", "--axes", "1,0", "--index", "0,0,3"))
        self.assertGreater(area[-5][-5][0], area[-5][-5][2])  # orange
        self.assertLess(area[5][-5][0], area[5][-5][2])
        self.assertIn("only 3 axes", run("plot", source, "w", "--axes", "0,3", "-o", "-").stderr)

    def test_overview_has_a_cell_for_each_tensor(self):
        tensors = [Tensor(f"h.{layer}.{name}", "float32", (4,), struct.pack("<4f", *[1 + layer * 3.0 + i] * 4))
                   for layer in range(3) for i, name in enumerate(("a", "b"))]
        source = self.sample("m.safetensors", tensors)
        area = self.area(self.plot(source))
        brightness = [sum(area[len(area) * (2 * layer + 1) // 6][len(area[0]) * (2 * i + 1) // 4])
                      for layer in range(3) for i in range(2)]
        self.assertEqual(sorted(brightness), brightness)
        self.assertEqual(len(set(brightness)), 6)

    def test_other_kinds_are_drawn(self):
        source = self.matrix(64, 64, {(3, 3): 2})
        for kind in ("histogram", "channels"):
            colours = {pixel for row in self.area(self.plot(source, "w", "--kind", kind)) for pixel in row}
            self.assertIn((0, 114, 178), {tuple(c) for c in colours}, kind)
        self.assertIn("no tensors of experts", run("plot", source, "--kind", "experts", "-o", "-").stderr)

    def test_experts_are_columns(self):
        stacked = Tensor("blk.0.ffn_up_exps.weight", "float32", (2, 3, 4), struct.pack("<24f", *[1] * 12, *[5] * 12))
        area = self.area(self.plot(self.sample("m.safetensors", [stacked]), "--kind", "experts"))
        self.assertLess(sum(area[50][10]), sum(area[50][-10]))

    def test_error_against_another_model(self):
        a = self.sample("a.safetensors", [Tensor(f"h.{i}.w", "float32", (2,), struct.pack("<2f", 1, 2)) for i in range(2)])
        b = self.sample("b.safetensors", [Tensor(f"h.{i}.w", "float32", (2,), struct.pack("<2f", 1, 2 + i)) for i in range(2)])
        area = self.area(self.plot(a, "--against", b))
        self.assertGreater(sum(area[5][50]), sum(area[-5][50]), "equal tensors are bright, others dark")

    def test_channels_show_the_difference_from_another_model(self):
        a = self.sample("a.safetensors", [Tensor("w", "float32", (2, 50), struct.pack("<100f", *[1] * 100))])
        b = self.sample("b.safetensors", [Tensor("w", "float32", (2, 50), struct.pack("<100f", *[1] * 75, *[3] * 25))])
        rows = self.plot(a, "w", "--against", b, "--kind", "channels")
        green = [x for row in self.area(rows) for x, pixel in enumerate(row) if pixel == (0, 158, 115)]
        self.assertTrue(green)

    def test_file_is_written_whole_or_not(self):
        source = self.matrix(4, 4, {})
        out = self.path("w.png")
        self.assertEqual(run("plot", source, "w", "-o", out).returncode, 0)
        with open(out, "rb") as file:
            first = file.read()
        self.assertEqual(len(pixels_of(first)), 800)
        again = run("plot", source, "w", "-o", out)
        self.assertEqual((again.returncode, "exists" in again.stderr), (1, True), again.stderr)
        self.assertEqual(run("plot", source, "--force", "w", "--kind", "histogram", "-o", out).returncode, 0)
        with open(out, "rb") as file:
            self.assertNotEqual(file.read(), first)
        self.assertEqual(run("plot", source, "absent", "-o", self.path("x.png")).returncode, 3)
        self.assertEqual(set(os.listdir(os.path.dirname(out))) - {"cache"}, {"m.safetensors", "w.png"})

    def test_other_kinds_of_files_are_refused(self):
        done = run("plot", self.sample("m.safetensors"), "bias", "-o", self.path("x.gif"))
        self.assertEqual((done.returncode, os.path.exists(self.path("x.gif"))), (2, False), done.stderr)
        self.assertIn("x.gif: pictures are written as .png, .svg and .pdf", done.stderr)

    def test_svg_has_texts_lines_and_the_cells_as_an_image(self):
        source = self.sample("<&>.safetensors", [Tensor("a<b>&\x1b", "float32", (2, 3), struct.pack("<6f", 1, -1, 0, 1, 1, 1))])
        svg = self.written("m.svg", source, "a*", "--size", "500x400")
        root = ElementTree.fromstring(svg)
        self.assertEqual((root.get("width"), root.get("height"), root.get("viewBox")), ("500", "400", "0 0 500 400"))
        self.assertIn("a<b>&", "".join(text.text for text in root.iter(SVG + "text")))
        image = next(root.iter(SVG + "image"))
        kind, _, data = image.get(XLINK + "href").partition(",")
        cells = pixels_of(base64.b64decode(data))
        self.assertEqual((kind, len(cells), len(cells[0])), ("data:image/png;base64", 2, 3))
        self.assertTrue(cells[0][1][2] > cells[0][1][0] and cells[0][0][0] > cells[0][0][2], cells)  # -1 is blue, 1 orange
        png = self.plot(source, "a*", size=(500, 400))
        x, y, width, height = (float(image.get(name)) for name in ("x", "y", "width", "height"))
        self.assertEqual(png[int(y + height / 4)][int(x + width / 2)], cells[0][1])
        self.assertEqual(self.written("m.svg", source, "a*", "--size", "500x400"), svg)
        curves = ElementTree.fromstring(self.written("m.svg", source, "a*", "--kind", "histogram"))
        self.assertTrue(any(len(line.get("points").split()) > 10 for line in curves.iter(SVG + "polyline")))

    def test_pdf_has_outlines_and_the_cells_as_an_image(self):
        source = self.matrix(2, 3, {(0, 1): -1})
        pdf = self.written("m.PDF", source, "w", "--size", "500x400")
        found = objects_of(pdf)
        self.assertEqual([re.search(r"/Type /(\w+)", dictionary)[1] for dictionary, _ in found.values() if "/Type" in dictionary],
                         ["Catalog", "Pages", "Page", "XObject", "XObject"])
        self.assertIn("/MediaBox [0 0 375 300]", found[3][0])
        dictionary, cells = found[5]
        self.assertIn("/Width 3 /Height 2", dictionary)
        self.assertEqual(len(cells), 18)
        self.assertTrue(cells[5] > cells[3] and cells[0] > cells[2], cells)
        self.assertRegex(found[4][1], rb"/I1 Do Q\n")
        self.assertGreater(found[4][1].count(b"\nh\n"), 20)  # a polygon for each letter at least
        self.assertEqual(self.written("m.PDF", source, "w", "--size", "500x400"), pdf)

    def test_overview_and_channels_are_drawn_as_vectors(self):
        source = self.sample("m.safetensors", [Tensor(f"layers.{i}.w", "float32", (4, 4), bytes(64)) for i in range(3)])
        for arguments in ((), ("layers.0.w", "--kind", "channels")):
            self.assertTrue(list(ElementTree.fromstring(self.written("o.svg", source, *arguments)).iter(SVG + "text")))
            self.assertGreater(len(objects_of(self.written("o.pdf", source, *arguments))), 3)

    def test_reason_is_given_for_pictures_that_cannot_be_drawn(self):
        many = self.sample("many.safetensors", [Tensor(f"t{i}", "float32", (1,), bytes(4)) for i in range(129)])
        for words, arguments in (("129 tensors match; a picture shows at most 128", [many, "t*"]),
                                 ("129 tensors match; a histogram shows at most 16", [many, "t*", "--kind", "histogram"]),
                                 ("is not a size", [many, "t1", "--size", "9x9"]),
                                 ("needs --against", [many, "--metric", "snr"]),
                                 ("for overviews", [many, "t1", "--metric", "bits"])):
            done = run("plot", *arguments, "-o", self.path("x.png"))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
        self.assertIn("use -o FILE.png", run("plot", many).stderr)
        self.assertFalse(os.path.exists(self.path("x.png")))

    def test_sample_of_a_large_tensor(self):
        source = self.sample("m.safetensors", [Tensor("w", "float32", (1 << 14, 1 << 14), Hole(1 << 30))])
        self.plot(source, "w", "--sample")

    def test_names_that_are_no_characters_hide_nothing(self):
        for name in ("x\uffff", "x\ufdd0", "\U0001ffff", "long" * 4000):
            tensor = Tensor(name, "float32", (2, 2), struct.pack("<4f", -1, 1, 1, 1))
            area = self.area(self.plot(self.sample("m.safetensors", [tensor]), "*"))
            self.assertEqual(area[5][5], (16, 60, 130), name)

    def test_option_of_another_kind_is_refused(self):
        source = self.matrix(4, 4, {})
        for option, value, kind in (("--window", "0:1,0:1", "histogram"), ("--axes", "0,1", "overview"),
                                    ("--index", "0,0", "heatmap"), ("--axis", "0", "heatmap"), ("--metric", "rms", "channels"),
                                    ("--against", source, "histogram")):
            done = run("plot", source, "w", "--kind", kind, option, value, "-o", self.path("x.png"))
            self.assertEqual((done.returncode, f"{option} is for" in done.stderr), (2, True), done.stderr)
        self.assertFalse(os.path.exists(self.path("x.png")))

    def test_counterparts_that_are_missing_are_one_line(self):
        a = self.sample("a.safetensors", [Tensor(f"h.{i}.w", "float32", (2, 2), bytes(16)) for i in range(9)])
        b = self.sample("b.safetensors", [Tensor("h.0.w", "float32", (2, 2), bytes(16))])
        for options in ((), ("h.1.w", "--kind", "channels")):
            done = run("plot", a, *options, "--against", b, "-o", self.path("x.png"))
            count = "" if options else "8 of 9 tensors cannot be shown: "
            self.assertEqual((done.returncode, done.stderr.splitlines()[0]),
                             (3, f'weightfs: {count}tensor "h.1.w": the other model has no tensor of this name'))
        self.assertFalse(os.path.exists(self.path("x.png")))

    def cut_sample(self, name, count):
        """A model of `count` tensors without the bytes of the last one."""
        tensors = [Tensor(f"h.{i}.w", "float32", (2, 2), bytes(16)) for i in range(count)]
        path = self.sample(name, tensors)
        os.truncate(path, os.path.getsize(path) - 16)
        return path

    def test_picture_that_lacks_a_tensor_is_not_written_with_a_message(self):
        cut, out = self.cut_sample("cut.safetensors", 9), self.path("x.png")
        done = run("plot", cut, "-o", out)
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1]),
                         (5, f"weightfs: {out}: nothing was written; name the tensors that can be shown"), done.stderr)
        self.assertFalse(os.path.exists(out))
        done = run("plot", cut, "h.0.w", "h.1.w", "-o", out)
        self.assertEqual((done.returncode, done.stderr, os.path.exists(out)), (0, "", True))

    def test_picture_of_a_model_without_readable_tensors_has_no_remedy(self):
        out = self.path("x.png")
        done = run("plot", self.cut_sample("cut.safetensors", 1), "-o", out)
        self.assertEqual((done.returncode, done.stderr.splitlines()[1:]), (5, [f"weightfs: {out}: nothing was written"]))
        self.assertFalse(os.path.exists(out))

    def test_counterpart_that_is_refused_is_not_called_missing(self):
        whole = self.sample("a.safetensors", [Tensor(f"h.{i}.w", "float32", (2, 2), bytes(16)) for i in range(9)])
        cut, out = self.cut_sample("cut.safetensors", 9), self.path("x.png")
        reason = 'tensor "h.8.w": refused in the other model: see its warnings.txt'
        for options in ((), ("h.8.w",), ("h.8.w", "--kind", "channels")):
            done = run("plot", whole, *options, "--against", cut, "-o", out)
            self.assertEqual((done.returncode, reason in done.stderr), (5, True), done.stderr)
        done = run("plot", whole, "h.7.w", "--against", cut, "-o", out)
        self.assertEqual((done.returncode, done.stderr, os.path.exists(out)), (0, "", True))

    def test_sample_is_refused_where_all_is_read(self):
        source = self.matrix(4, 4, {})
        for options in (("--kind", "channels"), ("--kind", "experts"), ("--against", source)):
            self.assertIn("--sample is for", run("plot", source, "w", "--sample", *options, "-o", self.path("x.png")).stderr)

    def test_shapes_without_elements_and_scalars(self):
        source = self.sample("m.safetensors", [Tensor("empty", "float32", (0, 5), b""), Tensor("one", "float32", (), bytes(4))])
        self.plot(source, "empty")
        self.plot(source, "one")
        self.plot(source)


class Terminals(TestCase):
    def source(self):
        return self.sample("m.safetensors", [Tensor("w", "float32", (4, 8), struct.pack("<32f", *range(-16, 16)))])

    def test_half_blocks_in_24_bits_or_256_colours(self):
        full = on_terminal("plot", self.source(), "w", NO_COLOR="", columns=80, COLORTERM="truecolor", LC_ALL="C.UTF-8")
        self.assertEqual(full.count("▀"), 2 * 8)
        self.assertIn("\033[38;2;16;60;130m", full)
        few = on_terminal("plot", self.source(), "w", NO_COLOR="", columns=80, COLORTERM="", LC_ALL="C.UTF-8")
        self.assertRegex(few, r"\033\[38;5;\d+m")
        self.assertNotIn("38;2;", few)

    def test_without_colours_or_utf8(self):
        for variables in ({"LC_ALL": "C"}, {"LC_ALL": "C", "TERM": "dumb", "NO_COLOR": ""}):
            shown = on_terminal("plot", self.source(), "w", columns=40, **variables)
            self.assertTrue(shown.isascii() and shown.replace("\n", "").isprintable(), shown)
            self.assertIn(" ##%%**++\n", shown)
            self.assertIn("largest by absolute: -16 to 16", shown)

    def test_scale_fits_a_narrow_terminal(self):
        for number, scale in ((-1, r" largest by absolute: -31 +31$"),
                              (-1234.567, r" largest by absolute: -0.02511 to\n 0.02511$")):
            numbers = struct.pack("<32f", *(x / number for x in range(32)))
            source = self.sample(f"{number}.safetensors", [Tensor("w", "float32", (4, 8), numbers)])
            for colorterm in ("truecolor", ""):
                shown = on_terminal("plot", source, "w", NO_COLOR="", columns=40, COLORTERM=colorterm, LC_ALL="C.UTF-8")
                lines = re.sub(r"\033\[[\d;]*m", "", shown).splitlines()
                self.assertTrue(all(len(line) <= 40 for line in lines), lines)
                self.assertRegex("\n".join(lines), scale)

    def test_numbers_whose_difference_overflows_have_colours(self):
        source = self.sample("m.safetensors", [Tensor(name, "float64", (1,), struct.pack("<d", value))
                                               for name, value in (("a", 1.7e308), ("b", -1.7e308))])
        shown = on_terminal("plot", "--metric", "mean", source, columns=40, LC_ALL="C")
        self.assertNotIn("?", shown)

    def test_overview_of_many_experts_fits(self):
        stacked = Tensor("blk.0.ffn_up_exps.weight", "float32", (100, 1, 2), struct.pack("<200f", *range(200)))
        shown = on_terminal("plot", self.sample("m.safetensors", [stacked]), "--kind", "experts", columns=60, LC_ALL="C.UTF-8")
        self.assertTrue(all(len(line) <= 60 for line in shown.splitlines()), shown)
        self.assertIn("the first ", shown)

    def test_overview_and_histogram_fit(self):
        tensors = [Tensor(f"model.layers.{i}.self_attn.{name}.weight", "float32", (2,), struct.pack("<2f", i, 1))
                   for i in range(3) for name in "qkvo"]
        source = self.sample("m.safetensors", tensors)
        for columns in (40, 80):
            for options in ((), ("*", "--kind", "histogram")):
                shown = on_terminal("plot", source, *options, columns=columns, LC_ALL="C.UTF-8")
                self.assertTrue(all(len(line) <= columns for line in shown.splitlines()), shown)

    def test_layers_whose_names_do_not_fit_keep_their_numbers(self):
        names = [f"model.language_model.layers.{i}.q.weight" for i in range(12)]
        tensors = [Tensor(name, "float32", (2,), struct.pack("<2f", i, 1)) for i, name in enumerate(names)]
        shown = on_terminal("plot", self.sample("m.safetensors", tensors), columns=60, LC_ALL="C.UTF-8")
        for i in range(12):
            self.assertRegex(shown, rf"\n {i} ")
        self.assertNotIn("…", shown)

    def test_kitty_gets_a_png(self):
        shown = on_terminal("plot", self.source(), "w", TERM="xterm-kitty", columns=80)
        parts = re.findall(r"\033_G([^;]*);([^\033]*)\033\\", shown)
        self.assertTrue(parts[0][0].startswith("a=T,f=100,q=2,") and parts[-1][0].endswith("m=0"), parts[0][0])
        self.assertEqual(len(pixels_of(base64.b64decode("".join(text for _, text in parts)))), 400)

    def test_terminal_that_has_sixels_gets_them(self):
        for reply, is_sixel in ((b"\033[?62;4;22c", True), (b"\033[?62;22c", False), (b"", False)):
            terminal, other = pty.openpty()
            termios.tcsetwinsize(terminal, (24, 80))
            process = subprocess.Popen([WEIGHTFS, "plot", self.source(), "w"], stdin=other, stdout=other, stderr=subprocess.PIPE,
                                       env=dict(os.environ, TERM="xterm", COLORTERM="", LC_ALL="C.UTF-8"))
            os.close(other)
            out, has_answered = b"", False
            while True:
                select.select([terminal], [], [], 60)
                try:
                    out += os.read(terminal, 65536)
                except OSError:
                    break
                if b"\033[c" in out and not has_answered:
                    has_answered = True
                    os.write(terminal, reply)
            process.communicate(timeout=60)
            os.close(terminal)
            self.assertEqual((b"\033Pq#0;2;0;0;0" in out, "▀".encode() in out), (is_sixel, not is_sixel))

    def test_pipe_needs_a_file(self):
        self.assertEqual(run("plot", self.source(), "w").returncode, 2)


if __name__ == "__main__":
    unittest.main()
