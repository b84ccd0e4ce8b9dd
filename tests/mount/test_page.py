"""The page of `weightfs serve` and `weightfs open` in headless Chromium: every view of a model of each format, by mouse and keys.
An error in the console, an exception, a breach of the policy, a failed request or one to another host fails the test."""
import json
import os
import re
import subprocess
import unittest
from urllib.parse import urlsplit

from browsing import needs_chromium
from devtools import page
from mounting import LIMIT_S, WEIGHTFS, Tensor, TestCase, numbers
from page_testing import ASSETS, PageTestCase
from every_format import EXHAUSTIVE, tenth, write_models
import demo

MOST_BYTES = 60_000  # of the first view, compressed
MOST_TENSORS = 4  # that are shown of a model
NAVIGATION = "[...document.querySelectorAll('header nav a')].map((each) => each.textContent)"


@needs_chromium
class EveryFormat(PageTestCase):
    """A directory with a small model of each format."""

    @classmethod
    def source_of(cls, owner):
        folder = owner.path("models")
        cls.models = sorted(write_models(folder))
        return folder

    def test_list_of_models_leads_to_each(self):
        self.show()
        for name in self.models:
            self.assertIn(name, self.text())
        self.page.click("Safetensors.model")
        self.page.wait_for("new URLSearchParams(location.search).get('model') === 'Safetensors.model'")
        self.settle()
        self.assertIn("safetensors", self.text())

    def test_every_view_of_each_model_is_shown(self):
        graphs = 0
        for name in tenth(self.models, 0):
            with self.subTest(name):
                self.show(model=name)
                for title in self.page.evaluate(NAVIGATION):
                    graphs += title == "Graph"
                    self.page.click(f"header nav a[href*='view={title.lower()}']")
                    self.page.wait_for(f"new URLSearchParams(location.search).get('view') === '{title.lower()}'")
                    self.settle()
                    self.assertGreater(len(self.text()), 5, title)
                self.assertEqual(self.page.problems, [])
        self.assertGreaterEqual(graphs, 5 if EXHAUSTIVE else 1)

    def test_tensors_of_each_model_are_shown(self):
        for name in tenth(self.models, 2):
            tensors = json.loads(self.server.get(f"/.weightfs/api/v1/tensors?model={name}").body)["tensors"]
            with self.subTest(name):
                for tensor in tensors[:MOST_TENSORS]:
                    self.show("tensor", model=name, t=tensor["index"])
                    self.assertIn(tensor["dtype"], self.text())
                self.assertEqual(self.page.problems, [])


@needs_chromium
class OneModel(PageTestCase):
    """A small GGUF of two layers."""

    @classmethod
    def source_of(cls, owner):
        return owner.sample("model.gguf", demo.ggml_layers(2), "gguf", {"general.name": "The model of this test"})

    def test_first_view_is_small(self):
        self.show()
        self.assertIn("The model of this test", self.text())
        received = self.page.watch.received
        self.assertGreater(len(received), 5)
        self.assertLess(sum(received.values()), MOST_BYTES, received)

    def test_history_leads_back_to_each_view(self):
        self.show()
        self.page.click("Tensors")
        self.settle()
        self.page.click("token_embd.weight")
        self.page.wait_for("document.querySelector('main canvas')")
        self.settle()
        address = self.page.evaluate("location.href")
        self.page.evaluate("history.back()")
        self.page.wait_for("location.search.includes('view=tensors')")
        self.settle()
        self.page.evaluate("history.forward()")
        self.page.wait_for(f"location.href === '{address}'")
        self.settle()
        self.assertIn("token_embd.weight", self.text())

    def test_search_lists_the_tensors_with_a_word(self):
        self.show("tensors")
        self.page.press("/")
        self.page.type("attn_q")
        self.page.wait_for("location.search.includes('q=attn_q')")
        self.settle()
        self.assertIn("blk.1.attn_q.weight", self.text(".tensors"))
        self.assertNotIn("attn_output", self.text(".tensors"))

    def test_search_keeps_all_letters_on_a_slow_machine(self):
        self.show("tensors")
        typed = """async (text) => {
          const field = document.querySelector('input[type=search]');
          const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
          for (const letter of text) {
            set.call(field, field.value + letter);
            field.dispatchEvent(new Event('input', { bubbles: true }));
            for (const end = performance.now() + 60; performance.now() < end; );
            await new Promise((resolve) => setTimeout(resolve));
          }
        }"""
        self.page.call(typed, "attn_q.weight")
        self.page.wait_for("location.search.includes('q=attn_q.weight')")
        self.assertEqual(self.page.evaluate("document.querySelector('input[type=search]').value"), "attn_q.weight")

    def test_equal_layers_are_folded_and_listed_one_by_one(self):
        labels = "[...document.querySelectorAll('.tree-label')].map((each) => each.textContent)"
        self.show("tensors")
        for step in ("blk", "0…1", "list 0…1 one by one", "fold equal ones"):
            self.page.wait_for(f"{labels}.includes('{step}')")
            self.page.call("(step) => [...document.querySelectorAll('.tree-label')].find((each) => each.textContent === step).click()",
                           step)
            self.settle()
            if step.startswith("list"):
                self.assertIn("1", self.page.evaluate(labels))
        self.page.wait_for(f"{labels}.includes('0…1') && !{labels}.includes('fold equal ones')")

    def test_report_is_one_file_that_needs_nothing(self):
        for view, text in (("model", "The model of this test"), ("tensors", "blk.0.attn_q.weight"), ("tensor", "Histogram"),
                           ("files", "The model of this test")):
            with self.subTest(view):
                self.show(view, t=1, file="metadata.json")
                self.page.settle()
                self.page.click("Save report…")
                name, report = self.page.saved("Save")
                self.assertTrue(name.endswith(".html"), name)
                active = re.search(r"<(script|link|iframe|form|input|button|a)\b|\son\w+=|javascript:|token=|url\(", report)
                self.assertIsNone(active)
                self.assertEqual(set(re.findall(r'(?:src|href)="([a-z]+:[^,;"]*)', report)) - {"data:image/png"}, set())
                with open(self.path("report.html"), "w", encoding="utf-8") as file:
                    file.write(report)
                with page(self) as shown:
                    shown.open("file://" + self.path("report.html"))
                    self.assertIn(text, shown.evaluate("document.body.textContent"))
                    self.assertEqual(shown.evaluate("getComputedStyle(document.body).fontSize"),
                                     self.page.evaluate("getComputedStyle(document.body).fontSize"))
                    self.assertEqual(shown.problems, [])

    def test_brackets_lead_to_the_neighbours_of_the_tensor(self):
        self.show("tensor", t=1)
        self.assertIn("blk.0.attn_norm.weight", self.text())
        self.page.press("]")
        self.page.wait_for_text("blk.0.attn_q.weight")
        self.settle()
        self.page.press("[")
        self.page.wait_for_text("blk.0.attn_norm.weight")
        self.settle()

    def test_dialog_lists_keys_until_escape(self):
        for view in ("model", "tensors", "files"):
            self.show(view)
            self.page.press("?")
            self.page.wait_for("document.querySelector('dialog').open")
            self.page.press("Escape")
            self.page.wait_for("!document.querySelector('dialog').open")

    def test_views_fit_narrow_windows(self):
        for width in (390, 800, 1440):
            self.page.resize(width, 800)
            for view in ("model", "tensors", "tensor", "compare", "files"):
                with self.subTest(view=view, width=width):
                    self.show(view, t=0)
                    self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), width)

    def test_missing_tensor_is_reported_by_a_sentence(self):
        self.page.open(f"{self.server.url}?view=tensor&t=999")
        self.page.wait_for("document.querySelector('main [role=alert]')")
        self.assertRegex(self.text("main [role=alert]"), "tensor|999")
        self.assertTrue(all("404" in problem or "400" in problem for problem in self.page.problems), self.page.problems)
        self.page.watch.found.clear()


@needs_chromium
class TwoModels(PageTestCase):
    """A directory with two models that differ in one tensor."""

    @classmethod
    def source_of(cls, owner):
        os.mkdir(owner.path("models"))
        data = numbers("f", 64)
        for name, other in (("one", data), ("two", data[4:] + data[:4])):
            owner.sample(f"models/{name}.safetensors", [Tensor("same", "float32", (8, 8), data),
                                                        Tensor("other", "float32", (8, 8), other)])
        return owner.path("models")

    def test_comparison_names_the_tensor_that_differs(self):
        self.show("compare", model="one.safetensors", a="one.safetensors", b="two.safetensors")
        self.page.wait_for_text("with other numbers")
        self.assertRegex(self.text(), r"1 equal, 1 with other numbers")

    def test_pair_of_an_address_has_its_deviation(self):
        self.show("compare", a="one.safetensors", b="two.safetensors", t=1, t2=1)
        self.page.wait_for_text("Elements that differ")
        self.assertRegex(self.text(), r"SNR\s+-?[\d.]+ dB")


@needs_chromium
class Opening(TestCase):
    """`weightfs open`: a server with a token, whose URL has it in its fragment."""

    def test_printed_url_opens_the_page_and_no_other_does(self):
        process = subprocess.Popen([WEIGHTFS, "open", "--no-browser", *ASSETS, self.sample()], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate, timeout=LIMIT_S)
        self.addCleanup(process.terminate)
        url = process.stdout.readline().strip()
        self.assertRegex(url, r"^http://127\.0\.0\.1:\d+/#token=[\w-]{20,}$")
        with page(self) as shown:
            shown.open(url)
            shown.wait_for("document.querySelector('main h1')")
            shown.click("Tensors")
            shown.wait_for_text("encoder/weight")
            self.assertEqual(urlsplit(shown.evaluate("location.href")).fragment, urlsplit(url).fragment)
            shown.settle()
            self.assertEqual(shown.problems, [])
        with page(self) as shown:
            shown.open(url.partition("#")[0])
            shown.wait_for_text("token")
            self.assertNotIn("encoder", shown.evaluate("document.body.innerText"))


if __name__ == "__main__":
    unittest.main()
