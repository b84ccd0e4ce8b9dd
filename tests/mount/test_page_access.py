"""The page for people who do not see it, or use no mouse: axe-core finds no violation in any view, light or dark, and keys reach
everything."""
import hashlib
import itertools
import json
import os
import unittest
from urllib.parse import urlencode

from browsing import needs_chromium
from mounting import Tensor, numbers
from every_format import EXHAUSTIVE, tenth, write_models
from page_testing import PageTestCase
from test_page import NAVIGATION
from test_page_files import CARD
import demo
from protobuf import data, onnx_graph, onnx_model, onnx_node, onnx_tensor, onnx_value

VENDOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vendor")
RUN = """async () => {
  const {violations} = await axe.run(document, {resultTypes: ["violations"]});
  return violations.map(({id, help, nodes}) => ({id, help, nodes: nodes.map(({html, failureSummary}) => [html, failureSummary])}));
}"""

LOOKS = list(itertools.product((False, True), (1440, 800, 390)))
CONTROLS = """[...document.querySelectorAll(["a", "button", "input", "select"].map((tag) => `header ${tag}, main ${tag}`))]
  .filter((each) => each.tabIndex >= 0 && each.checkVisibility()).map((each) => each.outerHTML)"""


def write_graph(path):
    """Layers with names, of which two are equal."""
    nodes, last = [], "x"
    for layer in range(8):
        for step, operator in enumerate(("MatMul", "Add", "Relu")):
            inputs = (last, f"w{layer}") if operator != "Relu" else (last,)
            last = f"layers.{layer}/{operator}"
            nodes.append(onnx_node(operator, inputs, (last,), name=f"layers.{layer}/step/{step}"))
    tensors = [onnx_tensor(f"w{layer}", 1, (4,), data(9, numbers("f", 4))) for layer in range(8)]
    graph = onnx_graph(tensors, nodes, (onnx_value("x", 1, (4,)),), (onnx_value(last, 1, (4,)),))
    with open(path, "wb") as file:
        file.write(onnx_model(graph))


def axe():
    with open(os.path.join(VENDOR, "axe.min.js")) as file:
        return file.read()


@needs_chromium
class EveryFormat(PageTestCase):
    """A directory with a small model of each format. A view of a tenth of the formats is checked in one of the six looks, in turn.
    With EXHAUSTIVE=1 each view of each is, in all of them, which takes an hour. test_page opens each view of another tenth."""

    @classmethod
    def source_of(cls, owner):
        folder = owner.path("models")
        cls.models = sorted(write_models(folder))
        cls.axe = axe()
        return folder

    def check_looks(self, view, turn):
        """The view fits and has no violation in the look of this turn, or in all looks."""
        at = (turn + turn // len(LOOKS)) % len(LOOKS)
        for dark, width in LOOKS if EXHAUSTIVE else LOOKS[at:at + 1]:
            with self.subTest(view, dark=dark, width=width):
                self.page.resize(width, 900, dark)
                self.page.settle()
                self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), width)
                self.assertEqual(self.page.call(RUN), [], self.page.state())

    def check_model(self, name, turn):
        """All views of its navigation, and its first tensor."""
        self.show(model=name)
        self.page.evaluate(f"{self.axe};0")
        tensors = json.loads(self.server.get(f"/.weightfs/api/v1/tensors?model={name}").body)["tensors"]
        steps = [("view", title.lower()) for title in self.page.evaluate(NAVIGATION)]
        steps += [("t", each["index"]) for each in tensors[:1]]
        if not EXHAUSTIVE:
            steps = [steps[turn % len(steps)]]
        for key, value in steps:
            query = urlencode({"view": "tensor", "model": name, "t": value} if key == "t" else {"view": value, "model": name})
            self.page.call("(query) => import('/.weightfs/page/state.js').then(({follow}) => follow(query))", f"?{query}")
            self.settle()
            self.check_looks(f"{key} {value}", turn)
        self.assertEqual(self.page.problems, [])

    def test_views_of_each_format_fit_without_violations(self):
        for turn, name in enumerate(tenth(self.models, 1)):
            with self.subTest(name):
                self.check_model(name, turn)


@needs_chromium
class Accessibility(PageTestCase):
    """A directory with a model of layers and experts, one with NaN, a graph, and one that is damaged."""

    @classmethod
    def source_of(cls, owner):
        os.mkdir(owner.path("models"))
        experts = [demo.float32(f"model.layers.{layer}.mlp.experts.{expert}.up_proj.weight", 32, 32)
                   for layer in range(2) for expert in range(4)]
        owner.sample("models/layers.safetensors", demo.hugging_face_layers(2) + experts, metadata={"format": "pt"})
        owner.sample("models/nan.gguf", [Tensor("nan", "float32", (2, 32), b"\0\0\xc0\x7f" * 64)], "gguf")
        write_graph(owner.path("models/graph.onnx"))
        with open(owner.sample("models/damaged.safetensors"), "r+b") as file:
            file.truncate(os.path.getsize(file.name) - 4)
        os.mkdir(owner.path("models/card"))
        owner.sample("models/card/model.safetensors")
        with open(owner.path("models/card/README.md"), "w") as file:
            file.write(CARD)
        cls.axe = axe()
        return owner.path("models")

    def check_view(self, view, then=lambda page: None, **parameters):
        """No violation in light and dark, at a large and a small width."""
        for dark, width in ((False, 1440), (True, 390)):
            with self.subTest(view, dark=dark, width=width, **parameters):
                self.page.resize(width, 900, dark)
                self.show(view, **parameters)
                then(self.page)
                self.page.settle()
                self.page.evaluate(f"{self.axe};0")
                self.assertEqual(self.page.call(RUN), [], self.page.state())

    def test_list_of_models_has_no_violation(self):
        self.check_view("model")

    def test_views_of_a_model_have_no_violation(self):
        for view in ("model", "tensors", "files"):
            self.check_view(view, model="layers.safetensors")

    def test_formatted_text_has_no_violation(self):
        self.check_view("files", lambda page: page.wait_for("document.querySelector('.markdown')"), model="card")

    def test_view_of_the_damaged_model_has_no_violation(self):
        self.check_view("model", model="damaged.safetensors")

    def test_tensors_have_no_violation(self):
        self.check_view("tensors", lambda page: page.wait_for("document.querySelector('.figures-status')"),
                        model="layers.safetensors", figures=1)
        for t in (1, 5):
            self.check_view("tensor", model="layers.safetensors", t=t)
        self.check_view("tensor", model="nan.gguf", t=0)

    def test_comparison_has_no_violation(self):
        self.check_view("compare", model="layers.safetensors")
        self.check_view("compare", model="layers.safetensors", a="layers.safetensors", b="nan.gguf")

    def test_graph_has_no_violation(self):
        self.check_view("graph", model="graph.onnx")

        def open_all(page):
            page.click("main summary")
            page.press("/")
            page.type("relu")
            page.wait_for("document.querySelector('.found button')")

        self.check_view("graph", open_all, model="graph.onnx", group=1, node=1)

    def test_dialog_of_keys_has_no_violation(self):
        self.check_view("tensors", lambda page: page.press("?"), model="layers.safetensors")

    def test_tab_reaches_each_control_in_view(self):
        """In any view, Tab goes through all controls that can be clicked, once, and shows where it is."""
        for view, model in (("model", "layers.safetensors"), ("tensors", "layers.safetensors"), ("graph", "graph.onnx")):
            with self.subTest(view):
                self.show(view, model=model)
                wanted = set(self.page.evaluate(CONTROLS))
                reached = set()
                for _ in range(200):
                    self.page.press("Tab")
                    reached.add(self.page.evaluate("document.activeElement.outerHTML"))
                    if wanted <= reached:
                        break
                self.assertEqual(wanted - reached, set())


class Vendored(unittest.TestCase):
    def test_axe_is_the_file_that_its_readme_names(self):
        with open(os.path.join(VENDOR, "axe.min.js"), "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        with open(os.path.join(VENDOR, "README.md")) as file:
            self.assertIn(digest, file.read())


if __name__ == "__main__":
    unittest.main()
