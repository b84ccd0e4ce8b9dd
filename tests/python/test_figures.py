"""Statistics, differences, selections of tensors and state dicts."""
import dataclasses
import importlib.util
import json
import math
import os
import pickle
import struct
import sys
import types
import unittest
import unittest.mock

from python_testing import PythonTestCase, numpy, run, weightfs
from mounting import Hole, MountTestCase
from tensors import Tensor
import demo
import tiny_repositories
import weightfs._statistics


def figures_of(source, *options):
    """The tensors of `weightfs stats --json`, by their names."""
    return {entry["name"]: entry for entry in json.loads(run("stats", "--json", *options, source).stdout)["tensors"]}


class Selections(PythonTestCase):
    def model(self):
        return self.open(self.sample("q.gguf", demo.ggml_layers(2), "gguf"))

    def test_pattern_is_a_mapping_of_the_tensors_that_match(self):
        model = self.model()
        chosen = model["blk.0.*"]
        self.assertEqual(list(chosen), [name for name in model if name.startswith("blk.0.")])
        self.assertEqual((len(chosen), type(chosen), repr(chosen)),
                         (5, weightfs.Selection, f"<weightfs.Selection 'blk.0.*' of {model.source!r}: 5 tensors>"))
        self.assertEqual(chosen["blk.0.attn_q.weight"].tobytes(), model["blk.0.attn_q.weight"].tobytes())
        self.assertIs(chosen.tensor("blk.0.attn_q.weight"), model.tensor("blk.0.attn_q.weight"))
        self.assertEqual([name for name, array in chosen.items() if array.shape == (32,)], ["blk.0.attn_norm.weight"])
        self.assertEqual(list(chosen["*attn_?.weight"]), [f"blk.0.attn_{each}.weight" for each in "qkv"])
        self.assertEqual(list(model["blk.[!0].attn_[kv].*"]), ["blk.1.attn_k.weight", "blk.1.attn_v.weight"])
        self.assertEqual(list(model.select("output*", "token_embd.weight")), ["token_embd.weight", "output_norm.weight"])
        self.assertEqual((len(model.select()), len(model["*"])), (len(model), len(model)))
        self.assertNotIn("blk.1.attn_q.weight", chosen)
        self.assertEqual((chosen == model["blk.0.*"], "blk.*" in model, model.get("blk.*", 7)), (False, False, 7))
        self.assertEqual([tensor.key for tensor in chosen.tensors()], list(chosen))

    def test_pattern_without_a_match_is_not_found(self):
        model = self.model()
        for wrong in (lambda: model["nothing.*"], lambda: model["blk.0.*"]["blk.1.*"], lambda: model.select("*", "nothing")):
            self.assertRaisesRegex(weightfs.NotFound, "q.gguf: no tensor matches", wrong)
        for name in ("nothing", 0):
            with self.assertRaisesRegex(KeyError, f"no tensor {name!r}"):
                model[name]
        chosen = model["*"]
        model.close()
        for wrong in (lambda: model["*"], lambda: chosen["blk.0.*"], lambda: chosen["blk.0.attn_q.weight"], chosen.state_dict):
            self.assertRaisesRegex(weightfs.Error, "the model is closed", wrong)

    def test_tensor_with_the_name_of_a_pattern_is_that_tensor(self):
        names = ("*", "a[0]", "a0", "a?")
        model = self.open(self.sample(tensors=[Tensor(name, "int8", (1,), bytes([at])) for at, name in enumerate(names)]))
        self.assertEqual([int(model[name][0]) for name in names], [0, 1, 2, 3])
        self.assertEqual((list(model["a[0-9]"]), list(model.select("*"))), (["a0"], list(names)))
        self.assertEqual(dict(model).keys(), set(names))

    def test_selection_keeps_its_model(self):
        chosen = weightfs.open(self.sample("q.gguf", demo.ggml_layers(1), "gguf"))["*attn_q*"]
        self.assertEqual(chosen["blk.0.attn_q.weight"].dtype, numpy.float32)
        chosen._origin.close()


class StateDicts(PythonTestCase):
    def test_arrays_are_those_of_the_model(self):
        model = self.open(self.sample(tensors=demo.hugging_face_layers(1)))
        with unittest.mock.patch.dict(sys.modules, ml_dtypes=None):
            found = model.state_dict()
            self.assertEqual((list(found), {array.dtype.name for array in found.values()}), (list(model), {"float32"}))
            for name, array in found.items():
                numpy.testing.assert_array_equal(array, model[name])
            self.assertEqual(list(model["*norm*"].state_dict()), list(model["*norm*"]))

    def test_other_framework_is_refused_before_bytes_are_read(self):
        model = self.open(self.sample("q.gguf", demo.ggml_layers(1), "gguf"))
        with self.assertRaisesRegex(ValueError, 'framework is "numpy" or "torch", not \'jax\''):
            model.state_dict("jax")
        with unittest.mock.patch.dict(sys.modules, torch=None):
            self.assertRaises(ImportError, model.state_dict, framework="torch")
        self.assertEqual(os.listdir(self.sockets), [])

    def test_refused_tensor_is_not_left_out(self):
        source = self.cut()
        with self.assertWarns(weightfs.IncompleteWarning):
            model = self.open(source)
        self.assertRaisesRegex(weightfs.Refused, "short", model.state_dict)
        self.assertEqual(list(model.select("whole").state_dict()), ["whole"])

    def cut(self):
        source = self.sample(tensors=[Tensor("whole", "int8", (4,), bytes(4)), Tensor("short", "int8", (8,), bytes(8))])
        os.truncate(source, os.path.getsize(source) - 4)
        return source

    def test_types_of_torch_are_those_of_the_tensors(self):
        """With a double of torch that records what it is given."""
        class Given:
            def __init__(self, array):
                self.array = array

            def view(self, wanted):
                return self.array, wanted

        model = self.open(self.sample(tensors=demo.hugging_face_layers(1)))
        double = types.SimpleNamespace(from_numpy=Given, bfloat16="torch.bfloat16", __version__="double")
        with unittest.mock.patch.dict(sys.modules, torch=double):
            found = model.state_dict("torch")
        bits, wanted = found["model.layers.0.self_attn.q_proj.weight"]
        self.assertEqual((bits.dtype, wanted, found["model.norm.weight"].array.dtype),
                         (numpy.int16, "torch.bfloat16", numpy.float32))
        self.assertEqual(bits.tobytes(), model.tensor("model.layers.0.self_attn.q_proj.weight").raw().tobytes())

    @unittest.skipUnless(importlib.util.find_spec("torch"), "python3-torch is not installed")
    def test_module_of_torch_loads_the_tensors(self):
        import torch
        module = torch.nn.Linear(32, 32, bias=False, dtype=torch.bfloat16)
        model = self.open(self.sample(tensors=[demo.bfloat16("weight", 32, 32)]))
        module.load_state_dict(model.state_dict(framework="torch"))
        self.assertTrue(torch.equal(module.weight.detach().float(), torch.from_numpy(model.tensor("weight").float32())))


class Statistics(MountTestCase, PythonTestCase):
    def tensors(self):
        return [*demo.ggml_layers(1), Tensor("nan", "float32", (2, 2), struct.pack("<4f", math.nan, math.inf, 0, 3)),
                Tensor("none", "float32", (0, 4), b"")]

    def test_figures_are_those_of_the_command(self):
        source = self.sample("q.gguf", self.tensors(), "gguf")
        model = self.open(source)
        for options, words in (({}, ()), ({"exact": True}, ("--exact",))):
            expected = figures_of(source, *words)
            for found in model.stats(**options):
                with self.subTest(found.name, **options):
                    wanted = expected.pop(found.name)
                    for name, value in wanted.items():
                        if name == "percentiles":
                            value = {float(share): number for share, number in value.items()}
                        shown = getattr(found, name)
                        self.assertEqual(list(shown) if name == "shape" else shown, value, name)
                    self.assertEqual((found.error, found.sample, found.elements), (None, False, found.count))
            self.assertEqual(expected, {})
        self.assertAlmostEqual(model.tensor("blk.0.attn_q.weight").stats().std, float(model["blk.0.attn_q.weight"].std()), 7)
        self.assertEqual(model.tensor("blk.0.attn_q.weight").stats().percentiles[50],
                         float(numpy.median(model["blk.0.attn_q.weight"].astype(float))))
        self.assertEqual([each.name for each in model["*attn*"].stats()], list(model["*attn*"]))

    def test_figures_are_computed_when_the_iterator_comes_to_them(self):
        model = self.open(self.sample("q.gguf", demo.ggml_layers(1), "gguf"))
        with unittest.mock.patch("weightfs._statistics.read_object", wraps=weightfs._statistics.read_object) as read:
            figures = model.stats()
            self.assertEqual(read.call_count, 0)
            first = next(figures)
            self.assertEqual((first.name, read.call_count), ("token_embd.weight", 1))
            self.assertRegex(repr(first), r"^<weightfs.Statistics 'token_embd.weight': min -0.09\d+, max .*, std [0-9.]+>$")
        self.assertRaises(ValueError, model.stats, sample=True, exact=True)
        model.close()
        self.assertRaises(weightfs.Error, next, figures)
        self.assertRaises(weightfs.Error, model.stats)

    def test_figures_of_a_sample_are_marked(self):
        model = self.open(self.sample(tensors=[Tensor("large", "float32", (2048, 2048), Hole(1 << 24))]))
        figures = model.tensor("large").stats(sample=True)
        self.assertEqual((figures.sample, figures.count, figures.elements, figures.rows), (True, 131072, 1 << 22, None))
        self.assertIn("of a sample: 131,072 of 4,194,304 elements", repr(figures))
        self.assertFalse(model.tensor("large").stats().sample)

    def test_tensors_without_figures_have_the_reason(self):
        demo.write_demo(self.path("demo"))
        model = self.open(self.path("demo", "demo.carton"))
        found = {each.name: each for each in model.stats()}
        self.assertEqual(set(found), set(model))
        self.assertIn("no numbers", found["digits"].error)
        self.assertEqual((found["digits"].count, found["digits"].min), (0, None))
        self.assertIsNone(found["pixels"].error)
        with self.assertRaisesRegex(weightfs.Refused, "no numbers"):
            model.tensor("digits").stats()

    def test_refused_tensor_has_the_sentence_of_the_program(self):
        source = self.sample(tensors=[Tensor("whole", "int8", (4,), bytes(4)), Tensor("short", "int8", (8,), bytes(8))])
        os.truncate(source, os.path.getsize(source) - 4)
        with self.assertWarnsRegex(weightfs.IncompleteWarning, "the file ends 4 bytes early: 1 of 2 tensors refused"):
            model = self.open(source)
        whole, short = model.stats()
        self.assertEqual((whole.error, whole.count), (None, 4))
        for sentence in (short.error, self.refusal(model.tensor("short").numpy), self.refusal(model.tensor("short").stats)):
            self.assertRegex(sentence, "short.*4 bytes left, 8 needed|the file ends 4 bytes early")

    def refusal(self, read):
        with self.assertRaises(weightfs.Refused) as caught:
            read()
        return str(caught.exception)

    def test_figures_of_a_mount_are_those_of_the_container(self):
        source = self.sample("q.gguf", self.tensors(), "gguf")
        mounted, direct = self.open(self.mount(source)), self.open(source)
        for found, wanted in zip(mounted.stats(), direct.stats()):
            self.assertEqual(dataclasses.replace(found, scales=None, minimums=None, distinct=None),
                             dataclasses.replace(wanted, scales=None, minimums=None, distinct=None))
        direct.close()
        self.assertEqual(os.listdir(self.sockets), [])

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "python3-pandas is not installed")
    def test_figures_are_a_table_of_pandas(self):
        import pandas
        table = pandas.DataFrame(self.open(self.sample("q.gguf", demo.ggml_layers(1), "gguf")).stats())
        self.assertEqual((table["name"][0], len(table), int(table["count"].sum())), ("token_embd.weight", 7, 65536 + 4096 + 64))

    def test_replaced_container_is_changed(self):
        source = self.sample("q.gguf", demo.ggml_layers(1), "gguf")
        model = self.open(source)
        self.sample("new", demo.ggml_layers(1), "gguf")
        os.rename(self.path("new"), source)
        self.assertRaises(weightfs.Changed, list, model.stats())
        self.assertRaises(weightfs.Changed, model.diff, source)


class Differences(PythonTestCase):
    def pair(self):
        def write(name, values):
            return self.sample(name, [Tensor(key, "float32", (len(data),), struct.pack(f"<{len(data)}f", *data))
                                      for key, data in values.items()])
        return (write("a.safetensors", {"same": (1, ), "h.0.w": (3, 4), "gone": (1,), "old": (7, 8, 9), "shape": (1,)}),
                write("b.safetensors", {"h.0.w": (3, 4.5), "same": (1,), "new": (7, 8, 9), "shape": (1, 2), "added": (5, 5)}))

    def test_difference_is_that_of_the_command(self):
        a, b = self.pair()
        model = self.open(a)
        found = model.diff(b)
        self.assertEqual((found.a, found.b, found.equal, found.complete, found.notes), (a, b, False, True, ()))
        self.assertEqual([[each.name for each in each_list] for each_list in (found.missing, found.added)], [["gone"], ["added"]])
        self.assertEqual([(each.name, each.new_name, each.type.shape) for each in found.renamed], [("old", "new", (3,))])
        changed = {each.name: each for each in found.changed}
        self.assertEqual([(name, each.change) for name, each in changed.items()], [("h.0.w", "bytes"), ("shape", "type")])
        self.assertEqual((changed["shape"].deviation, changed["shape"].no_deviation), (None, "another shape"))
        self.assertEqual((changed["shape"].a.shape, changed["shape"].b.shape, changed["shape"].b.dtype), ((1,), (2,), "float32"))
        deviation = changed["h.0.w"].deviation
        self.assertEqual((deviation.snr_db, deviation.relative_error, deviation.max, deviation.max_at), (20, 0.1, 0.5, (1,)))
        self.assertEqual(deviation.share_within_ulps, dict.fromkeys((1, 2, 4, 8, 16), 0.5))
        self.assertEqual(deviation.differences, [{"exponent": -1, "count": 1}])
        self.assertEqual([(each.name, each.tensors, each.deviation.max) for each in found.layers], [("h.0", 1, 0.5)])
        self.assertEqual((found.deviation.count, found.equal_tensors, found.mapped_names), (2, 1, None))
        counts = "2 changed, 1 missing, 1 added, 1 renamed, 1 equal"
        self.assertEqual(repr(found), f"<weightfs.Difference of {a!r} and {b!r}: {counts}>")
        plain = model.diff(self.open(b), stat=False)
        self.assertEqual((plain.layers, plain.deviation, plain.changed[0].deviation), ([], None, None))

    def test_equal_models_are_equal(self):
        a, _ = self.pair()
        found = self.open(a).diff(a)
        self.assertEqual((found.equal, found.changed, found.equal_tensors), (True, [], 5))

    def test_other_type_with_equal_numbers_has_no_noise(self):
        a = self.sample("a.safetensors", [Tensor("w", "float32", (2,), struct.pack("<2f", 1, 2))])
        b = self.sample("b.safetensors", [Tensor("w", "float16", (2,), struct.pack("<2e", 1, 2))])
        changed, = self.open(a).diff(b).changed
        self.assertEqual((changed.deviation.snr_db, changed.deviation.relative_error), (math.inf, 0))

    def test_repository_and_its_gguf_are_compared_by_meaning(self):
        folder = tiny_repositories.write(self.path("."), "Tiny-Llama3-200K-Instruct")
        self.assertEqual(run("export", "--dtype", "q8_0", folder, self.path("q8_0.gguf")).returncode, 0)
        model = self.open(folder)
        found = model.diff(self.path("q8_0.gguf"))
        self.assertEqual((found.missing, found.added, found.mapped_names), ([], [], {"source": "a", "unmapped": 0}))
        self.assertIn("tensors are compared by their names and values in a GGUF", found.notes[0])
        self.assertGreater(min(each.deviation.snr_db for each in found.changed), 40)
        self.assertGreater(len(model.diff(self.path("q8_0.gguf"), names="as-stored").missing), 10)
        self.assertRaisesRegex(ValueError, "as-stored", model.diff, folder, names="hf")

    def test_failures_are_those_of_opening(self):
        a, b = self.pair()
        model = self.open(a)
        self.assertRaisesRegex(weightfs.NotFound, "missing: No such file", model.diff, self.path("missing"))
        self.write("text.gguf", b"GGUF")
        self.assertRaises(weightfs.Refused, model.diff, self.path("text.gguf"))
        os.mkdir(self.path("models"))
        os.link(a, self.path("models", "one.safetensors"))
        os.link(b, self.path("models", "two.safetensors"))
        self.assertRaisesRegex(weightfs.Refused, "a directory of 2 models", model.diff, self.path("models"))
        other = self.open(b)
        other.close()
        self.assertRaisesRegex(weightfs.Error, "the model is closed", model.diff, other)

    def test_models_with_other_options_are_not_compared(self):
        a, b = self.pair()
        model = self.open(a, offline=True)
        self.assertEqual(len(model.diff(self.open(b)).changed), 2)
        self.assertRaisesRegex(ValueError, "different values of offline", model.diff, self.open(b, offline=False))
        self.assertRaisesRegex(ValueError, "different values of format", model.diff, self.open(b, format="safetensors"))

    def test_damaged_model_is_not_compared_completely(self):
        a, b = self.pair()
        os.truncate(b, os.path.getsize(b) - 4)
        found = self.open(a).diff(b)
        self.assertFalse(found.complete or found.equal)
        self.assertEqual([(each["source"], each["name"]) for each in found.unreadable], [("b", "added")])
        self.assertIn("not compared completely", repr(found))
        self.assertTrue(any("the file ends 4 bytes early" in note for note in found.notes), found.notes)

    def test_figures_and_differences_are_pickled(self):
        a, b = self.pair()
        model = self.open(a)
        for each in (model.diff(b), *model.stats()):
            self.assertEqual(pickle.loads(pickle.dumps(each)), each)


if __name__ == "__main__":
    unittest.main()
