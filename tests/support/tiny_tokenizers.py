"""Small tokenizers as Hugging Face repositories store them: byte-level BPE, SentencePiece with byte fallback, WordPiece."""
import json
import struct
from typing import NamedTuple

import protobuf

WORDS = (" the", " and", " of", " to", "ing", " in", "tion", " that", " is", "er", " for", " was", " with", " it", "ed", " as",
         " be", " not", " world", " hello", "  ", "    ", "\n\n", "12", "00", "ü", " été", "本", "日本", "🚀")
SPACE = "\u2581"

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
WHITE = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def like_llama3(digits, letters=r"\p{L}", marks=""):
    return (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?" + letters + "+|" + digits + r"| ?[^\s\p{L}" + marks + r"\p{N}]+[\r\n]*|" + WHITE)


def like_gpt_4o(digits, contractions=""):
    first, rest = f"[{UPPER}]", f"[{LOWER}]"
    start = r"[^\r\n\p{L}\p{N}]?"
    return (f"{start}{first}*{rest}+{contractions}|{start}{first}+{rest}*{contractions}|" + digits +
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + WHITE)


# The regular expressions of the pre-tokenizer, by the name that llama.cpp gives it; () is ByteLevel's own.
SPLITS = {
    "llama-bpe": (like_llama3(r"\p{N}{1,3}"),),
    "smaug-bpe": (like_llama3(r"\p{N}{1,3}"),),
    "glm4": (like_llama3(r"\p{N}{1,3}"),),
    "qwen2": (like_llama3(r"\p{N}"),),
    "qwen35": (like_llama3(r"\p{N}", r"[\p{L}\p{M}]", r"\p{M}"),),
    "deepseek-v3": (r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|""" + "[^\r\n" + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+" +
                    r"| ?[\p{P}\p{S}]+" + "[\r\n]*" + r"|\s*" + "[\r\n]+" + r"|\s+(?!\S)|\s+"),
    "gpt-4o": (like_gpt_4o(r"\p{N}{1,3}", CONTRACTIONS + "?"),),
    "tekken": (like_gpt_4o(r"\p{N}"),),
    "gpt-2": (),
    "smollm": (),  # each digit alone
}
IGNORE_MERGES = ("llama-bpe", "gpt-4o", "tekken")


def byte_alphabet():
    """The character of each byte in byte-level BPE."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printed]
    return {**{byte: chr(byte) for byte in printed}, **{byte: chr(256 + at) for at, byte in enumerate(others)}}


def learned(words, vocabulary):
    """Adds the beginnings of words to a vocabulary, and returns the merges that make them."""
    merges = []
    for word in words:
        for end in range(2, len(word) + 1):
            if word[:end] not in vocabulary:
                vocabulary[word[:end]] = len(vocabulary)
                merges.append([word[:end - 1], word[end - 1]])
    return merges


def added(identity, content, special=True):
    return {"id": identity, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": not special, "special": special}


def template(first=None, last=None):
    """A TemplateProcessing that puts (text, id) before and after each sequence."""
    def one(sequence, kind):
        parts = [{"Sequence": {"id": sequence, "type_id": kind}}]
        if first:
            parts.insert(0, {"SpecialToken": {"id": first[0], "type_id": kind}})
        if last:
            parts.append({"SpecialToken": {"id": last[0], "type_id": kind}})
        return parts

    tokens = {text: {"id": text, "ids": [identity], "tokens": [text]} for text, identity in filter(None, (first, last))}
    return {"type": "TemplateProcessing", "single": one("A", 0), "pair": one("A", 0) + one("B", 1), "special_tokens": tokens}


def document(model, added_tokens, **parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens,
            **{part: parts.get(part) for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder")}, "model": model}


class Tokenizer(NamedTuple):
    files: dict
    size: int  # of the vocabulary with the added tokens
    ids: dict  # of the added tokens, by text


def byte_level(pre, special, plain=(), pairs=True, post=None, normalizer=None, **config):
    """Byte-level BPE. `special`, `plain`: added tokens; `pairs`: merges as [a, b], else as "a b"; `post`: makes the
    post-processor from the ids of the added tokens."""
    alphabet = byte_alphabet()
    vocabulary = {alphabet[byte]: at for at, byte in enumerate(sorted(alphabet, key=lambda byte: alphabet[byte]))}
    merges = learned(["".join(alphabet[byte] for byte in word.encode()) for word in WORDS], vocabulary)
    ids = {text: len(vocabulary) + at for at, text in enumerate((*special, *plain))}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": not SPLITS[pre]}
    splits = [{"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False} for regex in SPLITS[pre]]
    splits += [{"type": "Digits", "individual_digits": True}] * (pre == "smollm")
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": pre in IGNORE_MERGES, "vocab": vocabulary,
             "merges": merges if pairs else [" ".join(pair) for pair in merges]}
    json_file = document(
        model, [added(identity, text, text in special) for text, identity in ids.items()],
        normalizer=normalizer, pre_tokenizer={"type": "Sequence", "pretokenizers": [*splits, level]} if splits else level,
        post_processor={"type": "Sequence", "processors": [level, post(ids)]} if post else level, decoder=level)
    config.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
    return Tokenizer({"tokenizer.json": json_file, "tokenizer_config.json": config}, len(vocabulary) + len(ids), ids)


NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # SentencePiece's types


def sentencepiece(controls, added_tokens=(), model=True, fast=False, **config):
    """SentencePiece BPE with byte fallback. `controls`: the first pieces in order, `<unk>` among them; `added_tokens`: special
    tokens after the pieces; `model`: writes tokenizer.model; `fast`: writes tokenizer.json."""
    first = {text: at for at, text in enumerate(controls)}
    vocabulary = {**first, **{f"<0x{byte:02X}>": len(first) + byte for byte in range(256)}}
    letters = [SPACE, *"etaoinshrdlucmfwypvbgkjqxzETAOIN0123456789.,!?'-ü本日é"]
    plain = {}
    merges = learned([word.replace(" ", SPACE) for word in WORDS if set(word.replace(" ", SPACE)) <= set(letters)], plain)
    ranked = [*plain, *letters]
    vocabulary.update({text: len(vocabulary) + at for at, text in enumerate(ranked)})
    scores = {text: -float(at) for at, text in enumerate(ranked)}
    ids = {**first, **{text: len(vocabulary) + at for at, text in enumerate(added_tokens)}}
    decoder = {str(identity): {key: value for key, value in added(identity, text).items() if key != "id"}
               for text, identity in ids.items()}
    files = {"tokenizer_config.json": {**config, "added_tokens_decoder": decoder}}
    if model:
        files["tokenizer.model"] = model_proto(vocabulary, controls, scores)
    if fast:
        files["tokenizer.json"] = byte_fallback(vocabulary, merges, ids, config)
    return Tokenizer(files, len(vocabulary) + len(added_tokens), ids)


def model_proto(vocabulary, controls, scores):
    """A ModelProto: the pieces, then a TrainerSpec (BPE, byte_fallback) and a NormalizerSpec."""
    def piece(text):
        kind = UNKNOWN if text == "<unk>" else CONTROL if text in controls else NORMAL if text in scores else BYTE
        score = struct.pack("<f", scores.get(text, 0.0))
        return protobuf.data(1, protobuf.data(1, text) + protobuf.varint(2 << 3 | 5) + score + protobuf.number(3, kind))

    trainer = protobuf.number(3, 2) + protobuf.number(35, 1) + protobuf.number(40, vocabulary["<unk>"])
    return b"".join(map(piece, vocabulary)) + protobuf.data(2, trainer) + protobuf.data(3, protobuf.data(1, "identity"))


def byte_fallback(vocabulary, merges, ids, config):
    """The tokenizer.json that transformers makes of a SentencePiece model."""
    bos = config.get("bos_token")
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": vocabulary,
             "merges": [" ".join(pair) for pair in merges]}
    return document(
        model, [added(identity, text) for text, identity in ids.items()],
        normalizer={"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
        post_processor=template((bos, ids[bos])) if bos else None,
        decoder={"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                                                  {"type": "ByteFallback"}, {"type": "Fuse"}]})


def wordpiece(**config):
    """WordPiece as BERT has it, in lower case."""
    special = ("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"
    rest = ("the", "and", "hello", "world", "##ing", "##ed", "本", "##本")
    words = (*special, *letters, *("##" + letter for letter in letters), *rest)
    vocabulary = {text: at for at, text in enumerate(words)}
    ids = {text: vocabulary[text] for text in special if text != "[unused0]"}
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
             "vocab": vocabulary}
    json_file = document(
        model, [added(identity, text) for text, identity in ids.items()],
        normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                    "lowercase": True},
        pre_tokenizer={"type": "BertPreTokenizer"},
        post_processor=template(("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])), decoder={"type": "WordPiece", "prefix": "##"})
    named = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    files = {"tokenizer.json": json_file, "tokenizer_config.json": {"tokenizer_class": "BertTokenizer", **named, **config}}
    return Tokenizer(files, len(vocabulary), ids)


def file_bytes(content):
    """A file of a repository: bytes as they are, text in UTF-8, all else as JSON."""
    if isinstance(content, bytes):
        return content
    if isinstance(content, str):
        return content.encode()
    return json.dumps(content, ensure_ascii=False, indent=1).encode()
