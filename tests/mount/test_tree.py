"""The tree of a mounted model of each format, through the kernel."""
import errno
import json
import mmap
import random
import stat
import struct
import sys

from mounting import (Hole, MountTestCase, OneMountTestCase, Tensor, containers, descriptors_of, numbers, os, requests_of, run,
                      sample_tensors, shutil, subprocess, until)
import reading
import stores

try:
    import numpy
except ImportError:
    numpy = None
import tomllib
import unittest


class EveryFormat(OneMountTestCase):
    """semantics 1 and 2: the same tree for every format, with the bytes of each tensor as stored."""

    @classmethod
    def sources_of(cls, owner):
        return [owner.sample("model." + format, format=format)
                for format in ("safetensors", "gguf", "bintensors", "bintensors-legacy", "rten", "rten-v1")]

    def check(self, format, version):
        mnt = os.path.join(self.mnt, "model." + format)
        self.assertEqual(sorted(set(os.listdir(mnt)) - {"graph.json"}),
                         ["files", "float32", "metadata.json", "metadata.toml", "npy", "tensors", "tensors.json", "views"])
        with open(os.path.join(mnt, "tensors.json")) as file:
            index = {tensor["name"]: tensor for tensor in json.load(file)["tensors"]}
        self.assertEqual(list(index), [tensor.name for tensor in sample_tensors()])
        container = self.owner.read("model." + format)
        for tensor in sample_tensors():
            shown = index[tensor.name]
            self.assertEqual(self.read(mnt, "tensors", shown["path"]), tensor.data)
            self.assertEqual(shown["dtype"], tensor.dtype)
            self.assertEqual(shown["nbytes"], len(tensor.data))
            begin = shown["storage"]["offset"]
            self.assertEqual(container[begin:begin + len(tensor.data)], tensor.data)
            self.assertTrue(self.read(mnt, "npy", shown["path"] + ".npy").endswith(tensor.data))
        self.assertEqual(self.read(mnt, "files", "model." + format), container)
        metadata = json.loads(self.read(mnt, "metadata.json"))
        self.assertEqual((metadata["format"], metadata.get("version")), (format.split("-")[0], version))
        self.assertEqual(metadata["tensors"]["count"], 5)
        self.assertEqual(tomllib.loads(self.read(mnt, "metadata.toml").decode()), metadata)

    def test_safetensors(self):
        self.check("safetensors", None)

    def test_gguf(self):
        self.check("gguf", "3")

    def test_bintensors(self):
        self.check("bintensors", "release layout")

    def test_bintensors_legacy(self):
        self.check("bintensors-legacy", "legacy layout")

    def test_rten(self):
        self.check("rten", "2")

    def test_rten_v1(self):
        self.check("rten-v1", "1")


@unittest.skipUnless(numpy, "python3-numpy is not installed")
class Numpy(OneMountTestCase):
    """semantics 4: NumPy loads the files."""
    CODES = {"bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
             "uint64": "Q", "float16": "e", "float32": "f", "float64": "d"}
    UNKNOWN = (
        Tensor("bf16", "bfloat16", (3,), b"\x80\x3f\x00\x40\x40\xc0"),
        Tensor("e4m3fn", "float8_e4m3fn", (3,), b"\x38\x40\xc4"),
        Tensor("e4m3fnuz", "float8_e4m3fnuz", (3,), b"\x40\x48\xcc"),
        Tensor("e5m2", "float8_e5m2", (3,), b"\x3c\x40\xc2"),
        Tensor("e5m2fnuz", "float8_e5m2fnuz", (3,), b"\x40\x44\xc6"),
        Tensor("e8m0fnu", "float8_e8m0fnu", (3,), b"\x7f\x80\x7e"),
        Tensor("e2m1fn", "float4_e2m1fn", (2, 2), b"\x42\x0d"),
        Tensor("e2m3fn", "float6_e2m3fn", (1, 4), b"\x08\x44\x03"),
        Tensor("e3m2fn", "float6_e3m2fn", (1, 4), b"\x0c\x24\x05"),
    )

    @classmethod
    def sources_of(cls, owner):
        known = [Tensor(dtype, dtype, (2, 3), numbers(code, 6)) for dtype, code in cls.CODES.items()]
        return [owner.sample("known", known), owner.sample("unknown", cls.UNKNOWN), owner.sample("small")]

    def test_load_maps_every_numpy_dtype(self):
        mnt = os.path.join(self.mnt, "known")
        for dtype in self.CODES:
            expected = numpy.arange(6).astype(dtype).reshape(2, 3)
            array = numpy.load(f"{mnt}/npy/{dtype}.npy", mmap_mode="r")
            self.assertEqual((array.dtype, array.shape), (numpy.dtype(dtype), (2, 3)))
            numpy.testing.assert_array_equal(array, expected)
            numpy.testing.assert_array_equal(numpy.fromfile(f"{mnt}/tensors/{dtype}", dtype).reshape(2, 3), expected)
            numpy.testing.assert_array_equal(numpy.memmap(f"{mnt}/tensors/{dtype}", dtype, "r", shape=(2, 3)), expected)

    # semantics 4.3
    def test_numbers_of_types_unknown_to_numpy_are_float32(self):
        mnt = os.path.join(self.mnt, "unknown")
        values = {"e8m0fnu": [1, 2, 0.5], "e2m1fn": [1, 2, -3, 0], "e2m3fn": [1, 2, -3, 0], "e3m2fn": [1, 2, 3, 0.0625]}
        with numpy.load(f"{mnt}/views/model.npz") as arrays:
            for name, dtype, shape, _ in self.UNKNOWN:
                for array in (numpy.load(f"{mnt}/npy/{name}.npy", mmap_mode="r"), numpy.load(f"{mnt}/float32/{name}.npy"),
                              arrays[name]):
                    self.assertEqual((array.dtype, array.shape), (numpy.dtype("<f4"), shape), name)
                    self.assertEqual(array.flatten().tolist(), values.get(name, [1, 2, -3]), name)
                self.assertEqual(os.getxattr(f"{mnt}/npy/{name}.npy", "user.weightfs.dtype"), dtype.encode())
        metadata = json.loads(self.read(mnt, "metadata.json"))
        self.assertEqual(metadata["tensors"]["npy_dtypes"], {tensor.dtype: "float32" for tensor in self.UNKNOWN})

    def test_scalars_and_empty_arrays_load(self):
        mnt = os.path.join(self.mnt, "small")
        self.assertEqual(numpy.load(f"{mnt}/npy/scalar.npy").shape, ())
        self.assertEqual(numpy.load(f"{mnt}/npy/empty.npy").shape, (0, 2))


class FileSystemBehavior(OneMountTestCase):
    """Behaviour as a file system."""

    @classmethod
    def sources_of(cls, owner):
        source = owner.sample()
        os.utime(source, ns=(1_500_000_000_123_456_789,) * 2)
        return [source]

    def test_stat_values_are_correct(self):
        mnt = self.mnt
        tensor = os.stat(f"{mnt}/tensors/encoder/weight")
        self.assertEqual(stat.filemode(tensor.st_mode), "-r--r--r--")
        self.assertEqual((tensor.st_size, tensor.st_blocks, tensor.st_nlink), (240, 1, 1))
        self.assertEqual((tensor.st_uid, tensor.st_gid), (os.getuid(), os.getgid()))
        self.assertEqual(tensor.st_mtime_ns, 1_500_000_000_123_456_789)
        self.assertEqual(stat.filemode(os.stat(mnt).st_mode), "dr-xr-xr-x")
        self.assertEqual([os.stat(f"{mnt}/{name}").st_nlink for name in ("tensors", "files")], [1, 2])
        self.assertEqual(os.path.getsize(f"{mnt}/metadata.json"), len(self.owner.read("mnt", "metadata.json")))
        room = os.statvfs(mnt)
        self.assertEqual((room.f_blocks, room.f_bfree),
                         (-(-os.path.getsize(self.owner.path("model.safetensors")) // room.f_frsize), 0))
        self.assertEqual(room.f_namemax, 255)

    def test_writes_are_refused(self):
        mnt = self.mnt
        for attempt in (lambda: open(f"{mnt}/tensors/bias", "r+b"), lambda: open(f"{mnt}/new", "wb"), lambda: os.mkdir(f"{mnt}/d"),
                        lambda: os.unlink(f"{mnt}/tensors/bias"), lambda: os.rename(f"{mnt}/npy", f"{mnt}/x"),
                        lambda: os.chmod(f"{mnt}/tensors/bias", 0o777), lambda: os.truncate(f"{mnt}/tensors/bias", 0)):
            with self.assertRaises(OSError) as raised:
                attempt()
            self.assertEqual(raised.exception.strerror, "Read-only file system")

    def test_tensors_can_be_mapped(self):
        mnt = self.mnt
        with open(f"{mnt}/tensors/encoder/weight", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            self.assertEqual(mapped[:], numbers("f", 60))

    def test_xattrs_describe_a_tensor(self):
        mnt = self.mnt
        tensor = f"{mnt}/tensors/encoder/weight"
        self.assertEqual({name: os.getxattr(tensor, name) for name in os.listxattr(tensor)}, {
            "user.weightfs.name": b"encoder/weight", "user.weightfs.dtype": b"float32", "user.weightfs.shape": b"[3,20]",
            "user.weightfs.nbytes": b"240", "user.weightfs.format": b"safetensors"})
        with self.assertRaises(OSError):
            os.getxattr(tensor, "user.weightfs.sha256")

    def test_ls_gives_up_on_security_labels_after_one_file(self):
        mnt = self.mount(self.sample(tensors=[Tensor(f"t{i}", "float32", [1], numbers("f", 1)) for i in range(500)]))

        def requests():
            with open(f"{mnt}/.weightfs/stats.json") as file:
                return json.load(file)["operations"]["getxattr"]["requests"]
        before = requests()
        for _ in range(2):
            subprocess.run(["ls", "-l", f"{mnt}/tensors"], stdout=subprocess.DEVNULL, check=True)
        self.assertLessEqual(requests() - before, 4)
        of_root = ("trusted.x",) if os.geteuid() == 0 else ()  # of others, the kernel says that there are none
        for name in ("security.selinux", "system.posix_acl_access", *of_root):
            with self.assertRaises(OSError) as raised:
                os.getxattr(f"{mnt}/tensors/t0", name)
            self.assertEqual(raised.exception.errno, errno.EOPNOTSUPP, name)

    def test_small_file_that_is_read_again_costs_only_open_and_release(self):
        mnt = self.mount(self.sample(tensors=[Tensor("t", "float32", [1024], bytes(4096))]))

        def requests():
            with open(f"{mnt}/.weightfs/stats.json") as file:
                return {name: operation["requests"] for name, operation in json.load(file)["operations"].items()}

        def read():
            for _ in range(100):
                with open(f"{mnt}/tensors/t", "rb") as file:
                    self.assertEqual(len(file.read()), 4096)
        read()
        before = requests()
        read()
        added = {name: count - before[name] for name, count in requests().items()}
        self.assertLessEqual(added.pop("open"), 102)
        self.assertLessEqual(added.pop("release"), 102)
        self.assertLessEqual(max(added.values()), 4, added)

    def requests_during(self, mnt, *command):
        """How many requests of each operation a command causes; a few more for the statistics themselves."""
        def requests():
            with open(f"{mnt}/.weightfs/stats.json") as file:
                return {name: operation["requests"] for name, operation in json.load(file)["operations"].items()}
        before = requests()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return {name: count - before[name] for name, count in requests().items()}

    def test_walks_and_small_files_cost_few_requests(self):
        count, own = 500, 20  # those that read the statistics
        tensors = [Tensor(f"t{i}", "float32", [1024], numbers("f", 1024)) for i in range(count)]
        for command in (("du", "-a"), ("find", "-ls"), ("grep", "-rc", ""), ("rsync", "-a")):
            tool, *options = command
            if shutil.which(tool) is None:
                with self.subTest(tool=tool):
                    self.skipTest(f"{tool} is missing")
                continue
            mnt = self.mount(self.sample(tensors=tensors), at=tool)
            argv = [tool, f"{mnt}/tensors", *options] if tool == "find" else [tool, *options, f"{mnt}/tensors"]
            if tool == "rsync":
                argv.append(self.path("copy"))
            with self.subTest(tool=tool):
                reads_files = tool in ("grep", "rsync")
                first = self.requests_during(mnt, *argv)
                self.assertLessEqual(first["read"], own, "small files are stored in the page cache at OPEN")
                self.assertLessEqual(first["open"], (count if reads_files else 0) + own)
                self.assertLessEqual(first["lookup"] + first["getattr"], own, "attributes are listed (READDIRPLUS)")
                again = self.requests_during(mnt, *argv)
                opens = count if tool == "grep" else 0  # the second rsync compares sizes and times
                self.assertLessEqual(again["open"], opens + own)
                self.assertLessEqual(sum(again.values()), 2 * opens + own, again)

    # docs/design/listing.md
    def test_attributes_are_listed_for_each_tool(self):
        directories, count, own = 20, 50, 20
        tensors = [Tensor(f"d{i}/t{j}", "int8", (1,), b"x") for i in range(directories) for j in range(count)]
        list_and_stat = "import glob, os, sys; print(sum(map(os.path.getsize, glob.glob(sys.argv[1] + '/*/*'))))"
        for name, walk in (("ls", ("ls", "-lR")), ("du", ("du", "-a")), ("glob", (sys.executable, "-c", list_and_stat)),
                           ("tar", ("tar", "-cf", self.path("copy.tar"), "-C")), ("stat", ("stat", "--printf="))):
            mnt = self.mount(self.sample(tensors=tensors), at=name)
            argv = (*walk, f"{mnt}/tensors", *(["."] if name == "tar" else []))
            with self.subTest(walk=name):
                requests = self.requests_during(mnt, *argv)
                self.assertLessEqual(requests["lookup"] + requests["getattr"], own)
                if name != "stat":
                    self.assertLessEqual(requests["readdirplus"], 4 * directories + own)

    def test_large_directory_is_listed_without_inodes_until_files_are_looked_up(self):
        count, own = 140_000, 40
        header = {f"t{i}": {"dtype": "I8", "shape": [0], "data_offsets": [0, 0]} for i in range(count)}
        text = json.dumps(header).encode()
        with open(self.path("large.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
        mnt = self.mount(self.path("large.safetensors"))
        self.requests_during(mnt, "find", f"{mnt}/tensors")
        listed = self.requests_during(mnt, "ls", "-lU", f"{mnt}/tensors")
        # ls(1) looks up what one getdents(2) of the kernel's listing has returned.
        self.assertLessEqual(listed["lookup"], 1200)
        self.assertGreaterEqual(listed["lookup"], 64)
        again = self.requests_during(mnt, "ls", "-lU", f"{mnt}/tensors")
        self.assertLessEqual(again["lookup"] + again["getattr"], own)

    def test_common_tools_work(self):
        mnt = self.mnt
        subprocess.run(["cp", "-r", mnt, self.path("copy")], check=True)
        self.assertEqual(subprocess.run(["diff", "-r", mnt, self.path("copy")]).returncode, 0)
        found = subprocess.run(["find", mnt, "-type", "f"], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(len(found), 3 + 5 + 5 + 5 + 4 + 1)
        subprocess.run(["chmod", "-R", "u+w", self.path("copy")], check=True)

    def test_second_walk_is_served_by_the_kernel_cache(self):
        tensors = [Tensor(f"layer{i % 10}/t{i}", "int8", (1,), b"x") for i in range(2000)]
        mnt = self.mount(self.sample(tensors=tensors))
        server = self.server(mnt)
        walk = lambda: subprocess.run(["find", f"{mnt}/tensors", "-size", "1c"], capture_output=True, check=True
                                      ).stdout  # noqa: E731
        first = walk()
        self.assertEqual(len(first.splitlines()), 2000)
        before = requests_of(server)
        self.assertEqual(walk(), first)
        self.assertLess(requests_of(server) - before, 20)

    def test_second_read_is_served_by_the_page_cache(self):
        mnt = self.mount(self.sample(tensors=[Tensor("w", "int8", (4 << 20,), bytes(4 << 20))]))
        self.read("mnt", "tensors", "w")
        before = requests_of(self.server(mnt))
        self.read("mnt", "tensors", "w")
        self.assertLess(requests_of(self.server(mnt)) - before, 10)

    def test_offsets_above_four_gibibytes_are_read(self):
        count, formats = (5 << 30) // 4, ("safetensors", "gguf", "bintensors", "rten")
        for format in formats:
            self.sample("big." + format, [Tensor("hole", "float32", (count,), Hole(5 << 30)),
                                          Tensor("last", "float32", (20,), numbers("f", 20))], format)
            self.assertGreater(os.path.getsize(self.path("big." + format)), 5 << 30)
        mnt = self.mount(*(self.path("big." + format) for format in formats))
        for format in formats:
            with self.subTest(format):
                self.assertEqual(self.read(mnt, f"big.{format}", "tensors", "last"), numbers("f", 20))
                with open(f"{mnt}/big.{format}/tensors/hole", "rb") as file:
                    self.assertEqual(os.fstat(file.fileno()).st_size, 5 << 30)
                    file.seek((5 << 30) - 3)
                    self.assertEqual(file.read(), b"\0\0\0")

    def test_many_opens_leak_no_descriptor(self):
        mnt = self.mnt
        server = self.server(mnt)
        self.owner.read("mnt", "npy", "bias.npy")
        before = descriptors_of(server)
        for _ in range(200):
            self.owner.read("mnt", "npy", "bias.npy")
        until(lambda: descriptors_of(server) < before + 10, lambda: f"{before} descriptors became {descriptors_of(server)}")

    def test_hostile_tensor_names_stay_in_the_mount(self):
        names = ["../../etc/passwd", "..", ".", "", "/abs", "a//b", "a", "a/b", "x" * 300, "new\nline", "tab\t", "nul\0"]
        mnt = self.mount(self.sample(tensors=[Tensor(name, "int8", (1,), bytes([i])) for i, name in enumerate(names)]))
        index = json.loads(self.read("mnt", "tensors.json"))["tensors"]
        self.assertEqual([tensor["name"] for tensor in index], names)
        for i, tensor in enumerate(index):
            self.assertEqual(self.read("mnt", "tensors", tensor["path"]), bytes([i]))
            self.assertEqual(os.getxattr(f"{mnt}/tensors/{tensor['path']}", "user.weightfs.name"), names[i].encode())
        self.assertEqual(len(subprocess.run(["find", f"{mnt}/tensors", "-type", "f", "-print0"], capture_output=True,
                                            check=True).stdout.split(b"\0")) - 1, len(names))


class SystemCalls(OneMountTestCase):
    """semantics 7.4: files are read with every system call that reads files."""
    DATA = random.Random(1).randbytes((3 << 20) + 17)

    @classmethod
    def sources_of(cls, owner):
        tensors = [Tensor("first", "int8", (5,), b"first"), Tensor("w", "int8", (len(cls.DATA),), cls.DATA)]
        return [owner.sample("m.gguf", tensors, "gguf")]

    def check(self, ways):
        """Reads a tensor, an array and the container, each time from the server."""
        server = self.server(self.mnt)
        for path, end in (("tensors/w", self.DATA), ("npy/w.npy", self.DATA), ("files/m.gguf", self.owner.read("m.gguf"))):
            expected = self.read(self.mnt, path)
            self.assertTrue(expected.endswith(end))
            fd = os.open(f"{self.mnt}/{path}", os.O_RDONLY)
            self.addCleanup(os.close, fd)
            for way, read in ways.items():
                with self.subTest(path=path, way=way):
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # drops the pages
                    before = requests_of(server)
                    self.assertTrue(read(fd) == expected)
                    self.assertGreater(requests_of(server), before)

    def test_every_call_reads_the_same_bytes(self):
        self.check(reading.WAYS)

    def test_io_uring_reads_the_same_bytes(self):
        if refusal := reading.refusal_of_io_uring():
            self.skipTest(refusal)
        self.check({"io_uring": reading.by_io_uring})


class Gguf(MountTestCase):
    def test_long_token_list_is_a_separate_file(self):
        tokens = [f"token {i}" for i in range(150_000)]
        self.sample("m.gguf", format="gguf", metadata={"general.name": "Tiny", "tokenizer.ggml.tokens": tokens})
        mnt = self.mount(self.path("m.gguf"))
        self.assertEqual(json.loads(self.read("mnt", "metadata", "tokenizer.ggml.tokens.json")), tokens)
        shown = json.loads(self.read("mnt", "metadata.json"))["metadata"]["tokenizer.ggml.tokens"]
        self.assertEqual(shown, {"count": 150_000, "type": "string", "path": "metadata/tokenizer.ggml.tokens.json"})
        self.assertTrue(os.path.exists(os.path.join(mnt, shown["path"])))

    def test_any_shard_opens_the_whole_model(self):
        first, second = sample_tensors()[:2], sample_tensors()[2:]
        containers.write_gguf_shards(self.path("m"), [first, second], {"general.name": "Split"})
        both = self.mount(*(self.path(f"m-0000{number}-of-00002.gguf") for number in (1, 2)))
        for number in (1, 2):
            mnt = os.path.join(both, f"m-0000{number}-of-00002.gguf")
            index = json.loads(self.read(mnt, "tensors.json"))["tensors"]
            self.assertEqual([tensor["name"] for tensor in index], [tensor.name for tensor in sample_tensors()])
            for tensor in sample_tensors():
                self.assertEqual(self.read(mnt, "tensors", tensor.name), tensor.data)
            self.assertEqual(os.listdir(f"{mnt}/files"), ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"])


class Safetensors(MountTestCase):
    def test_directory_with_an_index_is_one_model(self):
        os.mkdir(self.path("model"))
        containers.write_safetensors_shards(self.path("model"), [sample_tensors()[:2], sample_tensors()[2:]])
        self.write("model/config.json", b"{}")
        for source in ("model", "model/model.safetensors.index.json"):
            mnt = self.mount(self.path(source), at=source.replace("/", "_") + "_mnt")
            for tensor in sample_tensors():
                with open(f"{mnt}/tensors/{tensor.name}", "rb") as file:
                    self.assertEqual(file.read(), tensor.data)
            self.assertIn("model-00001-of-00002.safetensors", os.listdir(f"{mnt}/files"))
            self.assertEqual("config.json" in os.listdir(f"{mnt}/files"), source == "model")

    # semantics 5.5
    def test_signature_in_a_directory_is_described(self):
        os.mkdir(self.path("model"))
        containers.write_safetensors_shards(self.path("model"), [sample_tensors()[:2], sample_tensors()[2:]])
        self.write("model/model.sig", stores.model_signature({"config.json": "0" * 64}))
        self.mount(self.path("model"))
        shown = json.loads(self.read("mnt", "metadata.json"))["signature"]
        self.assertEqual({key: shown[key] for key in ("resources", "equal", "different", "unknown")},
                         {"resources": 1, "equal": 0, "different": 0, "unknown": 1})
