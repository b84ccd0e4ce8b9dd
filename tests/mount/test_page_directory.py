"""The page of a directory of models: the table of `weightfs info DIRECTORY`, cards in a narrow window, and how a comparison
begins."""
import json
import os
import struct
import unittest

from browsing import needs_chromium
from http_serving import HttpServer
from mounting import Tensor, TestCase, numbers
from page_testing import ASSETS, PageTestCase
import demo
import pickles
import stores

NAMES = "[...document.querySelectorAll('.models-table tbody th .name')].map((name) => name.innerText.trim())"
ROW = """(name) => [...document.querySelectorAll('.models-table tbody tr')].find((row) => row.cells[0].innerText.trim() === name)
  ?.innerText.split('\\t').map((text) => text.trim())"""
IS_READ = "document.querySelector('main [role=status]')?.innerText.includes('model')"
IMAGE = "<img src=x onerror=window.hacked=1>"


def matrix(name, size):
    return Tensor(name, "float32", (size, 8), numbers("f", size * 8))


class Models(PageTestCase):
    def show_all(self, view="models", **parameters):
        """Shows a view when all rows are read."""
        self.show(view, **parameters)
        self.page.wait_for(IS_READ)
        self.page.settle()

    def names(self):
        return self.page.evaluate(NAMES)

    def row(self, name):
        return self.page.call(ROW, name)


@needs_chromium
class Directory(Models):
    """Models of different sizes; one damaged, one that runs code, one that cannot be read, a name of an attacker, a directory."""

    @classmethod
    def source_of(cls, owner):
        os.makedirs(owner.path("models/more"))
        metadata = {"general.architecture": "llama", "llama.context_length": 4096}
        owner.sample("models/llama.gguf", demo.ggml_layers(2), "gguf", metadata)
        owner.sample("models/small.safetensors", [matrix("w", 8)])
        owner.sample("models/large.safetensors", [matrix("w", 8192)])
        owner.sample(f"models/{IMAGE}.safetensors", [matrix("w", 16)])
        with open(owner.sample("models/damaged.safetensors", [matrix("w", 32)]), "r+b") as file:
            file.truncate(os.path.getsize(file.name) - 4)
        with open(owner.path("models/broken.gguf"), "wb") as file:
            file.write(b"GGUF\x03\0\0\0")
        pickles.write_checkpoint(owner.path("models/evil.pt"), pickles.dictionary([
            ("weight", pickles.tensor(pickles.storage("Float", "0", 2), (2,))),
            ("hook", pickles.call("os", "system", pickles.text("true"))),
        ]), [struct.pack("<2f", 1, 2)])
        owner.sample("models/more/one.safetensors", [matrix("w", 8)])
        owner.sample("models/more/two.safetensors", [matrix("w", 8)])
        return owner.path("models")

    def test_rows_are_those_of_info(self):
        self.show_all()
        name, kind, parameters, quantised, size, context, state = self.row("llama.gguf")
        entry = json.loads(self.server.get("/.weightfs/api/v1/entry?path=llama.gguf").body)
        self.assertEqual((kind, context, state), (entry["what"], "4,096", ""))
        self.assertRegex(parameters, r"^[\d.]+ [kM]$")
        self.assertEqual(quantised, entry["quantised"])
        self.assertRegex(size, r"^[\d.]+ [KM]iB$")
        self.assertEqual(self.row("more/")[1], "2 entries")
        self.assertRegex(self.text("main [role=status]"), r"^7 models · .*1 damaged · 1 runs code · 1 cannot be read$")

    def test_state_has_its_sentence_on_demand(self):
        self.show_all()
        for name, word, sentence in (("damaged.safetensors", "DAMAGED", "ends"), ("evil.pt", "RUNS CODE", "os.system"),
                                     ("broken.gguf", "cannot be read", "")):
            with self.subTest(name):
                self.assertEqual(self.row(name)[6], word)
                self.page.call("(name) => [...document.querySelectorAll('tr')].find("
                               "(row) => row.cells[0].innerText.trim() === name).querySelector('summary').focus()", name)
                self.page.press("Enter")
                self.page.wait_for(f"({ROW})({json.dumps(name)})[6] !== {json.dumps(word)}")
                self.assertIn(sentence, self.row(name)[6])

    def test_columns_sort_with_the_largest_first(self):
        self.show_all()
        self.assertEqual(self.names()[-2:], ["more/", "small.safetensors"])
        self.page.click("size")
        self.page.wait_for("location.search.includes('sort=size')")
        self.page.wait_for(f"{NAMES}[0] === 'large.safetensors'")
        self.assertEqual(set(self.names()[-2:]), {"more/", "broken.gguf"}, "what has no size comes last")
        self.assertEqual(self.page.evaluate("document.querySelector('th[aria-sort=descending]').innerText.split(' ')[0]"), "size")
        self.page.click("th[aria-sort=descending] button")
        self.page.wait_for("location.search.includes('order=asc')")
        self.assertNotEqual(self.names()[0], "large.safetensors")
        for column in ("kind", "parameters", "quantised", "context", "state", "name"):
            self.page.click(column)
            self.page.wait_for(f"location.search.includes('sort={column}')")

    def test_filter_finds_what_a_row_shows(self):
        self.show_all()
        self.page.press("/")
        self.page.type("damaged")
        self.page.wait_for("location.search.includes('q=damaged')")
        self.page.wait_for(f"{NAMES}.length === 1")
        self.assertEqual(self.names(), ["damaged.safetensors"])
        self.page.press("Escape")
        self.page.wait_for(f"{NAMES}.length === 8")

    def test_directories_are_entered_and_left(self):
        self.show_all()
        self.page.click("more/")
        self.page.wait_for("location.search.includes('dir=more')")
        self.page.wait_for(f"{NAMES}.join() === 'one.safetensors,two.safetensors'")
        self.page.click("all")
        self.page.wait_for(f"{NAMES}.length === 8")
        self.page.settle()

    def test_names_are_text_and_lead_to_their_model(self):
        self.show_all()
        self.assertTrue(self.page.evaluate("window.hacked === undefined && !document.querySelector('main img')"))
        self.page.click(f"{IMAGE}.safetensors")
        self.page.wait_for("new URLSearchParams(location.search).get('model')?.startsWith('<img')")
        self.settle()
        self.assertIn("safetensors", self.text())

    def test_tab_has_the_name_of_what_is_shown(self):
        navigation = "[...document.querySelectorAll('header nav a')].map((each) => each.textContent)"
        self.show_all()
        self.assertEqual(self.page.evaluate(navigation), ["Models", "Compare"])
        self.show(model="small.safetensors")
        self.assertEqual(self.page.evaluate(navigation)[0], "Model")

    def test_narrow_window_has_a_card_for_each_model(self):
        self.page.resize(390, 844)
        self.show_all()
        cards = self.page.evaluate("[...document.querySelectorAll('.card')].map((card) => card.innerText)")
        self.assertEqual(len(cards), 8)
        card = next(card for card in cards if card.startswith("llama.gguf"))
        self.assertRegex(card, "tensors · .* parameters · .*iB · 4,096 tokens")
        self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 390)
        self.page.call("(value) => { const box = document.querySelector('main select'); box.value = value;"
                       " box.dispatchEvent(new Event('change', {bubbles: true})); }", "size")
        self.page.wait_for("document.querySelector('.card').innerText.startsWith('large.safetensors')")

    def test_comparison_begins_with_the_last_opened_model(self):
        self.show_all()
        self.page.click("small.safetensors")
        self.page.wait_for("location.search.includes('model=small')")
        self.settle()
        self.page.click("weightfs")
        self.page.wait_for(f"{NAMES}.length === 8")
        self.page.click("Compare")
        self.page.wait_for_text("A: small.safetensors")
        self.page.wait_for(IS_READ)
        unlinked = self.page.evaluate("[...document.querySelectorAll('.models-table th[scope=row]')]"
                                      ".filter((cell) => !cell.querySelector('a')).map((cell) => cell.innerText)")
        self.assertEqual(unlinked, ["small.safetensors is A"])
        self.page.click("large.safetensors")
        self.page.wait_for("location.search.includes('b=large.safetensors')")
        self.page.wait_for_text("of another shape")
        self.assertEqual(self.page.evaluate("new URLSearchParams(location.search).get('a')"), "small.safetensors")

    def test_comparison_of_nothing_asks_for_both(self):
        self.show_all("compare")
        self.assertIn("Choose the model A", self.text())
        self.page.click("small.safetensors")
        self.page.wait_for_text("Choose the model B")
        self.page.settle()
        self.page.click("Choose another")
        self.page.wait_for_text("Choose the model A")


@needs_chromium
class Store(Models):
    """A store of Ollama: models whose names have several parts."""

    @classmethod
    def source_of(cls, owner):
        store = stores.Store(owner.path("store"))
        for name in ("tiny/latest", "tiny/q8", "other/1b"):
            package = stores.Package().add("model", stores.gguf(owner.tmp, demo.ggml_layers(1)))
            store.put_package(name, package)
        return store.root

    def test_all_models_are_in_one_table(self):
        self.show_all()
        self.assertEqual(self.names(), ["other/1b", "tiny/latest", "tiny/q8"])
        self.assertIn("Tiny", self.text(".models-table"))
        self.assertIn("All in registry.ollama.ai/library/", self.text())
        self.assertRegex(self.text("main [role=status]"), "^3 models")


@needs_chromium
class ManyModels(Models):
    """A thousand models and some more."""

    @classmethod
    def source_of(cls, owner):
        os.mkdir(owner.path("many"))
        path = owner.sample("many/m0.safetensors", [matrix("w", 4)])
        for number in range(1, 1100):
            os.link(path, owner.path(f"many/m{number}.safetensors"))
        return owner.path("many")

    def test_table_of_a_thousand_is_read_and_the_filter_finds_the_rest(self):
        self.show()
        self.page.wait_for("document.querySelector('.models-table tbody td').innerText !== '…'")
        self.assertEqual(len(self.names()), 1000)
        self.assertIn("Only 1,000 entries are listed", self.text())
        self.page.press("/")
        self.page.type("m1099")
        self.page.wait_for(f"{NAMES}.join() === 'm1099.safetensors'")
        self.page.wait_for(IS_READ)
        self.page.settle()


class Entries(TestCase):
    """The rows of the API, without a browser."""

    def test_rows_of_other_paths_are_refused(self):
        os.mkdir(self.path("models"))
        self.sample("models/a.safetensors")
        self.sample("models/b.safetensors")
        with HttpServer(self.path("models"), folder=self.tmp, options=ASSETS) as server:
            for path in ("../../etc", "c.safetensors", "a.safetensors/tensors", ".weightfs"):
                self.assertEqual(server.get(f"/.weightfs/api/v1/entry?path={path}").status, 404, path)
            self.assertEqual(json.loads(server.get("/.weightfs/api/v1/entry?path=a.safetensors").body)["kind"], "model")


if __name__ == "__main__":
    unittest.main()
