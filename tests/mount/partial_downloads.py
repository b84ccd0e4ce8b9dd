"""Downloads that are not complete: files in v1/blocks of a cache (cache/blocks/block_file.h)."""
import hashlib
import os

BLOCK = 16 * 1024
PAGE = 4096


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def table_entry(value):
    for _ in range(8):
        value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value


TABLE = [table_entry(value) for value in range(256)]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def path_of(cache, data):
    """The file with the blocks of the blob `data`; the map is beside it."""
    return os.path.join(cache, "v1", "blocks", sha256(identity_of(data).encode()))


def map_of(path):
    return path + ".map"


def identity_of(data):
    return f"sha256 {sha256(data)} {len(data)}"


def header_of(path):
    """The size and identity in the header of the file's map. ValueError if it is being created or published."""
    with open(map_of(path), "rb") as file:
        magic, size, identity = file.read(PAGE).rstrip(b"\0").decode().split("\n", 2)
    if magic != "weightfs blocks 3":
        raise ValueError(f"{path}: no header")
    return int(size), identity


def in_cache(cache):
    """The digests of all partial downloads."""
    folder = os.path.join(cache, "v1", "blocks")
    names = [name for name in os.listdir(folder) if not name.endswith(".map")] if os.path.isdir(folder) else []
    found = []
    for name in names:
        try:
            identity = header_of(os.path.join(folder, name))[1]
        except (OSError, ValueError):
            continue  # removed meanwhile
        found += [identity.split()[1]] if identity.startswith("sha256 ") else []
    return found


def present_blocks(path):
    """The numbers of the blocks in the map; none if there is no such file."""
    try:
        size, _ = header_of(path)
        with open(map_of(path), "rb") as file:
            file.seek(PAGE)
            entries = file.read(-(-size // BLOCK) * 8)
    except (OSError, ValueError):
        return set()
    entry = [int.from_bytes(entries[at:at + 4], "little") for at in range(0, len(entries), 4)]
    return {i for i in range(len(entry) // 2) if entry[2 * i] ^ entry[2 * i + 1] == 0xFFFFFFFF}


def present_bytes(path):
    return len(present_blocks(path)) * BLOCK


def write(cache, data, present):
    """Writes a partial download of `data` of which the first `present` blocks are there."""
    path = path_of(cache, data)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    count = -(-len(data) // BLOCK)
    sums = b""
    for i in range(present):
        crc = crc32c(data[i * BLOCK:(i + 1) * BLOCK])
        sums += crc.to_bytes(4, "little") + (crc ^ 0xFFFFFFFF).to_bytes(4, "little")
    with open(path, "wb") as file:
        file.write(data[:present * BLOCK])
        file.truncate(len(data))
    with open(map_of(path), "wb") as file:
        file.write(f"weightfs blocks 3\n{len(data)}\n{identity_of(data)}".encode().ljust(PAGE, b"\0"))
        file.write(sums)
        file.truncate(PAGE + count * 8)
    return path
