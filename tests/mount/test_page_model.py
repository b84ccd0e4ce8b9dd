"""The model view: its overview says something or is a sentence, its bars and cells are links, numbers are those of the commands."""
import os
import re
import struct

from browsing import needs_chromium
from mounting import Tensor
from page_testing import PageTestCase
import demo
import scenes

STYLE_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "report", "text", "style_test.cc")
LAYERS = 4

# The colour in the middle of a cell of the overview, whose link is moved there by keys first.
COLOUR = """() => {
  const link = document.querySelector(".matrix-cell"), canvas = document.querySelector(".matrix canvas");
  const box = link.getBoundingClientRect(), all = canvas.getBoundingClientRect();
  const context = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  context.drawImage(canvas, all.left - box.left - 2, all.top - box.top - 2);
  const {data} = context.getImageData(0, 0, 1, 1);
  return [...data.slice(0, 3)];
}"""
BARS = "[...document.querySelectorAll('.bars svg a')].map((each) => each.getAttribute('aria-label'))"


def floats(name, shape, number):
    count = 1
    for size in shape:
        count *= size
    return Tensor(name, "float32", shape, struct.pack("<f", number) * count)


def mixed():
    """Layers in which the type of one matrix changes, as in files of llama.cpp."""
    tensors = [demo.float16("token_embd.weight", 64, 32)]
    for layer in range(LAYERS):
        tensors.append(demo.float32(f"blk.{layer}.attn_norm.weight", 32))
        tensors.append(demo.q8_0(f"blk.{layer}.attn_q.weight", 32, 32))
        tensors.append((demo.float16 if layer % 2 else demo.q8_0)(f"blk.{layer}.attn_v.weight", 32, 32))
    return [*tensors, demo.float32("output_norm.weight", 32)]


def odd_layer():
    """Norms of 1, and matrices of 0.02, in one layer four times as large."""
    return [tensor for layer in range(LAYERS) for tensor in (
        floats(f"h.{layer}.norm.weight", (8,), 1), floats(f"h.{layer}.q.weight", (8, 8), 0.08 if layer == 2 else 0.02))]


def experts():
    return [floats(f"h.{layer}.{rest}.weight", (8, 8), 1) for layer in range(2)
            for rest in ("q", *(f"mlp.experts.{expert}.{part}" for expert in range(3) for part in ("up", "down")))]


@needs_chromium
class Models(PageTestCase):
    @classmethod
    def source_of(cls, owner):
        os.mkdir(owner.path("models"))
        metadata = {"general.architecture": "llama", "general.license": "apache-2.0", "general.name": "Mixed"}
        owner.sample("models/mixed.gguf", mixed(), "gguf", metadata)
        owner.sample("models/same.gguf", demo.ggml_layers(LAYERS), "gguf", metadata)
        owner.sample("models/equal.safetensors", odd_layer())
        owner.sample("models/experts.safetensors", experts())
        owner.sample("models/flat.safetensors", [floats(f"conv{i}{part}.{kind}", (8,), 1) for i in (1, 2) for part in "ab"
                                                 for kind in ("weight", "bias")])
        owner.sample("models/one.safetensors", [demo.float32("weight", 8, 8)])
        os.mkdir(owner.path("models/repository"))
        owner.sample("models/repository/model.safetensors", demo.hugging_face_layers(2))
        with open(owner.path("models/repository/LICENSE"), "w", encoding="utf-8") as file:
            file.write("A licence\nof two lines.\n")
        with open(owner.path("models/repository/config.json"), "w", encoding="utf-8") as file:
            file.write('{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": "many"}')
        scenes.write_scenes(owner.path("models"), ["pixel-art-xl.safetensors", "resnet18.onnx"])
        cls.damaged = owner.sample("models/damaged.safetensors")
        with open(cls.damaged, "r+b") as file:
            file.truncate(os.path.getsize(file.name) - 4)
        return owner.path("models")

    def number(self, metric):
        self.page.call("""(metric) => {
          const select = document.querySelector(".overview select");
          select.value = metric;
          select.dispatchEvent(new Event("change", {bubbles: true}));
        }""", metric)
        self.settle()

    def test_equal_types_are_a_sentence(self):
        self.show(model="equal.safetensors")
        self.assertIn("All 8 tensors are float32.", self.text(".overview"))
        self.assertFalse(self.page.evaluate("Boolean(document.querySelector('.matrix'))"))

    def test_types_that_are_the_same_in_all_layers_are_listed(self):
        self.show(model="same.gguf")
        text = self.text(".overview")
        self.assertRegex(text, r"q8_0 16 tensors, .*, \d+ %: attn_q, attn_k, attn_v, attn_output")
        self.assertRegex(text, r"float32 5 tensors, .*%: attn_norm")
        self.assertFalse(self.page.evaluate("Boolean(document.querySelector('.matrix'))"))
        self.assertRegex(self.text(".chips"), r"token_embd\s+float16\s+output_norm\s+float32")

    def test_types_that_differ_are_cells_which_are_links(self):
        self.show(model="mixed.gguf")
        self.assertRegex(self.text(".overview .legend"), r"q8_0 6 tensors, .*, \d+ %")
        self.page.evaluate("document.querySelector('.matrix-cell').focus()")
        label = "document.querySelector('.matrix-cell').ariaLabel"
        self.assertEqual(self.page.evaluate(label), "blk.0 attn_norm: float32")
        for key, cell in (("ArrowRight", "blk.0 attn_q: q8_0"), ("ArrowRight", "blk.0 attn_v: q8_0"),
                          ("ArrowDown", "blk.1 attn_v: float16"), ("ArrowRight", "blk.1 attn_v: float16")):
            self.page.press(key)
            self.page.wait_for(f"{label} === {cell!r}")
        self.page.press("Enter")
        self.page.wait_for("location.search.includes('view=tensor&') || location.search.includes('view=tensor')")
        self.settle()
        self.assertIn("blk.1.attn_v.weight", self.text())

    def test_mouse_opens_the_cell_below_it(self):
        self.show(model="mixed.gguf")
        self.page.click(".matrix-cell")
        self.page.wait_for_text("blk.0.attn_norm.weight")
        self.settle()

    def test_layer_that_differs_stands_out(self):
        """Against the median of the column: neither a norm nor the column's own size takes the scale."""
        self.show(model="equal.safetensors")
        self.number("rms")
        self.page.evaluate("document.querySelector('.matrix-cell').focus()")
        colours = {}
        for key in ("", "ArrowRight", "ArrowDown", "ArrowDown"):
            if key:
                self.page.press(key)
            self.page.settle()
            label = self.page.evaluate("document.querySelector('.matrix-cell').ariaLabel")
            colours[label.split(":")[0]] = self.page.call(COLOUR)
        white = [247, 247, 247]
        self.assertEqual([colours["h.0 norm"], colours["h.0 q"], colours["h.1 q"]], [white] * 3)
        self.assertGreater(colours["h.2 q"][0], colours["h.2 q"][2] + 80, "orange")
        self.assertRegex(self.text(".overview .colour-bar"), r"÷ 4\s+median of the column\s+× 4")

    def test_experts_are_one_cell_that_leads_to_their_list(self):
        self.show(model="experts.safetensors")
        self.number("rms")
        self.assertIn("RMS: 1 in all tensors of layers.", self.text(".overview"))
        self.number("mean")
        self.assertIn("mean: 1 in all tensors of layers.", self.text(".overview"))

    def test_bars_have_an_axis_and_lead_to_their_tensors(self):
        self.show(model="mixed.gguf")
        self.assertRegex(self.text(".bars-axis"), r"^0 B\b[\s\S]*KiB")
        bars = self.page.evaluate(BARS)
        self.assertEqual([bar.split(":")[0] for bar in bars], ["embeddings", "blk.0", "blk.1", "blk.2", "blk.3", "norms"])
        self.page.evaluate("document.querySelector('.bars svg a').focus()")
        self.page.press("ArrowRight")
        self.page.press("Enter")
        self.page.wait_for("new URLSearchParams(location.search).get('under') === 'blk.0.'")
        self.settle()
        self.assertIn("3 of 14 tensors", self.text())

    def test_model_without_layers_has_bars_of_its_modules(self):
        self.show(model="flat.safetensors")
        bars = self.page.evaluate(BARS)
        self.assertEqual([bar.split(":")[0] for bar in bars], ["conv1a", "conv1b", "conv2a", "conv2b"])
        self.assertNotIn("other", self.text(".bars"))
        self.show(model="one.safetensors")
        self.assertFalse(self.page.evaluate("Boolean(document.querySelector('.bars'))"))

    def test_state_and_licence_are_the_first_facts(self):
        self.show(model="mixed.gguf")
        self.assertRegex(self.text(".facts"), r"^state\s+complete; not verified: no checksum is known\s+licence\s+apache-2.0")
        self.assertEqual(self.text(".facts").count("licence"), 1)
        self.show(model="damaged.safetensors")
        self.assertRegex(self.text(".facts"), r"^state\s+not complete")

    def test_licence_leads_to_its_text(self):
        self.show(model="mixed.gguf")
        self.assertNotIn("Text of the licence", self.text(".facts"))
        self.show(model="repository")
        self.page.click("Text of the licence")
        self.page.wait_for_text("of two lines.")
        self.settle()

    def test_lora_has_its_trigger_tags_and_base(self):
        self.show(model="pixel-art-xl.safetensors")
        facts = self.text(".facts")
        for fact in (r"trigger\s+pixelart", r"tags\s+pixelart, castle, night", r"base\s+sd_xl_base_1.0.safetensors"):
            self.assertRegex(facts, fact)

    def test_labels_of_bars_are_different_ends_of_names(self):
        for model, expected in (("resnet18.onnx", ["layer1.0", "layer1.1", "layer4.1"]), ("mixed.gguf", ["0", "3", "norms"]),
                                ("pixel-art-xl.safetensors", ["…4_1_…0_…q"])):
            self.show(model=model)
            labels = self.page.evaluate("[...document.querySelectorAll('.bars-labels span')].map((each) => each.textContent)")
            self.assertEqual(len(labels), len(set(labels)), labels)
            self.assertLessEqual(set(expected), set(labels), labels)

    def test_few_warnings_are_shown_before_the_facts(self):
        self.show(model="repository")
        self.assertIn("num_hidden_layers", self.text(".notice.warning"))
        self.assertFalse(self.page.evaluate("Boolean(document.querySelector('.notice.warning details'))"))
        self.assertTrue(self.page.evaluate("document.querySelector('.notice.warning').getBoundingClientRect().top"
                                           " < document.querySelector('.facts').getBoundingClientRect().top"))
        self.show(model="damaged.safetensors")
        self.assertFalse(self.page.evaluate("Boolean(document.querySelector('.notice.warning'))"), "the alert has its sentence")

    def test_blocks_are_two_lines_in_a_narrow_window(self):
        self.page.resize(390, 800)
        self.show(model="mixed.gguf")
        lines = """[...document.querySelectorAll(".blocks tbody tr")].map((row) =>
          new Set([...row.children].map((cell) => Math.round(cell.getBoundingClientRect().top))).size)"""
        self.assertLessEqual(max(self.page.evaluate(lines)), 3, "two, and a third for the names of several types")
        self.assertTrue(self.page.call("""() => {
          const region = document.querySelector("[aria-label=Blocks]");
          return region.scrollWidth <= region.clientWidth;
        }"""))
        self.assertRegex(self.text(".blocks"), r"blk\.0…3")
        words = "getComputedStyle(document.querySelector('.blocks td'), '::after').content"
        self.assertRegex(self.page.evaluate(words), "tensors?")

    def test_numbers_are_rounded_as_by_the_commands(self):
        with open(STYLE_TEST, encoding="utf-8") as file:
            cases = re.findall(r"info::(parameters|bytes)_text\(([\d']+)\), \"(.+?)\"", file.read())
        self.assertGreater(len(cases), 12)
        self.show(model="one.safetensors")
        function = """(cases) => import("/.weightfs/page/format.js").then((format) => cases.map(([kind, count]) =>
          (kind === "bytes" ? format.formatBytes : format.formatParameters)(count)))"""
        counts = [(kind, int(count.replace("'", ""))) for kind, count, _ in cases]
        self.assertEqual(self.page.call(function, counts), [text for *_, text in cases])


if __name__ == "__main__":
    import unittest
    unittest.main()
