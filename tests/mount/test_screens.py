"""Screens of the terminal at 40, 80 and 120 columns, as files in golden/screens: what a person sees first."""
import os
import re
import struct
import unittest
import zipfile

import goldens
from mounting import Tensor, TestCase, on_terminal, run
import every_format
import known_models


def without_times(shown):
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-01-31 12:00", shown)


class Screens(TestCase):
    def check(self, name, *argv, status=0, cwd=None, keep=lambda shown: shown):
        def shown_at(width):
            return keep(on_terminal(*argv, columns=width, status=status, cwd=cwd, LC_ALL="C.UTF-8"))
        goldens.check_widths(self, f"screens/{name}", shown_at)

    def test_language_model(self):
        path = self.path("Llama-3.1-8B-Instruct-Q4_K_M.gguf")
        known_models.llama_gguf(path)
        self.check("info-llama", "info", path)
        known_models.cut(path, 0.6)
        self.check("info-cut", "info", path, status=5)

    def test_mixture_of_experts(self):
        known_models.mixtral(self.path("Mixtral-8x7B-v0.1"))
        self.check("info-mixtral", "info", self.path("Mixtral-8x7B-v0.1"))

    def test_diffusion_checkpoint_and_lora(self):
        known_models.sdxl(self.path("myMergeXL_v2.safetensors"))
        self.check("info-sdxl", "info", self.path("myMergeXL_v2.safetensors"))
        known_models.kohya_lora(self.path("ohwx-dog.safetensors"))
        self.check("info-lora", "info", self.path("ohwx-dog.safetensors"))

    def test_list_of_tensors(self):
        known_models.llama_gguf(self.path("m.gguf"), layers=2)
        self.check("info-tensors", "info", "--tensors", self.path("m.gguf"))

    def test_directory(self):
        os.makedirs(self.path("models"))
        for quantisation in ("Q2_K", "Q4_K_M", "Q8_0"):
            known_models.llama_gguf(self.path("models", f"Llama-3.1-8B-Instruct-{quantisation}.gguf"), layers=2)
        known_models.cut(self.path("models", "Llama-3.1-8B-Instruct-Q8_0.gguf"), 0.9)
        self.check("info-quantisations", "info", self.path("models"), status=5)
        known_models.sdxl(self.path("models", "myMergeXL_v2.safetensors"))
        known_models.kohya_lora(self.path("models", "ohwx-dog.safetensors"))
        known_models.mixtral(self.path("models", "Mixtral-8x7B-v0.1"), layers=1)
        self.check("info-directory", "info", self.path("models"), status=5)

    def layers(self, name, change):
        tensors = [Tensor("model.embed_tokens.weight", "float32", (4, 8), struct.pack("<32f", *range(32)))]
        for layer in range(3):
            for module, rows in (("self_attn.q_proj", 4), ("self_attn.k_proj", 4), ("mlp.down_proj", 6),
                                 ("post_attention_layernorm", 2)):
                numbers = [i % 5 / 4 - 0.5 + (change if layer == 1 and i == 9 else 0) for i in range(rows * 8)]
                data = struct.pack(f"<{rows * 8}f", *numbers)
                tensors.append(Tensor(f"model.layers.{layer}.{module}.weight", "float32", (rows, 8), data))
        return self.sample(name, tensors, metadata={f"key{i}": name for i in range(5)})

    def test_stats_and_diff(self):
        a, b = self.layers("a.safetensors", 0), self.layers("b.safetensors", 0.25)
        self.check("stats", "stats", a)
        self.check("diff", "diff", a, b, status=1)
        self.check("diff-stat", "diff", "--stat", a, b, status=1)

    def test_numbers_of_names_that_are_longer_than_the_terminal(self):
        names = [tensor.name for tensor in known_models.sdxl_tensors() if ".attn2." in tensor.name or "conditioner" in tensor.name]
        tensors = [Tensor(name, "float32", (1, 2), struct.pack("<2f", 1, -1)) for name in names[::40]]
        self.check("stats-sdxl", "stats", self.sample("sdxl.safetensors", tensors))

    # A file with buffers, segments or boosters in it is one file.
    def test_single_file_is_counted_as_one(self):
        every_format.write_models(self.path("formats"))
        for name in ("Tflite", "ExecutorchProgram", "ExecutorchData", "PickleOfABooster", "Safetensors"):
            with self.subTest(name):
                self.assertRegex(run("info", self.path("formats", f"{name}.model")).stdout, r"\n  files +1(;|\n)")

    def verify(self, name, *argv, status=0):
        self.check(name, "verify", *argv, status=status, cwd=self.tmp)

    # semantics 8.5
    def test_verdicts(self):
        os.makedirs(self.path("models"))
        self.sample("models/a.safetensors")
        self.verify("verify", "models/a.safetensors")
        known_models.llama_gguf(self.path("models", "b.gguf"), layers=2)
        known_models.cut(self.path("models", "b.gguf"), 0.9)
        self.verify("verify-cut", "models/b.gguf", status=5)
        self.write("models/evil.pkl", b"cos\nsystem\n(S'true'\ntR.")
        self.verify("verify-code", "models/evil.pkl")
        self.verify("verify-directory", "models", status=5)

    def test_cache(self):
        self.check("cache-empty", "cache", "ls")
        with zipfile.ZipFile(self.path("m.zip"), "w", zipfile.ZIP_DEFLATED) as file:
            file.write(self.sample(), "m.safetensors")
            file.writestr("dir/weights.bin", bytes(5_000_000))
        self.assertEqual(run("cat", self.path("m.zip"), "files/dir/weights.bin", "-o", self.path("out")).returncode, 0)
        self.check("cache", "cache", "ls", keep=without_times)

    def test_doctor_fits_each_width(self):
        """What it finds depends on the machine, so there is no golden. A path is not broken."""
        for width in (40, 80, 120):
            shown = on_terminal("doctor", columns=width, LC_ALL="C.UTF-8")
            self.assertRegex(shown, r"seccomp\s+(verdict: )?ok\s+(found: )?available")
            self.assertEqual([line for line in shown.splitlines() if len(line) > width and "/" not in line], [])


if __name__ == "__main__":
    unittest.main()
