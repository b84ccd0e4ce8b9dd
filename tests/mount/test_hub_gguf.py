"""A repository of the Hub as a GGUF, byte for byte as llama.cpp's converter writes it, and the reverse."""
import hashlib
import json
import os
import shutil
import subprocess
import unittest

from mounting import WEIGHTFS, TestCase, run

import tiny_repositories

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden", "hub_gguf.json")
# Repositories of which a GGUF has all bytes.
RESTORED = ("Tiny-Llama3-200K-Instruct", "Tiny-Mixtral-4x100K", "Qwen3-Tiny-200K-A100K", "gpt-oss-tiny", "gpt-oss-tiny-BF16",
            "DeepSeek-V2-Tiny-Lite", "GLM-4-tiny-0414", "Phi-3-tiny-128k-instruct", "granite-3.3-tiny-base", "gemma-4-tiny-A1B",
            "OLMo-2-tiny")
# Fields of config.json that contradict the tensors, or what llama.cpp computes, and a part of the reason.
CONTRADICTIONS = (
    ("Tiny-Llama3-200K-Instruct", {"hidden_act": "gelu"}, "llama.cpp computes llama with silu, config.json states gelu"),
    ("Tiny-Llama3-200K-Instruct", {"rope_scaling": {"rope_type": "foo", "factor": 2}}, "llama has no rope_type foo"),
    ("Tiny-Llama3-200K-Instruct", {"partial_rotary_factor": 0.5}, "config.json states 0.5"),
    ("Tiny-Llama3-200K-Instruct", {"head_dim": 999}, "blk.0.attn_q.weight has 64 rows, config.json states 3996"),
    ("Tiny-Llama3-200K-Instruct", {"hidden_size": 60}, "config.json states 60 (hidden_size)"),
    ("Tiny-Llama3-200K-Instruct", {"intermediate_size": 96}, "config.json states 96 (intermediate_size)"),
    ("Tiny-Llama3-200K-Instruct", {"num_hidden_layers": 2}, "config.json states 2 layers"),
    ("Tiny-Llama3-200K-Instruct", {"num_hidden_layers": 4}, "layer 3 of 4 has no tensors"),
    ("Tiny-Llama3-200K-Instruct", {"num_hidden_layers": 2**63}, "num_hidden_layers is not an integer"),
    ("Tiny-Llama3-200K-Instruct", {"num_hidden_layers": -1}, "num_hidden_layers is not an integer"),
    ("Tiny-Llama3-200K-Instruct", {"vocab_size": 10**9}, "at most 2,000,000 are supported"),
    ("Tiny-Llama3-200K-Instruct", {"rms_norm_eps": "small"}, "rms_norm_eps"),
    ("tiny-llama3.2-tied", {"tie_word_embeddings": False}, "lm_head.weight is missing"),
    ("Qwen3-Tiny-200K-A100K", {"norm_topk_prob": False}, "llama.cpp computes qwen3moe with norm_topk_prob"),
    ("gemma-3-150k-it", {"query_pre_attn_scalar": 10}, "a query_pre_attn_scalar of 32"),
    ("Tiny-Mixtral-4x100K", {"num_local_experts": 0}, "no number of experts"),
)
VIEWS = {"auto": "model.gguf", "q8_0": "model.q8_0.gguf"}


def converted():
    """What the converter writes (llama.cpp v0.5.0): by "NAME TYPE"."""
    with open(GOLDEN, encoding="utf-8") as file:
        return json.load(file)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def tensors(content):
    """The tensors of a safetensors file: type, shape and bytes by name."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], content[end + entry["data_offsets"][0]:end + entry["data_offsets"][1]])
            for name, entry in header.items()}


class HubTestCase(TestCase):
    def repository(self, name):
        shutil.rmtree(self.path(name), ignore_errors=True)
        return tiny_repositories.write(self.path("."), name)

    def bytes_of(self, *argv):
        done = subprocess.run([WEIGHTFS, *argv], stdin=subprocess.DEVNULL, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""), argv)
        return done.stdout


class AsGguf(HubTestCase):
    def test_every_repository_in_every_type_equals_the_converter(self):
        folders, expected = {}, converted()
        self.assertGreater(len(expected), 100)
        for key, entry in expected.items():
            if "deviates" in entry:
                continue
            name, dtype = key.split(" ")
            if name not in folders:
                folders[name] = self.repository(name)
            with self.subTest(key):
                content = self.bytes_of("export", "--to", "gguf", "--dtype", dtype, folders[name], "-")
                found = {"size": len(content), "sha256": sha256(content),
                         "header_sha256": sha256(content[:entry["data_offset"]])}
                self.assertEqual(found, {member: entry[member] for member in found})

    def test_heads_without_their_size_have_that_of_the_class(self):
        """Gemma 3 of 12B states the numbers of its heads, and not their size of 256."""
        folder = self.repository("gemma-3-tiny-defaults")
        before = self.bytes_of("export", "--to", "gguf", folder, "-")
        path = os.path.join(folder, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config.get("text_config", config).update(num_attention_heads=8, num_key_value_heads=4)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        self.assertEqual(self.bytes_of("export", "--to", "gguf", folder, "-"), before)

    def test_views_are_the_exports(self):
        folder = self.repository("Tiny-Llama3-200K-Instruct")
        for dtype, view in VIEWS.items():
            with self.subTest(view):
                self.assertEqual(self.bytes_of("cat", folder, "views/" + view),
                                 self.bytes_of("export", "--to", "gguf", "--dtype", dtype, folder, "-"))

    def test_split_files_have_the_tensors_and_the_keys(self):
        folder = self.repository("Tiny-Llama3-200K-Instruct")
        whole, split = self.path("whole.gguf"), self.path("split")
        self.assertEqual(run("export", folder, whole).returncode, 0)
        self.assertEqual(run("export", "--to", "gguf", "--shard-size", "100K", folder, split).returncode, 0)
        names = sorted(os.listdir(split))
        self.assertEqual(names, [f"model-0000{i + 1}-of-0000{len(names)}.gguf" for i in range(len(names))])
        self.assertGreater(len(names), 2)
        done = run("diff", "--json", whole, os.path.join(split, names[0]))
        found = json.loads(done.stdout)
        self.assertEqual([found[member] for member in ("missing", "added", "renamed", "changed")], [[]] * 4)


class Refused(HubTestCase):
    """Never a file that loads and is wrong: no view, and no export."""

    def edited(self, name, edit, file="config.json"):
        folder = self.repository(name)
        path = os.path.join(folder, file)
        with open(path, encoding="utf-8") as stream:
            content = json.load(stream)
        edit(content)
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(content, stream)
        return folder

    def assert_refused(self, folder, reason):
        done = run("export", "--to", "gguf", folder, self.path("out.gguf"))
        self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
        self.assertIn(reason, done.stderr)
        self.assertFalse(os.path.exists(self.path("out.gguf")))
        views = self.bytes_of("ls", folder + "", "views").decode()
        self.assertNotIn("model.gguf", views)
        self.assertIn(reason, self.bytes_of("cat", folder, "views/warnings.txt").decode())

    def test_unknown_class(self):
        self.assert_refused(self.edited("Qwen3-Tiny", lambda config: config.update(architectures=["FooForCausalLM"])),
                            "FooForCausalLM")

    def test_quantised_by_another_program(self):
        self.assert_refused(self.edited("Qwen3-Tiny", lambda config: config.update(quantization_config={"quant_method": "awq"})),
                            "the tensors are quantised by awq (quantization_config); GGUF has no such type")

    def test_field_that_llama_cpp_needs(self):
        self.assert_refused(self.edited("Tiny-Llama3-200K-Instruct", lambda config: config.pop("hidden_size")), "hidden_size")

    def test_heads_that_do_not_divide_the_rows(self):
        self.assert_refused(self.edited("Tiny-Llama3-200K-Instruct", lambda config: config.update(num_attention_heads=7)), "7")

    def test_no_heads(self):
        self.assert_refused(self.edited("Tiny-Llama3-200K-Instruct", lambda config: config.update(num_attention_heads=0)), "heads")

    def test_missing_experts(self):
        self.assert_refused(self.edited("Qwen3-Tiny-200K-A100K", lambda config: config.update(num_experts=64)),
                            "of layer 0 are missing")

    def test_contradictions(self):
        """llama.cpp would compute another model, or refuse the file."""
        for name, fields, reason in CONTRADICTIONS:
            with self.subTest(fields):
                self.assert_refused(self.edited(name, lambda config, fields=fields: config.update(fields)), reason)

    def test_some_tensors(self):
        folder = self.repository("Qwen3-Tiny")
        done = run("export", "--to", "gguf", "--tensors", "lm_head*", folder, self.path("out.gguf"))
        self.assertEqual(done.returncode, 4)
        self.assertIn("use --names hf", done.stderr)

    def test_names_of_the_repository_on_demand(self):
        folder, out = self.repository("Qwen3-Tiny"), self.path("out.gguf")
        self.assertEqual(run("export", "--names", "hf", folder, out).returncode, 0)
        self.assertIn("model.embed_tokens.weight", run("ls", out, "tensors").stdout)


class AsHub(HubTestCase):
    def test_tensors_of_a_gguf_are_those_of_the_repository(self):
        for name in RESTORED:
            with self.subTest(name):
                folder, gguf = self.repository(name), self.path(name + ".gguf")
                self.assertEqual(run("export", folder, gguf).returncode, 0)
                again = tensors(self.bytes_of("cat", gguf, "views/hf/model.safetensors"))
                stored = {}
                for file in sorted(os.listdir(folder)):
                    if file.endswith(".safetensors"):
                        with open(os.path.join(folder, file), "rb") as stream:
                            stored.update(tensors(stream.read()))
                self.assertEqual(sorted(again), sorted(stored))
                for tensor, content in stored.items():
                    self.assertEqual(again[tensor], content, tensor)

    def test_small_weights_of_norms_are_lost_in_the_sum(self):
        folder, gguf = self.repository("gemma-3-150k-it"), self.path("gemma.gguf")
        self.assertEqual(run("export", folder, gguf).returncode, 0)
        done = run("diff", "--stat", "--json", "--names", "as-stored", folder, gguf)
        self.assertEqual(done.returncode, 1)
        again, stored = (self.bytes_of("cat", *argv) for argv in (
            (gguf, "views/hf/model.safetensors"), (folder, "files/model.safetensors")))
        before, after = tensors(stored), tensors(again)
        self.assertEqual(sorted(before), sorted(after))
        for name, (dtype, shape, content) in before.items():
            self.assertEqual(after[name][:2], (dtype, shape), name)
            if not name.endswith("norm.weight"):
                self.assertEqual(after[name][2], content, name)


class Diff(HubTestCase):
    def test_quantised_file_is_compared_by_meaning(self):
        folder, gguf = self.repository("Tiny-Llama3-200K-Instruct"), self.path("q8_0.gguf")
        self.assertEqual(run("export", "--dtype", "q8_0", folder, gguf).returncode, 0)
        done = run("diff", "--stat", "--json", folder, gguf)
        found = json.loads(done.stdout)
        self.assertEqual((done.returncode, found["missing"], found["added"], found["metadata"]), (1, [], [], []))
        self.assertIn("tensors are compared by their names and values in a GGUF", done.stderr)
        errors = {entry["name"]: entry["stat"]["relative_error"] for entry in found["changed"]}
        self.assertLess(errors["blk.0.attn_q.weight"], 0.007)
        self.assertGreater(errors["blk.0.attn_q.weight"], 0.004)
        self.assertEqual(run("diff", "--min-snr", "40", gguf, folder).returncode, 0)

    def test_figures_against_the_repository(self):
        folder, gguf = self.repository("Tiny-Llama3-200K-Instruct"), self.path("q8_0.gguf")
        self.assertEqual(run("export", "--dtype", "q8_0", folder, gguf).returncode, 0)
        compared = json.loads(run("diff", "--stat", "--json", folder, gguf).stdout)
        differing = {entry["name"]: entry["stat"] for entry in compared["changed"]}
        for reference, model, side in ((folder, gguf, "reference"), (gguf, folder, "model")):
            done = run("stats", "--json", "--against", reference, model)
            found = json.loads(done.stdout)
            self.assertEqual((done.returncode, found["missing"], found["mapped_names"]), (0, [], {"source": side, "unmapped": 0}))
            self.assertIn(f"{folder}: tensors are compared by their names and values in a GGUF", done.stderr)
            stats = {entry["name"]: entry["stat"] for entry in found["tensors"]}
            self.assertEqual(sorted(stats), self.bytes_of("ls", gguf, "tensors").decode().split())
            for name, stat in stats.items():
                self.assertEqual(stat["max"], differing[name]["max"] if name in differing else 0, name)
            self.assertEqual([layer["name"] for layer in found["layers"]], ["blk.0", "blk.1", "blk.2"])
        stored = json.loads(run("stats", "--json", "--names", "as-stored", "--against", folder, gguf).stdout)
        self.assertEqual({entry["no_stat"] for entry in stored["tensors"]}, {"not in the reference"})
        self.assertGreater(len(stored["missing"]), 25)

    def test_reason_why_names_are_not_mapped(self):
        folder, gguf = self.repository("Tiny-Llama3-200K-Instruct"), self.path("auto.gguf")
        self.assertEqual(run("export", "--to", "gguf", folder, gguf).returncode, 0)
        config = self.path(folder, "config.json")
        with open(config) as file:
            document = json.load(file)
        other = "the repository would be a GGUF of \"qwen2\", and the architecture of the GGUF is \"llama\""
        for architecture, reason in (("Qwen2ForCausalLM", other), ("NewForCausalLM", "NewForCausalLM")):
            with open(config, "w") as file:
                json.dump({**document, "architectures": [architecture], "model_type": "new"}, file)
            for argv in (("diff", "--json", folder, gguf), ("stats", "--json", "--against", gguf, folder)):
                with self.subTest(architecture=architecture, command=argv[0]):
                    done = run(*argv)
                    self.assertIn(": tensors are compared by the names that both store: ", done.stderr)
                    self.assertIn(reason, done.stderr)
                    self.assertIn(reason, json.loads(done.stdout)["names_not_mapped"])
                    stored = run(argv[0], "--names", "as-stored", *argv[1:])
                    self.assertNotIn("names_not_mapped", json.loads(stored.stdout))
                    self.assertNotIn("the names that both store", stored.stderr)

    def test_overview_of_the_deviation(self):
        folder, gguf, picture = self.repository("Tiny-Llama3-200K-Instruct"), self.path("q8_0.gguf"), self.path("snr.png")
        self.assertEqual(run("export", "--dtype", "q8_0", folder, gguf).returncode, 0)
        done = run("plot", "--against", gguf, "--metric", "snr", "-o", picture, folder)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIn("tensors are compared by their names and values in a GGUF", done.stderr)

    def test_names_as_stored(self):
        folder, gguf = self.repository("Tiny-Llama3-200K-Instruct"), self.path("auto.gguf")
        self.assertEqual(run("export", folder, gguf).returncode, 0)
        found = json.loads(run("diff", "--json", "--names", "as-stored", folder, gguf).stdout)
        self.assertGreater(len(found["missing"]), 10)

    def test_every_architecture_is_equal_to_its_gguf(self):
        for key, entry in converted().items():
            name, dtype = key.split(" ")
            if dtype != "f32" or name.startswith(("Qwen3.5", "qwen3.5")):
                continue
            with self.subTest(name):
                folder, gguf = self.repository(name), self.path(name + ".gguf")
                if run("export", "--dtype", "f32", folder, gguf).returncode != 0:
                    continue  # the tokenizer is refused
                found = json.loads(run("diff", "--stat", "--json", folder, gguf).stdout)
                self.assertEqual((found["missing"], found["added"]), ([], []))
                self.assertEqual([entry for entry in found["changed"] if entry["stat"]["relative_error"] != 0], [])


if __name__ == "__main__":
    unittest.main()
