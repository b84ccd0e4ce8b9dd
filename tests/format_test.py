"""C++, Python and JavaScript are as their formatters write them. `FORMAT=write python3 tests/format_test.py` formats all files.

Other versions of a formatter give other results, so one of each is used: those of Debian 12, and one of npm.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import npm_packages  # noqa: E402

CLANG_FORMAT = "14"
AUTOPEP8 = "2.0"
PRETTIER = "prettier@3.6.2"
# Rules of pycodestyle on indents of tables, operators at line ends and in columns, and long lines, which words_test finds.
NOT_OF_PYTHON = ("E121", "E123", "E126", "E226", "E24", "E501", "E731", "W503", "W504", "W6")

FOLDERS = ("base", "bench", "cache", "cli", "formats", "fs", "numbers", "packaging", "page", "protocols", "python", "report",
           "scripts", "serve", "sources", "tests")
OTHERS = re.compile(r"page/vendor/|tests/(?:vendor|fuzz/corpus)/|python/build/")
WRITES = os.environ.get("FORMAT") == "write"
FILES_AT_ONCE = 16
LIMIT_S = 600


def files(*suffixes):
    """The project's files with one of these suffixes; "": Python scripts without one."""
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")):
        name = str(path.relative_to(ROOT))
        if path.suffix in suffixes and not OTHERS.match(name) and path.is_file():
            if path.suffix or re.match(rb"#!.*python3\n", path.read_bytes()):
                yield name


def run(*argv):
    return subprocess.run(argv, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)


class Format(unittest.TestCase):
    def formatter(self, names, version):
        """The program, under the first of these names that exists. Skips the test if it has another version."""
        found = "none"
        for name in filter(shutil.which, names):
            found = re.search(r"\d+(?:\.\d+)+", run(name, "--version").stdout)[0]
            if f"{found}.".startswith(f"{version}."):
                return name
        reason = f"not tested: {names[-1]} {version} is needed, found: {found}"
        print(reason)
        self.skipTest(reason)

    def assert_formatted(self, names, check, write, pattern):
        """`check` prints the names of files, which `pattern` finds, if it fails; `write` formats them."""
        names = list(names)
        self.assertGreater(len(names), 50)
        parts = [names[at:at + FILES_AT_ONCE] for at in range(0, len(names), FILES_AT_ONCE)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda part: run(*(write if WRITES else check), *part), parts))
        different = {name for done in results if done.returncode for name in re.findall(pattern, done.stdout + done.stderr)}
        errors = [done.stderr for done in results if done.returncode and (WRITES or not different)]
        self.assertEqual((sorted(different), errors), ([], []), "to format them: FORMAT=write python3 tests/format_test.py")

    def test_cpp(self):
        program = self.formatter([f"clang-format-{CLANG_FORMAT}", "clang-format"], CLANG_FORMAT)
        check, write = (program, "--dry-run", "-Werror"), (program, "-i")
        self.assert_formatted(files(".cc", ".h"), check, write, r"(?m)^([^:\n]+):\d+:\d+: error: code should be clang-formatted")

    def test_python(self):
        program = self.formatter(["autopep8"], AUTOPEP8)
        style = (program, "--max-line-length", "132", "--ignore", ",".join(NOT_OF_PYTHON))
        self.assert_formatted(files(".py", ""), (*style, "--diff", "--exit-code"), (*style, "-i"), r"(?m)^--- original/(\S+)")

    def test_javascript(self):
        folder = npm_packages.folder_with(PRETTIER)
        if not folder:
            self.skipTest(f"{PRETTIER} cannot be installed")
        program = ("node", os.path.join(folder, "node_modules", "prettier", "bin", "prettier.cjs"))
        self.assert_formatted(files(".js"), (*program, "--list-different"), (*program, "--write"), r"(?m)^(\S+\.js)$")


if __name__ == "__main__":
    unittest.main()
