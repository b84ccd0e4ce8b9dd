"""Folders, and the rooms in a folder, depend on each other in one direction, and each third-party library is included in one
place.

A room is a folder below a top folder: cache/http. A header at the top of a folder whose .cc file is in a room is the public
header of that room: cache/blob_store.h belongs to cache/blobs.
"""
import importlib.machinery
import importlib.util
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The folders whose headers the files of a folder may include.
ALLOWED = {
    "base": {"base"},
    "formats": {"base", "formats"},
    "numbers": {"base", "formats", "numbers"},
    "cache": {"base", "cache"},
    "protocols": {"base", "cache", "protocols"},
    "sources": {"base", "formats", "cache", "protocols", "sources"},
    "fs": {"base", "formats", "sources", "fs"},
    "report": {"base", "formats", "numbers", "fs", "report"},
    "serve": {"base", "formats", "numbers", "fs", "report", "serve"},
    "cli": {"base", "formats", "cache", "protocols", "sources", "fs", "report", "serve", "cli"},
}

# The rooms that each room of cache/ may include, and pairs of rooms in cli/ where the first must not include the second.
ROOMS = {
    "cache/blocks": set(),
    "cache/store": {"cache/blocks"},
    "cache/http": set(),
    "cache/fetcher": {"cache/http"},
    "cache/download": {"cache/http"},
    "cache/decoding": {"cache/store"},
    "cache/core": {"cache/decoding", "cache/store"},
    "cache/remote": {"cache/blocks", "cache/core", "cache/decoding", "cache/download", "cache/store"},
    "cache/blobs": {"cache/core", "cache/download", "cache/remote", "cache/store"},
}
# The headers in rooms of cache/ that a protocol includes: it sends requests of its own.
FOR_PROTOCOLS = {"cache/download/request_with_retry.h", "cache/download/shown_reason.h", "cache/http/client.h",
                 "cache/remote/remote_source.h"}
APART = [("cli/mount", "cli/mount_server"), ("cli/mount", "cli/systemd"), ("cli/mount_server", "cli/systemd"),
         ("cli/systemd", "cli/serve")]

# The headers of formats/ that other folders may include.
WAIST = {
    "formats/float32.h", "formats/model.h", "formats/format.h", "formats/dtype.h", "formats/tensor_list.h", "formats/verify.h",
    "formats/signature.h", "formats/numpy/npy_header.h",
    "formats/archive/symlink.h", "formats/ollama/name.h", "formats/common/warnings.h", "formats/completeness.h", "formats/output.h",
    "formats/code/code.h", "formats/other_files.h", "formats/summary/summary.h", "formats/summary/blocks.h",
    "formats/summary/memory.h", "formats/summary/adapter_name.h", "formats/summary/tensors/tensor_name.h", "formats/one_model.h",
    "formats/directory/weight_files.h", "formats/gguf_keys.h", "formats/ollama/store.h", "formats/mapping/mapping.h",
    "formats/mapping/hub/hub_files.h",
    "formats/computed_weights.h", "formats/entries/entries.h", "formats/tokenizer/marked_tokens.h", "formats/tokenizer/texts.h",
    "formats/tokenizer/vocabulary.h"
}

# Files with more code lines than scripts/figures allows. The list may only shrink.
LARGE = ()

MAX_FILES = 25  # .cc and .h in one folder

# The files that may include a header with this prefix.
ALL_VERSIONS = "cli/doctor/checks_libraries.cc"  # asks each library for its version
THIRD_PARTY = {
    "tl/expected": r"base/result\.h",
    "fmt/": r".*",  # messages are built everywhere
    "openssl/": r"(base/digest|base/values/base64|base/signing/sigv4|protocols/(registry|azure)/signature|"
                r"protocols/gcs/service_account|protocols/keyring/client_certificate|fs/http/connection)\.cc",
    "boost/": r"fs/http/protocol/request_parser\.cc",
    "isa-l/crc": r"base/digest\.cc",
    "isa-l/igzip": r"formats/codec/codec\.cc",
    "zstd": r"formats/codec/codec\.cc",
    "snappy": r"formats/codec/snappy\.cc",
    "lzma.h": r"formats/codec/codec\w*\.cc",
    "zip.h": r"formats/archive/zip(\.cc|_source\.\w+)",
    "archive": r"formats/archive/tar\.cc",
    "expat.h": r"formats/openvino/xml\.cc",
    "nlohmann/": r"base/values/json\.cc",
    "toml++": r"base/values/toml\.cc",
    "flatbuffers/": r"formats/rten/\w+\.(cc|h)",
    "rten_generated.h": r"formats/rten/\w+\.cc",
    "rten_bfbs_generated.h": r"formats/rten/schema\.cc",
    "curl/": r"cache/http/(exchange|transfer_errors|url)\.cc",
    "fuse": r"fs/fuse/interrupts\.h",
    "nss.h": r"cli/process/name_service\.cc",
    "seccomp.h": r"cli/sandbox/seccomp\.cc",
    "zlib.h": r"report/plot/raster/deflate\.cc",
    "Eigen/": r"numbers/factors\.cc",
}

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)

# The C++ library's headers have no dot and no slash; the C library's and the kernel's are named here.
SYSTEM = re.compile(
    r"[a-z_]+|(sys|linux|netinet|arpa)/\w+\.h|(fcntl|getopt|unistd|signal|spawn|poll|fnmatch|dirent|netdb|syslog|malloc|pwd|grp|sched|pthread|semaphore|termios)\.h"
)


def includes():
    """Every #include of the source folders: (file, whether it is in quotes, header)."""
    for folder in ALLOWED:
        for file in sorted((ROOT / folder).rglob("*.*")):
            if file.suffix in (".cc", ".h"):
                for quote, header in INCLUDE.findall(file.read_text()):
                    yield file.relative_to(ROOT).as_posix(), quote == '"', header


def figures():
    """scripts/figures as a module."""
    loader = importlib.machinery.SourceFileLoader("figures", str(ROOT / "scripts" / "figures"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("figures", loader))
    loader.exec_module(module)
    return module


# Comments and literals, which have brackets of their own.
NOT_CODE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'')
# What is before the brace of a block, or of a body.
BLOCK = re.compile(r"(\)|\belse|\bdo|\btry|\bconst|\bnoexcept|->\s*[\w:<>,*& ]+)\s*$")


def early_returns_in_lists(text):
    """The lines with a TRY in a braced list, behind an element that would never be destroyed (base/result.h)."""
    code = NOT_CODE.sub(lambda found: "x" * len(found[0]), text)
    found = []
    for match in re.finditer(r"\bTRY\(", code):
        depth, at, is_behind = 0, match.start() - 1, False
        while at >= 0 and not (code[at] == "{" and depth == 0) and not (code[at] == ";" and depth == 0):
            is_behind |= code[at] == "," and depth == 0
            depth = max(0, depth + (code[at] in ")]}") - (code[at] in "([{"))
            at -= 1
        if is_behind and at >= 0 and code[at] == "{" and not BLOCK.search(code[max(0, at - 80):at]):
            found.append(code.count("\n", 0, match.start()) + 1)
    return found


def room_of(path):
    """"cache/http" for files in that room and for its public header; otherwise the path itself."""
    folder, _, rest = path.partition("/")
    if "/" in rest:
        return f"{folder}/{rest.partition('/')[0]}"
    stem = rest.rpartition(".")[0]
    if rest.endswith(".h") and not (ROOT / folder / f"{stem}.cc").exists():
        for source in (ROOT / folder).glob(f"*/{stem}.cc"):
            return f"{folder}/{source.parent.name}"
    return path


def graph():
    """room -> room -> the includes that are the reason for the dependency."""
    out = {}
    for file, ours, header in includes():
        room, other = room_of(file), room_of(header)
        if ours and room != other:
            out.setdefault(room, {}).setdefault(other, []).append(f"{file} includes {header}")
    return out


def cycle_in(edges):
    """The nodes of a cycle, or an empty list."""
    done, way = set(), []

    def visit(node):
        if node in way:
            return way[way.index(node):] + [node]
        if node in done:
            return None
        way.append(node)
        for following in edges.get(node, ()):
            if found := visit(following):
                return found
        done.add(way.pop())
        return None

    for node in edges:
        if found := visit(node):
            return found
    return []


class Layering(unittest.TestCase):
    def test_folders_depend_in_one_direction(self):
        wrong = [f"{file} includes {header}" for file, ours, header in includes()
                 if ours and header.partition("/")[0] not in ALLOWED[file.partition("/")[0]]]
        self.assertEqual(wrong, [])
        used = {(file.partition("/")[0], header.partition("/")[0]) for file, ours, header in includes() if ours}
        allowed = {(folder, other) for folder, others in ALLOWED.items() for other in others}
        self.assertEqual(allowed - used, set(), "no longer needed")

    def test_fs_includes_no_single_format(self):
        wrong = [f"{file} includes {header}" for file, ours, header in includes()
                 if ours and not file.startswith("formats/") and header.startswith("formats/")
                 and header not in WAIST]
        self.assertEqual(wrong, [])
        used = {header for file, ours, header in includes() if ours and not file.startswith("formats/")}
        self.assertEqual(WAIST - used, set(), "no longer needed")

    def test_rooms_have_no_include_cycle(self):
        edges = graph()
        cycle = cycle_in(edges)
        self.assertEqual(cycle, [], [edges[a][b] for a, b in zip(cycle, cycle[1:])])

    def test_files_include_each_other_in_one_direction(self):
        self.assertEqual(figures().circles_of(figures().files_of(None)), [])

    def test_files_and_functions_are_small(self):
        measured = figures()
        files = measured.files_of(None)
        functions = [one for name, text in files.items() for one in measured.functions_of(name, text)]
        self.assertGreater(len(functions), 5000)
        found = measured.exceeding_of(files, functions, [], measured.equal_runs(files))
        self.assertEqual([line for line in found if not line.startswith(LARGE)], [])
        self.assertEqual([start for start in LARGE if not any(line.startswith(start) for line in found)], [], "no longer needed")

    def test_no_function_returns_early_from_a_braced_list(self):
        files = [file for folder in ALLOWED for file in sorted((ROOT / folder).rglob("*.*")) if file.suffix in (".cc", ".h")]
        self.assertEqual([f"{file}:{line}" for file in files for line in early_returns_in_lists(file.read_text())], [])

    def test_early_returns_in_braced_lists_are_found(self):
        for text, found in (("A a{b, TRY(c())};", [1]), ("return A{\n.b = 1,\n.c = f(TRY(c()))};", [3]),
                            ("f({x, TRY(c())});", [1]), ("A a{TRY(c()), b};", []), ("if (a) { f(b, TRY(c())); }", []),
                            ("[&]() -> R<int> { g(b, TRY(c())); }", []), ("A a{b, 1};\nint x = TRY(c());", []),
                            ("// A a{b, TRY(c())};", [])):
            self.assertEqual(early_returns_in_lists(text), found, text)

    def test_long_and_complex_functions_are_found(self):
        text = "namespace a {\nint f(int x) {\n" + "  if (x) x += 1;\n" * 70 + "  return x;\n}\n}\n"
        self.assertEqual([(one.name, one.line, one.lines, one.complexity) for one in figures().functions_of("a.cc", text)],
                         [("f", 2, 73, 71)])

    def test_circles_of_files_are_found(self):
        files = {"a/b.cc": '#include "a/b.h"\n#include "a/c.h"\n', "a/b.h": "", "a/c.h": '#include "a/d.h"\n', "a/d.h": "",
                 "a/d.cc": '#include "a/b.h"\n'}
        self.assertEqual(figures().circles_of(files), [["a/b", "a/c", "a/d"]])

    def test_cycle_detection_works(self):
        self.assertEqual(cycle_in({"a": {"b": []}, "b": {"c": []}, "c": {"b": []}}), ["b", "c", "b"])

    def test_cache_rooms_depend_in_one_direction(self):
        edges = graph()
        for room, allowed in ROOMS.items():
            self.assertTrue((ROOT / room).is_dir(), room)
            others = {other for other in edges.get(room, {}) if other.startswith("cache/") and other in ROOMS}
            self.assertLessEqual(others, allowed, room)
            self.assertEqual(allowed - others, set(), f"{room}: no longer needed")

    def test_mount_room_does_not_include_service(self):
        edges = graph()
        for room, other in APART:
            self.assertEqual(edges.get(room, {}).get(other, []), [])

    def test_only_public_cache_headers_are_included_elsewhere(self):
        wrong = [f"{file} includes {header}" for file, ours, header in includes()
                 if ours and not file.startswith("cache/") and header.startswith("cache/") and header.count("/") > 1
                 and not (file.startswith("protocols/") and header in FOR_PROTOCOLS)]
        self.assertEqual(wrong, [])

    def test_folders_are_divided_into_rooms(self):
        for folder in ALLOWED:
            for room in [ROOT / folder, *(path for path in (ROOT / folder).rglob("*") if path.is_dir())]:
                files = [file for file in room.iterdir() if file.suffix in (".cc", ".h")]
                self.assertLessEqual(len(files), MAX_FILES, room)

    def test_map_names_every_room(self):
        text = "".join((ROOT / "docs" / page).read_text() for page in ("architecture.md", "formats/README.md"))
        for folder in ALLOWED:
            for room in (path for path in (ROOT / folder).iterdir() if path.is_dir()):
                self.assertTrue(re.search(rf"\b{room.name}\b", text), room)

    def test_documents_name_the_direction_of_every_folder(self):
        """"`base` ← `formats`, `cache` ← `sources`": an arrow is from a folder to each of those after it."""
        for page in ("CONTRIBUTING.md", "docs/architecture.md"):
            chains = re.findall(r"`\w+`(?:(?:,| ←) `\w+`)+", re.sub(r"\s+", " ", (ROOT / page).read_text()))
            named = set()
            for chain in (chain for chain in chains if "←" in chain):
                links = [re.findall(r"`(\w+)`", link) for link in chain.split(" ← ")]
                named |= {folder for link in links for folder in link}
                self.assertEqual([(a, b) for a, b in zip(links, links[1:]) for one in a for other in b
                                  if one not in ALLOWED[other]], [], page)
            self.assertEqual(named, set(ALLOWED), page)

    def test_formats_differ_by_their_rows(self):
        """Code outside the rooms of formats asks for a trait in the row of a format (formats/format.h), not for its name."""
        comparison = re.compile(r"""(\.|->)format( [=!]= "|\.(starts|ends)_with\(")""")
        wrong = [f"{file.relative_to(ROOT)}: {line.strip()}" for folder in ALLOWED for file in sorted((ROOT / folder).rglob("*.*"))
                 if file.suffix in (".cc", ".h") for line in file.read_text().splitlines() if comparison.search(line)]
        self.assertEqual(wrong, [])

    def test_own_headers_are_included_by_root_path(self):
        wrong = [f"{file} includes {header}" for file, ours, header in includes() if ours and not (ROOT / header).is_file()]
        self.assertEqual(wrong, [])

    def test_third_party_library_is_included_in_one_place(self):
        wrong, used = [], set()
        for file, ours, header in includes():
            if ours or SYSTEM.fullmatch(header) or file == ALL_VERSIONS:
                continue
            starts = {start for start, place in THIRD_PARTY.items() if header.startswith(start) and re.fullmatch(place, file)}
            used |= starts
            if not starts:
                wrong.append(f"{file} includes {header}")
        self.assertEqual(wrong, [])
        self.assertEqual(set(THIRD_PARTY) - used, set(), "no longer needed")

    def test_python_tests_have_one_http_server(self):
        """Its faults are known and documented: tests/support/scripted_server.py."""
        others = re.compile(r"\b(http\.server|HTTPServer|HTTPRequestHandler|socketserver)\b")
        wrong = [str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("*.py")
                 if others.search(file.read_text()) and file.name != "layering_test.py"]
        self.assertEqual(wrong, [])

    def test_files_of_tests_have_namespaces_of_their_own(self):
        """Several are compiled together, in groups that change with each new file."""
        files = {}
        for file in (ROOT / "tests").rglob("*_test.cc"):
            for name in set(re.findall(r"^namespace (weightfs::\w+_test) \{", file.read_text(), re.MULTILINE)):
                files.setdefault(name, []).append(file.name)
        self.assertEqual({name: there for name, there in files.items() if len(there) > 1}, {})

    def test_every_folder_is_checked(self):
        seen = {file.partition("/")[0] for file, _, _ in includes()}
        there = {folder for folder in ALLOWED if list((ROOT / folder).rglob("*.cc"))}
        self.assertEqual(seen, there)
        self.assertIn("base", seen)


if __name__ == "__main__":
    unittest.main()
