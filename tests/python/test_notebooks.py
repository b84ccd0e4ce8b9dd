"""What notebooks show: models, tensors, selections and differences as HTML."""
import base64
import html.parser
import os
import re
import struct
import unittest
import zlib

from python_testing import PythonTestCase, numpy
from mounting import MountTestCase
from tensors import Hole, Tensor
import demo

KNOWN = set("div strong table tr th td details summary p img ul li".split())
MIB = 1 << 20


class Elements(html.parser.HTMLParser):
    """The elements of a text, which must be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open, self.shown = [], [], ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.shown += data + " "


class Notebooks(MountTestCase, PythonTestCase):
    def test_model_is_the_screen_of_info(self):
        source = self.sample("q.gguf", demo.ggml_layers(2), "gguf", demo.gguf_metadata())
        text = self.open(source)._repr_html_()
        shown = " ".join(Elements(text).shown.split())
        for each in ("weightfs demo", "GGUF 3 · 176 KiB", "language model (llama), 74 k parameters, Q8_0: 15.19 bits per weight",
                     "licence cc0-1.0"):
            self.assertIn(each, shown)
        bars = [float(width) for width in re.findall(r"width:([0-9.]+)px", text)]
        self.assertEqual((len(bars) > 1, all(0 <= width <= 100 for width in bars)), (True, True))
        self.assertAlmostEqual(sum(bars), 100, 0)
        self.assertIn("<details><summary>12 tensors</summary><table>", text)
        self.assertIn("<td style='text-align:left'>blk.0.attn_q.weight</td>", text)
        mounted = " ".join(Elements(self.open(self.mount(source))._repr_html_()).shown.split())
        for each in ("weightfs demo", "gguf · 137 KiB", "causal-lm (llama), 74 k parameters, Q8_0", "license cc0-1.0",
                     "blk.0…1 10 8.3 k 8.8 KiB 6 % float32, q8_0"):
            self.assertIn(each, mounted)

    def test_damage_is_shown_before_facts(self):
        source = self.sample("q.gguf", demo.ggml_layers(1), "gguf", demo.gguf_metadata())
        os.truncate(source, os.path.getsize(source) - 64)
        with self.assertWarnsRegex(UserWarning, "the file ends 64 bytes early"):
            model = self.open(source)
        elements = Elements(model._repr_html_())
        self.assertRegex(elements.shown, "^ *DAMAGED: the file ends 64 bytes early")
        self.assertIn("1 refused", elements.shown)
        self.assertIn("bytes early", Elements(model.tensor("output_norm.weight")._repr_html_()).shown)

    def test_texts_are_escaped_and_cut(self):
        names = ("<script>alert('1')</script>\u202e&\n", "<img src=x onerror=1>" * 500, "x" * 60_000)
        tensors = [Tensor(name, "float32", (2, 2), struct.pack("<4f", at, 2, 3, 4)) for at, name in enumerate(names)]
        metadata = {"<b>": "<i>", "modelspec.title": "<iframe>" * 100_000}
        source = self.sample("<b>.safetensors", tensors, metadata=metadata)
        other = self.sample("other", [tensor._replace(data=bytes(16)) for tensor in tensors])
        model = self.open(source)
        shown = [model._repr_html_(), model["*script*"]._repr_html_(), model.diff(other)._repr_html_(),
                 *(model.tensor(name)._repr_html_() for name in names)]
        for text in shown:
            elements = Elements(text)
            self.assertEqual({tag for tag, _ in elements.found} - KNOWN, set())
            self.assertEqual({name for _, attributes in elements.found for name in attributes}
                             - {"style", "alt", "src", "width", "height", "open"}, set())
            self.assertNotIn("\u202e", text)
            self.assertLess(len(text), 20_000)
        self.assertIn("&lt;script&gt;alert(&#x27;1&#x27;)", shown[0])

    def test_model_of_many_tensors_is_bounded(self):
        tensors = [Tensor(f"layer{number}." + "<" * 300, "int8", (1,), b"1") for number in range(3000)]
        text = self.open(self.sample(tensors=tensors))._repr_html_()
        self.assertIn("<p>and 2,000 more</p>", text)
        self.assertLess(len(text), 2 * MIB)

    def test_selection_is_a_table_of_its_tensors(self):
        model = self.open(self.sample("q.gguf", demo.ggml_layers(2), "gguf"))
        shown = Elements(model["blk.1.*"]._repr_html_()).shown
        self.assertIn("blk.1.attn_q.weight", shown)
        self.assertNotIn("blk.0.", shown)

    def test_difference_has_the_worst_tensor_first(self):
        a = self.sample("a", [Tensor(name, "float32", (1,), struct.pack("<f", 1)) for name in ("h.0.x", "h.1.y", "z")])
        b = self.sample("b", [Tensor(name, "float32", (1,), struct.pack("<f", value))
                              for name, value in (("h.0.x", 0.5), ("h.1.y", 3), ("z", 1), ("<new>", 1))])
        found = Elements(self.open(a).diff(b)._repr_html_())
        self.assertRegex(found.shown, "2 tensors differ, 1 added, 1 equal +layer .* "
                         r"h\.1 .* h\.0 .* h\.1\.y .*-6\.0206 dB .* h\.0\.x ")
        equal = Elements(self.open(a).diff(a)._repr_html_())
        self.assertIn("0 tensors differ, 3 equal", equal.shown)
        self.assertNotIn("table", [tag for tag, _ in equal.found])

    def test_tensor_is_its_statistics_and_a_picture(self):
        source = self.sample("q.gguf", demo.ggml_layers(1), "gguf")
        model = self.open(source)
        text = model.tensor("blk.0.attn_q.weight")._repr_html_()
        self.assertIn("<td style='text-align:left'>std</td>", text)
        self.assertEqual([model.tensor(name)._repr_html_().count("<img") for name in model], [1] * len(model))
        self.assertIn("alt='heat map of blk.0.attn_q.weight: -0.0", text)
        picture = base64.b64decode(re.search(r"data:image/png;base64,([^']+)'", text)[1])
        self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")
        at, chunks = 8, {}
        while at < len(picture):
            size, name = int.from_bytes(picture[at:at + 4], "big"), picture[at + 4:at + 8]
            chunks[name] = picture[at + 8:at + 8 + size]
            self.assertEqual(zlib.crc32(name + chunks[name]), int.from_bytes(picture[at + 8 + size:at + 12 + size], "big"))
            at += size + 12
        self.assertEqual(chunks[b"IHDR"], bytes((0, 0, 0, 32, 0, 0, 0, 32, 8, 3, 0, 0, 0)))
        self.assertEqual((len(zlib.decompress(chunks[b"IDAT"])), len(chunks[b"PLTE"])), (32 * 33, 768))

    def test_figures_of_a_sample_say_so(self):
        tensors = [Tensor("large", "float32", (4096, 4096), Hole(64 * MIB)), Tensor("small", "float32", (64, 64), bytes(1 << 14)),
                   Tensor("medium", "float32", (2048, 4096), Hole(32 * MIB)), Tensor("none", "float32", (0, 4), b""),
                   Tensor("flat", "int8", (1 << 26,), Hole(64 * MIB)), Tensor("brain", "bfloat16", (4096, 8192), Hole(64 * MIB))]
        source = self.sample(tensors=tensors)
        for opened in (source, self.mount(source)):
            model = self.open(opened)
            texts = {name: model.tensor(name)._repr_html_() for name in model}
            self.assertIn("<p>Figures of a sample: 262,144 of 16,777,216 elements</p>", texts["large"])
            self.assertIn("<p>Heat map of a sample: 262,144 of 16,777,216 elements</p>", texts["large"])
            self.assertIn("<p>Figures of a sample: 262,144 of 33,554,432 elements</p>", texts["brain"])
            self.assertRegex(texts["flat"], "Figures of a sample: [0-9,]+ of 67,108,864 elements")
            for name in ("small", "medium", "none"):
                self.assertNotIn("sample", texts[name])
            self.assertNotIn("sample", model._repr_html_().replace(opened, ""))

    def test_limits_of_a_picture_without_numbers_are_not_invented(self):
        tensor = Tensor("nan", "float32", (2, 2), numpy.full(4, numpy.nan, "<f4").tobytes())
        text = self.open(self.sample(tensors=[tensor])).tensor("nan")._repr_html_()
        self.assertIn("<div>no finite numbers</div>", text)

    def test_tensor_without_numbers_has_a_sentence(self):
        demo.write_demo(self.path("demo"))
        text = self.open(self.path("demo", "demo.carton")).tensor("digits")._repr_html_()
        self.assertIn("<strong>digits</strong>", text)
        self.assertNotIn("<img", text)


if __name__ == "__main__":
    unittest.main()
