"""Archives through the kernel: cartons, zips, tars, nested containers, and the cache."""
import contextlib
import errno
import glob
import hashlib
import io
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import tarfile
import threading
import unittest

from mounting import WEIGHTFS, MountTestCase, TestCase, eventually, has_ended, is_mounted, run, sample_tensors  # noqa: F401
import archives  # noqa: E402
import containers  # noqa: E402

MEGABYTE = 1 << 20


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


def index_of(tensors):
    """tensor_data/index.toml of (name, dtype, shape, file)."""
    return "".join(f'[[tensor]]\nname = "{name}"\ndtype = "{dtype}"\nshape = {shape}\nfile = "{file}"\ninner = []\n\n'
                   for name, dtype, shape, file in tensors).encode()


def blobs_in(cache):
    """Every complete blob."""
    return sorted(os.path.join(base, name) for base, _, names in os.walk(os.path.join(cache, "v1", "blobs")) for name in names)


def temporary_files_in(cache):
    """Files in making/, and the maps of blobs that are being written (docs/cache-format.md)."""
    making = os.path.join(cache, "v1", "making")
    files = os.listdir(making) if os.path.isdir(making) else []
    for path in glob.glob(os.path.join(cache, "v1", "blocks", "*.map")):
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            files += [path] if b"\nnew " in file.read(4096) else []
    return files


def temporary_files_left_in(cache):
    """Those that stay: a read that the kernel repeats lives for a moment longer."""
    eventually(lambda: not temporary_files_in(cache))
    return temporary_files_in(cache)


class ArchiveTestCase(MountTestCase):
    def carton(self, name="m.carton", files=None, **kwargs):
        archives.write_carton(self.path(name), files or {"model/weights": noise(MEGABYTE)}, **kwargs)
        return self.path(name)

    def cache(self):
        return self.path("cache")

    def published(self, count=1):
        """The complete blobs, as soon as there are `count` and none is in progress: a blob gets its name after its last byte
        was read."""
        eventually(lambda: len(blobs_in(self.cache())) >= count and not temporary_files_in(self.cache()))
        return blobs_in(self.cache())

    def read_whole(self, point, *names):
        with open(os.path.join(point, *names), "rb") as file:
            return file.read()

    def model_files(self, **kwargs):
        containers.WRITERS["safetensors"](self.path("inner"), sample_tensors(), None)
        return self.read("inner")


class Files(ArchiveTestCase):
    FILES = {"model/weights": noise(300_000), "model/zeros": bytes(MEGABYTE), "misc/ä=b.txt": b"text", "model/empty": b"",
             "deep/" + "d/" * 20 + "f": b"x"}

    # semantics 9.1
    def test_files_are_the_unpacked_container(self):
        methods = (archives.STORED, archives.DEFLATE, archives.ZSTD)
        point = self.mount(*(self.carton(f"{method}.carton", self.FILES, method=method) for method in methods))
        for method in methods:
            with self.subTest(method=method):
                files = os.path.join(point, f"{method}.carton", "files")
                for name, data in self.FILES.items():
                    self.assertEqual(self.read_whole(files, name), data, name)
                    self.assertEqual(os.stat(os.path.join(files, name)).st_size, len(data))

    def test_repacked_files_have_the_same_model_hash(self):
        source = self.carton(files=self.FILES, links={"model/link": ("weights", "model/weights")})
        point = self.mount(source)
        model_hash = json.loads(self.read_whole(point, "metadata.json"))["metadata"]["carton"]["model_hash"]
        lines = []
        for base, _, names in os.walk(os.path.join(point, "files")):
            for name in names:
                path = os.path.relpath(os.path.join(base, name), os.path.join(point, "files"))
                if path != "MANIFEST":
                    lines.append((path, hashlib.sha256(self.read_whole(point, "files", path)).hexdigest()))
        manifest = "".join(f"{path}={digest}\n" for path, digest in sorted(lines, key=lambda line: line[0].encode())).encode()
        self.assertEqual(hashlib.sha256(manifest).hexdigest(), model_hash)

    def test_directory_with_the_tree_of_a_carton_is_a_carton(self):
        archives.write_carton_directory(self.path("unpacked"), {"model/weights": b"w"})
        point = self.mount(self.path("unpacked"))
        self.assertEqual(json.loads(self.read_whole(point, "metadata.json"))["format"], "carton")
        self.assertEqual(self.read_whole(point, "files", "model", "weights"), b"w")

    def test_mount_inside_a_carton_directory_is_not_part_of_it(self):
        archives.write_carton_directory(self.path("unpacked"), {"model/weights": b"w"})
        self.mount(self.path("unpacked"), at="unpacked/mnt")
        outer = self.mount(self.path("unpacked"), at="outer")
        self.assertEqual(sorted(os.listdir(os.path.join(outer, "files"))), ["MANIFEST", "carton.toml", "model"])

    def test_empty_directory_in_a_zip_is_shown(self):
        with archives.Zip(self.path("z.zip")) as out:
            out.write("empty/", b"", mode=0o40755)
            out.write("file", b"x")
            out.write("file/below", b"y")
        point = self.mount(self.path("z.zip"))
        self.assertEqual(os.listdir(os.path.join(point, "files", "empty")), [])
        self.assertEqual(sorted(os.listdir(os.path.join(point, "files"))), ["empty", "file", "file%2Fbelow"])

    def test_plain_and_compressed_tars_are_read(self):
        modes = ("", "gz", "xz", "bz2")
        for mode in modes:
            with tarfile.open(self.path(f"t{mode}.tar"), f"w:{mode}") as out:
                for name, data in self.FILES.items():
                    member = tarfile.TarInfo(name)
                    member.size = len(data)
                    out.addfile(member, io.BytesIO(data))
        point = self.mount(*(self.path(f"t{mode}.tar") for mode in modes))
        for mode in modes:
            with self.subTest(mode=mode):
                for name, data in self.FILES.items():
                    self.assertEqual(self.read_whole(point, f"t{mode}.tar", "files", name), data, name)

    def test_zip64_is_read(self):
        archives.write_zip64(self.path("z.zip"), self.FILES)
        point = self.mount(self.path("z.zip"))
        for name, data in self.FILES.items():
            self.assertEqual(self.read_whole(point, "files", name), data, name)

    # semantics 9.3
    def test_links_resolve_to_members_and_never_leave_the_mount(self):
        with archives.Zip(self.path("z.zip")) as out:
            out.write("a/file", b"bytes")
            for name, target in {"a/near": "file", "far": "a/near", "loop": "loop", "dangling": "nowhere", "dir": "a",
                                 "up": "..", "absolute": "/etc/passwd", "a/climb": "../../x", "sneaky": "dir/../../x"}.items():
                out.link(name, target)
        point = self.mount(self.path("z.zip"))
        files = os.path.join(point, "files")
        for link in ("a/near", "far", "dir/file", "dir/near"):
            self.assertEqual(self.read_whole(files, link), b"bytes", link)
        for shown in ("up", "absolute", "a/climb", "sneaky"):
            self.assertFalse(os.path.islink(os.path.join(files, shown)), shown)
        self.assertEqual(self.read_whole(files, "absolute"), b"/etc/passwd")
        with self.assertRaises(OSError):
            self.read_whole(files, "loop")
        for base, directories, names in os.walk(files):
            for name in directories + names:
                real = os.path.realpath(os.path.join(base, name))
                self.assertTrue((real + "/").startswith(files + "/"), name)
        self.assertEqual(len(self.read_whole(point, "warnings.txt").splitlines()), 4)

    def test_cat_follows_links_like_the_kernel(self):
        with archives.Zip(self.path("z.zip")) as out:
            out.write("a/file", b"bytes")
            for name, target in {"far": "a/near", "a/near": "file", "dir": "a", "a/up": "../dir/file", "loop": "loop"}.items():
                out.link(name, target)
        for path in ("files/far", "files/dir/near", "files/a/up", "files/dir/up", "files/a/../far"):
            self.assertEqual(run("cat", self.path("z.zip"), path).stdout, "bytes", path)
        self.assertEqual(run("cat", self.path("z.zip"), "files/loop").returncode, 1)
        self.assertIn("far -> a/near", run("ls", "-l", self.path("z.zip"), "files").stdout)

    def test_hostile_names_stay_in_the_mount(self):
        names = ["../up", "/root", "a/../../b", "back\\slash", "twice", "twice", b"bad\xff", "nul\0inside", "x" * 300, ".", "//"]
        with archives.Zip(self.path("z.zip")) as out:
            for i, name in enumerate(names):
                out.write(name, b"%d" % i)
        point = self.mount(self.path("z.zip"))
        seen = [os.path.join(base, name) for base, _, names in os.walk(os.path.join(point, "files")) for name in names]
        self.assertGreaterEqual(len(seen), 9)
        for path in seen:
            self.assertTrue(self.read_whole(path).isdigit(), path)
        self.assertEqual(self.read_whole(point, "files", "twice"), b"5")


class Tensors(ArchiveTestCase):
    def setUp(self):
        super().setUp()
        self.files = {
            "tensor_data/index.toml": index_of([("n/a", "int32", [2, 2], "t0.bin"), ("texts", "string", [2, 1], "t1.toml"),
                                                ("one", "string", [], "t2.toml"), ("none", "string", [0], "t3.toml")]),
            "tensor_data/t0.bin": bytes(range(16)), "tensor_data/t1.toml": 'data = ["grün", "🙂"]\n'.encode(),
            "tensor_data/t2.toml": b'data = [""]\n', "tensor_data/t3.toml": b"data = []\n"}

    # semantics 4.5
    def test_tensors_are_files_and_texts_are_arrays(self):
        import numpy
        methods = (archives.STORED, archives.ZSTD)
        both = self.mount(*(self.carton(f"{method}.carton", self.files, method=method) for method in methods))
        for method in methods:
            point = os.path.join(both, f"{method}.carton")
            self.assertEqual(self.read_whole(point, "tensors", "n", "a"), bytes(range(16)))
            self.assertEqual(numpy.load(f"{point}/npy/n/a.npy", mmap_mode="r").shape, (2, 2))
            self.assertEqual(self.read_whole(point, "tensors", "texts"), self.files["tensor_data/t1.toml"])
            texts = numpy.load(f"{point}/npy/texts.npy")
            self.assertEqual((texts.dtype, texts.tolist()), (numpy.dtype("<U4"), [["grün"], ["🙂"]]))
            self.assertEqual(numpy.load(f"{point}/npy/one.npy").tolist(), "")
            self.assertEqual(numpy.load(f"{point}/npy/none.npy").tolist(), [])

    # semantics 2.5
    def test_tensor_digest_is_listed_without_reading_the_tensor(self):
        point = self.mount(self.carton(files=self.files))
        digest = hashlib.sha256(bytes(range(16))).hexdigest()
        self.assertEqual(os.getxattr(f"{point}/tensors/n/a", "user.weightfs.sha256").decode(), digest)
        self.assertEqual(json.loads(self.read_whole(point, "tensors.json"))["tensors"][0]["sha256"], digest)


class NestedContainers(ArchiveTestCase):
    # semantics 9.5
    def test_nested_model_is_a_tree(self):
        inner = self.model_files()
        cartons = [self.carton(f"{method}.carton", {"model/m.safetensors": inner, "model/other": b"x"}, method=method)
                   for method in (archives.STORED, archives.DEFLATE, archives.ZSTD)]
        models = self.mount(*cartons)
        for carton in cartons:
            point = os.path.join(models, os.path.basename(carton))
            self.assertEqual(os.listdir(os.path.join(point, "nested", "model")), ["m.safetensors"])
            tree = os.path.join(point, "nested", "model", "m.safetensors")
            for tensor in sample_tensors():
                self.assertEqual(self.read_whole(tree, "tensors", tensor.name), tensor.data, tensor.name)
            self.assertEqual(json.loads(self.read_whole(tree, "metadata.json"))["source"], f"{carton}/model/m.safetensors")

    def test_containers_nest_three_levels_deep(self):
        data = self.model_files()
        for level in range(10):
            archives.write_zip64(self.path("z"), {"in": data}) if level % 2 else self.carton(
                "z", {"in": data}, method=archives.STORED)
            data = self.read("z")
        self.write("z.zip", data)
        point = self.mount(self.path("z.zip"))
        tree, depth = point, 0
        while os.path.isdir(os.path.join(tree, "nested", "in")):
            tree, depth = os.path.join(tree, "nested", "in"), depth + 1
        self.assertEqual(depth, 8)
        self.assertFalse(os.path.exists(os.path.join(tree, "nested")))

    def test_zip_of_two_models_shows_both(self):
        inner = self.model_files()
        archives.write_zip64(self.path("two.zip"), {"a.safetensors": inner, "b.safetensors": inner})
        point = self.mount(self.path("two.zip"))
        self.assertEqual(os.listdir(os.path.join(point, "nested")), ["a.safetensors", "b.safetensors"])
        self.assertEqual(self.read_whole(point, "nested", "b.safetensors", "files", "b.safetensors"), inner)

    def test_info_lists_nested_models(self):
        archives.write_zip64(self.path("two.zip"), {"a.safetensors": self.model_files(), "readme": b"x", "b.gguf": b"GGUF"})
        self.assertRegex(run("info", self.path("two.zip")).stdout, r"\n  nested +a\.safetensors, b\.gguf\n")

    def test_corrupt_nested_model_fails_only_in_its_directory(self):
        point = self.mount(
            self.carton(files={"model/bad.gguf": b"GGUF" + bytes(100), "model/good.safetensors": self.model_files()}))
        with self.assertRaises(OSError):
            os.listdir(os.path.join(point, "nested", "model", "bad.gguf"))
        self.assertIn("tensors", os.listdir(os.path.join(point, "nested", "model", "good.safetensors")))


class Cache(ArchiveTestCase):
    DATA = noise(3 * MEGABYTE) + bytes(5 * MEGABYTE)

    def setUp(self):
        super().setUp()
        self.source = self.carton(files={"model/w": self.DATA}, method=archives.DEFLATE)

    def read_model(self, point):
        return self.read_whole(point, "files", "model", "w")

    # semantics 10.3
    def test_decoded_member_is_shared_between_mounts(self):
        first, second = self.mount(self.source, at="one"), self.mount(self.source, at="two")
        self.assertEqual(self.read_model(first), self.DATA)
        blob, = self.published()
        self.assertEqual(os.path.basename(blob), hashlib.sha256(self.DATA).hexdigest())
        inode = os.stat(blob).st_ino
        self.assertEqual(self.read_model(second), self.DATA)
        self.assertEqual([os.stat(path).st_ino for path in blobs_in(self.cache())], [inode])
        self.assertEqual(temporary_files_left_in(self.cache()), [])

    def test_cache_is_private_to_the_user(self):
        self.read_model(self.mount(self.source))
        self.published()
        for base, directories, names in os.walk(self.cache()):
            for name in directories + names:
                with contextlib.suppress(FileNotFoundError):  # a trial of the file system ends meanwhile
                    mode = os.lstat(os.path.join(base, name)).st_mode
                    self.assertTrue(stat.S_ISLNK(mode) or mode & 0o077 == 0, name)

    def test_concurrent_readers_of_several_mounts_get_the_same_bytes(self):
        points = [self.mount(self.source, at=f"mnt{i}") for i in range(3)]
        wrong = []

        def check(point, offset):
            with open(os.path.join(point, "files/model/w"), "rb") as file:
                file.seek(offset)
                if file.read(MEGABYTE) != self.DATA[offset:offset + MEGABYTE]:
                    wrong.append((point, offset))
        readers = [threading.Thread(target=check, args=(point, i * 900_001)) for point in points for i in range(8)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        self.assertEqual(wrong, [])
        self.assertEqual(len(self.published()), 1)

    # semantics 10.2
    def test_server_killed_while_decoding_leaves_no_corrupt_blob(self):
        large = bytes(400 * MEGABYTE)
        self.source = self.carton("large.carton", {"model/w": large})
        killed_amid = 0
        for i in range(5):
            process, point = self.foreground(self.source, at=f"killed{i}")
            with open(os.path.join(point, "files/model/w"), "rb") as file:
                file.read(100_000 + i * 10 * MEGABYTE)
                process.kill()
                process.wait()
            subprocess.run(["umount", "-l", point], check=is_mounted(point))
            # On a busy machine everything may have been decoded before.
            if blobs_in(self.cache()):
                shutil.rmtree(self.cache())
            else:
                killed_amid += len(temporary_files_in(self.cache()))
        self.assertGreater(killed_amid, 0)
        self.DATA = large
        point = self.mount(self.source)
        self.assertEqual(self.read_model(point), self.DATA)
        self.assertEqual(len(self.published()), 1)

    # semantics 10.5
    def test_unusable_cache_is_replaced_by_temporary_files(self):
        self.write("cache", b"in the way")
        process, point = self.foreground(self.source)
        self.assertEqual(self.read_model(point), self.DATA)
        process.send_signal(signal.SIGTERM)
        process.wait()
        lines = process.stderr.read().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("cache", lines[0])

    @unittest.skipUnless(os.geteuid() == 0, "mounting a file system needs root")
    def test_full_disk_does_not_fail_reads(self):
        os.mkdir(self.cache())
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", self.cache()], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.cache()], check=True)
        point = self.mount(self.source)
        self.assertEqual(self.read_model(point), self.DATA)
        self.assertEqual((self.published(0), temporary_files_left_in(self.cache())), ([], []))

    # semantics 10.4
    def test_quota_is_not_exceeded(self):
        sources = [self.carton(f"{i}.carton", {"model/w": noise(2 * MEGABYTE, i)}) for i in range(4)]
        for i, source in enumerate(sources):
            point = self.mount("--cache-size", "5M", source, at=f"mnt{i}")
            self.assertEqual(self.read_model(point), noise(2 * MEGABYTE, i))
            self.published(min(i + 1, 2))
            self.assertLessEqual(sum(os.stat(blob).st_blocks * 512 for blob in blobs_in(self.cache())), 5 * MEGABYTE)
        self.assertEqual(len(blobs_in(self.cache())), 2)
        self.assertEqual(self.read_model(self.path("mnt0")), noise(2 * MEGABYTE, 0))

    def test_decompression_bomb_does_not_fill_the_disk(self):
        with archives.Zip(self.path("bomb.zip")) as out:
            out.write("bomb", b"", method=archives.ZSTD, packed=archives.zstd(bytes(64 * MEGABYTE)), crc=0, size=0xFFFFFFF0)
            out.write("shorter", b"", method=archives.ZSTD, packed=archives.zstd(bytes(64 * MEGABYTE)), crc=0, size=MEGABYTE)
        point = self.mount("--cache-size", "1M", self.path("bomb.zip"))
        for name in ("bomb", "shorter"):
            with self.assertRaises(OSError):
                with open(os.path.join(point, "files", name), "rb") as file:
                    file.seek(65 * MEGABYTE if name == "bomb" else 0)
                    file.read()
        self.assertEqual((self.published(0), temporary_files_left_in(self.cache())), ([], []))

    # semantics 9.6
    def test_damaged_members_never_read_completely(self):
        data = noise(2 * MEGABYTE)
        with archives.Zip(self.path("z.zip")) as out:
            out.write("crc", data, method=archives.DEFLATE, crc=1)
            out.write("cut", data, method=archives.DEFLATE, packed=archives.deflate(data)[:-1000])
            out.write("small", b"x" * 1000, method=archives.DEFLATE, crc=1)
            out.write("good", data, method=archives.DEFLATE)
        point = self.mount(self.path("z.zip"))
        for name in ("crc", "cut", "small"):
            for _ in range(2):
                with self.assertRaises(OSError):
                    self.read_whole(point, "files", name)
        self.assertEqual(self.read_whole(point, "files", "good"), data)
        self.assertEqual(len(self.published()), 1)

    def test_no_cache_leaves_no_files(self):
        point = self.mount("--no-cache", self.source)
        self.assertEqual(self.read_model(point), self.DATA)
        self.assertFalse(os.path.exists(self.cache()))
        self.unmount(point)
        self.assertEqual(subprocess.run([WEIGHTFS, "cat", "--no-cache", self.source, "files/model/w"], capture_output=True).stdout,
                         self.DATA)
        self.assertFalse(os.path.exists(self.cache()))

    def test_unmount_does_not_wait_for_unread_decoding(self):
        source = self.carton("large.carton", {"model/w": bytes(900 * MEGABYTE)})
        process, point = self.foreground(source)
        with open(os.path.join(point, "files/model/w"), "rb") as file:
            file.read(4096 * 64)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(temporary_files_left_in(self.cache()), [])

    def test_waiting_readers_do_not_block_others_and_end_with_the_mount(self):
        with archives.Zip(self.path("z.zip")) as out:
            packed = archives.zstd(bytes(200 * MEGABYTE))
            for i in range(20):
                out.write(f"large{i}", b"", method=archives.ZSTD, packed=packed, crc=0, size=200 * MEGABYTE)
            out.write("stored", b"text")
        process, point = self.foreground(self.path("z.zip"))
        begun, outcomes = threading.Semaphore(0), []

        def read_the_end(name):
            with open(os.path.join(point, "files", name), "rb") as file:
                file.seek(-10, os.SEEK_END)
                begun.release()
                try:
                    outcomes.append(file.read())
                except OSError as error:
                    outcomes.append(error)
        readers = [threading.Thread(target=read_the_end, args=(f"large{i}",)) for i in range(20)]
        for reader in readers:
            reader.start()
        for _ in readers:
            begun.acquire()
        self.assertEqual(self.read_whole(point, "files", "stored"), b"text")
        self.assertIn("files", os.listdir(point))
        self.assertLess(len(outcomes), 20, "no decoding was shared")
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        for reader in readers:
            reader.join()
        self.assertEqual(process.returncode, 0)
        self.assertEqual([outcome for outcome in outcomes if not isinstance(outcome, OSError)], [], "no CRC-32 is 0")
        # Each wrong CRC-32 is logged, but not that the end cancels the other reads.
        self.assertLess(len(process.stderr.read().splitlines()), 20, "all members were decoded completely")

    def test_memory_use_is_independent_of_member_size(self):
        source = self.carton("large.carton", {"model/w": bytes(300 * MEGABYTE)})
        point = self.mount(source)
        with open(os.path.join(point, "files/model/w"), "rb") as file:
            while file.read(MEGABYTE):
                pass
        with open(f"/proc/{self.server(point)}/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
        if "asan" not in WEIGHTFS:
            self.assertLess(peak, 64 * 1024)


class Links(ArchiveTestCase):
    def test_unavailable_linked_file_is_listed_but_not_readable(self):
        source = self.carton(files={"model/near": b"here"}, linked={"model/far": b"there"},
                             urls={"model/far": ["http://127.0.0.1:1/far"]})
        process, point = self.foreground(source)
        self.assertEqual(os.listdir(os.path.join(point, "files", "model")), ["far", "near"])
        with self.assertRaises(OSError) as caught:
            self.read_whole(point, "files", "model", "far")
        self.assertEqual(caught.exception.errno, errno.EIO)
        self.assertEqual(self.read_whole(point, "files", "model", "near"), b"here")
        self.assertNotIn("warnings.txt", os.listdir(point))
        process.send_signal(signal.SIGTERM)
        process.wait()
        message = process.stderr.read()
        self.assertIn("weightfs: model/far: ", message)
        self.assertIn("http://127.0.0.1:1/far", message)
        self.assertEqual(len(message.splitlines()), 1, message)

    def test_ls_continues_after_an_unavailable_file(self):
        source = self.carton(files={"model/near": b"here"}, linked={"model/far": b"there"},
                             urls={"model/far": ["https://example.com/far"]})
        done = run("ls", "--offline", "-lR", source, "files")
        self.assertEqual(done.returncode, 8)
        self.assertIn(" near\n", done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


class Verify(TestCase):
    # semantics 8.5
    def test_valid_carton_passes(self):
        archives.write_carton(self.path("m.carton"), {"model/w": noise(MEGABYTE)}, links={"model/l": ("w", "model/w")})
        done = run("verify", self.path("m.carton"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, f"{self.path('m.carton')}: WHOLE: 4 files match their checksums\n")
        # The sandbox creates the directory; it stays empty.
        self.assertEqual(os.listdir(self.path("cache")) if os.path.exists(self.path("cache")) else [], [])

    def test_each_differing_file_is_reported(self):
        files = {"carton.toml": archives.NOOP.encode(), "model/a": b"right", "model/b": b"right"}
        with archives.Zip(self.path("m.carton")) as out:
            for name, data in {**files, "model/b": b"wrong"}.items():
                out.write(name, data)
            out.write("MANIFEST", archives.manifest(files))
        done = run("verify", self.path("m.carton"))
        self.assertEqual(done.returncode, 7)
        right, wrong = (hashlib.sha256(text).hexdigest() for text in (b"right", b"wrong"))
        self.assertEqual(done.stdout, f'{self.path("m.carton")}: DAMAGED: "model/b": SHA-256 is {wrong}, should be {right}\n')

    def test_damaged_bytes_are_reported(self):
        for method in (archives.STORED, archives.DEFLATE):
            with archives.Zip(self.path("z.zip")) as out:
                out.write("good", b"good")
                out.write("bad", b"bad" * 1000, method=method, crc=1)
            done = run("verify", self.path("z.zip"))
            self.assertIn(done.returncode, (5, 7), done.stdout)
            self.assertIn('"bad": ', done.stdout)

    def test_directory_without_a_model_is_an_error(self):
        os.makedirs(self.path("empty", "below"))
        self.write(os.path.join("empty", "below", "README"), b"nothing")
        done = run("verify", self.path("empty"))
        self.assertEqual((done.returncode, done.stdout), (4, ""))
        self.assertEqual(done.stderr, f"weightfs: {self.path('empty')}: no supported model in this directory\n")

    def test_format_without_checksums_is_reported(self):
        self.sample()
        done = run("verify", self.path("model.safetensors"))
        self.assertEqual(done.returncode, 0)
        self.assertIn("has no checksums; structure valid, 5 tensors", done.stdout)

    def test_every_model_in_a_directory_is_verified(self):
        os.mkdir(self.path("models"))
        self.sample("models/a.safetensors")
        archives.write_carton(self.path("models/b.carton"), {"model/w": b"w"})
        self.write("models/c.gguf", b"GGUF\3\0\0\0" + b"\xff" * 50)
        done = run("verify", self.path("models"))
        self.assertEqual(done.returncode, 5)
        self.assertEqual(done.stdout.splitlines()[-1], "3 models: 2 whole, 1 damaged")
        self.assertEqual(len(done.stdout.splitlines()), 4, done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
