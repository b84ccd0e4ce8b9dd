"""Names that hash tables put into one bucket. The hash of std::string in libstdc++ is a MurmurHash64A with a known seed: each of
its steps has an inverse, so the second eight bytes of a pair can undo what the first did. The hash of libzip 1.7 multiplies by
33."""
import itertools
import random

MASK = (1 << 64) - 1
MULTIPLIER = 0xC6A4A7935BD1E995
INVERSE = pow(MULTIPLIER, -1, 1 << 64)
SEED = 0xC70F6907
PAIRS = 4  # of eight bytes
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=!#$&()*,;<>?@[]^`{|}~ :"
ALLOWED = frozenset(LETTERS)


def mixed(block):
    block = block * MULTIPLIER & MASK
    return (block ^ block >> 47) * MULTIPLIER & MASK


def unmixed(block):
    block = block * INVERSE & MASK
    return (block ^ block >> 47) * INVERSE & MASK


def equal_pairs(state, count, generator):
    """Texts of 16 bytes that lead from `state` to one state; (texts, that state)."""
    texts, target = [], None
    while len(texts) < count:
        first = bytes(generator.choices(LETTERS, k=8))
        middle = (state ^ mixed(int.from_bytes(first, "little"))) * MULTIPLIER & MASK
        if target is None:
            target = (middle ^ mixed(int.from_bytes(b"________", "little"))) * MULTIPLIER & MASK
        second = unmixed(middle ^ (target * INVERSE & MASK)).to_bytes(8, "little")
        if ALLOWED.issuperset(second):
            texts.append(first + second)
    return texts, target


def std_names(count):
    """`count` printable names of 64 bytes, without `/`, `"`, `%` and `\\`, with one std::hash."""
    generator = random.Random(1)
    each = 1
    while each ** PAIRS < count:
        each += 1
    state, pairs = SEED ^ (16 * PAIRS * MULTIPLIER & MASK), []
    for _ in range(PAIRS):
        texts, state = equal_pairs(state, each, generator)
        pairs.append(texts)
    return [b"".join(parts) for parts in itertools.islice(itertools.product(*pairs), count)]


def libzip_names(count):
    """`count` names of letters with one hash of libzip: "Ez" and "FY" have the same."""
    bits = max(count - 1, 1).bit_length()
    return [b"".join((b"FY" if i >> bit & 1 else b"Ez") for bit in range(bits)) for i in range(count)]
