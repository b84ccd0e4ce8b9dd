"""The metadata view of the page in headless Chromium: keys and values, long lists, tokens, and the chat template."""
import unittest

from browsing import needs_chromium
from mounting import sample_tensors
from page_testing import PageTestCase

CHATML = "{# talk #}{% for m in messages %}{{ '<|im_start|>' + m.role }}<|im_end|>\n{% endfor %}"
TOKENS = 150_000


@needs_chromium
class Metadata(PageTestCase):
    """A GGUF with a large vocabulary."""

    @classmethod
    def source_of(cls, owner):
        tokens = [f"\u0120word{i}" for i in range(TOKENS)]
        tokens[7:9] = ["<|im_start|>", "<|im_end|>"]
        return owner.sample("model.gguf", sample_tensors(), "gguf", {
            "general.architecture": "llama", "general.name": "Named", "llama.context_length": 512,
            "general.description": "A \u202e text", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [3 if 7 <= i < 9 else 1 for i in range(TOKENS)], "tokenizer.chat_template": CHATML})

    def type_into_search(self, text):
        self.page.press("/")
        self.page.type(text)

    def test_keys_have_types_and_values(self):
        self.show("metadata")
        text = self.text()
        for row in ("llama.context_length", "512", "array of string", "150,000 items", "A \\u202E text"):
            self.assertIn(row, text)
        self.type_into_search("context")
        self.page.wait_for("location.search.includes('q=context')")
        self.page.wait_for("document.querySelectorAll('.keys th.name').length === 1")
        self.assertIn("1 entry", self.text())

    def test_long_list_is_opened_in_pages(self):
        self.show("metadata", q="tokenizer.ggml.tokens")
        self.page.click("summary")
        self.page.wait_for("document.querySelectorAll('.items li').length === 100")
        self.page.click("Last")
        self.page.wait_for(f"document.querySelector('.items').innerText.includes('word{TOKENS - 1}')")
        self.assertIn("of 150,000", self.text(".items"))

    def test_tokens_are_found_by_text_and_id(self):
        self.show("metadata", part="tokens")
        self.assertIn("150,000 tokens", self.text())
        self.assertLess(self.page.evaluate("document.querySelectorAll('[role=row]').length"), 200)
        head = "[...document.querySelectorAll('.grid-head [role=columnheader]')].map((each) => each.textContent)"
        self.assertEqual(self.page.evaluate(head), ["id", "token", "stands for", "type"])
        self.type_into_search("id 149999")
        self.page.wait_for("document.querySelector('main').innerText.includes('word149999')")
        self.assertIn("1 token", self.text())
        self.show("metadata", part="tokens", type="control")
        self.assertIn("2 tokens", self.text())
        self.assertIn("<|im_end|>", self.text(".grid"))

    def test_special_tokens_of_the_template_are_links_to_them(self):
        self.show("metadata", part="texts")
        marked = "[...document.querySelectorAll('.template .token')].map((each) => each.textContent)"
        self.assertEqual(self.page.evaluate(marked), ["<|im_start|>", "<|im_end|>"])
        self.assertEqual(self.page.evaluate("document.querySelector('.template').textContent"), CHATML)
        code = "[...document.querySelectorAll('.template .code')].map((each) => each.textContent)"
        marked = ["{# talk #}", "{% for m in messages %}", "{{ '", "' + m.role }}", "{% endfor %}"]
        self.assertEqual(self.page.evaluate(code), marked)
        self.page.click(".template .token")
        self.page.wait_for("location.search.includes('part=tokens')")
        self.settle()
        self.assertIn("1 token", self.text())

    def test_views_fit_a_phone(self):
        self.page.resize(390, 800)
        for part in ("keys", "tokens", "texts"):
            self.show("metadata", part=part)
            self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 390, part)


@needs_chromium
class WithoutThem(PageTestCase):
    """A model without tokens and templates."""

    def test_missing_tokens_and_texts_have_a_sentence(self):
        self.show("metadata", part="tokens")
        self.assertIn("This model has no tokens.", self.text())
        self.show("metadata", part="texts")
        self.assertIn("This model has no chat template.", self.text())


if __name__ == "__main__":
    unittest.main()
