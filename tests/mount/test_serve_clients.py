"""Unmodified clients of the Hub, of registries and of URLs read models from `weightfs serve`. semantics 29.12"""
import base64
import gzip
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import unittest

from http_serving import HttpServer
from mounting import LIMIT_S, Tensor, TestCase, until
from servers import Registry, needs
import artifacts
from containerd import Containerd
import npm_packages
import stores

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}  # names of processors in images
HUB_CLIENT, GGUF_CLIENT = "@huggingface/hub@2.17.5", "@huggingface/gguf@0.4.6"
LARGE = 11 << 20  # more than the Hub stores in Git: the digest of the file is computed when a client asks for it


class Clients(TestCase):
    """A repository of the disk with weights, small files and a directory, and a GGUF."""

    def setUp(self):
        super().setUp()
        noise = random.Random(1)
        os.makedirs(self.path("models/tiny/sub"))
        tensors = [Tensor("model.embed_tokens.weight", "bfloat16", (512, LARGE // 1024), noise.randbytes(LARGE))]
        self.files = {"config.json": b'{"model_type": "llama"}', "sub/notes.txt": b"notes",
                      "model.safetensors": stores.safetensors(self.path("models/tiny"), tensors)}
        for name, content in self.files.items():
            self.write(f"models/tiny/{name}", content)
        os.mkdir(self.path("models/small"))
        vectors = [Tensor("token_embd.weight", "float32", (64, 32), noise.randbytes(8192))]
        self.gguf = stores.gguf(self.path("models/small"), vectors)
        self.write("models/small/small.gguf", self.gguf)
        self.server = HttpServer(self.path("models"), folder=self.tmp)
        self.addCleanup(self.server.close)

    def run_client(self, argv, **environment):
        """What it prints. It sees no settings of the user."""
        home = {"HOME": self.path("home"), "HF_HOME": self.path("home"), "HF_ENDPOINT": self.server.url.rstrip("/")}
        done = subprocess.run(argv, env={**os.environ, **home, **environment}, capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class JavaScript(Clients):
    HUB = """
import { listFiles, downloadFile, fileDownloadInfo, fileExists, pathsInfo, modelInfo, snapshotDownload } from "@huggingface/hub";
const [hubUrl, cacheDir] = process.argv.slice(2), repo = "local/tiny", out = { files: {}, texts: {} };
out.id = (await modelInfo({ name: repo, hubUrl })).name;
for await (const file of listFiles({ repo, hubUrl, recursive: true }))
  if (file.type === "file") out.files[file.path] = file.size;
for (const path of Object.keys(out.files)) {
  const blob = await downloadFile({ repo, path, hubUrl, xet: false });
  out.texts[path] = Buffer.from(await blob.arrayBuffer()).toString("base64");
}
const whole = await downloadFile({ repo, path: "model.safetensors", hubUrl, xet: false });
out.part = Buffer.from(await whole.slice(1000, 2000).arrayBuffer()).toString("base64");
out.exists = [await fileExists({ repo, path: "config.json", hubUrl }), await fileExists({ repo, path: "none", hubUrl })];
out.info = (await fileDownloadInfo({ repo, path: "model.safetensors", hubUrl })).size;
out.paths = (await pathsInfo({ repo, paths: ["config.json", "sub"], hubUrl })).map((each) => [each.path, each.type]);
out.snapshot = await snapshotDownload({ repo, hubUrl, cacheDir });
console.log(JSON.stringify(out));
"""
    GGUF = """
import { gguf } from "@huggingface/gguf";
const { metadata, tensorInfos } = await gguf(process.argv[2]);
console.log(JSON.stringify({ version: metadata.version, tensors: tensorInfos.map((each) => [each.name, each.shape.map(Number)]) }));
"""

    def run_script(self, package, script, *argv):
        folder = npm_packages.folder_with(package)
        if folder is None:
            self.skipTest(f"{package} cannot be installed from npm here")
        done = npm_packages.run_module(folder, script, *argv, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout.splitlines()[-1])  # a client prints its progress

    def test_hub_client_lists_and_downloads(self):
        out = self.run_script(HUB_CLIENT, self.HUB, self.server.url.rstrip("/"), self.path("snapshots"))
        self.assertEqual(out["id"], "local/tiny")
        self.assertEqual(out["files"], {name: len(content) for name, content in self.files.items()})
        self.assertEqual({name: base64.b64decode(text) for name, text in out["texts"].items()}, self.files)
        self.assertEqual(base64.b64decode(out["part"]), self.files["model.safetensors"][1000:2000])
        self.assertEqual((out["exists"], out["info"]), ([True, False], len(self.files["model.safetensors"])))
        self.assertEqual(out["paths"], [["config.json", "file"], ["sub", "directory"]])
        for name, content in self.files.items():
            with open(os.path.join(out["snapshot"], name), "rb") as file:
                self.assertEqual(file.read(), content, name)

    def test_reader_of_gguf_reads_a_header_by_ranges(self):
        url = f"{self.server.url}local/small/resolve/main/small.gguf"
        out = self.run_script(GGUF_CLIENT, self.GGUF, url)
        self.assertEqual(out, {"version": 3, "tensors": [["token_embd.weight", [32, 64]]]})


PYTHON = """
import json, os, sys
import huggingface_hub as hub
api, id, out = hub.HfApi(), "local/tiny", {}
out["files"] = {each.rfilename: each.size for each in api.model_info(id, files_metadata=True).siblings}
out["exists"] = [api.file_exists(id, "config.json"), api.file_exists(id, "none"), api.repo_exists("local/none")]
out["snapshot"] = hub.snapshot_download(id)
out["file"] = hub.hf_hub_download(id, "sub/notes.txt", local_dir=sys.argv[1])
out["parameters"] = hub.get_safetensors_metadata(id).parameter_count
with hub.HfFileSystem().open(id + "/model.safetensors") as file:
    file.seek(1000)
    out["part"] = file.read(1000).hex()
print(json.dumps(out))
"""


class Python(Clients):
    def test_huggingface_hub_lists_and_downloads(self):
        try:
            self.run_client([sys.executable, "-c", "import huggingface_hub"])
        except AssertionError:
            self.skipTest("huggingface_hub is not installed")
        out = json.loads(self.run_client([sys.executable, "-c", PYTHON, self.path("folder")]))
        self.assertEqual(out["files"], {name: len(content) for name, content in self.files.items()})
        self.assertEqual(out["exists"], [True, False, False])
        self.assertEqual(out["parameters"], {"BF16": LARGE // 2})
        self.assertEqual(bytes.fromhex(out["part"]), self.files["model.safetensors"][1000:2000])
        for name, content in self.files.items():
            with open(os.path.join(out["snapshot"], name), "rb") as file:
                self.assertEqual(file.read(), content, name)
        with open(out["file"], "rb") as file:
            self.assertEqual(file.read(), self.files["sub/notes.txt"])


class Registries(Clients):
    def assert_has_blobs(self, layout):
        """The layout has the weights of the GGUF as a blob, byte for byte."""
        folder, contents = os.path.join(layout, "blobs", "sha256"), []
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as file:
                contents.append(file.read())
        self.assertIn(self.gguf, contents)

    def test_skopeo_copies_a_model(self):
        if shutil.which("skopeo") is None:
            self.skipTest("skopeo is not installed")
        source = f"docker://127.0.0.1:{self.server.port}/small:latest"
        self.run_client(["skopeo", "copy", "--src-tls-verify=false", source, f"oci:{self.path('copy')}:latest"])
        self.assert_has_blobs(self.path("copy"))
        listed = json.loads(self.run_client(["skopeo", "list-tags", "--tls-verify=false", source.removesuffix(":latest")]))
        self.assertEqual(listed["Tags"], ["latest"])

    def test_containerd_fetches_a_model(self):
        containerd = Containerd(self)
        name = f"127.0.0.1:{self.server.port}/small:latest"
        containerd.ctr("content", "fetch", "--plain-http", name)
        self.assertEqual(containerd.ctr("content", "get", artifacts.digest(self.gguf)), self.gguf)

    @needs("docker-registry")
    def test_docker_registry_is_a_mirror_of_it(self):
        mirror = Registry(self, proxy=self.server.url.rstrip("/"))
        accepted = {"Accept": artifacts.MANIFEST}
        path = f"/v2/small/blobs/{artifacts.digest(self.gguf)}"
        status, headers, manifest = mirror.send_request("GET", "/v2/small/manifests/latest", headers=accepted)
        self.assertEqual((status, headers["Docker-Content-Digest"]), (200, artifacts.digest(manifest)), manifest)
        self.assertIn(artifacts.digest(self.gguf), [layer["digest"] for layer in json.loads(manifest)["layers"]])
        status, _, blob = mirror.send_request("GET", path)
        self.assertEqual((status, blob), (200, self.gguf))
        name = artifacts.digest(self.gguf).removeprefix("sha256:")
        stored = os.path.join(mirror.content, "docker/registry/v2/blobs/sha256", name[:2], name, "data")
        until(lambda: os.path.exists(stored), "it does not store the blob")
        self.server.close()
        status, _, blob = mirror.send_request("GET", path)
        self.assertEqual((status, blob), (200, self.gguf), "of its own copy")


class ContainerImages(Clients):
    """A container image in an image layout, with a plain and a compressed layer, for engines that unpack it."""

    NOTE = b"a file of the second layer\n"

    def setUp(self):
        super().setUp()
        layers = [artifacts.tar({"models/": b"", "models/small.gguf": self.gguf}),
                  artifacts.tar({"etc/": b"", "etc/note": self.NOTE})]
        config = {"architecture": MACHINES.get(platform.machine(), platform.machine()), "os": "linux", "config": {},
                  "rootfs": {"type": "layers", "diff_ids": [artifacts.digest(layer) for layer in layers]}}
        image = artifacts.Artifact(config_type="application/vnd.oci.image.config.v1+json", config=config)
        image.add("application/vnd.oci.image.layer.v1.tar", layers[0])
        image.add("application/vnd.oci.image.layer.v1.tar+gzip", gzip.compress(layers[1], mtime=0))
        self.digest = artifacts.digest(image.manifest())
        os.mkdir(self.path("images"))
        server = HttpServer(artifacts.layout(self.path("image"), ("v1", image)), folder=self.path("images"))
        self.addCleanup(server.close)
        self.image = f"127.0.0.1:{server.port}/image:v1"

    def engine(self, program, *options):
        """The beginning of its command lines: its storage is in the directory of the test, and mounts nothing."""
        if shutil.which(program) is None:
            self.skipTest(f"{program} is not installed")
        if os.geteuid() != 0:
            self.skipTest(f"{program} needs root, or a user namespace with many users, to unpack layers")
        return [program, "--root", self.path("storage"), "--runroot", self.path("run"), "--storage-driver", "vfs", *options]

    def assert_unpacked(self, root):
        for name, content in (("models/small.gguf", self.gguf), ("etc/note", self.NOTE)):
            with open(os.path.join(root, name), "rb") as file:
                self.assertEqual(file.read(), content, name)

    def test_buildah_begins_a_container_from_an_image(self):
        buildah = self.engine("buildah")
        name = self.run_client([*buildah, "from", "--quiet", "--tls-verify=false", f"docker://{self.image}"]).split()[-1]
        digest = self.run_client([*buildah, "inspect", "--type", "image", "--format", "{{.FromImageDigest}}", self.image])
        self.assertEqual(digest.strip(), self.digest)
        self.assert_unpacked(self.run_client([*buildah, "mount", name]).strip())

    def test_containerd_pulls_an_image(self):
        containerd = Containerd(self)
        containerd.ctr("images", "pull", "--plain-http", "--snapshotter", "native", self.image)
        listed = containerd.ctr("images", "ls", f"name=={self.image}").decode()
        self.assertIn(self.digest, listed)
        root = self.path("root")
        os.mkdir(root)
        containerd.ctr("images", "mount", "--snapshotter", "native", self.image, root)
        self.addCleanup(subprocess.run, ["umount", root], check=True)
        self.assert_unpacked(root)

    def test_podman_pulls_an_image(self):
        podman = self.engine("podman", "--tmpdir", self.path("tmp"))
        self.run_client([*podman, "pull", "--quiet", "--tls-verify=false", self.image])
        digest = self.run_client([*podman, "image", "inspect", "--format", "{{.Digest}}", self.image])
        self.assertEqual(digest.strip(), self.digest)
        self.assert_unpacked(self.run_client([*podman, "image", "mount", self.image]).strip())


class Urls(Clients):
    def test_curl_resumes_a_download(self):
        if shutil.which("curl") is None:
            self.skipTest("curl is not installed")
        content = self.files["model.safetensors"]
        part = self.write("part", content[:1 << 20])
        self.run_client(["curl", "-sSf", "-C", "-", "-o", part, f"{self.server.url}local/tiny/resolve/main/model.safetensors"])
        with open(part, "rb") as file:
            self.assertEqual(file.read(), content)

    def test_rclone_copies_the_files_of_a_model(self):
        if shutil.which("rclone") is None:
            self.skipTest("rclone is not installed")
        remote = f":http,url='{self.server.url}tiny/files/':"
        self.run_client(["rclone", "copy", "--config", "/dev/null", remote, self.path("copy")])
        for name, content in self.files.items():
            with open(self.path("copy", name), "rb") as file:
                self.assertEqual(file.read(), content, name)


if __name__ == "__main__":
    unittest.main()
