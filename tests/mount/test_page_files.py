"""Files in the page: first the container's own, with digests and downloads; Markdown as elements without HTML, JSON as a tree whose
search keeps its indices."""
import json
import os
import unittest

from browsing import needs_chromium
from http_serving import HttpServer
from mounting import Tensor, TestCase, numbers
from page_testing import ASSETS, PageTestCase
import demo

CARD = """---
license: apache-2.0
tags:
- text-generation
- tiny
model-index:
- name: Tiny
  results: []
---
# The card of *Tiny*

Text with **strong**, `code` and [a link](https://example.org/x "title"), [the licence](LICENSE.txt), [down](#more-text).

| name | score |
|------|------:|
| a    | 1     |

1. one
2. two
   - inner

```python
print("# no heading")
```

> quoted

<script>window.hacked=1</script> <img src=x onerror=window.hacked=1> ![a picture](https://example.org/p.png)
[run](javascript:window.hacked=1) [data](data:text/html,x) <https://example.org/auto>

## More text
"""

FILES = {"README.md": CARD, "config.json": json.dumps({"architectures": ["X"], "quantization": {"bits": 4}}), "LICENSE.txt": "Do.",
         "tokenizer_config.json": "{}"}
ENTRIES = """[...document.querySelectorAll('.file-list section')].map(
  (group) => [...group.querySelectorAll('a.name')].map((link) => link.textContent))"""
DOWNLOADS = "[...document.querySelectorAll('a[download]')].map((link) => link.pathname)"
LINKS = "[...document.querySelectorAll('.markdown a')].map((link) => [link.textContent, link.getAttribute('href'), link.rel])"
IS_UNHARMED = "window.hacked === undefined && !document.querySelector('main img, main script, main iframe, .markdown [onerror]')"


def repository(owner):
    """A repository with the names that the Hub has."""
    os.mkdir(owner.path("repository"))
    for name, text in FILES.items():
        with open(owner.path(f"repository/{name}"), "w") as file:
            file.write(text)
    owner.sample("repository/model.safetensors", [Tensor("w", "float32", (8, 8), numbers("f", 64))])
    return owner.path("repository")


@needs_chromium
class Repository(PageTestCase):
    @classmethod
    def source_of(cls, owner):
        return repository(owner)

    def test_own_files_come_first(self):
        self.show("files")
        self.page.wait_for(f"{ENTRIES}.length >= 2")
        own, about = self.page.evaluate(ENTRIES)[:2]
        self.assertEqual(own, ["README.md", "config.json", "LICENSE.txt", "tokenizer_config.json", "model.safetensors"])
        self.assertIn("metadata.json", about)

    def test_other_formats_are_listed_with_their_downloads(self):
        self.show("files")
        self.page.click("The model in other formats")
        self.page.wait_for("document.querySelector('.file-list details li')")
        self.assertIn("/views/model.npz", self.page.evaluate(DOWNLOADS))

    def test_card_is_elements(self):
        self.show("files")
        self.page.wait_for("document.querySelector('.markdown h3')")
        texts = """(selector) => [...document.querySelectorAll(`.markdown ${selector}`)].map((each) => each.textContent)"""
        for selector, wanted in (("h3", ["The card of Tiny"]), ("h3 em", ["Tiny"]), ("h4", ["More text"]), ("strong", ["strong"]),
                                 ("p > code", ["code"]), ("td", ["a", "1"]), ("ol > li > ul > li", ["inner"]),
                                 ("blockquote", ["quoted"]), ("pre", ['print("# no heading")']),
                                 ("dt", ["license", "tags", "model-index"]), (".picture", ["a picture"])):
            with self.subTest(selector):
                self.assertEqual([text.strip() for text in self.page.call(texts, selector)], wanted)
        self.assertIn("text-generation, tiny", self.text(".front"))

    def test_html_and_scripts_of_a_card_are_text(self):
        self.show("files")
        self.page.wait_for("document.querySelector('.markdown h4')")
        self.assertIn("<script>window.hacked=1</script>", self.text(".markdown"))
        self.assertTrue(self.page.evaluate(IS_UNHARMED))
        links = self.page.evaluate(LINKS)
        self.assertEqual(links[0], ["a link", "https://example.org/x", "noopener noreferrer"])
        self.assertEqual(links[1][0], "the licence")
        self.assertEqual([link[0] for link in links], ["a link", "the licence", "down", "https://example.org/auto"])

    def test_links_lead_to_files_and_headings(self):
        self.show("files")
        self.page.click("down")
        self.page.wait_for("document.activeElement.textContent === 'More text'")
        self.page.click("the licence")
        self.page.wait_for("location.search.includes('LICENSE.txt')")
        self.page.wait_for_text("Do.")

    def test_text_of_a_card_is_searched(self):
        self.show("files")
        self.page.wait_for("document.querySelector('.markdown h3')")
        self.page.press("/")
        self.page.type("onerror")
        self.page.wait_for_text("1 of 1")
        self.assertEqual(self.text("mark"), "onerror")
        self.page.press("Escape")
        self.page.wait_for("document.querySelector('.markdown h3')")
        self.page.click("Formatted")
        self.page.wait_for_text("# The card of *Tiny*")

    def test_short_json_is_unfolded_and_weights_are_downloaded(self):
        self.show("files", file="files/config.json")
        self.page.wait_for("document.querySelectorAll('.json details[open]').length === 3")
        self.show("files", file="files/model.safetensors")
        self.assertIn("Weights.", self.text(".file"))
        self.assertIn("/files/model.safetensors", self.page.evaluate(DOWNLOADS))

    def test_list_fits_a_narrow_window(self):
        self.page.resize(390, 844)
        self.show("files")
        self.page.wait_for("document.querySelector('.markdown h3')")
        self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 390)


@needs_chromium
class Tokens(PageTestCase):
    """A GGUF with more tokens than metadata.json has in its list."""

    @classmethod
    def source_of(cls, owner):
        tokens = [f"<0x{number:02X}>" if number < 256 else f"word{number}" for number in range(3000)]
        metadata = {"general.architecture": "llama", "tokenizer.ggml.tokens": tokens}
        return owner.sample("model.gguf", demo.ggml_layers(1), "gguf", metadata)

    def test_search_keeps_the_index(self):
        self.show("files", file="metadata/tokenizer.ggml.tokens.json")
        self.page.wait_for("document.querySelector('.json details')")
        self.page.press("/")
        self.page.type("<0x0a>")
        self.page.wait_for("document.querySelector('.json-found li')")
        self.assertEqual(self.text(".json-found li"), 'token id 10: "<0x0A>"')
        self.assertEqual(self.text(".json-found mark"), "<0x0A>")
        self.page.press("Escape")
        self.page.wait_for("document.querySelector('.json details')")

    def test_hits_are_stepped_through(self):
        self.show("files", file="metadata/tokenizer.ggml.tokens.json")
        self.page.press("/")
        self.page.type("word290")
        self.page.wait_for_text("1 of 11")
        self.page.press("Enter")
        self.page.wait_for("document.querySelector('.json-found [aria-current]').innerText.startsWith('token id 2900')")

    def test_gguf_opens_its_metadata(self):
        self.show("files")
        self.page.wait_for("document.querySelector('.json details')")
        self.assertEqual(self.text(".file h2"), "metadata.json")
        self.assertEqual(self.page.evaluate(ENTRIES)[0], ["model.gguf"])


# Texts that make parsers slow or deep.
HOSTILE = {
    "stars": "**a *b " * 60_000, "closers": "a* b_ " * 60_000, "brackets": "[" * 400_000, "links": "[a](" * 100_000,
    "quotes": ">" * 400_000, "lists": "- " * 200_000, "nested": "\n".join(" " * (2 * depth) + "- a" for depth in range(600)),
    "ticks": "`a" * 200_000, "table": "a|" * 100_000 + "\n" + "-|" * 100_000, "rows": "|a|b|\n|-|-|\n" + "|a|b|\n" * 60_000,
    "html": "<b>" * 100_000, "items": "- a\n" * 100_000, "headings": "# a\n" * 100_000,
    "paragraphs": ("**a *b " * 2_000 + "\n\n") * 30, "front": "---\n" + "a: b\n" * 80_000 + "---\n", "open": "---\na: b\n",
}


@needs_chromium
class HostileCards(PageTestCase):
    @classmethod
    def source_of(cls, owner):
        folder = repository(owner)
        for name, text in {**HOSTILE, "large": "# Large\n\n" + "word " * 2_000_000}.items():
            with open(os.path.join(folder, f"{name}.md"), "w") as file:
                file.write(text)
        return folder

    def test_each_is_shown_and_the_page_stays_usable(self):
        for name in HOSTILE:
            with self.subTest(name):
                self.show("files", file=f"files/{name}.md")
                self.page.wait_for("document.querySelector('.markdown')")
                self.assertTrue(self.page.evaluate(IS_UNHARMED))
                self.assertLess(self.page.evaluate("document.querySelectorAll('.markdown *').length"), 30_000)

    def test_large_one_is_text(self):
        self.show("files", file="files/large.md")
        self.page.wait_for_text("Read more")
        self.assertFalse(self.page.evaluate("!!document.querySelector('.markdown')"))


class Downloads(TestCase):
    """What the API says of files is true."""

    def test_links_have_tickets_and_lead_to_the_bytes(self):
        folder = repository(self)
        token = "t" * 24
        with open(self.path("token"), "w") as file:
            file.write(token)
        with HttpServer(folder, folder=self.tmp, options=("--token-file", self.path("token"), *ASSETS)) as server:
            listed = json.loads(server.get("/.weightfs/api/v1/files", Authorization=f"Bearer {token}").body)["files"]
            own = [file for file in listed if file["own"]]
            self.assertEqual(len(own), 5)
            for file in own:
                with open(os.path.join(folder, file["name"]), "rb") as stored:
                    content = stored.read()
                self.assertEqual(file["bytes"], len(content))
                self.assertEqual(server.get(file["href"]).body, content)
                self.assertEqual(server.get(file["href"].partition("?")[0]).status, 401)


if __name__ == "__main__":
    unittest.main()
