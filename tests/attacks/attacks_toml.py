"""TOML in cartons: carton.toml, tensor_data/index.toml, LINKS and string tensors."""
import os

from attack import Attack
import archives


def carton(folder, files):
    """A carton of these members, which may include carton.toml."""
    with archives.Zip(os.path.join(folder, "m.carton")) as out:
        for name, data in files.items():
            out.write(name, data, archives.DEFLATE)
        out.write("MANIFEST", archives.manifest({name: data for name, data in files.items() if name != "LINKS"}))
    return "m.carton"


def toml(make):
    """A carton with this text as carton.toml."""
    return lambda folder: carton(folder, {"carton.toml": make().encode()})


def index(make, files=None):
    """A carton with this tensor_data/index.toml."""
    return lambda folder: carton(folder, {"carton.toml": archives.NOOP.encode(), "tensor_data/index.toml": make().encode(),
                                          **({name: make_file() for name, make_file in (files or {}).items()})})


def links(make):
    return lambda folder: carton(folder, {"carton.toml": archives.NOOP.encode(), "LINKS": make().encode()})


def tensor(name, dtype="float32", shape="[1]", **fields):
    rows = "".join(f"{key} = {value}\n" for key, value in fields.items())
    return f'[[tensor]]\nname = "{name}"\ndtype = "{dtype}"\nshape = {shape}\n{rows}\n'


def nested(name, inner):
    return f'[[tensor]]\nname = "{name}"\ndtype = "nested"\ninner = [{", ".join(inner)}]\n\n'


def dotted(depth, part="a"):
    return ".".join([part] * depth)


def strings(name="s", shape="[2]", copies=1, make=lambda: 'data = ["a", "b"]\n'):
    """Tensors of texts that share one TOML file."""
    return index(lambda: "".join(tensor(f"{name}{i}", "string", shape, file='"t.toml"') for i in range(copies)),
                 {"tensor_data/t.toml": lambda: make().encode()})


def inline_tensors(depth):
    text = '{ name = "end", dtype = "float32", shape = [1], file = "x" }'
    for level in range(depth):
        text = f'{{ name = "n{level}", dtype = "nested", inner = [{text}] }}'
    return f"tensor = [{text}]\n"


DEPTH = [
    # Recursion: one key or value that is far deeper than any stack.
    Attack("toml-key-12000-deep", "carton.toml", "a dotted key of 12,000 parts", toml(lambda: dotted(12_000) + "=1\n")),
    Attack("toml-key-2m-deep", "carton.toml", "a dotted key of 2,000,000 parts, 4 MB", toml(lambda: dotted(2_000_000) + "=1\n")),
    Attack("toml-key-quoted-deep", "carton.toml", "a dotted key of 12,000 quoted parts",
           toml(lambda: dotted(12_000, '"a"') + "=1\n")),
    Attack("toml-key-empty-parts-deep", "carton.toml", "a dotted key of 12,000 empty parts",
           toml(lambda: dotted(12_000, "''") + "=1\n")),
    Attack("toml-key-spaces-deep", "carton.toml", "a dotted key with spaces around its dots",
           toml(lambda: " . ".join(["a"] * 12_000) + " = 1\n")),
    Attack("toml-key-in-inline-table-deep", "carton.toml", "a dotted key of 12,000 parts in an inline table",
           toml(lambda: "x = { " + dotted(12_000) + " = 1 }\n")),
    Attack("toml-key-in-array-deep", "carton.toml", "dotted keys in inline tables in an array",
           toml(lambda: "x = [" + ", ".join("{ " + dotted(5_000) + " = 1 }" for _ in range(10)) + "]\n")),
    Attack("toml-header-deep", "carton.toml", "a table header of 12,000 parts", toml(lambda: f"[{dotted(12_000)}]\nb=1\n")),
    Attack("toml-array-header-deep", "carton.toml", "an array-of-tables header of 12,000 parts",
           toml(lambda: f"[[{dotted(12_000)}]]\nb=1\n")),
    Attack("toml-header-then-key-deep", "carton.toml", "a header of 90 parts and a key of 12,000 below it",
           toml(lambda: f"[{dotted(90)}]\n{dotted(12_000)}=1\n")),
    Attack("toml-header-after-header-deep", "carton.toml", "headers that each go one level deeper, 1,500 of them",
           toml(lambda: "".join(f"[{dotted(i)}]\n" for i in range(1, 1_500)))),
    Attack("toml-inline-tables-deep", "carton.toml", "inline tables nested 10,000 deep",
           toml(lambda: "a=" + "{a=" * 10_000 + "1" + "}" * 10_000 + "\n")),
    Attack("toml-arrays-deep", "carton.toml", "arrays nested 200,000 deep", toml(lambda: "a=" + "[" * 200_000 + "\n")),
    Attack("toml-inline-and-dotted-deep", "carton.toml", "inline tables nested 90 deep, each with a key of 200 parts",
           toml(lambda: "a=" + ("{" + dotted(200) + "=") * 90 + "1" + "}" * 90 + "\n")),
    Attack("toml-index-key-deep", "carton index", "a dotted key of 12,000 parts in index.toml",
           index(lambda: dotted(12_000) + "=1\n")),
    Attack("toml-string-tensor-key-deep", "carton tensor", "a dotted key of 12,000 parts in a tensor of texts",
           strings(make=lambda: dotted(12_000) + '=1\ndata = ["a", "b"]\n')),
    Attack("toml-links-key-deep", "carton LINKS", "a dotted key of 12,000 parts in LINKS",
           links(lambda: f"version = 1\n[urls]\n{dotted(12_000)} = []\n")),
    Attack("toml-index-inline-tensors-deep", "carton index", "tensors inside tensors, 2,000 deep",
           index(lambda: inline_tensors(2_000))),
]

RENDERING = [
    # metadata.json and metadata.toml are far larger than the text that they show.
    Attack("toml-render-20x9000", "carton.toml", "20 keys of 9,000 parts: indentation is quadratic in depth",
           toml(lambda: "".join(f"a{i}.{dotted(9_000)}=1\n" for i in range(20)))),
    Attack("toml-render-100x2000", "carton.toml", "2,000 keys of 99 parts",
           toml(lambda: "".join(f"a{i}.{dotted(98)}=1\n" for i in range(2_000)))),
    Attack("toml-render-100x20000", "carton.toml", "20,000 keys of 99 parts, 4 MB that Deflate to a few KB",
           toml(lambda: "".join(f"a{i}.{dotted(96)}=1\n" for i in range(20_000)))),
    Attack("toml-render-array-leaves", "carton.toml", "100,000 values below 95 levels: each is indented",
           toml(lambda: dotted(95) + " = [" + "1," * 190_000 + "]\n")),
    Attack("toml-render-arrays-deep", "carton.toml", "arrays nested 90 deep, 1,000 times",
           toml(lambda: "a = [" + ("[" * 90 + "]" * 90 + ",") * 1_000 + "]\n")),
    Attack("toml-render-control-characters", "carton.toml", "a text of 4 MB of control characters, six bytes each in JSON",
           toml(lambda: 'a = "' + "\x7f" * 3_900_000 + '"\n')),
    Attack("toml-render-escapes", "carton.toml", "a key of 600,000 escapes", toml(lambda: '"' + "\\u0001" * 600_000 + '" = 1\n')),
    Attack("toml-render-long-keys", "carton.toml", "60 keys of 65,535 bytes, in 60 tables", toml(
        lambda: "".join(f'["{i:065535}"]\na = 1\n' for i in range(60)))),
]

VALUES = [
    # Much memory for each byte of text.
    Attack("toml-200000-empty-arrays", "carton.toml", "190,000 empty arrays", toml(lambda: "a = [" + "[]," * 99_000 + "]\n")),
    Attack("toml-200000-empty-tables", "carton.toml", "190,000 empty inline tables",
           toml(lambda: "a = [" + "{}," * 99_000 + "]\n")),
    Attack("toml-keys-wide", "carton.toml", "190,000 keys", toml(lambda: "".join(f"k{i}=1\n" for i in range(190_000)))),
    Attack("toml-headers-wide", "carton.toml", "40,000 tables", toml(lambda: "".join(f"[t{i}]\n" for i in range(40_000)))),
    Attack("toml-headers-most", "carton.toml", "165,000 tables, which take much memory in toml++",
           toml(lambda: archives.NOOP + "".join(f"[{i:x}]\n" for i in range(165_000)))),
    Attack("toml-dates", "carton.toml", "160,000 dates with times",
           toml(lambda: archives.NOOP + "x = [" + "1979-05-27T07:32:00Z," * 160_000 + "]\n")),
    Attack("toml-inputs-without-fields", "carton.toml", "60,000 inputs that lack everything: a warning each",
           toml(lambda: archives.NOOP + "[[input]]\n" * 60_000)),
    Attack("toml-array-of-tables-of-tables", "carton.toml", "50,000 elements of an array, each with a table",
           toml(lambda: "[[a]]\n[a.b]\n" * 30_000)),
    Attack(
        "toml-self-tests", "carton.toml", "40,000 references to tensors that are not there",
        toml(lambda: archives.NOOP + '[[self_test]]\ninputs = {' + ",".join(f' x{i} = "@tensor_data/y"'
                                                                            for i in range(40_000)) + " }\n")),
    Attack("toml-digits", "carton.toml", "an integer and a float of a million digits",
           toml(lambda: "a = " + "9" * 1_000_000 + "\n")),
    Attack("toml-float-digits", "carton.toml", "a float of a million digits",
           toml(lambda: "a = 0." + "9" * 1_000_000 + "e999999999\n")),
    Attack("toml-unclosed-text", "carton.toml", "a text of 4 MB that does not end", toml(lambda: 'a = """' + "\n" * 4_000_000)),
    Attack("toml-comments", "carton.toml", "4 MB of comments", toml(lambda: archives.NOOP + "#\n" * 2_000_000)),
    Attack("toml-brackets", "carton.toml", "4 MB of brackets", toml(lambda: "[" * 4_100_000)),
    Attack("toml-dots", "carton.toml", "4 MB of dots", toml(lambda: "." * 4_100_000)),
    Attack("toml-deflated-64mb", "carton.toml", "a carton.toml of 64 MB in 64 KB", toml(lambda: "#" + " " * 64_000_000)),
]

TENSORS = [
    Attack("carton-inner-chain", "carton index", "20,000 tensors, each inside the one before, by name", index(
        lambda: "".join(nested(f"t{i}", [f'"t{i + 1}"']) for i in range(20_000)))),
    Attack("carton-inner-cycle", "carton index", "tensors that are inside each other", index(
        lambda: nested("a", ['"b"']) + nested("b", ['"a"']))),
    Attack("carton-inner-self", "carton index", "a tensor inside itself", index(lambda: nested("a", ['"a"', '"a"', '"a"']))),
    Attack("carton-inner-doubling", "carton index", "60 tensors that each hold the next one twice: 2^60 paths", index(
        lambda: "".join(nested(f"t{i}", [f'"t{i + 1}"'] * 2) for i in range(60)))),
    Attack("carton-inner-shared", "carton index", "400 tensors that each hold the same 400", index(
        lambda: "".join(nested(f"t{i}", [f'"x{j}"' for j in range(400)]) for i in range(400)) +
        "".join(tensor(f"x{j}", file='"x"') for j in range(400)))),
    Attack("carton-shape-long", "carton index", "a shape of 150,000 sizes",
           index(lambda: tensor("a", shape="[" + "1," * 150_000 + "]", file='"x"'))),
    Attack("carton-shapes-1024", "carton index", "180 tensors of 1,024 dimensions", index(
        lambda: "".join(tensor(f"a{i}", shape="[" + "1," * 1_024 + "]", file='"x"') for i in range(180)),
        {"tensor_data/x": lambda: b"1234"})),
    Attack("carton-one-file-many-tensors", "carton index", "15,000 tensors of one compressed file", index(
        lambda: "".join(tensor(f"a{i}", shape="[250000]", file='"x"') for i in range(15_000)),
        {"tensor_data/x": lambda: bytes(1_000_000)})),
    Attack("carton-one-text-many-tensors", "carton tensor", "10,000 tensors of texts that share one TOML of 1 MB", strings(
        shape="[30000]", copies=10_000, make=lambda: 'data = [' + '"abcdefghijklmnopqrstuvwxyz123456",' * 30_000 + "]\n")),
    Attack("carton-one-long-text", "carton tensor", "one text of 2,000 characters among 30,000: 240 MB of .npy", strings(
        shape="[30000]", copies=20, make=lambda: 'data = ["' + "x" * 2_000 + '",' + '"",' * 29_999 + "]\n")),
    Attack("carton-texts-short", "carton tensor", "190,000 empty texts", strings(
        shape="[190000]", make=lambda: "data = [" + '"",' * 190_000 + "]\n")),
    Attack("carton-text-shape-overflow", "carton tensor", "a shape of texts whose product wraps", strings(
        shape="[4294967296, 4294967296, 2]")),
    Attack("carton-text-data-deep", "carton tensor", "texts in arrays nested 100,000 deep", strings(
        make=lambda: "data = " + "[" * 100_000 + "]" * 100_000 + "\n")),
    Attack("carton-tensor-names-clash", "carton index", "20,000 tensors of one name", index(
        lambda: tensor("a", file='"x"') * 20_000, {"tensor_data/x": lambda: b"1234"})),
]

ATTACKS = [*DEPTH, *RENDERING, *VALUES, *TENSORS]
