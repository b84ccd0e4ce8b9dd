"""The commands of packaging/kubernetes in mount namespaces that are connected like those of a node and its pods.

The node has a shared mount. A container with mountPropagation: Bidirectional has a peer of it, one with HostToContainer a slave
(mount_namespaces(7)).
"""
import os
import re
import signal
import subprocess
import unittest
import urllib.error
import urllib.request

from fetching import FetchTestCase
from mounting import LIMIT_S, Tensor, WEIGHTFS, halt, until
from servers import Registry, ended_with_parent, needs
from artifacts import modelpack
import manifests
import stores
from test_archives import noise
from test_hub import HubTestCase

SIZE = 2 << 20
PROPAGATION = {"Bidirectional": "unchanged", "HostToContainer": "slave"}  # of unshare(1): a copy of a shared mount is its peer
MOUNTS = "/mnt"  # an empty directory of every Debian system, on which the test mounts a file system in its namespaces


@unittest.skipUnless(os.geteuid() == 0, "only root can create mount namespaces")
@needs("docker-registry")
class KubernetesTestCase(FetchTestCase):
    def setUp(self):
        super().setUp()
        self.objects = manifests.read()
        self.registry = Registry(self)
        names = ("token_embd.weight", *"abcde")
        self.tensors = [Tensor(name, "int8", (SIZE,), noise(SIZE, seed=i + 1)) for i, name in enumerate(names)]
        self.model = stores.gguf(self.tmp, self.tensors)
        artifact = modelpack().add("application/vnd.cncf.model.weight.v1.raw", self.model, "model.gguf")
        artifact.add("application/vnd.cncf.model.doc.v1.raw", b"Apache-2.0\n", "LICENSE")
        self.url = artifact.push(self.registry, "ai/llama", "8b")
        os.mkdir(self.path("bin"))
        os.symlink(WEIGHTFS, self.path("bin", "weightfs"))
        os.chmod(self.tmp, 0o755)

    def adapted(self, argv, **paths):
        """A command of a manifest with the paths and the model of this test."""
        replaced = {"oci://registry.example/ai/llama:8b": self.url, "--cache-size=500G": "--cache-size=1G", **paths}
        adapted = []
        for word in argv:
            for text, instead in replaced.items():
                word = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", instead, word)
            adapted.append(word)
        return adapted

    def environment(self, **more):
        return {"PATH": self.path("bin") + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.path("home"),
                "WEIGHTFS_CACHE": self.path("cache"), **more}


class Node(KubernetesTestCase):
    """daemonset.yaml and consumer.yaml."""

    def setUp(self):
        super().setUp()
        self.need_mount_namespace()
        self.server = manifests.container(self.objects, "daemonset.yaml", "weightfs")
        self.reader = manifests.container(self.objects, "consumer.yaml", "reader")
        script = f"mount -t tmpfs tmpfs {MOUNTS} && mount --make-shared {MOUNTS} && mkdir {MOUNTS}/weightfs"
        self.node = self.namespace(script, "private")

    def namespace(self, script, propagation, of=None):
        """A process in a new mount namespace, a copy of that of `of`, in which the script has run."""
        enter = ["nsenter", f"--target={of.pid}", "--mount"] if of else []
        process = subprocess.Popen([*enter, "unshare", "--mount", f"--propagation={propagation}", "sh", "-ec",
                                    f"{script}\necho ready\nexec sleep infinity"], stdout=subprocess.PIPE, text=True,
                                   preexec_fn=ended_with_parent(signal.SIGKILL), env=self.environment())
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        if process.stdout.readline() != "ready\n":
            self.skipTest("no mount namespace here")
        return process

    def container(self, of):
        """A container with the propagation that its manifest requests."""
        propagation, = {mount["mountPropagation"] for mount in of["volumeMounts"] if "mountPropagation" in mount}
        return self.namespace(":", PROPAGATION[propagation], self.node)

    def run_in(self, container, argv):
        return subprocess.run(["nsenter", f"--target={container.pid}", "--mount", *self.adapted(argv)], capture_output=True,
                              timeout=LIMIT_S, env=self.environment())

    def start(self, container):
        """Starts the server, and waits as its startup probe does."""
        argv = self.adapted(self.server["command"] + self.server["args"])
        process = subprocess.Popen(["nsenter", f"--target={container.pid}", "--mount", *argv], env=self.environment(),
                                   preexec_fn=ended_with_parent(signal.SIGKILL), stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        until(lambda: self.probe(container, "startupProbe") == 0 or process.poll() is not None, "it does not mount")
        self.assertIsNone(process.poll())
        return process

    def probe(self, container, name="livenessProbe"):
        return self.run_in(container, self.server[name]["exec"]["command"]).returncode

    def tensor(self, container):
        return self.run_in(container, ["cat", f"{MOUNTS}/weightfs/llama/tensors/a"]).stdout

    def mounts(self, container):
        with open(f"/proc/{container.pid}/mounts") as file:
            return sum(f" {MOUNTS}/weightfs/llama " in line for line in file)

    def test_mount_appears_in_running_pods_and_is_removed_by_pre_stop(self):
        pod = self.container(self.reader)
        container = self.container(self.server)
        server = self.start(container)
        self.assertEqual([self.mounts(each) for each in (self.node, pod)], [1, 1])
        self.assertEqual(self.tensor(pod), self.tensors[1].data)
        done = self.run_in(container, self.server["lifecycle"]["preStop"]["exec"]["command"])
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(server.wait(LIMIT_S), 0)
        self.assertEqual([self.mounts(each) for each in (self.node, pod, container)], [0, 0, 0])

    def test_pre_stop_detaches_a_busy_mount(self):
        pod, container = self.container(self.reader), self.container(self.server)
        server = self.start(container)
        script = f"exec 3< {MOUNTS}/weightfs/llama/tensors/a; read go; cat <&3"
        reader = subprocess.Popen(["nsenter", f"--target={pod.pid}", "--mount", "sh", "-c", script], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, preexec_fn=ended_with_parent(signal.SIGKILL))
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)
        until(lambda: os.path.exists(f"/proc/{reader.pid}/fd/3"), "it does not open the file")
        done = self.run_in(container, self.server["lifecycle"]["preStop"]["exec"]["command"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([self.mounts(each) for each in (self.node, pod, container)], [0, 0, 0])
        self.assertIsNone(server.poll())
        self.assertEqual(reader.communicate(b"go\n", LIMIT_S)[0], self.tensors[1].data)
        self.assertEqual(server.wait(LIMIT_S), 0)

    def test_probe_fails_for_a_dead_server_and_a_new_container_replaces_its_mount(self):
        pod, container = self.container(self.reader), self.container(self.server)
        server = self.start(container)
        self.assertEqual(self.probe(container), 0)
        server.kill()
        server.wait(LIMIT_S)
        self.assertNotEqual(self.probe(container), 0)
        again = self.container(self.server)
        self.start(again)
        self.assertEqual(self.mounts(pod), 1)
        self.assertEqual(self.tensor(pod), self.tensors[1].data)

    def test_probe_fails_for_a_hanging_server_and_succeeds_without_the_registry(self):
        container = self.container(self.server)
        server = self.start(container)
        self.registry.stop()
        self.assertEqual(self.probe(container), 0)
        halt(server.pid)
        self.assertNotEqual(self.probe(container), 0)
        server.send_signal(signal.SIGCONT)
        self.assertEqual(self.probe(container), 0)


class InitContainers(KubernetesTestCase):
    """init-container.yaml."""

    def setUp(self):
        super().setUp()
        self.pod = manifests.pod_of(self.objects["init-container.yaml"])
        os.mkdir(self.path("model"))
        os.chmod(self.path("model"), 0o777)  # as an emptyDir

    def run_next(self, container):
        user = self.pod["securityContext"]
        model = {"/model": self.path("model")}
        variables = {each["name"]: self.adapted([each["value"]], **model)[0] for each in container["env"]}
        argv = [re.sub(r"^\$\((\w+)\)$", lambda name: variables[name[1]], word) for word in container["command"]]
        return subprocess.run(self.adapted(argv, **model), env=self.environment(**variables), cwd="/", user=user["runAsUser"],
                              group=user["runAsGroup"], extra_groups=[], capture_output=True, text=True, timeout=LIMIT_S)

    def copy(self):
        """The last container that ran: the first one that fails, or the last of the manifest."""
        for container in self.pod["initContainers"]:
            done = self.run_next(container)
            if done.returncode != 0:
                break
        return done

    def test_files_and_tensors_are_copied(self):
        for _ in range(2):  # the kubelet may run them again
            done = self.copy()
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(self.path("model"))), [".cache", "model.gguf", "token_embd.bin"])
        self.assertEqual(self.read("model", "model.gguf"), self.model)
        self.assertEqual(self.read("model", "token_embd.bin"), self.tensors[0].data)
        cache = [os.path.join(folder, name) for folder, _, names in os.walk(self.path("model", ".cache")) for name in names]
        self.assertLess(sum(os.path.getsize(file) for file in cache), SIZE)

    def test_wrong_digest_copies_nothing(self):
        digest = stores.sha256(self.model)
        with open(os.path.join(self.registry.content, "docker/registry/v2/blobs/sha256", digest[:2], digest, "data"),
                  "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(bytes([self.model[-1] ^ 1]))
        done = self.copy()
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual(set(os.listdir(self.path("model"))) - {".cache"}, set())


@unittest.skipUnless(os.geteuid() == 0, "only root can run the server as the user of the pod")
class Mirror(HubTestCase):
    """mirror.yaml, with the user of the pod, a read-only root, and a cache and a token with the group of the pod."""

    def setUp(self):
        super().setUp()
        self.need_mount_namespace()
        objects = manifests.read()
        self.pod = manifests.pod_of(objects["mirror.yaml: StatefulSet"])
        self.container, = self.pod["containers"]
        self.weights = noise(SIZE, seed=3)
        self.hub.add("Qwen/demo", {"model.safetensors": self.weights, "config.json": b"{}"})
        os.chmod(self.tmp, 0o755)
        group = self.pod["securityContext"]["fsGroup"]
        secret, = (each["secret"] for each in self.pod["volumes"] if "secret" in each)
        os.mkdir(self.path("volume"))
        os.mkdir(self.path("secret"))
        self.write("secret/token", b"secret\n")
        for name, mode in (("volume", 0o2775), ("secret/token", secret["defaultMode"])):
            os.chown(self.path(name), 0, group)
            os.chmod(self.path(name), mode)

    def adapted(self, word):
        for text, instead in {"--listen=:": "--listen=127.0.0.1:0", "=https://huggingface.co": f"={self.hub.url}",
                              "=450G": "=1G", "/etc/hub": self.path("secret"), "/var/cache/weightfs": self.path("volume")}.items():
            if text == "--listen=:" and word.startswith(text):
                return instead
            word = word.replace(text, instead)
        return word

    def start(self):
        user = self.pod["securityContext"]
        variables = [f"{each['name']}={self.adapted(each['value'])}" for each in self.container["env"]]
        command, *args = map(self.adapted, self.container["command"] + self.container["args"])
        self.assertEqual(command, "weightfs")
        mounted = 'mount --bind "$0" "$0" && for i in / /tmp; do ! mountpoint -q $i || mount -o remount,bind,ro $i; done && exec "$@"'
        confined = ["setpriv", f"--reuid={user['runAsUser']}", f"--regid={user['runAsGroup']}", f"--groups={user['fsGroup']}",
                    "--inh-caps=-all", "--no-new-privs", "env", "-i", *variables, WEIGHTFS]
        self.log = open(self.path("log"), "w+")
        self.addCleanup(self.log.close)
        self.process = subprocess.Popen(["unshare", "--mount", "--propagation=private", "sh", "-ec", mounted, self.path("volume"),
                                         *confined, *args], cwd="/", stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        preexec_fn=ended_with_parent(signal.SIGKILL))
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.url = self.process.stdout.readline().strip()
        self.assertTrue(self.url.startswith("http://127.0.0.1:"), self.read("log"))

    def status(self, path, **fields):
        """The status of a response, and its body."""
        request = urllib.request.Request(self.url + path.removeprefix("/"), headers=fields)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def probe(self, name, timeout=LIMIT_S):
        """Whether it succeeds: the kubelet takes a status from 200 to 399."""
        get = self.container[name]["httpGet"]
        request = urllib.request.Request(self.url + get["path"].removeprefix("/"),
                                         headers={each["name"]: each["value"] for each in get["httpHeaders"]})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status < 400
        except OSError:
            return False

    def assert_serves_weights(self, **fields):
        status, body = self.status("/Qwen/demo/resolve/main/model.safetensors", Authorization="Bearer secret", **fields)
        self.assertEqual((status, stores.sha256(body)), (200, stores.sha256(self.weights)), body[:300])

    def test_clients_with_the_token_read_what_is_permitted(self):
        self.start()
        self.assert_serves_weights()
        for name in (word.partition("=")[2] for word in self.container["args"] if word.startswith("--host=")):
            self.assert_serves_weights(Host=f"{name}:8421")
        self.assertEqual(self.status("/", Host="other:8421")[0], 421)
        self.assertEqual(self.status("/Qwen/demo/resolve/main/config.json")[0], 401)
        self.assertEqual(self.status("/api/models/other/demo", Authorization="Bearer secret")[0], 404)
        self.process.terminate()
        self.assertEqual(self.process.wait(self.pod["terminationGracePeriodSeconds"]), 0, self.read("log"))

    def test_probes_succeed_without_the_hub_and_fail_for_a_hanging_server(self):
        self.start()
        probes = [name for name in self.container if name.endswith("Probe")]
        self.assertEqual(len(probes), 3)
        self.assertEqual([self.probe(name) for name in probes], [True] * 3)
        self.assertEqual(self.hub.requests(), [])
        self.assert_serves_weights()
        self.hub.stop()
        self.assertEqual([self.probe(name) for name in probes], [True] * 3)
        halt(self.process.pid)
        self.assertFalse(self.probe("livenessProbe", timeout=1))
        self.process.send_signal(signal.SIGCONT)
        self.assertTrue(self.probe("livenessProbe"))

    def test_new_pod_continues_with_the_cache(self):
        self.start()
        self.assert_serves_weights()
        self.process.terminate()
        self.process.wait(LIMIT_S)
        sent = self.hub.bytes("cdn")
        self.start()
        self.assert_serves_weights()
        self.assertEqual(self.hub.bytes("cdn"), sent)


if __name__ == "__main__":
    unittest.main()
