"""The files of the page (page/): short, without other hosts, complete, and small enough for the first view."""
import glob
import gzip
import hashlib
import os
import re
import unittest

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "page")
MAX_LINES = 300
MAX_FIRST_VIEW = 60_000  # bytes, each file compressed
STATIC_IMPORT = re.compile(r'^(?:import|export)\s[^;]*?\bfrom\s+"([^"]+)"|^import\s+"([^"]+)"', re.MULTILINE)
ANY_IMPORT = re.compile(r'\b(?:from|import)\s*\(?\s*"(\.[^"]+)"|new URL\("(\.[^"]+)", import\.meta\.url\)')


def text_of(name):
    with open(os.path.join(PAGE, name), encoding="utf-8") as file:
        return file.read()


def files(*endings):
    paths = glob.glob(os.path.join(PAGE, "**", "*"), recursive=True)
    return sorted(os.path.relpath(path, PAGE) for path in paths if path.endswith(endings))


def own(*endings):
    return [name for name in files(*endings) if not name.startswith("vendor/")]


def imports(name, pattern):
    """The files that a module imports."""
    found = (first or second for first, second in pattern.findall(text_of(name)))
    return {os.path.normpath(os.path.join(os.path.dirname(name), each)) for each in found}


def closure(names, pattern):
    """The modules, and those that they import."""
    todo, done = set(names), set()
    while todo:
        name = todo.pop()
        done.add(name)
        todo |= imports(name, pattern) - done
    return done


def first_files():
    """What index.html loads, without imports."""
    return {each.removeprefix("/.weightfs/page/") for each in re.findall(r'(?:href|src)="(/[^"]+)"', text_of("index.html"))}


class Files(unittest.TestCase):
    def test_files_are_short(self):
        counts = {name: text_of(name).count("\n") for name in own(".js", ".css", ".html")}
        self.assertGreater(len(counts), 40)
        self.assertEqual({name: count for name, count in counts.items() if count > MAX_LINES}, {})
        long = [(name, line) for name in counts for line in text_of(name).splitlines() if len(line) > 170]
        self.assertEqual(long, [])

    def test_each_file_begins_with_what_it_is(self):
        self.assertEqual([name for name in own(".js") if not text_of(name).startswith("// ")], [])

    def test_imports_exist_and_each_file_is_used(self):
        modules = set(files(".js"))
        for name in sorted(modules):
            if not name.startswith("vendor/"):
                self.assertEqual(imports(name, ANY_IMPORT) - modules, set(), name)
        used = closure({name for name in first_files() if name.endswith(".js")}, ANY_IMPORT)
        self.assertEqual(modules - used, set())
        self.assertEqual(set(files(".css")) - first_files(), set())

    def test_first_view_is_small(self):
        """The model view, with all that it imports without a click."""
        modules = closure({"app.js", "views/model.js"}, STATIC_IMPORT)
        names = modules | first_files() | {"index.html"}
        size = sum(len(gzip.compress(text_of(name).encode(), 9)) for name in names)
        self.assertGreater(size, 10_000)
        self.assertLess(size, MAX_FIRST_VIEW)

    def test_nothing_is_of_another_host_or_made_code(self):
        forbidden = re.compile(r"innerHTML|outerHTML\s*=[^=]|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|"
                               r"dangerouslySetInnerHTML")
        for name in own(".js", ".html", ".css"):
            text = text_of(name)
            urls = [url for url in re.findall(r"https?://[^\s\"'`]+", text) if not url.startswith("http://www.w3.org/")]
            self.assertEqual(urls, [], name)
            self.assertIsNone(forbidden.search(text), f"{name}: {forbidden.search(text)}")
            self.assertNotIn("style=\"", text, name)
        storage = re.compile(r"localStorage|sessionStorage|indexedDB|document\.cookie")
        stores = [name for name in own(".js") if storage.search(text_of(name))]
        self.assertEqual(stores, ["theme.js"])

    def test_libraries_are_those_of_their_packages(self):
        rows = dict(re.findall(r"^\| `([\w.-]+)` \|.*\| `([0-9a-f]{64})` \|$", text_of("vendor/README.md"), re.MULTILINE))
        libraries = [name for name in files(".js", ".css") if name.startswith("vendor/")]
        self.assertEqual({f"vendor/{name}" for name in rows}, set(libraries))
        for name in libraries:
            with open(os.path.join(PAGE, name), "rb") as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(), rows[os.path.basename(name)], name)


if __name__ == "__main__":
    unittest.main()
