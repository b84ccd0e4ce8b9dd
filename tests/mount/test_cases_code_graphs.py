"""Operators, layers and expressions that need code of others, in graphs and bundles: the list `code`, and harmless models."""
import base64
import functools
import json
import os
import struct

from cases import SOURCE, Case, file, table
from flatbuffer import FlatBuffer
from mounting import unittest
import protobuf
from test_cases_code import (WEIGHTS, attribute, code, directory, graph, harmless, keras, packed, rows, saved_model,
                             tensorflow_node, torch_zip)


def identified(root, identifier, header=lambda size: b""):
    """A FlatBuffer with a file identifier, and a header that depends on its size, behind the offset of its root."""
    data = bytes(FlatBuffer(root).bytes)
    behind = identifier + header(len(data) + len(identifier))
    return struct.pack("<I", struct.unpack_from("<I", data)[0] + len(behind)) + behind + data[4:]


def tflite(*custom):
    """A model that calls a convolution and these custom operators."""
    codes = [{0: ("b", 3), 3: ("i", 3)}, *({0: ("b", 32), 1: name, 3: ("i", 32)} for name in custom)]
    calls = [{0: ("I", index), 1: ("i", ()), 2: ("i", ())} for index in range(len(codes))]
    return file("m.tflite", identified({0: ("I", 3), 1: codes, 2: [{0: [], 3: calls}], 4: [{}]}, b"TFL3"))


def ort(*domains):
    nodes = [{0: "n", 2: domain, 5: "Op", 10: []} for domain in domains]
    return file("m.ort", identified({0: "5", 1: {0: ("q", 8), 1: [], 7: {0: [], 2: nodes}}}, b"ORTM"))


def executorch(*operators, data=()):
    """A program with these operators, and named data without a layout."""
    method = {0: "forward", 2: [], 6: [{0: name, 1: "out"} for name in operators]}
    named = [{0: key, 1: ("I", 0)} for key in data]
    root = {0: ("I", 0), 1: [method], 4: [{0: ("Q", 0), 1: ("Q", 4)}], 7: named}
    header = functools.partial(struct.pack, "<4sIQQQ", b"eh00", 32)
    return file("m.pte", identified(root, b"ET12", lambda size: header(size + 32, size + 32, 4)) + b"data")


def openvino(*layers, rest=""):
    """Layers as (type, version)."""
    text = "".join(f'<layer id="{i}" name="l{i}" type="{type}" version="{version}"/>' for i, (type, version) in enumerate(layers))
    return file("m.xml", f'<?xml version="1.0"?><net name="n" version="11"><layers>{text}</layers>{rest}</net>'.encode())


def openvino_body(type, version):
    text = ('<net name="n" version="11"><layers><layer id="0" name="loop" type="Loop" version="opset5"><body><layers>'
            f'<layer id="1" name="x" type="{type}" version="{version}"/></layers></body></layer></layers></net>')
    return file("m.xml", text.encode())


def coreml(kind, content):
    return file("m.mlmodel", protobuf.number(1, 4) + protobuf.data(kind, content))


def coreml_layer(number, parameters=b"", name="l"):
    return protobuf.data(1, protobuf.data(1, name) + protobuf.data(number, parameters))


def branch(layer):
    return coreml_layer(605, protobuf.data(1, layer))


def entry(key, value):
    return protobuf.data(1, key) + protobuf.data(2, value)


def program(type, class_name=None):
    """A program with one operation."""
    operation = protobuf.data(1, type) + protobuf.data(3, protobuf.data(1, "y"))
    if class_name is not None:
        text_type = protobuf.data(2, protobuf.data(1, protobuf.number(1, 2)))
        text = text_type + protobuf.data(3, protobuf.data(1, protobuf.data(4, protobuf.data(1, class_name))))
        operation += protobuf.data(5, entry("class_name", text))
    function = protobuf.data(3, entry("CoreML7", protobuf.data(3, operation)))
    return coreml(502, protobuf.data(2, entry("main", function)))


def caffe(type, *parameters):
    return file("m.caffemodel", protobuf.data(100, protobuf.data(1, "l") + protobuf.data(2, type) + b"".join(parameters)))


def written(name, data, other, other_data):
    """The first of two files."""
    def build(tmp):
        file(other, other_data)(tmp)
        return file(name, data)(tmp)

    return build


def ncnn(*types):
    lines = ["7767517", f"{len(types)} {len(types)}", *(f"{type} l{i} 0 1 b{i}" for i, type in enumerate(types)), ""]
    return written("m.param", "\n".join(lines).encode(), "m.bin", b"")


def mxnet(*nodes, key="attrs", end=b""):
    """Parameters without arrays, and a graph with nodes of (op, attributes) and `end` behind it."""
    graph_of = {"nodes": [{"op": op, "name": f"n{i}", key: attributes} for i, (op, attributes) in enumerate(nodes)]}
    return written("m-0000.params", struct.pack("<4Q", 0x112, 0, 0, 0), "m-symbol.json",
                   json.dumps(graph_of).encode() + end)


def paddle(program, suffix="pdmodel"):
    description = protobuf.number(1, 5) + protobuf.number(2, 1)
    tensor = struct.pack("<IQII", 0, 0, 0, len(description)) + description + bytes(4)
    return written("m.pdiparams", tensor, f"m.{suffix}", program)


def paddle_program(*operators):
    variable = protobuf.data(3, protobuf.data(1, "w") + protobuf.data(2, protobuf.number(1, 7)) + protobuf.number(3, 1))
    calls = b"".join(protobuf.data(4, protobuf.data(3, operator)) for operator in operators)
    return protobuf.data(1, protobuf.number(1, 0) + variable + calls)


def paddle_json(*operators):
    parameter = {"#": "p", "A": [0, 1, 1, "w"]}
    text = {"base_code": {"magic": "pir"}, "program": {"ops": [parameter, *({"#": operator} for operator in operators)]}}
    return json.dumps(text).encode()


def exported(*targets):
    module = {"graph": {"nodes": [{"target": target} for target in targets]}, "signature": {}}
    return packed("m.pt2", archive_format="pt2", models___model__json={"graph_module": module, "torch_version": "2.9.0"},
                  data___weights___model_weights_config__json={"config": {}})


def tfjs(*classes):
    layers = [{"class_name": name, "config": {"name": name}} for name in classes]
    topology = {"model_config": {"class_name": "Sequential", "config": {"layers": layers}}}
    return file("model.json", json.dumps({"format": "layers-model", "modelTopology": topology, "weightsManifest": []}).encode())


def tfjs_graph(*operators):
    topology = {"node": [{"name": f"n{i}", "op": op, "attr": {}} for i, op in enumerate(operators)], "library": {}}
    return file("model.json", json.dumps({"format": "graph-model", "modelTopology": topology, "weightsManifest": []}).encode())


def node_layer(node):
    return {"class_name": "TensorFlowOpLayer", "config": {"name": "x", "node_def": node, "constants": {}}}


def node_text(op, *attributes):
    return (protobuf.data(1, "n") + protobuf.data(2, op) + b"".join(attributes)).decode()


def bundle(name="inference__json", text=None, **more):
    """A directory of MONAI, with weights."""
    metadata = {"version": "0.1.0", "description": "costs $5 (five)"}
    return directory(**{"configs___metadata__json": metadata, "configs___" + name: text, **more})


def monai_directory(text):
    """A bundle as MONAI lays it out: its weights are in models/."""
    def build(tmp):
        for name, data in (("configs/inference.json", json.dumps({"x": text}).encode()), ("models/model.safetensors", WEIGHTS)):
            os.makedirs(os.path.join(tmp, "b", os.path.dirname(name)), exist_ok=True)
            file(os.path.join("b", name), data)(tmp)
        return os.path.join(tmp, "b")

    return build


def expression(text):
    return bundle(text={"net": {"_target_": "UNet", "spatial_dims": 3}, "x": [text]})


NETWORK = (bundle(text={"imports": [], "net": {"_target_": "monai.networks.nets.UNet", "channels": [1, 2]},
                        "opt": {"_target_": "torch.optim.Adam", "params": "$@net.weights", "lr": 1e-3},
                        "keys": "$['image', 'label'] + [@extra if @on else None]", "on": "$not (@off)", "n": "$(@a + 1) * 2",
                        "t": {"_target_": "Compose", "transforms": [{"_target_": "LoadImaged", "keys": "@keys"}]}}))

COREML = table("CodeOfCoreml", rows(
    code("coreml-custom-layer", coreml(500, coreml_layer(500, protobuf.data(10, "AAPLSwish"))),
         ("custom layer AAPLSwish", "m.mlmodel")),
    code("coreml-custom-layer-of-a-classifier", coreml(403, coreml_layer(500, protobuf.data(10, "Mine"))),
         ("custom layer Mine", "m.mlmodel")),
    code("coreml-custom-layer-in-a-branch", coreml(500, branch(coreml_layer(500, protobuf.data(10, "Mine")))),
         ("custom layer Mine", "m.mlmodel")),
    code("coreml-custom-layers", coreml(500, coreml_layer(500, protobuf.data(10, "A")) + coreml_layer(500, protobuf.data(10, "B")) +
                                        coreml_layer(500, protobuf.data(10, "A"))),
         ("custom layer A", "m.mlmodel"), ("custom layer B", "m.mlmodel")),
    code("coreml-custom-layer-without-class", coreml(500, coreml_layer(500)), ("custom layer", "m.mlmodel")),
    code("coreml-custom-model", coreml(555, protobuf.data(10, "MyModel")), ("custom model MyModel", "m.mlmodel")),
    code("coreml-custom-model-in-a-pipeline", coreml(202, protobuf.data(1, protobuf.number(1, 4) + protobuf.data(
        555, protobuf.data(10, "MyModel")))), ("custom model MyModel", "m.mlmodel")),
    code("coreml-custom-operation", program("custom_layer", "MyOp"), ("custom layer MyOp", "m.mlmodel")),
    code("coreml-custom-operation-without-class", program("custom_layer"), ("custom layer", "m.mlmodel")),
    code("coreml-operation-of-a-dialect", program("my_dialect.op"), ("custom operator my_dialect.op", "m.mlmodel")),
    harmless("coreml-network", coreml(500, coreml_layer(130) + branch(coreml_layer(175)))),
    harmless("coreml-program", program("scaled_dot_product_attention")),
))

OPENVINO = table("CodeOfOpenvino", rows(
    code("openvino-opset-of-a-library", openvino(("Parameter", "opset1"), ("MyOp", "my_opset")),
         ("custom operator my_opset.MyOp", "m.xml")),
    code("openvino-name-like-an-opset", openvino(("MyOp", "opset1x")), ("custom operator opset1x.MyOp", "m.xml")),
    code("openvino-extension", openvino(("CustomAddMul", "extension")), ("custom operator extension.CustomAddMul", "m.xml")),
    code("openvino-in-a-body", openvino_body("MyOp", "custom_opset"), ("custom operator custom_opset.MyOp", "m.xml")),
    harmless("openvino", openvino(("Parameter", "opset1"), ("ReLU", "opset16"), ("Proposal", "extension"),
                                  ("GRUCell", "experimental"), ("ExperimentalDetectronTopKROIs", "experimental"),
                                  ("RMS", "ie_internal_opset"))),
    harmless("openvino-without-versions", openvino(("Input", ""), ("Convolution", ""))),
    harmless("openvino-parameters-of-the-converter", openvino(("Result", "opset1"), rest=(
        '<meta_data><cli_parameters><extensions value="DIR"/></cli_parameters></meta_data>'))),
))

TFLITE = table("CodeOfTflite", rows(
    code("tflite-custom-operator", tflite("MaxPoolingWithArgmax2D"), ("custom operator MaxPoolingWithArgmax2D", "m.tflite")),
    code("tflite-delegate", tflite("edgetpu-custom-op"), ("custom operator edgetpu-custom-op", "m.tflite")),
    code("tflite-flex-that-calls-python", tflite("FlexPyFunc", "FlexErf"), ("operator FlexPyFunc", "m.tflite")),
    code("tflite-flex-that-reads-files", tflite("FlexReadFile", "Mine"), ("operator FlexReadFile", "m.tflite"),
         ("custom operator Mine", "m.tflite")),
    code("tflite-flex-of-a-library", tflite("FlexAddons>Resampler"), ("custom operator FlexAddons>Resampler", "m.tflite")),
    harmless("tflite", tflite()),
    harmless("tflite-own-custom-operators", tflite("TFLite_Detection_PostProcess", "Mfcc", "AudioSpectrogram", "FlexErf")),
    harmless("tflite-micro", tflite("SignalWindow", "SignalRfft", "CIRCULAR_BUFFER", "ethos-u")),
))

TENSORFLOW = table("CodeOfTensorflow", rows(
    code("tensorflow-operator-of-a-library", graph("Placeholder", "Addons>Resampler"),
         ("custom operator Addons>Resampler", "graph.pb")),
    code("tensorflow-operator-of-a-library-in-a-function", saved_model(functions=["IO>ReadableRead"]),
         ("custom operator IO>ReadableRead", "saved_model.pb")),
    harmless("tensorflow-prints", file("graph.pb", tensorflow_node("p", "PrintV2", attribute("output_stream", "stderr")))),
    code("keras-node", keras(node_layer({"name": "n", "op": "WriteFile", "input": ["a"]})), ("operator WriteFile", "config.json")),
    code("keras-node-that-prints", keras(node_layer({"name": "n", "op": "PrintV2", "attr": {"output_stream": {
        "s": base64.b64encode(b"file:///tmp/x").decode()}}})), ("operator PrintV2 to file:///tmp/x", "config.json")),
    code("keras-node-as-a-text", keras(node_layer(node_text("PyFunc"))), ("operator PyFunc", "config.json")),
    code("keras-node-in-a-saved-model", saved_model({"class_name": "Functional", "config": {"layers": [node_layer({
        "name": "n", "op": "EagerPyFunc"})]}}), ("operator EagerPyFunc", "keras_metadata.pb")),
    code("keras-node-of-a-library", keras(node_layer({"op": "Addons>Resampler"})),
         ("custom operator Addons>Resampler", "config.json")),
    harmless("keras-nodes", keras(node_layer({"name": "n", "op": "AddV2"}), node_layer(node_text("Mul")), node_layer("\x01"),
                                  node_layer({"op": "PrintV2", "attr": {"output_stream": {"s": "c3RkZXJy"}}}), node_layer(None))),
))

MONAI = table("CodeOfMonai", rows(
    code("monai-import", expression("$import os"), ("expression $import os", "configs/inference.json")),
    code("monai-call", expression("$os.system('id')"), ("expression $os.system('id')", "configs/inference.json")),
    code("monai-call-behind-blanks", expression("$(lambda: print)() or print ('x')"),
         ("expression $(lambda: print)() or print ('x')", "configs/inference.json")),
    code("monai-call-of-an-item", expression("$[f][0](1)"), ("expression $[f][0](1)", "configs/inference.json")),
    code("monai-call-with-escapes", bundle(text='{"a": "\\u0024eval\\u0028@b)"}'),
         ("expression $eval(@b)", "configs/inference.json")),
    code("monai-target", bundle(text={"net": {"_target_": "subprocess.run", "args": ["id"]}}),
         ("_target_: subprocess.run", "configs/inference.json")),
    code("monai-target-of-the-bundle", bundle(text={"net": {"_target_": "scripts.net.Net"}}),
         ("_target_: scripts.net.Net", "configs/inference.json")),
    code("monai-target-of-python", bundle(text={"x": {"_target_": "eval"}}), ("_target_: eval", "configs/inference.json")),
    code("monai-target-through-monai", bundle(text={"x": {"_target_": "monai.utils.module.optional_import"}}),
         ("_target_: monai.utils.module.optional_import", "configs/inference.json")),
    *(code(f"monai-yaml-{name}", bundle("train__yaml", text), (f"expression {shown}", "configs/train.yaml"))
      for name, text, shown in (
          ("plain", "net: UNet\nx: $os.system('id')\n", "$os.system('id')"),
          ("in-a-list", "x:\n- $import glob\n- 1\n", "$import glob"),
          ("in-quotes", "x: \"$print('a')\" # no\n", "$print('a')"),
          ("in-single-quotes", "x: '$print(''a'')'\n", "$print(''a'')"),
          ("in-braces", "x: {a: $f(1)}\n", "$f(1)}"),
          ("with-escapes", 'x: "\\x24f\\x28)"\n', "$f()"),
          ("on-two-lines", "x: $f\n  (1)\ny: 1\n", "$f\\x0a  (1)"),
          ("as-a-block", "x: |\n  $f(1)\n  \ny: g(1)\n", "$f(1)"))),
    code("monai-yaml-target", bundle("train__yaml", "net:\n  _target_: scripts.Net\nx: {_target_: UNet}\n"),
         ("_target_: scripts.Net", "configs/train.yaml")),
    code("monai-packed", packed("m.zip", b___configs___train__json={"x": "$import os"}, b___models___model__safetensors=WEIGHTS),
         ("expression $import os", "b/configs/train.json")),
    code("monai-in-torchscript", file("m.ts", torch_zip(**{"archive/extra/inference.json": '{"x": "$f()"}',
                                                           "archive/code/__torch__/m.py": "x = 1\n"})),
         ("expression $f()", "archive/extra/inference.json")),
    [Case("monai-directory", monai_directory("$import os"), ("verify", "--safe", SOURCE), 4, {},
          ["configs/inference.json: expression $import os runs code"]),
     Case("monai-harmless-directory", monai_directory("$@a"), ("verify", "--safe", SOURCE), 0, {}, (), ["runs code"])],
    harmless("monai", NETWORK),
    harmless("monai-yaml", bundle("train__yaml", "n:\n  _target_: UNet\n  x: $@a + 1\n  y: ${hydra}\n  z: $(@a or @b)\nf: g($1) $\n"
                                  "imported: $@important\nopt: {_target_: torch.optim.Adam, lr: 1e-3}\n")),
    harmless("dollars-elsewhere", directory(prompts___p__json={"x": "$f(1)"}, other__yaml="x: $f(1)\n")),
))

OTHERS = table("CodeOfOtherGraphs", rows(
    code("ort-custom-operator", ort("", "my.domain"), ("custom operator my.domain.Op", "m.ort")),
    harmless("ort", ort("", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc")),
    code("executorch-custom-operator", executorch("aten::add", "my_ops::mul"), ("custom operator my_ops::mul.out", "m.pte")),
    code("executorch-many-operators", executorch(*(f"aten::op{i}" for i in range(2000)), "my_ops::mul"),
         ("custom operator my_ops::mul.out", "m.pte")),
    code("executorch-library", executorch("aten::add", data=["forward_so_blob", "weights"]),
         ("shared library forward_so_blob", "m.pte")),
    harmless("executorch", executorch("aten::add", "quantized_decomposed::choose_qparams", "llama::custom_sdpa", data=["weights"])),
    code("ncnn-custom-layer", ncnn("Input", "YoloV5Focus"), ("custom operator YoloV5Focus", "m.param")),
    harmless("ncnn", ncnn("Input", "ReLU", "Yolov3DetectionOutput")),
    code("caffe-python-layer", caffe("Python", protobuf.data(130, protobuf.data(1, "rpn.proposal") + protobuf.data(2, "Proposal"))),
         ("Python layer rpn.proposal.Proposal", "m.caffemodel")),
    harmless("caffe", caffe("ReLU")),
    code("mxnet-custom-operator", mxnet(("null", {}), ("Custom", {"op_type": "proposal"})),
         ("custom operator proposal", "m-symbol.json")),
    code("mxnet-custom-operator-of-old-files", mxnet(("Custom", {"op_type": "proposal"}), key="param"),
         ("custom operator proposal", "m-symbol.json")),
    code("mxnet-address", mxnet(("_Native", {"info": "0x7f0000000000"})), ("operator _Native", "m-symbol.json")),
    *(code(f"mxnet-{name}", mxnet(("Custom", {"op_type": "proposal"}), end=end),
           ("operators that are not examined", "m-symbol.json"))
      for name, end in (("text-behind-the-graph", b" and more"), ("graph-that-is-too-large", b" " * 10_000_000))),
    harmless("mxnet", mxnet(("null", {}), ("Convolution", {"num_filter": "1"}))),
    code("paddle-python", paddle(paddle_program("conv2d", "py_func")), ("operator py_func", "m.pdmodel")),
    code("paddle-python-in-json", paddle(paddle_json("1.conv2d", "1.py_func"), "json"), ("operator py_func", "m.json")),
    harmless("paddle", paddle(paddle_program("conv2d", "relu"))),
    harmless("paddle-json", paddle(paddle_json("1.conv2d", "1.relu"), "json")),
    code("tfjs-custom-layer", tfjs("Dense", "MyLayer"), ("custom class MyLayer", "model.json")),
    code("tfjs-operator", tfjs_graph("Placeholder", "ReadFile"), ("operator ReadFile", "model.json")),
    code("tfjs-operator-of-a-library", tfjs_graph("Placeholder", "Addons>Resampler"),
         ("custom operator Addons>Resampler", "model.json")),
    harmless("tfjs-graph", tfjs_graph("Placeholder", "MatMul", "FusedBatchNormV3")),
    harmless("tfjs", tfjs("InputLayer", "Conv2D", "Dense")),
    code("exported-custom-operator", exported("torch.ops.aten.add.Tensor", "torch.ops.my_ops.run.default"),
         ("custom operator my_ops::run", "models/model.json")),
    code("exported-file", exported("torch.ops.aten.from_file.default"), ("operator aten::from_file", "models/model.json")),
    harmless("exported", exported("torch.ops.aten.add.Tensor", "torch.ops.higher_order.cond", "_operator.getitem")),
))

LONG = [Case(f"monai-{name}-in-linear-time", bundle("train__yaml", text), ("verify", "--safe", SOURCE), status)
        for name, text, status in (("dollars", " $" * 1_000_000, 4), ("calls", "x: $" + "f (" * 1_000_000, 4),
                                   ("quotes", '"$' * 1_000_000, 0), ("lines", "x: $a\n" + "  b\n" * 500_000, 4),
                                   ("blanks", "x: $f" + " " * 2_000_000 + "(1)\n", 4))]
LIMITS = table("LongBundles", LONG)

if __name__ == "__main__":
    unittest.main()
