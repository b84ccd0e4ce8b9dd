"""Every format through the same commands: a directory with a small model of each."""
import json
import os
import re
import unittest

from mounting import OneMountTestCase, run
from every_format import write_models

# Formats of which every_format writes no model.
MISSING = {"ollama", "safetensors-index", "tensor-cache", "bintensors-release", "bintensors-legacy", "carton", "keras-sharded",
           "dcp", "nemo", "openvino", "oci", "oci-layout", "tensorflow-savedmodel", "weightfs-export"}


def known_formats():
    text = run("mount", "--format=none", "/", "/").stderr
    return re.search(r"known formats: ([^(]*) \(", text).group(1).split(", ")


# Those with a tensor that is refused.
INCOMPLETE = {"CoreMlModel.model", "Ctranslate2.model", "Onnx.model", "Ort.model", "RtenVersion1.rten",
              "TensorflowCheckpoint.index"}


class EveryFormat(OneMountTestCase):
    @classmethod
    def sources_of(cls, owner):
        cls.folder = owner.path("models")
        cls.models = write_models(cls.folder)
        return [cls.folder]

    def test_directory_of_mixed_formats_shows_each_model(self):
        self.assertEqual(set(self.models) - set(os.listdir(self.mnt)), set())
        formats = set()
        for name in self.models:
            with open(f"{self.mnt}/{name}/metadata.json", encoding="utf-8") as file:
                formats.add(json.load(file)["format"])
        self.assertEqual(set(known_formats()) - formats - MISSING, set())

    def test_every_file_of_each_model_can_be_read(self):
        for name in self.models:
            model = f"{self.mnt}/{name}"
            files = [os.path.join(folder, file) for folder, _, names in os.walk(model) for file in names]
            refused = self.refused(model)
            self.assertGreater(len(files), 3, name)
            for path in files:
                if os.path.islink(path) or path in refused:
                    continue
                with self.subTest(path):
                    with open(path, "rb") as file:
                        self.assertEqual(len(file.read()), os.stat(path).st_size)

    @staticmethod
    def refused(model):
        with open(f"{model}/tensors.json", encoding="utf-8") as file:
            tensors = json.load(file)["tensors"]
        return {f"{model}/tensors/{tensor['path']}" for tensor in tensors if tensor.get("refused")}

    def test_container_is_among_its_files(self):
        flat = 0
        for name, content in self.models.items():
            path = f"{self.mnt}/{name}/files/{name}"
            if os.path.exists(path):
                flat += 1
                with open(path, "rb") as file:
                    self.assertEqual(file.read(), content, name)
        self.assertGreater(flat, 5)

    def check_status(self, name, done):
        self.assertEqual((done.returncode, "tensors cannot be read" in done.stderr), (5, True) if name in INCOMPLETE else
                         (0, False), done.stderr)

    def test_verify_accepts_each_model(self):
        for name in self.models:
            with self.subTest(name):
                self.check_status(name, run("verify", os.path.join(self.folder, name)))

    def test_info_and_listing_name_each_model(self):
        for name in self.models:
            with self.subTest(name):
                self.check_status(name, run("info", os.path.join(self.folder, name)))
                done = run("ls", "-R", os.path.join(self.folder, name))
                self.check_status(name, done)
                self.assertIn("metadata.json", done.stdout)

    def test_models_in_a_zip_have_the_same_tensors(self):
        import zipfile
        archive = self.path("all.zip")
        with zipfile.ZipFile(archive, "w") as out:
            for folder, _, names in os.walk(self.folder):
                for name in names:
                    path = os.path.join(folder, name)
                    out.write(path, os.path.relpath(path, self.folder))
        inner = self.mount(archive)
        for name in self.models:
            if not os.path.isdir(f"{inner}/nested/{name}"):
                self.assertTrue(name.endswith((".bt", ".rten", ".model")), name)
                continue
            with open(f"{self.mnt}/{name}/tensors.json", "rb") as one, open(f"{inner}/nested/{name}/tensors.json", "rb") as other:
                self.assertEqual(one.read(), other.read(), name)


if __name__ == "__main__":
    unittest.main()
