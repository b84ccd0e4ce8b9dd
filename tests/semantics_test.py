"""docs/semantics.md is short and numbered without gaps; quoted rules and pages exist; numbers are those of the code; every rule
has tests, which exist."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "semantics.md"
TESTS = ROOT / "docs" / "design" / "tests.md"

MAX_LINES = 540
MAX_COLUMNS = 132

GOOGLE = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
NAMED = re.compile(r"`([^`]+)`")
RULE = re.compile(r"^- (\d+\.\d+) ", re.MULTILINE)
QUOTED = re.compile(r"\bsemantics(?:\.md\]?(?:\([^)]*\))?)?,? (?:rules? |section )?(\d+(?:\.\d+)?(?:(?:, | and | to )\d+\.\d+)*)")
QUOTED_PAGE = re.compile(r"\bdocs/design/[a-z-]+\.md\b")
FOLDERS = ("base", "formats", "cache", "protocols", "sources", "fs", "report", "serve", "cli", "tests", "docs", "bench",
           "packaging", "scripts", "systemd", "python")

# Numbers in rules (or in the table of a section): rule, file, constant, and how the rule says it. {n} is the value, {KiB} the
# value as a number of KiB, {s} of seconds if the code has milliseconds, {word} and {word_s} these numbers as words, {less} the
# value less one, {power} its power of two.
NUMBERS = (
    ("1", "formats/model.h", "kMaxInlineList", "more than {n} elements"),
    ("1", "formats/common/warnings.h", "kMaxWarnings", "at most {n} lines"),
    ("1.3", "sources/directory.cc", "kMaxDirectoryLinks", "at most {word} on a path"),
    ("1.7", "sources/disk/model_walk.cc", "kSearchedDepth", "({n} levels,"),
    ("1.7", "sources/disk/model_walk.cc", "kSearchedNames", "{n} names)"),
    ("1.7", "sources/disk/model_walk.cc", "kMaxWalkedFiles", "up to {n} files"),
    ("1.7", "sources/disk/model_walk.cc", "kMaxWalkedDirectories", "of {n} directories"),
    ("3.4", "fs/names.h", "kMaxComponents", "the first {less} `/`"),
    ("3.5", "fs/names.h", "kMaxComponentLength", "more than {n} bytes"),
    ("3.5", "fs/names.cc", "kHashDigits", "the first {n} hex digits"),
    ("4.1", "formats/numpy/npy_header.cc", "kAlignment", "padded to {n} bytes"),
    ("4.4", "formats/numpy/npy_header.h", "kMaxNpyDimensions", "more than {n} dimensions"),
    ("4.5", "fs/views/npy.h", "kMaxStringArrayBytes", "above {MiB} MiB"),
    ("5.4", "base/values/value.h", "kMaxIndent", "deeper than {n} levels"),
    ("6.1", "base/files/file_source.cc", "kPathCheckInterval", "every {s} seconds"),
    ("6.5", "base/files/open_files.h", "kMaxIdleFiles", "At most {n} source files"),
    ("8.2", "fs/fuse/session.h", "kShutdownTimeout", "hang for {n} seconds"),
    ("9.5", "formats/format.h", "kHeadSize", "its first {KiB} KiB"),
    ("9.5", "formats/format.h", "kMaxNestingDepth", "at most {word} levels"),
    ("9.6", "cache/blocks/block_map.h", "kBlock", "its last block ({KiB} KiB)"),
    ("10.3", "cache/decoding/materialize.cc", "kMaxStall", "stops for {n} seconds"),
    ("10.3", "base/files/content_mark.h", "kMarkedBytes", "{KiB} KiB of each end"),
    ("10.5", "cache/store/temp_file_backend.h", "max_open", "at most {n} blobs"),
    ("10.6", "base/blobs.h", "kSmallBlob", "at most {KiB} KiB"),
    ("10.7", "cache/blocks/block_map.h", "kBlock", "each block of {KiB} KiB"),
    ("12.2", "base/blobs.h", "kMaxVerifiedFirst", "above {MiB} MiB"),
    ("13.3", "cache/store_options.h", "unused_download", "after {s} seconds"),
    ("13.4", "cache/download/remote_file.h", "kMaxOrigins", "The first {n} URLs"),
    ("13.4", "cache/http/request.h", "stall_timeout", "(default: {s}) without data"),
    ("13.4", "cache/download/origin.h", "max_delay", "more than {s} seconds"),
    ("13.5", "cache/blocks/block_map.h", "kBlock", "blocks of {KiB} KiB"),
    ("13.6", "cache/remote/ranges.h", "kMaxTransfers", "up to {word} connections"),
    ("14.7", "cli/options/store_options.cc", "kWaitForNetwork", "{n} seconds in a usable mount"),
    ("14.8", "cache/http/request.h", "max_retries", "(default: {n})"),
    ("15.2", "cache/http/direct_client.cc", "kMaxRedirects", "At most {n} redirects"),
    ("16.2", "cache/paths.h", "kMaxNamesOfFile", "up to {n} names"),
    ("16.4", "cache/store/maintenance.cc", "kMinDigits", "{word} or more of its first hex digits"),
    ("17.5", "cli/console/log.h", "kMaxLines", "the last {n} lines"),
    ("18.1", "base/blobs.h", "kMaxVerifiedFirst", "up to {MiB} MiB"),
    ("20.1", "base/budget.h", "kBaseMemory", "Memory: {MB} MB plus"),
    ("20.1", "base/budget.h", "kMemoryPerByte", "plus {n} bytes per byte"),
    ("20.1", "base/budget.h", "kMaxDepth", "names: {n} levels"),
    ("20.2", "base/source.cc", "kMaxDeclared", "by at most {MiB} MiB"),
    ("20.3", "base/budget.cc", "kMaxWait", "at most {n} seconds"),
    ("20.7", "formats/archive/tar.cc", "kMaxFreeSize", "{GiB} GiB together"),
    ("20.7", "formats/archive/tar.cc", "kMaxExpansion", "{n} times the size"),
    ("21.2", "cache/download/remote_file.h", "kHead", "its first {KiB} KiB"),
    ("21.2", "cache/blocks/block_map.h", "kBlock", "blocks of {KiB} KiB"),
    ("21.6", "base/blobs.h", "kMaxVerifiedFirst", "above {MiB} MiB"),
    ("21.9", "fs/reading/prefetch.h", "kMinRun", "after {word} that were read"),
    ("21.10", "cache/download/remote_file.h", "kHead", "above {KiB} KiB"),
    ("21.10", "formats/archive/archive.cc", "kMaxPaths", "at most {n} files"),
    ("22.6", "protocols/huggingface.h", "kMaxGitFile", "at most {MiB} MiB"),
    ("23.3", "protocols/s3/s3.cc", "kMaxOpen", "At most {n} objects"),
    ("24.7", "sources/kinds.cc", "kCommitDigits", "{n} hex digits"),
    ("26.2", "formats/numpy/npy_header.h", "kMaxNpyDimensions", "{n} dimensions"),
    ("26.2", "fs/views/converted.cc", "kMaxElements", "2^{power} elements"),
    ("26.3", "fs/views/selection.h", "kMaxFileOffset", "2^{power} bytes"),
    ("26.4", "fs/layout/model_files.h", "kDefaultShardSize", "(default: {GB} GB)"),
    ("27.1", "report/info/screen.h", "kMaxLines", "at most {n} lines"),
    ("27.1", "report/text/style.cc", "kDefaultWidth", "else {n}."),
    ("29.3", "fs/http/protocol/conditions.h", "kMaxParts", "more than {n} get the whole file"),
    ("29.6", "fs/http/listing.h", "kListingPage", "pages of {n} names"),
    ("29.9", "fs/http/protocol/request_parser.h", "kMaxHeader", "at most {KiB} KiB"),
    ("29.9", "fs/http/protocol/request_parser.h", "kMaxFields", "{n} fields"),
    ("29.9", "fs/http/server_options.h", "header", "and {n} s."),
    ("29.9", "fs/http/server_options.h", "idle", "after {n} s between requests"),
    ("29.9", "fs/http/server_options.h", "stalled", "or {n} s in which"),
    ("29.9", "cli/serve/http_server.cc", "kShutdown", "for {word_s} seconds at most"),
)
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "MB": 10**6, "GB": 10**9, "s": 1000}
WORDS = dict(enumerate(("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")))


def value_of(file, constant):
    """The number that a source file gives a constant or member: `kA = 64 * 1024;`, `kB{uint64_t{1} << 20}`."""
    found = re.search(rf"\b{constant}(?: = ([^;,)]+?)|\{{((?:[^{{}};]|\{{\w+\}})+)\}})[;,)]", (ROOT / file).read_text())
    text = re.sub(r"\w+\{(\d+)\}", r"\1", (found[1] or found[2]).replace("'", ""))
    text = re.sub(r"(\d)[uUlL]+\b", r"\1", text)
    if not re.fullmatch(r"[\d\s*+<>()-]+", text):
        raise ValueError(f"{file}: {constant} is {text}")
    return eval(text)  # digits and operators only


def written(value, form):
    """How a rule says `value`."""
    numbers = {name: f"{value / unit:g}" for name, unit in UNITS.items()}
    words = {"word": WORDS.get(value), "word_s": WORDS.get(value / 1000)}
    return form.format(n=f"{value:,}", less=value - 1, power=value.bit_length() - 1, **numbers, **words)


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

    def test_numbers_are_those_of_the_code(self):
        self.assertGreaterEqual(len(NUMBERS), 60)
        for rule, file, constant, form in NUMBERS:
            start, end = (rf"## {rule}\. ", "## ") if "." not in rule else (f"- {re.escape(rule)} ", "- |## ")
            text = " ".join(re.search(rf"^{start}(.*?)(?=^{end}|\Z)", self.text, re.MULTILINE | re.DOTALL)[1].split())
            with self.subTest(f"{rule}: {constant} in {file}"):
                self.assertIn(written(value_of(file, constant), form), text)

    def test_numbers_are_written_as_in_rules(self):
        for value, form, text in ((65_536, "{KiB} KiB", "64 KiB"), (2_000, "{n} or {word_s}", "2,000 or two"), (100, "{s}", "0.1"),
                                  (1 << 53, "2^{power}", "2^53"), (5 * 10**9, "{GB} GB", "5 GB"), (32, "{less}", "31")):
            self.assertEqual(written(value, form), text)

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
