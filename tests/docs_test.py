"""--help, the manual page, the completions and README.md name the same commands and options; paths in documents and comments
exist."""
import ast
import io
import os
import re
import shutil
import subprocess
import tempfile
import tokenize
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEIGHTFS = os.path.abspath(os.environ.get("WEIGHTFS", "build/dev/weightfs"))
LIMIT_S = 60

PAGE = ROOT / "docs" / "weightfs.1.md"

# Options of other programs, by page.
FOREIGN = {
    "CHANGELOG.md": {"--arch", "--image", "--mount", "--portable", "--preset", "--recheck", "--release", "--stream",
                     "--user", "--wheel"},
    "README.md": {"--arch", "--image", "--portable", "--wheel"},
    "docs/kubernetes.md": {"--arch", "--bind", "--cap-add", "--device", "--docker-password", "--docker-server", "--docker-username",
                           "--from-file", "--image", "--make-shared", "--rm", "--security-opt"},
    "docs/python.md": {"--wheel"},
    "docs/serve.md": {"--endpoint-url", "--http-url", "--no-sign-request", "--plain-http", "--s3-endpoint", "--s3-env-auth",
                      "--s3-provider", "--src-creds", "--src-tls-verify"},
    "docs/summary.md": {"--n-cpu-moe"},
    "docs/systemd.md": {"--now", "--user"},
    "docs/testing.md": {"--archive", "--count", "--keep", "--list", "--minimise", "--minutes", "--mount", "--only", "--package",
                        "--release", "--root", "--sanitized", "--seed", "--skip", "--sources", "--test", "--test-all",
                        "--test-as-user"},
}

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")
SHORT_OR_LONG = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z0-9-]*")
VERBS = re.compile(r"(?:`|[$] |[*]{2}|^    )weightfs ([a-z]+(?: [a-z]+(?:-[a-z]+)*)?)", re.MULTILINE)
HELP_OPTION = re.compile(r"^  (-\S+)", re.MULTILINE)


def weightfs(*argv):
    return subprocess.run([WEIGHTFS, *argv], check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout


def completed(*words):
    """The candidates for the last of these words."""
    return [line.partition("\t")[0] for line in weightfs("complete", "fish", "--", *words).splitlines()]


def walk(path=()):
    """Every command in --help: (path, its options)."""
    text = weightfs(*path, "--help")
    options = {name for names in HELP_OPTION.findall(text) for name in names.split(",")}
    yield path, options
    _, _, verbs = text.partition("\nCommands:\n")
    for verb in re.findall(r"^  (\S+)", verbs.partition("\n\n")[0], re.MULTILINE):
        yield from walk((*path, verb))


def pages():
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def plain(text):
    """A page without its markup."""
    return re.sub(r"\\(.)", r"\1", text.replace("*", ""))


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = dict(walk())
        cls.options = set().union(*cls.commands.values())
        cls.page = PAGE.read_text()
        cls.words = [word.rstrip("=") for word in completed("mount", "-o", "") if word != ":nospace"]

    def section(self, title):
        return re.search(rf"^# {title}\n(.*?)(?=^# |\Z)", self.page, re.MULTILINE | re.DOTALL)[1]

    def test_help_is_parsed(self):
        self.assertLessEqual({("mount",), ("umount",), ("cache", "pin")}, set(self.commands))
        self.assertLessEqual({"-f", "--foreground", "--cache-size", "-o"}, self.commands[("mount",)])
        self.assertLessEqual({"all", "format", "offline", "allow_other"}, set(self.words))

    def test_help_fits_a_terminal(self):
        for path in self.commands:
            with self.subTest(" ".join(path)):
                text = weightfs(*path, "--help")
                self.assertEqual([line for line in text.splitlines() if len(line) > 80 or line != line.rstrip()], [])
                self.assertNotIn("\n\n\n", text)
                self.assertIn(f"\n\nUsage: {' '.join(('weightfs', *path))} [OPTIONS]", text)
                statuses = "0 equal, 1 different, 2 not compared completely" if path == ("diff",) else "weightfs help exit-status"
                self.assertTrue(text.endswith(f"\n\nExit status: {statuses}\n"), text[-100:])
                self.assertTrue(text.endswith("\n") and not text.endswith("\n\n"), text[-100:])

    def test_help_topic_and_page_list_the_same_exit_statuses(self):
        listed = re.findall(r"^  (\d)  (.*)$", weightfs("help", "exit-status"), re.MULTILINE)
        self.assertEqual(listed, re.findall(r"^(\d)\n:   (.*)$", plain(self.section("EXIT STATUS")), re.MULTILINE))

    def test_network_options_are_last(self):
        for path, options in self.commands.items():
            if "--offline" in options:
                groups = re.findall(r"^(\w+):$", weightfs(*path, "--help"), re.MULTILINE)
                self.assertEqual(groups, [each for each in ("Arguments", "Options", "Mounting", "Reading", "Cache", "Network")
                                          if each != "Mounting" or path == ("mount",)])

    def test_help_of_other_commands_does_not_name_diff(self):
        for path in self.commands:
            if path not in ((), ("diff",)):
                self.assertNotIn("diff", weightfs(*path, "--help").split(), path)

    def test_short_help_has_two_valid_examples_and_ten_options(self):
        for path, options in self.commands.items():
            with self.subTest(" ".join(path)):
                text = weightfs(*path, "-h")
                self.assertLessEqual(len(text.splitlines()), 24)
                self.assertEqual([line for line in text.splitlines() if len(line) > 80 or line != line.rstrip()], [])
                self.assertTrue(text.startswith(f"Usage: {' '.join(('weightfs', *path))} [OPTIONS]"), text)
                listed = {name for names in HELP_OPTION.findall(text) for name in names.split(",")}
                self.assertLessEqual(listed, options)
                self.assertLessEqual(len(HELP_OPTION.findall(text)), 10)
                examples = [line.split() for line in text.split("\n\n")[1].splitlines()]
                self.assertEqual(len(examples), 2)
                for program, verb, *words in examples:
                    if program != "weightfs":
                        continue
                    if "." in verb:  # a SOURCE alone is that of info
                        verb, words = "info", [verb, *words]
                    command = (verb, *words[:1]) if (verb, *words[:1]) in self.commands else (verb,)
                    self.assertLessEqual({word for word in words if word.startswith("-")}, self.commands[command])
                    self.assertIn(path[:1], ((), (verb,)))

    def test_every_command_is_in_the_page(self):
        listed = set()
        for line in self.section("COMMANDS").split("\n:   "):
            listed |= {tuple(name.split()) for name in re.findall(r"\*\*([a-z][a-z -]*)\*\*", line.rpartition("\n")[2])}
        leaves = {path for path in self.commands if path and not any(other[:-1] == path for other in self.commands)}
        self.assertEqual(listed, leaves)

    def test_every_command_is_in_the_synopsis(self):
        listed = {
            tuple(line.split("**")[1].split()[1:]) for line in self.section("SYNOPSIS").splitlines()
            if line.startswith("**weightfs")
        }
        leaves = {path for path in self.commands if path and not any(other[:-1] == path for other in self.commands)}
        self.assertEqual(listed, leaves)

    def test_every_option_is_in_the_page(self):
        listed = set(re.findall(r"\*\*(-[^*\s]+)\*\*", self.section("OPTIONS")))
        self.assertEqual(listed, self.options)

    def test_page_lists_all_mount_options(self):
        listed = re.search(r"^\*\*-o\*\* .*?\n\n", self.section("OPTIONS"), re.MULTILINE | re.DOTALL)[0].partition(" below ")[2]
        always = {"ro", "nosuid", "nodev"}
        self.assertEqual(set(re.findall(r"\*\*([a-z_]{2,})=?\*\*", listed)) - always, set(self.words))

    def test_page_lists_all_formats(self):
        tables = [(ROOT / "formats" / name).read_text() for name in ("flat_formats.h", "archive/archive_formats.h")]
        formats = [name for text in tables for name in re.findall(r'Format\{\s*(?:\.name = )?"([\w-]+)"', text)]
        self.assertGreater(len(formats), 30)
        entry = self.section("OPTIONS").partition("**--format** *NAME*")[2].partition("\n\n")[0]
        self.assertEqual(sorted(re.findall(r"\*\*([\w-]+)\*\*", entry)), sorted(formats))

    def test_synopsis_names_every_option_of_each_command(self):
        usage, _, groups = self.section("SYNOPSIS").strip().partition("\n\n")
        groups = {name: set(SHORT_OR_LONG.findall(plain(text)))
                  for name, text in re.findall(r"\*([A-Z]+)\* is (.*?)(?=;|\.$)", groups, re.DOTALL)}
        self.assertEqual(set(groups), {"MOUNTING", "READING", "CACHE", "NETWORK"})
        named = {}
        for line in usage.split("\\\n"):
            path = tuple(line.split("**")[1].split()[1:])
            used = [options for name, options in groups.items() if f"*{name}*" in line]
            named.setdefault(path, set()).update(SHORT_OR_LONG.findall(plain(line)), *used)
        for path in named:
            with self.subTest(" ".join(path)):
                rows = [names.split(",") for names in HELP_OPTION.findall(weightfs(*path, "--help"))]
                self.assertEqual([row for row in rows if row not in (["-h"], ["--help"]) and not named[path] & set(row)], [])

    def test_pages_name_only_existing_options(self):
        wrong = {}
        for page in pages():
            named = set(OPTION.findall(plain(page.read_text()))) - self.options
            # Both ways: an option of another program that is no longer named is removed from FOREIGN.
            if differing := named ^ FOREIGN.get(path := page.relative_to(ROOT).as_posix(), set()):
                wrong[path] = differing
        self.assertEqual(wrong, {})

    def test_pages_name_only_existing_verbs(self):
        groups = {path[:1] for path in self.commands if len(path) == 2}
        wrong = {}
        for page in pages():
            named = {tuple(words.split()) for words in VERBS.findall(page.read_text())}
            unknown = {words for words in named if words[:1] not in {*self.commands, ("help",), ("version",)}
                       or (words[:1] in groups and len(words) > 1 and words not in self.commands)}
            if unknown:
                wrong[page.name] = unknown
        self.assertEqual(wrong, {})

    def test_options_of_each_verb_are_completed(self):
        for path, options in self.commands.items():
            with self.subTest(" ".join(path)):
                self.assertEqual(set(completed(*path, "-")), options)


class Paths(unittest.TestCase):
    """A path in a document or in a comment exists, if it begins with a folder of the project; so does the file of a link."""

    FOLDERS = ("base", "bench", "cache", "cli", "docs", "formats", "fs", "numbers", "packaging", "page", "protocols", "python",
               "report", "scripts", "serve", "sources", "systemd", "tests")
    # A file with a suffix, or a folder with a slash at its end. NAME stands for any name.
    PATH = re.compile(rf"(?<![\w./*<>$~:-])(?:{'|'.join(FOLDERS)})/[\w./*-]*(?:/|\.\w+)(?![\w/*<>{{-])")
    LINK = re.compile(r"\]\(([^)\s:#]+)(?:#[^)\s]*)?\)")
    COMMENTS = re.compile(r"(?m)(?<!:)//(.*)$|(?s:/\*(.*?)\*/)")

    # Files of other projects.
    FOREIGN = {
        "docs/ContribOperators.md", "docs/ExternalData.md", "docs/gguf.md", "docs/hosts.md", "fs/fuse/dev.c",
        "python/tvm/contrib/tvmjs.py", "python/tvm/driver/tvmc/model.py", "python/tvm/micro/model_library_format.py"
    }

    def files(self, *suffixes):
        for folder in self.FOLDERS:
            files = (file for file in sorted((ROOT / folder).rglob("*")) if "vendor" not in file.parts)
            yield from (file for file in files if file.suffix in suffixes)
        yield from (file for file in sorted(ROOT.glob("*.*")) if file.suffix in suffixes)

    @staticmethod
    def comments_of_python(text):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.string
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                yield ast.get_docstring(node) or ""

    def named(self):
        """The paths that documents and comments name: (file, path)."""
        for file in self.files(".md"):
            yield from ((file, path) for path in self.PATH.findall(file.read_text()))
        for file in self.files(".py"):
            for text in self.comments_of_python(file.read_text()):
                yield from ((file, path) for path in self.PATH.findall(text))
        for file in self.files(".cc", ".css", ".h", ".js"):
            for texts in self.COMMENTS.findall(file.read_text()):
                yield from ((file, path) for text in texts for path in self.PATH.findall(text))

    @staticmethod
    def is_beside(file, path):
        """Whether a document names a file by the path from its own folder, as its links do."""
        return file.suffix == ".md" and (file.parent / path).exists()

    def test_paths_are_found(self):
        for text, paths in (("see base/x.h: a", ["base/x.h"]), ("(tests/fuzz/seeds_*.cc)", ["tests/fuzz/seeds_*.cc"]),
                            ("cache/http/, fs/a.b.cc.", ["cache/http/", "fs/a.b.cc"]), ("/tmp/base/x.h, a/fs/b.h, page/views", [])):
            self.assertEqual(self.PATH.findall(text), paths)

    def test_named_paths_exist(self):
        named = list(self.named())
        self.assertGreater(len(named), 300)
        self.assertEqual(self.FOREIGN - {path for _, path in named}, set(), "no longer named")
        missing = [f"{file.relative_to(ROOT)}: {path}" for file, path in named
                   if path not in self.FOREIGN and not any(ROOT.glob(path.replace("NAME", "*"))) and not self.is_beside(file, path)]
        self.assertEqual(missing, [])

    def test_linked_files_exist(self):
        links = [(file, link) for file in self.files(".md") for link in self.LINK.findall(file.read_text())]
        self.assertGreater(len(links), 100)
        self.assertEqual([f"{file.relative_to(ROOT)}: {link}" for file, link in links if not (file.parent / link).exists()], [])


class SystemCalls(unittest.TestCase):
    """docs/security.md lists the system calls that the sandbox permits, each with a reason."""

    FILTER = (ROOT / "cli" / "sandbox" / "seccomp.cc").read_text()
    CALL = re.compile(r"SCMP_SYS\((\w+)\)")

    def rows(self, heading):
        """The cells of the table with this first column."""
        text = (ROOT / "docs" / "security.md").read_text()
        table = re.search(rf"^\| {heading} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)[1]
        return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]

    def test_groups_are_those_of_the_filter(self):
        allowed = re.search(r"kAllowed\[\] = \{\n(.*?)\};", self.FILTER, re.DOTALL)[1]
        groups = {}
        for part in (r"// Directories that.*?\nconstexpr int kWatching", r"// For an HTTP server.*?\nconstexpr int kServing"):
            allowed += "\n" + re.search(part + r"\[\] = \{.*?\};", self.FILTER, re.DOTALL)[0]
        for line in allowed.splitlines():
            if comment := re.match(r" *// ([^.;]+)", line):
                group = groups.setdefault(comment[1], set())
            group.update(self.CALL.findall(line))
        listed = {title: set(re.findall(r"`(\w+)`", calls)) for title, calls, _ in self.rows("group")}
        self.assertEqual(listed, groups)

    def test_restricted_calls_are_those_of_the_filter(self):
        functions = re.search(r"^void allow_memory.*?^Result<void> loaded", self.FILTER, re.DOTALL | re.MULTILINE)[0]
        permitted = set(self.CALL.findall(functions)) | set(re.findall(r"\.allow\(SCMP_SYS\((bind)\)", self.FILTER))
        listed = {call for calls, _, _ in self.rows("system calls") for call in re.findall(r"`(\w+)`", calls)}
        self.assertEqual(listed, permitted)

    def test_each_call_has_a_reason(self):
        self.assertEqual(
            [row for heading in ("group", "system calls") for row in self.rows(heading) if len(row) != 3 or not all(row)], [])


class Pages(unittest.TestCase):
    """The rendered manual pages."""

    def setUp(self):
        for tool in ("lowdown", "man"):
            if not shutil.which(tool):
                self.skipTest(f"no {tool} here")

    def rendered(self, source):
        page = subprocess.run([ROOT / "packaging" / "page", source, "2026-01-01", "weightfs 1.2.3"], check=True,
                              capture_output=True, timeout=LIMIT_S).stdout
        with tempfile.NamedTemporaryFile(suffix=".1") as file:
            file.write(page)
            file.flush()
            done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", file.name], capture_output=True, text=True,
                                  timeout=LIMIT_S, env=dict(os.environ, GROFF_NO_SGR="1", LC_ALL="C.UTF-8"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return re.sub(".\b", "", done.stdout)

    def test_rendered_pages_have_a_title_and_no_markup(self):
        for source in sorted((ROOT / "docs").glob("*.[0-9].md")):
            with self.subTest(source.name):
                name, section = source.name.split(".md")[0].rsplit(".", 1)
                text = self.rendered(source)
                self.assertTrue(text.startswith(f"{name.upper()}({section})"))
                self.assertIn("weightfs 1.2.3", text)
                self.assertEqual(re.findall(r"\*\*|\\[^0-9]|^\s*:\s", text, re.MULTILINE), [])
                # Hyphens must be ASCII, so that options can be copied.
                self.assertEqual(re.findall("[\u2010-\u2015\u2212]", text), [])

    def test_rendered_options_and_examples_can_be_copied(self):
        text, source = self.rendered(PAGE), PAGE.read_text()
        for name in set(OPTION.findall(source)) | set(re.findall(r"\b[a-zA-Z]+_[a-zA-Z_]+\b", source)):
            self.assertRegex(text, rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        for line in re.findall(r"(?<=\n)    (weightfs .*)", source.partition("# EXAMPLES")[2]):
            self.assertIn(line, text)


class SummaryPage(unittest.TestCase):
    """docs/summary.md documents the fields that the summary in metadata.json has, and no others."""

    SOURCES = sorted((ROOT / "formats" / "summary").glob("*_map.cc"))
    FUNCTION = re.compile(r"^(?:Map|List|void) (\w+)\(.*?^}$", re.MULTILINE | re.DOTALL)
    NESTED = re.compile(r'"(\w+)", (?:std::move\()?(\w+_(?:map|list))\(')
    ELSEWHERE = {"blocks", "refused"}  # they are added by another function
    KEY = re.compile(r'(?:\bput(?:_plain)?\(\w+, |\bappend\()"(\w+)"')

    def written(self):
        """The keys that are written, those of an inner object or list after the name of it."""
        functions = {match[1]: match[0] for path in self.SOURCES for match in self.FUNCTION.finditer(path.read_text())}
        inner = {function: name for text in functions.values() for name, function in self.NESTED.findall(text)}
        return {f"{inner[function]}.{key}" if function in inner else key
                for function, text in functions.items() for key in self.KEY.findall(text)}

    def documented(self):
        cells = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "summary.md").read_text().partition("## 7.")[0], re.MULTILINE)
        return {name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)}

    def test_page_documents_every_field_and_no_others(self):
        written, documented = self.written(), self.documented()
        self.assertLessEqual({"kind", "parameters", "quantization.name", "adapter.rank", "components.bytes"}, written)
        # An inner object or list need not have a row of its own.
        outer = {name.partition(".")[0] for name in documented if "." in name}
        self.assertEqual(written - documented - outer, set())
        self.assertEqual({name for name in documented - written - outer if name.partition(".")[0] not in self.ELSEWHERE}, set())


if __name__ == "__main__":
    unittest.main()
