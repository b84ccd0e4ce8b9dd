"""Pickles where programs find them and their names and formats do not tell: `verify --safe` names each of them."""
import bz2
import gzip
import io
import lzma
import os
import struct
import tarfile
import zipfile
import zlib

from cases import SOURCE, Case, file, table
from mounting import unittest
import archives
import pickles

EVIL = b"cposix\nsystem\n(S'true'\ntR."  # protocol 0
PLAIN = b"(lp0\nI1\na."
WEIGHTS = b"\x10\0\0\0\0\0\0\0{}" + b" " * 14
NAMED = "names posix.system, which can run code"
SAFE = ("verify", "--safe", SOURCE)


def npy(data=b"", descr="<f4", shape="(0,)"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


def directory(name, weights, files):
    """Builds a directory; `__` in the name of a file is a dot, `___` a slash."""
    def build(tmp):
        path = os.path.join(tmp, name)
        named = {each.replace("___", "/").replace("__", "."): data for each, data in files.items()}
        for each, data in {**weights, **named}.items():
            os.makedirs(os.path.dirname(os.path.join(path, each)), exist_ok=True)
            with open(os.path.join(path, each), "wb") as out:
                out.write(data)
        return path

    return build


def model(**files):
    """A directory of a model, with files besides its weights."""
    return directory("m", {"config.json": b"{}", "model.safetensors": WEIGHTS}, files)


def models(**files):
    """A directory of several models and of other files."""
    return directory("d", {"a.safetensors": WEIGHTS, "b.safetensors": WEIGHTS}, files)


def packed(name, members, method=zipfile.ZIP_STORED):
    def build(tmp):
        path = os.path.join(tmp, name)
        with zipfile.ZipFile(path, "w", method) as out:
            for member, data in members.items():
                out.writestr(member, data)
        return path

    return build


def checkpoint(**members):
    """A checkpoint of torch with further members."""
    named = {"archive/" + name.replace("___", "/").replace("__", "."): data for name, data in members.items()}
    tensor = pickles.tensor(pickles.storage("Float", "0", 1), (1,))
    own = {"archive/data.pkl": pickles.pickle(pickles.dictionary([("w", tensor)])), "archive/data/0": b"\0\0\x80?",
           "archive/version": b"3\n"}
    return packed("m.pt", {**own, **named})


def tar(name, data=b"x"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def joblib(raw, padding=None):
    """An array of bytes as joblib writes it; `padding`: the byte before the padding, which is `(`."""
    dtype = pickles.call("numpy", "dtype", pickles.text("u1"), b"\x89", b"\x88")
    state = pickles.dictionary([("subclass", pickles.function("numpy", "ndarray")), ("shape", pickles.value((len(raw),))),
                                ("order", pickles.text("C")), ("dtype", dtype), ("allow_mmap", b"\x88"),
                                *([("numpy_array_alignment_bytes", pickles.integer(16))] if padding else [])])
    wrapper = pickles.function("joblib.numpy_pickle", "NumpyArrayWrapper") + b")\x81"
    between = b"" if padding is None else bytes([padding]) + b"N" * padding
    return b"\x80\x02" + wrapper + state + b"b" + between + raw + b"."


def evil(case, build, *names, shows=(NAMED,)):
    return Case(case, build, SAFE, 4, {}, [*shows, *names])


def safe(case, build):
    return Case(case, build, SAFE, 0, {}, (), ["run code", "harmless", "not examined"])


def spelled(quoted):
    return b"\x80\x02S" + quoted + b"\nS'system'\n\x93S'true'\n\x85R."


READING = table("UnpickledFiles", [
    # The escapes of a quoted string.
    evil("escape-in-hexadecimal", file("m.pkl", spelled(rb"'posi\x78'"))),
    evil("escape-in-octal", file("m.pkl", spelled(rb"'\160osix'"))),
    evil("escape-that-is-shorter", file("m.pkl", spelled(rb'"po\163ix"'))),
    safe("escape-of-a-plain-text", file("m.pkl", b"(lp0\nS'o\\x73.system'\na.")),
    # Bytes of an array that pickle.load takes for opcodes.
    evil("joblib-inline-opcodes", file("m.joblib", joblib(EVIL))),
    evil("joblib-opcodes-behind-padding", file("m.joblib", joblib(EVIL, padding=0x28))),
    evil("joblib-opcodes-that-break", file("m.joblib", joblib(EVIL[:-1] + b"\0"))),
    safe("joblib-plain-array", file("m.joblib", joblib(b"\1\2\3\4"))),
    # Other formats whose first bytes are a pickle.
    evil("tar-with-a-pickle-as-a-name", file("m.tar", tar(EVIL.decode()))),
    evil("tar-named-as-something-else", file("m.nemo", tar(EVIL.decode()))),
    evil("tar-in-a-zip", packed("m.zip", {"a.tar": tar(EVIL.decode())})),
    safe("tar-with-a-plain-name", file("m.tar", tar("cat"))),
    # Protocols 0 and 1 have no magic number.
    evil("protocol-0-in-a-zip", packed("m.zip", {"table": EVIL}), "m.zip/table"),
    evil("protocol-0-in-a-zip-deflated", packed("m.zip", {"table.dat": EVIL + b" " * 9000}, zipfile.ZIP_DEFLATED)),
    evil("protocol-0-behind-a-long-text", packed("m.zip", {"t": b"(V" + b"a" * 9000 + b"\n0" + EVIL[:-1] + b"l."},
                                                 zipfile.ZIP_DEFLATED)),
    evil("protocol-0-in-a-tar", file("m.tar", tar("table", EVIL)), "m.tar/table"),
    evil("training-args-of-protocol-0", model(training_args__bin=EVIL), "training_args.bin"),
    evil("optimizer-of-protocol-0", model(optimizer__pt=EVIL), "optimizer.pt"),
    evil("pickle-named-as-configuration", model(generation_config__json=EVIL), "generation_config.json"),
    evil("pickle-without-suffix", model(state=EVIL), "m/state"),
    evil("protocol-0-behind-a-plain-one", model(state=PLAIN + EVIL), "m/state"),
    evil("protocol-1-that-breaks", model(state=EVIL[:-1] + b"\0\0"), "m/state"),
    safe("texts-are-no-pickles", model(vocab__txt=b"cat\ndog\nis\n(a)\n", notes__txt=b"class A:\n  b.c = d\n", license=b"S",
                                       merges__txt=b"#version\nc a\nt h\n", README__md=b"# A\n", empty=b"")),
    safe("plain-pickle-without-suffix", model(state=PLAIN)),
    # Members of a checkpoint of torch that it does not have.
    evil("pickle-among-storages", checkpoint(data___evil__pkl=b"\x80\x02" + EVIL), "data/evil.pkl"),
    evil("pickle-of-protocol-0-among-storages", checkpoint(data___7=EVIL), "data/7"),
    evil("pickle-among-code", checkpoint(code___x__pkl=EVIL), "code/x.pkl"),
    evil("pickle-beside-the-object", checkpoint(extra__bin=EVIL), "extra.bin"),
    safe("checkpoint-of-torch", checkpoint()),
    # Compressed files.
    *(evil(f"compressed-{suffix}", model(**{f"state__pkl__{suffix}": data}), f"state.pkl.{suffix}")
      for suffix, data in (("gz", gzip.compress(EVIL)), ("bz2", bz2.compress(EVIL)), ("xz", lzma.compress(EVIL)),
                           ("zst", archives.zstd(EVIL)), ("z", zlib.compress(EVIL)))),
    evil("compressed-protocol-4", model(state__pkl__zst=archives.zstd(b"\x80\x04" + EVIL)), "state.pkl.zst"),
    evil("compressed-without-suffix", model(state=gzip.compress(EVIL)), "m/state"),
    evil("compressed-array-of-objects", model(a__npy__gz=gzip.compress(npy(EVIL, "|O", "(1,)"))),
         shows=["a.npy.gz"]),
    evil("compressed-zip", model(a__bin__xz=lzma.compress(b"\x80\x02" + EVIL))),
    evil("compressed-in-a-zip", packed("m.zip", {"a.pkl.zst": archives.zstd(EVIL)}), "a.pkl.zst"),
    safe("compressed-text", model(vocab__txt__gz=gzip.compress(b"cat\ndog\n" * 1000), log__zst=archives.zstd(b"x" * 9000))),
    Case("damaged-compressed-file", model(state__pkl__gz=gzip.compress(EVIL)[:12]), SAFE, 5, {}, ["state.pkl.gz"]),
    evil("archive-that-is-not-read", model(state__7z=b"7z\xbc\xaf\x27\x1c" + bytes(30)), "state.7z",
         shows=["not examined: a 7z archive"]),
    # A second array or pickle.
    evil("pickle-behind-an-array", file("m.npy", npy() + b"\x80\x02" + EVIL), shows=["its later pickles name posix.system"]),
    evil("objects-behind-an-array", file("m.npy", npy() + npy(EVIL, "|O", "(1,)")), shows=["later pickles name posix.system"]),
    evil("pickle-behind-an-array-of-objects", file("m.npy", npy(PLAIN, "|O", "(1,)") + EVIL), shows=["its later pickles name"]),
    evil("objects-behind-a-pickle", file("m.pkl", b"\x80\x02N." + npy(EVIL, "|O", "(1,)")), shows=["its later pickles name"]),
    evil("pickle-behind-a-pickle", file("m.pkl", b"\x80\x02N." + EVIL), shows=["its later pickles name posix.system"]),
    evil("unknown-behind-a-pickle", file("m.pkl", b"\x80\x02N.cmy_project\nNet\n."), shows=["names my_project.Net, of which"]),
    safe("arrays-behind-an-array", file("m.npy", npy() + npy())),
    # Files beside several models.
    evil("file-in-a-directory-of-models", models(state__bin=EVIL), "d/state.bin"),
    evil("file-below-a-directory-of-models", models(sub___q=EVIL), "d/sub/q"),
    evil("training-args-below-a-directory-of-models", models(m___training_args__bin=EVIL, m___config__json=b"{}",
                                                             m___model__safetensors=WEIGHTS), "d/m/training_args.bin"),
    safe("texts-in-a-directory-of-models", models(notes__txt=b"cat\ndog\n", a__json=b"{}")),
    # What is unknown.
    Case("unknown-is-no-danger", file("m.pkl", b"\x80\x02cmy_project\nNet\n)\x81."), ("info", SOURCE), 0, {},
         ["not known to be harmless: my_project.Net"], ["RUNS CODE"]),
    Case("unknown-in-json", file("m.pkl", b"\x80\x02cmy_project\nNet\n)\x81."), ("info", "--json", SOURCE), 0,
         {"unknown_globals": ["my_project.Net"]}),
    Case("member-of-an-enumeration", file("m.pkl", b"\x80\x02c__builtin__\ngetattr\nctransformers.trainer_utils\nHubStrategy\n"
                                          b"X\x0a\0\0\0EVERY_SAVE\x86R."), ("info", SOURCE), 0, {},
         ["builtins.getattr"], ["RUNS CODE"]),
    evil("attribute-of-a-class", file("m.pkl", b"\x80\x02c__builtin__\ngetattr\ncmy_project\nNet\nX\x0b\0\0\0__globals__\x86R."),
         shows=["names builtins.getattr, which can run code"]),
])

if __name__ == "__main__":
    unittest.main()
