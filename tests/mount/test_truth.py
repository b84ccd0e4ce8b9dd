"""Success means complete: the defects that broke this promise, each as it was found. See docs/semantics.md, Completeness, and the
table of all commands, damages and sources in tests/truth."""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from fetching import FetchTestCase
from hub_server import Hub
from mounting import WEIGHTFS, run, sample_tensors
from servers import needs
from tensors import Tensor
from test_archives import noise
from test_urls import KIB, MIB, UrlTestCase
import containers
import stores

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "truth"))
import damage  # noqa: E402


class Incomplete(FetchTestCase):
    """A model that lacks something."""

    def cut_model(self, name="m.gguf"):
        missing = 32 if name.endswith("gguf") else 1  # GGUF ends with padding
        source = self.sample(name, format="gguf") if name.endswith("gguf") else self.sample(name)
        os.truncate(source, os.path.getsize(source) - missing)
        return source

    def test_commands_tell_what_is_missing_and_why(self):
        for name in ("m.gguf", "m.safetensors"):
            source = self.cut_model(name)
            short = "5 bytes" if name == "m.gguf" else "1 byte"
            sentence = f"the file ends {short} early: 1 of 5 tensors refused; interrupted download?"
            for argv in (["info", source], ["ls", source], ["stats", source], ["verify", source],
                         ["export", source, self.path("out.npz")]):
                with self.subTest(f"{name} {argv[0]}"):
                    done = run(*argv)
                    self.assertEqual(done.returncode, 5, done)
                    self.assertIn(sentence, done.stderr)
            self.assertFalse(os.path.exists(self.path("out.npz")))
            self.assertIn(f"DAMAGED: {sentence}\n".replace("; interrupted", ";\ninterrupted"), run("info", source).stdout)

    def test_mount_shows_what_there_is(self):
        source = self.cut_model()
        point = self.mount(source, lacks="the file ends 5 bytes early: 1 of 5 tensors refused")
        with open(os.path.join(point, "metadata.json")) as file:
            self.assertIn("the file ends 5 bytes early: 1 of 5 tensors refused", json.load(file)["incomplete"])
        with open(os.path.join(point, ".weightfs", "status.json")) as file:
            self.assertIn("the file ends 5 bytes early: 1 of 5 tensors refused", json.load(file)["incomplete"])
        self.assertTrue(self.read_whole(point, "warnings.txt").startswith(b"the file ends 5 bytes early: 1 of 5 tensors refused"))

    def test_complete_model_can_be_required(self):
        source = self.cut_model()
        done = run("mount", "--require-complete", source, self.path("mnt"))
        self.assertEqual((done.returncode, os.path.ismount(self.path("mnt"))), (5, False), done)
        self.assertIn("m.gguf: the file ends", done.stderr)
        self.assertIn("1 of 5 tensors refused", done.stderr)
        served = run("serve", "--listen", f"unix:{self.path('socket')}", "--require-complete", source)
        self.assertEqual(served.returncode, 5, served)
        self.assertIn("m.gguf: the file ends", served.stderr)
        shutil.copy(self.sample("whole.gguf", format="gguf"), self.path("again.gguf"))
        self.mount("--require-complete", self.path("again.gguf"))

    def test_export_writes_nothing_or_all_and_names_the_remedy(self):
        source = self.cut_model()
        done = run("export", source, self.path("m.safetensors"))
        self.assertEqual((done.returncode, os.path.exists(self.path("m.safetensors"))), (5, False), done)
        self.assertIn("--skip-unsupported", done.stderr)
        done = run("export", "--skip-unsupported", source, self.path("m.safetensors"))
        self.assertEqual((done.returncode, os.path.exists(self.path("m.safetensors"))), (5, True), done)
        self.assertIn("left out: ", done.stderr)

    def test_missing_shard_of_a_directory(self):
        os.mkdir(self.path("model"))
        containers.write_safetensors_shards(self.path("model"), [sample_tensors()[:2], sample_tensors()[2:]])
        shard = sorted(name for name in os.listdir(self.path("model")) if name.endswith(".safetensors"))[1]
        os.remove(self.path("model", shard))
        for argv in (["info"], ["verify"], ["stats"]):
            done = run(*argv, self.path("model"))
            self.assertEqual(done.returncode, 5, done)
            self.assertIn(f"1 of 2 shards is missing: {shard}", done.stderr)


@needs("nginx")
class Shards(UrlTestCase):
    """Three shards of 1 MiB on a server."""

    def publish(self):
        url, written = self.publish_sharded("sharded", 3, 512 * KIB)
        return url, written

    def test_too_small_cache_is_named(self):
        url, _ = self.publish()
        done = run("fetch", "--cache-size", "1M", url)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("--cache-size", done.stderr)
        self.assertLess(self.web.count("GET"), 200)

    def test_read_of_a_mount_does_not_wait_for_space_without_end(self):
        url, written = self.publish()
        point = self.mount("--cache-size", "1M", url)
        for tensor in written:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)

    def test_missing_shard_fails_the_mount_with_the_words_of_the_server(self):
        url, _ = self.publish()
        shard = sorted(name for name in os.listdir(os.path.join(self.web.content, "sharded")) if name.endswith(".safetensors"))[1]
        os.remove(os.path.join(self.web.content, "sharded", shard))
        for argv in (["mount", url, self.path("mnt")], ["info", url], ["fetch", url]):
            done = run(*argv)
            self.assertEqual(done.returncode, 3, done)
            self.assertIn(f"{shard}: 404 Not Found", done.stderr)


@needs("nginx")
class InterruptedFetches(UrlTestCase):
    def test_fetch_that_was_killed_is_completed(self):
        url, _ = self.publish_safetensors(count=3, size=8 * MIB)
        content = self.content_of("model.safetensors")
        for attempt in range(12):
            process = subprocess.Popen([WEIGHTFS, "fetch", url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.002 * (attempt + 1) ** 2)  # a moment of the kill, whichever
            process.send_signal(signal.SIGKILL if attempt % 2 else signal.SIGINT)
            process.wait()
        done = run("fetch", url)
        self.assertEqual(done.returncode, 0, done)
        before = self.web.count("GET")
        whole = subprocess.run([WEIGHTFS, "cat", "--offline", url, "files/model.safetensors"], capture_output=True)
        self.assertEqual((whole.returncode, whole.stdout == content), (0, True), whole.stderr)
        self.assertEqual(self.web.count("GET"), before)


class WrongBytes(FetchTestCase):
    """A large file on the Hub with one wrong byte."""

    def setUp(self):
        super().setUp()
        self.hub = Hub(self)
        self.data = stores.safetensors(self.path("."), [Tensor("w", "uint8", (9 * MIB,), noise(9 * MIB))])
        self.repository = self.hub.add("org/demo", {"model.safetensors": self.data, "config.json": b"{}"})
        self.proxy = damage.FaultyProxy(self, self.hub.cdn_url)
        self.hub.cdn_url = self.proxy.url
        os.environ["HF_ENDPOINT"] = self.hub.url

    def flip(self, at):
        self.proxy.break_with(damage.Damage("flip", "model", at), hashlib.sha256(self.data).hexdigest())

    def test_nothing_wrong_is_delivered_with_success_or_kept(self):
        for argv in (["cat", "hf://org/demo",
                      "files/model.safetensors"], ["export", "--force", "hf://org/demo",
                                                   self.path("out.npz")], ["verify", "hf://org/demo"], ["stats", "hf://org/demo"],
                     ["fetch", "hf://org/demo"]):
            with self.subTest(argv[0]):
                self.flip(len(self.data) - 1000)
                self.assertEqual(subprocess.run([WEIGHTFS, *argv], capture_output=True).returncode, 7)
                self.assertFalse(os.path.exists(self.path("out.npz")))
                self.proxy.heal()
                done = subprocess.run([WEIGHTFS, "cat", "hf://org/demo", "files/model.safetensors"], capture_output=True)
                self.assertEqual((done.returncode, done.stdout == self.data), (0, True), done.stderr)
                shutil.rmtree(self.cache(), ignore_errors=True)

    def test_header_that_cannot_be_parsed_is_not_kept(self):
        self.flip(0)
        self.assertNotEqual(run("info", "hf://org/demo").returncode, 0)
        self.proxy.heal()
        self.assertEqual(run("info", "hf://org/demo").returncode, 0)

    # semantics 22.6
    def test_commit_that_changes_only_the_readme_downloads_nothing_again(self):
        self.assertEqual(run("fetch", "hf://org/demo", "tensors/w").returncode, 0)
        before = self.proxy.sent
        self.repository.commit({"README.md": b"# New\n", "model.safetensors": self.data, "config.json": b"{}"})
        done = subprocess.run([WEIGHTFS, "cat", "hf://org/demo", "tensors/w"], capture_output=True)
        self.assertEqual((done.returncode, done.stdout == self.data[-9 * MIB:]), (0, True), done.stderr)
        self.assertLess(self.proxy.sent - before, MIB)
