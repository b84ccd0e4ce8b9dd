"""The manifests of packaging/kubernetes."""
import glob
import os
import unittest

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "packaging", "kubernetes")


def read():
    """{name of the file: its object}; skips the test without PyYAML."""
    try:
        import yaml
    except ImportError:
        raise unittest.SkipTest("needs python3-yaml (see scripts/dependencies)")
    objects = {}
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.yaml"))):
        with open(path) as file:
            objects[os.path.basename(path)] = yaml.safe_load(file)
    return objects


def pod_of(thing):
    return thing["spec"]["template"]["spec"] if thing["kind"] == "DaemonSet" else thing["spec"]


def containers_of(thing):
    pod = pod_of(thing)
    return pod.get("initContainers", []) + pod["containers"]


def container(objects, file, name):
    found, = [each for each in containers_of(objects[file]) if each["name"] == name]
    return found
