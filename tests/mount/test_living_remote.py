"""Names of models on servers that move while they are mounted: semantics 28.5."""
import json
import os
import signal

from fetching import FetchTestCase
from mounting import run, sample_tensors, until
from servers import Nginx, Registry, needs
from test_archives import noise
from test_hub import HubTestCase
from test_s3 import S3TestCase
import artifacts
from artifacts import modelpack
import stores
from tensors import Tensor

MIB = 1 << 20
WEIGHT = "application/vnd.cncf.model.weight.v1.raw"


def status(mnt):
    with open(os.path.join(mnt, ".weightfs", "status.json")) as file:
        return json.load(file)


class RefreshMixin:
    def refreshed(self, mnt, code=0):
        done = run("refresh", mnt)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr == "", code == 0, done.stderr)
        return done.stdout + done.stderr

    def layer(self, mnt, i=0):
        return self.read_whole(mnt, "tensors", f"layer.{i}")


class MovedBranch(RefreshMixin, HubTestCase):
    def commit(self, repository, count, seed, revision="main"):
        written = [Tensor(f"layer.{i}", "uint8", (MIB,), noise(MIB, seed=seed + i)) for i in range(count)]
        files = dict(repository.files())
        data = stores.safetensors(self.path("."), written)
        return repository.commit({**{path: file.content for path, file in files.items()}, "model.safetensors": data},
                                 revision), written

    def test_moved_branch_is_shown_after_a_refresh(self):
        repository, before = self.publish()
        mnt = self.mount("hf://org/demo")
        self.assertEqual(self.layer(mnt), before[0].data)
        self.assertIn("nothing has changed", self.refreshed(mnt))
        commit, after = self.commit(repository, 5, seed=50)
        self.assertEqual(self.layer(mnt), before[0].data)
        self.assertRegex(self.refreshed(mnt), "was [0-9a-f]{40}, is " + str(commit))
        self.assertEqual((self.layer(mnt), self.layer(mnt, 4)), (after[0].data, after[4].data))
        found = status(mnt)["refresh"]
        self.assertEqual((found["mounted"], found["available"]), (str(commit), str(commit)))
        self.assertTrue(json.loads(self.read_whole(mnt, "metadata.json"))["source"].endswith("@" + str(commit)))

    def test_commit_without_another_shard_costs_two_requests(self):
        repository, written = self.publish_sharded(size=9 * MIB)
        mnt = self.mount("hf://org/sharded")
        repository.commit({**{path: file.content for path, file in repository.files().items()}, "README.md": b"another\n"})
        self.hub.forget()
        self.refreshed(mnt)
        self.assertEqual(len(self.hub.requests()), 2, self.hub.requests())
        self.assertEqual(self.read_whole(mnt, "tensors", written[0].name), written[0].data)
        self.unmount(mnt)
        offline = self.mount("--offline", "hf://org/sharded", at="offline")
        self.assertEqual(self.read_whole(offline, "tensors", written[0].name), written[0].data)

    def test_files_of_both_versions_are_not_downloaded_again(self):
        repository, before = self.publish()
        mnt = self.mount("hf://org/demo")
        for i in range(4):
            self.layer(mnt, i)
        self.read_whole(mnt, "files", "sub", "vocab.txt")
        files = {path: file.content for path, file in repository.files().items()}
        repository.commit({**files, "README.md": b"another\n"})
        self.hub.forget()
        self.refreshed(mnt)
        for i in range(4):
            self.assertEqual(self.layer(mnt, i), before[i].data)
        self.read_whole(mnt, "files", "sub", "vocab.txt")
        self.assertLess(self.hub.bytes(), 100_000)  # the listing, and small files
        self.assertEqual(self.read_whole(mnt, "files", "README.md"), b"another\n")

    def test_deleted_branch_leaves_the_mount_as_it_is(self):
        repository, before = self.publish()
        mnt = self.mount("hf://org/demo@main")
        del repository.revisions["main"]
        self.assertIn("main", self.refreshed(mnt, code=3))
        self.assertEqual(self.layer(mnt, 3), before[3].data)

    def test_network_that_is_down_leaves_the_mount_as_it_is(self):
        _, before = self.publish()
        mnt = self.mount("hf://org/demo")
        self.assertEqual(self.layer(mnt), before[0].data)
        self.hub.stop()
        self.assertIn("org/demo", self.refreshed(mnt, code=8))
        self.assertEqual(self.layer(mnt), before[0].data)
        self.assertEqual(status(mnt)["refresh"]["exit_status"], 8)

    def test_version_that_cannot_be_read_leaves_the_mount_as_it_is(self):
        repository, before = self.publish()
        mnt = self.mount("hf://org/demo")
        self.layer(mnt)
        commit = repository.commit({"model.safetensors": b"\xff" * 100})
        self.refreshed(mnt, code=4)
        self.assertEqual(self.layer(mnt), before[0].data)
        found = status(mnt)["refresh"]
        self.assertEqual(found["available"], str(commit))
        self.assertNotEqual(found["mounted"], found["available"])
        os.kill(self.server(mnt), signal.SIGUSR1)
        line = f"the source is {str(commit)[:12]} now, mounted is {found['mounted'][:12]}"
        until(lambda: line in self.read_whole(mnt, ".weightfs", "log").decode(), "no line in the log")

    def test_one_of_several_sources_is_replaced(self):
        repository, before = self.publish()
        other, _ = self.publish("org/other")
        mnt = self.mount("hf://org/demo", "hf://org/other")
        self.assertEqual(self.read_whole(mnt, "demo", "tensors", "layer.0"), before[0].data)
        inode = os.stat(os.path.join(mnt, "other", "tensors", "layer.0")).st_ino
        _, after = self.commit(repository, 4, seed=50)
        self.assertIn("1 entry changed", self.refreshed(mnt))
        self.assertEqual(self.read_whole(mnt, "demo", "tensors", "layer.0"), after[0].data)
        self.assertEqual(os.stat(os.path.join(mnt, "other", "tensors", "layer.0")).st_ino, inode)


@needs("docker-registry")
class MovedTag(RefreshMixin, FetchTestCase):
    def push(self, registry, name):
        artifact = modelpack()
        artifact.add(WEIGHT, stores.gguf(self.tmp, sample_tensors(), {"general.architecture": "llama", "general.name": name}),
                     "model.gguf")
        return artifact, artifact.push(registry, "ai/tiny", "latest")

    def name(self, mnt):
        return json.loads(self.read_whole(mnt, "metadata.json"))["name"]

    def test_moved_tag_is_shown_and_a_deleted_one_leaves_the_mount(self):
        registry = Registry(self)
        _, source = self.push(registry, "One")
        mnt = self.mount(source)
        self.assertEqual(self.name(mnt), "One")
        artifact, _ = self.push(registry, "Two")
        self.refreshed(mnt)
        self.assertEqual(self.name(mnt), "Two")
        self.assertEqual(status(mnt)["refresh"]["mounted"], artifacts.digest(artifact.manifest()).removeprefix("sha256:"))
        self.assertIn("nothing has changed", self.refreshed(mnt))
        status_code, _, body = registry.send_request("DELETE", f"/v2/ai/tiny/manifests/{artifacts.digest(artifact.manifest())}",
                                                     b"", registry.headers)
        self.assertEqual(status_code, 202, body)
        self.assertIn("ai/tiny", self.refreshed(mnt, code=3))
        self.assertEqual(self.name(mnt), "Two")
        self.assertEqual(self.read_whole(mnt, "tensors", "bias"), sample_tensors()[1].data)


class MovedObjects(RefreshMixin, S3TestCase):
    def test_replaced_object(self):
        self.login()
        url, before = self.put_model()
        mnt = self.mount(url)
        self.assertEqual(self.layer(mnt), before[0].data)
        written = [tensor._replace(data=noise(MIB, seed=90 + i)) for i, tensor in enumerate(before)]
        self.store.put("models", "tiny/model.safetensors", stores.safetensors(self.path("."), written))
        self.refreshed(mnt)
        self.assertEqual(self.layer(mnt), written[0].data)

    def test_added_object_below_a_prefix(self):
        self.login()
        for name in ("a", "b"):
            self.put_model(f"all/{name}.safetensors", count=1, size=1000)
        mnt = self.mount("s3://models/all/")
        self.assertEqual(sorted(os.listdir(mnt)), ["a.safetensors", "b.safetensors"])
        self.put_model("all/c.safetensors", count=1, size=1000)
        self.refreshed(mnt)
        self.assertEqual(sorted(os.listdir(mnt)), ["a.safetensors", "b.safetensors", "c.safetensors"])


class ChangedUrl(RefreshMixin, FetchTestCase):
    def test_file_with_another_etag(self):
        web = Nginx(self)

        def publish(seed):
            written = [Tensor("layer.0", "uint8", (MIB,), noise(MIB, seed=seed))]
            return web.publish("model.safetensors", stores.safetensors(self.path("."), written)), written
        url, before = publish(1)
        os.utime(os.path.join(web.content, "model.safetensors"), (1, 1))
        mnt = self.mount("--allow-private-urls", url)
        self.assertEqual(self.layer(mnt), before[0].data)
        self.assertIn("nothing has changed", self.refreshed(mnt))
        _, after = publish(2)
        self.refreshed(mnt)
        self.assertEqual(self.layer(mnt), after[0].data)


if __name__ == "__main__":
    import unittest
    unittest.main()
