"""The graph view of the page: groups by names and by repetition, equal groups once, search, panel, keys, and graphs that are large,
deep, cyclic or without names."""
import json
import os
import unittest

from browsing import needs_chromium
from mounting import numbers
from page_testing import PageTestCase
import demo
import scenes
from protobuf import data, number, onnx_graph, onnx_model, onnx_node, onnx_tensor, onnx_value

FLOAT, INT64 = 1, 7
MOST_SHOWN = 350  # boxes: 300, and those of what is outside a group
MOST_HEAP = 64 << 20
BOXES = "[...document.querySelectorAll('.box > title')].map((each) => each.textContent)"
PATH = "[...document.querySelectorAll('.group-path li')].map((each) => each.textContent.trim())"
TRANSFORM = "document.querySelector('.drawing > g').getAttribute('transform')"
IS_UNHARMED = "window.hacked === undefined && ({}).hacked === undefined && !document.querySelector('main img, main script')"


def write(path, nodes, last, tensors=(), first="x"):
    inputs, outputs = (onnx_value(first, FLOAT, (4,)),), (onnx_value(last, FLOAT, (4,)),)
    with open(path, "wb") as file:
        file.write(onnx_model(onnx_graph(tensors, nodes, inputs, outputs)))


def tensor(name):
    return onnx_tensor(name, FLOAT, (4,), data(9, numbers("f", 4)))


def layers(count, named=True):
    """A graph of layers with two operators in `attn`, three in `mlp`, and two beside them; and its last value."""
    nodes, last = [], "x"

    def add(operator, place, *inputs):
        nonlocal last
        out = f"v{len(nodes)}"
        nodes.append(onnx_node(operator, inputs, (out,), name=place if named else ""))
        last = out
        return out

    for layer in range(count):
        start, at = last, f"/model/layers.{layer}"
        score = add("MatMul", f"{at}/attn/MatMul", start, f"attn.{layer}")
        add("Softmax", f"{at}/attn/Softmax", score)
        middle = add("Add", f"{at}/Add", start, last)
        up = add("MatMul", f"{at}/mlp/up", middle, f"up.{layer}")
        active = add("Relu", f"{at}/mlp/Relu", up)
        add("MatMul", f"{at}/mlp/down", active, f"down.{layer}")
        add("Add", f"{at}/Add_1", middle, last)
    tensors = [tensor(f"{kind}.{layer}") for layer in range(count) for kind in ("attn", "up", "down")]
    return nodes, last, tensors


def chain(count):
    return [onnx_node("Relu", (f"v{at}",), (f"v{at + 1}",)) for at in range(count)], f"v{count}", (), "v0"


def branches(path):
    """An If with two graphs, each of one operator."""
    graphs = []
    for name, operator in (("then_branch", "Abs"), ("else_branch", "Neg")):
        node = onnx_node(operator, ("x",), (f"{name}_out",), name=operator)
        graph = onnx_graph((), (node,), (), (onnx_value(f"{name}_out", FLOAT, (4,)),))
        graphs.append(data(1, name) + data(6, graph) + number(20, 5))
    write(path, [onnx_node("Not", ("x",), ("c",), name="not"), onnx_node("If", ("c",), ("y",), *graphs, name="choice")], "y")


def ints(name, *values):
    return data(1, name) + b"".join(number(8, value) for value in values) + number(20, 7)


def network(path):
    """A Conv with a stored weight and a computed bias, a node whose name says nothing, and types of the values between."""
    nodes = [onnx_node("ConstantOfShape", ("size",), ("bias",), name="n0"),
             onnx_node("Conv", ("x", "w", "bias"), ("h",), ints("kernel_shape", 3, 3), ints("strides", 2, 2), name="n1"),
             onnx_node("Relu", ("h",), ("y",), name="/head/act")]
    size = onnx_tensor("size", INT64, (1,), data(9, numbers("q", 1)))
    tensors = [onnx_tensor("w", FLOAT, (8, 3, 3, 3), data(9, numbers("f", 216))), size]
    graph = onnx_graph(tensors, nodes, [onnx_value("x", FLOAT, (1, 3, 32, 32))], [onnx_value("y", FLOAT, (1, 8, 15, 15))])
    with open(path, "wb") as file:
        file.write(onnx_model(graph + data(13, onnx_value("h", FLOAT, (1, 8, 15, 15)))))


IMAGE = "<img src=x onerror=window.hacked=1>"
NAMES = [IMAGE, "javascript:window.hacked=1", "safe\u202egnp.exe", "x" * 65_000, "a/" * 30_000 + "w", "__proto__", "constructor",
         "", IMAGE, "../..", "\x1b[2J", "?view=files#x", "${window.hacked=1}"]


def hostile(path):
    """A chain of operators with names as attackers write them, also as operators, values and attributes; two values of one name."""
    nodes, last = [], "x"
    for at, name in enumerate(NAMES):
        out = name or f"out{at}"
        attribute = data(1, name) + data(4, name) + number(20, 3)
        nodes.append(onnx_node(name, (last, "missing"), (out,), attribute, name=name))
        last = out
    write(path, [*nodes, b"", onnx_node("", (), ())], last, [tensor(name) for name in NAMES])


@needs_chromium
class GraphView(PageTestCase):
    @classmethod
    def source_of(cls, owner):
        os.mkdir(owner.path("models"))

        def path(name):
            return owner.path("models", name)

        write(path("layers.onnx"), *layers(32))
        write(path("unnamed.onnx"), *layers(32, named=False))
        write(path("large.onnx"), *layers(1500))
        write(path("chain.onnx"), *chain(100_000))
        write(path("huge.onnx"), *chain(300_000))
        nodes, last, tensors, first = chain(40)
        write(path("cycle.onnx"), [*nodes, onnx_node("Add", (last, "v3"), ("v3",))], last, tensors, first)
        write(path("wide.onnx"), [*(onnx_node("Relu", ("x",), (f"w{at}",), name=f"w{at}") for at in range(2000)),
                                  onnx_node("Concat", [f"w{at}" for at in range(2000)], ("y",))], "y")
        branches(path("branches.onnx"))
        network(path("network.onnx"))
        hostile(path("hostile.onnx"))
        demo.write_perceptron(path("perceptron.rten"))
        scenes.resnet(path("resnet.onnx"))
        return owner.path("models")

    def graph(self, model, **parameters):
        self.show("graph", model=model, **parameters)
        self.page.wait_for("document.querySelector('.drawing .box')")

    def boxes(self):
        """What the boxes are, in their order from top to bottom."""
        found = self.page.evaluate(BOXES)
        self.assertLessEqual(len(found), MOST_SHOWN)
        return found

    def open(self, box):
        """Clicks the box with this text, and waits for its group."""
        opened = self.opened()
        self.page.click(box)
        self.page.wait_for(f"{PATH}.join() !== {json.dumps(','.join(opened))}")
        self.settle()

    def opened(self):
        return self.page.evaluate(PATH)

    def focus_a_box(self):
        self.page.evaluate("[...document.querySelectorAll('main .toolbar button')].at(-1).focus()")
        self.page.press("Tab")
        self.page.wait_for("document.activeElement.matches('.box')")

    def texts(self, selector):
        return self.page.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map((each) => each.textContent)")

    def test_boxes_say_kernels_weights_and_shapes(self):
        self.graph("network.onnx")
        self.assertEqual([box.split(", ")[0] for box in self.boxes()], ["x", "Conv", "Relu", "y"])
        self.assertEqual(self.texts(".box .line"), ["Input float32 1×3×32×32", "3×3, stride 2", "W ⟨8×3×3×3⟩", "/head/act",
                                                    "Output float32 1×8×15×15"])
        self.assertEqual(self.texts(".edge-text"), ["1×3×32×32", "1×8×15×15", "1×8×15×15"])

    def test_operators_without_data_are_constants_of_their_readers(self):
        self.graph("network.onnx")
        self.assertEqual(self.texts(".port title"), ["W w float32 8×3×3×3", "B bias"])
        self.assertIn("2 operators, 1 constant;", self.text())
        self.page.click("Conv")
        self.page.wait_for_text("Attributes")
        self.page.click(".node-panel a[title='n0']")
        self.page.wait_for("document.querySelector('.node-panel h2')?.textContent === 'ConstantOfShape'")
        self.settle()
        self.assertEqual([box.split(", ")[0] for box in self.boxes()], ["x", "Conv", "Relu", "y"])

    def test_width_fits_at_the_start(self):
        for model in ("layers.onnx", "network.onnx"):
            self.graph(model)
            outside = self.page.evaluate("""(() => { const frame = document.querySelector('.drawing').getBoundingClientRect();
                return [...document.querySelectorAll('.box')].filter((box) => { const {left, right} = box.getBoundingClientRect();
                    return left < frame.left || right > frame.right; }).length; })()""")
            self.assertEqual(outside, 0)

    def test_equal_groups_are_shown_once(self):
        self.graph("layers.onnx")
        self.assertEqual(len(self.boxes()), 3)
        self.assertRegex(self.boxes()[1], r"^layers\.0…31 × 32, .*7 operators each, in series, group$")

    def test_equal_groups_with_others_between_them_are_shown_in_their_order(self):
        self.graph("resnet.onnx")
        self.assertEqual([box.split(", ")[0] for box in self.boxes()],
                         ["input", "Conv", "Relu", "MaxPool", "layer1/0", "layer2/0", "layer2/1", "layer3/0", "layer3/1",
                          "layer4/0", "layer4/1", "GlobalAveragePool", "Flatten", "Gemm", "output"])
        self.assertIn("layer1/0, 1 × 2, 5 operators each, in series", self.boxes()[4])

    def test_groups_open_to_their_operators(self):
        self.graph("layers.onnx")
        self.open("layers.0…31 × 32")
        self.assertEqual(self.opened(), ["g", "layers.0"])
        self.assertEqual([box.split(", ")[0] for box in self.boxes()], ["x", "attn", "Add", "mlp", "Add", "layers.1"])
        self.open("mlp")
        self.assertEqual(self.opened(), ["g", "layers.0", "mlp"])
        self.assertEqual([box.split(", ")[0] for box in self.boxes()], ["Add", "MatMul", "Relu", "MatMul", "Add"])

    def test_menu_leads_to_an_equal_group(self):
        self.graph("layers.onnx")
        self.open("layers.0…31 × 32")
        self.page.evaluate("""(() => { const menu = document.querySelector('main label select');
            menu.value = [...menu.options].find((each) => each.text.trim() === 'layers.7').value;
            menu.dispatchEvent(new Event('change', {bubbles: true})); })()""")
        self.page.wait_for("document.querySelector('.group-path').textContent.includes('layers.7')")
        self.settle()
        self.assertEqual([box.split(", ")[0] for box in self.boxes()], ["layers.6", "attn", "Add", "mlp", "Add", "layers.8"])

    def test_layers_without_names_are_found_by_repetition(self):
        self.graph("unnamed.onnx")
        self.assertEqual(len(self.boxes()), 3)
        self.assertRegex(self.boxes()[1], r"^block 1…32 × 32, .*7 operators each, in series, group$")

    def test_panel_leads_to_the_tensor_of_an_input(self):
        self.graph("layers.onnx")
        self.page.press("/")
        self.page.type("layers.5 up")
        self.page.wait_for("document.querySelector('.found button')")
        self.page.press("Enter")
        self.page.wait_for_text("Outputs")
        self.assertIn("/model/layers.5/mlp/up", self.text(".node-panel"))
        self.page.click(".node-panel a[href*='view=tensor']")
        self.page.wait_for("location.search.includes('view=tensor')")
        self.settle()
        self.assertEqual(self.text("h1"), "up.5")

    def test_search_leads_to_the_group_of_a_node(self):
        self.graph("layers.onnx")
        self.page.click("[aria-label='Search nodes']")
        self.page.type("softmax")
        self.page.wait_for_text("32 nodes")
        self.page.click(".found li:nth-child(4) button")
        self.page.wait_for("document.querySelector('.node-panel')")
        self.page.wait_for_text("/model/layers.3/attn/Softmax")
        self.settle()
        self.assertEqual(self.opened(), ["g", "layers.3", "attn"])

    def test_panel_leads_along_edges(self):
        self.graph("perceptron.rten")
        self.page.click("hidden/Add")
        self.page.wait_for_text("hidden.sum")
        self.assertIn("float32, batch × 32", self.text(".node-panel"))
        self.page.click(".node-panel ol:last-of-type li:last-child a:last-child")
        self.page.wait_for("document.querySelector('.node-panel h2').textContent === 'Relu'")
        self.settle()

    def test_url_has_the_state(self):
        self.graph("layers.onnx")
        self.open("layers.0…31 × 32")
        self.open("attn")
        self.page.click("Softmax")
        self.page.wait_for("document.querySelector('.node-panel h2')?.textContent === 'Softmax'")
        self.settle()
        boxes = self.boxes()
        self.page.open(self.page.evaluate("location.href"))
        self.settle()
        self.page.wait_for("document.querySelector('.node-panel h2')?.textContent === 'Softmax'")
        self.assertEqual(self.boxes(), boxes)
        self.page.evaluate("history.go(-1)")
        self.page.wait_for("document.querySelectorAll('.group-path li').length === 2")
        self.settle()

    def test_keys_open_groups_and_go_up(self):
        self.graph("layers.onnx")
        self.focus_a_box()
        self.page.press("ArrowDown")
        self.page.press("Enter")
        self.page.wait_for("document.querySelectorAll('.group-path li').length === 2")
        self.settle()
        self.page.wait_for("document.activeElement.matches('.box')")
        self.page.press("End")
        self.page.press("Home")
        self.page.press("ArrowDown")
        self.page.press("ArrowDown")
        self.page.press("Enter")
        self.page.wait_for("document.querySelector('.node-panel h2')?.textContent === 'Add'")
        self.page.press("Escape")
        self.page.wait_for("!document.querySelector('.node-panel')")
        self.page.press("Escape")
        self.page.wait_for("document.querySelectorAll('.group-path li').length === 1")
        self.settle()

    def test_drawing_is_moved_and_scaled(self):
        self.graph("layers.onnx")
        seen = [self.page.evaluate(TRANSFORM)]

        def changes(act):
            act()
            self.page.wait_for(f"{TRANSFORM} !== {seen[-1]!r}")
            seen.append(self.page.evaluate(TRANSFORM))

        changes(lambda: self.page.press("+"))
        changes(lambda: self.page.press("-"))
        changes(lambda: self.page.press("ArrowLeft"))
        changes(lambda: self.page.wheel(".drawing", 100))
        changes(lambda: self.page.drag(".box-group", 150, 90))
        self.assertEqual(self.opened(), ["g"])  # a drag is no click
        changes(lambda: self.page.press("0"))
        self.assertGreaterEqual(len(set(seen)), 5)

    def test_table_has_all_that_is_drawn(self):
        self.graph("layers.onnx", group=0)
        self.page.click("main summary")
        rows = self.page.evaluate("[...document.querySelectorAll('.graph-list tbody tr')].map((each) => each.innerText)")
        self.assertEqual(len(rows), 3)
        self.assertIn("7 operators each, in series", rows[1])
        self.page.click(".graph-list tbody tr:nth-child(2) button")
        self.page.wait_for("document.querySelectorAll('.group-path li').length === 2")
        self.settle()

    def test_subgraphs_are_in_a_menu_and_linked(self):
        self.graph("branches.onnx")
        options = self.page.evaluate("[...document.querySelector('main label select').options].map((each) => each.text.trim())")
        self.assertEqual(options, ["g (2)", "choice then_branch (1)", "choice else_branch (1)"])
        self.page.click("If")
        self.page.click("graph 3")
        self.page.wait_for("location.search.includes('graph=2')")
        self.settle()
        self.assertEqual([box.split(", ")[0] for box in self.boxes()], ["x", "Neg", "else_branch_out"])

    def test_graph_is_saved_for_model_explorer(self):
        self.graph("branches.onnx")
        file = json.loads(self.page.saved("Save for Model Explorer")[1])
        self.assertEqual([graph["id"] for graph in file["graphs"]], ["g", "choice then_branch", "choice else_branch"])
        choice = next(node for node in file["graphs"][0]["nodes"] if node["label"] == "If")
        self.assertEqual(choice["subgraphIds"], ["choice then_branch", "choice else_branch"])
        self.graph("layers.onnx")
        name, text = self.page.saved("Save for Model Explorer")
        self.assertEqual(name, "layers.onnx.model-explorer.json")
        nodes = {node["id"]: node for node in json.loads(text)["graphs"][0]["nodes"]}
        self.assertEqual(len(nodes), 32 * 7 + 32 * 3 + 2)  # operators, tensors, ends
        up = next(node for node in nodes.values() if {"key": "name", "value": "/model/layers.5/mlp/up"} in node["attrs"])
        self.assertEqual((up["label"], up["namespace"]), ("MatMul", "layers.5/mlp"))
        sources = [nodes[edge["sourceNodeId"]]["label"] for edge in up["incomingEdges"]]
        self.assertEqual(sources, ["Add", "up.5"])

    def test_large_graphs_are_shown_in_little_memory(self):
        self.graph("large.onnx")
        self.assertRegex(self.boxes()[1], r"^layers\.0…1499 × 1,500, ")
        self.assertIn("10,500 operators", self.text())
        self.assertLess(self.page.heap(), MOST_HEAP)

    def test_long_chain_is_shown(self):
        self.graph("chain.onnx")
        self.assertIn("100,000 operators", self.text())
        while groups := [box for box in self.boxes() if box.endswith(", group")]:
            self.open(groups[0].split(", ")[0])
        self.assertGreater(len([box for box in self.boxes() if box.startswith("Relu")]), 50)
        self.assertLess(self.page.heap(), MOST_HEAP)

    def test_cyclic_graph_is_shown(self):
        self.graph("cycle.onnx")
        self.assertGreater(len(self.boxes()), 40)

    def test_wide_graph_is_cut_into_parts(self):
        self.graph("wide.onnx")
        self.assertEqual([box.split(", ")[0] for box in self.boxes()], ["x", "part 1…20 × 20", "part 21", "y"])
        self.open("part 1…20 × 20")
        self.assertEqual(len(self.boxes()), 102)  # 100 operators, and one on each side

    def test_too_large_graph_is_reported_by_a_sentence(self):
        self.page.open(f"{self.server.url}?view=graph&model=huge.onnx")
        self.page.wait_for_text("The graph has 300,000 operators; at most 250,000 are drawn.")

    def test_hostile_names_are_text(self):
        self.graph("hostile.onnx")
        self.page.click("main summary")
        self.page.press("/")
        self.page.type("onerror")
        self.page.wait_for("document.querySelector('.found button')")
        self.assertGreater(len(self.boxes()), len(NAMES))
        for node in range(len(NAMES) + 3):
            with self.subTest(node=node):
                self.graph("hostile.onnx", group=0, node=node)
                self.page.wait_for("document.querySelector('.node-panel h2')")
                self.page.settle()
                self.assertTrue(self.page.evaluate(IS_UNHARMED), self.page.state())
                self.assertNotIn("\u202e", self.page.evaluate("document.body.textContent"))
                self.assertLess(self.page.evaluate("document.body.outerHTML.length"), 200_000)

    def test_wrong_numbers_in_the_url_are_the_whole_graph(self):
        for parameters in ({"group": "999"}, {"group": "x"}, {"node": "99999"}, {"graph": "0", "group": "-1"}):
            with self.subTest(**parameters):
                self.graph("layers.onnx", **parameters)
                self.assertEqual(len(self.boxes()), 3)


if __name__ == "__main__":
    unittest.main()
