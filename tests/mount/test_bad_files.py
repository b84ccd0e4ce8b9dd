"""Files that are no model, or damaged: what `info` prints of them, alone and in a directory of models."""
import json
import os

from mounting import TestCase, run, sample_tensors
import containers

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 4920739232\n"
POINTS = "a Git LFS pointer to a file of 4.6 GiB (4,920,739,232 bytes); run git lfs pull"


class BadFiles(TestCase):
    def model(self, name):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        return self.sample(name)

    def test_reason_is_on_standard_error_with_status_4(self):
        done = run("info", self.write("model.gguf", POINTER))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (4, "", f"weightfs: model.gguf: {POINTS}\n"))

    def test_json_has_a_name_for_programs(self):
        for name, data, code in (("model.gguf", POINTER, "git-lfs-pointer"), ("a.onnx", b"", "empty"),
                                 ("b.safetensors", b"<!DOCTYPE html><title>Sign in</title>", "html"),
                                 ("c.gguf", b"GGUF\3\0\0\0" + b"\1\0\0\0\0\0\0\0" * 2, "damaged")):
            with self.subTest(name):
                source = self.write(name, data)
                done = run("info", "--json", source)
                printed = json.loads(done.stdout)
                self.assertEqual((printed["source"], printed["error"]["code"]), (source, code))
                self.assertEqual(done.stderr, f"weightfs: {printed['error']['message']}\n")
                self.assertEqual(done.returncode, 5 if code == "damaged" else 4)

    def test_missing_source_has_an_error_in_json(self):
        done = run("info", "--json", self.path("missing.gguf"))
        self.assertEqual((done.returncode, json.loads(done.stdout)["error"]["code"]), (3, "not-found"))

    def test_bad_files_are_rows_of_a_directory(self):
        self.model("models/a.safetensors")
        self.model("models/b.safetensors")
        self.write("models/c.gguf", POINTER)
        self.write("models/d.safetensors.part", b"\1\2\3")
        self.write("models/e.safetensors", b"\xFF\0\0\0\0\0\0\0{\"a\"")
        self.write("models/README.md", POINTER)
        done = run("info", "--json", self.path("models"))
        found = {entry["source"]: entry.get("error", {}).get("code") for entry in json.loads(done.stdout)}
        self.assertEqual(found, {"a.safetensors": None, "b.safetensors": None, "c.gguf": "git-lfs-pointer",
                                 "d.safetensors.part": "partial", "e.safetensors": "damaged"})
        self.assertEqual(done.returncode, 5)

    def test_pointers_to_shards_are_one_row(self):
        self.model("models/a.safetensors")
        self.model("models/b.safetensors")
        for number in (1, 2):
            self.write(f"models/big-0000{number}-of-00002.gguf", POINTER)
        found = [entry["source"] for entry in json.loads(run("info", "--json", self.path("models")).stdout)]
        self.assertEqual(found, ["a.safetensors", "b.safetensors", "big-00001-of-00002.gguf"])

    def test_saved_model_of_tensorflow_is_named(self):
        self.write("saved/saved_model.pb", b"\x08\x01\x12\x02")
        self.write("saved/variables/variables.index", b"")
        done = run("info", self.path("saved"))
        self.assertEqual(done.returncode, 4)
        self.assertIn("a TensorFlow SavedModel: not supported", done.stderr)

    def test_missing_shard_is_damage(self):
        os.makedirs(self.path("sharded"))
        tensors = sample_tensors()
        containers.write_safetensors_shards(self.path("sharded"), [tensors[:1], tensors[1:2], tensors[2:]])
        os.unlink(self.path("sharded/model-00002-of-00003.safetensors"))
        done = run("info", "--json", self.path("sharded"))
        self.assertEqual(done.returncode, 5)
        self.assertIn(f"1 of {len(tensors)} tensors cannot be read: 2 of 3 shards; missing model-00002-of-00003.safetensors",
                      done.stderr)

    def test_bytes_after_safetensors_are_a_warning(self):
        source = self.model("a.safetensors")
        with open(source, "ab") as file:
            file.write(b"more")
        done = run("info", "--json", source)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(json.loads(done.stdout)["format"], "safetensors")
