"""safetensors: headers, names, metadata, and indexes whose shards are one file."""
import json
import os

from attack import REFUSED, SHOWN, Attack, links_to, little, one_file, put, sparse
import archives

ENTRY = b'"dtype":"F32","shape":[0],"data_offsets":[0,0]'


def container(header, data=b""):
    header = header if isinstance(header, bytes) else header.encode()
    return little(len(header)) + header + data


def model(make, data=b""):
    """A safetensors file with this header."""
    return one_file("m.safetensors", lambda: container(make(), data))


def entries(names):
    """A header of tensors without bytes."""
    return b"{" + b",".join(b'"' + name + b'":{' + ENTRY + b"}" for name in names) + b"}"


def entry(fields):
    return '{"a":{' + fields + "}}"


def metadata(make):
    return model(lambda: '{"__metadata__":' + make() + "}")


def shard_of(count):
    return container(entries(b"t%d" % i for i in range(count)))


def weight_map(pairs, more=""):
    return '{"metadata":{"total_size":1},"weight_map":' + json.dumps(dict(pairs)) + more + "}"


def index(make, fill=None):
    """An index, and the files that `fill(folder)` writes beside it."""
    def build(folder):
        put(folder, "m.safetensors.index.json", make().encode())
        if fill:
            fill(folder)
        return ""
    return build


def linked(count, tensors, hard):
    """An index over `count` links to one shard."""
    names = [f"m-{i}.safetensors" for i in range(count)]

    def fill(folder):
        links_to(folder, put(folder, "shard", shard_of(tensors)), names, hard)
    return index(lambda: weight_map((f"t{i}", name) for i, name in enumerate(names)), fill)


def zipped(count, tensors, nested=False):
    """Like linked(), but the shards are members of a zip that share their bytes."""
    def build(folder):
        from attacks_zip import RawZip
        names = [f"m/m-{i}.safetensors" for i in range(count)]
        with RawZip(os.path.join(folder, "m.zip")) as out:
            shard = shard_of(tensors)
            at = out.local(b"", shard)
            for name in names:
                out.entry(name, at, len(shard), len(shard))
            out.write("m/m.safetensors.index.json",
                      weight_map((f"t{i}", name[2:]) for i, name in enumerate(names)).encode(), archives.DEFLATE)
        return "m.zip"
    return build


def tarred(count, tensors):
    def build(folder):
        from attacks_tar import HARD, END, member
        names = [f"m/{i}.safetensors" for i in range(count)]
        text = weight_map((f"t{i}", name[2:]) for i, name in enumerate(names)).encode()
        return put(folder, "m.tar", [member(names[0].encode(), shard_of(tensors)),
                                     *(member(name.encode(), kind=HARD, link=names[0].encode()) for name in names[1:]),
                                     member(b"m/m.safetensors.index.json", text), END])
    return build


def odd_shards(folder):
    put(folder, "good.safetensors", shard_of(1))
    os.mkfifo(os.path.join(folder, "fifo.safetensors"))
    os.symlink("/dev/zero", os.path.join(folder, "zero.safetensors"))
    os.symlink("loop.safetensors", os.path.join(folder, "loop.safetensors"))
    os.mkdir(os.path.join(folder, "directory.safetensors"))


def deep(depth, open_="[", close="]"):
    return open_ * depth + close * depth


LONG = 1_000_000

ATTACKS = [
    # The header.
    Attack("safetensors-header-beyond", "safetensors", "a header of 2^64 - 1 bytes",
           one_file("m.safetensors", lambda: little((1 << 64) - 1) + b"{}"), REFUSED),
    Attack("safetensors-header-hole", "safetensors", "a header of 100,000,000 bytes in a hole",
           sparse("m.safetensors", lambda: little(100_000_000) + b"{", 1 << 30), REFUSED),
    Attack("safetensors-spaces", "safetensors", "a header of 10 MB of spaces", model(lambda: b" " * (10 * LONG) + b"{}")),
    Attack("safetensors-spaces-between", "safetensors", "10 MB of spaces between a tensor's fields",
           model(lambda: entry('"dtype":"F32",' + " " * (10 * LONG) + '"shape":[0],"data_offsets":[0,0]'))),
    Attack("safetensors-brackets", "safetensors", "10 MB of open brackets", model(lambda: '{"a":' + "[" * (10 * LONG)), REFUSED),
    Attack("safetensors-braces", "safetensors", "10 MB of open objects", model(lambda: '{"a":' * (2 * LONG)), REFUSED),
    Attack(
        "safetensors-field-deep", "safetensors", "an ignored field nested 126 deep, 8,000 times",
        model(lambda: entry(",".join([f'"x{i}":' + deep(120)
                                      for i in range(8_000)]) + ',"dtype":"F32","shape":[0],"data_offsets":[0,0]'))),
    Attack("safetensors-digits", "safetensors", "an offset of 5,000,000 digits",
           model(lambda: entry('"dtype":"F32","shape":[0],"data_offsets":[0,' + "9" * 5 * LONG + "]")), REFUSED),
    Attack("safetensors-ignored-digits", "safetensors", "an ignored number of 5,000,000 digits",
           model(lambda: entry('"x":' + "1" * 5 * LONG + ',"dtype":"F32","shape":[0],"data_offsets":[0,0]'))),
    Attack("safetensors-shape-long", "safetensors", "a shape of 4,000,000 numbers",
           model(lambda: entry('"shape":[' + "1," * 4 * LONG + '0],"dtype":"F32","data_offsets":[0,0]'))),
    Attack(
        "safetensors-shapes-1024", "safetensors", "3,000 tensors of 1,024 dimensions",
        model(lambda: "{" + ",".join(f'"t{i}":{{"dtype":"F32","shape":[' + "0," * 1_023 + '0],"data_offsets":[0,0]}'
                                     for i in range(3_000)) + "}")),
    Attack("safetensors-shape-wraps", "safetensors", "a shape whose product wraps to 0",
           model(lambda: entry('"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]')), REFUSED),
    Attack(
        "safetensors-dtype-long", "safetensors", "a dtype of 5 MB, twice",
        model(lambda: "{" + ",".join(f'"t{i}":{{"dtype":"' + "\\u0001" * 500_000 + '","shape":[0],"data_offsets":[0,0]}'
                                     for i in range(2)) + "}")),
    Attack(
        "safetensors-dtypes-unknown", "safetensors", "50,000 unknown dtypes",
        model(lambda: "{" + ",".join(f'"t{i}":{{"dtype":"X{i}","shape":[0],"data_offsets":[0,0]}}' for i in range(50_000)) + "}")),
    Attack("safetensors-fields-many", "safetensors", "a tensor with a million ignored fields",
           model(lambda: entry(",".join(f'"x{i}":1' for i in range(LONG)) + ',"dtype":"F32","shape":[0],"data_offsets":[0,0]'))),
    Attack("safetensors-fields-repeated", "safetensors", "a tensor with its shape 500,000 times",
           model(lambda: entry('"shape":[0],' * 500_000 + '"dtype":"F32","data_offsets":[0,0]'))),

    # Names.
    Attack("safetensors-one-name", "safetensors", "60,000 tensors of one name", model(lambda: entries([b"same"] * 60_000))),
    Attack("safetensors-names-65535", "safetensors", "60 names of 65,535 bytes",
           model(lambda: entries(b"%03d" % i + b"n" * 65_532 for i in range(60)))),
    Attack("safetensors-names-too-long", "safetensors", "one name of 10 MB", model(lambda: entries([b"n" * (10 * LONG)]))),
    Attack("safetensors-names-deep", "safetensors", "60 names of 32,767 components",
           model(lambda: entries(b"%03d" % i + b"/n" * 32_766 for i in range(60)))),
    Attack("safetensors-names-31-components", "safetensors", "30,000 names of 31 components that share nothing",
           model(lambda: entries(b"%d/" % i + b"/".join(b"%c" % (97 + j % 26) for j in range(29)) + b"/w" for i in range(30_000)))),
    Attack("safetensors-names-30-directories", "safetensors", "300,000 tensors, each 30 directories deep in its own",
           model(lambda: entries([b"%x/" % i + b"/".join([b"a"] * 30) for i in range(300_000)]))),
    Attack("safetensors-names-empty-components", "safetensors", "20,000 names of slashes",
           model(lambda: entries(b"/" * (i % 200) + b"%d" % i for i in range(20_000)))),
    Attack("safetensors-names-escapes", "safetensors", "60 names of 10,000 control characters",
           model(lambda: entries(b"%03d" % i + b"\\u0001" * 10_000 for i in range(60)))),
    Attack("safetensors-names-directories", "safetensors", "each name is a directory of the next",
           model(lambda: entries(b"/".join([b"a"] * (i + 1)) for i in range(2_000)))),
    Attack("safetensors-names-clash", "safetensors", "names that are one after escaping or cutting",
           model(lambda: entries(b"n" * 300 + b"%d" % (i // 3) + (b"", b"%01", b"\\u0001")[i % 3] for i in range(12_000)))),
    Attack("safetensors-names-npy", "safetensors", "20,000 names that clash with .npy of others",
           model(lambda: entries(b"%d" % (i // 2) + (b"", b".npy/x")[i % 2] for i in range(20_000)))),
    Attack("safetensors-empty-tensors", "safetensors", "150,000 tensors of no bytes",
           model(lambda: entries(b"%x" % i for i in range(150_000)))),

    # __metadata__.
    Attack("safetensors-metadata-65536", "safetensors", "65,536 keys",
           metadata(lambda: json.dumps({str(i): "" for i in range(65_536)}))),
    Attack("safetensors-metadata-500000", "safetensors", "500,000 keys",
           metadata(lambda: '{' + ','.join(f'"{i}":""' for i in range(500_000)) + '}')),
    Attack("safetensors-metadata-one-key", "safetensors", "65,000 times one key",
           metadata(lambda: "{" + ",".join(['"k":"v"'] * 65_000) + "}")),
    Attack("safetensors-metadata-deep", "safetensors", "values 120 deep, 500 times",
           metadata(lambda: '{"a":[' + ",".join([deep(120)] * 500) + "]}")),
    Attack("safetensors-metadata-objects-deep", "safetensors", "60,000 values below 98 levels",
           metadata(lambda: '{"a":' * 97 + "[" + "1," * 60_000 + "1]" + "}" * 97)),
    Attack("safetensors-metadata-escapes", "safetensors", "a text of 1,500,000 escapes",
           metadata(lambda: '{"a":"' + "\\u0001" * 1_500_000 + '"}')),
    Attack("safetensors-metadata-long-keys", "safetensors", "60 keys of 65,535 bytes",
           metadata(lambda: json.dumps({f"{i:03}" + "\x01" * 10_000: "v" for i in range(60)}))),
    Attack("safetensors-metadata-json-in-text", "safetensors", "a text that is JSON, nested 100,000 deep",
           metadata(lambda: json.dumps({"config": deep(100_000), "format": deep(1_000)}))),

    # Indexes.
    Attack("index-hard-links", "safetensors index", "2,000 hard links to one shard of 20,000 tensors", linked(2_000, 20_000, True)),
    Attack("index-symbolic-links", "safetensors index", "400 symbolic links to one shard of 50,000 tensors",
           linked(400, 50_000, False)),
    Attack("index-hard-links-9999", "safetensors index", "9,999 hard links to one shard of 500 tensors", linked(9_999, 500, True)),
    Attack("index-links-empty-shard", "safetensors index", "5,000 links to one shard without tensors", linked(5_000, 0, True)),
    Attack("index-zip-shared", "zip", "5,000 members of a zip share one shard of 20,000 tensors", zipped(5_000, 20_000)),
    Attack("index-tar-hard-links", "tar", "5,000 hard links of a tar to one shard of 20,000 tensors", tarred(5_000, 20_000)),
    Attack("index-missing-shards", "safetensors index", "10,000 shards that are not there",
           index(lambda: weight_map((f"t{i}", f"s{i}") for i in range(10_000)), lambda folder: put(folder, "s0", shard_of(1)))),
    Attack("index-many-shards", "safetensors index", "100,000 shards named",
           index(lambda: weight_map((f"t{i}", f"s{i}") for i in range(100_000)))),
    Attack("index-names-long", "safetensors index", "tensors and shards of 65,535 bytes",
           index(lambda: weight_map((f"{i:03}" + "t" * 65_532, f"{i:03}" + "s" * 65_532) for i in range(30)))),
    Attack("index-deep", "safetensors index", "an index nested 500,000 deep",
           index(lambda: '{"weight_map":' + deep(500_000) + "}")),
    Attack(
        "index-metadata-deep", "safetensors index", "metadata nested 100,000 deep",
        index(lambda: '{"weight_map":{"t0":"s"},"metadata":' + deep(100_000, '{"a":', "}") + "}",
              lambda folder: put(folder, "s", shard_of(1)))),
    Attack("index-one-line-repeated", "safetensors index", "one tensor 300,000 times in the map",
           index(lambda: '{"weight_map":{' + ",".join(['"t0":"s"'] * 300_000) + "}}",
                 lambda folder: put(folder, "s", shard_of(1)))),
    Attack(
        "index-odd-shards", "safetensors index", "shards that are the index, a FIFO, a device, a loop, a directory, outside",
        index(
            lambda: weight_map((name, name) for name in
                               ("m.safetensors.index.json", "fifo.safetensors", "zero.safetensors", "loop.safetensors",
                                "directory.safetensors", "../../../../etc/shadow", "/etc/shadow", "..", "", "good.safetensors")),
            odd_shards), SHOWN),
]
