"""Models in OCI artifacts and images: in a docker-registry, in image layouts, and in saved tars."""
import base64
import json
import os
import subprocess
import unittest

from fetching import FetchTestCase
from mounting import Tensor, run, sample_tensors, until
from servers import LOGIN, Nginx, Registry, needs
import artifacts
from artifacts import Artifact, TITLE, modelpack
import stores
from test_archives import noise

WEIGHT = "application/vnd.cncf.model.weight.v1.raw"
LAYER = "application/vnd.oci.image.layer.v1.tar"


class OciTestCase(FetchTestCase):
    def gguf(self, name="Tiny", tensors=None):
        return stores.gguf(self.tmp, tensors or sample_tensors(), {"general.architecture": "llama", "general.name": name})

    def assert_is_model(self, point, at="model.gguf"):
        self.assertEqual(self.read_whole(point, "tensors", "bias"), sample_tensors_by_name()["bias"].data)
        self.assertEqual(self.read_whole(point, "files", at), self.gguf())

    def metadata(self, point):
        return json.loads(self.read_whole(point, "metadata.json"))


def sample_tensors_by_name():
    return {tensor.name: tensor for tensor in sample_tensors()}


@needs("docker-registry")
class RegistryArtifacts(OciTestCase):
    """Artifacts of each writer, pushed to a registry (semantics 24)."""

    def setUp(self):
        super().setUp()
        self.registry = Registry(self)

    def push(self, artifact, name="ai/tiny", tag="latest"):
        return artifact.push(self.registry, name, tag)

    def test_modelpack(self):
        artifact = modelpack()
        artifact.add(WEIGHT, self.gguf(), "model.gguf").add("application/vnd.cncf.model.doc.v1.raw", b"# Tiny\n", "README.md")
        artifact.add("application/vnd.cncf.model.code.v1.tar", artifacts.tar({"src/run.py": b"pass\n"}), "src")
        point = self.mount(self.push(artifact))
        self.assert_is_model(point)
        self.assertEqual(self.read_whole(point, "files", "README.md"), b"# Tiny\n")
        self.assertEqual(self.read_whole(point, "files", "src", "run.py"), b"pass\n")
        found = self.metadata(point)
        self.assertEqual((found["license"], found["commit"]), ("Apache-2.0", "abc123"))
        self.assertEqual(found["artifact_type"], "application/vnd.cncf.model.manifest.v1+json")
        self.assertEqual(found["source"], f"oci://{self.registry.host}/ai/tiny:latest@{artifacts.digest(artifact.manifest())}")

    def test_warm_manifest_of_a_digest_costs_no_request(self):
        layer = self.gguf(tensors=[Tensor("big", "int8", (9 << 20,), noise(9 << 20, seed=3))])
        url = self.push(modelpack().add(WEIGHT, layer, "model.gguf"))
        named = f"{url.rpartition(':')[0]}@{self.metadata(self.mount(url))['source'].rpartition('@')[2]}"
        for source, requests in ((url, 1), (named, 0)):
            run("info", source)
            before = self.registry.count()
            done = run("info", source)
            self.assertEqual((done.returncode, self.registry.count() - before), (0, requests), done.stderr)

    def test_annotations_before_2025(self):
        artifact = Artifact("application/vnd.cnai.model.manifest.v1+json")
        artifact.add("application/vnd.cnai.model.weight.v1.tar", artifacts.tar({"weights/model.gguf": self.gguf()}),
                     "weights/model.gguf", key="org.cnai.model.filepath")
        self.assert_is_model(self.mount(self.push(artifact)), "weights/model.gguf")

    def test_docker_model_runner(self):
        config = {"config": {"format": "gguf"}, "descriptor": {"created": "2025-01-01T00:00:00Z"}}
        old = Artifact(config_type="application/vnd.docker.ai.model.config.v0.1+json", config=config)
        old.add("application/vnd.docker.ai.gguf.v3", self.gguf()).add("application/vnd.docker.ai.license", b"MIT\n")
        point = self.mount(self.push(old), at="old")
        self.assert_is_model(point)
        self.assertEqual(self.read_whole(point, "files", "LICENSE"), b"MIT\n")
        new = Artifact(config_type="application/vnd.docker.ai.model.config.v0.2+json", config=config)
        new.add("application/vnd.docker.ai.gguf.v3", self.gguf(), "tiny.gguf")
        new.add("application/vnd.docker.ai.dir.tar", artifacts.tar({"tokenizer/": b"", "tokenizer/vocab.txt": b"a\n"}), "tokenizer")
        point = self.mount(self.push(new, tag="new"), at="new")
        self.assert_is_model(point, "tiny.gguf")
        self.assertEqual(self.read_whole(point, "files", "tokenizer", "vocab.txt"), b"a\n")

    def test_kitops(self):
        for compress in (False, True):
            with self.subTest(compress=compress):
                weights = artifacts.tar({"model.gguf": self.gguf()}, compress)
                kitfile = {"manifestVersion": "1.0", "package": {"name": "tiny"},
                           "model": {"path": "model.gguf", "digest": artifacts.digest(weights)}}
                kind = "application/vnd.kitops.modelkit.model.v1.tar" + ("+gzip" if compress else "")
                artifact = Artifact("application/vnd.kitops.modelkit.manifest.v1+json",
                                    "application/vnd.kitops.modelkit.config.v1+json", kitfile)
                point = self.mount(self.push(artifact.add(kind, weights), tag=f"kit{compress}"), at=f"kit{compress}")
                self.assert_is_model(point)
                self.assertEqual(self.metadata(point)["metadata"]["oci"]["config"]["package"]["name"], "tiny")

    def test_kitfile_names_raw_layers(self):
        kitfile = {"model": {"path": "./model.gguf", "digest": artifacts.digest(self.gguf())}}
        artifact = Artifact("application/vnd.kitops.modelkit.manifest.v1+json", "application/vnd.kitops.modelkit.config.v1+json",
                            kitfile)
        self.assert_is_model(self.mount(self.push(artifact.add("application/vnd.kitops.modelkit.model.v1.raw", self.gguf()))))

    def test_oras_and_ramalama(self):
        oras = Artifact("application/vnd.acme.model")
        oras.add("application/octet-stream", self.gguf(), "model.gguf", key=TITLE)
        oras.add(LAYER + "+gzip", artifacts.tar({"docs/a.txt": b"a"}, True), "docs", key=TITLE,
                 **{"io.deis.oras.content.unpack": "true"})
        point = self.mount(self.push(oras), at="oras")
        self.assert_is_model(point)
        self.assertEqual(self.read_whole(point, "files", "docs", "a.txt"), b"a")
        ramalama = Artifact("application/vnd.cncf.model.manifest.v1+json")
        ramalama.add("application/octet-stream", self.gguf(), "model.gguf",
                     **{"org.cncf.model.file.metadata+json": '{"name":"./model.gguf","typeflag":48}'})
        self.assert_is_model(self.mount(self.push(ramalama, tag="ramalama"), at="ramalama"))

    def test_sharded_safetensors_are_one_model(self):
        artifact = modelpack()
        weights = {}
        for i in range(3):
            data = stores.safetensors(self.tmp, [Tensor(f"w{i}", "int8", (4,), b"%04d" % i)])
            artifact.add(WEIGHT, data, f"model-{i + 1:05}-of-00003.safetensors")
            weights[f"w{i}"] = f"model-{i + 1:05}-of-00003.safetensors"
        artifact.add("application/vnd.cncf.model.weight.config.v1.raw", artifacts.as_json({"weight_map": weights}),
                     "model.safetensors.index.json")
        point = self.mount(self.push(artifact))
        self.assertEqual(sorted(os.listdir(os.path.join(point, "tensors"))), ["w0", "w1", "w2"])
        self.assertEqual(self.read_whole(point, "tensors", "w1"), b"0001")

    def test_image_with_a_model(self):
        image = Artifact(config_type="application/vnd.oci.image.config.v1+json", config={"architecture": "amd64", "os": "linux"})
        image.add(LAYER, artifacts.tar({"bin/": b"", "bin/sh": b"#!", "old/a": b"a", "old/b": b"b", "gone": b"x"}))
        image.add(LAYER + "+gzip",
                  artifacts.tar({"models/tiny.gguf": self.gguf(), ".wh.gone": b"", "old/.wh..wh..opq": b"", "old/c": b"c"}, True))
        point = self.mount(self.push(image))
        self.assert_is_model(point, "models/tiny.gguf")
        self.assertEqual(sorted(os.listdir(os.path.join(point, "files"))), ["bin", "models", "old"])
        self.assertEqual(os.listdir(os.path.join(point, "files", "old")), ["c"])

    def test_foreign_layers_are_left_out_with_a_warning(self):
        image = Artifact(config_type="application/vnd.oci.image.config.v1+json", config={"architecture": "amd64", "os": "linux"})
        base = b"of another publisher"
        image.add(LAYER.replace("layer.v1", "layer.nondistributable.v1"), base)
        image.add(LAYER, artifacts.tar({"models/tiny.gguf": self.gguf()}))
        in_registry = self.push(image)
        del image.blobs[artifacts.digest(base)]  # as skopeo leaves it out
        for at, source in (("registry", in_registry), ("layout", artifacts.layout(self.path("layout"), ("latest", image)))):
            with self.subTest(at):
                point = self.mount(source, at=f"at_{at}")
                self.assert_is_model(point, "models/tiny.gguf")
                warnings = self.read_whole(point, "warnings.txt").decode()
                self.assertEqual(warnings.count("is left out"), 1, warnings)
                self.assertIn(artifacts.digest(base), warnings)
        self.assertEqual(self.registry.count("GET", f"/v2/ai/tiny/blobs/{artifacts.digest(base)}"), 0)

    def test_image_with_two_models_nests_them(self):
        image = Artifact(config_type="application/vnd.oci.image.config.v1+json", config={"architecture": "amd64", "os": "linux"})
        image.add(LAYER, artifacts.tar({"models/a/one.gguf": self.gguf(), "models/b/two.gguf": self.gguf()}))
        point = self.mount(self.push(image))
        self.assertEqual(self.metadata(point)["format"], "oci")
        self.assertEqual(self.read_whole(point, "nested", "models", "b", "two.gguf", "tensors", "bias"),
                         sample_tensors_by_name()["bias"].data)

    def test_index_of_models_is_a_directory(self):
        manifests = []
        for name in ("Q4", "Q8"):
            artifact = modelpack(name=name).add(WEIGHT, self.gguf(name), "model.gguf")
            self.push(artifact, tag=name)
            manifests.append((name, artifact))
        self.registry.push_manifest("ai/tiny", "all", artifacts.index(manifests, "application/vnd.kitops.modelkit.index.v1+json"))
        point = self.mount(f"oci://{self.registry.host}/ai/tiny:all")
        self.assertEqual(sorted(set(os.listdir(point)) - {".weightfs"}), ["Q4", "Q8"])
        self.assertEqual(json.loads(self.read_whole(point, "Q8", "metadata.json"))["name"], "Q8")

    def test_ollama_manifest(self):
        package = stores.tiny(self.tmp, sample_tensors())
        for data in package.blobs.values():
            self.registry.push_blob("library/tiny", data)
        self.registry.push_manifest("library/tiny", "latest", package.manifest())
        point = self.mount(f"oci://{self.registry.host}/library/tiny")
        self.assertEqual(self.metadata(point)["format"], "ollama")
        self.assertEqual(self.read_whole(point, "tensors", "bias"), sample_tensors_by_name()["bias"].data)

    def test_large_layer_is_read_by_ranges(self):
        size = 2 << 20
        tensors = [Tensor(f"blk.{i}", "int8", (size,), noise(size, seed=i + 1)) for i in range(6)]
        url = self.push(modelpack().add(WEIGHT, self.gguf(tensors=tensors), "model.gguf"))
        point = self.mount(url)
        self.assertEqual(len(os.listdir(os.path.join(point, "tensors"))), 6)
        self.assertEqual(self.read_whole(point, "tensors", "blk.3"), tensors[3].data)

        def sent():
            return sum(request.bytes for request in self.registry.pulled() if "/blobs/" in request.path and request.method == "GET")
        # The registry logs a response after its last byte.
        until(lambda: sent() >= size, "the request of the tensor is not logged")
        self.assertLessEqual(sent(), 1.02 * size + (128 << 10))
        before = self.registry.count()
        offline = self.mount("--offline", url, at="offline")
        self.assertEqual(self.read_whole(offline, "tensors", "blk.3"), tensors[3].data)
        self.assertEqual(self.registry.count(), before)

    def test_verify_counts_the_layers(self):
        artifact = modelpack().add(WEIGHT, self.gguf(), "model.gguf")
        artifact.add("application/vnd.cncf.model.doc.v1.raw", b"# Tiny\n", "README.md")
        artifact.add("application/vnd.cncf.model.code.v1.tar", artifacts.tar({"src/run.py": b"pass\n"}), "src")
        url = self.push(artifact)
        done = run("verify", url)
        digest = artifact.fields["layers"][2]["digest"]
        self.assertEqual((done.returncode, done.stdout),
                         (0, f"{url}: WHOLE: 2 files match their checksums, layer {digest} matches\n"), done.stderr)

    def test_digest_pins_a_manifest(self):
        artifact = modelpack().add(WEIGHT, self.gguf(), "model.gguf")
        self.push(artifact)
        pinned = f"oci://{self.registry.host}/ai/tiny@{artifacts.digest(artifact.manifest())}"
        self.push(modelpack().add(WEIGHT, self.gguf("Other"), "model.gguf"))
        self.assertEqual(self.metadata(self.mount(pinned))["name"], "Tiny")

    def test_signatures_are_shown(self):
        artifact = modelpack().add(WEIGHT, self.gguf(), "model.gguf")
        url = self.push(artifact)
        hex_digest = artifacts.digest(artifact.manifest())[7:]
        signature = Artifact("application/vnd.dev.sigstore.bundle.v0.3+json").add("application/octet-stream", b"sig")
        self.push(signature, tag="signature")
        listed = json.loads(artifacts.index([("signature", signature)]))
        listed["manifests"][0]["artifactType"] = "application/vnd.dev.sigstore.bundle.v0.3+json"
        self.registry.push_manifest("ai/tiny", f"sha256-{hex_digest}", artifacts.as_json(listed))
        self.push(signature, tag=f"sha256-{hex_digest}.sig")
        types = ["application/vnd.dev.sigstore.bundle.v0.3+json", "application/vnd.dev.cosign.simplesigning.v1+json"]
        point = self.mount(url)
        self.assert_is_model(point)
        self.assertEqual(self.metadata(point)["referrers"], types)
        self.assertEqual(self.metadata(self.mount("--offline", url, at="offline"))["referrers"], types)

    def test_hostile_paths_stay_in_files(self):
        artifact = modelpack().add(WEIGHT, self.gguf(), "model.gguf")
        for path in ("../../etc/passwd", "/abs", "a\nb", "model.gguf", "." * 300, "x/../y"):
            artifact.add("application/vnd.cncf.model.doc.v1.raw", path.encode() + b"!", path)
        point = self.mount(self.push(artifact))
        self.assert_is_model(point)
        texts = {self.read_whole(base, name) for base, _, names in os.walk(os.path.join(point, "files")) for name in names}
        self.assertIn(b"model.gguf!", texts)
        self.assertFalse(os.path.exists(os.path.join(os.path.dirname(point), "etc")))

    def test_missing_layer_is_an_error_of_its_file(self):
        artifact = modelpack().add(WEIGHT, self.gguf(), "model.gguf")
        artifact.add("application/vnd.cncf.model.doc.v1.raw", b"text", "README.md")
        artifact.fields["layers"][1]["digest"] = "sha512:" + "0" * 128
        self.assertEqual(len(artifact.fields["layers"]), 2)
        point = self.mount(artifacts.layout(self.path("layout"), ("latest", artifact)), lacks="1 file cannot be read")
        self.assert_is_model(point)
        self.assertIn(b"is not a SHA-256 digest", self.read_whole(point, "warnings.txt"))

    def test_wrong_names_are_explained(self):
        for name, message in (("oci:tiny", "write oci://HOST/REPOSITORY:TAG"), ("oci://ai/tiny", "oci://docker.io/ai/tiny"),
                              (f"oci://{self.registry.host}/a@sha256:12", "only sha256 digests"),
                              (f"oci://{self.registry.host}/no/such:tag", "no such model or tag")):
            with self.subTest(name):
                done = run("info", name, check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(message, done.stderr)


@needs("docker-registry")
class Documentation(OciTestCase):
    def test_transcripts_of_docs_remote_are_right(self):
        registry = Registry(self)
        size = 4 << 20
        tensors = [Tensor(f"blk.{i}", "int8", (size,), noise(size, seed=i + 1)) for i in range(4)]
        artifact = modelpack().add(WEIGHT, self.gguf(tensors=tensors), "model.gguf")
        artifact.add("application/vnd.cncf.model.doc.v1.raw", b"# Tiny\n", "README.md")
        artifact.add("application/vnd.cncf.model.code.v1.tar", artifacts.tar({"src/run.py": b"pass\n"}), "src")
        artifact.push(registry, "ai/tiny", "latest")
        self.assert_section_is_right("Registries", 8, ("localhost:5000", registry.host))


@needs("docker-registry")
class Logins(OciTestCase):
    def test_login_is_sent_to_its_registry(self):
        registry = Registry(self, login=True)
        url = modelpack().add(WEIGHT, self.gguf(), "model.gguf").push(registry, "ai/tiny", "latest")
        self.log_in(registry)
        self.assert_is_model(self.mount(url))

    def log_in(self, registry):
        folder = self.path("docker")
        os.makedirs(folder)
        auth = base64.b64encode(":".join(LOGIN).encode()).decode()
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump({"auths": {registry.host: {"auth": auth}}}, file)
        os.environ["DOCKER_CONFIG"] = folder
        self.addCleanup(os.environ.pop, "DOCKER_CONFIG")


@needs("docker-registry", "nginx")
class Mirrors(OciTestCase):
    """--mirror: another server is asked for blobs first, and its bytes are verified before they are read."""
    SIZE = 2 << 20

    def setUp(self):
        super().setUp()
        self.registry = Registry(self)
        self.tensors = [Tensor(f"blk.{i}", "int8", (self.SIZE,), noise(self.SIZE, seed=i + 1)) for i in range(6)]
        self.artifact = modelpack().add(WEIGHT, self.gguf(tensors=self.tensors), "model.gguf")
        self.url = self.artifact.push(self.registry, "ai/tiny", "latest")

    def sent(self, registry):
        return sum(request.bytes for request in registry.pulled() if "/blobs/" in request.path and request.method == "GET")

    def assert_is_right(self, point):
        for tensor in self.tensors:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)

    def cache_server(self, **blobs):
        """An nginx that serves a directory v1/blobs with these blobs."""
        server = Nginx(self, name="cache")
        for data in blobs.values():
            self.put_blob(server, data, data)
        return server

    def put_blob(self, server, named, data):
        name = artifacts.digest(named)[7:]
        folder = os.path.join(server.content, "v1", "blobs", name[:2])
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)

    def test_blobs_come_from_the_mirror(self):
        mirror = Registry(self, name="mirror")
        self.artifact.push(mirror, "ai/tiny", "latest")
        point = self.mount(f"--mirror={self.registry.host}=http://{mirror.host}", self.url)
        self.assert_is_right(point)
        self.assertEqual(self.sent(self.registry), 0)
        self.assertEqual(self.registry.count(path="/v2/ai/tiny/manifests/latest"), 1)
        self.assertEqual(mirror.count(path="/v2/ai/tiny/manifests/latest"), 0)

    def test_ranges_come_from_the_registry_if_no_mirror_has_the_blob(self):
        mirror = Registry(self, name="mirror")
        point = self.mount(f"--mirror=http://{mirror.host}", self.url)
        self.assertEqual(self.read_whole(point, "tensors", "blk.3"), self.tensors[3].data)
        self.assertLessEqual(self.sent(self.registry), 1.02 * self.SIZE + (128 << 10))

    def test_cache_of_another_machine_is_a_mirror(self):
        first = self.mount(self.url, at="first")
        self.read_whole(first, "files", "model.gguf")
        run("fetch", self.url)
        self.unmount(first)
        sent = self.sent(self.registry)
        server = Nginx(self, name="cache")
        os.makedirs(os.path.join(server.content, "v1"))
        os.rename(os.path.join(self.cache(), "v1", "blobs"), os.path.join(server.content, "v1", "blobs"))
        os.chmod(os.path.join(server.content, "v1", "blobs"), 0o755)
        for base, _, names in os.walk(os.path.join(server.content, "v1", "blobs")):
            os.chmod(base, 0o755)
            for name in names:
                os.chmod(os.path.join(base, name), 0o644)
        self.assert_is_right(self.mount("--cache-size=1G", f"--mirror=http://{server.host}/v1/blobs", self.url))
        self.assertEqual(self.sent(self.registry), sent)

    def test_wrong_bytes_of_a_mirror_are_not_served(self):
        server = self.cache_server()
        model = self.gguf(tensors=self.tensors)
        self.put_blob(server, model, model[:-1] + bytes([model[-1] ^ 1]))
        self.assert_is_right(self.mount(f"--mirror=http://{server.host}/v1/blobs", self.url))

    def test_registries_conf_names_mirrors(self):
        mirror = Registry(self, name="mirror")
        self.artifact.push(mirror, "copies/tiny", "latest")
        with open(self.path("registries.conf"), "w") as file:
            file.write(f'''[[registry]]
prefix = "{self.registry.host}/ai"
[[registry.mirror]]
location = "{mirror.host}/copies"
insecure = true
pull-from-mirror = "digest-only"
''')
        os.mkdir(self.path("registries.conf.d"))
        os.environ["CONTAINERS_REGISTRIES_CONF"] = self.path("registries.conf")
        self.addCleanup(os.environ.pop, "CONTAINERS_REGISTRIES_CONF")
        self.assert_is_right(self.mount(self.url))
        self.assertEqual(self.sent(self.registry), 0)
        # Offline no mirror is asked, and the sandbox permits none of these files.
        self.assertEqual(run("ls", "--offline", self.url).stderr, "")

    def test_dead_mirror_is_left(self):
        server = self.cache_server()
        server.stop()
        self.assert_is_right(self.mount(f"--mirror=http://{server.host}/v1/blobs", self.url))

    def test_wrong_mirrors_are_explained(self):
        for mirror, message in (("ftp://x", "is not a mirror; use [HOST=]https://MIRROR"), ("a=https://b/v1/blobs",
                                                                                            "leave out HOST=")):
            done = run("info", f"--mirror={mirror}", self.url, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)


@needs("docker-registry")
class RequireDigest(OciTestCase):
    def test_only_pinned_sources_are_opened(self):
        registry = Registry(self)
        artifact = modelpack().add(WEIGHT, self.gguf(), "model.gguf")
        url = artifact.push(registry, "ai/tiny", "latest")
        pushed = registry.count()
        for source in (url, "ollama:tiny", "http://127.0.0.1:1/m.gguf", "hf://a/b", "hf://a/b@main"):
            done = run("info", "--require-digest", source, check=False)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("no digest in the name", done.stderr)
        self.assertEqual(registry.count(), pushed)
        self.assert_is_model(self.mount("--require-digest", f"{url}@{artifacts.digest(artifact.manifest())}"))
        with open(self.path("m.gguf"), "wb") as file:
            file.write(self.gguf())
        run("info", "--require-digest", self.path("m.gguf"))


class Layouts(OciTestCase):
    """Image layouts as directories and tars, and saved images."""

    def artifact(self):
        return modelpack().add(WEIGHT, self.gguf(), "model.gguf")

    def packed(self, folder):
        subprocess.run(["tar", "-cf", folder + ".tar", "-C", folder, "."], check=True)
        return folder + ".tar"

    def test_directory_and_tar(self):
        folder = artifacts.layout(self.path("layout"), ("latest", self.artifact()))
        self.assert_is_model(self.mount(folder, at="directory"))
        self.assert_is_model(self.mount(self.packed(folder), at="tar"))

    def test_platforms_are_one_image(self):
        image = Artifact(config_type="application/vnd.oci.image.config.v1+json",
                         config={}).add(LAYER, artifacts.tar({"models/tiny.gguf": self.gguf()}))
        other = Artifact(config_type="application/vnd.oci.image.config.v1+json",
                         config={}).add(LAYER, artifacts.tar({"models/other": b""}))
        folder = artifacts.layout(self.path("layout"), ("a", other, {"os": "linux", "architecture": "arm64"}),
                                  ("b", image, {"os": "linux", "architecture": "amd64"}))
        self.assert_is_model(self.mount(folder), "models/tiny.gguf")

    def test_platform_of_the_image_is_chosen(self):
        image = Artifact(config_type="application/vnd.oci.image.config.v1+json",
                         config={}).add(LAYER, artifacts.tar({"models/tiny.gguf": self.gguf()}))
        other = Artifact(config_type="application/vnd.oci.image.config.v1+json",
                         config={}).add(LAYER, artifacts.tar({"models/other": b""}))
        own = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "amd64")
        for number, (unfit, fit) in enumerate(((("linux", "amd64" if own != "amd64" else "arm64"), ("linux", own)),
                                               (("windows", own), ("linux", "amd64")),
                                               (("unknown", "unknown"), ("linux", "mips")))):
            with self.subTest(unfit=unfit, fit=fit):
                folder = artifacts.layout(self.path(f"layout{number}"), ("a", other, dict(zip(("os", "architecture"), unfit))),
                                          ("b", image, dict(zip(("os", "architecture"), fit))))
                self.assert_is_model(self.mount(folder, at=f"mnt{number}"), "models/tiny.gguf")

    # semantics 5.5
    def test_signature_is_described(self):
        signature = stores.model_signature({"model.gguf": stores.sha256(self.gguf()), "other": "0" * 64})
        artifact = self.artifact().add("application/vnd.cncf.model.doc.v1.raw", signature, "model.sig")
        shown = self.metadata(self.mount(artifacts.layout(self.path("layout"), ("latest", artifact))))["signature"]
        self.assertEqual({key: shown[key] for key in ("resources", "equal", "different", "unknown")},
                         {"resources": 2, "equal": 1, "different": 0, "unknown": 1})

    def test_several_models_are_nested(self):
        other = modelpack().add(WEIGHT, self.gguf("Other"), "other.gguf")
        folder = artifacts.layout(self.path("layout"), ("one", self.artifact()), ("two", other))
        point = self.mount(folder)
        self.assertEqual(sorted(os.listdir(os.path.join(point, "nested"))), ["one.json", "two.json"])
        self.assertEqual(json.loads(self.read_whole(point, "nested", "two.json", "metadata.json"))["name"], "Other")

    def test_damaged_blob_is_an_error(self):
        folder = artifacts.layout(self.path("layout"),
                                  ("latest", self.artifact().add("application/vnd.cncf.model.doc.v1.raw", b"text", "a.txt")))
        with open(os.path.join(folder, "blobs", "sha256", artifacts.digest(b"text")[7:]), "wb") as file:
            file.write(b"tEXt")
        point = self.mount(folder)
        self.assert_is_model(point)
        with self.assertRaises(OSError):
            self.read_whole(point, "files", "a.txt")

    def test_damaged_small_model_is_a_mismatch(self):
        # semantics 14.5
        model = self.gguf()
        folder = artifacts.layout(self.path("layout"), ("latest", self.artifact()))
        with open(os.path.join(folder, "blobs", "sha256", artifacts.digest(model)[7:]), "wb") as file:
            file.write(model[:-1] + bytes([model[-1] ^ 1]))
        for source in (folder, self.packed(folder)):
            with self.subTest(source):
                done = run("cat", source, "tensors/bias")
                self.assertEqual(done.returncode, 7, done.stderr)
                self.assertIn("digest", done.stderr)

    def test_verify_counts_layers_and_finds_a_changed_one(self):
        model = self.gguf(tensors=[Tensor("w", "int8", (5 << 20,), noise(5 << 20))])  # parsed before it is verified
        artifact = modelpack().add(WEIGHT, model, "model.gguf").add("application/vnd.cncf.model.doc.v1.raw", b"text", "a.txt")
        folder = artifacts.layout(self.path("layout"), ("latest", artifact))
        done = run("verify", folder)
        self.assertEqual((done.returncode, done.stdout), (0, f"{folder}: WHOLE: 2 files match their checksums, 2 have none\n"))
        for layer, changed in ((b"text", b"tEXt"), (model, model[:-1] + b"!")):
            path = os.path.join(folder, "blobs", "sha256", artifacts.digest(layer)[7:])
            with open(path, "wb") as file:
                file.write(changed)
            done = run("verify", "--no-cache", folder)
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertIn(f"found {artifacts.digest(changed)[7:]}", done.stdout)
            with open(path, "wb") as file:
                file.write(layer)

    def test_saved_image(self):
        with open(self.path("saved.tar"), "wb") as file:
            file.write(artifacts.saved([artifacts.tar({"etc/a": b"a"}), artifacts.tar({"models/tiny.gguf": self.gguf()})]))
        self.assert_is_model(self.mount(self.path("saved.tar")), "models/tiny.gguf")


if __name__ == "__main__":
    unittest.main()
