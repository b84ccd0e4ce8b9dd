"""The samples that `containers.py demo` writes: one small, realistic model per format."""
import os
import random
import struct

import archives
import containers
import pickles
import protobuf
import tiny_repositories
from containers import Graph, Operator, Value
from tensors import Tensor

WIDTH = 32
VOCABULARY = 2048


def weights(name, count):
    """Small numbers that depend only on the name."""
    source = random.Random(name)
    return [source.uniform(-0.1, 0.1) for _ in range(count)]


def elements(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def float32(name, *shape):
    return Tensor(name, "float32", shape, struct.pack(f"<{elements(shape)}f", *weights(name, elements(shape))))


def float16(name, *shape):
    return Tensor(name, "float16", shape, struct.pack(f"<{elements(shape)}e", *weights(name, elements(shape))))


def bfloat16(name, *shape):
    wide = float32(name, *shape).data
    halves = b"".join(wide[at + 2:at + 4] for at in range(0, len(wide), 4))  # the upper half of a float32
    return Tensor(name, "bfloat16", shape, halves)


def q8_0(name, *shape):
    values = weights(name, elements(shape))
    blocks = [q8_0_block(values[at:at + 32]) for at in range(0, len(values), 32)]
    return Tensor(name, "q8_0", shape, b"".join(blocks))


def q8_0_block(values):
    """A float16 scale and 32 int8."""
    scale = max(map(abs, values)) / 127
    return struct.pack("<e32b", scale, *(round(value / scale) for value in values))


def hugging_face_layers(count):
    tensors = [bfloat16("model.embed_tokens.weight", VOCABULARY, WIDTH)]
    for layer in range(count):
        block = f"model.layers.{layer}"
        tensors += [bfloat16(f"{block}.self_attn.{matrix}_proj.weight", WIDTH, WIDTH) for matrix in "qkvo"]
        tensors += [float32(f"{block}.input_layernorm.weight", WIDTH)]
    return [*tensors, float32("model.norm.weight", WIDTH)]


def ggml_layers(count):
    tensors = [float16("token_embd.weight", VOCABULARY, WIDTH)]
    for layer in range(count):
        tensors += [float32(f"blk.{layer}.attn_norm.weight", WIDTH)]
        tensors += [q8_0(f"blk.{layer}.attn_{matrix}.weight", WIDTH, WIDTH) for matrix in ("q", "k", "v", "output")]
    return [*tensors, float32("output_norm.weight", WIDTH)]


def tokens():
    """Three control tokens, every byte, then words."""
    first = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    consonants, vowels = "bcdfghjklmnpqrstvwxz", "aeiou"
    syllables = [consonant + vowel for consonant in consonants for vowel in vowels]
    words = ["\u2581" + one + two for one in syllables for two in syllables]
    return (first + words)[:VOCABULARY]


def gguf_metadata():
    return {
        "general.architecture": "llama",
        "general.name": "weightfs demo",
        "general.description": "Two layers of noise, for looking at",
        "general.license": "cc0-1.0",
        "general.file_type": 7,
        "llama.context_length": 512,
        "llama.embedding_length": WIDTH,
        "llama.block_count": 2,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens(),
        "tokenizer.ggml.scores": [-float(rank) for rank in range(VOCABULARY)],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.add_bos_token": True,
    }


def adapter():
    """A LoRA adapter: two low-rank matrices per adapted weight."""
    return [
        tensor for layer in range(2) for matrix in ("q_proj", "v_proj")
        for tensor in (float32(f"layers.{layer}.{matrix}.lora_A.weight", 8, WIDTH),
                       float32(f"layers.{layer}.{matrix}.lora_B.weight", WIDTH, 8))
    ]


def write_perceptron(path):
    """pixels @ hidden.weight + hidden.bias, Relu, @ output.weight + output.bias."""
    constants = [float32("hidden.weight", 16, 32), float32("hidden.bias", 32),
                 float32("output.weight", 32, 10), float32("output.bias", 10)]
    wide = ("hidden.product", "hidden.sum", "hidden.active")
    narrow = ("output.product", "digits")
    values = (Value("pixels", "float32", ("batch", 16)), *(Value(name, "float32", ("batch", 32)) for name in wide),
              *(Value(name, "float32", ("batch", 10)) for name in narrow))
    operators = (
        Operator("hidden/MatMul", containers.RTEN_MATMUL, ("pixels", "hidden.weight"), ("hidden.product",)),
        Operator("hidden/Add", containers.RTEN_ADD, ("hidden.product", "hidden.bias"), ("hidden.sum",)),
        Operator("hidden/Relu", containers.RTEN_RELU, ("hidden.sum",), ("hidden.active",)),
        Operator("output/MatMul", containers.RTEN_MATMUL, ("hidden.active", "output.weight"), ("output.product",)),
        Operator("output/Add", containers.RTEN_ADD, ("output.product", "output.bias"), ("digits",)),
    )
    metadata = {"description": "A perceptron with one hidden layer", "license": "CC0-1.0"}
    containers.write_rten(path, constants, metadata, Graph(values, operators, ("pixels",), ("digits",)))


def write_onnx(path):
    """The perceptron as one operator; the weights are in a file beside the model, as exporters store large ones."""
    hidden, bias = float32("hidden.weight", 16, 32), float32("hidden.bias", 32)
    with open(path + "_data", "wb") as file:
        file.write(hidden.data)
    initializers = (protobuf.onnx_external("hidden.weight", protobuf.ONNX_FLOAT, (16, 32),
                                           location=os.path.basename(path) + "_data", offset=0, length=len(hidden.data)),
                    protobuf.onnx_tensor("hidden.bias", protobuf.ONNX_FLOAT, (32, ), protobuf.data(9, bias.data)))
    nodes = (protobuf.onnx_node("Gemm", ("pixels", "hidden.weight", "hidden.bias"), ("digits",), name="hidden/Gemm"),)
    graph = protobuf.onnx_graph(initializers, nodes, (protobuf.onnx_value("pixels", protobuf.ONNX_FLOAT, ("batch", 16)),),
                                (protobuf.onnx_value("digits", protobuf.ONNX_FLOAT, ("batch", 32)),))
    with open(path, "wb") as file:
        file.write(protobuf.onnx_model(graph, protobuf.onnx_property("license", "CC0-1.0")))


def estimator(module, name, **attributes):
    """An object of scikit-learn; an attribute is a plain value, or opcodes."""
    attributes["_sklearn_version"] = "1.2.1"
    return pickles.instance(
        module, name, b"".join(
            pickles.text(key) + (value if isinstance(value, bytes) else pickles.value(value))
            for key, value in attributes.items()))


def float64_array(name, *shape):
    return pickles.array("f8", shape, struct.pack(f"<{elements(shape)}d", *weights(name, elements(shape))))


def write_pipeline(path):
    """A classifier behind a scaler, as pickle.dump writes it. scikit-learn is not used."""
    scaler = estimator("sklearn.preprocessing._data", "StandardScaler", with_mean=True, n_features_in_=16,
                       mean_=float64_array("mean", 16), scale_=float64_array("scale", 16))
    classifier = estimator("sklearn.linear_model._logistic", "LogisticRegression", penalty="l2", C=0.5, max_iter=200,
                           n_features_in_=16, classes_=pickles.array("i8", (10, ), struct.pack("<10q", *range(10))),
                           coef_=float64_array("coefficients", 10, 16), intercept_=float64_array("intercept", 10))
    steps = b"".join(pickles.text(name) + step + b"\x86" for name, step in (("scale", scaler), ("classify", classifier)))
    with open(path, "wb") as file:
        file.write(pickles.pickle(estimator("sklearn.pipeline", "Pipeline", steps=b"(" + steps + b"l", verbose=False)))


CARTON_TOML = """spec_version = 1
model_name = "digits"
short_description = "A perceptron, packed with a test of itself"
license = "CC0-1.0"

[[input]]
name = "pixels"
dtype = "float32"
shape = ["batch", 16]

[[output]]
name = "digits"
dtype = "string"
shape = ["batch"]

[[self_test]]
name = "one of each"
inputs = { pixels = "@tensor_data/pixels" }
expected_out = { digits = "@tensor_data/digits" }

[runner]
runner_name = "rten"
required_framework_version = "=0.13.0"
runner_compat_version = 1
"""

TENSOR_INDEX = """[[tensor]]
name = "pixels"
dtype = "float32"
shape = [2, 16]
file = "tensor_0.bin"

[[tensor]]
name = "digits"
dtype = "string"
shape = [2]
file = "tensor_1.toml"
"""


def carton_files(perceptron, adapter_file):
    """A carton with the model and its adapter."""
    return {
        "carton.toml": CARTON_TOML.encode(),
        "model/digits.rten": perceptron,
        "model/adapter.safetensors": adapter_file,
        "tensor_data/index.toml": TENSOR_INDEX.encode(),
        "tensor_data/tensor_0.bin": float32("pixels", 2, 16).data,
        "tensor_data/tensor_1.toml": b'data = ["three", "seven"]\n',
    }


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write_demo(folder):
    def path(*names):
        whole = os.path.join(folder, *names)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        return whole

    model, llama, notes = hugging_face_layers(2), ggml_layers(2), {"format": "pt"}
    containers.write_safetensors(path("demo.safetensors"), model, notes)
    containers.write_gguf(path("demo.gguf"), llama, gguf_metadata())
    containers.write_bintensors(path("demo.bt"), adapter(), {**notes, "base_model": "weightfs demo"})
    containers.write_pytorch(path("demo.pt"), model, {"epoch": 3, "hyper_parameters": {"lr": 0.001, "optimizer": "adamw"}})
    write_pipeline(path("demo.pkl"))
    write_perceptron(path("demo.rten"))
    write_onnx(path("demo-onnx", "demo.onnx"))
    containers.write_safetensors(path("adapter.safetensors"), adapter(), notes)
    archives.write_carton(path("demo.carton"), carton_files(read(path("demo.rten")), read(path("adapter.safetensors"))),
                          method=archives.DEFLATE)
    os.remove(path("adapter.safetensors"))
    tiny_repositories.write(folder, "Tiny-Llama3-200K-Instruct")
    sharded = path("demo-sharded", "")
    containers.write_safetensors_shards(sharded, [model[:6], model[6:]], notes)
    containers.write_gguf_shards(path("demo-split", "demo"), [llama[:6], llama[6:]], gguf_metadata())
