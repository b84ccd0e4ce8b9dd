"""The table of tensors and the view of one: names that stay apart, order, filters, statistics as columns, axes, lines and
sentences."""
import json
import os
import struct

import numpy

from browsing import needs_chromium
from mounting import Tensor, run
from page_testing import PageTestCase
import tiny_repositories

REPOSITORY = "Tiny-Llama3-200K-Instruct"
LAYERS, WIDTH = 3, 48
OUTLIER = "model.layers.2.mlp.down_proj.weight"

HEADERS = "[...document.querySelectorAll('[role=columnheader]')].map((each) => each.textContent.trim())"
# The cells of the rows of the table, from top to bottom.
ROWS = """[...document.querySelectorAll('.grid-body .grid-row')]
  .sort((a, b) => parseFloat(a.style.top) - parseFloat(b.style.top))
  .map((row) => [...row.children].map((cell) => cell.textContent.trim()))"""
# The whole name in the first row, which may show a part of it.
FIRST = """[...document.querySelectorAll('.grid-body .grid-row')]
  .find((row) => row.style.top === "0px")?.querySelector("a")?.title"""

# Counts the requests for statistics that run at once, and all of them.
COUNTS_REQUESTS = """window.asked = {now: 0, most: 0, all: 0};
  const send = window.fetch;
  window.fetch = async (...request) => {
    if (!String(request[0]).includes("/statistics?")) return send(...request);
    asked.all += 1;
    asked.most = Math.max(asked.most, ++asked.now);
    try { return await send(...request); } finally { asked.now -= 1; }
  };"""


def made():
    """The tensors of a small language model, by their names."""
    random = numpy.random.default_rng(5)
    matrix = random.normal(0, 0.02, (WIDTH, WIDTH)).astype(numpy.float32)
    tensors = {"model.embed_tokens.weight": numpy.zeros((2 * WIDTH, WIDTH), numpy.float16)}
    for layer in range(LAYERS):
        for name in ("self_attn.q_proj", "self_attn.k_proj", "mlp.down_proj"):
            tensors[f"model.layers.{layer}.{name}.weight"] = matrix * (layer + 1)
        tensors[f"model.layers.{layer}.input_layernorm.weight"] = random.normal(1, 0.1, WIDTH).astype(numpy.float32)
    outlier = tensors[OUTLIER].copy()
    outlier[3, 7] = -9
    return {**tensors, OUTLIER: outlier, "model.norm.weight": numpy.ones(WIDTH, numpy.float32)}


def write(path, tensors):
    types = {"float32": "F32", "float16": "F16"}
    header, end = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": types[array.dtype.name], "shape": array.shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in tensors.values()))
    return path


def names_of_models():
    """Names as several kinds of models have them."""
    of_layer = {
        "model.layers.{}": ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.q_proj.bias", "input_layernorm.weight",
                            "post_attention_layernorm.weight", *(f"block_sparse_moe.experts.{i}.w{w}.weight" for i in (0, 1, 17)
                                                                 for w in (1, 2, 3))),
        "blk.{}": ("attn_q.weight", "attn_k.weight", "ffn_gate_exps.weight", "ffn_gate_inp.weight", "attn_norm.weight"),
        "model.visual.blocks.{}": ("attn.qkv.weight", "attn.qkv.bias"), "model.language_model.blocks.{}": ("attn.qkv.weight",),
        "model.diffusion_model.double_blocks.{}": ("img_attn.norm.query_norm.scale", "img_attn.norm.key_norm.scale"),
        "conditioner.embedders.0.transformer.text_model.encoder.layers.{}": ("mlp.fc1.weight", "mlp.fc2.weight", "mlp.fc1.bias"),
    }
    return [f"{prefix.format(layer)}.{name}" for prefix, names in of_layer.items() for layer in (0, 1, 7, 11, 17) for name in names]


@needs_chromium
class Tensors(PageTestCase):
    @classmethod
    def source_of(cls, owner):
        cls.tensors = made()
        cls.model = write(owner.path("model.safetensors"), cls.tensors)
        return cls.model

    def index_of(self, name):
        return list(self.tensors).index(name)

    def choose(self, label, value):
        """Chooses an option of the select with this label."""
        self.page.wait_for(f"document.querySelector('select[aria-label={label}]')")
        self.page.call("""(label, value) => {
          const select = document.querySelector(`select[aria-label=${label}]`);
          select.value = value;
          select.dispatchEvent(new Event("change", { bubbles: true }));
        }""", label, value)
        self.settle()

    def rows(self):
        return self.page.evaluate(ROWS)

    def names(self):
        return [row[0] for row in self.rows()]

    def test_names_that_are_cut_stay_different_and_keep_their_numbers(self):
        self.show("tensors")
        names = names_of_models()
        for most in (47, 40, 32, 26, 24):
            shown = self.page.call("(names, most) => import('/.weightfs/page/parts/names.js').then((m) => m.fitNames(names, most))",
                                   names, most)
            self.assertEqual(len(set(shown)), len(names), most)
            self.assertLessEqual(max(map(len, shown)), most)
            for name, text in zip(names, shown):
                layer = next(word for word in reversed(name.partition(".experts")[0].split(".")) if word.isdigit())
                self.assertIn(layer, text, name)

    def test_common_beginning_is_left_out_before_words_are_cut(self):
        self.show("tensors")
        names = ["model.decoder.attention.output.bias", "model.decoder.embed.bias"]
        shown = self.page.call("""(names) => import('/.weightfs/page/parts/names.js')
          .then((m) => m.fitNames(names, 30, "model.decoder."))""", names)
        self.assertEqual(shown, ["…attention.output.bias", "model.decoder.embed.bias"])

    def test_narrow_rows_have_a_line_for_the_name(self):
        self.page.resize(390, 800)
        self.show("tensors")
        rows = self.rows()
        self.assertEqual([row[0] for row in rows], list(self.tensors)[:len(rows)])
        self.assertEqual(rows[0][1:], ["float16", f"{2 * WIDTH} × {WIDTH}", "9.0 KiB"])
        lines = self.page.evaluate("""(() => {
          const [name, dtype] = document.querySelector(".grid-body .grid-row").children;
          return [name.getBoundingClientRect().bottom, dtype.getBoundingClientRect().top, name.scrollWidth - name.clientWidth];
        })()""")
        self.assertLessEqual(lines[0], lines[1])
        self.assertEqual(lines[2], 0, "the name is not cut")

    def test_every_column_sorts_and_numbers_begin_with_the_largest(self):
        self.show("tensors")
        for header in ("name", "dtype", "shape", "parameters", "size", "share", "verified"):
            with self.subTest(header):
                self.page.click(header)
                self.settle()
                arrow = " ▼" if header in ("parameters", "size", "share") else " ▲"
                self.assertIn(header + arrow, self.page.evaluate(HEADERS))
        self.page.click("size")
        self.settle()
        self.assertIn(self.names()[-1], ("model.norm.weight", "model.layers.0.input_layernorm.weight"))
        self.page.click("size ▼")
        self.settle()
        self.assertIn("layernorm", self.names()[0])
        self.page.click("size ▲")
        self.settle()
        self.assertEqual(self.names(), list(self.tensors), "as in the container")

    def test_filters_are_in_the_address(self):
        self.show("tensors")
        self.choose("Layer", "model.layers.1")
        self.assertEqual(self.names(), [name for name in self.tensors if name.startswith("model.layers.1.")])
        self.assertIn("below model.layers.1.", self.text(".tensors"))
        self.choose("Layer", "other")
        self.assertEqual(self.names(), ["model.embed_tokens.weight", "model.norm.weight"])
        self.choose("Type", "float16")
        self.assertEqual(self.names(), ["model.embed_tokens.weight"])
        self.show("tensors", layer="model.layers.2", q="q_proj")
        self.assertEqual(self.names(), ["model.layers.2.self_attn.q_proj.weight"])
        self.show("tensors", dtype="int4")
        self.assertEqual(self.names(), [])
        self.choose("Type", "")
        self.assertEqual(len(self.names()), len(self.tensors))

    def test_tree_opens_what_is_alone(self):
        self.show("tensors")
        labels = "[...document.querySelectorAll('.tree-label')].map((each) => each.textContent)"
        self.page.wait_for(f"{labels}.includes('q_proj')")
        self.assertEqual(self.page.evaluate(labels), ["model", "embed_tokens", "layers", "0…2", "self_attn", "q_proj", "k_proj",
                                                      "mlp", "input_layernorm", "list 0…2 one by one", "norm"])
        self.page.click(".tree-item[aria-expanded=true] .twisty")
        self.settle()
        self.assertEqual(self.page.evaluate(labels), ["model"], "what a person closed stays closed")

    def test_statistics_are_columns_that_sort(self):
        self.page.send("Page.addScriptToEvaluateOnNewDocument", source=COUNTS_REQUESTS)
        self.show("tensors")
        self.page.click("Statistics")
        self.page.wait_for_text(f"Statistics of {len(self.tensors)} of {len(self.tensors)} tensors.")
        self.assertEqual(self.page.evaluate("asked.all"), len(self.tensors))
        self.assertLessEqual(self.page.evaluate("asked.most"), 2)
        figures = {each["name"]: each for each in json.loads(run("stats", "--json", self.model).stdout)["tensors"]}
        headers = self.page.evaluate(HEADERS)
        for name, row in zip(self.tensors, self.rows()):
            shown, figure = dict(zip(headers, row)), figures[name]
            for header, value in (("std", figure["std"]), ("largest", max(-figure["min"], figure["max"]))):
                self.assertAlmostEqual(float(shown[header]), value, delta=abs(value) * 1e-3, msg=name)
            self.assertEqual(shown["zeros"], "100 %" if figure["zeros"] == figure["count"] else "0 %")
        self.page.click("largest")
        self.page.wait_for(f"{FIRST} === '{OUTLIER}'")
        self.settle()
        self.page.click("zeros")
        self.page.wait_for(f"{FIRST} === 'model.embed_tokens.weight'")
        self.settle()
        self.page.click("Statistics")
        self.page.wait_for("!location.search.includes('figures') && !location.search.includes('sort')")
        self.settle()
        self.assertNotIn("std", self.page.evaluate(HEADERS))

    def test_sorted_statistics_of_an_address(self):
        self.show("tensors", figures=1, sort="largest", order="desc", layer="model.layers.2")
        self.page.wait_for(f"{FIRST} === '{OUTLIER}'")
        self.settle()

    def test_norm_is_a_line(self):
        name = "model.layers.1.input_layernorm.weight"
        self.show("tensor", t=self.index_of(name))
        self.page.wait_for("document.querySelector('section[aria-label=Line] .chart-picture canvas')")
        self.assertFalse(self.page.evaluate("Boolean(document.querySelector('canvas.heatmap'))"))
        label = self.page.evaluate("document.querySelector('section[aria-label=Line] [role=img]').ariaLabel")
        numbers = self.tensors[name]
        self.assertEqual(label, f"Line of {WIDTH} elements, from {numbers.min():.4g} to {numbers.max():.4g}")

    def test_equal_elements_are_a_sentence(self):
        for name, text in (("model.embed_tokens.weight", "All 4,608 elements are 0."),
                           ("model.norm.weight", "All 48 elements are 1.")):
            self.show("tensor", t=self.index_of(name))
            self.page.wait_for_text(text)
            self.page.wait_for("!document.querySelector('canvas.heatmap, section[aria-label=Line]')")

    def test_first_numbers_are_in_sight(self):
        self.page.resize(1000, 900)
        self.show("tensor", t=self.index_of(OUTLIER))
        self.page.wait_for("document.querySelector('.first-numbers td')")
        shown = self.page.evaluate("""[...document.querySelectorAll(".first-numbers tbody tr")].map(
          (row) => [...row.querySelectorAll("td")].map((cell) => Number(cell.textContent.replace("\\u2212", "-"))))""")
        self.assertEqual((len(shown), len(shown[0])), (8, 8))
        self.assertTrue(numpy.allclose(shown, self.tensors[OUTLIER][:8, :8], rtol=1e-3))
        self.show("tensor", t=self.index_of("model.norm.weight"))
        self.page.wait_for("document.querySelector('.first-numbers td')")
        self.assertEqual(self.page.evaluate("document.querySelectorAll('.first-numbers td').length"), WIDTH)

    def test_heat_map_has_axes_and_its_legend_beside_it(self):
        self.show("tensor", t=self.index_of(OUTLIER))
        self.page.wait_for("document.querySelector('.colour-bar.upright')")
        texts = self.page.evaluate("[...document.querySelectorAll('.ruler')].map((each) => [...each.querySelectorAll('text')].map("
                                   "(text) => text.textContent.trim()))")
        self.assertEqual([texts[0][-1], texts[1][-1]], ["axis 0", "axis 1"])
        self.assertEqual([each[0] for each in texts], ["0", "0"])
        left, bar = self.page.evaluate("['canvas.heatmap', '.colour-bar'].map((each) => "
                                       "document.querySelector(each).getBoundingClientRect().toJSON())")
        self.assertLess(left["right"], bar["left"])
        self.assertEqual(left["height"], bar["height"])
        self.page.resize(390, 800)
        self.page.wait_for("!document.querySelector('.colour-bar.upright')")
        self.show("tensor", t=self.index_of(OUTLIER), window="16,20,0,48")
        self.page.wait_for("[...document.querySelectorAll('.ruler text')].some((text) => text.textContent.trim() === '17')")

    def test_verification_is_explained(self):
        self.show("tensor", t=0)
        self.assertRegex(self.text(), r"Verification\s+not compared\s")
        self.assertIn("weightfs verify", self.text())


@needs_chromium
class RepositoryAndGguf(PageTestCase):
    """A repository of the Hub beside a GGUF of it with quantised tensors."""

    @classmethod
    def source_of(cls, owner):
        os.mkdir(owner.path("models"))
        cls.repository = tiny_repositories.write(owner.path("models"), REPOSITORY)
        run("export", "--dtype", "q8_0", cls.repository, owner.path("models/quantised.gguf"))
        return owner.path("models")

    def get(self, request, status=200):
        response = self.server.get(f"/.weightfs/api/v1/{request}")
        self.assertEqual(response.status, status, response.body[:200])
        return json.loads(response.body) if status == 200 else response.body

    def test_pairs_are_the_tensors_that_were_compared(self):
        for a, b in ((REPOSITORY, "quantised.gguf"), ("quantised.gguf", REPOSITORY)):
            found = self.get(f"compare?a={a}&b={b}&values=1")
            names = "names=gguf" if found["mapped_names"]["source"] == "a" else "names2=gguf"
            self.assertEqual(names == "names=gguf", a == REPOSITORY)
            changed = {each["name"]: each for each in found["changed"]}
            self.assertGreater(len(found["indices"]), 10)
            for name, (t, t2) in found["indices"].items():
                pair = f"model={a}&t={t}&model2={b}&t2={t2}&{names}"
                for side, model, index, own in (("a", a, t, a == REPOSITORY), ("b", b, t2, b == REPOSITORY)):
                    tensor = self.get(f"tensor?model={model}&t={index}" + "&names=gguf" * own)
                    self.assertEqual((tensor["name"], tensor["shape"]), (name, changed[name][side]["shape"]))
                deviation = self.get(f"deviation?{pair}")
                self.assertEqual({**deviation, "differences": changed[name]["stat"]["differences"]}, changed[name]["stat"], name)

    def test_names_of_a_gguf_are_refused_where_there_are_none(self):
        self.assertIn(b"not a repository", self.get("tensors?model=quantised.gguf&names=gguf", 422))
        self.get(f"tensors?model={REPOSITORY}&names=other", 400)
        self.get(f"tensor?model={REPOSITORY}&names=gguf&t=99999", 404)

    def test_table_leads_to_the_pair(self):
        self.show("compare", a=REPOSITORY, b="quantised.gguf")
        self.page.wait_for_text("compared as a GGUF has them")
        self.page.click("blk.1.attn_q.weight")
        self.page.wait_for_text("Elements that differ")
        self.settle()
        self.page.wait_for("document.querySelector('canvas.heatmap')?.width > 0")
        error = self.page.evaluate("""[...document.querySelectorAll("dt")].find((each) => each.textContent === "Relative error")
          .nextElementSibling.textContent""")
        self.assertLess(float(error.split()[0]), 2, "as of 8 bits, not of permuted rows")
        self.page.click("section[aria-label=Pair] tbody tr a")
        self.page.wait_for_text("those that a GGUF of this repository has")
        self.settle()
        self.assertIn("blk.1.attn_q.weight", self.text())


@needs_chromium
class LargeTable(PageTestCase):
    @classmethod
    def source_of(cls, owner):
        return owner.sample("many.safetensors", [Tensor(f"w.{i}", "float32", (1,), bytes(4)) for i in range(1001)])

    def test_statistics_of_more_tensors_than_are_sorted_have_a_sentence(self):
        self.show("tensors", figures=1)
        self.page.wait_for_text("Only a table of at most 1,000 tensors can be sorted by them; this one has 1,001.")
        self.show("tensors", figures=1, q="w.1")
        self.page.wait_for_text("Statistics of ")
        self.assertNotIn("can be sorted", self.text())


if __name__ == "__main__":
    import unittest
    unittest.main()
