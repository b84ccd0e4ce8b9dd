"""A repository of the Hub in llama.cpp, from a mount and over HTTP: its tokens and its probabilities."""
import os
import shutil
import subprocess
import unittest

from http_serving import HttpServer
from mounting import LIMIT_S, MountTestCase, OneMountTestCase, run

import llama_cpp
import tiny_repositories
import tiny_repository

try:
    import numpy
    import forward
except ImportError:
    numpy = None

VIEWS = ("model.gguf", "model.q8_0.gguf")
# Text of several scripts, digits, spaces, lines, punctuation, contractions, emoji, code.
TEXTS = (
    "hello", "hello world", " the world and the nation", "The hello of tests, being was it's that I'LL", "a", "  two  spaces   ",
    "12", "1234567 1,000.50", "12 ½ 00", "été über naïve", "日本語の本 日本", "мир Größe", "🚀 to 🚀🚀 the",
    "line\nline\r\n\n\nline \n", "\t\ttab", "foo_bar(x) == y; // hello", "if (a<b) { return c->d; }",
    "https://example.org/a?b=c&d=%20", "ABC abc AbC aBc ABCdef", "!?.,-'\"", "don't we'll they've", "हिन्दी", "ไทย ข",
    "עברית العربية", "a\u200db", "1st 2nd 3rd", "hello.", "world\u00a0world", "ing tion er",
)
# The SentencePiece model of these puts a space before the text; their tokenizer.json, which is compared, does not.
PREFIXED = ("Phi-3-tiny-128k-instruct", "Tiny-Mistral-7B-v0.3")
COMPUTED = ("Tiny-Llama3-200K-Instruct", "Qwen2.5-Tiny-Instruct", "Qwen3-Tiny", "Tiny-Mixtral-4x100K", "granite-3.3-tiny-base")
TOKENS = [7 * at * at % 281 for at in range(40)]
GENERATED = 12


def texts_for(name, repository):
    """TEXTS, and texts with each added token. Those of Gemma 4 that tokenizer_config.json does not name are ordinary tokens, as the
    converter writes them, which llama.cpp does not find in a text."""
    has_others = name in PREFIXED or name.startswith("gemma-4")
    added = [] if has_others else repository.files.get("tokenizer.json", {}).get("added_tokens", [])
    return [*TEXTS, *(text.replace("#", token["content"]) for token in added for text in ("#hello# world #", "a #\n##b"))]


class Loads(OneMountTestCase):
    """semantics 26.12"""

    @classmethod
    def sources_of(cls, owner):
        for name in tiny_repositories.BUILDERS:
            tiny_repositories.write(owner.path("repositories"), name)
        return [owner.path("repositories")]

    def test_every_repository_loads_and_has_the_tokens_of_its_tokenizer(self):
        jobs, kinds = [], []
        for name, build in tiny_repositories.BUILDERS.items():
            repository = build()
            texts = texts_for(name, repository)
            is_encoder = repository.config["architectures"][0].startswith("Bert")
            work = {"embed": "hello"} if is_encoder else {"tokens": [1, 5, 9, 13]}
            jobs += [llama_cpp.load(os.path.join(self.mnt, name, "views", view), texts=texts, **work) for view in VIEWS]
            kinds += [(name, view, texts) for view in VIEWS]
            if "tokenizer.json" in repository.files:
                space = " " if name in PREFIXED else ""
                jobs.append(llama_cpp.ids(self.owner.path("repositories", name), [space + text for text in texts]))
                kinds.append((name, "tokenizer.json", texts))
        results = llama_cpp.run(self, jobs)
        ids = {(name, kind): result.get("ids") for (name, kind, _), result in zip(kinds, results)}
        self.assertEqual(len(results), len(jobs))
        for (name, kind, texts), result in zip(kinds, results):
            with self.subTest(name, kind=kind):
                self.assertNotIn("error", result)
                expected = ids.get((name, "tokenizer.json"), ids[name, VIEWS[0]])
                self.assertEqual(list(zip(texts, result["ids"])), list(zip(texts, expected)))
                self.assertTrue(kind == "tokenizer.json" or len(result.get("logits", ())) == 4 or result.get("embedding"))


@unittest.skipUnless(numpy, "no NumPy here")
class Computes(MountTestCase):
    """semantics 26.12"""

    def write_repositories(self, names):
        for name in names:
            repository = tiny_repositories.BUILDERS[name]()
            # The converter writes it as rope.scaling.yarn_attn_factor, which llama.cpp v0.5.0 reads for Grok only.
            (repository.config.get("rope_scaling") or {}).pop("attention_factor", None)
            tiny_repository.write(repository, self.path("repositories", name), forward.spread)
        return self.path("repositories")

    def job(self, path, **options):
        return llama_cpp.load(path, tokens=TOKENS, generate=GENERATED, **options)

    def assert_computes(self, result, folder, rounded, tolerance):
        """The probabilities of the whole vocabulary after each token, and the most likely tokens after the last."""
        self.assertNotIn("error", result)
        decoder = forward.Decoder(folder, rounded)
        found, expected = map(forward.log_probabilities, (result["logits"], decoder.logits(TOKENS)))
        self.assertEqual(found.shape, expected.shape)
        self.assertLess(abs(found - expected).max(), tolerance)
        self.assertEqual(found.argmax(-1).tolist(), expected.argmax(-1).tolist())
        # Two tokens may be as likely as rounding lets them be; processors round in other orders.
        made = []
        for token in result["generated"]:
            likely = forward.log_probabilities(decoder.logits([*TOKENS, *made]))[-1]
            self.assertGreaterEqual(likely[token], likely.max() - 2 * tolerance)
            made.append(token)
        self.assertEqual(len(made), GENERATED)

    def test_mounted_repositories_have_the_probabilities_of_their_weights(self):
        folder = self.write_repositories(COMPUTED)
        point = self.mount(folder)
        jobs = []
        for name in COMPUTED:
            view, wide = os.path.join(point, name, "views", "model.gguf"), self.path(name + ".gguf")
            self.assertEqual(run("export", "--dtype", "f32", os.path.join(folder, name), wide).returncode, 0)
            jobs += [self.job(view), self.job(view, mmap=False), self.job(wide)]
        results = llama_cpp.run(self, jobs)
        for name, mapped, read, wide in zip(COMPUTED, results[::3], results[1::3], results[2::3]):
            with self.subTest(name):
                self.assertEqual(mapped, read)
                self.assert_computes(wide, os.path.join(folder, name), lambda values: values, 1e-4)
                self.assert_computes(mapped, os.path.join(folder, name), forward.narrow, 0.05)

    def test_views_of_a_gguf_are_a_repository_that_computes_the_same(self):
        folder = self.write_repositories(COMPUTED)
        os.mkdir(self.path("ggufs"))
        for name in COMPUTED:
            self.assertEqual(run("export", os.path.join(folder, name), self.path("ggufs", name + ".gguf")).returncode, 0)
        point = self.mount(self.path("ggufs"))
        jobs = []
        for name in COMPUTED:
            copy, again = self.path("copies", name), self.path(name + ".again.gguf")
            shutil.copytree(os.path.join(point, name + ".gguf", "views", "hf"), copy)
            done = run("export", copy, again)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            jobs += [self.job(path, texts=TEXTS) for path in (self.path("ggufs", name + ".gguf"), again)]
        results = llama_cpp.run(self, jobs)
        for name, first, again in zip(COMPUTED, results[::2], results[1::2]):
            with self.subTest(name):
                self.assertNotIn("error", first)
                self.assertEqual(again, first)

    def test_served_repository_is_downloaded_and_computes_the_same(self):
        name = COMPUTED[0]
        folder = self.write_repositories([name])
        view = os.path.join(self.mount(folder), name, "views", "model.gguf")
        with HttpServer(folder) as server:
            url = f"{server.url}{name}/views/model.gguf"
            subprocess.run(["curl", "-fsS", "-o", self.path("curl.gguf"), url], check=True, timeout=LIMIT_S)
            downloaded = llama_cpp.run(self, [
                llama_cpp.download(url, self.path("downloads")),
                llama_cpp.download(f"hf:views/{name}/model.gguf", self.path("of-the-hub"), server.url.rstrip("/"))])
        paths = [self.path("curl.gguf"), *(each.get("path", each) for each in downloaded)]
        for path in paths:
            with open(path, "rb") as file, open(view, "rb") as mounted:
                self.assertEqual(file.read(), mounted.read())
        mapped, *others = llama_cpp.run(self, [self.job(each) for each in (view, *paths)])
        self.assertNotIn("error", mapped)
        self.assertEqual(len(mapped["generated"]), GENERATED)
        self.assertEqual(others, [mapped] * len(paths))


if __name__ == "__main__":
    unittest.main()
