"""Cartons: MANIFEST and LINKS, missing and linked files, directories."""
import hashlib
import os

import serve
from attack import SHOWN, Attack, links_to, put
import archives
from attacks_zip import RawZip
from limits import CPU_PER_LISTED_FILE_S, CPU_PER_READ_BYTE_S

TOML = archives.NOOP.encode()
FETCHED = frozenset({0, 1, 4, 5, 7, 8})  # refused, not verified, or unavailable
PRIVATE = ("--allow-private-urls", "--timeout", "2")


def carton(files, manifest, links=None, name="m.carton"):
    """A carton with exactly this MANIFEST and these LINKS."""
    def build(folder, *port):
        with archives.Zip(os.path.join(folder, name)) as out:
            for path, data in {"carton.toml": TOML, **files}.items():
                out.write(path, data, archives.DEFLATE)
            out.write("MANIFEST", manifest() if callable(manifest) else manifest, archives.DEFLATE)
            if links:
                out.write("LINKS", links(*port).encode(), archives.DEFLATE)
        return name
    return build


def line(path, number):
    return f"{path}={number:064x}\n"


def missing(count, digest=lambda i: i, path=lambda i: f"model/{i}"):
    return lambda: "".join(line(path(i), digest(i) + 1) for i in range(count)).encode()


def urls(rows):
    return "version = 1\n\n[urls]\n" + "".join(f"{number:064x} = [{', '.join(repr(url) for url in found)}]\n"
                                               for number, found in rows)


def links_to_server(count, path):
    """`count` linked files behind URLs of the helper."""
    return carton({}, missing(count), lambda port: urls((i + 1, [f"http://127.0.0.1:{port}/{path}"]) for i in range(count)))


def shared_members(count, make, method):
    """A carton whose MANIFEST names `count` files that share one member's bytes; all digests except the first are wrong."""
    def build(folder):
        with RawZip(os.path.join(folder, "m.carton")) as out:
            data = make()
            packed = archives.PACK[method](data)
            at = out.local(b"", packed, method)
            for i in range(count):
                out.entry(f"model/{i}", at, len(packed), len(data), method, 0)
            out.write("carton.toml", TOML)
            digest = hashlib.sha256(data).hexdigest()
            out.write("MANIFEST", "".join(f"model/{i}={digest}\n" for i in range(count)).encode(), archives.DEFLATE)
        return "m.carton"
    return build


def directory(fill):
    def build(folder):
        archives.write_carton_directory(folder, {"model/weights": b"w"})
        fill(folder)
        return ""
    return build


def links_in(folder):
    os.symlink(".", os.path.join(folder, "model/self"))
    os.symlink("..", os.path.join(folder, "model/up"))
    os.symlink("/", os.path.join(folder, "model/root"))
    os.symlink("/proc/self/root", os.path.join(folder, "model/proc"))
    os.symlink("loop", os.path.join(folder, "model/loop"))
    os.mkfifo(os.path.join(folder, "model/fifo"))


def doubling(folder):
    for i in range(30):
        os.mkdir(os.path.join(folder, f"d{i}"))
        for name in "ab":
            os.symlink(f"../d{i + 1}", os.path.join(folder, f"d{i}", name))
    os.mkdir(os.path.join(folder, "d30"))


def carton_in_carton(depth):
    def build(folder):
        inner = b"end"
        for _ in range(depth):
            archives.write_carton(os.path.join(folder, "m.carton"), {"model/inner.carton": inner, "model/again.carton": inner},
                                  archives.DEFLATE)
            with open(os.path.join(folder, "m.carton"), "rb") as file:
                inner = file.read()
        return "m.carton"
    return build


def no_toml(folder, port):
    with archives.Zip(os.path.join(folder, "m.carton")) as out:
        out.write("MANIFEST", line("carton.toml", 1).encode())
        out.write("LINKS", urls([(1, [f"http://127.0.0.1:{port}/toml"])]).encode())
    return "m.carton"


# A file that is listed with its size is searched in every store.
CPU_PER_SEARCH_S = 50e-6

ATTACKS = [
    # MANIFEST.
    Attack("carton-missing-200000", "carton MANIFEST", "200,000 files that are not there", carton({}, missing(200_000))),
    Attack("carton-missing-one-digest", "carton MANIFEST", "200,000 files that are not there, of one digest",
           carton({}, missing(200_000, lambda i: 1))),
    Attack("carton-missing-deep", "carton MANIFEST", "50,000 missing files with names of 31 components",
           carton({}, missing(50_000, path=lambda i: f"{i}/" + "a/" * 29 + "w"))),
    Attack("carton-missing-long-names", "carton MANIFEST", "200 missing files with names of 65,535 bytes",
           carton({}, missing(200, path=lambda i: f"{i:03}" + "n" * 65_532))),
    Attack("carton-manifest-one-line", "carton MANIFEST", "one line of 15 MB", carton({}, lambda: b"a" * 15_000_000)),
    Attack("carton-manifest-equals", "carton MANIFEST", "15 MB of equals signs", carton({}, lambda: b"=" * 15_000_000)),
    Attack("carton-manifest-newlines", "carton MANIFEST", "15 MB of empty lines", carton({}, lambda: b"\n" * 15_000_000)),
    Attack("carton-manifest-bad-lines", "carton MANIFEST", "3,000,000 lines without a digest",
           carton({}, lambda: b"a=b\n" * 3_000_000)),
    Attack("carton-manifest-repeated", "carton MANIFEST", "200,000 times one path",
           carton({}, missing(200_000, path=lambda i: "model/same"))),
    Attack("carton-manifest-out", "carton MANIFEST", "50,000 paths that lead out",
           carton({}, missing(50_000, path=lambda i: "../" * (i % 100) + f"etc/{i}"))),
    Attack("carton-manifest-64-mb", "carton MANIFEST", "a MANIFEST of 64 MB in 64 KB", carton({}, lambda: b"\n" * 64_000_000)),

    # LINKS.
    Attack("links-100000-urls", "carton LINKS", "30,000 digests with a URL each",
           carton({}, missing(30_000), lambda: urls((i + 1, ["http://127.0.0.1/x"]) for i in range(30_000))),
           cpu=30_000 * CPU_PER_SEARCH_S),
    Attack("links-one-digest-100000-urls", "carton LINKS", "one digest with 90,000 URLs",
           carton({}, missing(1), lambda: urls([(1, [f"http://127.0.0.1/{i}" for i in range(90_000)])]))),
    Attack(
        "links-forbidden-urls", "carton LINKS", "5,000 files behind forbidden URLs",
        carton({}, missing(5_000), lambda: urls(
            (i + 1, ["file:///etc/passwd", "ftp://a/b", "http://u:p@a/"]) for i in range(5_000)))),
    Attack("links-url-long", "carton LINKS", "a URL of 3 MB",
           carton({}, missing(1), lambda: urls([(1, ["http://127.0.0.1/" + "a" * 3_000_000])]))),
    Attack("links-endless-body", "carton LINKS", "a file behind a URL whose body does not end", links_to_server(1, "x"), FETCHED,
           FETCHED, PRIVATE, serve.endless),
    Attack("links-endless-bodies", "carton LINKS", "20 files behind URLs whose bodies do not end", links_to_server(20, "x"),
           FETCHED, FETCHED, PRIVATE, serve.endless, cpu=20 * serve.ENDLESS * CPU_PER_READ_BYTE_S),
    Attack("links-endless-header", "carton LINKS", "a file behind a URL whose header does not end", links_to_server(1, "x"),
           FETCHED, FETCHED, PRIVATE, serve.endless_header),
    Attack("links-lying-length", "carton LINKS", "files behind URLs that promise 2^60 bytes", links_to_server(3, "x"), FETCHED,
           FETCHED, PRIVATE, serve.lying_length),
    Attack("links-carton-toml", "carton LINKS", "a carton.toml behind a URL whose body does not end", no_toml, FETCHED, FETCHED,
           PRIVATE, serve.endless, cpu=serve.ENDLESS * CPU_PER_READ_BYTE_S),

    # Members.
    Attack("carton-members-shared", "carton", "10,000 files are one stored megabyte: verify hashes it for each",
           shared_members(10_000, lambda: bytes(1 << 20), archives.STORED)),
    Attack("carton-members-shared-deflate", "carton", "10,000 files are one member of 10 MB, 10 KB compressed",
           shared_members(10_000, lambda: bytes(10 << 20), archives.DEFLATE)),
    Attack("carton-members-shared-zstd", "carton", "2,000 files are one member of 64 MB, 2 KB compressed",
           shared_members(2_000, lambda: bytes(64 << 20), archives.ZSTD)),
    Attack("carton-in-carton", "carton", "cartons in cartons, two in each, 12 deep", carton_in_carton(12)),

    # Directories.
    Attack("carton-directory-links", "carton directory", "links to itself, upwards, to /, to /proc, a loop, a FIFO",
           directory(links_in), SHOWN, cpu=100_000 * CPU_PER_LISTED_FILE_S),
    Attack("carton-directory-doubling", "carton directory", "links to directories that double: 2^30 paths", directory(doubling)),
    Attack(
        "carton-directory-hard-links", "carton directory", "3,000 hard links to one file of 4 MB",
        directory(lambda folder: (put(folder, "model/0", bytes(4 << 20)),
                                  links_to(os.path.join(folder, "model"), "0", map(str, range(1, 3_000)), True)))),
    Attack("carton-directory-deep", "carton directory", "directories 500 deep",
           directory(lambda folder: put(folder, "d/" * 500 + "f", b"x"))),
]
