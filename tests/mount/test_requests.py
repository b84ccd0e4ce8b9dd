"""What common commands request from each kind of server, cold and warm: requests and bytes of bodies. LIMITS is the table of these
counts, which may only fall. `REQUESTS=print python3 tests/mount/test_requests.py` prints what was counted beside it.
"""
import json
import os
import struct
import sys
import tempfile
import unittest
from typing import NamedTuple

from fetching import FetchTestCase
from mounting import run
from hub_server import Sparse
from registry_server import RegistryServer
from scripted_server import Server, correct
from test_az import AzureTestCase
from test_gs import GsTestCase
from test_hub import HubTestCase
from test_s3 import S3TestCase
import artifacts

KIB = 1024
MIB = 1024 * KIB
PRINTS = os.environ.get("REQUESTS") == "print"
INDEX = "model.safetensors.index.json"
WEIGHT = "application/vnd.cncf.model.weight.v1.raw"
CONFIG = "application/vnd.cncf.model.weight.config.v1.raw"


class Count(NamedTuple):
    requests: int
    bytes: int

    def __str__(self):
        return f"{self.requests} requests, {self.bytes:,} B"


class Limit(NamedTuple):
    """`least`: what the protocol needs. `most` is at most 10 % more, or `reason` says why not."""
    command: str
    state: str  # cold: with an empty cache; warm: the same command again
    most: Count
    least: Count
    reason: str = ""

    def is_near(self):
        return all(10 * most <= 11 * least for most, least in zip(self.most, self.least))


def limit(command, state, most, least, reason=""):
    return Limit(command, state, Count(*most), Count(*least), reason)


# Reasons for more than the minimum.
HEADS = "the first request for a file is for 16 KiB, because the length of its header is in them"
TOKENIZER = f"{HEADS}; a file in Git is only sent whole, and tokenizer.json states the kind of the tokenizer"
PLACES = "the index is read too, which names the shards that have to be there"
ALL_SHARDS = "the headers of all shards are read, though one is needed, or none"
WHOLE = "a file up to 8 MiB is downloaded and verified whole before its first tensor is read"
REFERRERS = f"{HEADS}; signatures of a manifest are searched by three requests, because few registries have the first way"
TAGS = "without digests, the server is asked for each file of the model whether it has changed"

# A row: command, state, most and least requests and bytes, and a reason.
LIMITS = {
    "hf, 30 shards": (
        limit("info", "cold", (70, 780_000), (64, 213_700), TOKENIZER),
        limit("info", "warm", (1, 2_085), (1, 2_085)),
        limit("ls", "cold", (70, 780_000), (2, 12_714), ALL_SHARDS),
        limit("ls", "warm", (1, 2_085), (1, 2_085)),
        limit("cat FILE", "cold", (4, 90_200), (3, 12_737), PLACES),
        limit("cat FILE", "warm", (1, 2_085), (1, 2_085)),
        limit("cat TENSOR", "cold", (7, 1_171_500), (6, 1_142_766), HEADS),
        limit("cat TENSOR", "warm", (1, 2_085), (1, 2_085)),
        limit("mount", "cold", (70, 780_000), (64, 213_700), HEADS),
        limit("mount", "warm", (1, 2_085), (1, 2_085)),
        limit("refresh", "warm", (1, 2_085), (1, 2_085)),
        limit("refresh README", "warm", (2, 12_900), (2, 12_714)),
    ),
    "hf, 80 shards": (
        limit("info", "cold", (170, 2_070_000), (164, 1_379_900), TOKENIZER),
        limit("info", "warm", (1, 4_635), (1, 4_635)),
        limit("ls", "cold", (170, 2_070_000), (2, 32_025), ALL_SHARDS),
        limit("ls", "warm", (1, 4_635), (1, 4_635)),
        limit("cat FILE", "cold", (4, 550_400), (3, 32_048), PLACES),
        limit("cat FILE", "warm", (1, 4_635), (1, 4_635)),
        limit("cat TENSOR", "cold", (7, 1_631_700), (6, 1_609_227), HEADS),
        limit("cat TENSOR", "warm", (1, 4_635), (1, 4_635)),
        limit("mount", "cold", (170, 2_070_000), (164, 1_379_900), HEADS),
        limit("mount", "warm", (1, 4_635), (1, 4_635)),
        limit("refresh", "warm", (1, 4_635), (1, 4_635)),
        limit("refresh README", "warm", (2, 32_200), (2, 32_025)),
    ),
    "hf, 30 small shards": (
        limit("info", "cold", (70, 700_000), (64, 31_966), TOKENIZER),
        limit("info", "warm", (1, 2_085), (1, 2_085)),
        limit("ls", "cold", (66, 512_000), (2, 12_593), ALL_SHARDS),
        limit("ls", "warm", (1, 2_085), (1, 2_085)),
        limit("cat FILE", "cold", (4, 20_400), (3, 12_616), PLACES),
        limit("cat FILE", "warm", (1, 2_085), (1, 2_085)),
        limit("cat TENSOR", "cold", (7, 348_400), (6, 102_600), WHOLE),
        limit("cat TENSOR", "warm", (1, 2_085), (1, 2_085)),
        limit("mount", "cold", (66, 512_000), (64, 31_966), HEADS),
        limit("mount", "warm", (1, 2_085), (1, 2_085)),
        limit("refresh", "warm", (1, 2_085), (1, 2_085)),
        limit("refresh README", "warm", (2, 12_800), (2, 12_593)),
    ),
    "oci, tag": (
        limit("info", "cold", (10, 59_000), (7, 21_633), REFERRERS),
        limit("info", "warm", (1, 1_453), (1, 1_453)),
        limit("ls", "cold", (10, 59_000), (1, 1_453), ALL_SHARDS),
        limit("ls", "warm", (1, 1_453), (1, 1_453)),
        limit("cat FILE", "cold", (10, 59_000), (2, 1_476), ALL_SHARDS),
        limit("cat FILE", "warm", (1, 1_453), (1, 1_453)),
        limit("cat TENSOR", "cold", (11, 1_130_000), (4, 1_061_827), ALL_SHARDS),
        limit("cat TENSOR", "warm", (1, 1_453), (1, 1_453)),
        limit("mount", "cold", (10, 59_000), (7, 21_633), REFERRERS),
        limit("mount", "warm", (1, 1_453), (1, 1_453)),
        limit("refresh", "warm", (1, 1_453), (1, 1_453)),
    ),
    "oci, digest": (
        limit("info", "cold", (10, 59_000), (7, 21_633), REFERRERS),
        limit("info", "warm", (0, 0), (0, 0)),
        limit("ls", "cold", (10, 59_000), (1, 1_453), ALL_SHARDS),
        limit("ls", "warm", (0, 0), (0, 0)),
        limit("cat FILE", "cold", (10, 59_000), (2, 1_476), ALL_SHARDS),
        limit("cat FILE", "warm", (0, 0), (0, 0)),
        limit("cat TENSOR", "cold", (11, 1_130_000), (4, 1_061_827), ALL_SHARDS),
        limit("cat TENSOR", "warm", (0, 0), (0, 0)),
        limit("mount", "cold", (10, 59_000), (7, 21_633), REFERRERS),
        limit("mount", "warm", (0, 0), (0, 0)),
        limit("refresh", "warm", (0, 0), (0, 0)),
    ),
    "https, 6 shards": (
        limit("info", "cold", (7, 99_900), (7, 3_978), HEADS),
        limit("info", "warm", (7, 0), (7, 0)),
        limit("ls", "cold", (7, 99_900), (1, 1_566), ALL_SHARDS),
        limit("ls", "warm", (7, 0), (1, 0), TAGS),
        limit("cat FILE", "cold", (7, 99_900), (1, 1_566), ALL_SHARDS),
        limit("cat FILE", "warm", (7, 0), (1, 0), TAGS),
        limit("cat TENSOR", "cold", (3, 1_083_000), (3, 1_050_600), HEADS),
        limit("cat TENSOR", "warm", (7, 0), (2, 0), TAGS),
        limit("mount", "cold", (7, 99_900), (7, 3_978), HEADS),
        limit("mount", "warm", (7, 0), (7, 0)),
        limit("refresh", "warm", (1, 0), (1, 0)),
    ),
    "s3, 6 shards": (
        limit("info", "cold", (9, 102_100), (9, 6_109), HEADS),
        limit("info", "warm", (1, 2_108), (1, 2_108)),
        limit("ls", "cold", (9, 102_100), (1, 2_108), ALL_SHARDS),
        limit("ls", "warm", (1, 2_108), (1, 2_108)),
        limit("cat FILE", "cold", (3, 3_700), (2, 2_131), PLACES),
        limit("cat FILE", "warm", (1, 2_108), (1, 2_108)),
        limit("cat TENSOR", "cold", (5, 1_085_100), (4, 1_052_700), HEADS),
        limit("cat TENSOR", "warm", (1, 2_108), (1, 2_108)),
        limit("mount", "cold", (9, 102_100), (9, 6_109), HEADS),
        limit("mount", "warm", (1, 2_108), (1, 2_108)),
        limit("refresh", "warm", (1, 2_108), (1, 2_108)),
    ),
    "gs, 6 shards": (
        limit("info", "cold", (9, 102_300), (9, 6_311), HEADS),
        limit("info", "warm", (1, 2_310), (1, 2_310)),
        limit("ls", "cold", (9, 102_300), (1, 2_310), ALL_SHARDS),
        limit("ls", "warm", (1, 2_310), (1, 2_310)),
        limit("cat FILE", "cold", (3, 3_900), (2, 2_333), PLACES),
        limit("cat FILE", "warm", (1, 2_310), (1, 2_310)),
        limit("cat TENSOR", "cold", (5, 1_085_300), (4, 1_052_854), HEADS),
        limit("cat TENSOR", "warm", (1, 2_310), (1, 2_310)),
        limit("mount", "cold", (9, 102_300), (9, 6_311), HEADS),
        limit("mount", "warm", (1, 2_310), (1, 2_310)),
        limit("refresh", "warm", (1, 2_310), (1, 2_310)),
    ),
    "az, 6 shards": (
        limit("info", "cold", (9, 102_000), (9, 6_017), HEADS),
        limit("info", "warm", (1, 2_016), (1, 2_016)),
        limit("ls", "cold", (9, 102_000), (1, 2_016), ALL_SHARDS),
        limit("ls", "warm", (1, 2_016), (1, 2_016)),
        limit("cat FILE", "cold", (3, 3_700), (2, 2_039), PLACES),
        limit("cat FILE", "warm", (1, 2_016), (1, 2_016)),
        limit("cat TENSOR", "cold", (5, 1_085_000), (4, 1_052_560), HEADS),
        limit("cat TENSOR", "warm", (1, 2_016), (1, 2_016)),
        limit("mount", "cold", (9, 102_000), (9, 6_017), HEADS),
        limit("mount", "warm", (1, 2_016), (1, 2_016)),
        limit("refresh", "warm", (1, 2_016), (1, 2_016)),
    ),
}


def name_of_tensor(shard, number):
    return f"model.layers.{shard}.{number}.weight"


def sharded_model(shards, tensors, size):
    """{path: content} of a safetensors model. Its tensors have `size` zeros each, which take no memory here."""
    files, index = {}, {}
    for shard in range(shards):
        path = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        entries = {name_of_tensor(shard, i): {"dtype": "U8", "shape": [size], "data_offsets": [i * size, (i + 1) * size]}
                   for i in range(tensors)}
        header = json.dumps(entries).encode()
        files[path] = Sparse(struct.pack("<Q", len(header)) + header, 8 + len(header) + tensors * size)
        index.update(dict.fromkeys(entries, path))
    files[INDEX] = json.dumps({"metadata": {"total_size": shards * tensors * size}, "weight_map": index}).encode()
    files["config.json"] = b'{"model_type": "tiny"}\n'
    return files


class Model(NamedTuple):
    """A model on a double. `sent` returns the requests so far; `file` and `tensor` are paths in it, `data` the bytes of the tensor.
    `commit` makes a version with another README.md."""
    url: str
    sent: object
    file: str
    tensor: str
    data: bytes
    commit: object = None


class CountedTestCase(FetchTestCase):
    """Runs the commands of LIMITS for one source, each with an empty cache and again, and compares the counts with the limits."""

    def assert_limits(self, source, model):
        counted = self.counted(model)
        self.assertEqual(sorted(counted), sorted((each.command, each.state) for each in LIMITS[source]))
        lines, above = [], []
        for each in LIMITS[source]:
            found = counted[each.command, each.state]
            line = f"{source:19} {each.command:14} {each.state:4} {found}; at most {each.most}; minimum {each.least}"
            lines.append(line)
            if any(seen > most for seen, most in zip(found, each.most)):
                above.append(line)
        if PRINTS:
            print("\n".join(lines), file=sys.stderr)
        self.assertEqual(above, [], "\n" + "\n".join(lines))

    def counted(self, model):
        """{(command, state): Count}"""
        found = {}

        def so_far():
            sent = model.sent()
            return len(sent), sum(request.length for request in sent)

        def count(command, state, action):
            before = so_far()
            action()
            found[command, state] = Count(*(after - earlier for after, earlier in zip(so_far(), before)))
        for command, words in {"info": ("info", ), "ls": ("ls", ), "cat FILE": ("cat", model.file),
                               "cat TENSOR": ("cat", model.tensor)}.items():
            self.use_empty_cache()
            for state in ("cold", "warm"):
                count(command, state, lambda words=words: self.check(model, *words))
        self.use_empty_cache()
        points = {state: self.path(f"mnt-{state}") for state in ("cold", "warm")}
        for state, point in points.items():
            count("mount", state, lambda point=point: self.list_tensors(model, point))
        self.unmount(points["cold"])
        count("refresh", "warm", lambda: self.refresh(points["warm"]))
        if model.commit:
            model.commit()
            count("refresh README", "warm", lambda: self.refresh(points["warm"]))
        self.unmount(points["warm"])
        return found

    def use_empty_cache(self):
        os.environ["WEIGHTFS_CACHE"] = tempfile.mkdtemp(dir=self.tmp)

    def check(self, model, verb, *path):
        done = run(verb, model.url, *path, text=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        if path == (model.tensor, ):
            self.assertTrue(done.stdout == model.data, "other bytes")

    def list_tensors(self, model, point):
        self.mount(model.url, at=os.path.basename(point))
        self.assertIn(os.path.basename(model.tensor), os.listdir(os.path.join(point, "tensors")))

    def refresh(self, point):
        done = run("refresh", point)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class FromHub(CountedTestCase, HubTestCase):
    """The Hub redirects each file in LFS to its CDN, which takes two requests."""

    def publish_model(self, files, tensor, size):
        vocabulary = {f"word-{i}": i for i in range(10_000)}
        files = {
            **files, "README.md": b"---\nlicense: mit\n---\n", "generation_config.json": b"{}\n",
            "tokenizer_config.json": b'{"model_max_length": 4096}\n',
            "tokenizer.json": json.dumps({"version": "1.0", "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}).encode()
        }
        repository = self.hub.add("org/demo", files)
        return Model("hf://org/demo", self.hub.requests, "files/config.json", f"tensors/{tensor}", bytes(size),
                     lambda: repository.commit({**files, "README.md": b"another\n"}))

    # semantics 22.4
    def test_thirty_shards(self):
        self.assert_limits("hf, 30 shards", self.publish_model(sharded_model(30, 40, MIB), name_of_tensor(15, 20), MIB))

    def test_eighty_shards(self):
        self.assert_limits("hf, 80 shards", self.publish_model(sharded_model(80, 100, MIB), name_of_tensor(40, 50), MIB))

    def test_thirty_small_shards(self):
        files = {path: content[:] for path, content in sharded_model(30, 4, 80 * KIB).items()}
        self.assert_limits("hf, 30 small shards", self.publish_model(files, name_of_tensor(15, 2), 80 * KIB))


class FromRegistry(CountedTestCase):
    def artifact(self):
        """An artifact with three shards, and its large layers by digest."""
        artifact, large = artifacts.modelpack(), {}
        for path, content in sharded_model(3, 40, MIB).items():
            if isinstance(content, Sparse):
                digest = artifacts.digest(content.begin)  # not that of the zeros: no command reads all
                large[digest] = content
                artifact.fields["layers"].append({"mediaType": WEIGHT, "digest": digest, "size": len(content),
                                                  "annotations": {artifacts.FILEPATH: path}})
            else:
                artifact.add(CONFIG, content, path)
        return artifact, large

    def test_tag_and_digest(self):
        for source in ("oci, tag", "oci, digest"):
            with self.subTest(source):
                registry = RegistryServer(self)
                artifact, large = self.artifact()
                url = registry.push(artifact, "ai/tiny", "latest", large)
                if source == "oci, digest":
                    url = f"{url.rpartition(':')[0]}@{artifacts.digest(artifact.manifest())}"
                self.assert_limits(source, Model(url, registry.requests, "files/config.json",
                                                 f"tensors/{name_of_tensor(1, 20)}", bytes(MIB)))


class FromWebServer(CountedTestCase):
    """Requests by http, which are those by https."""

    def test_index_of_shards(self):
        web = Server(self)
        for path, content in sharded_model(6, 4, MIB).items():
            web.serve(f"model/{path}", correct(content[:]))
        self.assert_limits("https, 6 shards", Model(web.url(f"model/{INDEX}"), web.requests, f"files/{INDEX}",
                                                    f"tensors/{name_of_tensor(3, 2)}", bytes(MIB)))


class FromObjectStore(CountedTestCase, S3TestCase):
    def test_prefix_of_shards(self):
        self.login()
        for path, content in sharded_model(6, 4, MIB).items():
            self.store.put("models", f"tiny/{path}", content[:])
        self.assert_limits("s3, 6 shards", Model("s3://models/tiny/", self.store.requests, "files/config.json",
                                                 f"tensors/{name_of_tensor(3, 2)}", bytes(MIB)))


class FromGoogle(CountedTestCase, GsTestCase):
    def test_prefix_of_shards(self):
        self.store.public.add("models")
        for path, content in sharded_model(6, 4, MIB).items():
            # No command reads a whole shard, whose checksum would take the double long.
            hashes = ("crc32c=AAAAAA==", ) if isinstance(content, Sparse) else None
            self.store.put("models", f"tiny/{path}", content[:], hashes=hashes)
        self.assert_limits("gs, 6 shards", Model("gs://models/tiny/", self.store.requests, "files/config.json",
                                                 f"tensors/{name_of_tensor(3, 2)}", bytes(MIB)))


class FromAzure(CountedTestCase, AzureTestCase):
    def test_prefix_of_shards(self):
        self.login()
        for path, content in sharded_model(6, 4, MIB).items():
            url = self.store.put("models", f"tiny/{path}", content[:])
        self.assert_limits("az, 6 shards", Model(url.rpartition("/")[0] + "/", self.store.requests, "files/config.json",
                                                 f"tensors/{name_of_tensor(3, 2)}", bytes(MIB)))


class Limits(unittest.TestCase):
    def test_limits_above_the_minimum_have_a_reason(self):
        without = [(source, each) for source, limits in LIMITS.items() for each in limits if not each.is_near() and not each.reason]
        self.assertEqual(without, [])


if __name__ == "__main__":
    unittest.main()
