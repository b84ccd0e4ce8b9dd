"""Models on the Hugging Face Hub (hf://org/repo), mounted from a double of it: requests, bytes, tokens, verification."""
import base64
import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import unittest

from fetching import FetchTestCase
from mounting import LIMIT_S, WEIGHTFS, run, until
from test_archives import blobs_in, noise
from hub_server import Hub, git_id
import containers
import npm_packages
import stores
from scripted_server import Server
from tensors import Tensor

KIB = 1024
MIB = 1024 * KIB
TOKEN = "hf_secretOfTheTest"
NPM_CLIENT = "@huggingface/hub@2.17.5"

VARIABLES = ("HF_ENDPOINT", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_DISABLE_IMPLICIT_TOKEN",
             "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def tensors(count, size, seed=0):
    return [Tensor(f"layer.{i}", "uint8", (size,), noise(size, seed=seed + i + 1)) for i in range(count)]


class HubTestCase(FetchTestCase):
    def setUp(self):
        super().setUp()
        for name in VARIABLES:
            os.environ.pop(name, None)  # restored by the patch of the base class
        self.hub = Hub(self)
        os.environ["HF_ENDPOINT"] = self.hub.url

    def model(self, count=4, size=MIB):
        written = tensors(count, size)
        return stores.safetensors(self.path("."), written), written

    def gguf(self, count):
        return stores.gguf(self.path("."), [tensor._replace(dtype="int8") for tensor in tensors(count, 64)])

    def publish(self, id="org/demo", count=4, size=MIB, **files):
        """A repository with a model in LFS, and with small files; returns it and its tensors."""
        data, written = self.model(count, size)
        self.config = b'{"hidden_size": 4}\n'
        return self.hub.add(
            id, {
                "model.safetensors": data, "config.json": self.config, "README.md": b"---\nlicense: mit\n---\n",
                "sub/vocab.txt": noise(200 * KIB, seed=77), **files
            }, license="mit", base_model="org/base"), written

    def publish_sharded(self, shards=6, size=5 * MIB):
        parts = [[tensor._replace(name=f"shard.{number}.{i}") for i, tensor in enumerate(tensors(2, size, seed=10 * number))]
                 for number in range(shards)]
        os.makedirs(self.path("shards"))
        containers.write_safetensors_shards(self.path("shards"), parts)
        files = {}
        for name in os.listdir(self.path("shards")):
            files[name] = self.read("shards", name)
        return self.hub.add("org/sharded", {**files, "config.json": b"{}"}), [tensor for part in parts for tensor in part]

    def metadata(self, point):
        return json.loads(self.read_whole(point, "metadata.json"))

    def failure(self, *argv, status):
        """The message of a command that fails."""
        done = run(*argv)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr.strip()

    def assert_eio(self, *names):
        with self.assertRaises(OSError) as caught:
            self.read_whole(*names)
        self.assertEqual(caught.exception.errno, errno.EIO)

    def status(self, point):
        return self.read_whole(point, ".weightfs", "status.json").decode()


class Trees(HubTestCase):
    def test_repository_is_a_model_with_its_files(self):
        repository, written = self.publish()
        point = self.mount("hf://org/demo")
        self.assertEqual(sorted(os.listdir(os.path.join(point, "tensors"))), [tensor.name for tensor in written])
        for tensor in written:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)
        for path, file in repository.files().items():
            self.assertEqual(self.read_whole(point, "files", path), file.content)

    def test_metadata_has_the_commit_and_the_facts(self):
        repository, _ = self.publish()
        repository.gated = "auto"
        self.hub.tokens[TOKEN] = ["org/demo"]
        os.environ["HF_TOKEN"] = TOKEN
        commit = repository.revisions["main"]
        metadata = self.metadata(self.mount("hf://org/demo"))
        self.assertEqual(metadata["source"], f"hf://org/demo@{commit}")
        facts = {key: metadata.get(key) for key in ("repository", "commit", "license", "gated", "library", "base_model")}
        self.assertEqual(facts, {"repository": "org/demo", "commit": commit, "license": "mit", "gated": "auto",
                                 "library": "transformers", "base_model": "org/base"})

    # semantics 5.5
    def test_signature_is_described_without_reading_the_signed_files(self):
        data, _ = self.model()
        signature = stores.model_signature(
            {"model.safetensors": stores.sha256(data), "sub/vocab.txt": "0" * 64, "missing": "1" * 64})
        self.publish(**{"model.sig": signature})
        metadata = self.metadata(self.mount("hf://org/demo"))
        self.assertEqual(metadata["signature"], {"bundle": "application/vnd.dev.sigstore.bundle.v0.3+json",
                                                 "predicate": "https://model_signing/signature/v1.0",
                                                 "resources": 3, "equal": 1, "different": 0, "unknown": 2})
        self.assertEqual(len(self.hub.requests("hub", "model.sig")), 1)
        self.assertEqual(self.hub.requests("hub", "vocab.txt"), [])
        done = run("info", "hf://org/demo")
        self.assertRegex(done.stdout, r"\n  signature +of 3 files: 1 equal, 0 different, 2 unknown; not verified\n")

    # semantics 5.5
    def test_signature_that_differs_or_cannot_be_read_is_a_warning(self):
        repository, written = self.publish(**{"model.sig": stores.model_signature({"model.safetensors": "0" * 64})})
        point = self.mount("hf://org/demo")
        self.assertEqual(self.read_whole(point, "warnings.txt").decode(),
                         'model.sig: states another SHA-256 of "model.safetensors" than its source\n')
        self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)
        self.unmount(point)
        repository.files()["model.sig"].sent = b"wrong"
        point = self.mount("--no-cache", "hf://org/demo", at="second")
        self.assertIn("model.sig: not read: ", self.read_whole(point, "warnings.txt").decode())
        self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)

    def test_times_are_those_of_the_last_change(self):
        self.publish()
        self.assertEqual(os.stat(os.path.join(self.mount("hf://org/demo"), "files", "config.json")).st_mtime, 1714979289)

    def test_path_of_a_file_is_one_model(self):
        _, written = self.publish(**{"quantized/q4.gguf": self.gguf(2),
                                     "quantized/q8.gguf": self.gguf(3)})
        point = self.mount("hf://org/demo/quantized/q8.gguf")
        self.assertEqual(len(os.listdir(os.path.join(point, "tensors"))), 3)
        self.assertTrue(self.metadata(point)["source"].endswith("/quantized/q8.gguf"))
        self.assertEqual(os.listdir(os.path.join(point, "files")), ["q8.gguf"])

    def test_path_of_a_directory_is_a_directory_of_models(self):
        self.publish(**{"quantized/q4.gguf": self.gguf(2),
                        "quantized/q8.gguf": self.gguf(3)})
        point = self.mount("hf://org/demo/quantized")
        self.assertEqual(sorted(os.listdir(point)), ["q4.gguf", "q8.gguf"])

    def test_repository_without_a_model_shows_its_files_with_all(self):
        files = {"a.txt": b"text", "data/b.json": b"{}"}
        self.hub.add("org/table", files, kind="datasets")
        point = self.mount("--all", "hf://datasets/org/table")
        for path, content in files.items():
            self.assertEqual(self.read_whole(point, path), content)

    def test_revision_is_a_branch_a_tag_a_commit_or_a_pull_request(self):
        repository, _ = self.publish()
        main = repository.revisions["main"]
        for revision in ("v1.0", "refs/pr/3", "feature/x"):
            repository.commit({"m.gguf": self.gguf(1), "which": revision.encode()}, revision)
        for name, revision in (("v1.0", "v1.0"), ("refs/pr/3", "refs/pr/3"), ("feature%2Fx", "feature/x")):
            with self.subTest(name):
                done = run("cat", f"hf://org/demo@{name}", "files/which")
                self.assertEqual((done.stdout, done.stderr), (revision, ""))
        self.assertEqual(run("cat", f"hf://org/demo@{main}", "files/config.json").stdout.encode(), self.config)

    def test_renamed_repository_is_found(self):
        repository, _ = self.publish()
        self.hub.renamed["old/name"] = "org/demo"
        metadata = self.metadata(self.mount("hf://old/name"))
        self.assertEqual(metadata["source"], f"hf://org/demo@{repository.revisions['main']}")

    # The second command knows the commit from the first one, so its first request is for the file.
    def test_renamed_repository_is_found_at_a_commit_again(self):
        repository, written = self.publish()
        self.hub.renamed["old/name"] = "org/demo"
        name = f"hf://old/name@{repository.revisions['main']}"
        self.assertEqual(run("cat", name, "files/config.json").stdout.encode(), self.config)
        done = subprocess.run([WEIGHTFS, "cat", name, "tensors/layer.3"], capture_output=True, timeout=LIMIT_S)
        self.assertEqual((done.stderr, done.stdout == written[3].data), (b"", True))

    def test_server_in_the_name(self):
        self.publish()
        os.environ["HF_ENDPOINT"] = "http://127.0.0.1:1"
        for server in (self.hub.url, self.hub.url.removeprefix("http://")):
            done = run("cat", f"hf://{server}/org/demo", "files/config.json")
            self.assertEqual((done.stdout.encode(), done.stderr), (self.config, ""))

    def test_mounted_tree_is_of_one_commit(self):
        repository, written = self.publish()
        point = self.mount("hf://org/demo")
        data, new = self.model(count=2)
        repository.commit({"model.safetensors": data, "config.json": b"new"})
        self.assertEqual(self.read_whole(point, "tensors", "layer.3"), written[3].data)
        self.assertEqual(self.read_whole(point, "files", "config.json"), self.config)
        again = self.mount("hf://org/demo", at="again")
        self.assertEqual(self.read_whole(again, "files", "config.json"), b"new")


class Commands(HubTestCase):
    def test_info_ls_cat_verify_and_fetch(self):
        repository, written = self.publish()
        commit = repository.revisions["main"]
        self.assertIn(f"repository   org/demo at {commit[:12]}\n", run("info", "hf://org/demo").stdout)
        self.assertRegex(run("info", "--metadata", "hf://org/demo").stdout, rf"\n  commit +{commit}\n")
        self.assertIn("layer.2", run("ls", "hf://org/demo", "tensors").stdout.split())
        done = subprocess.run([WEIGHTFS, "cat", "hf://org/demo", "tensors/layer.2"], capture_output=True, timeout=LIMIT_S)
        self.assertEqual((done.stdout, done.stderr), (written[2].data, b""))
        self.assertEqual(run("verify", "hf://org/demo").returncode, 0)
        done = run("fetch", "hf://org/demo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.hub.forget()
        self.assertEqual(run("cat", "--offline", "hf://org/demo", "files/config.json").stdout.encode(), self.config)
        self.assertEqual(self.hub.requests(), [])

    def test_verify_compares_the_digests_of_the_list(self):
        repository, _ = self.publish(size=4 * MIB)
        self.assertEqual(run("verify", "hf://org/demo").stdout, "hf://org/demo: WHOLE: 4 files match their checksums\n")
        file = repository.files()["model.safetensors"]
        file.sent = file.content[:-1] + bytes([file.content[-1] ^ 1])
        done = run("verify", "--no-cache", "hf://org/demo")
        self.assertEqual(done.returncode, 7, done.stderr)

    # semantics 16.4
    def test_ranges_are_pinned_by_name_and_stay_pinned_as_a_blob(self):
        repository, _ = self.publish(size=4 * MIB)
        digest = hashlib.sha256(repository.files()["model.safetensors"].content).hexdigest()
        done = run("fetch", "hf://org/demo", "tensors/layer.2")
        self.assertRegex(done.stdout.splitlines()[-1], r"^1 file, 4\.0 MiB: 0 B cached before, 4\.\d MiB downloaded, 0 B verified$")
        ranges, = json.loads(run("cache", "ls", "--json", "hf://org/demo").stdout)
        self.assertEqual((ranges["state"], ranges["names"][0], len(ranges["names"])), ("ranges", "hf://org/demo", 2))
        self.assertEqual(run("cache", "pin", "hf://org/demo").stdout, f"{ranges['names'][1]}: pinned\n")
        self.assertEqual(run("cache", "gc", "--size", "0").returncode, 0)
        whole = run("fetch", "hf://org/demo", "files/model.safetensors")
        self.assertRegex(whole.stdout.splitlines()[-1],
                         r"^1 file, 16\.0 MiB: 4\.\d MiB cached before, 1[12]\.\d MiB downloaded, 16\.0 MiB verified$")
        blob, = json.loads(run("cache", "ls", "--json", "hf://org/demo").stdout)
        self.assertEqual((blob["digest"], blob["state"], blob["pinned"], blob["names"]),
                         (f"sha256:{digest}", "complete", True, ranges["names"]))

    def test_block_list_of_a_file(self):
        repository, _ = self.publish()
        done = run("verify", "--tree", self.path("list"), "hf://org/demo/model.safetensors")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        local = self.write("local.safetensors", repository.files()["model.safetensors"].content)
        self.assertEqual(run("verify", "--tree", self.path("expected"), local).returncode, 0)
        self.assertEqual(self.read("list"), self.read("expected"))

    def test_block_list_of_a_cached_file_is_that_of_its_bytes(self):
        repository, _ = self.publish()
        content = repository.files()["model.safetensors"].content
        self.assertEqual(run("fetch", "hf://org/demo").returncode, 0)
        self.assertEqual(run("verify", "--tree", self.path("list"), "hf://org/demo/model.safetensors").returncode, 0)
        local = self.write("local.safetensors", content)
        self.assertEqual(run("verify", "--tree", self.path("expected"), local).returncode, 0)
        self.assertEqual(self.read("list"), self.read("expected"))

    def test_mounts_and_status_have_the_name(self):
        self.publish()
        point = self.mount("hf://org/demo")
        self.assertIn('"source": "hf://org/demo"', self.status(point))
        self.assertIn("hf://org/demo", run("mounts").stdout)

    def test_fstab_names_a_repository(self):
        _, written = self.publish()
        os.symlink(WEIGHTFS, self.path("mount.weightfs"))
        os.mkdir(self.path("mnt"))
        self.addCleanup(self.force_unmount, self.path("mnt"))
        done = subprocess.run([self.path("mount.weightfs"), "hf://org/demo", self.path("mnt"), "-o", "rw,_netdev,cache_size=1G"],
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.read_whole(self.path("mnt"), "tensors", "layer.1"), written[1].data)

    def test_config_of_a_service_names_a_repository(self):
        config = self.write("demo.conf", f"SOURCE=hf://org/demo@v1\nMOUNTPOINT={self.path('mnt')}\n".encode())
        done = run("service", "show", config)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("hf://org/demo@v1", done.stdout)


class Documentation(HubTestCase):
    def test_transcripts_of_docs_remote_are_right(self):
        self.publish(size=4 * MIB)
        self.assert_section_is_right("Hugging Face Hub", 8)


class Bytes(HubTestCase):
    def data_requests(self):
        return [each for each in self.hub.requests("cdn") if each.status in (200, 206)]

    # semantics 12.3, 22.4: also of files up to 8 MiB, which are verified before their first tensor is read.
    def test_listing_a_sharded_model_transfers_the_headers(self):
        for size in (5 * MIB, MIB):
            with self.subTest(size=size):
                shutil.rmtree(self.cache(), ignore_errors=True)
                shutil.rmtree(self.path("shards"), ignore_errors=True)
                repository, written = self.publish_sharded(size=size)
                self.hub.forget()
                done = run("ls", "-R", "hf://org/sharded")
                self.assertEqual(done.stdout.count("shard.5.1\n"), 1)
                shards = [path for path in repository.files() if path.endswith(".safetensors")]
                headers = sum(8 + int.from_bytes(repository.files()[path].content[:8], "little") for path in shards)
                self.assertEqual(len(self.hub.requests("hub", "/api/")), 2)
                self.assertLessEqual(self.hub.bytes("cdn"), 1.1 * headers + 32 * KIB * len(shards))
                self.assertLessEqual(len(self.data_requests()), 2 * len(shards))

    def test_small_shard_is_downloaded_whole_by_the_first_read(self):
        _, written = self.publish_sharded(size=MIB)
        point = self.mount("hf://org/sharded")
        self.hub.forget()
        self.assertEqual(self.read_whole(point, "tensors", "shard.3.1"), written[7].data)
        self.assertGreater(self.hub.bytes("cdn"), 1.9 * MIB)
        self.hub.forget()
        self.assertEqual(self.read_whole(point, "tensors", "shard.3.0"), written[6].data)
        self.assertEqual(self.hub.requests(), [])

    def test_headers_of_small_shards_are_read_offline(self):
        self.publish_sharded(size=MIB)
        online = run("info", "hf://org/sharded")
        self.assertEqual(online.returncode, 0, online.stderr)
        self.hub.forget()
        again = run("info", "hf://org/sharded")
        self.assertEqual((again.stdout, len(self.hub.requests())), (online.stdout, 1))
        offline = run("info", "--offline", "hf://org/sharded")
        self.assertEqual((offline.returncode, offline.stdout), (0, online.stdout), offline.stderr)
        self.assertIn("not cached, and downloads are disabled by --offline",
                      self.failure("cat", "--offline", "hf://org/sharded", "tensors/shard.3.1", status=8))
        self.assertEqual(len(self.hub.requests()), 1)

    def test_reading_a_tensor_transfers_at_most_two_percent_more(self):
        _, written = self.publish(count=4, size=4 * MIB)
        point = self.mount("hf://org/demo")
        self.hub.forget()
        self.assertEqual(self.read_whole(point, "tensors", "layer.2"), written[2].data)
        self.assertLessEqual(self.hub.bytes(), 1.02 * 4 * MIB + 128 * KIB)

    def test_files_are_not_requested_before_they_are_read(self):
        self.publish()
        point = self.mount("hf://org/demo")
        os.listdir(os.path.join(point, "files"))
        self.assertEqual(self.hub.requests("hub", "config.json"), [])
        for _ in range(3):
            self.read_whole(point, "files", "config.json")
        self.assertEqual(len(self.hub.requests("hub", "config.json")), 1)

    def test_list_is_read_in_pages(self):
        files = {f"many/{i:03}.txt": b"%d" % i for i in range(25)}
        self.publish(**files)
        self.hub.page_size = 4
        for host in (None, "https://huggingface.co"):
            with self.subTest(host=host):
                self.hub.public_host = host
                self.hub.forget()
                done = run("ls", "--no-cache", "hf://org/demo", "files/many")
                self.assertEqual(done.stdout.split(), [os.path.basename(path) for path in files])
                self.assertEqual(len(self.hub.requests("hub", "/tree/")), 8)

    def test_second_mount_requests_the_revision_only(self):
        _, written = self.publish(size=4 * MIB)
        self.read_whole(self.mount("hf://org/demo", at="one"), "tensors", "layer.1")
        self.hub.forget()
        self.assertEqual(self.read_whole(self.mount("hf://org/demo", at="two"), "tensors", "layer.1"), written[1].data)
        self.assertEqual(len(self.hub.requests()), 1)

    # semantics 22.6: info needs one word of it.
    def test_summary_reads_the_head_of_a_large_tokenizer(self):
        tokenizer = b'{"version": "1.0", "model": {"type": "WordPiece", "vocab": {' + b" " * (3 * MIB) + b"}}}"
        repository, _ = self.publish(**{"tokenizer.json": tokenizer})
        online = run("info", "hf://org/demo")
        self.assertIn("WordPiece", online.stdout)
        self.assertEqual(self.hub.bytes("hub", "tokenizer.json"), 256 * KIB)
        self.hub.forget()
        self.assertEqual((run("info", "hf://org/demo").stdout, len(self.hub.requests())), (online.stdout, 1))
        self.assertEqual(run("info", "--offline", "hf://org/demo").stdout, online.stdout)
        done = run("cat", "hf://org/demo", "files/tokenizer.json", text=False)
        self.assertEqual((done.returncode, done.stdout == tokenizer), (0, True), done.stderr)
        self.hub.forget()
        run("cache", "rm", "--all")
        repository.files()["tokenizer.json"].sent = tokenizer[:-1] + b"?"
        self.assertEqual(run("cat", "hf://org/demo", "files/tokenizer.json").returncode, 7)

    def test_summary_after_fetch_requests_no_head(self):
        self.publish(**{"tokenizer.json": b'{"model": {"type": "WordPiece", "vocab": {' + b" " * MIB + b"}}}"})
        self.assertEqual(run("fetch", "hf://org/demo").returncode, 0)
        self.hub.forget()
        self.assertIn("WordPiece", run("info", "hf://org/demo").stdout)
        self.assertEqual(len(self.hub.requests()), 1)

    # Digests name what the shards have.
    def test_warm_shards_cost_one_request(self):
        repository, written = self.publish_sharded(size=9 * MIB)
        commands = (("info", ), ("ls", ), ("cat", "files/config.json"), ("cat", f"tensors/{written[-1].name}"))
        for words in commands:
            run(words[0], "hf://org/sharded", *words[1:], text=False)
        for words in commands:
            with self.subTest(words):
                self.hub.forget()
                done = run(words[0], "hf://org/sharded", *words[1:], text=False)
                self.assertEqual((done.returncode, len(self.hub.requests())), (0, 1), done.stderr)
        self.hub.forget()
        self.assertEqual(run("info", f"hf://org/sharded@{repository.revisions['main']}").returncode, 0)
        self.assertEqual(self.hub.requests(), [])

    def cold(self, *argv):
        """Runs a command with an empty cache; also returns the names of the shards that it asked for."""
        shutil.rmtree(self.cache(), ignore_errors=True)
        self.hub.forget()
        done = run(*argv, text=False)
        shards = {each.target.partition("?")[0].rpartition("/")[2] for each in self.hub.requests("hub", ".safetensors")}
        return done, {name for name in shards if name.endswith(".safetensors")}

    # semantics 21.10
    def test_path_of_a_file_or_a_tensor_opens_no_other_shard(self):
        repository, written = self.publish_sharded()
        for words, shards, requests, found in (
                (("ls", "files"), [], 4, "\n".join([*sorted(repository.files()), ""]).encode()),
                (("cat", "files/config.json"), [], 5, b"{}"),
                (("cat", f"tensors/{written[-1].name}"), ["model-00006-of-00006.safetensors"], 10, written[-1].data)):
            with self.subTest(words):
                done, opened = self.cold(words[0], "hf://org/sharded", words[1])
                self.assertEqual((done.returncode, done.stderr, done.stdout == found), (0, b"", True))
                self.assertEqual(sorted(opened), shards)
                self.assertLessEqual(len(self.hub.requests()), requests)

    def test_path_that_does_not_exist_is_looked_for_in_all_shards(self):
        self.publish_sharded()
        for path in ("tensors/shard.3.9", "files/none"):
            with self.subTest(path):
                done, opened = self.cold("cat", "hf://org/sharded", path)
                self.assertEqual((done.returncode, done.stdout, len(opened)), (3, b"", 6), done.stderr)
                self.assertIn(f"weightfs: hf://org/sharded: {path}: does not exist".encode(), done.stderr)

    def test_tensor_that_the_index_names_wrongly_is_found(self):
        repository, written = self.publish_sharded()
        files = {path: file.content for path, file in repository.files().items()}
        index = json.loads(files["model.safetensors.index.json"])
        index["weight_map"][written[-1].name] = "model-00001-of-00006.safetensors"
        repository.commit({**files, "model.safetensors.index.json": json.dumps(index).encode()})
        done, opened = self.cold("cat", "hf://org/sharded", f"tensors/{written[-1].name}")
        self.assertEqual((done.returncode, done.stdout == written[-1].data, len(opened)), (0, True, 6), done.stderr)

    def test_list_of_files_misses_a_shard(self):
        repository, _ = self.publish_sharded()
        shard = "model-00004-of-00006.safetensors"
        repository.commit({path: file.content for path, file in repository.files().items() if path != shard})
        done, _ = self.cold("ls", "hf://org/sharded", "files")
        self.assertEqual((done.returncode, done.stdout), (3, b""), done.stderr)
        self.assertIn(shard.encode(), done.stderr)

    def test_second_mount_of_a_commit_requests_nothing(self):
        repository, written = self.publish()
        name = f"hf://org/demo@{repository.revisions['main']}"
        self.read_whole(self.mount(name, at="one"), "tensors", "layer.1")
        self.hub.forget()
        self.assertEqual(self.read_whole(self.mount(name, at="two"), "tensors", "layer.1"), written[1].data)
        self.assertEqual(self.hub.requests(), [])

    def test_file_of_another_program_is_used_in_place(self):
        repository, written = self.publish()
        cache = self.path("home", ".cache", "huggingface", "hub")
        stores.put_in_hub_cache(cache, "org/demo", "model.safetensors", repository.files()["model.safetensors"].content)
        self.assertEqual(self.read_whole(self.mount("hf://org/demo"), "tensors", "layer.3"), written[3].data)
        self.assertEqual(self.hub.requests("cdn"), [])


class Offline(HubTestCase):
    def test_remount_reads_what_was_read_without_requests(self):
        _, written = self.publish(size=4 * MIB)
        point = self.mount("hf://org/demo", at="one")
        self.read_whole(point, "tensors", "layer.1")
        self.read_whole(point, "files", "config.json")
        self.read_whole(point, "files", "sub", "vocab.txt")
        self.unmount(point)
        self.hub.forget()
        for at, options, variable in (("two", ["--offline"], "0"), ("three", [], "1")):
            with self.subTest(at):
                os.environ["HF_HUB_OFFLINE"] = variable
                point = self.mount(*options, "hf://org/demo", at=at)
                self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)
                self.assertEqual(self.read_whole(point, "files", "config.json"), self.config)
                self.assertEqual(self.read_whole(point, "files", "sub", "vocab.txt"), noise(200 * KIB, seed=77))
                for absent in (("tensors", "layer.3"), ("files", "README.md")):
                    with self.assertRaises(OSError) as caught:
                        self.read_whole(point, *absent)
                    self.assertEqual(caught.exception.errno, errno.EHOSTUNREACH)
        self.assertEqual(self.hub.requests(), [])

    def test_long_list_is_saved(self):
        self.hub.page_size = 8_000
        folder = "/".join(["many", *["d" * 240] * 3])
        names = [f"{folder}/{i:06}-{'n' * 200}.txt" for i in range(20_000)]
        self.publish(**dict.fromkeys(names, b""))
        done = run("cat", "hf://org/demo", "files/config.json")
        self.assertEqual((done.stdout.encode(), done.stderr[:1000]), (self.config, ""))
        saved = [os.path.getsize(path) for path in blobs_in(self.cache())]
        self.assertGreater(max(saved), 16 * MIB)
        self.hub.forget()
        done = run("ls", "--offline", "hf://org/demo", "files/" + folder)
        self.assertEqual((done.returncode, done.stdout.split()), (0, [os.path.basename(name) for name in names]),
                         done.stderr[:1000])
        self.assertEqual(self.hub.requests(), [])

    def test_unknown_revision_is_not_cached(self):
        self.publish()
        self.assertIn("not cached; retry without --offline", self.failure("ls", "--offline", "hf://org/demo", status=8))

    def test_server_that_is_down_suggests_offline(self):
        self.publish()
        run("ls", "hf://org/demo")
        self.hub.stop()
        self.assertIn("use --offline for the saved files", self.failure("ls", "hf://org/demo", status=8))


class LocalCache(HubTestCase):
    """semantics 22.9: with --offline, a snapshot in the cache of huggingface_hub is mounted."""

    def setUp(self):
        super().setUp()
        self.repository, self.written = self.publish(count=4, size=4 * MIB)
        self.commit = self.repository.revisions["main"]
        self.hub.forget()

    def cached(self, *left_out, folder=("home", ".cache", "huggingface", "hub"), **options):
        """Caches the files of the repository, without those that are left out; returns the snapshot."""
        files = {path: file for path, file in self.repository.files().items() if path not in left_out}
        return stores.put_snapshot_in_hub_cache(self.path(*folder), files, commit=self.commit, **options)

    def mounted(self, source="hf://org/demo", at="mnt"):
        point = self.path(at)
        done = run("mount", "--offline", source, point)
        self.addCleanup(self.force_unmount, point)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.hub.requests(), [])
        return point

    def blob_of(self, snapshot, path):
        return os.path.realpath(os.path.join(snapshot, path))

    def test_snapshot_is_mounted_without_requests(self):
        self.cached()
        point = self.mounted()
        for tensor in self.written:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)
        for path, file in self.repository.files().items():
            self.assertEqual(self.read_whole(point, "files", path), file.content)
        metadata = self.metadata(point)
        self.assertEqual((metadata["source"], metadata["commit"]), (f"hf://org/demo@{self.commit}", self.commit))

    def test_missing_files_are_not_listed_with_a_warning(self):
        snapshot = self.cached("sub/vocab.txt", "README.md")
        point = self.mounted()
        self.assertEqual(sorted(os.listdir(os.path.join(point, "files"))), ["config.json", "model.safetensors"])
        self.assertEqual(self.read_whole(point, "warnings.txt").decode(),
                         f"{snapshot}: files that this cache of huggingface_hub lacks are not listed\n")

    def test_revision_is_a_ref_or_a_commit(self):
        self.cached(revision="refs/pr/3")
        for revision in ("refs/pr/3", self.commit):
            with self.subTest(revision):
                done = run("cat", "--offline", f"hf://org/demo@{revision}", "files/config.json")
                self.assertEqual((done.returncode, done.stdout.encode()), (0, self.config), done.stderr)
        self.assertIn("not cached; retry without --offline", self.failure("ls", "--offline", "hf://org/demo", status=8))
        self.assertIn("not cached; retry without --offline", self.failure("ls", "--offline", f"hf://org/demo@{'0' * 40}", status=8))

    def test_place_of_the_cache_and_kinds(self):
        for number, (variable, value, folder) in enumerate(
            (("XDG_CACHE_HOME", "xdg", ("xdg", "huggingface", "hub")), ("HF_HOME", "hf", ("hf", "hub")), ("HF_HUB_CACHE", "other",
                                                                                                          ("other", )))):
            with self.subTest(variable):
                os.environ[variable] = self.path(value)  # restored by the patch of the base class
                self.cached(folder=folder, id=f"org/in{number}", kind="datasets")
                self.assertIn("layer.2", run("ls", "--offline", f"hf://datasets/org/in{number}", "tensors").stdout.split())

    def test_server_in_the_name_has_no_snapshot(self):
        self.cached()
        self.failure("ls", "--offline", f"hf://{self.hub.url}/org/demo", status=8)

    def test_saved_list_is_used_with_the_files_of_the_snapshot(self):
        self.assertEqual(run("ls", "hf://org/demo").returncode, 0)
        self.cached("README.md")
        self.hub.forget()
        point = self.mounted()
        self.assertIn("README.md", os.listdir(os.path.join(point, "files")))
        self.assertEqual(self.read_whole(point, "tensors", "layer.3"), self.written[3].data)
        self.assertEqual(self.read_whole(point, "files", "config.json"), self.config)

    def test_online_file_in_git_is_not_requested(self):
        self.cached()
        for path in ("config.json", "sub/vocab.txt"):
            done = subprocess.run([WEIGHTFS, "cat", "hf://org/demo", f"files/{path}"], capture_output=True, timeout=LIMIT_S)
            self.assertEqual((done.stdout, done.stderr), (self.repository.files()[path].content, b""))
        self.assertEqual(self.hub.requests("hub", "/resolve/"), [])

    def test_unreachable_server_suggests_offline(self):
        self.cached()
        self.hub.stop()
        self.assertIn("use --offline for the saved files", self.failure("ls", "hf://org/demo", status=8))

    def test_changed_file_is_not_served(self):
        snapshot = self.cached()

        def change(path):
            blob = self.blob_of(snapshot, path)
            content = self.read(blob)
            with open(blob, "wb") as file:
                file.write(content[:-1] + bytes([content[-1] ^ 1]))
        change("config.json")
        change("sub/vocab.txt")
        point = self.mounted()
        self.assert_eio(point, "files", "config.json")
        self.assert_eio(point, "files", "sub", "vocab.txt")
        self.unmount(point)
        change("model.safetensors")
        done = run("ls", "--offline", "hf://org/demo", "tensors")
        self.assertEqual((done.returncode, done.stdout), (7, ""))
        self.assertIn("digest mismatch", done.stderr)
        # Online the right bytes are requested.
        self.assertEqual(run("cat", "hf://org/demo", "files/config.json").stdout.encode(), self.config)

    def test_hostile_links_are_not_followed(self):
        snapshot = self.cached()
        blobs = os.path.join(os.path.dirname(snapshot), "..", "blobs")
        secret = self.write("secret", b"secret")
        inside = os.path.basename(self.blob_of(snapshot, "config.json"))
        links = {
            "absolute": secret, "up": "../../../../../../../secret", "absolute-blob": os.path.realpath(os.path.join(blobs, inside)),
            "other-depth": f"../../../x/../blobs/{inside}", "ref": "../../refs/main", "missing": "../../blobs/" + "a" * 40,
            "below": f"../../blobs/{inside}/..", "name": "../../blobs/plain", "directory": "sub"
        }
        for name, target in links.items():
            os.symlink(target, os.path.join(snapshot, name))
        os.symlink(secret, os.path.join(blobs, "b" * 40))
        os.symlink("../../blobs/" + "b" * 40, os.path.join(snapshot, "outward"))
        os.mkfifo(os.path.join(blobs, "c" * 40))
        os.symlink("../../blobs/" + "c" * 40, os.path.join(snapshot, "pipe"))
        self.write(os.path.join(snapshot, "copy"), b"copy")
        point = self.mounted()
        self.assertEqual(sorted(os.listdir(os.path.join(point, "files"))),
                         sorted({path.split("/")[0] for path in self.repository.files()}))
        warnings = self.read_whole(point, "warnings.txt").decode()
        for name in (*links, "outward", "pipe", "copy"):
            self.assertEqual(warnings.count(f'"{name}"'), 1, warnings)
        self.assertNotIn("secret", warnings)

    def test_empty_snapshot_is_not_mounted(self):
        os.makedirs(self.cached(*self.repository.files()))
        self.assertIn("file list not cached", self.failure("ls", "--offline", "hf://org/demo", status=8))


class Verification(HubTestCase):
    def test_wrong_git_file_is_not_served(self):
        repository, _ = self.publish()
        for path, size in (("config.json", 1), ("sub/vocab.txt", 200)):
            file = repository.files()[path]
            for sent in (file.content[:-1] + b"?", file.content[:-1], b"", file.content + b"x"):
                with self.subTest(path=path, size=len(sent)):
                    file.sent = sent
                    point = self.mount("hf://org/demo", at=f"mnt-{size}-{len(sent)}")
                    self.assert_eio(point, "files", path)
                    self.unmount(point)
            file.sent = file.content
            point = self.mount("hf://org/demo", at=f"right-{size}")
            self.assertEqual(self.read_whole(point, "files", path), file.content)

    def test_message_has_both_ids(self):
        repository, _ = self.publish()
        file = repository.files()["config.json"]
        file.sent = b'{"hidden_size": 5}\n'
        message = self.failure("cat", "hf://org/demo", "files/config.json", status=7)
        self.assertIn(f"the server sends 19 bytes with the Git object id {git_id(file.sent)}, and lists 19 bytes with {file.oid}",
                      message)

    def test_wrong_small_lfs_file_is_not_served(self):
        repository, _ = self.publish(count=4, size=MIB)
        file = repository.files()["model.safetensors"]
        file.sent = file.content[:-1] + bytes([file.content[-1] ^ 1])
        done = run("ls", "hf://org/demo", "tensors")
        self.assertEqual((done.returncode, done.stdout), (7, ""), done.stderr)

    # semantics 12.3
    def test_wrong_small_shard_is_not_served(self):
        repository, written = self.publish_sharded(size=MIB)
        file = repository.files()["model-00004-of-00006.safetensors"]
        file.sent = file.content[:-1] + bytes([file.content[-1] ^ 1])
        self.assertEqual(run("ls", "hf://org/sharded", "tensors").returncode, 0)
        done = run("cat", "hf://org/sharded", "tensors/shard.3.0", text=False)
        self.assertEqual((done.returncode, done.stdout), (7, b""), done.stderr)
        file.sent = file.content
        self.assert_tensor_is_right("shard.3.0", written[6])

    # semantics 12.3
    def test_wrong_header_of_a_small_shard_is_found_by_the_first_read(self):
        repository, written = self.publish_sharded(size=MIB)
        file = repository.files()["model-00004-of-00006.safetensors"]
        file.sent = file.content.replace(b'"U8"', b'"T8"', 1)
        self.assertEqual(run("ls", "hf://org/sharded", "tensors").returncode, 0)
        file.sent = file.content
        done = run("cat", "hf://org/sharded", "tensors/shard.3.0", text=False)
        self.assertEqual((done.returncode, done.stdout), (7, b""), done.stderr)
        self.assertIn(b"metadata read before verification does not match the verified file", done.stderr)
        self.assert_tensor_is_right("shard.3.0", written[6])

    def assert_tensor_is_right(self, name, tensor):
        done = run("cat", "hf://org/sharded", f"tensors/{name}", text=False)
        self.assertEqual((done.returncode, done.stdout == tensor.data), (0, True), done.stderr)

    def test_shard_with_a_damaged_header_is_compared(self):
        repository, _ = self.publish_sharded(size=MIB)
        file = repository.files()["model-00004-of-00006.safetensors"]
        file.sent = b"\xff" * 8 + file.content[8:]
        done = run("info", "hf://org/sharded")
        self.assertEqual((done.returncode, done.stdout), (7, ""), done.stderr)
        file.sent = file.content
        self.assertEqual(run("info", "hf://org/sharded").returncode, 0)

    def test_wrong_large_lfs_file_is_dropped_when_it_is_complete(self):
        repository, written = self.publish(count=4, size=4 * MIB)
        file = repository.files()["model.safetensors"]
        file.sent = file.content[:-1] + bytes([file.content[-1] ^ 1])
        point = self.mount("hf://org/demo")
        for tensor in written:
            try:
                self.read_whole(point, "tensors", tensor.name)
            except OSError:
                pass  # the last one may already be refused
        until(lambda: '"mismatch"' in self.status(point), "it is not verified")
        self.assert_eio(point, "files", "model.safetensors")
        done = run("fetch", "hf://org/demo")
        self.assertEqual(done.returncode, 7, done.stderr)


class Tokens(HubTestCase):
    def setUp(self):
        super().setUp()
        self.repository, self.written = self.publish(size=4 * MIB)
        self.repository.gated = "manual"
        self.hub.tokens = {TOKEN: ["org/demo"], "hf_other": []}

    def assert_used(self, source="hf://org/demo"):
        done = run("cat", source, "files/config.json")
        self.assertEqual((done.returncode, done.stdout.encode()), (0, self.config), done.stderr)

    # semantics 22.3
    def test_token_goes_to_the_endpoint_only(self):
        os.environ["HF_TOKEN"] = TOKEN
        point = self.mount("hf://org/demo")
        self.read_whole(point, "tensors", "layer.1")
        self.read_whole(point, "files", "config.json")
        self.assertEqual({each.authorization for each in self.hub.requests("hub")}, {f"Bearer {TOKEN}"})
        self.assertEqual({each.authorization for each in self.hub.requests("cdn")}, {""})

    def test_token_is_not_shown(self):
        os.environ["HF_TOKEN"] = TOKEN
        process, point = self.foreground("--log-level", "debug", "hf://org/demo")
        shown = []
        for folder, _, names in os.walk(point):
            shown += [self.read_whole(folder, name) for name in names if name.endswith((".json", ".toml", "warnings.txt"))]
        shown += [self.status(point).encode(), self.read_whole(point, ".weightfs", "metrics")]
        for pid in {process.pid, self.server(point)}:
            shown.append(self.read_whole("/proc", str(pid), "cmdline"))
        self.repository.files()["sub/vocab.txt"].sent = b""
        self.assert_eio(point, "files", "sub", "vocab.txt")
        shown += [line.encode() for line in self.end(process)]
        self.hub.tokens = {}
        for command in (("info", "hf://org/demo@x"), ("cat", "hf://org/demo", "files/config.json"), ("ls", "hf://org/demo/x")):
            done = run(*command)
            shown.append((done.stdout + done.stderr).encode())
        for folder, _, names in os.walk(self.cache()):
            paths = [os.path.join(folder, name) for name in names]
            shown += [os.readlink(path).encode() if os.path.islink(path) else self.read_whole(path) for path in paths]
        self.assertGreater(len(shown), 10)
        for text in shown:
            self.assertNotIn(TOKEN.encode(), text)

    def test_sources_of_the_token(self):
        self.write("home/.cache/huggingface/token", f"{TOKEN}\n".encode())
        self.assert_used()
        os.environ["HF_TOKEN_PATH"] = self.write("elsewhere", TOKEN.encode())
        os.remove(self.path("home/.cache/huggingface/token"))
        self.assert_used()
        os.environ["HUGGING_FACE_HUB_TOKEN"] = "hf_other"
        shutil.rmtree(self.cache())  # a command sends no request for what is cached
        self.assertRegex(self.failure("ls", "hf://org/demo", status=4), "restricted|gated")
        os.environ["HF_TOKEN"] = TOKEN
        self.assert_used()
        os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"
        shutil.rmtree(self.cache())
        self.hub.forget()
        self.assertRegex(self.failure("ls", "hf://org/demo", status=4), "restricted|gated")
        self.assertEqual({each.authorization for each in self.hub.requests()}, {""})

    def test_server_that_only_the_name_has_gets_no_token(self):
        os.environ["HF_TOKEN"] = TOKEN
        os.environ["HF_ENDPOINT"] = "https://hub.invalid"
        self.hub.forget()
        self.failure("ls", f"hf://{self.hub.url}/org/demo", status=4)
        self.assertEqual({each.authorization for each in self.hub.requests()}, {""})


class Errors(HubTestCase):
    def test_messages(self):
        self.publish()
        self.hub.tokens = {TOKEN: ["org/other"]}
        closed = self.hub.add("org/gated", {"config.json": b"{}", "model.gguf": b""})
        closed.gated = "auto"
        self.hub.add("org/off", {}).is_disabled = True
        login = "log in with `hf auth login` or set HF_TOKEN"
        for name, status, message in (
                ("org/none", 3, f"hf://org/none@main: no such repository, or it is private (without a token; {login})"),
                ("org/demo@none", 3, 'hf://org/demo@none: no such revision: "none"'),
                ("org/gated", 4, f"hf://org/gated@main: gated: request access at {self.hub.url}/org/gated, then {login}"),
                ("org/off", 4, "hf://org/off@main: status 403, Access to this resource is disabled."),
                ("dataset/org/demo", 4, 'hf://dataset/org/demo: datasets/ expected instead of dataset/'),
                ("gpt2", 4, 'hf://gpt2: names no repository; ORG/REPO expected'),
                ("org/demo@", 4, 'hf://org/demo@: a revision is expected after the @')):
            with self.subTest(name):
                self.assertEqual(self.failure("ls", f"hf://{name}", status=status), f"weightfs: {message}")
        self.assertEqual(self.failure("ls", "hf://org/demo/none", status=3),
                         "weightfs: hf://org/demo/none: no such file or directory")
        os.environ["HF_TOKEN"] = TOKEN
        self.assertEqual(self.failure("ls", "hf://org/gated", status=4),
                         f"weightfs: hf://org/gated@main: gated: request access at {self.hub.url}/org/gated")
        os.environ["HF_TOKEN"] = "hf_expired"
        self.assertEqual(
            self.failure("ls", "hf://org/demo", status=4), "weightfs: hf://org/demo@main: access denied (with the token of "
            "$HF_TOKEN); run `hf auth login`: status 401, Invalid username or password.")

    # docs/status.md
    def test_status_names_the_source_of_the_token(self):
        self.publish()
        self.hub.tokens = {TOKEN: ["org/demo"]}
        point = self.mount("hf://org/demo", at="anonymous")
        self.assertEqual(json.loads(self.read_whole(point, ".weightfs", "status.json"))["keys"], {})
        os.environ["HF_TOKEN"] = TOKEN
        for sandbox in ("on", "off"):
            with self.subTest(sandbox):
                point = self.mount(f"--sandbox={sandbox}", "hf://org/demo", at=f"token-{sandbox}")
                text = self.read_whole(point, ".weightfs", "status.json").decode()
                self.assertEqual({name: key["from"] for name, key in json.loads(text)["keys"].items()},
                                 {self.hub.url: "$HF_TOKEN"})
                self.assertNotIn(TOKEN, text)

    def test_unmount_does_not_wait_for_a_file_that_does_not_arrive(self):
        self.publish()
        point = self.mount("hf://org/demo")
        self.hub.delay.clear()
        reader = threading.Thread(target=self.read_or_fail, args=(point, "files", "config.json"))
        reader.start()
        until(lambda: self.hub.requests("hub", "config.json"), "it is not requested")
        before = time.monotonic()
        os.kill(self.server(point), signal.SIGTERM)
        reader.join()
        self.assertLess(time.monotonic() - before, 5)
        self.hub.delay.set()

    def read_or_fail(self, *names):
        try:
            self.read_whole(*names)
        except OSError:
            pass

    def test_access_that_is_revoked_is_in_the_message(self):
        repository, _ = self.publish()
        self.hub.tokens = {TOKEN: ["org/demo"]}
        repository.gated = "auto"
        os.environ["HF_TOKEN"] = TOKEN
        run("ls", "hf://org/demo", "files")
        self.hub.tokens[TOKEN] = []
        message = self.failure("cat", "hf://org/demo", "files/config.json", status=4)
        self.assertIn("gated: request access at", message)

    # semantics 22.8
    def test_gated_repository_is_known_by_its_hidden_digests(self):
        self.publish()[0].gated = "auto"
        self.hub.add("org/weights", {"model.safetensors": self.model()[0]}).gated = "auto"
        for name in ("org/demo", "org/weights"):
            for self.hub.lists_gated in (True, False):
                message = self.failure("info", f"hf://{name}", status=4)
                self.assertIn(f"hf://{name}@main: gated: request access at {self.hub.url}/{name}, then log in", message)
        self.hub.lists_gated = True
        self.hub.tokens = {TOKEN: ["org/demo"]}
        os.environ["HF_TOKEN"] = TOKEN
        self.assertEqual(run("ls", "hf://org/demo").returncode, 0)  # the list without digests is not saved
        self.assertIn(f"gated: request access at {self.hub.url}/org/weights\n",
                      self.failure("ls", "hf://org/weights", status=4) + "\n")

    # semantics 22.8
    def test_pending_request_is_in_the_message(self):
        self.publish()[0].gated = "manual"
        self.hub.tokens, self.hub.pending = {TOKEN: []}, {TOKEN: ["org/demo"]}
        os.environ["HF_TOKEN"] = TOKEN
        self.assertEqual(
            self.failure("ls", "hf://org/demo", status=4), "weightfs: hf://org/demo@main: gated: Your request to access model "
            "org/demo is awaiting a review from the repo authors.")

    # semantics 22.8
    def test_missing_repository_with_a_token(self):
        self.hub.tokens = {TOKEN: []}
        os.environ["HF_TOKEN"] = TOKEN
        self.assertEqual(self.failure("ls", "hf://org/none", status=3),
                         "weightfs: hf://org/none@main: no such repository, or it is private "
                         "(with the token of $HF_TOKEN)")

    def test_rate_limit_is_waited_for_or_reported(self):
        self.publish()
        self.hub.too_many = 1
        before = time.monotonic()
        self.assertEqual(run("ls", "hf://org/demo").returncode, 0)
        self.assertGreaterEqual(time.monotonic() - before, 1)
        self.hub.too_many, self.hub.wait = 1, 200
        self.assertIn("status 429, rate limited, retry after 200 s", self.failure("ls", "hf://org/demo", status=8))

    def test_refusal_of_the_cdn_resolves_the_file_again(self):
        _, written = self.publish(size=4 * MIB)
        point = self.mount("hf://org/demo")
        self.hub.forget()
        self.hub.cdn_refusals = 1
        self.assertEqual(self.read_whole(point, "tensors", "layer.2"), written[2].data)
        self.assertEqual(len(self.hub.requests("hub", "/resolve/")), 1)

    def test_expired_url_is_resolved_again(self):
        _, written = self.publish(size=4 * MIB)
        point = self.mount("hf://org/demo")
        self.hub.ahead = self.hub.lifetime + 1
        self.assertEqual(self.read_whole(point, "tensors", "layer.2"), written[2].data)


class HostileLists(HubTestCase):
    def entry(self, path, content=b"x"):
        return {"type": "file", "path": path, "oid": git_id(content), "size": len(content)}

    def test_names_stay_below_the_mount(self):
        repository, _ = self.publish()
        names = [
            "../up", "a/../../up", "/etc/passwd", "a//b", ".", "line\nbreak", "es\x1bcape", "ok/file", "ok", "nul\0", "same", "same"
        ]
        repository.entries = repository.tree(repository.revisions["main"]) + [self.entry(name) for name in names]
        point = self.mount("--log-level", "error", "hf://org/demo")
        listed = os.listdir(os.path.join(point, "files"))
        self.assertEqual(sorted(listed), sorted(["README.md", "config.json", "es%1Bcape", "line%0Abreak", "model.safetensors", "ok",
                                                 "same", "same-2", "sub"]))
        self.assertIn("ok/file: no such file", self.failure("ls", "hf://org/demo/ok/file", status=3))
        self.assertIn('"../up"', self.read_whole(point, "warnings.txt").decode())

    def test_endless_pages_end(self):
        self.publish()
        self.hub.next_link = lambda path: self.hub.url + path
        self.assertIn("the pages of the file list repeat", self.failure("ls", "hf://org/demo", status=5))
        self.assertEqual(len(self.hub.requests("hub", "/tree/")), 1)
        self.hub.page_size = 1
        a, b = (f"/api/models/org/demo/tree/main?recursive=true&cursor={i}" for i in (1, 2))
        self.hub.next_link = lambda path: self.hub.url + (b if path == a else a)
        self.assertIn("the pages of the file list repeat", self.failure("ls", "hf://org/demo", status=5))

    # docs/design/limits.md
    def test_list_has_a_limited_number_of_pages(self):
        self.publish()
        self.hub.page_size = 0
        self.hub.next_link = lambda path: f"{self.hub.url}/api/models/org/demo/tree/main?recursive=true&n={len(self.hub.requests('hub', '/tree/'))}"
        self.assertIn("the file list has more than 1000 pages", self.failure("ls", "hf://org/demo", status=4))
        self.assertEqual(len(self.hub.requests("hub", "/tree/")), 1000)

    def test_page_on_another_server_is_not_requested(self):
        self.publish()
        foreign = Hub(self)
        os.environ["HF_TOKEN"] = TOKEN
        self.hub.tokens = {TOKEN: []}
        self.hub.next_link = lambda path: None if "cursor" in path else f"{foreign.url}{path}&cursor=1"
        self.assertEqual(run("ls", "hf://org/demo").returncode, 0)
        self.assertEqual(foreign.requests(), [])
        self.assertEqual(len(self.hub.requests("hub", "/tree/")), 2)

    def test_huge_page_is_refused(self):
        repository, _ = self.publish()
        repository.entries = [self.entry("x" * (17 << 20))]
        self.assertIn("response larger than 16", self.failure("ls", "hf://org/demo", status=5))

    def test_sizes_that_are_not_sent_cost_nothing(self):
        repository, _ = self.publish()
        large = {"type": "file", "path": "large.safetensors", "oid": "0" * 40, "size": 1, "lfs": {"oid": "0" * 64, "size": 1 << 49}}
        git = {"type": "file", "path": "large.gguf", "oid": "0" * 40, "size": 1 << 40}
        repository.entries = [large, git]
        point = self.mount("--log-level", "error", "hf://org/demo")
        self.assertEqual(sorted(os.listdir(point)), ["large.gguf", "large.safetensors"])
        with self.assertRaises(OSError):
            os.listdir(os.path.join(point, "large.safetensors"))
        self.assertIn("a file of 1.0 TiB in Git; at most 64.0 MiB are supported",
                      self.failure("ls", "hf://org/demo/large.gguf", status=4))

    def test_answers_that_are_not_of_the_hub_are_refused(self):
        repository, _ = self.publish()
        for entries in ({}, [5], [{"type": "file"}], [{"type": "file", "path": "x", "oid": "?", "size": 1}],
                        [{"type": "file", "path": "x", "oid": "0" * 40, "size": -1}]):
            with self.subTest(entries):
                repository.entries = entries if isinstance(entries, list) else [entries]
                self.failure("ls", "hf://org/demo", status=5)

    # semantics 14.6

    def test_web_page_instead_of_an_answer_is_named(self):
        page = Server(self, lambda request: (200, {"Content-Type": "text/html"}, b"<!DOCTYPE html><title>Sign in</title>"))
        os.environ["HF_ENDPOINT"] = page.origin
        self.assertIn("the server sent a web page (text/html)", self.failure("ls", "hf://org/demo", status=4))


class OtherClient(HubTestCase):
    """The Hub's own client for JavaScript accepts the double, so the double is like the Hub."""

    SCRIPT = """
import { listFiles, downloadFile } from "@huggingface/hub";
const hubUrl = process.env.HF_ENDPOINT, repo = "org/demo", out = { files: [], texts: {} };
for await (const file of listFiles({ repo, hubUrl, recursive: true })) out.files.push([file.type, file.path, file.size]);
for (const path of ["config.json", "m.gguf"]) {
  const blob = await downloadFile({ repo, path, hubUrl, xet: false });
  out.texts[path] = Buffer.from(await blob.arrayBuffer()).toString("base64");
}
console.log(JSON.stringify(out));
"""

    def test_client_lists_and_downloads(self):
        folder = npm_packages.folder_with(NPM_CLIENT)
        if folder is None:
            self.skipTest("no npm package")
        files = {"config.json": b'{"a": 1}', "m.gguf": noise(300 * KIB), "sub/a.txt": b"a", "sub/b.txt": b"b", "z.txt": b""}
        self.hub.add("org/demo", files)
        self.hub.page_size = 2
        done = npm_packages.run_module(folder, self.SCRIPT, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        out = json.loads(done.stdout)
        listed = {path: size for kind, path, size in out["files"] if kind == "file"}
        self.assertEqual(listed, {path: len(content) for path, content in files.items()})
        for path, text in out["texts"].items():
            self.assertEqual(base64.b64decode(text), files[path])


if __name__ == "__main__":
    unittest.main()
