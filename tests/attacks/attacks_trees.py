"""Tree models, ncnn, Darknet, ORT: counts that lie, arrays without end, layers that multiply sizes, shared tables."""
from attack import REFUSED, SHOWN, Attack, honest, little, one_file, pack, put, sparse


def json_model(trees):
    """XGBoost in JSON with these trees: a text or a sequence of texts."""
    return one_file("m.json", lambda: (('{"learner":{"gradient_booster":{"model":{"trees":[' + ",".join(trees()) +
                                        ']},"name":"gbtree"}},"version":[1,7,4]}').encode()))


def key(name):
    return b"L" + len(name).to_bytes(8, "big") + name


def ubjson(trees):
    """XGBoost in UBJSON; `trees` is the value of the key."""
    return b"".join(b"{" + key(name) for name in (b"learner", b"gradient_booster", b"model", b"trees")) + trees + b"}}}}"


def typed(marker, count, data=b""):
    return b"[$" + marker + b"#L" + count.to_bytes(8, "big", signed=True) + data


def binary(trees, content, size=None):
    head = (b"binf" + pack("fIiiiII", 0.5, 1, 0, 0, 0, 1, 7) + bytes(108) + little(10) + b"reg:linear" + little(6) + b"gbtree" +
            pack("I", trees) + bytes(156))
    return one_file("m.bst", lambda: head + content()) if size is None else sparse("m.bst", lambda: head + content(), size)


def text(make):
    return one_file("m.txt", lambda: b"tree\nversion=v4\n" + make())


def ncnn(lines, weights=b"", count=None, hole=0):
    def build(folder):
        layers = list(lines())
        put(folder, "m.bin", weights)
        if hole:
            sparse("m.bin", lambda: weights, hole)(folder)
        return put(folder, "m.param", ("7767517\n%d 1\n" % (len(layers) if count is None else count) + "\n".join(layers)).encode())
    return build


def darknet(sections, weights=bytes(64), hole=0):
    def build(folder):
        put(folder, "m.cfg", ("[net]\nwidth=2\nheight=2\n" + sections()).encode())
        make = lambda: pack("iiiQ", 0, 2, 0, 0) + weights  # noqa: E731
        return sparse("m.weights", make, hole)(folder) if hole else put(folder, "m.weights", make())
    return build


def ctranslate2(make):
    return one_file("model.bin", lambda: pack("IH", 6, 16) + b"TransformerSpec\0" + pack("I", 7) + make())


ATTACKS = [
    Attack("xgboost-trees-empty", "xgboost", "2,000,000 trees without arrays", json_model(lambda: ["{}"] * 2_000_000)),
    Attack("xgboost-arrays-empty", "xgboost", "a tree with 2,000,000 arrays of one name",
           json_model(lambda: ["{" + ",".join(['"parents":[]'] * 2_000_000) + "}"])),
    Attack("xgboost-json-deep", "xgboost", "5,000,000 nested lists", json_model(lambda: ["[" * 5_000_000]), REFUSED),
    Attack("xgboost-json-text", "xgboost", "a text of 50 MB that does not end",
           json_model(lambda: ['"' + "a" * 50_000_000]), REFUSED),
    Attack("xgboost-numbers-long", "xgboost", "a number of 20,000,000 digits",
           json_model(lambda: ['{"parents":[' + "1" * 20_000_000 + "]}"]), REFUSED),
    Attack("xgboost-metadata", "xgboost", "2,000,000 values of metadata",
           one_file("m.json", lambda: ('{"learner":{"attributes":{' + ",".join('"a%d":"b"' % i for i in range(2_000_000)) +
                                       '},"gradient_booster":{"name":"gbtree"}}}').encode())),
    Attack("xgboost-count-huge", "xgboost", "an array of 2^62 numbers",
           one_file("m.ubj", lambda: ubjson(b"[{" + key(b"parents") + typed(b"l", 1 << 62) + b"}]")), REFUSED),
    Attack("xgboost-count-negative", "xgboost", "an array of -1 numbers",
           one_file("m.ubj", lambda: ubjson(b"[{" + key(b"parents") + typed(b"l", -1) + b"}]")), REFUSED),
    Attack("xgboost-nulls-typed", "xgboost", "2^40 nulls that take no bytes",
           one_file("m.ubj", lambda: ubjson(typed(b"Z", 1 << 40))),
           REFUSED),
    Attack("xgboost-hole-typed", "xgboost", "an array of 2^40 bytes in a hole",
           sparse("m.ubj", lambda: ubjson(b"[{" + key(b"split_type") + typed(b"U", 1 << 40)), 1 << 41), REFUSED),
    Attack("xgboost-ubjson-deep", "xgboost", "5,000,000 nested arrays",
           one_file("m.ubj", lambda: ubjson(b"[" * 5_000_000)), REFUSED),
    Attack("xgboost-binary-trees", "xgboost", "2^31 - 1 trees", binary(2**31 - 1, lambda: b""), REFUSED),
    Attack("xgboost-binary-nodes", "xgboost", "a tree of 2^31 - 1 nodes", binary(1, lambda: pack("II", 1, 2**31 - 1) + bytes(140)),
           REFUSED),
    Attack("xgboost-binary-hole", "xgboost", "2,000,000 trees without nodes in a hole", binary(2_000_000, lambda: b"", 1 << 30)),
    Attack("lightgbm-trees-empty", "lightgbm", "2,000,000 trees without rows", text(lambda: b"\nTree=0\n" * 2_000_000)),
    Attack("lightgbm-rows", "lightgbm", "a tree of 2,000,000 rows",
           text(lambda: b"Tree=0\n" + b"leaf_value=1\n" * 2_000_000 + b"\n")),
    Attack("lightgbm-line-long", "lightgbm", "a line of 100 MB without trees", text(lambda: b"objective=" + b"x" * 100_000_000),
           REFUSED),
    Attack("lightgbm-names", "lightgbm", "10,000,000 names of features",
           text(lambda: b"feature_names=" + b"f " * 10_000_000 + b"\n\nend of trees\n"), SHOWN),
    Attack("lightgbm-sizes", "lightgbm", "20,000,000 sizes of trees",
           text(lambda: b"tree_sizes=" + b"1 " * 20_000_000 + b"\n\nend of trees\n"), SHOWN),
    Attack("lightgbm-hole", "lightgbm", "a hole of 1 TB after the text",
           sparse("m.txt", lambda: b"tree\nversion=v4\n\nTree=0\nleaf_value=1\n\nend of trees\n", 1 << 40)),
    Attack("ncnn-layers-claimed", "ncnn", "2^63 layers", ncnn(lambda: ["ReLU r 0 0"], count=1 << 63), REFUSED),
    Attack("ncnn-layers", "ncnn", "500,000 layers", ncnn(lambda: ["ReLU r 0 0"] * 500_000)),
    Attack("ncnn-blobs", "ncnn", "a layer with 2^32 - 1 inputs",
           ncnn(lambda: ["Concat c 4294967295 0 " + "a " * 1_000_000]), REFUSED),
    Attack("ncnn-arrays-hole", "ncnn", "400,000 arrays in a hole", ncnn(lambda: ["BatchNorm b 0 0 0=1"] * 100_000, hole=1 << 40)),
    Attack("ncnn-sizes-largest", "ncnn", "1,000 arrays of 2^62 numbers in a hole of 2^62 bytes",
           ncnn(lambda: ["Gemm g 0 0 4=1 7=2147483647 9=2147483647"] * 1_000, hole=1 << 42)),
    Attack("darknet-routes", "darknet", "an output that doubles with each of 1,000 routes",
           darknet(lambda: "[dropout]\n" + "[route]\nlayers=-1,-1\n" * 1_000), REFUSED),
    Attack("darknet-route-long", "darknet", "routes to 1,000,000 layers",
           darknet(lambda: "[avgpool]\n[route]\nlayers=" + "0," * 1_000_000 + "0\n")),
    Attack("darknet-upsampled", "darknet", "an output that doubles with each of 1,000 layers",
           darknet(lambda: "[upsample]\nstride=2\n" * 1_000), REFUSED),
    Attack("darknet-layers-hole", "darknet", "100,000 layers with 5 arrays in a hole",
           darknet(lambda: "[convolutional]\nbatch_normalize=1\n" * 100_000, hole=1 << 40)),
    Attack("darknet-sections", "darknet", "400,000 sections", darknet(lambda: "[dropout]\n" * 400_000)),
    Attack("ctranslate2-variables", "ctranslate2", "2^32 - 1 variables", ctranslate2(lambda: pack("I", 2**32 - 1)), REFUSED),
    Attack("ctranslate2-variables-empty", "ctranslate2", "1,000,000 variables without elements",
           ctranslate2(lambda: pack("I", 1_000_000) + (pack("H", 2) + b"a\0" + pack("BIBI", 1, 0, 1, 0)) * 1_000_000)),
    Attack("ctranslate2-dimensions", "ctranslate2", "20,000 variables of 255 dimensions",
           ctranslate2(lambda: pack("I", 20_000) + (pack("HHB", 2, 97, 255) + pack("I", 1) * 255 + pack("BI", 1, 1) + b"x") *
                       20_000)),
    Attack("ctranslate2-aliases", "ctranslate2", "1,000,000 aliases of one name",
           ctranslate2(lambda: pack("II", 0, 1_000_000) + pack("HHHH", 2, 97, 2, 98) * 1_000_000)),
    Attack("ctranslate2-settings", "ctranslate2", "1,000,000 settings",
           ctranslate2(lambda: pack("I", 1_000_000) + (pack("HHBBI", 2, 97, 0, 1, 1) + b"x") * 1_000_000)),
    honest("xgboost", "xgboost", "20,000 trees in JSON",
           json_model(lambda: ['{"left_children":[1,-1,-1],"parents":[0,0,0],"split_conditions":[0.5,1E-1,2.25],"id":%d}' % i
                               for i in range(20_000)])),
    honest("lightgbm", "lightgbm", "20,000 trees",
           text(lambda: b"\n" + b"".join(b"Tree=%d\nnum_leaves=2\nnum_cat=0\nsplit_feature=0\nthreshold=0.5\nleft_child=-1\n"
                                         b"right_child=-2\nleaf_value=1 -2.5\n\n\n" % i
                                         for i in range(20_000)) + b"end of trees\n\nfeature_importances:\n")),
]
