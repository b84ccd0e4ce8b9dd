"""The undamaged model as each kind of SOURCE, and how its parts are damaged. Servers are the doubles of the other tests, behind a
proxy that does the damage."""
import hashlib
import json
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("support", "mount"):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), folder))
import artifacts  # noqa: E402
import damage  # noqa: E402
import model  # noqa: E402
import stores  # noqa: E402
from hub_server import Hub  # noqa: E402
from s3_server import S3Server  # noqa: E402
from servers import Nginx, Registry, path_of  # noqa: E402

LARGE = 9 << 20  # above the size up to which blobs are verified before they are read


class Place:
    """What the servers need of a test: a folder, and an end."""

    def __init__(self, folder):
        self.folder = folder
        self.cleanups = []

    def path(self, name):
        return os.path.join(self.folder, name)

    def addCleanup(self, action, *arguments, **named):
        self.cleanups.append((action, arguments, named))

    def end(self):
        while self.cleanups:
            action, arguments, named = self.cleanups.pop()
            action(*arguments, **named)


class Source:
    """`parts` are bytes by name; `argument` and `environment` are for weightfs; tensors are at `prefix` + "tensors/"."""
    prefix = ""
    is_remote = False
    is_one_model = True
    can_be_replaced = False
    is_large = False  # above the size up to which a blob is verified before it is read
    digested = ()     # the parts that have a digest or a checksum
    is_compared_by_mounts = True  # not if the digests lie beside the files: verify compares them, a mount does not
    cut_statuses = (damage.REFUSED, damage.FORBIDDEN)

    def __init__(self, name, arrays):
        self.name, self.arrays = name, arrays
        self.environment = {}

    def start(self, place):
        raise NotImplementedError

    def damages(self, cuts=20):
        raise NotImplementedError

    def break_with(self, one):
        raise NotImplementedError

    def heal(self):
        raise NotImplementedError

    def replace(self):
        """Replaces the model by another one with the same names."""
        raise NotImplementedError

    def is_of_the_other(self, cell, result):
        """Whether a result, or the file that a command wrote, has the tensors of the model that replaced this one."""
        other = other_than(self.arrays)
        if result.output:
            return result.output == b"".join(array.tobytes() for array in other.values())
        with open(cell.out("model.safetensors"), "rb") as file:
            return model.is_equal(model.read_safetensors(file.read()), other)


def other_than(arrays):
    return {name: array[::-1].copy() for name, array in arrays.items()}


class Local(Source):
    """Files in a folder; `opened` is the one that is opened, or empty for the folder."""

    def __init__(self, name, arrays, parts, opened="", digested=(), prefix="", is_one_model=True):
        super().__init__(name, arrays)
        self.parts, self.opened, self.digested, self.prefix, self.is_one_model = parts, opened, digested, prefix, is_one_model

    def start(self, place):
        self.folder = place.path("model")
        self.argument = os.path.join(self.folder, self.opened) if self.opened else self.folder
        self.heal()

    def path(self, part):
        return os.path.join(self.folder, part)

    def heal(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        for part, data in self.parts.items():
            stores.Store.put(self.path(part), data)

    def weights(self):
        return [part for part in self.parts if not part.endswith((".json", "config.toml", ".metadata", "SUMS"))]

    def damages(self, cuts=20):
        out = []
        for part in self.weights():
            size = len(self.parts[part])
            out += damage.cuts(part, size, cuts if part == self.weights()[0] else 4, part in self.digested)
            out += damage.flips(part, size) if part in self.digested else []
            out += damage.missing(part) + damage.unreadable(part)
        return out

    def break_with(self, one):
        damage.apply_to_file(one, self.path(one.part))

    @property
    def can_be_replaced(self):
        return self.opened in ("model.safetensors", "model.gguf")

    def replace(self):
        write = model.gguf if self.opened.endswith(".gguf") else model.safetensors
        stores.Store.put(self.path("new"), write(other_than(self.arrays)))
        os.replace(self.path("new"), self.path(self.opened))


class OllamaStore(Local):
    """A store with one model, opened by its manifest."""

    def __init__(self, arrays):
        super().__init__("ollama store", arrays, {})

    def start(self, place):
        package = stores.Package()
        package.add("model", model.gguf(self.arrays)).add("license", b"Do what you like.\n").add("template", stores.TEMPLATE)
        self.parts = {f"blobs/sha256-{digest}": data for digest, data in package.blobs.items()}
        self.parts[f"manifests/{stores.DEFAULT_HOST}/library/tiny/latest"] = package.manifest()
        self.digested = tuple(part for part in self.parts if part.startswith("blobs/"))
        super().start(place)
        self.argument = self.path(f"manifests/{stores.DEFAULT_HOST}/library/tiny/latest")

    def weights(self):
        return sorted(self.digested, key=lambda part: -len(self.parts[part]))


class Served(Source):
    """On a server behind a proxy. `patterns`: of the URLs of each part."""
    is_remote = True

    def damages(self, cuts=20):
        out = []
        for part, data in self.parts.items():
            if part == "config.json":  # it has no digest that is compared, and no weights
                continue
            out += damage.of_a_server(part, len(data))
            out += damage.flips(part, len(data)) if part in self.digested else []
        return out

    def break_with(self, one):
        self.proxy.break_with(one, self.patterns[one.part])

    def heal(self):
        self.proxy.heal()


class Url(Served):
    """Sharded safetensors, or one GGUF, from nginx."""
    is_replaced = False
    version = 1_700_000_000

    def __init__(self, name, arrays, parts, opened):
        super().__init__(name, arrays)
        self.parts, self.opened = parts, opened

    def start(self, place):
        server = Nginx(place)
        for part, data in self.parts.items():
            stores.Store.put(os.path.join(server.content, part), data)
        self.proxy = damage.FaultyProxy(place, f"http://127.0.0.1:{server.port}")
        self.patterns = {part: re.escape(part) for part in self.parts}
        self.argument = f"{self.proxy.url}/{self.opened}"
        self.content = server.content

    @property
    def can_be_replaced(self):
        return self.opened == "model.gguf"

    def put(self, arrays):
        stores.Store.put(os.path.join(self.content, "new"), model.gguf(arrays))
        self.version += 1  # nginx's ETag is the size and the seconds
        os.utime(os.path.join(self.content, "new"), (self.version, self.version))
        os.replace(os.path.join(self.content, "new"), os.path.join(self.content, self.opened))

    def replace(self):
        self.put(other_than(self.arrays))
        self.is_replaced = True

    def heal(self):
        super().heal()
        if self.is_replaced:
            self.put(self.arrays)
            self.is_replaced = False


class HuggingFace(Served):
    def __init__(self, name, arrays, parts):
        super().__init__(name, arrays)
        self.parts = parts
        self.is_large = "large" in name
        self.digested = tuple(part for part in parts if part.endswith((".safetensors", ".gguf")))

    def start(self, place):
        hub = Hub(place)
        hub.add("org/demo", self.parts)
        cdn = damage.FaultyProxy(place, hub.cdn_url)
        hub.cdn_url = cdn.url
        front = damage.FaultyProxy(place, hub.url)
        self.proxies = {True: cdn, False: front}
        self.patterns = {part: hashlib.sha256(data).hexdigest() if part in self.digested else "/resolve/.*" + re.escape(part)
                         for part, data in self.parts.items()}
        self.environment = {"HF_ENDPOINT": front.url}
        self.argument = "hf://org/demo"

    def break_with(self, one):
        self.proxies[one.part in self.digested].break_with(one, self.patterns[one.part])

    def heal(self):
        for proxy in self.proxies.values():
            proxy.heal()


class Oci(Served):
    """An artifact in docker-registry. `packing`: raw, tar, tar+gzip or image."""

    def __init__(self, arrays, packing, size=""):
        super().__init__(f"oci {packing}{size}", arrays)
        self.packing = packing
        self.is_large = bool(size)
        self.digested = ("layer",)
        self.is_one_model = True

    def start(self, place):
        data = model.gguf(self.arrays)
        if self.packing == "raw":
            layer, kind = data, "application/vnd.cncf.model.weight.v1.raw"
        else:
            layer = artifacts.tar({"model.gguf": data}, compress=self.packing == "tar+gzip")
            kind = "application/vnd.cncf.model.weight.v1." + self.packing
        artifact = artifacts.modelpack()
        artifact.add(kind, layer, "model.gguf" if self.packing == "raw" else None)
        registry = Registry(place)
        artifact.push(registry, "ai/tiny", "latest")
        self.parts = {"layer": layer}
        self.patterns = {"layer": artifacts.digest(layer)}
        self.proxy = damage.FaultyProxy(place, f"http://127.0.0.1:{registry.port}")
        self.argument = f"oci://{self.proxy.url.removeprefix('http://')}/ai/tiny:latest"


class S3(Served):
    def __init__(self, arrays, parts):
        super().__init__("s3", arrays)
        self.parts = parts

    def start(self, place):
        store = S3Server(place)
        for part, data in self.parts.items():
            store.put("models", f"tiny/{part}", data)
        store.public.add("models")
        self.proxy = damage.FaultyProxy(place, store.url)
        self.patterns = {part: "/tiny/" + re.escape(part) for part in self.parts}
        self.environment = {"AWS_ENDPOINT_URL_S3": self.proxy.url}
        self.argument = "s3://models/tiny/"


class LocalBesideItsDigest(Local):
    is_compared_by_mounts = False


def sharded(arrays):
    names = list(arrays)
    shards = {f"model-0000{i + 1}-of-00002.safetensors": {name: arrays[name] for name in names[i::2]} for i in range(2)}
    return {**{file: model.safetensors(part) for file, part in shards.items()}, "model.safetensors.index.json": model.index(shards),
            "config.json": json.dumps({"model_type": "llama"}).encode()}


def with_digests_beside(arrays):
    """Files whose digests are in other files."""
    data = model.safetensors(arrays)
    digest = hashlib.sha256(data).hexdigest()
    note = f"{'a' * 40}\n{digest}\n4e9\n".encode()
    return [
        LocalBesideItsDigest("local directory", arrays,
                             {"model.safetensors": data, ".cache/huggingface/download/model.safetensors.metadata": note},
                             "model.safetensors", digested=("model.safetensors",)),
        LocalBesideItsDigest("checksum list", arrays,
                             {"model.safetensors": data, "SHA256SUMS": f"{digest}  model.safetensors\n".encode()},
                             "model.safetensors", digested=("model.safetensors",)),
    ]


def all_sources():
    small = model.tensors()
    large = model.tensors(count=3, bytes_each=LARGE // 3 + 4096)
    two_large = model.tensors(count=4, bytes_each=LARGE // 2 + 4096)
    return [
        Local("safetensors", small, {"model.safetensors": model.safetensors(small)}, "model.safetensors"),
        Local("gguf", small, {"model.gguf": model.gguf(small)}, "model.gguf"),
        Local("directory", small, sharded(small)),
        Local("split gguf", small, model.gguf_shards(small), "model-00001-of-00002.gguf"),
        Local("zip", small, {"model.npz": model.npz(small)}, "model.npz", digested=("model.npz", )),
        Local("tar.gz", small, {"model.tar.gz": artifacts.tar({"model.gguf": model.gguf(small)}, compress=True)}, "model.tar.gz",
              prefix="nested/model.gguf/", is_one_model=False),
        OllamaStore(small),
        *with_digests_beside(small),
        *([
            Url("https", small, {part: data for part, data in sharded(small).items()
                                 if part != "config.json"}, "model.safetensors.index.json"),
            Url("https gguf", large, {"model.gguf": model.gguf(large)}, "model.gguf"),
            Url("https split", small, model.gguf_shards(small), "model-00001-of-00002.gguf")
        ] if path_of("nginx") else []),
        HuggingFace("hf", small, sharded(small)),
        HuggingFace("hf large shards", two_large, sharded(two_large)),
        HuggingFace("hf large", large, {"model.safetensors": model.safetensors(large), "config.json": b"{}"}),
        *([
            Oci(arrays, packing, size) for packing in ("raw", "tar", "tar+gzip")
            for arrays, size in ((small, ""), (large, " large"))
        ] if path_of("docker-registry") else []),
        S3(small, sharded(small)),
    ]
