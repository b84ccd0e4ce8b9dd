"""Repositories of the Hub that a GGUF is made of, and GGUFs that a repository is made of, for views/ (formats/mapping)."""
import json
import os

from attack import EITHER, SHOWN, Attack, put
from attacks_gguf import STRING, U32, model as gguf, pack, pair, tensor, text
from attacks_safetensors import container
from attacks_summary import SIZED, dumps
import tiny_repositories
import tiny_repository

FORMAT = "repository"
LLAMA, MIXTRAL, QWEN, BERT = "tiny-llama2-fast", "Tiny-Mixtral-4x100K", "Qwen3-Tiny", "bert-tiny-uncased"
NUMBERS = ("0", "-1", "1e300", "9223372036854775808", "18446744073709551615", "4294967295", "null", '"1"', "[]", "true")
FIELDS = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
          "vocab_size", "max_position_embeddings", "rms_norm_eps", "rope_theta")


def repository(name, **changed):
    """A tiny repository with other files: bytes, or a function of the JSON of the file there; `_` stands for `.`."""
    def build(folder):
        made = tiny_repositories.BUILDERS[name]()
        tiny_repository.write(made, os.path.join(folder, "m"))
        for file, content in changed.items():
            stem, _, suffix = file.rpartition("_")
            path = os.path.join(folder, "m", f"{stem}.{suffix}")
            if callable(content):
                with open(path, encoding="utf-8") as stream:
                    content = content(json.load(stream))
            put(folder, f"m/{stem}.{suffix}", content if isinstance(content, bytes) else dumps(content))
        return "m"
    return build


def with_names(name, make):
    """A tiny repository with the names of `make()`, each of one element, in place of its tensors."""
    def build(folder):
        repository(name)(folder)
        put(folder, "m/model.safetensors", named(make()))
        return "m"
    return build


def named(names):
    entries = [SIZED.format(each, 1, 4 * at, 4 * at + 4) for at, each in enumerate(names)]
    return container("{" + ",".join(entries) + "}", bytes(4 * len(entries)))


def every_number(folder):
    """A directory for each field and each number, with links to the other files of one repository."""
    first = os.path.join(folder, repository(LLAMA)(folder))
    config = tiny_repositories.BUILDERS[LLAMA]().config
    for field in FIELDS:
        for at, number in enumerate(NUMBERS):
            put(folder, f"{field}{at}/config.json", dumps({**config, field: "?"}).replace(b'"?"', number.encode()))
            for file in os.listdir(first):
                if file != "config.json":
                    os.link(os.path.join(first, file), os.path.join(folder, f"{field}{at}", file))
    return ""


def tokenizer(change):
    return lambda found: {**found, **change(found)}


def model_of(change):
    return tokenizer(lambda found: {"model": {**found["model"], **change()}})


def experts():
    return (f"model.layers.0.block_sparse_moe.experts.{x}.w{w}.weight" for w in (1, 2, 3) for x in range(65_535))


def blocks_of_gguf(folder):
    """Names that all have a place, in 100,000 layers; two of them become the same."""
    pairs = [pair(b"general.architecture", STRING, text(b"qwen35")), pair(b"qwen35.block_count", U32, pack("I", 2)),
             pair(b"qwen35.nextn_predict_layers", U32, pack("I", 2))]
    names = [b"blk.%d.attn_norm.weight" % i for i in range(100_000)] + [b"blk.%d.nextn.eh_proj.weight" % i for i in range(2)]
    return put(folder, "m.gguf", gguf(pairs, [tensor(name, (8,), 0) for name in names], bytes(32)))


def scalars_of_gguf(folder):
    pairs = [pair(b"general.architecture", STRING, text(b"qwen35")), pair(b"qwen35.block_count", U32, pack("I", 1)),
             pair(b"qwen35.ssm.group_count", U32, pack("I", 4)), pair(b"qwen35.ssm.time_step_rank", U32, pack("I", 4))]
    names = (b"ssm_conv1d.weight", b"ssm_out.weight", b"attn_qkv.weight", b"ssm_dt.bias")
    return put(folder, "m.gguf", gguf(pairs, [tensor(b"blk.0." + name, (), 0) for name in names], bytes(32)))


def row(name, what, build, expect=SHOWN, **fields):
    return Attack("repository-" + name, FORMAT, what, build, expect, **fields)


ATTACKS = [
    row("numbers", "Every size of config.json is zero, negative or huge.", every_number, memory=400_000_000, cpu=30),
    row("layers", "2^32 - 1 layers.", repository(LLAMA, config_json=lambda c: {**c, "num_hidden_layers": 2**32 - 1})),
    row("experts", "One of 65,536 experts is missing.", with_names(MIXTRAL, experts), EITHER),
    row("blocks", "100,000 layers.",
        with_names(LLAMA, lambda: (f"model.layers.{i}.input_layernorm.weight" for i in range(100_000)))),
    row("prefixes", "A name that is a prefix a hundred thousand times.",
        with_names(LLAMA, lambda: ["language_model." * 100_000 + "model.norm.weight"]), EITHER),
    row("same-names", "Two names that are one without their prefix.",
        with_names(LLAMA, lambda: ["language_model.model.norm.weight", "model.norm.weight"])),
    row("deep-tokenizer", "tokenizer.json is nested ten million times.",
        repository(LLAMA, tokenizer_json=lambda _: b"[" * 10_000_000)),
    row("deep-normalizer", "A normalizer that is nested a million times.",
        repository(LLAMA, tokenizer_json=lambda _: b'{"normalizer":' + b'{"a":' * 1_000_000)),
    row("values-of-normalizer", "A pre-tokenizer of four million values.",
        repository(LLAMA, tokenizer_json=lambda _: b'{"pre_tokenizer":[' + b"0," * 4_000_000 + b'0]}')),
    row("long-tokenizer", "tokenizer.json is larger than the maximum.",
        repository(LLAMA, tokenizer_json=lambda _: b" " * (65 << 20))),
    row("entries", "A vocabulary of more tokens than the maximum.",
        repository(QWEN, tokenizer_json=model_of(lambda: {"vocab": {str(i): i for i in range(2_000_001)}}))),
    row("one-text", "All tokens have one text.", repository(QWEN, tokenizer_json=lambda found: (
        b'{"model":{"type":"BPE","vocab":{' + b",".join(b'"a":%d' % i for i in range(500_000)) + b'},"merges":["a a"]}}'))),
    row("merges", "Two million merges that make no token.",
        repository(QWEN, tokenizer_json=model_of(lambda: {"merges": ["a b"] * 2_000_000}))),
    row("long-merges", "Merges of long texts of spaces.",
        repository(QWEN, tokenizer_json=model_of(lambda: {"merges": [[" " * 30_000, " " * 30_000]] * 500}))),
    row("added", "A million added tokens with one text.", repository(QWEN, tokenizer_json=tokenizer(
        lambda _: {"added_tokens": [{"id": i, "content": "a", "special": True} for i in range(1_000_000)]}))),
    row("added-in-config", "Many added tokens in tokenizer_config.json.", repository(
        QWEN, tokenizer_config_json=lambda found: {
            **found, "added_tokens_decoder": {str(i): {"content": f"<{i}>"} for i in range(100_000)}})),
    row("templates", "Very many chat templates.", repository(QWEN, tokenizer_config_json=lambda found: {
        **found, "chat_template": [{"name": f"t{i}", "template": "x"} for i in range(20_000)]})),
    row("labels", "A classifier with very many labels.", repository(BERT, config_json=lambda found: {
        **found, "architectures": ["BertForSequenceClassification"], "id2label": {str(i): "x" for i in range(60_000)}})),
    row("gguf-blocks", "A GGUF of 100,000 layers, of which a repository would have two tensors of one name.", blocks_of_gguf),
    row("gguf-scalars", "A GGUF with scalars in place of matrices.", scalars_of_gguf, EITHER),
]
