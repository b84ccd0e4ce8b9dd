"""The tests named in docs/semantics.md exist."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOOGLE = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
NAMED = re.compile(r"`((?:test_\w+|[A-Z]\w*)\.(?:[\w.]+|\*))`")
FILES = (".cc", ".h", ".md", ".json", ".toml", ".py", ".txt")


def googletests():
    for file in (ROOT / "tests").rglob("*_test.cc"):
        for suite, name in GOOGLE.findall(file.read_text()):
            yield from (f"{suite}.{name}", f"{suite}.*")


def mount_tests():
    for file in (ROOT / "tests" / "mount").glob("test_*.py"):
        group = None
        for line in file.read_text().splitlines():
            if found := re.match(r"class (\w+)", line):
                group = f"{file.stem}.{found[1]}"
                yield group
            elif found := re.match(r"    def (test_\w+)", line):
                yield f"{group}.{found[1]}"


class Semantics(unittest.TestCase):
    def test_tests_named_by_rules_exist(self):
        there = set(googletests()) | set(mount_tests())
        named = [name for name in NAMED.findall((ROOT / "docs" / "semantics.md").read_text()) if not name.endswith(FILES)]
        self.assertGreater(len(named), 50)
        self.assertEqual([name for name in named if name not in there], [])


if __name__ == "__main__":
    unittest.main()
