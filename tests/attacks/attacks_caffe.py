"""Caffe: messages that nest, blobs that lie, and lists of layers without end."""
from attack import REFUSED, SHOWN, Attack, honest, one_file, pack, sparse
from protobuf import data, head, number, varint


def blob(*fields, shape=(1,), values=pack("f", 1.0)):
    return data(7, data(1, b"".join(varint(size) for size in shape))) + data(5, values) + b"".join(fields)


def layer(name, *fields):
    return data(100, data(1, name) + data(2, "Scale") + b"".join(fields))


def model(make):
    return one_file("m.caffemodel", lambda: data(1, "net") + make())


def weights(*blobs):
    return model(lambda: layer("w", *(data(7, each) for each in blobs)))


def groups_deep():
    return layer("w") + (varint(99 << 3 | 3) * 1_000_000)


ATTACKS = [
    Attack("caffe-groups-deep", "caffe", "1,000,000 groups in groups", model(groups_deep), REFUSED),
    Attack("caffe-layers-empty", "caffe", "2,000,000 empty layers", model(lambda: layer("w") + data(100, b"") * 2_000_000)),
    Attack("caffe-blobs-empty", "caffe", "1,000,000 empty blobs", model(lambda: layer("w", data(7, b"") * 1_000_000))),
    Attack("caffe-dimensions", "caffe", "a shape of 10,000,000 dimensions",
           weights(data(7, data(1, b"\1" * 10_000_000)) + data(5, bytes(4))), SHOWN),
    Attack("caffe-shape-overflows", "caffe", "a shape of 2^126 elements", weights(blob(shape=((1 << 63) - 1,) * 2)), SHOWN),
    Attack("caffe-pieces", "caffe", "a blob of 1,000,000 pieces of one number",
           weights(blob(data(5, pack("f", 2.0)) * 999_999, shape=(1_000_000,)))),
    Attack("caffe-pieces-empty", "caffe", "a blob of 5,000,000 empty pieces", weights(blob(data(5, b"") * 5_000_000))),
    Attack("caffe-hole", "caffe", "a blob that is a hole of 4 GB",
           sparse("m.caffemodel", lambda: data(1, "net") + head(100, 4_000_000_030) + data(1, "w") + data(2, "Scale") +
                  head(7, 4_000_000_000), 4_000_000_060)),
    Attack("caffe-bottoms", "caffe", "1,000,000 inputs of one layer", model(lambda: layer("w", data(3, "x") * 1_000_000))),
    Attack("caffe-length-huge", "caffe", "a layer of 2^63 bytes", model(lambda: varint(100 << 3 | 2) + varint(1 << 63)), REFUSED),
    honest("caffe", "caffe", "5,000 layers with weights",
           model(lambda: b"".join(layer(f"conv{i}", data(3, f"v{i}"), data(4, f"v{i + 1}"), data(7, blob()), data(7, blob()))
                                  for i in range(5_000)))),
]
