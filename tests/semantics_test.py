"""docs/semantics.md is short and numbered without gaps; quoted rules and pages exist; every rule has tests, which exist."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "semantics.md"
TESTS = ROOT / "docs" / "design" / "tests.md"

MAX_LINES = 540
MAX_COLUMNS = 132
MAX_WORDS = 45  # in a sentence

GOOGLE = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
NAMED = re.compile(r"`([^`]+)`")
RULE = re.compile(r"^- (\d+\.\d+) ", re.MULTILINE)
QUOTED = re.compile(r"\bsemantics(?:\.md\]?(?:\([^)]*\))?)?,? (?:rules? |section )?(\d+(?:\.\d+)?(?:(?:, | and | to )\d+\.\d+)*)")
QUOTED_PAGE = re.compile(r"\bdocs/design/[a-z-]+\.md\b")
FOLDERS = ("base", "formats", "cache", "sources", "fs", "cli", "tests", "docs", "bench", "packaging", "scripts", "systemd",
           "python")
SENTENCE_END = re.compile(r"(?<=[.:;])\s+")


def googletests():
    for file in (ROOT / "tests").rglob("*_test.cc"):
        for suite, name in GOOGLE.findall(file.read_text()):
            yield from (f"{suite}.{name}", f"{suite}.*")


def python_tests():
    folders = [ROOT / "tests" / folder for folder in ("ambiguity", "attacks", "mount", "python")]
    for file in (*(file for folder in folders for file in folder.glob("test_*.py")), ROOT / "tests" / "package_test.py"):
        group = None
        for line in file.read_text().splitlines():
            if found := re.match(r"class (\w+)", line):
                group = f"{file.stem}.{found[1]}"
                yield from (group, file.stem)
            elif found := re.match(r"    def (test_\w+)", line):
                yield f"{group}.{found[1]}"


def sentences(text):
    """The sentences of a page without tables and code."""
    text = re.sub(r"(?ms)^```.*?^```$|^\|.*?$", "", text)
    for paragraph in re.split(r"\n\n|\n(?=#|- | *\d+\. )", text):
        yield from SENTENCE_END.split(" ".join(paragraph.split()))


def sources():
    """The text of every source file and document: (path, text)."""
    for file in (*ROOT.glob("*.md"), *(file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*")))):
        if file.suffix in (".cc", ".h", ".md", ".py", ".txt", ".in", ".cmake"):
            yield str(file.relative_to(ROOT)), file.read_text()


class Semantics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = PAGE.read_text()
        cls.rules = RULE.findall(cls.text)

    def test_page_is_short(self):
        lines = self.text.splitlines()
        self.assertLessEqual(len(lines), MAX_LINES)
        self.assertEqual([line for line in lines if len(line) > MAX_COLUMNS], [])

    def test_sentences_are_short(self):
        found = list(sentences(self.text))
        self.assertGreater(len(found), 300)
        self.assertEqual([sentence for sentence in found if len(sentence.split()) > MAX_WORDS], [])

    def test_sections_and_rules_are_numbered_without_gaps(self):
        sections = [int(number) for number in re.findall(r"^## (\d+)\. ", self.text, re.MULTILINE)]
        self.assertEqual(sections, list(range(1, len(sections) + 1)))
        expected = [f"{section}.{number}" for section in sections
                    for number in range(1, 1 + sum(rule.startswith(f"{section}.") for rule in self.rules))]
        self.assertEqual(self.rules, expected)

    def test_rules_that_the_page_names_exist(self):
        named = re.findall(r"(?<!Linux )(?<!NumPy )(?<![\d.])\b(\d+\.\d+)\b(?! seconds)", self.text)
        self.assertGreater(len(named), 50)
        self.assertEqual(set(named) - set(self.rules), set())

    def test_quoted_rules_exist(self):
        known = {*self.rules, *(rule.partition(".")[0] for rule in self.rules)}
        quoted = [(path, number) for path, text in sources() for each in QUOTED.findall(text)
                  for number in re.findall(r"\d+(?:\.\d+)?", each)]
        self.assertGreater(len(quoted), 200)
        self.assertEqual([each for each in quoted if each[1] not in known], [])

    def test_quoted_pages_exist(self):
        quoted = {(path, page) for path, text in sources() for page in QUOTED_PAGE.findall(text)}
        self.assertGreater(len(quoted), 10)
        self.assertEqual(sorted(each for each in quoted if not (ROOT / each[1]).exists()), [])

    def test_each_rule_has_tests_that_exist(self):
        page = TESTS.read_text().partition("\n## ")[2]
        self.assertEqual(re.findall(r"^- (\d+\.\d+): `", page, re.MULTILINE), self.rules)
        there = set(googletests()) | set(python_tests())
        names = NAMED.findall(re.sub(r"(?m)^## .*", "", page))
        self.assertGreater(len(names), 400)
        self.assertEqual([name for name in names if not self.exists(name, there)], [])

    @staticmethod
    def exists(name, there):
        if name.endswith("*"):
            return any(test.startswith(name[:-1]) for test in there)
        return name in there or (ROOT / name).exists()


if __name__ == "__main__":
    unittest.main()
