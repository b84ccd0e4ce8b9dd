"""The module itself: import, types, examples, packages and notebooks."""
import contextlib
import doctest
import importlib
import importlib.util
import io
import os
import pickle
import pydoc
import re
import shutil
import subprocess
import sys
import tomllib
import unittest
import unittest.mock
import zipfile

from python_testing import LIMIT_S, PACKAGE, PythonTestCase, numpy, weightfs
import demo
import weightfs._slicing

IMPORT_S = 0.05
OPTIONAL = ("numpy", "torch", "ml_dtypes", "fsspec", "http.client", "subprocess")


class Module(PythonTestCase):
    def python(self, program, *arguments, **environment):
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=LIMIT_S,
                              cwd=self.tmp, env={**os.environ, "PYTHONPATH": PACKAGE, **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_import_is_cheap_and_loads_no_library(self):
        program = ("import sys, time; t = time.process_time(); import weightfs; print(time.process_time() - t);"
                   f"print([name for name in {OPTIONAL!r} if name in sys.modules])")
        times = []
        for _ in range(3):
            seconds, loaded = self.python(program).splitlines()
            times.append(float(seconds))
            self.assertEqual(loaded, "[]")
        self.assertLessEqual(min(times), IMPORT_S)

    @unittest.skipUnless(shutil.which("mypy"), "mypy is not installed")
    def test_types_are_strict(self):
        done = subprocess.run(["mypy", "--config-file", os.path.join(PACKAGE, "pyproject.toml"), "--cache-dir", self.path("mypy"),
                               os.path.join(PACKAGE, "weightfs")], capture_output=True, text=True, timeout=5 * LIMIT_S)
        self.assertEqual((done.returncode, done.stdout[:7]), (0, "Success"), done.stdout + done.stderr)

    def test_types_of_the_interface_are_known(self):
        self.assertTrue(os.path.exists(os.path.join(PACKAGE, "weightfs", "py.typed")))
        for name in weightfs.__all__:
            self.assertTrue(getattr(weightfs, name).__doc__, name)

    def test_help_has_no_quotes_inside_quotes(self):
        shown = pydoc.render_doc(weightfs.open, renderer=pydoc.plaintext)
        for name in ("Model", "Tensor", *weightfs.__all__):
            shown += pydoc.render_doc(getattr(weightfs, name), renderer=pydoc.plaintext)
        self.assertIn("source: 'Union[str, os.PathLike[str]]'", shown)
        self.assertEqual(re.findall(r""".*(?:"'|'").*""", shown), [])

    def test_examples_of_the_docstrings_hold(self):
        demo.write_demo(self.path("demo"))
        before = os.getcwd()
        os.chdir(self.path("demo"))
        self.addCleanup(os.chdir, before)
        modules = [weightfs, weightfs._slicing]
        if importlib.util.find_spec("fsspec"):
            self.use_fsspec()
            modules.append(importlib.import_module("weightfs.fsspec_filesystem"))
        for module in modules:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                failed, count = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
            self.assertEqual(failed, 0, out.getvalue())
            self.assertGreater(count, 0, module.__name__)

    def test_examples_of_the_page_hold(self):
        """The fenced examples of docs/python.md that are sessions, with the demo models."""
        demo.write_demo(self.path("demo"))
        before = os.getcwd()
        os.chdir(self.path("demo"))
        self.addCleanup(os.chdir, before)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), unittest.mock.patch.dict(sys.modules, ml_dtypes=None):
            failed, count = doctest.testfile(os.path.join(PACKAGE, "..", "docs", "python.md"), module_relative=False,
                                             optionflags=doctest.ELLIPSIS, encoding="utf-8")
        self.assertEqual(failed, 0, out.getvalue())
        self.assertGreater(count, 10)

    def test_part_of_an_array_and_the_rest_of_an_index_are_the_index(self):
        array = numpy.arange(120).reshape(4, 5, 6)
        lists = [(0, slice(None, 2), [1, 2]), (0, slice(None), [1, 2]), (0, ..., [1, 2]), (0, None, [1, 2]), ([0, 1], 0),
                 (numpy.array(2), 1), (2, [True] * 5), array > 5, numpy.array(True), True]
        for index in [*lists, (1, 2), (-1, ..., 2), (0, slice(1, 4, 2)), numpy.int64(2), None, ..., slice(3, None, -1)]:
            part = weightfs._slicing.part_of(index, array.shape)
            count = weightfs._slicing.count_of(part.shape)
            found = array.reshape(-1)[part.begin:part.begin + count].reshape(part.shape)[part.rest]
            self.assertEqual(found.tolist(), array[index].tolist(), index)

    def test_errors_are_below_one_exception(self):
        from weightfs._errors import error_of_exit, error_of_response
        for status, kind in ((1, weightfs.Error), (3, weightfs.NotFound), (4, weightfs.Refused), (5, weightfs.Refused),
                             (7, weightfs.Mismatch), (8, weightfs.Unavailable)):
            error = error_of_exit(status, "a sentence")
            self.assertEqual((type(error), str(error), kind.__module__), (kind, "a sentence", "weightfs"))
            self.assertIsInstance(error, weightfs.Error)
            self.assertEqual(str(pickle.loads(pickle.dumps(error))), "a sentence")
        for status, name, kind in ((404, None, weightfs.NotFound), (502, "mismatch", weightfs.Mismatch),
                                   (502, "damaged", weightfs.Refused), (502, "unreachable", weightfs.Unavailable),
                                   (503, "changed", weightfs.Changed), (503, None, weightfs.Unavailable),
                                   (500, "io", weightfs.Error), (403, "forbidden", weightfs.Refused),
                                   (412, None, weightfs.Changed)):
            self.assertIs(type(error_of_response(status, name, "")), kind, (status, name))

    def test_sources_are_those_of_python_3_9(self):
        import ast
        for name in os.listdir(os.path.join(PACKAGE, "weightfs")):
            if name.endswith(".py"):
                with open(os.path.join(PACKAGE, "weightfs", name), encoding="utf-8") as file:
                    ast.parse(file.read(), feature_version=(3, 9))

    def wheel(self, **environment):
        os.makedirs(self.path("wheel"), exist_ok=True)
        done = subprocess.run([sys.executable, "-B", os.path.join(PACKAGE, "wheel_backend.py"), self.path("wheel")],
                              capture_output=True, text=True, timeout=LIMIT_S,
                              env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000", **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    @unittest.skipUnless(importlib.util.find_spec("fsspec"), "python3-fsspec is not installed")
    def test_wheel_has_the_module_and_registers_with_fsspec(self):
        wheel = self.wheel()
        self.assertTrue(wheel.endswith("-py3-none-any.whl"), wheel)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.path("site"))
        with open(wheel, "rb") as file:
            first = file.read()
        os.remove(wheel)
        self.assertEqual(self.wheel(), wheel)
        with open(wheel, "rb") as file:
            self.assertEqual(file.read(), first)  # reproducible
        program = ("import fsspec, sys, weightfs; print(weightfs.__file__);"
                   "print(fsspec.open('weightfs://' + sys.argv[1] + '!/metadata.toml').open().readline())")
        where, line = self.python(program, self.sample(), PYTHONPATH=self.path("site")).splitlines()
        self.assertTrue(where.startswith(self.tmp), where)
        self.assertIn("format", line)

    @unittest.skipUnless(importlib.util.find_spec("fsspec"), "python3-fsspec is not installed")
    def test_fsspec_finds_the_file_system_without_an_import_of_the_module(self):
        with zipfile.ZipFile(self.wheel()) as archive:
            archive.extractall(self.path("site"))
        program = ("import fsspec, sys; before = 'weightfs' in sys.modules;"
                   "print(before, fsspec.open('weightfs://' + sys.argv[1] + '!/metadata.toml').open().readline())")
        self.assertIn("False b'format", self.python(program, self.sample(), PYTHONPATH=self.path("site")))

    def test_wheel_is_built_without_a_parser_of_toml(self):
        spec = importlib.util.spec_from_file_location("wheel_backend", os.path.join(PACKAGE, "wheel_backend.py"))
        backend = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(backend)
        with open(os.path.join(PACKAGE, "pyproject.toml"), "rb") as file:
            parsed = tomllib.load(file)
        self.assertEqual((backend.project(), parsed["build-system"]["requires"]), (parsed["project"], []))

    def test_wheel_with_the_program_needs_no_other(self):
        program = self.write("program", b"#!/bin/sh\nexec \"$REAL\" \"$@\"\n")
        wheel = self.wheel(WEIGHTFS_PROGRAM=program)
        self.assertRegex(wheel, r"-py3-none-manylinux_2_17_\w+\.manylinux2014_\w+\.musllinux_1_1_\w+\.whl$")
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target",
                               self.path("site"), wheel], capture_output=True, text=True, timeout=LIMIT_S)
        if "No module named pip" in done.stderr:
            self.skipTest("pip is not installed")
        self.assertEqual(done.returncode, 0, done.stderr)
        out = self.python("import sys, weightfs; print(len(weightfs.open(sys.argv[1])))", self.sample(), WEIGHTFS="",
                          REAL=os.environ["WEIGHTFS"], PYTHONPATH=self.path("site"))
        self.assertEqual(out, "5\n")

    @unittest.skipUnless(shutil.which("dpkg-deb"), "dpkg-deb is not installed")
    def test_debian_package_has_the_module(self):
        done = subprocess.run([os.path.join(PACKAGE, "..", "packaging", "python"), self.path("build")], capture_output=True,
                              text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        package = done.stdout.strip()
        subprocess.run(["dpkg-deb", "-x", package, self.path("root")], check=True, timeout=LIMIT_S)
        site = self.path("root", "usr", "lib", "python3", "dist-packages")
        program = "import sys, weightfs; print(weightfs.__file__, len(weightfs.open(sys.argv[1])))"
        self.assertEqual(self.python(program, self.sample(), PYTHONPATH=site), f"{site}/weightfs/__init__.py 5\n")
        fields = subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True, check=True).stdout
        self.assertIn("weightfs (>=", fields)
        if shutil.which("lintian"):
            found = subprocess.run(["lintian", "--fail-on", "error,warning", package], capture_output=True, text=True)
            self.assertEqual(found.returncode, 0, found.stdout)

    def test_missing_program_is_named(self):
        with unittest.mock.patch.dict(os.environ, {"WEIGHTFS": "", "PATH": self.tmp}):
            with self.assertRaisesRegex(weightfs.Error, "weightfs was not found"):
                weightfs.open(self.sample())


if __name__ == "__main__":
    unittest.main()
