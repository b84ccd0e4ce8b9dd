"""The manifests of packaging/kubernetes."""
import glob
import os
import unittest

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "packaging", "kubernetes")


def read():
    """{name of the file: its object, or "FILE: KIND" for each of several}; skips the test without PyYAML."""
    try:
        import yaml
    except ImportError:
        raise unittest.SkipTest("needs python3-yaml (see scripts/dependencies)")
    objects = {}
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.yaml"))):
        with open(path) as file:
            found = list(yaml.safe_load_all(file))
        name = os.path.basename(path)
        objects.update({name if len(found) == 1 else f"{name}: {each['kind']}": each for each in found})
    return objects


def pod_of(thing):
    """The pod of an object, or of its template; empty for one without pods."""
    if thing["kind"] == "Pod":
        return thing["spec"]
    return thing["spec"].get("template", {}).get("spec", {})


def containers_of(thing):
    pod = pod_of(thing)
    return pod.get("initContainers", []) + pod.get("containers", [])


def container(objects, file, name):
    found, = [each for each in containers_of(objects[file]) if each["name"] == name]
    return found
