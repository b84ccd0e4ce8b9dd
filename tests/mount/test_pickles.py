"""Checkpoints of PyTorch whose pickles would run code: mounted and read completely, they run nothing."""
import json
import shutil

from mounting import MountTestCase, os, run, unittest
from tracing import TracedTestCase, read_all
import pickles


def evil_objects(command):
    """(name, opcodes of an object, files on which it acts): each way in which a pickle can call a function."""
    argument = pickles.text(command)
    system = pickles.function("posix", "system")
    call = pickles.call("posix", "system", argument)
    return {
        "reduce": call,
        "global_of_os": pickles.call("os", "system", argument),
        "stack_global": pickles.text("posix") + pickles.text("system") + b"\x93" + argument + b"\x85R",
        "dotted": pickles.text("os") + pickles.text("path.os.system") + b"\x93" + argument + b"\x85R",
        "inst": b"(" + argument + b"iposix\nsystem\n",
        "obj": b"(" + system + argument + b"o",
        "newobj": pickles.function("subprocess", "Popen") + argument + b"\x85\x81",
        "newobj_ex": pickles.function("subprocess", "Popen") + b"(" + argument + b"t" + pickles.value({"shell": True}) + b"\x92",
        "eval": pickles.call("builtins", "eval", pickles.text(f"__import__('os').system({command!r})")),
        "getattr": pickles.call("builtins", "getattr", pickles.call("importlib", "import_module", pickles.text("os")),
                                pickles.text("system")) + argument + b"\x85R",
        "setstate": pickles.call("argparse", "Namespace") + pickles.value({"__setstate__": None})[:2] +
        pickles.text("__setstate__") + system + b"ub" + argument + b"b",
        "from_type": pickles.call("torch._tensor", "_rebuild_from_type_v2", system, pickles.function("torch", "Tensor"),
                                  b"(" + argument + b"t", b"N"),
        "hooks": pickles.call("torch._utils", "_rebuild_tensor_v2", pickles.storage("Float", "0", 1), pickles.integer(0),
                              pickles.value((1,)), pickles.value((1,)), b"\x89", call),
        "connect": pickles.call("socket", "create_connection", pickles.value(("127.0.0.1", 9))),
        "open": pickles.call("builtins", "open", pickles.text("/etc/passwd")),
        "key_is_path": pickles.tensor(pickles.storage("Byte", "../../../../../../etc/passwd", 10), (10,)),
    }


class PickleTestCase(MountTestCase):
    def checkpoint(self, name, opcodes):
        data = b"\0\0\x80\x3f"
        good = pickles.tensor(pickles.storage("Float", "0", 1), (1,))
        items = pickles.dictionary([("evil", opcodes), ("w", good)])
        pickles.write_checkpoint(self.path(f"{name}.pt"), items, [data])
        self.write(f"{name}-legacy.pt", pickles.legacy(items, [("0", 1, data)]))
        return [self.path(f"{name}.pt"), self.path(f"{name}-legacy.pt")]

    def models(self):
        self.marker = self.path("ran")
        os.makedirs(self.path("models"))
        files = []
        for name, opcodes in evil_objects(f"touch {self.marker}").items():
            files += self.checkpoint(f"models/{name}", opcodes)
        return files


class PickleTest(PickleTestCase):
    def test_malicious_pickles_run_nothing(self):
        files = self.models()
        mount = self.mount(self.path("models"))
        self.assertEqual(sorted(os.listdir(mount)), sorted(map(os.path.basename, files)))
        contents = read_all(mount)
        for file in map(os.path.basename, files):
            with self.subTest(file):
                self.assertEqual(contents[f"{file}/tensors/w"], b"\0\0\x80\x3f")
                self.assertIn(f"{file}/warnings.txt", contents)
        self.unmount(mount)
        for command in ("info", "verify", "ls"):
            for file in files:
                run(command, file)
        self.assertFalse(os.path.exists(self.marker), "a pickle ran a command")

    def test_info_shows_dangerous_names_at_the_top(self):
        file = self.checkpoint("m", pickles.call("posix", "system", pickles.text("id")))[0]
        lines = run("info", file).stdout.splitlines()
        self.assertEqual(lines[1], "RUNS CODE: posix.system when the file is unpickled", lines)

    def test_safe_refuses_later_pickles_that_run_code(self):
        plain = b"\x80\x02}."
        for rest, status in ((plain, 0), (b"cposix\nsystem\n(S'id'\ntR.", 4)):
            with self.subTest(rest=rest):
                self.write("many.pkl", plain + rest)
                done = run("verify", "--safe", self.path("many.pkl"))
                self.assertEqual(done.returncode, status, done)
        self.assertIn("its later pickles name posix.system, which can run code", done.stderr)

    def test_safe_looks_into_every_file_of_a_model(self):
        evil = b"cposix\nsystem\n(S'id'\ntR."
        with open(self.checkpoint("evil", pickles.call("posix", "system", pickles.text("id")))[0], "rb") as file:
            torch = file.read()
        self.write("m/config.json", b'{"architectures": ["X"]}')
        self.sample("m/model.safetensors")
        self.write("m/notes.txt", b"cposix")
        for name, data, status in (("plain.pkl", b"\x80\x02}.", 0), ("training_args.bin", torch, 4), ("sub/x.bin", torch, 4),
                                   ("model.joblib", b"\x80\x04" + evil, 4), ("x.pkl", evil, 4),
                                   ("x.pkl", b"\x80\x04\x95", 5)):
            with self.subTest(name):
                self.write(f"m/{name}", data)
                for source in (self.path("m"), shutil.make_archive(self.path("packed"), "zip", self.path("m"))):
                    done = run("verify", "--safe", source)
                    self.assertEqual(done.returncode, status, done)
                    if status:
                        self.assertIn(name, done.stderr)
                    self.assertEqual(run("verify", source).returncode, 0)
                os.remove(self.path(f"m/{name}"))

    def test_info_of_a_directory_shows_dangerous_names_of_each_model(self):
        os.makedirs(self.path("models"))
        self.assertEqual(run("info", self.path("models")).stdout, "")
        head = "name\tformat\ttensors\tbytes\tkind\tparameters\tquantisation\tbits_per_weight\tcode"
        row = "\tsafetensors\t5\t265\ttensors\t61\t\t32.00\t"
        for name in "ab":
            self.sample(f"models/{name}.safetensors")
        self.assertEqual(run("info", self.path("models")).stdout, f"{head}\na.safetensors{row}\nb.safetensors{row}\n")
        os.remove(self.path("models/b.safetensors"))
        self.checkpoint("models/m", pickles.call("posix", "system", pickles.text("id")))
        self.assertEqual(run("info", self.path("models")).stdout.splitlines(),
                         [head, f"a.safetensors{row}", "m-legacy.pt\tpytorch-legacy\t1\t4\ttensors\t1\t\t32.00\tposix.system",
                          "m.pt\tpytorch\t1\t4\ttensors\t1\t\t32.00\tposix.system"])
        shown = json.loads(run("info", "--json", self.path("models")).stdout)
        self.assertEqual([model.get("dangerous_globals") for model in shown], [None, "posix.system", "posix.system"])


class TracedPickles(PickleTestCase, TracedTestCase):
    def test_malicious_pickles_cause_no_system_calls(self):
        self.models()
        calls, _ = self.traced(self.path("models"))
        self.assertTrue(any("reduce.pt" in call for call in calls), "the trace lacks the models")
        self.assert_nothing_runs(calls, self.path("models"))
        self.assertFalse(os.path.exists(self.marker), "a pickle ran a command")


if __name__ == "__main__":
    unittest.main()
