"""MXNet and MindSpore: counts that lie, arrays without values, and slices without end."""
from attack import REFUSED, SHOWN, Attack, honest, one_file, pack, sparse
from protobuf import data, number

VERSION_2 = 0xF993FAC9


def array(sizes=(1,), kind=3, values=b"x"):
    shape = pack("I", len(sizes)) + b"".join(pack("q", size) for size in sizes)
    return pack("Ii", VERSION_2, 0) + shape + pack("iii", 1, 0, kind) + values


def params(count, arrays, names=b""):
    return pack("QQQ", 0x112, 0, count) + arrays + (names or pack("Q", 0))


def mxnet(make):
    return one_file("m.params", make)


def parameter(tag, values=b"x", kind="UInt8", dims=(1,)):
    return data(1, data(1, tag) + data(2, b"".join(number(1, size) for size in dims) + data(2, kind) + data(3, values)))


def mindspore(make):
    return one_file("m.ckpt", make)


NONE = pack("I", 0)

ATTACKS = [
    Attack("mxnet-count", "mxnet", "2^60 arrays", mxnet(lambda: params(1 << 60, array())), REFUSED),
    Attack("mxnet-none", "mxnet", "5,000,000 arrays that are none", mxnet(lambda: params(5_000_000, NONE * 5_000_000))),
    Attack("mxnet-dimensions", "mxnet", "3,000 arrays of 1,024 dimensions",
           mxnet(lambda: params(3_000, array((1,) * 1024) * 3_000))),
    Attack("mxnet-size-overflows", "mxnet", "a shape of 2^124 elements",
           mxnet(lambda: params(1, array((1 << 62, 1 << 62)))), REFUSED),
    Attack("mxnet-hole", "mxnet", "an array that is a hole of 100 MB, without names behind it",
           sparse("m.params", lambda: params(1, array((100_000_000,), values=b""))[:-8], 100_000_100)),
    Attack("mxnet-names", "mxnet", "500 names of 60 KB", mxnet(lambda: params(
        500, array() * 500, pack("Q", 500) + b"".join(pack("Q", 60_000) + b"%05d" % i + b"n" * 59_995 for i in range(500))))),
    Attack("mindspore-slices", "mindspore", "a parameter of 1,000,000 slices",
           mindspore(lambda: parameter("w", dims=(1_000_000,)) * 1_000_000)),
    Attack("mindspore-slices-empty", "mindspore", "1,000,000 slices without bytes",
           mindspore(lambda: parameter("w", b"", dims=(1,)) * 1_000_000)),
    Attack("mindspore-dimensions", "mindspore", "a parameter of 5,000,000 dimensions",
           mindspore(lambda: data(1, data(1, "w") + data(2, data(2, "UInt8") + data(1, b"\1" * 5_000_000)))), SHOWN),
    Attack("mindspore-maps", "mindspore", "500,000 parameters that are no tensors",
           mindspore(lambda: parameter("w") + data(1, data(1, "m")) * 500_000), SHOWN),
    honest("mxnet", "mxnet", "20,000 arrays with names", mxnet(lambda: params(
        20_000, array() * 20_000, pack("Q", 20_000) + b"".join(pack("Q", 9) + b"arg:%05d" % i for i in range(20_000))))),
    honest("mindspore", "mindspore", "20,000 parameters",
           mindspore(lambda: b"".join(parameter(f"net.{i}") for i in range(20_000)))),
]
