"""Whether a model fits into memory: `weightfs info`, the API and the panel of the page (docs/summary.md, section 8)."""
import json
import os
import unittest

from browsing import needs_chromium
from mounting import TestCase, run
from page_testing import PageTestCase
import hollow_ggufs
import known_models
import test_page_access
import tiny_repositories

GIB = 2**30


class Command(TestCase):
    """A Llama of 8 B parameters, without its bytes."""

    def setUp(self):
        super().setUp()
        self.model = self.path("llama.gguf")
        hollow_ggufs.write_llama(self.model)

    def memory(self, *options, source=None):
        done = run("info", "--json", source or self.model, *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout).get("memory")

    def test_json_has_the_memory_only_if_it_is_asked_for(self):
        self.assertIsNone(self.memory())
        self.assertIsNone(self.memory("--tensors"))
        for options in (("--ctx", "8192"), ("--kv-type", "f16"), ("--gpu", "24G"), ("--gpu-layers", "33"), ("--batch", "512")):
            with self.subTest(options):
                memory = self.memory(*options)
                self.assertEqual((memory["context"], memory["layers"], memory["gpu_layers"]), (8192, 33, 33))
                self.assertEqual(memory["gpu"]["kv_cache"], GIB)
                self.assertEqual("fit" in memory, options[0] == "--gpu")
        self.assertEqual(self.memory("--tensors", "--ctx", "8k"), self.memory("--ctx", "8192"))

    def test_options_change_the_answer(self):
        whole = self.memory("--ctx", "32k", "--gpu", "24G")
        self.assertEqual(whole["fit"]["fits"], True)
        self.assertEqual(self.memory("--ctx", "32k", "--kv-type", "q8_0")["gpu"]["kv_cache"], whole["gpu"]["kv_cache"] * 34 // 64)
        some = self.memory("--ctx", "32k", "--gpu", "6G")
        self.assertLess(some["gpu_layers"], 33)
        self.assertLessEqual(some["gpu"]["total"], 6 * GIB)
        self.assertEqual(some["gpu"]["kv_cache"] + some["host"]["kv_cache"], whole["gpu"]["kv_cache"])
        self.assertLess(some["fit"]["largest_context"], 32768)
        few = self.memory("--gpu-layers", "1", "--gpu", "6G")
        self.assertEqual((few["gpu_layers"], few["gpu"]["kv_cache"]), (1, 0))
        self.assertEqual(self.memory("--gpu-layers", "99")["gpu_layers"], 33)
        self.assertGreater(self.memory("--batch", "2048")["gpu"]["compute"], whole["gpu"]["compute"])

    def test_text_is_a_table_and_a_sentence(self):
        for columns in ("80", "40"):
            done = run("info", self.model, "--gpu", "24G", env={**os.environ, "COLUMNS": columns})
            self.assertEqual(done.returncode, 0)
            _, _, text = done.stdout.partition("\nmemory for 8,192 tokens")
            self.assertIn("fits in 24.0 GiB: all 33 layers", text)
            self.assertRegex(text, r"KV cache +1.00 GiB +-\n")
            self.assertLessEqual(max(map(len, text.splitlines())), int(columns))

    def test_larger_context_than_the_models_has_a_warning(self):
        done = run("info", self.model, "--ctx", "200000")
        self.assertIn("warning: 200,000 tokens are more than the 131,072", done.stdout)
        self.assertEqual(len(self.memory("--ctx", "200000")["warnings"]), 1)

    def test_invalid_values_are_refused(self):
        for option, value, expected in (("--ctx", "0", "is not a number of tokens"), ("--ctx", "8q", "is not a number of tokens"),
                                        ("--ctx", "2000000k", "is not a number of tokens"), ("--kv-type", "q4_k", "use f16, "),
                                        ("--gpu", "24", "a number such as 24G"), ("--gpu", "x", "a number such as 24G"),
                                        ("--gpu-layers", "-1", "is not a number of layers"), ("--batch", "0", "is not a number")):
            with self.subTest(option, value=value):
                done = run("info", self.model, option, value)
                self.assertEqual(done.returncode, 2)
                self.assertIn(expected, done.stderr)

    def test_model_that_is_no_text_has_its_weights_and_the_reason(self):
        other = self.sample("model.rten")
        memory = self.memory("--gpu", "24G", source=other)
        self.assertIn("it is not a language model", memory["reason"])
        self.assertEqual(memory["language_model"], False)
        self.assertIn("the rest is not known: it is not a language model", run("info", other, "--gpu", "24G").stdout)

    def test_repository_keeps_what_its_gguf_keeps(self):
        for name in ("Qwen2.5-Tiny-Instruct", "gemma-3-150k-it", "gpt-oss-tiny", "DeepSeek-V2-Tiny-Lite", "qwen3.5-text-sft"):
            tiny_repositories.write(self.path("repositories"), name)
            repository, gguf = self.path("repositories", name), self.path(f"{name}.gguf")
            self.assertEqual(run("cat", repository, "views/model.gguf", "-o", gguf).returncode, 0)
            of_keys, of_config = (self.memory("--gpu", "1G", "--ctx", "600", source=source) for source in (gguf, repository))
            with self.subTest(name):
                self.assertGreater(of_keys["gpu"]["kv_cache"], 0)
                self.assertEqual(of_keys["gpu"]["kv_cache"], of_config["gpu"]["kv_cache"])
                self.assertEqual(of_keys["layers"], of_config["layers"])
                self.assertEqual(of_config["fit"]["fits"], True)

    def test_damaged_model_has_no_number_but_the_reason(self):
        known_models.cut(self.model, 0.5)
        done = run("info", "--json", self.model, "--gpu", "24G")
        self.assertEqual(done.returncode, 5)
        memory = json.loads(done.stdout)["memory"]
        self.assertEqual(sorted(memory), ["language_model", "reason"])
        self.assertRegex(memory["reason"], r"^\d+ of 291 tensors cannot be read$")
        shown = run("info", self.model, "--gpu", "24G").stdout
        self.assertIn(f"\nmemory: not known: {memory['reason']}\n", shown)
        self.assertNotIn("fits in", shown)

    def test_directory_of_models_is_refused(self):
        os.mkdir(self.path("models"))
        for name in ("one", "two"):
            hollow_ggufs.write_llama(self.path("models", f"{name}.gguf"), layers=1)
        done = run("info", self.path("models"), "--gpu", "24G")
        self.assertEqual(done.returncode, 4)
        self.assertIn("a directory of models", done.stderr)


@needs_chromium
class Panel(PageTestCase):
    """A server and the page show the memory of that model."""

    @classmethod
    def source_of(cls, owner):
        hollow_ggufs.write_llama(owner.path("llama.gguf"))
        return owner.path("llama.gguf")

    def get(self, query):
        return self.server.get(f"/.weightfs/api/v1/memory?{query}")

    def test_api_has_the_answer_of_the_command(self):
        response = self.get(f"ctx=4096&kv=q8_0&gpu={8 * GIB}&layers=20&batch=256")
        self.assertEqual(response.status, 200)
        done = run("info", "--json", self.owner.path("llama.gguf"), "--ctx", "4096", "--kv-type", "q8_0", "--gpu", "8G",
                   "--gpu-layers", "20", "--batch", "256")
        self.assertEqual(json.loads(response.body), json.loads(done.stdout)["memory"])
        for query in ("ctx=0", "ctx=x", "kv=q9", "batch=0", "gpu=0", f"ctx={2**40}"):
            self.assertEqual(self.get(query).status, 400, query)

    def choose_gpu(self, size):
        self.page.evaluate(f"(() => {{ const select = document.querySelectorAll('.memory select')[1]; select.value = '{size}';"
                           " select.dispatchEvent(new Event('change', {bubbles: true})); })()")

    def test_slider_and_selects_change_the_sentence(self):
        self.show()
        self.page.wait_for("document.querySelector('.memory [role=status]')")
        self.assertIn("Fits in 8.00 GiB: all 33 layers", self.text(".memory [role=status]"))
        self.assertIn("The output layer counts as one of the 33 layers.", self.text(".memory"))
        self.assertRegex(self.text(".facts"), r"memory\s+5.33 GiB with 8,192 tokens, without buffers")
        self.choose_gpu("24")
        self.page.wait_for("document.querySelector('.memory [role=status]').innerText.startsWith('Fits in 24.0 GiB: all 33 ')")
        slider = "document.querySelector('.memory input')"
        self.assertEqual(self.page.evaluate(f"{slider}.getAttribute('aria-valuetext')"), "8,192 tokens")
        self.page.evaluate(f"{slider}.focus()")
        self.page.press("End")
        self.page.wait_for("document.querySelector('.memory').innerText.includes('131,072 tokens')")
        self.page.wait_for("document.querySelector('.memory table').innerText.includes('16.0 GiB')")
        self.choose_gpu("12")
        self.page.wait_for("document.querySelector('.memory [role=status]').innerText.startsWith('Fits in 12.0 GiB with ')")
        self.assertRegex(self.text(".memory [role=status]"), r"with \d+ of 33 layers, .* left.*; the host needs")
        self.assertIn("GPU", self.text(".memory table"))

    def test_panel_has_no_violation(self):
        with open(os.path.join(test_page_access.VENDOR, "axe.min.js")) as file:
            axe = file.read()
        for dark, width in ((False, 1440), (True, 390)):
            with self.subTest(dark=dark, width=width):
                self.page.resize(width, 900, dark)
                self.show()
                self.page.wait_for("document.querySelector('.memory table')")
                self.page.evaluate(f"{axe};0")
                self.assertEqual(self.page.call(test_page_access.RUN), [], self.page.state())

    def test_panel_fits_a_narrow_window(self):
        self.page.resize(390, 800)
        self.show()
        self.page.wait_for("document.querySelector('.memory table')")
        self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 390)


@needs_chromium
class DamagedPanel(PageTestCase):
    @classmethod
    def source_of(cls, owner):
        hollow_ggufs.write_llama(owner.path("llama.gguf"))
        known_models.cut(owner.path("llama.gguf"), 0.5)
        return owner.path("llama.gguf")

    def test_panel_has_the_sentence_and_no_number(self):
        self.show()
        self.page.wait_for("document.querySelector('.memory [role=status]')")
        self.assertRegex(self.text(".memory"), r"^Memory\s+Not known: \d+ of 291 tensors cannot be read\.$")
        self.assertFalse(self.page.evaluate("Boolean(document.querySelector('.memory table, .memory select'))"))


if __name__ == "__main__":
    unittest.main()
