"""Messages, help, documents and test names are in plain technical English; help and documents state the defaults of options."""
import ast
import os
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEIGHTFS = os.path.abspath(os.environ.get("WEIGHTFS", "build/dev/weightfs"))
LIMIT_S = 60

FOLDERS = ("base", "cli", "fs", "cache", "formats", "numbers", "page", "protocols", "report", "serve", "sources")

# Phrases that must not return, each with the words to use instead.
PHRASES = (
    (r"\b(some|any|every|no)body\b(?! else's)", "the reader, the user, all users"),
    (r"\bwhoever\b|\bwho (mounts|owns|reads|uses|waits|asks)\b", "the reader, the mounting user"),
    (r"\bat hand\b", "cached, local"),
    (r"\bproved?\b|\bprove[sn]? (right|wrong)\b", "verified"),
    (r"\b(go(es)?|gone|went) on with\b", "resumes"),
    (r"\bthat I know\b", "supported"),
    (r"(?<!there )\b(is|are) no (?!longer|more)[a-z]+", "is not a"),
    (r"\bif not given\b|\belse the\b", "default: X"),
    (r"\b(do|does) not answer\b", "is not responding"),
    (r"\b(lies?|lay) (there|here|already|elsewhere|in|on|at)\b", "is"),
    (r"\bmakes? way\b", "is evicted"),
    (r"\b(what|which) leads there\b", "the path"),
    (r"\blet(s|ting)? [a-z]+ in\b", "allow, permit"),
    (r"\bfor so long\b|\bas it is meant\b|\bof no use\b", "for this long"),
    (r"\btells? (all|more|it)\b|\bis told\b", "reports, prints, see"),
    (r"\blook(s|ed)? after\b", "manage"),
)
FORBIDDEN = tuple((re.compile(pattern), instead) for pattern, instead in PHRASES)

# Words that a test name, which states a situation and an outcome, does not need.
UNCLEAR_NAME = re.compile(r"test_(a|an|the|it|one|what|who|whoever)_(?!of_)|_(nobody|somebody|whoever|says|said|told|proved)_")

STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
TEMPLATE = re.compile(r"`((?:[^`\\]|\\.)*)`")  # in JavaScript
COMMENT = re.compile(r"(?m)^\s*//.*$|\s//[ /<].*$")
INCLUDE = re.compile(r"(?m)^#include.*$")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
DEFAULT = re.compile(r"\(default: [^)]+\)")

# A comment has a subject. "Of the names, the first …" and "The same for …" make the reader search for it.
WITHOUT_SUBJECT = re.compile(r'(?://+<?|(?<!\S)#|""") ?(?:Of|The same)\b')

# So do these later in a comment, and in a document: "Of a file that …", "Absent are …", "What cannot be read stays".
FRONTED = re.compile(r"Of (?:a|an|the|several|other|others|these|those|such|two|[a-z]+s)\b|(?:Absent|Left out) (?:is|are)\b"
                     r"|What\b[^.;:]* stays?\b")

# Pronouns in the place of nouns: one in a comment can be understood.
PRONOUN = re.compile(r"\b(?:those that|that of)\b", re.IGNORECASE)

# Pages whose sentences are short.
SHORT = ("CHANGELOG.md", "docs/mount.weightfs.8.md", "docs/semantics.md", "docs/weightfs.1.md")
MAX_WORDS = 45  # in a sentence, without names in bold or italics

# Lines of code and documents, except tables, code in documents, and lines that one literal makes long.
MAX_COLUMNS = 132
LITERAL = re.compile(r"""(['"])(?:\\.|(?!\1).){80,}\1|\{"\w+": ?["{\d]""")
SCRIPTS = {"tests/mount/test_mounts.py", "tests/mount/test_system.py", "tests/mount/test_systemd.py"}  # in several lines

# Options with a value but without a default: without them nothing is selected, limited or searched.
WITHOUT_DEFAULT = {"-o", "--blob-dir", "--size"}


def weightfs(*argv):
    return subprocess.run([WEIGHTFS, *argv], check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout


def sources(*suffixes):
    """The lines of every file of code or documents: (path, number, line)."""
    for folder in ("", "base", "formats", "numbers", "cache", "protocols", "sources", "fs", "report", "serve", "cli", "page",
                   "tests", "docs", "bench", "packaging", "python"):
        for file in sorted((ROOT / folder).rglob("*") if folder else ROOT.glob("*.md")):
            if file.suffix in suffixes and "vendor" not in file.parts:
                for number, line in enumerate(file.read_text().splitlines(), 1):
                    yield str(file.relative_to(ROOT)), number, line


def messages():
    """The strings of the program: (file, text), adjacent literals joined."""
    for folder in FOLDERS:
        for file in (file for file in sorted((ROOT / folder).rglob("*.*")) if file.suffix in (".cc", ".h", ".js")):
            if "vendor" in file.parts:
                continue
            code = INCLUDE.sub("", COMMENT.sub("", file.read_text()))
            code = re.sub(r'"[ \t]*\n[ \t]*"', "", code)
            for text in STRING.findall(code) + (TEMPLATE.findall(code) if file.suffix == ".js" else []):
                if " " in text.strip():
                    yield file, text


def comments():
    """Every comment of the sources, and every docstring: (path, number of its first line, text)."""
    begun = {}  # path -> number, text
    for path, number, line in sources(".cc", ".h", ".js", ".py"):
        mark = "#" if path.endswith(".py") else "//"
        if found := re.match(rf" *{mark}/?<? ?(.*)", line):
            first, text = begun.get(path, (number, ""))
            begun[path] = first, f"{text} {found[1]}".strip()
            continue
        if path in begun:
            yield path, *begun.pop(path)
        if mark == "//" and (found := re.search(r"\s///?<? (.*)", line)):
            yield path, number, found[1]
    for folder in ("bench", "python", "tests"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
                    yield str(file.relative_to(ROOT)), getattr(node, "lineno", 1), " ".join(text.split())


def documents():
    """Every document, as (path, text): without code, and of the changes only those of the next version."""
    for file in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "bench").glob("*.md"))):
        text = re.sub(r"(?ms)^```.*?^```$|^# SYNOPSIS$.*?(?=^# )", "", file.read_text())
        yield str(file.relative_to(ROOT)), "\n## ".join(text.split("\n## ")[:2]) if file.name == "CHANGELOG.md" else text


def sentences(text):
    """The sentences of a document, and of the cells of its tables."""
    for paragraph in re.split(r"\n\n|\n(?=#|:   |\||- | *\d+\. | +- )", text):
        for cell in paragraph.strip("| \n").split(" | "):
            plain = re.sub(r"^(?:[-:] +|\d+\. )?(?:\d+\.\d+ )?[*_(`]*", "", " ".join(cell.split()))
            yield from re.split(r"(?<=[.?!])\*{0,2}\)?\s+", plain)


def pages():
    """User documents: (file, paragraph), without code."""
    names = ("weightfs.1", "mount.weightfs.8", "semantics", "status", "examples", "remote", "systemd", "fleet", "kubernetes",
             "cache-format", "python")
    for file in (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in names), *(ROOT / "docs" / "design").glob("*.md")):
        text = re.sub(r"(?ms)^```.*?^```$", "", file.read_text())
        for paragraph in re.sub(r"`[^`\n]*`|\*", "", text).split("\n\n"):
            yield file, " ".join(paragraph.split())


def found_in(texts):
    return [f"{file.relative_to(ROOT)}: {match[0]!r} (use: {instead}) in {text[:100]!r}"
            for file, text in texts for pattern, instead in FORBIDDEN if (match := pattern.search(text))]


def commands(path=()):
    text = weightfs(*path, "--help")
    yield path, text
    _, _, verbs = text.partition("\nCommands:\n")
    for verb in re.findall(r"^  (\S+)", verbs.partition("\n\n")[0], re.MULTILINE):
        yield from commands((*path, verb))


def options_of(text):
    """The options that take a value in a text of --help: {name: help}."""
    entries = {}
    for entry in re.split(r"\n(?=  \S)", text):
        head = re.match(r"  (-\S+) ([A-Z][A-Z|]*|on\|off) +", entry)
        if head:
            entries[head[1].split(",")[-1]] = " ".join(entry[head.end():].split("\n\n")[0].split())
    return entries


class Words(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.help = dict(commands())
        cls.page = (ROOT / "docs" / "weightfs.1.md").read_text()
        section = re.search(r"^# OPTIONS\n(.*?)(?=^# )", cls.page, re.MULTILINE | re.DOTALL)[1]
        cls.entries = {name: " ".join(text.replace("*", "").split())
                       for names, text in re.findall(r"^(\*\*-.*)\n:   (.*(?:\n.+)*)", section, re.MULTILINE)
                       for name in re.findall(r"\*\*(--?[\w-]+)\*\*", names)}

    def test_phrases_are_found(self):
        for wrong in ("nobody uses it", '"x" is no size', "who mounts", "not at hand", "30 if not given",
                      "the server does not answer"):
            self.assertTrue(found_in([(ROOT / "x", wrong)]), wrong)
        for right in ("is no longer pinned", "not responding", "verified", "(default: 30)"):
            self.assertEqual(found_in([(ROOT / "x", right)]), [])

    def test_messages_use_plain_words(self):
        texts = list(messages())
        self.assertGreater(len(texts), 300)
        self.assertEqual(found_in(texts), [])

    def test_help_uses_plain_words(self):
        self.assertEqual(found_in((ROOT / "--help" / "/".join(path), " ".join(text.split())) for path, text in self.help.items()),
                         [])

    def test_documents_use_plain_words(self):
        self.assertEqual(found_in(pages()), [])

    def test_comments_have_a_subject(self):
        self.assertTrue(WITHOUT_SUBJECT.search("  /// The same for a directory."))
        self.assertTrue(WITHOUT_SUBJECT.search("  # Of several sources."))
        self.assertFalse(WITHOUT_SUBJECT.search("  /// The bytes of the same file."))
        found = [f"{path}:{number}: {line.strip()}" for path, number, line in sources(".cc", ".h", ".js", ".py")
                 if WITHOUT_SUBJECT.search(line) and path != "tests/words_test.py"]
        self.assertEqual(found, [])

    def test_sentences_begin_with_their_subject(self):
        for wrong in ("Of a file that ends early, the rest is shown", "Absent are types", "What cannot be read stays."):
            self.assertTrue(FRONTED.match(wrong), wrong)
        for right in ("Often a file", "What a mount shows is read-only. It stays.", "Official names"):
            self.assertFalse(FRONTED.match(right), right)
        texts = [(f"{path}: {sentence}", sentence) for path, text in documents() for sentence in sentences(text)]
        self.assertGreater(len(texts), 5_000)
        texts += [(f"{path}:{number}: {text}", sentence) for path, number, text in comments() if path != "tests/words_test.py"
                  for sentence in re.split(r"(?<=[.?!])\s+", text)]
        self.assertGreater(len(texts), 20_000)
        self.assertEqual([where for where, sentence in texts if FRONTED.match(sentence)], [])

    def test_comments_have_one_pronoun_for_a_noun_at_most(self):
        texts = [each for each in comments() if each[0] != "tests/words_test.py"]
        self.assertEqual([each for each in texts if len(PRONOUN.findall(each[2])) > 1], [])

    def test_sentences_are_short(self):
        found = {path: list(sentences(re.sub(r"\*\*[^*]+\*\*|\*[^*]+\*", "", text))) for path, text in documents() if path in SHORT}
        self.assertEqual(sorted(found), sorted(SHORT))
        self.assertGreater(sum(map(len, found.values())), 1_000)
        long = [(path, sentence) for path, each in found.items() for sentence in each
                if len(re.findall(r"\S*\w\S*", sentence)) > MAX_WORDS]
        self.assertEqual(long, [])

    def test_changes_have_two_lines_at_most(self):
        changes = re.split(r"\n(?=- |\n)", dict(documents())["CHANGELOG.md"])
        self.assertGreater(len(changes), 200)
        self.assertEqual([change for change in changes if change.strip().count("\n") > 1], [])

    def test_lines_are_short(self):
        in_code = False
        seen, long, needed = 0, [], set()
        for path, number, line in sources(".cc", ".h", ".py", ".md"):
            seen += 1
            is_page = path.endswith(".md")
            in_code = is_page and in_code != line.startswith("```")
            exempt = in_code or line.startswith("|") if is_page else LITERAL.search(line)
            if len(line) > MAX_COLUMNS and not exempt:
                (needed.add(path) if path in SCRIPTS else long.append(f"{path}:{number}"))
        self.assertGreater(seen, 50_000)
        self.assertEqual(long, [], "\n".join(long))
        self.assertEqual(SCRIPTS - needed, set(), "no longer needed")

    def test_test_names_state_situation_and_outcome(self):
        names = [(file.name, name) for file in sorted((ROOT / "tests").rglob("*.py"))
                 for name in re.findall(r"def (test_\w+)", file.read_text())]
        self.assertGreater(len(names), 300)
        self.assertEqual([each for each in names if UNCLEAR_NAME.search(each[1])], [])

    def test_help_states_the_default_of_each_option_with_a_value(self):
        seen = set()
        for path, text in self.help.items():
            for name, help_text in options_of(text).items():
                seen.add(name)
                if name in WITHOUT_DEFAULT:
                    self.assertNotRegex(help_text, DEFAULT, f"{name}: no longer needed")
                else:
                    with self.subTest(" ".join((*path, name))):
                        self.assertRegex(help_text, DEFAULT)
        self.assertLessEqual({"--timeout", "--uid", "--log-level", "--cache-size", *WITHOUT_DEFAULT}, seen)

    def test_page_states_the_defaults_of_help(self):
        for path, text in self.help.items():
            for name, help_text in options_of(text).items():
                if found := DEFAULT.search(help_text):
                    with self.subTest(name):
                        self.assertIn(found[0], self.entries[name])

    def test_page_help_and_readme_name_the_same_options(self):
        in_help = {
            name for text in self.help.values() for names in re.findall(r"^  (-\S+)", text, re.MULTILINE)
            for name in names.split(",")
        }
        self.assertEqual(set(self.entries), in_help)
        readme = re.sub(r"(?m)^.*(\b(cmake|systemctl|apt-get|jq|numpy)\b|scripts/).*$", "", (ROOT / "README.md").read_text())
        self.assertEqual(set(OPTION.findall(readme)) - in_help, set())


if __name__ == "__main__":
    unittest.main()
