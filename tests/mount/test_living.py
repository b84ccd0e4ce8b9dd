"""Directories that change while they are mounted, and names that move: semantics 28."""
import json
import os
import threading
import time

from mounting import (LIMIT_S, MountTestCase, NOBODY, Tensor, UsersTestCase, WEIGHTFS, as_nobody, containers, eventually,
                      is_sanitized, only_root_mounts, only_root_sees, requests_of, run, shutil, signal, subprocess, unittest, until)
import page_cache
import protobuf
import stores

WITHIN_S = 1.0  # what a living directory promises


def model(value, count=1):
    """Tensors w0, w1, ... of 4,096 bytes, each full of one value."""
    return [Tensor(f"w{i}", "int8", (4096,), bytes([value % 256]) * 4096) for i in range(count)]


class LivingTestCase(MountTestCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("models"))

    def put(self, name, value, count=1):
        """Writes a model beside the directory, and renames it to its name."""
        path = self.path("models", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        containers.write_safetensors(self.path("new"), model(value, count), {})
        os.rename(self.path("new"), path)
        return path

    def mounted(self, *options, names=("a.safetensors", "b.safetensors")):
        for value, name in enumerate(names, 1):
            self.put(name, value)
        return self.mount(*options, self.path("models"))

    def shows(self, mnt, *names):
        """Waits until the mount lists these names."""
        until(lambda: sorted(os.listdir(mnt)) == sorted(names), lambda: f"{os.listdir(mnt)}, not {names}")

    def value_of(self, *path):
        """The value of the first tensor of a model; None if it has no right bytes."""
        with open(os.path.join(*path, "tensors", "w0"), "rb") as file:
            data = file.read()
        return data[0] if data == data[:1] * 4096 else None

    def is_read(self, data, *path):
        try:
            with open(os.path.join(*path), "rb") as file:
                return file.read() == data
        except OSError:
            return False

    def has(self, value, *path):
        try:
            return self.value_of(*path) == value
        except OSError:
            return False

    def status(self, mnt):
        with open(os.path.join(mnt, ".weightfs", "status.json")) as file:
            return json.load(file)


# semantics 28.1, 28.2
class Directories(LivingTestCase):
    def test_added_model_appears_also_where_its_name_was_looked_up(self):
        mnt = self.mounted()
        self.assertFalse(os.path.exists(os.path.join(mnt, "c.safetensors")))
        self.shows(mnt, "a.safetensors", "b.safetensors")
        self.put("c.safetensors", 7)
        until(lambda: os.path.exists(os.path.join(mnt, "c.safetensors")), "it does not appear")
        self.shows(mnt, "a.safetensors", "b.safetensors", "c.safetensors")
        self.assertEqual(self.value_of(mnt, "c.safetensors"), 7)

    def test_removed_model_disappears(self):
        mnt = self.mounted(names=("a.safetensors", "b.safetensors", "c.safetensors"))
        self.assertEqual(self.value_of(mnt, "b.safetensors"), 2)
        os.unlink(self.path("models", "b.safetensors"))
        until(lambda: not os.path.exists(os.path.join(mnt, "b.safetensors")), "it stays")
        with self.assertRaises(FileNotFoundError):
            os.stat(os.path.join(mnt, "b.safetensors"))
        self.shows(mnt, "a.safetensors", "c.safetensors")

    def test_unchanged_models_keep_their_inodes(self):
        mnt = self.mounted()
        before = os.stat(os.path.join(mnt, "b.safetensors", "tensors", "w0")).st_ino
        self.put("c.safetensors", 3)
        self.shows(mnt, "a.safetensors", "b.safetensors", "c.safetensors")
        self.assertEqual(os.stat(os.path.join(mnt, "b.safetensors", "tensors", "w0")).st_ino, before)

    def test_replaced_model_is_a_new_tree_under_the_same_name(self):
        mnt = self.mounted()
        place = os.path.join(mnt, "a.safetensors")
        inodes = os.stat(place).st_ino, os.stat(os.path.join(place, "tensors", "w0")).st_ino
        with open(os.path.join(place, "tensors", "w0"), "rb", buffering=0) as old:
            self.put("a.safetensors", 9, count=2)
            until(lambda: self.has(9, place), "it is not replaced")
            self.assertEqual(sorted(os.listdir(os.path.join(place, "tensors"))), ["w0", "w1"])
            self.assertNotIn(os.stat(place).st_ino, inodes)
            self.assertNotIn(os.stat(os.path.join(place, "tensors", "w0")).st_ino, inodes)
            # The open file still returns the old bytes: it is private, and only its name was removed.
            self.assertEqual(old.read(), bytes([1]) * 4096)

    def test_model_rewritten_in_place_is_new_and_its_open_file_fails(self):
        mnt = self.mounted()
        place = os.path.join(mnt, "a.safetensors")
        with open(os.path.join(place, "tensors", "w0"), "rb", buffering=0) as old:
            containers.write_safetensors(self.path("models", "a.safetensors"), model(8, count=40), {})
            until(lambda: os.path.exists(os.path.join(place, "tensors", "w39")), "it is not replaced")
            self.assertEqual(self.value_of(place), 8)
            try:
                data = old.read()
            except OSError:
                data = b""
            self.assertIn(data, (b"", bytes([1]) * 4096))  # cached pages, or EIO; never other bytes

    def test_half_written_model_is_read_when_it_is_complete(self):
        mnt = self.mounted()
        containers.write_safetensors(self.path("whole"), model(5, count=3), {})
        with open(self.path("whole"), "rb") as file:
            whole = file.read()
        with open(self.path("models", "c.safetensors"), "wb", buffering=0) as file:
            file.write(whole[:20])
            self.shows(mnt, "a.safetensors", "b.safetensors", "c.safetensors")
            with self.assertRaises(OSError):
                os.listdir(os.path.join(mnt, "c.safetensors"))
            file.write(whole[20:])
        until(lambda: self.listed(mnt, "c.safetensors", "tensors") == ["w0", "w1", "w2"], "it stays damaged")
        self.assertEqual(self.value_of(mnt, "c.safetensors"), 5)

    @staticmethod
    def listed(*path):
        try:
            return sorted(os.listdir(os.path.join(*path)))
        except OSError:
            return None

    def test_directory_of_models_below_is_followed(self):
        mnt = self.mounted(names=("sub/a.safetensors", "sub/b.safetensors", "sub/c.safetensors"))
        sub = os.path.join(mnt, "sub")
        self.shows(sub, "a.safetensors", "b.safetensors", "c.safetensors")
        self.put("sub/d.safetensors", 4)
        self.shows(sub, "a.safetensors", "b.safetensors", "c.safetensors", "d.safetensors")
        for name in ("a", "b", "c"):
            os.unlink(self.path("models", "sub", f"{name}.safetensors"))
        self.shows(sub, "d.safetensors")  # still a directory of models, with one
        shutil.rmtree(self.path("models", "sub"))
        self.shows(mnt)

    def test_downloaded_directory_becomes_one_model(self):
        mnt = self.mounted()
        os.mkdir(self.path("models", "repo"))
        repo = os.path.join(mnt, "repo")
        until(lambda: os.path.isdir(repo), "it does not appear")
        self.assertEqual(os.listdir(repo), [])
        with open(self.path("models", "repo", "config.json"), "w") as file:
            file.write('{"model_type": "llama"}')
        self.put("repo/model.safetensors", 6)
        until(lambda: "tensors" in os.listdir(repo), "it does not become a model")
        self.assertEqual(self.value_of(repo), 6)

    def test_file_added_to_a_model_directory_makes_it_new(self):
        self.put("repo/model.safetensors", 6)
        with open(self.path("models", "repo", "config.json"), "w") as file:
            file.write('{"model_type": "llama"}')
        mnt = self.mounted()
        files = os.path.join(mnt, "repo", "files")
        self.assertEqual(sorted(os.listdir(files)), ["config.json", "model.safetensors"])
        with open(self.path("models", "repo", "README.md"), "w") as file:
            file.write("# a model\n")
        until(lambda: self.listed(files) == ["README.md", "config.json", "model.safetensors"], "the file does not appear")
        self.put("repo/model.safetensors", 7)
        until(lambda: self.has(7, mnt, "repo"), "it is not replaced")

    def test_directory_replaced_by_a_link(self):
        self.put("repo/model.safetensors", 6)
        self.put("other/model.safetensors", 8)
        mnt = self.mounted()
        self.assertEqual((self.value_of(mnt, "repo"), self.value_of(mnt, "other")), (6, 8))
        shutil.rmtree(self.path("models", "repo"))
        os.symlink("other", self.path("models", "repo"))
        until(lambda: self.has(8, mnt, "repo"), "it is not replaced")

    def test_replaced_shard_makes_its_model_new(self):
        shards = [model(1), [Tensor("v", "int8", (4096,), bytes([2]) * 4096)]]
        containers.write_gguf_shards(self.path("models", "m"), shards)
        mnt = self.mounted()
        place = os.path.join(mnt, next(name for name in os.listdir(mnt) if name.endswith(".gguf")))
        self.assertTrue(self.is_read(bytes([2]) * 4096, place, "tensors", "v"))
        containers.write_gguf_shards(self.path("other"), [model(1), [Tensor("v", "int8", (4096,), bytes([3]) * 4096)]])
        os.rename(self.path("other-00002-of-00002.gguf"), self.path("models", "m-00002-of-00002.gguf"))
        until(lambda: self.is_read(bytes([3]) * 4096, place, "tensors", "v"), "the shard is not replaced")

    def test_replaced_file_beside_a_model_is_noticed_by_a_failed_read(self):
        """The version of an ONNX file does not cover its external data."""
        for name in ("a.onnx", "b.onnx"):
            tensor = protobuf.onnx_external("w", protobuf.ONNX_FLOAT, (1024,), location=f"{name}.data", offset=0, length=4096)
            self.write(f"models/{name}", protobuf.onnx_model(protobuf.onnx_graph((tensor,))))
            self.write(f"models/{name}.data", bytes([4]) * 4096)
        mnt = self.mount(self.path("models"))
        place = os.path.join(mnt, "a.onnx")
        self.assertTrue(self.is_read(bytes([4]) * 4096, place, "tensors", "w"))
        self.write("new", bytes([5]) * 4096)
        os.rename(self.path("new"), self.path("models", "a.onnx.data"))
        page_cache.drop(os.path.join(place, "tensors", "w"))
        until(lambda: self.is_read(bytes([5]) * 4096, place, "tensors", "w"), "the data is not replaced")
        self.assertTrue(self.is_read(bytes([4]) * 4096, mnt, "b.onnx", "tensors", "w"))

    def test_removed_and_added_again(self):
        mnt = self.mounted()
        for value in range(10, 20):
            os.unlink(self.path("models", "a.safetensors"))
            self.put("a.safetensors", value)
            until(lambda: self.has(value, mnt, "a.safetensors"), "another model is shown")

    def test_sources_under_names_are_followed(self):
        first, second = self.put("a.safetensors", 1), self.put("b.safetensors", 2)
        mnt = self.mount(first, second)
        self.assertEqual((self.value_of(mnt, "a.safetensors"), self.value_of(mnt, "b.safetensors")), (1, 2))
        self.put("a.safetensors", 3)
        until(lambda: self.has(3, mnt, "a.safetensors"), "it is not replaced")
        os.unlink(second)
        self.shows(mnt, "a.safetensors")
        self.put("b.safetensors", 4)
        self.shows(mnt, "a.safetensors", "b.safetensors")
        self.assertEqual(self.value_of(mnt, "b.safetensors"), 4)

    def test_ollama_store_is_followed(self):
        store = stores.Store(self.path("store"))
        for value, name in enumerate(("one", "two"), 1):
            store.put_package(f"{name}/latest", stores.tiny(self.tmp, model(value)))
        mnt = self.mount(store.root)
        library = os.path.join(mnt, "registry.ollama.ai", "library")
        self.assertEqual(sorted(os.listdir(library)), ["one", "two"])
        store.put_package("three/latest", stores.tiny(self.tmp, model(3)))
        self.shows(library, "one", "three", "two")
        shutil.rmtree(os.path.join(store.root, "manifests", "registry.ollama.ai", "library", "one"))
        self.shows(library, "three", "two")

    def test_moved_reference_of_a_hub_cache_shows_its_snapshot(self):
        repository = self.path("models", "models--org--name")
        for value, commit in enumerate(("1" * 40, "2" * 40), 1):
            self.put(f"models--org--name/snapshots/{commit}/model.safetensors", value)
        os.mkdir(os.path.join(repository, "refs"))
        self.write("models/models--org--name/refs/main", b"1" * 40)
        mnt = self.mounted()
        self.assertEqual(self.value_of(mnt, "models--org--name"), 1)
        self.write("new", b"2" * 40)
        os.rename(self.path("new"), os.path.join(repository, "refs", "main"))
        until(lambda: self.has(2, mnt, "models--org--name"), "the snapshot stays")

    def test_model_is_not_followed(self):
        source = self.sample("m.safetensors", model(1))
        mnt = self.mount(source)
        containers.write_safetensors(self.path("new"), model(2, count=2), {})
        os.rename(self.path("new"), source)
        self.assertFalse(eventually(lambda: os.listdir(os.path.join(mnt, "tensors")) != ["w0"], 0.5))


# semantics 28.3
class Requests(LivingTestCase):
    @only_root_sees
    def test_ten_thousand_models_at_once_cost_few_listings(self):
        mnt = self.mounted()
        first = os.path.join(self.path("models"), "a.safetensors")
        os.listdir(mnt)
        before = self.status(mnt)["directories"]["listings"]
        begin = time.monotonic()
        for i in range(10_000):
            os.link(first, self.path("models", f"n{i:05}.safetensors"))
        took = time.monotonic() - begin
        until(lambda: len(os.listdir(mnt)) == 10_002, "some are missing")
        listings = self.status(mnt)["directories"]["listings"] - before
        self.assertLessEqual(listings, 10 * (took + time.monotonic() - begin) + 3)
        self.assertEqual(self.value_of(mnt, "n09999.safetensors"), 1)

    @only_root_sees
    def test_second_walk_costs_no_requests(self):
        mnt = self.mounted(names=[f"m{i}.safetensors" for i in range(20)])

        def walk():
            for folder, _, files in os.walk(mnt):
                for name in files:
                    os.stat(os.path.join(folder, name))
        walk()
        server = self.server(mnt)
        before = requests_of(server)
        walk()
        self.assertLessEqual(requests_of(server) - before, 2)

    def test_reader_gets_unchanged_names_once_while_others_change(self):
        mnt = self.mounted(names=[f"keep{i:04}.safetensors" for i in range(1500)])
        stop = threading.Event()

        def change():
            while not stop.is_set():
                for i in range(40):
                    os.link(self.path("models", "keep0000.safetensors"), self.path("models", f"a{i:02}.safetensors"))
                stop.wait(0.15)
                for i in range(40):
                    os.unlink(self.path("models", f"a{i:02}.safetensors"))
                stop.wait(0.15)
        thread = threading.Thread(target=change)
        thread.start()
        try:
            for _ in range(40):
                names = [name for name in os.listdir(mnt) if name.startswith("keep")]
                self.assertEqual((len(names), len(set(names))), (1500, 1500))
        finally:
            stop.set()
            thread.join()


# semantics 28.4
class WithoutInotify(LivingTestCase):
    @only_root_mounts
    def test_fuse_source_is_compared(self):
        """Another process changes what a FUSE file system shows, and inotify reports nothing."""
        if not shutil.which("bindfs"):
            self.skipTest("no other FUSE file system here (bindfs)")
        mnt = self.mounted()
        self.unmount(mnt)
        os.mkdir(self.path("bound"))
        subprocess.run(["bindfs", self.path("models"), self.path("bound")], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.path("bound")], check=True)
        mnt = self.mount(self.path("bound"))
        self.shows(mnt, "a.safetensors", "b.safetensors")
        self.assertEqual(self.status(mnt)["directories"]["watched"], 0)
        self.put("c.safetensors", 3)
        self.shows(mnt, "a.safetensors", "b.safetensors", "c.safetensors")
        self.put("a.safetensors", 5)
        until(lambda: self.has(5, mnt, "a.safetensors"), "it is not replaced")
        self.unmount(mnt)

    @only_root_mounts
    def test_source_that_hangs_does_not_prevent_unmounting(self):
        if not shutil.which("bindfs"):
            self.skipTest("no other FUSE file system here (bindfs)")
        self.mounted_sources()
        os.mkdir(self.path("bound"))
        process = subprocess.Popen(["bindfs", "-f", self.path("models"), self.path("bound")])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(subprocess.run, ["umount", "-l", self.path("bound")], check=True)
        until(lambda: os.path.ismount(self.path("bound")), "bindfs does not mount")
        server, mnt = self.foreground(self.path("bound"))
        self.addCleanup(process.kill)  # before the server is waited for
        self.shows(mnt, "a.safetensors", "b.safetensors")
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)  # it compares directories every second, and nothing outside shows that it hangs
        server.send_signal(signal.SIGTERM)
        until(lambda: not os.path.ismount(mnt), "it is not unmounted")
        # A thread whose request bindfs had taken before it was stopped cannot be killed, and a process ends with its last thread.
        process.kill()
        self.assertIn(server.wait(LIMIT_S), (0, 6))

    def mounted_sources(self):
        for value, name in enumerate(("a.safetensors", "b.safetensors"), 1):
            self.put(name, value)


class Refresh(LivingTestCase):
    def test_refresh_lists_at_once(self):
        mnt = self.mounted()
        self.put("c.safetensors", 3)
        done = run("refresh", mnt)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("c.safetensors", os.listdir(mnt))
        self.assertEqual(run("refresh", mnt).stdout, f"{mnt}: nothing has changed\n")

    def test_refresh_of_a_file_shows_the_new_one(self):
        source = self.sample("m.safetensors", model(1))
        mnt = self.mount(source)
        self.assertEqual(self.value_of(mnt), 1)
        containers.write_safetensors(self.path("new"), model(2, count=2), {})
        os.rename(self.path("new"), source)
        done = run("refresh", mnt)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, f"{mnt}: the model was replaced\n")
        self.assertEqual((self.value_of(mnt), sorted(os.listdir(os.path.join(mnt, "tensors")))), (2, ["w0", "w1"]))

    def test_failed_refresh_leaves_the_mount_as_it_is(self):
        source = self.sample("m.safetensors", model(1))
        mnt = self.mount(source)
        os.rename(source, self.path("away"))
        done = run("refresh", mnt)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("m.safetensors", done.stderr)
        self.assertEqual(self.value_of(mnt), 1)
        self.assertIn("m.safetensors", self.status(mnt)["refresh"]["error"])
        self.write("m.safetensors", b"damaged")
        done = run("refresh", mnt)
        self.assertIn(done.returncode, (4, 5))
        self.assertEqual(self.value_of(mnt), 1)
        os.rename(self.path("away"), source)
        self.assertEqual(run("refresh", mnt).returncode, 0)
        self.assertEqual(self.value_of(mnt), 1)

    def test_hang_ups_in_a_row(self):
        process, mnt = self.foreground(self.mounted_sources())
        for _ in range(1000):
            process.send_signal(signal.SIGHUP)
        self.put("c.safetensors", 3)
        self.shows(mnt, "a.safetensors", "b.safetensors", "c.safetensors")
        self.assertIsNone(process.poll())
        self.assertEqual(run("refresh", mnt).returncode, 0)

    def mounted_sources(self):
        self.put("a.safetensors", 1)
        self.put("b.safetensors", 2)
        return self.path("models")

    def test_follow_resolves_again_periodically(self):
        source = self.sample("m.safetensors", model(1))
        mnt = self.mount("--follow", "1", source)
        containers.write_safetensors(self.path("new"), model(2), {})
        os.rename(self.path("new"), source)
        until(lambda: self.has(2, mnt), "it is not followed")

    def test_missing_mount_is_reported(self):
        os.mkdir(self.path("empty"))
        done = run("refresh", self.path("empty"))
        self.assertEqual((done.returncode, done.stdout), (6, ""))
        self.assertIn("weightfs is not mounted there", done.stderr)
        self.assertEqual(run("refresh").returncode, 2)

    def test_other_users_cannot_refresh(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        mnt = self.mount("--allow-other", self.mounted_sources())
        os.chmod(self.tmp, 0o755)
        shutil.copy(WEIGHTFS, self.path("weightfs"))
        done = as_nobody(self.path("weightfs"), "refresh", mnt)
        self.assertEqual((done.returncode, done.stderr), (1, f"weightfs: {mnt}: only its user and root can refresh it\n"))


# semantics 28.6
class Layout(LivingTestCase):
    def test_chosen_entries_are_shown(self):
        source = self.sample("m.safetensors", model(1))
        mnt = self.mount("--layout", "files", source)
        self.assertEqual(os.listdir(mnt), ["files"])
        self.assertEqual(os.listdir(os.path.join(mnt, "files")), ["m.safetensors"])
        self.unmount(mnt)
        mnt = self.mount("-o", '"layout=tensors,metadata"', source)
        self.assertEqual(sorted(os.listdir(mnt)), ["metadata.json", "metadata.toml", "tensors", "tensors.json"])
        self.assertEqual(self.value_of(mnt), 1)

    def test_models_of_a_directory_have_the_layout(self):
        mnt = self.mounted("--layout", "tensors")
        self.assertEqual(os.listdir(os.path.join(mnt, "a.safetensors")), ["tensors"])

    def test_commands_have_the_layout(self):
        source = self.sample("m.safetensors", model(1))
        self.assertEqual(run("ls", "--layout", "npy,files", source).stdout, "files\nnpy\n")
        self.assertEqual(run("cat", "--layout", "files", source, "tensors/w0").returncode, 3)
        self.assertEqual(
            len(subprocess.run([WEIGHTFS, "cat", "--layout", "tensors", source, "tensors/w0"], stdout=subprocess.PIPE).stdout),
            4096)

    def test_unknown_entry_is_refused(self):
        done = run("mount", "--layout", "files,tensor", self.sample(), self.path("mnt"))
        self.assertEqual(done.returncode, 2)
        self.assertIn('unknown entry "tensor"; known entries: files,tensors,npy,float32,views,metadata,nested', done.stderr)

    def test_file_system_has_neither_free_space_nor_inodes(self):
        found = os.statvfs(self.mount(self.sample()))
        self.assertEqual((found.f_bfree, found.f_bavail, found.f_files, found.f_ffree), (0, 0, 0, 0))


class OrdinaryUser(UsersTestCase):
    def test_directory_that_cannot_be_listed_any_more_fails_a_refresh(self):
        for name in ("a", "b", "sub/c", "sub/d"):
            os.makedirs(os.path.dirname(self.path("models", name)), exist_ok=True)
            containers.write_safetensors(self.path("models", f"{name}.safetensors"), model(1), {})
        os.mkdir(self.path("home"))
        point = self.path("home", "mnt")
        os.mkdir(point)
        for path in (self.path("home"), point):
            os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)
        self.addCleanup(self.force_unmount, point)
        self.assertEqual(as_nobody(self.binary, "mount", self.path("models"), point).returncode, 0)
        self.assertEqual(as_nobody("ls", f"{point}/sub").stdout, "c.safetensors\nd.safetensors\n")
        self.assertEqual(as_nobody(self.binary, "refresh", point).stdout, f"{point}: nothing has changed\n")
        os.chmod(self.path("models", "sub"), 0)
        for _ in range(2):  # as long as it lasts, also after the follower has noticed it
            done = as_nobody(self.binary, "refresh", point)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertIn("sub", done.stderr)
        self.assertEqual(as_nobody("ls", f"{point}/a.safetensors/tensors").stdout, "w0\n")
        os.chmod(self.path("models", "sub"), 0o755)
        self.assertEqual(as_nobody(self.binary, "refresh", point).returncode, 0)
        self.assertEqual(as_nobody("ls", f"{point}/sub").stdout, "c.safetensors\nd.safetensors\n")


class Changing(LivingTestCase):
    DURATION_S = int(os.environ.get("LIVING_SECONDS", "8"))

    def test_walkers_meet_no_wrong_byte_while_models_change(self):
        names = [f"m{i}.safetensors" for i in range(8)]
        mnt = self.mounted(names=names)
        stop, wrong, walks = threading.Event(), [], [0]

        def walk():
            while not stop.is_set():
                for name in names:
                    place = os.path.join(mnt, name)
                    try:
                        value = self.value_of(place)
                        with open(os.path.join(place, "tensors.json")) as file:
                            json.load(file)
                    except OSError:
                        continue
                    if value is None:
                        wrong.append(name)
                walks[0] += 1

        def change(part):
            value = 1
            while not stop.is_set():
                value = value % 250 + 1
                name = names[2 * (value % 4) + part]
                containers.write_safetensors(self.path(f"new{part}"), model(value), {})
                os.rename(self.path(f"new{part}"), self.path("models", name))
                if value % 5 == 0:
                    os.unlink(self.path("models", name))
                stop.wait(0.01)

        threads = [threading.Thread(target=walk)
                   for _ in range(8)] + [threading.Thread(target=change, args=(part, )) for part in range(2)]
        for thread in threads:
            thread.start()
        time.sleep(self.DURATION_S)  # the threads walk and change
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertGreater(walks[0], 0)
        present = sorted(name for name in names if os.path.exists(self.path("models", name)))
        self.shows(mnt, *present)

        def value_in(*names):
            with open(self.path("models", *names), "rb") as file:
                return file.read()[-1]
        expected = {name: value_in(name) for name in present}
        self.assertTrue(eventually(lambda: {name: self.value_of(mnt, name) for name in present} == expected, WITHIN_S))

    @only_root_sees
    def test_memory_does_not_grow_with_replacements(self):
        if is_sanitized():
            self.skipTest("the sanitizer has its own allocator")
        mnt = self.mounted()
        server = self.server(mnt)

        def replace(times):
            for value in range(times):
                self.put("a.safetensors", value % 250 + 1)
                run_refresh()
                self.assertEqual(self.value_of(mnt, "a.safetensors"), value % 250 + 1)

        def run_refresh():
            count = self.status(mnt)["refresh"]["count"]
            os.kill(server, signal.SIGHUP)
            until(lambda: self.status(mnt)["refresh"]["count"] > count, "no refresh")

        def memory():
            with open(f"/proc/{server}/status") as file:
                return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))
        replace(150)
        before = memory()
        replace(600)
        self.assertLess(memory() - before, 1500)  # KiB


if __name__ == "__main__":
    unittest.main()
