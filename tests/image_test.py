"""The image of scripts/package --image: its layout, and the program in its root.

The image is packed from a directory like that of the portable program, with the program of $WEIGHTFS. If that is not static, the
test mounts the libraries of this machine into the root.
"""
import gzip
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEIGHTFS = os.path.abspath(os.environ.get("WEIGHTFS", "build/dev/weightfs"))
LIMIT_S = 120
EPOCH = 1_700_000_000
OCI = "application/vnd.oci.image"
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from containers import write_safetensors  # noqa: E402
from tensors import Tensor  # noqa: E402

FILES = {"etc/group", "etc/passwd", "etc/ssl/certs/ca-certificates.crt", "usr/bin/weightfs", "usr/share/doc/weightfs/LICENSE",
         "usr/share/doc/weightfs/NOTICE", "usr/share/doc/weightfs/licences/ca-certificates",
         "usr/share/doc/weightfs/licences/weightfs"}
MODES = {"root": 0o700, "tmp": 0o1777, "var/cache": 0o1777, "var/tmp": 0o1777, "usr/bin/weightfs": 0o755}
NEEDS_LIBRARIES = " => " in subprocess.run(["ldd", WEIGHTFS], capture_output=True, text=True).stdout
LIBRARIES = ("lib", "lib64", "usr/lib") if NEEDS_LIBRARIES else ()

# In a private mount namespace: the root with the libraries, devices and processes of this machine. Then the image's command.
ENTER = """
root=$1 user=$2; shift 2
for each in lib lib64 usr/lib dev; do [ ! -e "$root/$each" ] || [ ! -e "/$each" ] || mount --rbind "/$each" "$root/$each"; done
mount -t proc proc "$root/proc"
exec /usr/sbin/chroot --userspec="$user" "$root" "$@"
"""


def digest_of(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class ImageTestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="weightfs-image-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        os.chmod(cls.folder, 0o755)
        cls.archive = cls.pack("x86_64", WEIGHTFS)

    @classmethod
    def pack(cls, machine, program):
        """The path of an image that is made of this program."""
        root = os.path.join(cls.folder, f"weightfs-0.2.0-linux-{machine}")
        os.makedirs(os.path.join(root, "licences"), exist_ok=True)
        shutil.copy(program, os.path.join(root, "weightfs"))
        shutil.copy(os.path.join(ROOT, "LICENSE"), root)
        shutil.copy(os.path.join(ROOT, "packaging", "copyright"), os.path.join(root, "licences", "weightfs"))
        with open(os.path.join(root, "NOTICE"), "w") as file:
            file.write("libraries\n")
        done = subprocess.run([os.path.join(ROOT, "packaging", "image"), root, cls.folder], capture_output=True, text=True,
                              timeout=LIMIT_S, env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)})
        if done.returncode:
            raise AssertionError(done.stderr)
        return done.stdout.strip()

    @staticmethod
    def read(archive):
        """{name: bytes} of an archive."""
        with tarfile.open(archive) as tar:
            return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}


class Layout(ImageTestCase):
    def setUp(self):
        self.files = self.read(self.archive)
        self.index = json.loads(self.files["index.json"])
        self.described = []
        self.manifest = json.loads(self.blob(self.index["manifests"][0]))
        self.config = json.loads(self.blob(self.manifest["config"]))

    def blob(self, descriptor):
        """The bytes of a blob, which have the digest and the size of its descriptor."""
        name = f"blobs/{descriptor['digest'].replace(':', '/')}"
        self.described.append(name)
        data = self.files[name]
        self.assertEqual((digest_of(data), len(data)), (descriptor["digest"], descriptor["size"]))
        return data

    def layer(self):
        descriptor, = self.manifest["layers"]
        return gzip.decompress(self.blob(descriptor))

    def test_every_blob_is_described(self):
        self.assertEqual(json.loads(self.files["oci-layout"]), {"imageLayoutVersion": "1.0.0"})
        self.assertEqual(digest_of(self.layer()), *self.config["rootfs"]["diff_ids"])
        self.assertEqual(self.files.keys(), {*self.described, "index.json", "manifest.json", "oci-layout"})
        self.assertEqual([each["mediaType"] for each in (self.index, self.manifest, self.manifest["config"],
                                                         *self.manifest["layers"])],
                         [f"{OCI}.{each}" for each in ("index.v1+json", "manifest.v1+json", "config.v1+json",
                                                       "layer.v1.tar+gzip")])

    def test_manifest_of_docker_has_the_same_blobs(self):
        image, = json.loads(self.files["manifest.json"])
        self.assertEqual(image["RepoTags"], ["weightfs:0.2.0"])
        names = [f"blobs/{each['digest'].replace(':', '/')}" for each in (self.manifest["config"], *self.manifest["layers"])]
        self.assertEqual([image["Config"], *image["Layers"]], names)

    def test_config_states_the_platform_and_the_command(self):
        self.assertEqual((self.config["os"], self.config["architecture"]), ("linux", "amd64"))
        self.assertEqual(self.index["manifests"][0]["platform"], {"os": "linux", "architecture": "amd64"})
        self.assertEqual((self.config["config"]["Entrypoint"], self.config["config"]["Cmd"]), (["/usr/bin/weightfs"], ["--help"]))
        labels = self.config["config"]["Labels"]
        self.assertEqual((labels["org.opencontainers.image.version"], labels["org.opencontainers.image.created"]),
                         ("0.2.0", "2023-11-14T22:13:20Z"))

    def test_layer_has_these_files_only(self):
        path = os.path.join(self.folder, "layer.tar")
        with open(path, "wb") as file:
            file.write(self.layer())
        with tarfile.open(path) as tar:
            members = tar.getmembers()
        self.assertEqual({each.name for each in members if not each.isdir()}, FILES)
        self.assertEqual({each.name for each in members if each.type not in (tarfile.REGTYPE, tarfile.DIRTYPE)}, set())
        names = [each.name for each in members]
        self.assertEqual(names, sorted(names))
        for each in members:
            with self.subTest(each.name):
                self.assertEqual(each.mode, MODES.get(each.name, 0o755 if each.isdir() else 0o644))
                self.assertEqual((each.uid, each.gid, each.uname, each.gname, each.mtime), (0, 0, "", "", EPOCH))
                self.assertIn(os.path.dirname(each.name), {"", *names[:names.index(each.name)]})

    def test_two_builds_are_equal(self):
        with open(self.archive, "rb") as file:
            first = file.read()
        with open(self.pack("x86_64", WEIGHTFS), "rb") as file:
            self.assertEqual(digest_of(file.read()), digest_of(first))

    def test_image_for_arm64_has_its_architecture(self):
        files = self.read(self.pack("aarch64", __file__))
        platform = json.loads(files["index.json"])["manifests"][0]["platform"]
        self.assertEqual(platform, {"os": "linux", "architecture": "arm64", "variant": "v8"})

    def test_other_directory_is_refused(self):
        done = subprocess.run([os.path.join(ROOT, "packaging", "image"), self.folder, self.folder], capture_output=True, text=True,
                              timeout=LIMIT_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected a directory named weightfs-VERSION-linux-ARCH", done.stderr)


@unittest.skipUnless(os.geteuid() == 0, "only root can enter the root of the image")
class Program(ImageTestCase):
    """The program in the root of the image, with the environment of its config."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        files = cls.read(cls.archive)
        image, = json.loads(files["manifest.json"])
        cls.config = json.loads(files[image["Config"]])["config"]
        cls.root = os.path.join(cls.folder, "root")
        layer = os.path.join(cls.folder, "layer.tar.gz")
        with open(layer, "wb") as file:
            file.write(files[image["Layers"][0]])
        os.mkdir(cls.root)
        subprocess.run(["tar", "--extract", "--preserve-permissions", "--file", layer, "--directory", cls.root], check=True,
                       timeout=LIMIT_S)
        for name in (*LIBRARIES, "dev", "models", "proc"):
            os.makedirs(os.path.join(cls.root, name), exist_ok=True)
        write_safetensors(os.path.join(cls.root, "models", "m.safetensors"), [Tensor("a", "float32", (2,), bytes(8))])
        shutil.make_archive(os.path.join(cls.root, "models", "m"), "gztar", os.path.join(cls.root, "models"), "m.safetensors")

    def argv(self, *argv, user="0:0"):
        variables = [*self.config["Env"], "HOME=/root"]
        return ["env", "-i", *variables, "/usr/bin/unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec", ENTER, "sh",
                self.root, user, *(argv or self.config["Entrypoint"] + self.config["Cmd"])]

    def run_inside(self, *argv, **kwargs):
        return subprocess.run(self.argv(*argv, **kwargs), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)

    def output(self, *argv, **kwargs):
        done = self.run_inside(*argv, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_default_command_prints_the_help(self):
        self.assertIn("Usage: weightfs", self.output())

    def test_info_and_certificates(self):
        self.assertIn("safetensors", self.output("weightfs", "info", "/models/m.safetensors"))
        checks = {each["check"]: each for each in json.loads(self.run_inside("weightfs", "doctor", "--json").stdout)}
        self.assertEqual((checks["certificates"]["verdict"], checks["certificates"]["found"]),
                         ("ok", "/etc/ssl/certs/ca-certificates.crt"))

    def test_each_user_has_a_cache(self):
        cache = os.path.join(self.root, "var/cache/weightfs")
        for user in (0, 1000):
            with self.subTest(user=user):
                shutil.rmtree(cache, ignore_errors=True)
                self.assertIn("m.safetensors", self.output("weightfs", "ls", "/models/m.tar.gz", "files", user=f"{user}:{user}"))
                found = os.stat(cache)
                self.assertEqual((found.st_uid, stat.S_IMODE(found.st_mode)), (user, 0o700))

    def test_root_mounts_without_fusermount(self):
        if not os.path.exists("/dev/fuse"):
            self.skipTest("no /dev/fuse")
        script = self.argv("weightfs", "mount", "/models/m.safetensors", "/mnt/m")
        point = os.path.join(self.root, "mnt", "m")
        # The commands after the first one are in the same namespace, and the first is not the last.
        script[script.index(ENTER)] = ENTER.replace("exec ", "") + f"""
        cat "{point}/tensors/a" | wc -c
        /usr/sbin/chroot "$root" weightfs mounts /mnt/m
        /usr/sbin/chroot "$root" weightfs umount /mnt/m
        [ ! -e "{point}" ]"""
        done = subprocess.run(script, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"\A8\nmounted_on\t.*\n/mnt/m\t.*\tserving\n\Z")

    def test_serve_listens_for_other_machines(self):
        server = subprocess.Popen(self.argv("weightfs", "serve", "--listen", "0.0.0.0:0", "--no-auth", "/models/m.safetensors"),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait, LIMIT_S)
        self.addCleanup(server.terminate)
        port = re.fullmatch(r"http://0\.0\.0\.0:(\d+)/\n", server.stdout.readline())[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metadata.json", timeout=LIMIT_S) as response:
            self.assertEqual(json.load(response)["format"], "safetensors")


if __name__ == "__main__":
    unittest.main()
