"""The folders depend on each other in one direction only, and each third-party library is known to one place."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What the files of a folder may include of ours.
ALLOWED = {
    "base": {"base"},
    "formats": {"base", "formats"},
    "cache": {"base", "cache"},
    "fs": {"base", "formats", "fs"},
    "cli": {"base", "formats", "cache", "fs", "cli"},
}

# What of formats/ the others know: no format's own header.
WAIST = {"formats/model.h", "formats/format.h", "formats/dtype.h", "formats/verify.h", "formats/archive/symlink.h", "formats/ollama/name.h"}

# Where a header that begins so may be included.
THIRD_PARTY = {
    "tl/expected": r"base/result\.h",
    "openssl/": r"base/(digest|signature)\.cc",
    "isa-l/crc": r"base/crc32\.cc",
    "isa-l/igzip": r"formats/codec\.cc",
    "zstd": r"formats/codec\.cc",
    "lzma.h": r"formats/codec\w*\.cc",
    "zip.h": r"formats/zip(\.cc|_feed\.\w+)",
    "archive": r"formats/tar\.cc",
    "nlohmann/": r"base/json\.cc",
    "toml++": r"base/toml\.cc",
    "flatbuffers/": r"formats/rten_\w+\.(cc|h)",
    "rten_generated.h": r"formats/rten\w*\.cc",
    "rten_bfbs_generated.h": r"formats/rten_schema\.cc",
    "curl/": r"cache/http_(hop|url)\.cc",
    "fuse": r"fs/waits\.h",
    "systemd/": r"cli/service/notify\.cc",
    "seccomp.h": r"cli/sandbox/seccomp\.cc",
    "CLI/": r"cli/(\w+/)?\w+\.(cc|h)",
}

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)

# The C++ library's headers have no dot and no slash; the C library's and the kernel's are named here.
SYSTEM = re.compile(r"[a-z_]+|(sys|linux|netinet|arpa)/\w+\.h|(fcntl|unistd|signal|spawn|poll|dirent|netdb|syslog|malloc|pwd|grp|sched)\.h")


def includes():
    """Every #include of the source folders: (file, is it in quotes, what)."""
    for folder in ALLOWED:
        for file in sorted((ROOT / folder).rglob("*.*")):
            if file.suffix in (".cc", ".h"):
                for quote, header in INCLUDE.findall(file.read_text()):
                    yield file.relative_to(ROOT).as_posix(), quote == '"', header


class Layering(unittest.TestCase):
    def test_folders_depend_in_one_direction(self):
        wrong = [f"{file} includes {header}" for file, ours, header in includes()
                 if ours and header.partition("/")[0] not in ALLOWED[file.partition("/")[0]]]
        self.assertEqual(wrong, [])

    def test_the_tree_knows_no_single_format(self):
        wrong = [f"{file} includes {header}" for file, ours, header in includes()
                 if ours and not file.startswith("formats/") and header.startswith("formats/")
                 and header not in WAIST]
        self.assertEqual(wrong, [])

    def test_own_headers_are_named_from_the_root(self):
        wrong = [f"{file} includes {header}" for file, ours, header in includes() if ours and not (ROOT / header).is_file()]
        self.assertEqual(wrong, [])

    def test_a_third_party_library_is_known_to_one_place(self):
        wrong = []
        for file, ours, header in includes():
            if ours or SYSTEM.fullmatch(header):
                continue
            places = [place for start, place in THIRD_PARTY.items() if header.startswith(start)]
            if not any(re.fullmatch(place, file) for place in places):
                wrong.append(f"{file} includes {header}")
        self.assertEqual(wrong, [])

    def test_every_folder_is_looked_at(self):
        seen = {file.partition("/")[0] for file, _, _ in includes()}
        there = {folder for folder in ALLOWED if list((ROOT / folder).glob("*.cc"))}
        self.assertEqual(seen, there)
        self.assertIn("base", seen)


if __name__ == "__main__":
    unittest.main()
