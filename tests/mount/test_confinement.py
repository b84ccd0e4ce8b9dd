"""Files of a user's directory that root shows to other users, and symbolic links out of a SOURCE (semantics 19)."""
import contextlib
import ctypes
import json
import signal
import stat
import threading

from mounting import (LIMIT_S, NOBODY, WEIGHTFS, Tensor, UsersTestCase, as_nobody, containers, os, run, shutil, subprocess,
                      unittest, until)
from scripted_server import Server
from stores import Store, put_in_hub_cache

SECRET = b"THESE-BYTES-LIE-OUTSIDE-OF-SOURCE"
NOT_FOLLOWED = "a symbolic link out of SOURCE is not followed; its owner is not the mounting user; use --follow-links"
NOT_READABLE = f"not readable by the owner of SOURCE (uid {NOBODY.pw_uid})"
LIBC = ctypes.CDLL(None, use_errno=True)
RENAME_EXCHANGE = 2


def exchange(one, other):
    LIBC.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), RENAME_EXCHANGE)


class ConfinementTestCase(UsersTestCase):
    """home/models belongs to the user nobody and has a model of that user; private/ is readable by root only."""

    def setUp(self):
        super().setUp()
        self.models = self.path("home", "models")
        os.makedirs(self.models)
        os.makedirs(self.path("private"))
        self.secret = self.model("private", "secret.safetensors", data=SECRET)
        os.chmod(self.secret, 0o600)
        os.chmod(self.path("private"), 0o700)
        self.model("home", "models", "a.safetensors", data=b"honest")
        self.change_owner()

    def model(self, *names, data, tensor="w"):
        path = self.path(*names)
        containers.write_safetensors(path, [Tensor(tensor, "uint8", (len(data),), data)])
        return path

    def change_owner(self):
        """Changes the owner of everything in home, also of links, to the user nobody."""
        for base, directories, names in os.walk(self.path("home")):
            for name in [".", *directories, *names]:
                os.chown(os.path.join(base, name), NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)

    def link(self, target, *names):
        os.symlink(target, self.path("home", "models", *names))
        os.chown(self.path("home", "models", *names), NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)

    def serve(self, *options, source=None):
        self.process, self.mnt = self.foreground(*options, source or self.models)
        return self.mnt

    def for_others(self, *options, source=None):
        return self.serve("--allow-other", *options, source=source)

    def log(self):
        """The output of the server after it has exited."""
        self.process.terminate()
        return self.process.communicate(timeout=LIMIT_S)[1]

    def everything(self):
        """All bytes of all files of the mount that can be read."""
        found = b""
        for base, _, names in os.walk(self.mnt):
            for name in names:
                with contextlib.suppress(OSError), open(os.path.join(base, name), "rb") as file:
                    found += file.read()
        return found

    def assert_confined(self, line):
        """No byte from outside is served, the regular model is served, and the log has one line with this end."""
        found = self.everything()
        self.assertNotIn(SECRET, found)
        self.assertIn(b"honest", found)
        log = self.log()
        self.assertEqual(len([each for each in log.splitlines() if line in each]), 1, log)
        self.assertNotIn(SECRET.decode(), log)


class RootForOthers(ConfinementTestCase):
    """sudo weightfs mount --allow-other: a user sees no file of root that this user cannot read directly."""

    def test_link_to_etc_shadow_is_not_shown(self):
        self.link("/etc/shadow", "x.bin")
        mnt = self.for_others("--all")
        self.assertEqual(os.listdir(f"{mnt}/files"), ["a.safetensors"])
        self.assert_confined(f"{self.models}/x.bin: {NOT_FOLLOWED}")

    def test_link_to_etc_shadow_is_not_shown_among_several_models(self):
        self.link("/etc/shadow", "x.bin")
        self.model("home", "models", "b.safetensors", data=b"honest")
        mnt = self.for_others("--all")
        self.assertEqual(sorted(os.listdir(mnt)), ["a.safetensors", "b.safetensors"])
        self.assert_confined(f"{self.models}/x.bin: {NOT_FOLLOWED}")

    def test_link_to_a_model_of_root_is_not_readable(self):
        self.link(self.secret, "b.safetensors")
        mnt = self.for_others()
        with self.assertRaises(OSError):
            os.listdir(f"{mnt}/b.safetensors")
        self.assert_confined(f"{self.models}/b.safetensors: {NOT_FOLLOWED}")

    def test_link_to_a_directory_of_root_is_not_shown(self):
        self.link("../../private", "sub")
        mnt = self.for_others("--all")
        self.assertEqual(os.listdir(f"{mnt}/files"), ["a.safetensors"])
        self.assert_confined(NOT_FOLLOWED)

    def test_chain_of_links_is_not_followed(self):
        self.link("second", "x.bin")
        self.link("../../private/secret.safetensors", "second")
        self.for_others("--all")
        self.assert_confined(f"x.bin: {NOT_FOLLOWED}")

    def test_hard_link_to_a_file_of_root_is_refused(self):
        os.link(self.secret, self.path("home", "models", "hard.safetensors"))
        mnt = self.for_others("--all")
        with self.assertRaises(OSError):
            os.listdir(f"{mnt}/hard.safetensors")
        self.assert_confined(NOT_READABLE)

    def test_file_readable_by_root_only_is_refused(self):
        shutil.copy(self.secret, self.path("home", "models", "copy.bin"))
        os.chmod(self.path("home", "models", "copy.bin"), 0o600)
        self.for_others("--all")
        self.assert_confined(NOT_READABLE)

    def test_file_readable_by_group_of_root_is_refused(self):
        os.chmod(self.secret, 0o640)
        os.link(self.secret, self.path("home", "models", "hard.bin"))
        self.for_others("--all")
        self.assert_confined(NOT_READABLE)

    def test_private_directory_of_root_is_not_listed(self):
        os.mkdir(self.path("home", "models", "sub"), 0o700)
        self.model("home", "models", "sub", "b.safetensors", data=SECRET)
        mnt = self.for_others()
        with self.assertRaises(OSError):
            os.listdir(f"{mnt}/sub")
        self.assertNotIn(SECRET, self.everything())

    def test_world_readable_files_are_shown_regardless_of_owner(self):
        self.model("home", "models", "b.safetensors", data=b"of root, for all")
        self.for_others()
        self.assertIn(b"of root, for all", self.everything())

    def test_private_files_of_the_owner_are_shown(self):
        os.chmod(self.path("home", "models", "a.safetensors"), 0o400)
        os.chmod(self.models, 0o700)
        self.for_others()
        self.assertIn(b"honest", self.everything())

    def test_fifos_and_devices_are_skipped(self):
        os.mkfifo(self.path("home", "models", "fifo.safetensors"))
        os.mknod(self.path("home", "models", "zero.safetensors"), stat.S_IFCHR | 0o666, os.makedev(1, 5))
        self.link("/dev/zero", "device.safetensors")
        self.assertEqual(sorted(os.listdir(self.for_others("--all"))), ["a.safetensors", "device.safetensors"])
        self.assert_confined(f"device.safetensors: {NOT_FOLLOWED}")

    def test_shard_linked_outside_is_refused_and_others_are_read(self):
        folder = self.path("home", "models", "sharded")
        os.mkdir(folder)
        containers.write_safetensors_shards(folder, [[Tensor("one", "uint8", (3,), b"111")], [Tensor("w", "uint8", (3,), b"222")]])
        os.unlink(f"{folder}/model-00002-of-00002.safetensors")
        self.link(self.secret, "sharded", "model-00002-of-00002.safetensors")
        self.link("/etc/shadow", "sharded", "tokenizer.json")
        self.change_owner()
        mnt = self.for_others()
        self.assertEqual(self.read("mnt", "sharded", "tensors", "one"), b"111")
        self.assertIn(NOT_FOLLOWED, self.read("mnt", "sharded", "warnings.txt").decode())
        self.assertNotIn("tokenizer.json", os.listdir(f"{mnt}/sharded/files"))
        self.assert_confined(f"tokenizer.json: {NOT_FOLLOWED}")

    def test_siblings_of_a_named_index_are_confined(self):
        folder = self.path("home", "models", "sharded")
        os.mkdir(folder)
        containers.write_safetensors_shards(folder, [[Tensor("one", "uint8", (3,), b"111")], [Tensor("w", "uint8", (3,), b"222")]])
        os.unlink(f"{folder}/model-00002-of-00002.safetensors")
        self.link(self.secret, "sharded", "model-00002-of-00002.safetensors")
        self.change_owner()
        self.for_others(source=f"{folder}/model.safetensors.index.json")
        self.assertEqual(self.read("mnt", "tensors", "one"), b"111")
        self.assertNotIn(SECRET, self.everything())

    def test_source_link_has_the_rights_of_its_owner(self):
        self.link(self.secret, "b.safetensors")
        done = run("mount", "--allow-other", f"{self.models}/b.safetensors", self.path("mnt"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(NOT_READABLE, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_link_on_the_source_path_has_the_rights_of_its_owner(self):
        self.link("../../private", "sub")
        done = run("mount", "--allow-other", f"{self.models}/sub", self.path("mnt"))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(NOT_READABLE, done.stderr)
        self.assertNotIn(SECRET.decode(), done.stderr)

    def test_links_inside_the_source_are_followed(self):
        self.link("a.safetensors", "link.safetensors")
        self.link(f"{self.models}/a.safetensors", "absolute.safetensors")
        self.for_others()
        for name in ("link.safetensors", "absolute.safetensors"):
            self.assertEqual(self.read("mnt", name, "tensors", "w"), b"honest")
        self.assertEqual(self.log(), "")

    def test_follow_links_is_limited_to_files_readable_by_the_owner(self):
        self.model("public.safetensors", data=b"for all")
        self.link("../../public.safetensors", "b.safetensors")
        self.link(self.secret, "c.safetensors")
        for option in (["--follow-links"], ["-o", "follow_links"]):
            self.for_others(*option)
            self.assertEqual(self.read("mnt", "b.safetensors", "tensors", "w"), b"for all")
            self.assert_confined(NOT_READABLE)

    def test_fstab_mount_is_confined_like_the_command(self):
        self.link("/etc/shadow", "x.bin")
        os.link(self.secret, self.path("home", "models", "hard.bin"))
        helper = self.path("mount.weightfs")
        os.symlink(WEIGHTFS, helper)
        self.mnt = self.path("mnt")
        self.addCleanup(self.force_unmount, self.mnt)
        done = subprocess.run([helper, self.models, self.mnt, "-o", "rw,allow_other,all"], capture_output=True, text=True,
                              timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("x.bin", os.listdir(self.mnt))
        found = self.everything()
        self.assertNotIn(SECRET, found)
        self.assertIn(b"honest", found)
        self.unmount(self.mnt)

    def test_files_added_after_mounting_are_confined(self):
        os.mkdir(self.path("home", "models", "later"))
        self.model("home", "models", "later", "c.safetensors", data=b"honest")
        self.change_owner()
        mnt = self.for_others("--all")
        self.link(self.secret, "later", "b.safetensors")
        os.link(self.secret, self.path("home", "models", "later", "hard.bin"))
        os.listdir(f"{mnt}/later")
        self.assert_confined(NOT_FOLLOWED)

    def test_replaced_source_path_keeps_the_original_source(self):
        self.model("home", "models", "later.safetensors", data=b"as named")
        self.for_others()
        os.rename(self.models, self.path("home", "moved"))
        os.symlink("../private", self.models)
        found = self.everything()
        self.assertIn(b"as named", found)
        self.assertNotIn(SECRET, found)


class RootAlone(ConfinementTestCase):
    """A mount of root without other users: a user's links are not followed, a user's files are read."""

    def test_link_of_a_user_to_outside_is_not_followed(self):
        self.link(self.secret, "b.safetensors")
        self.serve("--all")
        self.assert_confined(f"{self.models}/b.safetensors: {NOT_FOLLOWED}")

    def test_link_of_root_is_followed(self):
        os.symlink(self.secret, self.path("home", "models", "b.safetensors"))
        self.serve()
        self.assertEqual(self.read("mnt", "b.safetensors", "tensors", "w"), SECRET)

    def test_files_of_root_are_read(self):
        os.link(self.secret, self.path("home", "models", "b.safetensors"))
        self.serve()
        self.assertEqual(self.read("mnt", "b.safetensors", "tensors", "w"), SECRET)

    def test_all_reading_commands_apply_follow_links(self):
        self.link(self.secret, "b.safetensors")
        for argv in (["cat", self.models, "b.safetensors/tensors/w"], ["ls", self.models, "b.safetensors"], ["verify",
                                                                                                             self.models]):
            done = run(*argv)
            self.assertNotEqual(done.returncode, 0, argv)
            self.assertIn(NOT_FOLLOWED, done.stderr + done.stdout)
            self.assertNotIn(SECRET.decode(), done.stdout)
        for verb in ("info", "verify", "ls", "fetch"):
            self.assertEqual(run(verb, "--follow-links", self.models).returncode, 0)
        self.assertEqual(run("cat", "--follow-links", self.models, "b.safetensors/tensors/w").stdout, SECRET.decode())

    def test_directory_replaced_by_a_link_exposes_nothing(self):
        os.mkdir(self.path("home", "models", "sub"))
        self.model("home", "models", "sub", "secret.safetensors", data=b"inside")
        self.link("../../private", "trap")
        self.change_owner()
        ended = threading.Event()

        def attack():
            while not ended.is_set():
                exchange(self.path("home", "models", "sub"), self.path("home", "models", "trap"))

        thread = threading.Thread(target=attack)
        thread.start()
        try:
            for _ in range(40):
                done = subprocess.run(
                    [WEIGHTFS, "cat", self.models, "sub/secret.safetensors/tensors/w", "trap/secret.safetensors/tensors/w"],
                    capture_output=True, timeout=LIMIT_S)
                self.assertNotIn(SECRET, done.stdout)
        finally:
            ended.set()
            thread.join()


class Stores(ConfinementTestCase):
    """manifests/ and blobs/ of a user's store, read by root."""

    def setUp(self):
        super().setUp()
        self.store = Store(self.path("home", "store"))
        self.blob = self.store.put_blob(SECRET)
        layer = {
            "mediaType": "application/vnd.ollama.image.license", "digest": f"sha256:{os.path.basename(self.blob)[7:]}",
            "size": len(SECRET)
        }
        self.manifest = self.store.put_manifest("m/latest", json.dumps({"schemaVersion": 2, "layers": [layer]}).encode())
        self.change_owner()

    def move_outside(self, path):
        """Moves the file to a directory of root, and replaces it by a link of the user nobody."""
        os.rename(path, self.path("private", "taken"))
        os.chown(self.path("private", "taken"), 0, 0)
        os.symlink(self.path("private", "taken"), path)
        self.change_owner()

    def shown(self, source, *argv):
        done = run("cat", *argv, source, "files/license")
        return done.stdout

    def test_blob_is_read(self):
        self.assertIn(SECRET.decode(), self.shown(self.manifest))

    def test_blob_linked_outside_is_not_read(self):
        self.move_outside(self.blob)
        self.assertNotIn(SECRET.decode(), self.shown(self.manifest, "--offline"))
        self.for_others("--offline", source=self.store.root)
        self.assertNotIn(SECRET, self.everything())

    def test_blobs_directory_linked_outside_is_not_read(self):
        self.move_outside(os.path.dirname(self.blob))
        self.assertNotIn(SECRET.decode(), self.shown(self.manifest, "--offline"))

    def test_manifest_linked_outside_is_not_read(self):
        self.move_outside(self.manifest)
        done = run("info", "--offline", self.manifest)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(NOT_FOLLOWED, done.stderr)

    def test_manifest_by_name_is_not_read_through_a_link_outside(self):
        self.move_outside(self.manifest)
        done = run("info", "--offline", "ollama:m", env=dict(os.environ, OLLAMA_MODELS=self.store.root))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(NOT_FOLLOWED, done.stderr)


class HubSnapshots(ConfinementTestCase):
    """A snapshot in the cache of the hub consists of links out of it, into blobs/."""

    def setUp(self):
        super().setUp()
        self.blob = put_in_hub_cache(self.path("home", "hub"), "org/m", "model.safetensors",
                                     self.read("home", "models", "a.safetensors"))
        self.snapshot = self.path("home", "hub", "models--org--m", "snapshots", "0" * 40)
        self.model("home", "hub", "models--org--m", "snapshots", "0" * 40, "plain.safetensors", data=b"plain")
        self.change_owner()

    def test_owner_mounts_the_snapshot(self):
        point = self.path("home", "mnt")
        self.addCleanup(self.force_unmount, point)
        done = as_nobody(self.binary, "mount", self.snapshot, point)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(as_nobody("cat", f"{point}/model.safetensors/tensors/w").stdout, "honest")
        as_nobody(self.binary, "umount", point)

    def test_owner_opens_a_file_of_the_snapshot(self):
        done = as_nobody(self.binary, "cat", "--no-cache", f"{self.snapshot}/model.safetensors", "tensors/w")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "honest", ""))

    def test_root_reads_regular_files_and_gets_warnings_for_links(self):
        self.for_others(source=self.snapshot)
        self.assertEqual(self.read("mnt", "plain.safetensors", "tensors", "w"), b"plain")
        with self.assertRaises(OSError):
            os.listdir(self.path("mnt", "model.safetensors"))
        self.assertEqual(self.log().count(NOT_FOLLOWED), 1)

    def test_root_follows_links_with_follow_links(self):
        self.for_others("--follow-links", source=self.snapshot)
        self.assertEqual(self.read("mnt", "model.safetensors", "tensors", "w"), b"honest")

    def test_root_mounts_a_model_whose_links_stay_inside(self):
        self.for_others(source=self.path("home", "hub", "models--org--m"))
        self.assertEqual(self.read("mnt", "model.safetensors", "tensors", "w"), b"honest")

    def test_user_does_not_follow_links_of_another_user(self):
        os.symlink(f"../../blobs/{os.path.basename(self.blob)}", f"{self.snapshot}/of-root.safetensors")
        done = as_nobody(self.binary, "cat", "--no-cache", self.snapshot, "of-root.safetensors/tensors/w")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(NOT_FOLLOWED, done.stderr)

    def test_user_does_not_follow_links_to_files_of_another_user(self):
        self.model("public.safetensors", data=b"for all")
        os.symlink(self.path("public.safetensors"), f"{self.snapshot}/mine.safetensors")
        self.change_owner()
        done = as_nobody(self.binary, "cat", "--no-cache", self.snapshot, "mine.safetensors/tensors/w")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the owner of its target is not the mounting user", done.stderr)


class MountPoints(UsersTestCase):
    """Root mounts below a directory of another user, who changes it while the source is read."""

    def setUp(self):
        super().setUp()
        os.makedirs(self.path("private", "mnt"))
        self.asked, self.opened = threading.Event(), threading.Event()
        self.data = self.read(self.sample())
        self.url = Server(self, self.answer).url("a.safetensors")
        os.makedirs(self.path("home"))

    def answer(self, request):
        self.asked.set()
        request.wait(self.opened)
        return 200, {}, self.data

    def mounting(self, *names):
        self.addCleanup(self.unmount_all)
        process = subprocess.Popen([WEIGHTFS, "mount", self.url, self.path(*names)], stdin=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.assertTrue(self.asked.wait(LIMIT_S))
        return process

    def mounted(self):
        with open("/proc/self/mounts") as mounts:
            return [line.split()[1] for line in mounts if line.split()[1].startswith(self.path(""))]

    def unmount_all(self):
        for point in self.mounted():
            subprocess.run(["umount", "-l", point], check=False)

    def check_refused(self, process):
        self.opened.set()
        errors = process.stderr.read()
        self.assertEqual(process.wait(LIMIT_S), 6)
        self.assertIn("was moved or removed while the sources were read", errors)
        self.assertEqual(self.mounted(), [])

    def test_link_in_place_of_the_directory(self):
        os.makedirs(self.path("home", "mnt"))
        process = self.mounting("home", "mnt")
        os.rename(self.path("home", "mnt"), self.path("home", "old"))
        os.symlink(self.path("private"), self.path("home", "mnt"))
        self.check_refused(process)

    def test_link_in_place_of_its_parent(self):
        os.makedirs(self.path("home", "a", "mnt"))
        process = self.mounting("home", "a", "mnt")
        os.rename(self.path("home", "a"), self.path("home", "b"))
        os.symlink(self.path("private"), self.path("home", "a"))
        self.check_refused(process)

    def test_link_in_place_of_the_parent_of_a_missing_directory(self):
        os.makedirs(self.path("home", "a"))
        os.rmdir(self.path("private", "mnt"))
        process = self.mounting("home", "a", "mnt")
        os.rename(self.path("home", "a"), self.path("home", "b"))
        os.symlink(self.path("private"), self.path("home", "a"))
        self.check_refused(process)
        self.assertEqual(os.listdir(self.path("private")) + os.listdir(self.path("home", "b")), [])

    def test_link_in_place_of_a_missing_directory(self):
        process = self.mounting("home", "mnt")
        os.symlink(self.path("private"), self.path("home", "mnt"))
        self.opened.set()
        self.assertEqual(process.wait(LIMIT_S), 6)
        self.assertIn("not a directory", process.stderr.read())
        self.assertEqual(self.mounted(), [])

    def test_deleted_directory(self):
        os.makedirs(self.path("home", "mnt"))
        process = self.mounting("home", "mnt")
        os.rmdir(self.path("home", "mnt"))
        self.check_refused(process)

    def test_directory_that_stays_is_mounted_through_a_link(self):
        os.makedirs(self.path("home", "mnt"))
        os.symlink("mnt", self.path("home", "link"))
        process = self.mounting("home", "link")
        os.unlink(self.path("home", "link"))  # it was resolved
        self.opened.set()
        self.assertEqual(process.wait(LIMIT_S), 0)
        self.assertEqual(self.mounted(), [self.path("home", "mnt")])
        self.assertEqual(run("umount", self.path("home", "mnt")).returncode, 0)
        self.assertEqual(self.mounted(), [])

    def test_mount_of_a_killed_server_is_removed_with_auto_unmount(self):
        self.mount(self.sample(), "-o", "auto_unmount")
        os.kill(self.server(self.path("mnt")), signal.SIGKILL)
        until(lambda: self.mounted() == [], "the mount is gone")


if __name__ == "__main__":
    unittest.main()
