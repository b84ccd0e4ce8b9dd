"""The head of the page: at most two rows in any window, buttons with words of people, a report that says what it is, documents."""
import os
import re

from browsing import needs_chromium
from page_testing import PageTestCase
import demo

# The vertical middles of what the head has, each row once.
ROWS = """() => {
  const shown = [...document.querySelector("header.head").querySelectorAll("a, button, select, .title")].filter((each) =>
    each.checkVisibility() && each.getBoundingClientRect().width > 1);
  const middles = shown.map((each) => each.getBoundingClientRect()).map((box) => (box.top + box.bottom) / 2);
  return [...new Set(middles.map((middle) => Math.round(middle / 12)))].length;
}"""
INSIDE = """() => [...document.querySelectorAll("header.head a, header.head button, header.head select")].every((each) => {
  const {left, right} = each.getBoundingClientRect();
  return left >= 0 && right <= innerWidth;
})"""


@needs_chromium
class Head(PageTestCase):
    @classmethod
    def source_of(cls, owner):
        os.mkdir(owner.path("models"))
        for name in ("a-model-with-a-name-that-is-rather-long-Q4_K_M.gguf", "other.gguf"):
            owner.sample(f"models/{name}", demo.ggml_layers(2), "gguf", {"general.name": "A model with a rather long name " * 3})
        demo.write_onnx(owner.path("models/graph.onnx"))
        return owner.path("models")

    def test_head_has_at_most_two_rows(self):
        for width in (390, 800, 1000, 1440):
            self.page.resize(width, 800)
            for model in ("a-model-with-a-name-that-is-rather-long-Q4_K_M.gguf", "graph.onnx"):
                with self.subTest(width=width, model=model):
                    self.show(model=model)
                    self.assertLessEqual(self.page.call(ROWS), 2)
                    self.assertTrue(self.page.call(INSIDE))

    def test_theme_button_has_words(self):
        self.show(model="other.gguf")
        words = "[...document.querySelectorAll('.tool .words')].at(-1).textContent"
        seen = []
        for _ in range(4):
            seen.append(self.page.evaluate(words))
            self.page.click(seen[-1])
            self.page.settle()
        self.assertEqual(seen, ["Theme: like the system", "Theme: light", "Theme: dark", "Theme: like the system"])

    def test_buttons_have_their_names_without_room_for_words(self):
        self.page.resize(390, 800)
        self.show(model="other.gguf")
        self.assertEqual(self.page.evaluate("[...document.querySelectorAll('.tool')].map((each) => each.innerText.trim())"),
                         ["Save report…", "Theme: like the system"])
        self.assertTrue(self.page.evaluate("[...document.querySelectorAll('.tool')].every((each) => each.offsetWidth < 60)"))

    def test_report_is_explained_and_its_file_is_named(self):
        self.show(model="other.gguf")
        self.page.click("Save report…")
        self.page.wait_for("document.querySelector('dialog[open]')")
        self.assertRegex(self.text("dialog[open]"), r"one HTML file[\s\S]*\.html")
        name, report = self.page.saved("Save")
        self.page.wait_for("!document.querySelector('dialog[open]')")
        self.page.wait_for("document.querySelector('.toast')")
        self.assertEqual(self.text(".toast"), f"Saved as {name}")
        self.assertIn("A model with a rather long name", report)

    def test_report_is_not_saved_if_it_is_cancelled(self):
        self.show(model="other.gguf")
        self.page.click("Save report…")
        self.page.wait_for("document.querySelector('dialog[open]')")
        self.page.click("Cancel")
        self.page.wait_for("!document.querySelector('dialog[open]')")
        self.assertFalse(self.page.evaluate("Boolean(document.querySelector('.toast'))"))

    def test_help_leads_to_the_documents(self):
        self.show(model="other.gguf")
        self.page.press("?")
        self.page.wait_for("document.querySelector('dialog[open]')")
        links = self.page.evaluate("[...document.querySelectorAll('dialog[open] .documents a')].map((each) => each.pathname)")
        self.assertGreater(len(links), 3)
        for link in links:
            response = self.server.get(link)
            self.assertEqual((response.status, response.headers["Content-Type"]), (200, "text/plain; charset=utf-8"), link)
            self.assertTrue(re.match(rb"[#%] ", response.body), link)


if __name__ == "__main__":
    import unittest
    unittest.main()
