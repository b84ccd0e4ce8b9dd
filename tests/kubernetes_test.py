"""The manifests in packaging/kubernetes: their structure, and the options of weightfs that they use.

tests/mount/test_kubernetes.py runs their commands.
"""
import glob
import json
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEIGHTFS = os.path.abspath(os.environ.get("WEIGHTFS", "build/dev/weightfs"))
LIMIT_S = 60

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
import manifests  # noqa: E402
import npm_packages  # noqa: E402

# The fields that the manifests use, of the API of Kubernetes 1.28: names, or {name: fields of its value}.
EXEC = {"exec": {"command": None}}
GET = {"httpGet": {"path": None, "port": None, "httpHeaders": {"name": None, "value": None}}}
PROBE = {**EXEC, **GET, "periodSeconds": None, "timeoutSeconds": None, "failureThreshold": None}
METADATA = {"name": None, "labels": "names"}
CONTAINER = {
    "name": None, "image": None, "command": None, "args": None, "env": {"name": None, "value": None},
    "securityContext": {"privileged": None, "allowPrivilegeEscalation": None, "readOnlyRootFilesystem": None,
                        "capabilities": {"drop": None}},
    "resources": {"requests": "names", "limits": "names"}, "startupProbe": PROBE, "readinessProbe": PROBE, "livenessProbe": PROBE,
    "lifecycle": {"preStop": EXEC}, "ports": {"name": None, "containerPort": None},
    "volumeMounts": {"name": None, "mountPath": None, "mountPropagation": None, "readOnly": None}}
POD = {
    "automountServiceAccountToken": None, "terminationGracePeriodSeconds": None, "restartPolicy": None,
    "securityContext": {"runAsNonRoot": None, "runAsUser": None, "runAsGroup": None, "fsGroup": None, "fsGroupChangePolicy": None,
                        "seccompProfile": {"type": None}},
    "initContainers": CONTAINER, "containers": CONTAINER,
    "volumes": {"name": None, "hostPath": {"path": None, "type": None}, "emptyDir": {"sizeLimit": None},
                "secret": {"secretName": None, "optional": None, "defaultMode": None, "items": {"key": None, "path": None}}}}
CLAIM = {"metadata": METADATA, "spec": {"accessModes": None, "resources": {"requests": "names"}}}
HEAD = {"apiVersion": None, "kind": None, "metadata": METADATA}
KINDS = {"Pod": {**HEAD, "spec": POD},
         "DaemonSet": {**HEAD, "spec": {"selector": {"matchLabels": "names"}, "updateStrategy": {"type": None},
                                        "template": {"metadata": METADATA, "spec": POD}}},
         "StatefulSet": {**HEAD, "spec": {"serviceName": None, "replicas": None, "selector": {"matchLabels": "names"},
                                          "template": {"metadata": METADATA, "spec": POD}, "volumeClaimTemplates": CLAIM}},
         "Service": {**HEAD, "spec": {"selector": "names", "ports": {"name": None, "port": None, "targetPort": None}}}}
VERSIONS = {"Pod": "v1", "Service": "v1", "DaemonSet": "apps/v1", "StatefulSet": "apps/v1"}

KUBERNETES_MODELS = "kubernetes-models@4.5.1"

# Validates an object with the schemas of the npm package kubernetes-models, which have no list of all fields.
VALIDATOR = """
const object = JSON.parse(require('fs').readFileSync(0));
new (require('kubernetes-models/' + object.apiVersion)[object.kind])(object).validate();
"""


def unknown_fields(value, fields, path):
    if isinstance(value, list):
        return [found for each in value for found in unknown_fields(each, fields, path)]
    if isinstance(value, dict):
        if fields == "names":
            return []
        if fields is None:
            return [path]
        return [found for name, each in value.items()
                for found in (unknown_fields(each, fields[name], f"{path}.{name}") if name in fields else [f"{path}.{name}"])]
    return [path] if isinstance(fields, dict) else []


def weightfs(*argv):
    return subprocess.run([WEIGHTFS, *argv], check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout


def commands_in(container):
    """The commands of a container and of its probes: lists of words."""
    yield container.get("command", []) + container.get("args", [])
    yield from (container[probe]["exec"]["command"] for probe in container
                if probe.endswith("Probe") and "exec" in container[probe])
    if "lifecycle" in container:
        yield container["lifecycle"]["preStop"]["exec"]["command"]


class Manifests(unittest.TestCase):
    def setUp(self):
        self.objects = manifests.read()

    def containers(self):
        return [(name, each) for name, thing in self.objects.items() for each in manifests.containers_of(thing)]

    def test_fields_are_known(self):
        self.assertGreaterEqual(len(self.objects), 3)
        for name, thing in self.objects.items():
            self.assertEqual(thing["apiVersion"], VERSIONS[thing["kind"]])
            self.assertEqual(unknown_fields(thing, KINDS[thing["kind"]], name), [])

    def test_manifests_have_the_schema_of_kubernetes(self):
        folder = npm_packages.folder_with(KUBERNETES_MODELS)
        if folder is None:
            self.skipTest("no npm packages")
        for name, thing in self.objects.items():
            with self.subTest(name):
                done = subprocess.run(["node", "-e", VALIDATOR], cwd=folder, input=json.dumps(thing), capture_output=True,
                                      text=True, timeout=LIMIT_S)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_schema_rejects_wrong_manifests(self):
        for wrong in ({"spec": {"containers": [{"nam": "x"}]}}, {"spec": {"volumes": [{"emptyDir": []}, "x"]}}, {"metadata": "x"}):
            self.assertNotEqual(unknown_fields(wrong, KINDS["Pod"], "x"), [], wrong)

    def test_volumes_of_containers_exist(self):
        for name, thing in self.objects.items():
            volumes = {each["name"] for each in manifests.pod_of(thing).get("volumes", [])}
            volumes |= {each["metadata"]["name"] for each in thing["spec"].get("volumeClaimTemplates", [])}
            used = {mount["name"] for each in manifests.containers_of(thing) for mount in each["volumeMounts"]}
            self.assertEqual(used, volumes, name)

    def test_labels_select_the_pods(self):
        for name in ("daemonset.yaml", "mirror.yaml: StatefulSet"):
            spec = self.objects[name]["spec"]
            self.assertEqual(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"], name)

    def test_service_reaches_the_port_of_the_mirror(self):
        service, owner = (self.objects[f"mirror.yaml: {kind}"] for kind in ("Service", "StatefulSet"))
        container, = manifests.containers_of(owner)
        self.assertEqual(service["spec"]["selector"], owner["spec"]["template"]["metadata"]["labels"])
        self.assertEqual(service["metadata"]["name"], owner["spec"]["serviceName"])
        self.assertIn(f"--host={service['metadata']['name']}", container["args"])
        port, = container["ports"]
        self.assertEqual([each["targetPort"] for each in service["spec"]["ports"]], [port["name"]])
        self.assertIn(f"--listen=:{port['containerPort']}", container["args"])
        probes = {container[name]["httpGet"]["port"] for name in container if name.endswith("Probe")}
        self.assertEqual(probes, {port["name"]})

    def test_claim_is_larger_than_the_cache_of_the_mirror(self):
        owner = self.objects["mirror.yaml: StatefulSet"]
        container, = manifests.containers_of(owner)
        claim, = owner["spec"]["volumeClaimTemplates"]
        limit, = (int(re.fullmatch(r"--cache-size=(\d+)G", word)[1]) for word in container["args"] if "cache-size" in word)
        room = re.fullmatch(r"(\d+)Gi", claim["spec"]["resources"]["requests"]["storage"])
        self.assertGreater(int(room[1]), limit)

    def test_containers_without_mounts_are_confined(self):
        for name, each in self.containers():
            pod = manifests.pod_of(self.objects[name])
            if "/weightfs:" in each["image"] and not each.get("securityContext", {}).get("privileged"):
                self.assertEqual(each["securityContext"], {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                           "capabilities": {"drop": ["ALL"]}}, name)
                self.assertTrue(pod["securityContext"]["runAsNonRoot"], name)
                self.assertIs(pod["automountServiceAccountToken"], False, name)

    def test_only_containers_that_mount_are_privileged(self):
        for name, each in self.containers():
            mounts = any(mount.get("mountPropagation") == "Bidirectional" for mount in each["volumeMounts"])
            self.assertEqual(each.get("securityContext", {}).get("privileged", False), mounts, name)

    def test_consumer_reads_the_mount_of_the_daemon_set(self):
        folders = [volume["hostPath"]["path"] for name in ("daemonset.yaml", "consumer.yaml")
                   for volume in manifests.pod_of(self.objects[name])["volumes"] if volume["name"] in ("mounts", "models")]
        self.assertEqual(len(set(folders)), 1)

    def test_image_needs_nothing_but_the_program(self):
        for name, each in self.containers():
            if "/weightfs:" in each["image"]:
                self.assertEqual({words[0] for words in commands_in(each)}, {"weightfs"}, name)

    def test_verbs_and_options_exist(self):
        calls = [(name, words[1:]) for name, each in self.containers() for words in commands_in(each) if words[0] == "weightfs"]
        self.assertEqual({call[0] for _, call in calls}, {"mount", "mounts", "umount", "fetch", "cat", "cache", "serve"})
        for name, (verb, *words) in calls:
            if verb == "cache":
                verb, *words = f"cache {words[0]}", *words[1:]
            with self.subTest(name, verb=verb):
                options = {
                    option for names in re.findall(r"(?m)^  (-\S+)", weightfs(*verb.split(), "--help"))
                    for option in names.split(",")
                }
                used = {word.partition("=")[0] for word in words if word.startswith("-")}
                self.assertEqual(used - options, set())


class Page(unittest.TestCase):
    def test_page_names_every_manifest(self):
        with open(os.path.join(ROOT, "docs", "kubernetes.md")) as page:
            named = set(re.findall(r"packaging/kubernetes/([\w-]+\.yaml)", page.read()))
        self.assertEqual(named, {os.path.basename(path) for path in glob.glob(os.path.join(manifests.FOLDER, "*.yaml"))})


if __name__ == "__main__":
    unittest.main()
