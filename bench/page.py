"""The page in headless Chromium, for the benchmark: how soon a view is shown after the response with its data, memory, pictures."""
import importlib
import os
import statistics
import struct
import subprocess
import sys
import time
import urllib.request
from typing import NamedTuple

from mounts import Failed
from serving import WeightfsHttp, write_names

# Notes when the main heading is there and nothing is loading, and when the first box of a graph is.
NOTES = """new MutationObserver((_, observer) => {
  if (!document.querySelector(".drawing .box")) return;
  window.graphAt = performance.now();
  observer.disconnect();
}).observe(document, {childList: true, subtree: true});
new MutationObserver((_, observer) => {
  if (document.querySelector("main h1") && !document.querySelector("main .loading")) {
    window.shownAt = performance.now();
    observer.disconnect();
  }
}).observe(document, {childList: true, subtree: true});"""

# The time between the response of a path and the view that was shown, in milliseconds.
AFTER = """(part) => {
  const response = performance.getEntriesByType("resource").find((each) => new URL(each.name).pathname.endsWith(part));
  return window.shownAt - response.responseEnd;
}"""

# The time from a key in the search field to the new number of rows, in milliseconds.
SEARCH = """(letter) => new Promise((done) => {
  const field = document.querySelector("main input[type=search], main input");
  const text = () => document.querySelector("main").innerText;
  const before = text();
  const begin = performance.now();
  new MutationObserver((_, observer) => {
    if (text() === before) return;
    observer.disconnect();
    requestAnimationFrame(() => done(performance.now() - begin));
  }).observe(document.querySelector("main"), {childList: true, subtree: true, characterData: true});
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(field, field.value + letter);
  field.dispatchEvent(new Event("input", {bubbles: true}));
})"""

# The time from a key on the first element that fits one selector until another is there, in milliseconds.
OPENS = """(from, wanted) => new Promise((done) => {
  const begin = performance.now();
  new MutationObserver((_, observer) => {
    if (!document.querySelector(wanted)) return;
    observer.disconnect();
    requestAnimationFrame(() => done(performance.now() - begin));
  }).observe(document, {childList: true, subtree: true});
  document.querySelector(from).dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
})"""

# The requests for parts of pictures: their durations in milliseconds, and their bytes.
PICTURES = """() => performance.getEntriesByType("resource").filter((each) => each.name.includes("/heatmap?"))
  .map(({duration, transferSize, responseEnd}) => [duration, transferSize, responseEnd])"""

COUNT = 10 ** 8


class Measured(NamedTuple):
    measure: str
    value: str
    goal: str
    met: bool


def limit(measure, value, most, unit="ms"):
    return Measured(f"page: {measure}", f"{value:.0f} {unit}", f"≤ {most} {unit}", value <= most)


def write_matrix(path, dtype):
    """A matrix of 10⁸ elements: bfloat16 in safetensors, q4_k in GGUF."""
    columns = 8192
    rows = COUNT // columns
    if dtype == "q4_k":
        sys.modules["containers"].WRITERS["gguf"](path, [sys.modules["tensors"].Tensor(
            "w", "q4_k", (rows, columns), (struct.pack("<ee", 0.01, 0.02) + bytes(range(140))) * (rows * columns // 256))])
        return
    header = f'{{"w":{{"dtype":"BF16","shape":[{rows},{columns}],"data_offsets":[0,{2 * rows * columns}]}}}}'.encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + b"\x12\x3c\x80\xbb" * (rows * columns // 2))


def names(bench, page, test, count, most):
    path = os.path.join(bench.folder, f"names-{count}.safetensors")
    write_names(path, count)
    with WeightfsHttp(bench.weightfs, path, bench.folder) as server:
        url = server.url.removesuffix("tensors/")
        page.open(f"{url}?view=model")
        page.wait_for("window.shownAt")
        yield limit(f"first view of {count} tensors, after the response", page.call(AFTER, "/v1/model"), most)
        page.open(f"{url}?view=tensors")
        page.wait_for("window.shownAt")
        page.settle()
        spent = []
        for letter in "987":
            spent.append(page.call(SEARCH, letter))
            page.evaluate("new Promise((done) => setTimeout(done, 300))")  # the tree is loaded after 200 ms without a key
            page.settle()
        spent.sort()
        yield limit(f"search among {count} tensors, median of three keys", spent[1], 50)
        yield limit(f"heap with {count} tensors", page.heap() / 1e6, 64, "MB")
    os.remove(path)


def matrices(bench, page):
    for dtype, ending in (("bfloat16", "safetensors"), ("q4_k", "gguf")):
        path = os.path.join(bench.folder, f"matrix.{ending}")
        write_matrix(path, dtype)
        with WeightfsHttp(bench.weightfs, path, bench.folder) as server:
            page.open(f"{server.url.removesuffix('tensors/')}?view=tensor&t=0")
            page.wait_for("performance.getEntriesByType('resource').some((each) => each.name.includes('/heatmap?'))")
            first = page.call(PICTURES)[0]
            yield limit(f"first picture of 10⁸ elements of {dtype}", first[2], 700)
            page.settle()
            page.evaluate("performance.clearResourceTimings()")
            page.click("canvas.heatmap")
            for _ in range(6):
                page.press("+")
                page.settle()
            tiles = page.call(PICTURES)
            yield limit(f"picture after a zoom, {dtype}: median of {len(tiles)}", sorted(tiles)[len(tiles) // 2][0], 80)
            yield limit(f"bytes of a picture, {dtype}", max(size for _, size, _ in tiles) / 1e3, 300, "kB")
        os.remove(path)


def graph(bench, page):
    """An ONNX graph of 10,003 operators, and a group of it that is opened."""
    module = importlib.import_module("test_page_graph")
    path = os.path.join(bench.folder, "graph.onnx")
    module.write(path, *module.layers(1429))
    with WeightfsHttp(bench.weightfs, path, bench.folder) as server:
        page.open(f"{server.url.removesuffix('tensors/')}?view=graph")
        page.wait_for("document.querySelector('.drawing .box')")
        yield limit("graph of 10,003 operators, from the first request", page.evaluate("window.graphAt"), 1000)
        page.settle()
        yield limit("opening a group of the graph", page.call(OPENS, ".box-group", ".group-path li:nth-child(2)"), 200)
        yield limit("heap with the graph", page.heap() / 1e6, 64, "MB")
    os.remove(path)


def comparison(bench):
    """Two safetensors files with numbers that differ: the API against `weightfs diff --stat`."""
    size = bench.diff_bytes // 16
    numbers = bytes(range(0, 256, 8)) * (size // 32)
    paths = [os.path.join(bench.folder, "pair", f"{name}.safetensors") for name in "ab"]
    os.mkdir(os.path.dirname(paths[0]))
    for path, other in zip(paths, (numbers, numbers[4:] + numbers[:4])):
        tensors = [sys.modules["tensors"].Tensor(f"layers.{i}.w", "float32", (size // 4096, 1024), other) for i in range(16)]
        sys.modules["containers"].WRITERS["safetensors"](path, tensors)
    times = {"api": [], "diff": []}
    for _ in range(bench.rounds):
        with WeightfsHttp(bench.weightfs, os.path.dirname(paths[0]), bench.folder) as server:
            begin = time.monotonic()
            url = f"{server.url.removesuffix('tensors/')}.weightfs/api/v1/compare?a=a.safetensors&b=b.safetensors&values=1"
            with urllib.request.urlopen(url) as response:
                response.read()
            times["api"].append(time.monotonic() - begin)
        begin = time.monotonic()
        subprocess.run([bench.weightfs, "diff", "--stat", *paths], stdout=subprocess.DEVNULL, check=False)
        times["diff"].append(time.monotonic() - begin)
    ratio = statistics.median(api / diff for api, diff in zip(times["api"], times["diff"]))
    title = f"page: comparison of two models of {bench.diff_bytes >> 20} MiB / diff --stat"
    yield Measured(title, f"{ratio:.2f}", "≤ 1.5", ratio <= 1.5)


def measure(bench):
    os.environ["WEIGHTFS"] = bench.weightfs
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "mount"))
    devtools, mounting = importlib.import_module("devtools"), importlib.import_module("mounting")
    test = mounting.TestCase()
    test.setUp()
    try:
        with devtools.browser(test) as browser:
            page = devtools.Page(browser)
            page.send("Page.addScriptToEvaluateOnNewDocument", source=NOTES)
            for count, most in ((1000, 300), (bench.names, 600)):
                yield from names(bench, page, test, count, most)
            yield from matrices(bench, page)
            yield from graph(bench, page)
            if page.problems:
                raise Failed(f"the page has problems: {page.problems[:3]}")
            yield from comparison(bench)
    finally:
        test.doCleanups()
