"""Names and texts as attackers write them: the page shows them as text, nothing runs, and each view stays usable."""
import json
import struct

from browsing import needs_chromium
from page_testing import PageTestCase
import pickles

IMAGE = "<img src=x onerror=window.hacked=1>"
NAMES = [IMAGE, "<script>window.hacked=1</script>", "javascript:window.hacked=1", "\"><svg onload=window.hacked=1>",
         "safe\u202egnp.exe", "a\u2066b\u2069c", "${window.hacked=1}", "__proto__", "constructor", "../../../etc/passwd",
         "?view=files#x", "blk." * 15_000 + "w", "x" * 60_000, " ", "\x00\x1b[2J"]
TEXTS = {"chat_template": f"{{% if x %}}{IMAGE}<script>window.hacked=1</script>{{% endif %}}", IMAGE: IMAGE,
         "__proto__": "{\"hacked\": 1}", "many": " ".join(f"<b>{i}</b>" for i in range(20_000))}
IS_UNHARMED = "window.hacked === undefined && ({}).hacked === undefined && !document.querySelector('main img, main script, main b')"


def written(path):
    header = {name: {"dtype": "F32", "shape": [2], "data_offsets": [8 * i, 8 * i + 8]} for i, name in enumerate(NAMES)}
    text = json.dumps({"__metadata__": TEXTS, **header}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + struct.pack("<2f", 1, 2) * len(NAMES))
    return path


@needs_chromium
class Hostile(PageTestCase):
    @classmethod
    def source_of(cls, owner):
        return written(owner.path("model.safetensors"))

    def check_unharmed(self):
        self.assertTrue(self.page.evaluate(IS_UNHARMED), self.page.state())
        width = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        self.assertLessEqual(width, 0, "a long name makes the page too wide")

    def test_names_are_text_in_each_view(self):
        for view in ("model", "tensors"):
            self.show(view)
            self.check_unharmed()
        self.assertIn(IMAGE, self.text())
        self.assertNotIn("\u202e", self.page.evaluate("document.body.innerText"))
        for index in range(len(NAMES)):
            with self.subTest(NAMES[index][:40]):
                self.show("tensor", t=index)
                self.check_unharmed()
                self.assertIn("float32", self.text())

    def test_texts_are_text(self):
        self.show("files")
        self.check_unharmed()
        for path in ("metadata.json", "metadata.toml", "tensors.json"):
            with self.subTest(path):
                self.show("files", file=path)
                self.check_unharmed()

    def test_searches_are_text(self):
        self.show("tensors")
        self.page.press("/")
        self.page.type("<img")
        self.page.wait_for("document.querySelector('main').innerText.includes('onerror')")
        self.page.settle()
        self.check_unharmed()


@needs_chromium
class RunsCode(PageTestCase):
    """What may run code in a model is the first thing that its page says."""

    @classmethod
    def source_of(cls, owner):
        path = owner.path("model.pt")
        pickles.write_checkpoint(path, pickles.dictionary([
            ("weight", pickles.tensor(pickles.storage("Float", "0", 2), (2,))),
            ("hook", pickles.call("os", "system", pickles.text(f"echo {IMAGE}"))),
        ]), [struct.pack("<2f", 1, 2)])
        return path

    def test_alert_names_the_function(self):
        self.show("model")
        self.assertIn("os.system", self.text(".alerts"))
        self.assertTrue(self.page.evaluate("document.querySelector('.alerts').getBoundingClientRect().top"
                                           " < document.querySelector('main table, main dl').getBoundingClientRect().top"))
        self.assertTrue(self.page.evaluate(IS_UNHARMED))


if __name__ == "__main__":
    import unittest
    unittest.main()
