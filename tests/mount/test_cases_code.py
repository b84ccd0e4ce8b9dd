"""What runs code when another program loads a model: the list `code`, for each format, and harmless models without one."""
import io
import json
import os
import resource
import struct
import tarfile
import zipfile

from cases import ABSENT, SOURCE, Case, file, table
from mounting import TestCase, run, unittest
import pickles
import protobuf

WEIGHTS = b"\x10\0\0\0\0\0\0\0{}" + b" " * 14
SHOW = ("info", "--json", SOURCE)
SAFE = ("verify", "--safe", SOURCE)
DUNDER = "{{ cycler.__init__.__globals__.os.popen('id').read() }}"
CHATML = ("{%- if tools %}{{- '<|im_start|>system\\n' }}{%- endif %}{% for message in messages %}{% if loop.index0 == 0 and "
          "message['role'] == \"user\" %}{{ raise_exception('no') }}{% endif %}{{ '<|im_start|>' + message['role'] + '\\n' + "
          "message.content.split('</think>')[-1].lstrip('\\n').strip() | trim + '<|im_end|>' }}{% endfor %}"
          "{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}{{ strftime_now('%d %b %Y') }}"
          "{% set ns.last = loop.index %}{{ tool | tojson(indent=4) }}{{ messages | selectattr('role', 'equalto', 'user') | list }}"
          "{{ '__start__' + bos_token + message['content'].replace('_', ' ') }}{# x.__class__ #}{% raw %}{{ x.__class__ }}{% endraw %}")


def encoded(value):
    if isinstance(value, (bytes, str)):
        return value.encode() if isinstance(value, str) else value
    return json.dumps(value).encode()


def directory(**files):
    """A directory of a model; `__` in a name is a dot, `___` a slash."""
    def build(tmp):
        path = os.path.join(tmp, "m")
        named = {name.replace("___", "/").replace("__", "."): data for name, data in files.items()}
        for name, data in {"config.json": {"model_type": "x"}, "model.safetensors": WEIGHTS, **named}.items():
            os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
            with open(os.path.join(path, name), "wb") as out:
                out.write(encoded(data))
        return path

    return build


def packed(name, **members):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as out:
        for member, content in members.items():
            out.writestr(member.replace("___", "/").replace("__", "."), encoded(content))
    return file(name, data.getvalue())


def torch_zip(**members):
    """A checkpoint of torch; the names of further members as those of a directory."""
    tensor = pickles.tensor(pickles.storage("Float", "0", 1), (1,))
    own = {"archive/data.pkl": pickles.pickle(pickles.dictionary([("w", tensor)])), "archive/data/0": b"\0\0\x80?",
           "archive/version": b"3\n"}
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as out:
        for member, content in {**own, **members}.items():
            out.writestr(member, content)
    return data.getvalue()


def torchscript(source):
    return file("m.pt", torch_zip(**{"archive/code/__torch__/m.py": source}))


EVIL = {"archive/data.pkl": pickles.pickle(pickles.call("posix", "system", pickles.text("true")))}


def nemo(configuration, members=None):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as out:
        for name, content in (("model_config.yaml", configuration.encode()), ("model_weights.ckpt", torch_zip(**(members or {})))):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))
    return file("m.nemo", data.getvalue())


def gguf(**templates):
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    keys = {"general.architecture": "llama",
            **{f"tokenizer.chat_template{'.' if name else ''}{name}": value for name, value in templates.items()}}
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
    for key, value in keys.items():
        data += text(key) + struct.pack("<I", 8) + text(value)
    return file("m.gguf", data + b"\0" * (-len(data) % 32))


def keras(*layers, name="config.json"):
    """A .keras whose model has these layers."""
    model = {"module": "keras", "class_name": "Sequential", "registered_name": "Sequential",
             "config": {"name": "model", "layers": [*layers, KERAS_DENSE]}}
    return packed("m.keras", **{name.replace(".", "__"): model, "metadata__json": {"keras_version": "3.8.0"}})


KERAS_DENSE = {"module": "keras.layers", "class_name": "Dense", "registered_name": None,
               "config": {"name": "dense", "units": 1, "activation": "relu",
                          "kernel_initializer": {"module": "keras.initializers", "class_name": "GlorotUniform",
                                                 "config": {"seed": None}, "registered_name": None}}}


def keras_layer(module, class_name, config=None, registered=None):
    return {"module": module, "class_name": class_name, "config": {} if config is None else config,
            "registered_name": registered}


def operation(function):
    return {"class_name": "TFOpLambda", "name": "tf", "config": {"name": "tf", "function": function},
            "inbound_nodes": []}


def tensorflow_node(name, op, *attributes):
    return protobuf.data(1, protobuf.data(1, name) + protobuf.data(2, op) + b"".join(attributes))


def attribute(key, text):
    return protobuf.data(5, protobuf.data(1, key) + protobuf.data(2, protobuf.data(2, text)))


def graph(*ops):
    nodes = b"".join(tensorflow_node(f"n{i}", op) for i, op in enumerate(ops))
    return file("graph.pb", nodes)


def saved_model(metadata=None, functions=(), ops=("NoOp",)):
    """A directory of a SavedModel, with the configurations of its Keras objects."""
    library = b"".join(protobuf.data(1, protobuf.data(1, protobuf.data(1, "f")) + protobuf.data(3, protobuf.data(1, "n") +
                                                                                                protobuf.data(2, op)))
                       for op in functions)
    nodes = b"".join(tensorflow_node(f"n{i}", op) for i, op in enumerate(ops))
    graph_def = nodes + (protobuf.data(2, library) if library else b"")
    files = {"saved_model.pb": protobuf.number(1, 1) + protobuf.data(2, protobuf.data(2, graph_def))}
    if metadata is not None:
        files["keras_metadata.pb"] = protobuf.data(1, protobuf.data(3, "root") + protobuf.data(5, json.dumps(metadata)))

    def build(tmp):
        for name, data in files.items():
            os.makedirs(os.path.join(tmp, "m"), exist_ok=True)
            with open(os.path.join(tmp, "m", name), "wb") as out:
                out.write(data)
        return os.path.join(tmp, "m")

    return build


def onnx(*domains, functions=()):
    nodes = [protobuf.onnx_node("Op", ["x"], ["y"]) + (protobuf.data(7, domain) if domain else b"") for domain in domains]
    local = [protobuf.data(25, protobuf.data(1, "Op") + protobuf.data(10, domain)) for domain in functions]
    return file("m.onnx", protobuf.onnx_model(protobuf.onnx_graph((), nodes), *local))


def code(case, build, *items, path=""):
    """Rows for a model whose list has exactly these items (what, where), and which `verify --safe` refuses."""
    listed = {f"{path}code.{i}.{key}": value for i, item in enumerate(items) for key, value in zip(("what", "where"), item)}
    return [Case(case, build, SHOW, 0, {**listed, f"{path}code.{len(items)}": ABSENT}),
            Case(f"{case}-safe", build, SAFE, 4, {}, [what for what, _ in items]),
            Case(f"{case}-screen", build, ("info", SOURCE), 0, {}, ["RUNS CODE: "])]


def harmless(case, build):
    return [Case(case, build, SHOW, 0, {"code": ABSENT}),
            Case(f"{case}-safe", build, SAFE, 0, {}, (), ["runs code", "not examined"]),
            Case(f"{case}-screen", build, ("info", SOURCE), 0, {}, (), ["RUNS CODE"])]


def rows(*groups):
    return [row for group in groups for row in group]


HUB = table("CodeOfRepositories", rows(
    code("auto-map", directory(config__json={"model_type": "x", "auto_map": {"AutoModel": "modeling_x.XModel"}},
                               modeling_x__py="x"), ("AutoModel: modeling_x.XModel", "modeling_x.py")),
    code("auto-map-of-another-repository", directory(config__json={"model_type": "x", "auto_map": {
        "AutoModel": "org/r--modeling_x.XModel"}}), ("AutoModel: org/r--modeling_x.XModel", "config.json")),
    code("auto-map-of-a-tokenizer", directory(tokenizer_config__json={"auto_map": {"AutoTokenizer": ["t.Slow", None]}}),
         ("AutoTokenizer: t.Slow", "tokenizer_config.json")),
    code("auto-map-of-a-part", directory(config__json={"model_type": "x", "vision_config": {"auto_map": {
        "AutoModel": "v.V"}}}), ("AutoModel: v.V", "config.json")),
    code("auto-map-and-nan", directory(config__json='{"model_type": "x", "eps": NaN, "auto_map": {"AutoModel": "v.V"}}'),
         ("AutoModel: v.V", "config.json")),
    code("custom-pipelines-of-transformers", directory(config__json={"model_type": "x", "custom_pipelines": {
        "classify": {"impl": "p.Pipe"}}}, p__py="x"), ("classify: p.Pipe", "p.py")),
    harmless("py-beside-a-model", directory(train__py="import os")),
    harmless("configuration", directory(config__json={"model_type": "llama", "architectures": ["LlamaForCausalLM"]},
                                        tokenizer_config__json={"tokenizer_class": "LlamaTokenizer"})),
    code("sentence-transformers-module", directory(modules__json=[
        {"idx": 0, "name": "0", "path": "", "type": "custom_st.Transformer"},
        {"idx": 1, "name": "1", "path": "", "type": "sentence_transformers.models.Normalize"}], custom_st__py="x"),
         ("module custom_st.Transformer", "custom_st.py")),
    code("sentence-transformers-package", directory(modules__json=[{"path": "", "type": "pylate.models.Dense.Dense"}]),
         ("module pylate.models.Dense.Dense", "modules.json")),
    code("sentence-transformers-function", directory(**{"2_Dense___config__json": {"activation_function": "os.system"}}),
         ("function os.system", "2_Dense/config.json")),
    harmless("sentence-transformers", directory(modules__json=[
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "", "type": "sentence_transformers.models.Normalize"}],
        **{"2_Dense___config__json": {"activation_function": "torch.nn.modules.activation.Tanh"}})),
    code("diffusers-class-of-a-part", directory(
        model_index__json={"_class_name": "StableDiffusionPipeline", "unet": ["my_unet", "MyUNet"]},
        unet___my_unet__py="x", unet___diffusion_pytorch_model__safetensors=WEIGHTS),
         ("unet: my_unet.MyUNet", "unet/my_unet.py")),
    code("diffusers-package", directory(
        model_index__json={"_class_name": "P", "unet": ["my_package", "MyUNet"]},
        unet___diffusion_pytorch_model__safetensors=WEIGHTS), ("unet: my_package.MyUNet", "model_index.json")),
    code("diffusers-custom-pipeline", directory(
        model_index__json={"_class_name": ["pipeline_x", "P"], "unet": ["diffusers", "U"]}, pipeline_x__py="x",
        unet___diffusion_pytorch_model__safetensors=WEIGHTS), ("custom pipeline pipeline_x", "pipeline_x.py")),
    harmless("diffusers", directory(
        model_index__json={"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"],
                           "safety_checker": [None, None]}, unet___diffusion_pytorch_model__safetensors=WEIGHTS)),
    code("peft-auto-mapping", directory(adapter_config__json={"peft_type": "LORA", "auto_mapping": {
        "base_model_class": "M", "parent_library": "my_package.models"}}),
         ("class my_package.models.M", "adapter_config.json")),
    harmless("peft", directory(adapter_config__json={"peft_type": "LORA", "auto_mapping": {
        "base_model_class": "LlamaModel", "parent_library": "transformers.models.llama.modeling_llama"}})),
    code("library-beside-a-model", directory(libmodel__so=b"\x7fELF"), ("shared library", "libmodel.so")),
    code("hydra-target", directory(conf___model__yaml="net:\n  _target_: my_project.Net\n"),
         ("_target_: my_project.Net", "conf/model.yaml")),
    harmless("hydra", directory(conf___model__yaml="o:\n  _target_: torch.optim.AdamW\n# _target_: os.system\n"
                                "l:\n  - _target_: hydra._internal.BasicLauncher\n")),
))

TEMPLATES = table("CodeOfTemplates", rows(
    code("template-of-a-gguf", gguf(**{"": DUNDER}),
         ("template that reaches for .__init__, .__globals__", "m.gguf")),
    code("named-template-of-a-gguf", gguf(tool_use=DUNDER), ("template that reaches for .__init__, .__globals__", "m.gguf")),
    code("template-of-a-tokenizer", directory(tokenizer_config__json={"chat_template": "{{ x['__class__'] }}"}),
         ("template that reaches for ['__class__']", "tokenizer_config.json")),
    code("templates-of-a-tokenizer", directory(tokenizer_config__json={"chat_template": [
        {"name": "default", "template": CHATML}, {"name": "rag", "template": "{{ ''.__class__ }}"}]}),
         ("template that reaches for .__class__", "tokenizer_config.json")),
    code("template-in-json", directory(chat_template__json={"chat_template": "{% set x = y|attr('z') %}"}),
         ("template that reaches for |attr", "chat_template.json")),
    code("template-file", directory(chat_template__jinja="{{ lipsum.x }}"),
         ("template that reaches for lipsum", "chat_template.jinja")),
    code("additional-template", directory(additional_chat_templates___t__jinja="{{ x\n . _y }}"),
         ("template that reaches for ._y", "additional_chat_templates/t.jinja")),
    *(code(f"template-{name}", directory(chat_template__jinja=text), (f"template that reaches for {what}", "chat_template.jinja"))
      for name, text, what in (
          ("with-escapes", r"{{ x['\x5f\x5fclass\137_'] }}", "['__class__']"),
          ("behind-a-dictionary", "{{ {'a': {'b': 1}}.__class__ }}", ".__class__"),
          ("behind-raw", "{% raw %}{# {% endraw %}{{ x.__class__ }}{# #}", ".__class__"),
          ("with-an-attribute-of-map", "{{ x | map(attribute='__class__') }}", "['__class__']"),
          ("with-the-filter-of-map", "{{ x | map('attr', y) }}", "map('attr')"),
          ("in-pieces", "{{ x[y ~ '__cla' ~ z] }}", "'__cla'"),
          ("with-a-format", "{{ '{0.__class__}'.format(x) }}", "'__class__'"),
          ("with-characters", "{{ x['%c' | format(95)] }}", "'%c'|format"),
          ("with-a-frame", "{{ x.gi_frame.f_globals }}", ".gi_frame, .f_globals"))),
    harmless("template-of-common-models", gguf(**{"": CHATML})),
    harmless("template-of-a-harmless-tokenizer", directory(
        tokenizer_config__json={"chat_template": CHATML}, chat_template__jinja=CHATML)),
))

KERAS = table("CodeOfKeras", rows(
    code("keras-lambda", keras(keras_layer("keras.layers", "Lambda", {"name": "twice", "function": {
        "class_name": "__lambda__", "config": {"code": "4wE="}}})), ('Lambda layer "twice"', "config.json")),
    code("keras-module", keras(keras_layer("os", "function", "system", "function")), ("os.system", "config.json")),
    code("keras-module-of-keras", keras(keras_layer("keras.utils", "function", "get_file", "function")),
         ("keras.utils.get_file", "config.json")),
    code("keras-unsafe-deserialization", keras(keras_layer("keras.config", "function", "enable_unsafe_deserialization")),
         ("keras.config.enable_unsafe_deserialization", "config.json")),
    code("keras-module-through-keras", keras(keras_layer("keras.src.utils.python_utils.os", "popen")),
         ("keras.src.utils.python_utils.os.popen", "config.json")),
    code("keras-custom-class", keras(keras_layer("my_package", "Layer", {"name": "x"}, "Custom>Layer")),
         ("my_package.Layer", "config.json")),
    code("keras-custom-class-without-module", keras({"class_name": "Custom>Layer", "config": {"name": "x"}}),
         ("custom class Custom>Layer", "config.json")),
    code("keras-custom-class-by-name", keras({"class_name": "MyLayer", "config": {"name": "x"}}),
         ("custom class MyLayer", "config.json")),
    code("keras-custom-function", keras(keras_layer("builtins", "function", "my_loss", "function")),
         ("custom function my_loss", "config.json")),
    code("keras-op-lambda", keras(operation("io.write_file")), ("TFOpLambda of tf.io.write_file", "config.json")),
    code("keras-py-function", keras(operation("py_function")), ("TFOpLambda of tf.py_function", "config.json")),
    code("keras-torch-module", keras(keras_layer("keras.layers", "TorchModuleWrapper", {"name": "t"})),
         ('layer TorchModuleWrapper "t"', "config.json")),
    code("keras-model-loader", keras(keras_layer("keras.models", "function", "load_model")),
         ("keras.models.load_model", "config.json")),
    harmless("keras", keras(keras_layer("keras.layers", "InputLayer", {"name": "i"}), operation("math.multiply"),
                            operation("__operators__.getitem"), operation("nn.relu"),
                            keras_layer("keras_hub.src.models.bert", "BertBackbone", {}, "keras_hub>BertBackbone"),
                            keras_layer("builtins", "slice", {}),
                            keras_layer("builtins", "function", "mean_squared_error", "function"), {"class_name": "Conv2D", "config": {"name": "c"}})),
    code("keras-in-a-saved-model", saved_model({"class_name": "Sequential", "config": {"layers": [
        {"class_name": "Lambda", "config": {"name": "l"}}]}}), ('Lambda layer "l"', "keras_metadata.pb")),
    harmless("keras-in-a-harmless-saved-model", saved_model({"class_name": "Sequential", "config": {"layers": [
        {"class_name": "Dense", "config": {"name": "d"}}]}})),
))

GRAPHS = table("CodeOfGraphs", rows(
    *(code(f"tensorflow-{op.lower()}", graph("Placeholder", op), (f"operator {op}", "graph.pb"))
      for op in ("ReadFile", "WriteFile", "PyFunc", "EagerPyFunc", "PyFuncStateless", "MatchingFiles")),
    code("tensorflow-print-to-a-file", file("graph.pb", tensorflow_node("p", "PrintV2", attribute(
        "output_stream", "file:///tmp/x"))), ("operator PrintV2 to file:///tmp/x", "graph.pb")),
    code("tensorflow-behind-many-operators", graph(*(f"Op{i}" for i in range(1200)), "WriteFile"),
         ("operator WriteFile", "graph.pb")),
    code("saved-model-function", saved_model(functions=["WriteFile"]), ("operator WriteFile", "saved_model.pb")),
    harmless("tensorflow", graph("Placeholder", "MatMul", "SaveV2", "SaveSlices", "RestoreV2", "Print", "Assert", "PrintV2")),
    code("onnx-custom-operator", onnx("", "my.domain"), ("custom operator my.domain.Op", "m.onnx")),
    code("onnx-extensions", onnx("ai.onnx.contrib"), ("custom operator ai.onnx.contrib.Op", "m.onnx")),
    harmless("onnx", onnx("", "ai.onnx.ml", "com.microsoft")),
    harmless("onnx-function", onnx("my.domain", functions=["my.domain"])),
))

TORCH = table("CodeOfTorch", rows(
    code("torchscript-file", torchscript('x = torch.from_file("a", True, 4)\n'),
         ("torch.from_file", "archive/code/__torch__/m.py")),
    code("torchscript-save", torchscript("torch.save(x, y)\n"), ("torch.save", "archive/code/__torch__/m.py")),
    code("torchscript-operator", torchscript("x = ops.my_ops.run(y)\n"),
         ("custom operator my_ops::run", "archive/code/__torch__/m.py")),
    code("torchscript-operator-of-aten", torchscript("x = ops.aten.from_file(y)\n"),
         ("operator aten::from_file", "archive/code/__torch__/m.py")),
    code("torchscript-class", torchscript("x : __torch__.torch.classes.mine.Thing\n"),
         ("custom class mine.Thing", "archive/code/__torch__/m.py")),
    harmless("torchscript", torchscript(
        "x = torch.add(y, ops.prim.NumToTensor(z))\nw : __torch__.torch.classes.quantized.LinearPackedParamsBase\n"
        "y = ops.torchvision.nms(x, y, 0.5)\nz = ops.quantized.linear(x)\nstops.mine.x\ntorch.loadx(y)\n")),
    code("library-in-a-pt2", packed("m.pt2", archive_format="pt2", model___data___aotinductor___model___x__so=b"\x7fELF"),
         ("shared library", "model/data/aotinductor/model/x.so")),
    code("pickle", file("m.pkl", b"cposix\nsystem\n(S'true'\ntR."), ("posix.system", "m.pkl")),
    code("pickle-in-a-checkpoint", file("m.pt", torch_zip(**EVIL)), ("posix.system", "archive/data.pkl")),
    code("pickle-in-a-nemo", nemo("a: 1\n", EVIL), ("posix.system", "model_weights.ckpt")),
))

ARCHIVES = table("CodeOfArchives", rows(
    code("nemo-target", nemo("a:\n  _target_: subprocess.Popen\n"), ("_target_: subprocess.Popen", "model_config.yaml")),
    code("nemo-old-target", nemo("target: my_project.Model\n"), ("_target_: my_project.Model", "model_config.yaml")),
    code("nemo-target-in-braces", nemo('a: {"_target_": "os.system", args: [x]}\n'),
         ("_target_: os.system", "model_config.yaml")),
    code("nemo-target-with-escapes", nemo('a:\n  "_target\\x5f": "os\\x2esystem"\n'),
         ("_target_: os.system", "model_config.yaml")),
    code("nemo-target-on-the-next-line", nemo("a:\n  _target_: >-\n    os.system\n"),
         ("_target_: os.system", "model_config.yaml")),
    code("nemo-target-with-an-explicit-key", nemo("a:\n  ? _target_\n  : os.system\n"),
         ("_target_: os.system", "model_config.yaml")),
    code("nemo-target-behind-white-space", nemo("a:\n  _target_:" + " " * 9000 + "os.system\n"),
         ("_target_: ", "model_config.yaml")),
    code("yaml-tag", nemo("a: !!python/object/apply:os.system [id]\n"),
         ("tag python/object/apply:os.system", "model_config.yaml")),
    code("nemo-target-through-nemo", nemo("a:\n  _target_: nemo.utils.os.system\n"),
         ("_target_: nemo.utils.os.system", "model_config.yaml")),
    harmless("nemo", nemo("target: nemo.collections.asr.models.EncDecCTCModel\na:\n  _target_: nemo.collections.asr.X\n"
                          "optim:\n  _target_: torch.optim.AdamW\n")),
    code("torchserve-handler", packed("m.mar", **{
        "MAR-INF___MANIFEST__json": {"model": {"handler": "handler.py:handle", "modelFile": "net.py"}},
        "handler__py": "x", "net__py": "x"}), ("handler handler.py:handle", "handler.py"), ("model file net.py", "net.py")),
    harmless("torchserve", packed("m.mar", **{"MAR-INF___MANIFEST__json": {"model": {"handler": "image_classifier"}},
                                              "model__safetensors": WEIGHTS})),
    code("skops-type", packed("m.skops", schema__json={"__class__": "Popen", "__module__": "subprocess", "__loader__": "x"}),
         ("subprocess.Popen", "schema.json")),
    harmless("skops", packed("m.skops", schema__json={"__class__": "SVC", "__module__": "sklearn.svm._classes", "content": {
        "__class__": "dict", "__module__": "builtins"}})),
))


class HostileCodeTest(TestCase):
    def test_texts_are_read_in_linear_time(self):
        for name, text in (("targets", "_target_:" * 200_000), ("marks", "_target_:!" * 200_000),
                           ("line", " _target_: a.b" * 200_000), ("tags", "!python/object" * 200_000)):
            self.examine(name, nemo(text))
        for name, text in (("blocks", "{{" * 500_000), ("raw", "{% raw %}" * 200_000), ("endraw", "{% raw %}" + "endraw" * 300_000),
                           ("literals", "{{ '__' ~ " * 200_000), ("comments", "{#" * 500_000)):
            self.examine(name, directory(chat_template__jinja=text))
        for name, text in (("calls", "ops." * 500_000), ("names", "torch." + "a" * 2_000_000)):
            self.examine(name, torchscript(text))

    def examine(self, name, build):
        with self.subTest(name):
            begin = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            run("info", "--json", build(self.tmp))
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begin, 8)


class CodeTest(TestCase):
    """Where the list is shown."""

    def test_mounting_prints_code_of_the_model(self):
        source = directory(config__json={"model_type": "x", "auto_map": {"AutoModel": "m.M"}})(self.tmp)
        os.makedirs(self.path("mnt"))
        done = run("mount", source, self.path("mnt"))
        self.addCleanup(run, "umount", self.path("mnt"))
        self.assertIn("RUNS CODE: AutoModel: m.M; see code in metadata.json", done.stderr)

    def test_code_is_the_first_field(self):
        source = gguf(**{"": DUNDER})(self.tmp)
        self.assertEqual(next(iter(json.loads(run("info", "--json", source).stdout))), "code")

    def test_further_items_are_counted(self):
        auto_map = {f"Auto{i}": f"m.C{i}" for i in range(300)}
        source = directory(config__json={"model_type": "x", "auto_map": auto_map})(self.tmp)
        listed = json.loads(run("info", "--json", source).stdout)["code"]
        self.assertEqual((len(listed), listed[-1]["what"]), (257, "and 44 others"))

    def test_files_beside_several_models_are_examined(self):
        source = directory(other__safetensors=WEIGHTS, config__json={"auto_map": {"AutoModel": "m.M"}})(self.tmp)
        done = run("verify", "--safe", source)
        self.assertEqual(done.returncode, 4, done)
        self.assertIn("AutoModel: m.M runs code", done.stderr)

    def test_all_weights_of_a_pipeline_count(self):
        evil = torch_zip(**EVIL)
        source = directory(model_index__json={"_class_name": "P", "a": ["diffusers", "A"], "b": ["diffusers", "B"]},
                           a___diffusion_pytorch_model__bin=torch_zip(), b___diffusion_pytorch_model__bin=evil)(self.tmp)
        done = run("verify", "--safe", source)
        self.assertEqual(done.returncode, 4, done)
        self.assertIn("posix.system", done.stderr)


if __name__ == "__main__":
    unittest.main()
