"""The small files beside a model that its summary is read from, and tensor names made against the folding of blocks."""
import json
import os

from attack import EITHER, Attack, links_to, pack, put
from attacks_gguf import ARRAY, STRING, U8, U32, array, model as gguf, pair, tensor, text
from attacks_safetensors import container, entries

FORMAT = "summary"
SIZED = '"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}}'
MILLION = 1_000_000

# The facts of config.json that are numbers (docs/summary.md), in groups of families.
NUMBERS = """
    num_hidden_layers n_layer n_layers num_layers num_transformer_layers decoder_layers encoder_layers num_encoder_layers
    hidden_size n_embd d_model dim n_embed model_dim num_attention_heads n_head n_heads num_heads decoder_attention_heads
    num_key_value_heads num_kv_heads n_head_kv n_kv_heads multi_query_group_num head_dim d_kv kv_channels attention_head_dim
    intermediate_size ffn_dim d_ff n_inner ffn_hidden_size hidden_dim num_experts num_local_experts n_routed_experts
    moe_num_experts num_experts_per_tok experts_per_token moe_k moe_topk n_shared_experts num_shared_experts moe_intermediate_size
    first_k_dense_replace decoder_sparse_step moe_layer_freq interleave_moe_layer_step max_position_embeddings n_positions
    max_target_positions n_ctx seq_length max_seq_len rope_theta vocab_size padded_vocab_size sliding_window window_size
    sliding_window_pattern attention_chunk_size max_window_layers num_labels image_size patch_size num_channels kv_lora_rank
    q_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim index_head_dim state_size conv_kernel expand attn_layer_period
    attn_layer_offset full_attention_interval num_nextn_predict_layers num_kv_shared_layers linear_num_value_heads
    linear_key_head_dim linear_value_head_dim linear_conv_kernel_dim mamba_d_state mamba_d_conv mamba_expand mamba_n_groups
    pad_token_id projection_dim max_source_positions num_mel_bins original_max_position_embeddings
""".split()
FAMILIES = ("llama", "deepseek_v3", "gemma3", "jamba", "qwen3_next", "mamba2", "whisper", "roberta", "t5", "nemotron_h")

KNOWN = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 8,
    "num_attention_heads": 2, "vocab_size": 4
}


def weights():
    """The tensors of a tiny model."""
    names = ("model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight",
             "lm_head.weight")
    header = ",".join(SIZED.format(name, "4,8", 128 * i, 128 * (i + 1)) for i, name in enumerate(names))
    return container("{" + header + "}", bytes(128 * len(names)))


def dumps(value):
    return json.dumps(value, separators=(",", ":")).encode()


def beside(fill, name="model.safetensors", make=weights):
    """A directory with a model; `fill(folder)` writes the files beside it."""
    def build(folder):
        put(folder, name, make())
        fill(folder)
        return ""
    return build


def files(**made):
    """Files beside a model, by their names with `_` for `.` before the suffix: bytes, or a function that returns them."""
    def fill(folder):
        for name, data in made.items():
            stem, _, suffix = name.rpartition("_")
            put(folder, f"{stem}.{suffix}", data() if callable(data) else data)
    return beside(fill)


def config(make):
    """config.json with the fields of a small model and others; or its bytes."""
    def fill(folder):
        made = make()
        put(folder, "config.json", made if isinstance(made, bytes) else dumps({**KNOWN, **made}))
    return beside(fill)


def with_numbers(literal):
    """A directory for each family; in its config.json every number is this literal."""
    def build(folder):
        for family in FAMILIES:
            fields = "".join(f',"{name}":{literal}' for name in NUMBERS)
            nested = f'{{"model_type":"{family}"{fields}}}'
            put(folder, f"{family}/model.safetensors", weights())
            put(folder, f"{family}/config.json", (
                f'{{"model_type":"{family}","architectures":["AForCausalLM"],"text_config":{nested},"vision_config":{nested},'
                f'"rope_scaling":{{"type":"yarn","factor":{literal},"original_max_position_embeddings":{literal}}},'
                f'"ffn_config":{nested},"attn_config":{nested},"quantization_config":{{"quant_method":"gptq","bits":{literal},'
                f'"group_size":{literal}}}{fields}}}').encode())
        return ""
    return build


def gguf_keys(pairs, architecture=b"llama", tensors=lambda: ()):
    def fill(folder):
        known = [pair(b"general.architecture", STRING, text(architecture)), pair(architecture + b".block_count", U32, pack("I", 2))]
        put(folder, "m.gguf", gguf([*known, *pairs()], [tensor(b"token_embd.weight", (8, 4), 0), *tensors()], bytes(128)))
        return "m.gguf"
    return fill


def u32s(count, value):
    return array(U32, count, pack("I", value) * count)


def names_of(make):
    """A model of tensors with these names."""
    def build(folder):
        return put(folder, "model.safetensors", container(entries(make())))
    return build


def shapes_of(count):
    """`count` layers, each with another shape, so that none is folded with another."""
    at, parts = 0, []
    for i in range(count):
        parts.append(SIZED.format(f"layers.{i}.w", i % 1000 + 1, at, at + 4 * (i % 1000 + 1)))
        at += 4 * (i % 1000 + 1)
    return container("{" + ",".join(parts) + "}", bytes(at))


def adapter(fields):
    def build(folder):
        names = [b"base_model.model.model.layers.%d.self_attn.q_proj.lora_%c.weight" % (i, c) for i in range(2) for c in b"AB"]
        put(folder, "adapter_model.safetensors", container(entries(names)))
        put(folder, "adapter_config.json", dumps({"peft_type": "LORA", "r": 8, "lora_alpha": 16, **fields()}))
        return ""
    return build


def pipeline(make, also=()):
    """A diffusers pipeline: `make()` has the components of model_index.json; `also` are directories with weights."""
    def build(folder):
        for name in ("unet", *also):
            put(folder, f"{name}/diffusion_pytorch_model.safetensors", weights())
        put(folder, "model_index.json", dumps({"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet"], **make()}))
        return ""
    return build


def modules(make):
    def fill(folder):
        put(folder, "config.json", dumps({**KNOWN, "model_type": "bert"}))
        put(folder, "modules.json", dumps(make()))
        put(folder, "1_Pooling/config.json", dumps({"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}))
    return beside(fill)


OUTSIDE = ("../../../../../../../../etc", "/etc", "..", ".", "", "a/../../b", "a\0b", "\\\\server\\a", "a" * 5_000,
           "snapshots/../..")


def hub_cache(fill):
    """A repository in the cache of huggingface_hub."""
    def build(folder):
        root = os.path.join(folder, "models--org--name")
        put(root, "blobs/" + "a" * 64, weights())
        put(root, "blobs/" + "b" * 40, dumps(KNOWN))
        put(root, "refs/main", b"c" * 40)
        snapshot = os.path.join(root, "snapshots", "c" * 40)
        os.makedirs(snapshot)
        os.symlink("../../blobs/" + "a" * 64, os.path.join(snapshot, "model.safetensors"))
        fill(root, snapshot)
        return "models--org--name"
    return build


def links_that_leave(root, snapshot):
    for name, target in (("config.json", "/etc/passwd"), ("tokenizer.json", "../../../../../../../../../../etc/passwd"),
                         ("README.md", "../../refs/main"), ("generation_config.json", "/dev/zero"),
                         ("params.json", "/proc/self/mem"), ("adapter_config.json", "adapter_config.json"),
                         ("modules.json", "../../blobs"), ("tokenizer_config.json", "gone"), ("pytorch_model.bin", "/etc/shadow"),
                         ("onnx", "../../.."), ("original", "../.."), ("1_Pooling", "../../snapshots")):
        os.symlink(target, os.path.join(snapshot, name))
    os.mkfifo(os.path.join(snapshot, "preprocessor_config.json"))


def many_snapshots(root, snapshot):
    os.unlink(os.path.join(root, "refs/main"))
    for i in range(500):
        os.symlink("c" * 40, os.path.join(root, "snapshots", f"{i:040x}"))


def hostile_refs(root, snapshot):
    put(root, "refs/main", b"../" * 3_000_000 + b"etc")
    for i in range(1_000):
        put(root, f"refs/pr/{i}", b"/etc\0")
    os.symlink("../snapshots", os.path.join(root, "snapshots", "loop"))


def special_files(folder):
    """The small files as FIFOs, devices, directories, loops and holes."""
    os.mkfifo(os.path.join(folder, "config.json"))
    os.symlink("/dev/zero", os.path.join(folder, "generation_config.json"))
    os.symlink("/dev/urandom", os.path.join(folder, "README.md"))
    os.symlink("tokenizer.json", os.path.join(folder, "tokenizer.json"))
    os.mkdir(os.path.join(folder, "tokenizer_config.json"))
    for name in ("params.json", "quantize_config.json", "trainer_state.json", "chat_template.jinja"):
        put(folder, name, b"{")
        os.truncate(os.path.join(folder, name), 1 << 40)


def many_other_weights(folder):
    put(folder, "config.json", dumps(KNOWN))
    links_to(folder, "model.safetensors",
             [f"other-{i}.{suffix}" for i in range(500) for suffix in ("safetensors", "bin", "gguf", "onnx")], hard=True)


def many_checkpoints(folder):
    put(folder, "config.json", dumps(KNOWN))
    for i in range(3_000):
        put(folder, f"checkpoint-{i}/optimizer.pt", b"")
        put(folder, f"checkpoint-{i}/trainer_state.json", b"{}")


def many_directories(folder):
    """Names below a single model, which are listed to learn whether there are others."""
    for i in range(40):
        for j in range(40):
            for name in "abcde":
                put(folder, f"{i}/{j}/{name}.txt", b"")


def front_matter(make):
    return files(README_md=lambda: b"---\n" + make() + b"\n---\n# A model\n", config_json=dumps(KNOWN))


def tokenizer_of(count):
    return b'{"version":"1.0","added_tokens":[' + b",".join(b'{"id":%d,"content":"<%d>"}' % (i, i) for i in range(1_000)) + \
        b'],"model":{"vocab":{' + b",".join(b'"token %d":%d' % (i, i) for i in range(count)) + b'},"type":"BPE"}}'


def quantised(count):
    each = {f"model.layers.{i}.mlp.up_proj": {"bits": 4, "group_size": 64} for i in range(count)}
    return {"quantization": {"bits": 4, "group_size": 64, **each}}


def compressed_tensors(count):
    groups = {f"group_{i}": {"targets": [f"re:.*layers\\.{i}\\..*(a+)+$"], "weights": {"num_bits": 4}} for i in range(count)}
    return {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["re:(a*)*b"] * count}}


ALIASES = b"license: &a mit\n" + b"".join(b"a%d: &a%d [%s]\n" % (i, i, b",".join([b"*a%d" % (i - 1)] * 10))
                                          for i in range(1, 2_000))


def deep_object(depth):
    return b'{"model_type":"llama","a":' + b'{"text_config":' * depth + b"1" + b"}" * depth + b"}"


ROWS = [
    ("config-10-mb", "a config.json of 10 MB with many keys", config(lambda: {f"key{i}": i for i in range(500_000)})),
    ("config-keys-alike", "350,000 keys that differ from a known one in the last characters",
     config(lambda: {f"num_hidden{i:07}": i for i in range(350_000)})),
    ("config-20-mb", "a config.json of 20 MB, more than is read", config(lambda: b'{"a":"' + b"x" * 20_000_000 + b'"}')),
    ("config-deep", "a config.json of depth 10,000",
     config(lambda: b'{"model_type":"llama","a":' + b"[" * 10_000 + b"]" * 10_000 + b"}")),
    ("config-text-configs", "10,000 text_config in each other", config(lambda: deep_object(10_000))),
    ("config-not-json", "a config.json that is no JSON", config(lambda: b"\xFF\xFE{" * 1_000)),
    ("config-list", "a config.json that is a list", config(lambda: b"[" + b"{}," * MILLION + b"{}]")),
    *((f"config-numbers-{name}", f"a config.json whose numbers are {literal}", with_numbers(literal))
      for name, literal in (("1e308", "1e308"), ("1e400", "1e400"), ("negative", "-1"), ("2-64", "18446744073709551616"),
                            ("2-63", "9223372036854775808"), ("2-48", "281474976710656"), ("nan", "NaN"), ("infinity", "-Infinity"),
                            ("zero", "0"), ("fraction", "1.5"), ("one", "1"), ("string", '"12"'), ("list", "[1,2]"),
                            ("object", '{"a":1}'), ("null", "null"), ("bool", "true"), ("million", "1000000"))),
    ("config-experts", "a million experts", config(lambda: {"num_experts": MILLION, "num_experts_per_tok": [8] * MILLION})),
    ("config-layers", "a million layers, each with its type",
     config(lambda: {"num_hidden_layers": MILLION, "layer_types": ["full_attention"] * 400_000, "sliding_window": 4})),
    ("config-layer-types-long", "the types of a million layers, in more than 10 MB",
     config(lambda: {"num_hidden_layers": MILLION, "layer_types": ["sliding_attention"] * MILLION, "sliding_window": 4})),
    ("config-layers-per-layer", "lists of a number per layer",
     config(lambda: {"num_hidden_layers": MILLION, "num_key_value_heads": [1] * MILLION, "ffn_dim": [1] * MILLION, "head_dim": 64})
     ),
    ("config-hybrid-pattern", "a pattern of a million layers",
     config(lambda: {"model_type": "nemotron_h", "num_hidden_layers": MILLION, "hybrid_override_pattern": "*M-E" * 250_000})),
    ("config-layers-2-48", "2^48 layers, whose caches are added",
     config(
         lambda: {
             "num_hidden_layers": 1 << 48, "num_key_value_heads": 1 << 48, "head_dim": 1 << 48, "max_position_embeddings": 1 << 48,
             "sliding_window": 1, "sliding_window_pattern": 2
         })),
    ("config-labels", "a million labels", config(lambda: {"id2label": {str(i): "" for i in range(800_000)}})),
    ("config-overrides-mlx", "100,000 modules with their own quantisation", config(lambda: quantised(100_000))),
    ("config-overrides-patterns", "20,000 patterns with nested repetition", config(lambda: compressed_tensors(20_000))),
    ("config-names", "long names and control characters",
     config(lambda: {
         "_name_or_path": "/home/user/\x1B[31m" * 100_000, "model_type": "\x1B]0;x\x07" * 100_000, "architectures": ["A" * MILLION]
         * 3
     })),
    ("generation-config", "a generation_config.json of 9 MB, deep and wide",
     files(
         config_json=dumps(KNOWN), generation_config_json=lambda: dumps(
             {"temperature": [[0.1] * 1_000] * 1_000, "top_p": {"a": {"b": 1}}, "top_k": 1e308, "do_sample": "x" * 100_000}))),
    ("card-anchors", "front matter of aliases that double ten times 2,000", front_matter(lambda: ALIASES)),
    ("card-10-mb", "front matter of 10 MB of tags", front_matter(lambda: b"tags:\n" + b"- a\n" * 2_500_000)),
    ("card-list", "a list of ten million characters in one line", front_matter(lambda: b"tags: [" + b"a, " * 3_000_000 + b"]")),
    ("card-deep", "lists of depth 100,000 in front matter", front_matter(lambda: b"license: " + b"[" * 100_000 + b"]" * 100_000)),
    ("card-indents", "mappings of depth 3,000 in front matter",
     front_matter(lambda: b"\n".join(b" " * i + b"a:" for i in range(3_000)))),
    ("card-open", "front matter that does not end",
     files(README_md=lambda: b"---\nlicense: mit\n" + b"a: b\n" * 3_000_000, config_json=dumps(KNOWN))),
    ("card-lines", "front matter of 5 million empty lines", front_matter(lambda: b"\n" * 5_000_000)),
    ("card-quotes", "a quoted text without end", front_matter(lambda: b'license: "' + b"\\" * 5_000_000)),
    ("card-base-models", "a million base models", front_matter(lambda: b"base_model:\n" + b"- a/b\n" * MILLION)),
    ("tokenizer-30-mb", "a tokenizer.json of 30 MB whose kind comes last",
     files(config_json=dumps(KNOWN), tokenizer_json=lambda: tokenizer_of(1_200_000))),
    ("tokenizer-blanks", "a tokenizer.json that names its model often, then has blanks",
     files(config_json=dumps(KNOWN), tokenizer_json=lambda: b'"model"' * 18_000 + b" " * 136_000)),
    ("tokenizer-deep", "a tokenizer.json of depth 100,000",
     files(config_json=dumps(KNOWN), tokenizer_json=lambda: b'{"model":' * 100_000 + b"1" + b"}" * 100_000)),
    ("tokenizer-types", "a tokenizer.json with a million kinds",
     files(config_json=dumps(KNOWN), tokenizer_json=lambda: b'{"model":{' + b",".join([b'"type":"BPE"'] * MILLION) + b"}}")),
    ("template-10-mb", "a chat template of 10 MB",
     files(config_json=dumps(KNOWN), chat_template_jinja=lambda: b"{{ tools }}<think" * 600_000)),
    ("template-in-config", "a chat template of 9 MB in tokenizer_config.json",
     files(config_json=dumps(KNOWN), tokenizer_config_json=lambda: dumps({"chat_template": "{%\n" * 2_000_000}))),
    ("templates-named", "100,000 chat templates with names",
     files(config_json=dumps(KNOWN),
           tokenizer_config_json=lambda: dumps({"chat_template": [{"name": f"t{i}", "template": "a"} for i in range(100_000)]}))),
    ("templates-files", "5,000 files of chat templates",
     beside(lambda folder: [
         put(folder, "config.json", dumps(KNOWN)), *(put(folder, f"additional_chat_templates/{i}.jinja", b"a")
                                                     for i in range(5_000))
     ])),
    ("adapter-targets", "a million target modules", adapter(lambda: {"target_modules": [f"m{i}" for i in range(MILLION)]})),
    ("adapter-patterns", "300,000 ranks by pattern",
     adapter(
         lambda: {
             "target_modules": "(a+)+$" * 10_000, "rank_pattern": {f"(a+)+{i}": i for i in range(300_000)},
             "alpha_pattern": {f"x{i}": 1e308 for i in range(1_000)}
         })),
    ("adapter-numbers", "ranks that are no numbers",
     adapter(lambda: {
         "r": -1, "lora_alpha": 1e308, "base_model_name_or_path": "../" * 1_000_000, "peft_type": ["LORA"],
         "target_modules": {"a": 1}
     })),
    ("pipeline-components", "100,000 components", pipeline(lambda: {f"part{i}": ["diffusers", "Model"] for i in range(100_000)})),
    ("pipeline-outside", "components outside of the directory",
     pipeline(lambda: {name: ["diffusers", "Model"] for name in OUTSIDE})),
    ("pipeline-one-file", "1,000 components that are links to one", lambda folder: [
        pipeline(lambda: {f"part{i}": ["diffusers", "Model"] for i in range(1_000)})
        (folder), *(os.symlink("unet", os.path.join(folder, f"part{i}")) for i in range(1_000))
    ][0]),
    ("pipeline-types", "components that are no pairs",
     pipeline(lambda: {"a": [None, None], "b": "text", "c": [1, 2, 3], "d": {"e": ["f", "g"]}, "vae": [["x"] * 1_000] * 100})),
    ("modules-outside", "modules outside of the directory",
     modules(lambda: [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models.Dense"}
                      for i, path in enumerate(OUTSIDE)])),
    ("modules-many", "100,000 modules",
     modules(lambda: [{"idx": i, "path": f"{i}_Dense", "type": "sentence_transformers.models.Dense"} for i in range(100_000)])),
    ("hub-cache-links", "links of a cache of the Hub that leave it", hub_cache(links_that_leave)),
    ("hub-cache-snapshots", "500 links to one snapshot", hub_cache(many_snapshots)),
    ("hub-cache-refs", "a ref of 9 MB that leads out of the cache", hub_cache(hostile_refs)),
    ("files-special", "FIFOs, devices, loops and holes instead of small files", beside(special_files)),
    ("trainer-state", "a log of 9 MB of a trainer",
     beside(lambda folder: [
         put(folder, "config.json", dumps(KNOWN)),
         put(folder, "optimizer.pt", b""),
         put(folder, "trainer_state.json", dumps({"log_history": [{"loss": 0.1}] * 600_000, "global_step": 1e308}))
     ])),
    ("other-weights", "2,000 other files of weights beside a model", beside(many_other_weights)),
    ("checkpoints", "3,000 checkpoints beside a model", beside(many_checkpoints)),
    ("directories-below", "8,000 files below a single model", beside(many_directories, "only.safetensors")),
    ("names-indexes", "100,000 layers of one tensor", names_of(lambda: (b"model.layers.%d.w" % i for i in range(100_000)))),
    ("names-indexes-deep", "100,000 names of several indexes",
     names_of(lambda: (b"a.%d.b.%d.c.%d.d.%d" % (i % 97, i % 89, i % 83, i) for i in range(100_000)))),
    ("names-shapes", "20,000 layers of 1,000 shapes", lambda folder: put(folder, "model.safetensors", shapes_of(20_000))),
    ("names-deep", "names of 1,000 components",
     names_of(lambda: (b".".join([b"%d" % (i % 7)] * 1_000 + [b"%d" % i]) for i in range(4_000)))),
    ("names-dots", "names of dots and slashes", names_of(lambda: (b"." * 1_000 + b"/" * 1_000 + b"%d" % i for i in range(2_000)))),
    ("names-stems", "150,000 stems with an index", names_of(lambda: (b"dense_%d/kernel" % i for i in range(150_000)))),
    ("names-digits", "indexes of 1,000 digits", names_of(lambda: (b"layers.%d%s.w" % (i, b"0" * 1_000) for i in range(10_000)))),
    ("names-prefixes", "each name is the beginning of the next",
     names_of(lambda: (b".".join([b"a"] * i) for i in range(1, 5_000)))),
    ("names-companions", "100,000 packed weights without scales",
     names_of(lambda:
              (b"layers.%d.%s" % (i // 4, (b"qweight", b"qzeros", b"g_idx", b"weight_packed")[i % 4]) for i in range(100_000)))),
    ("names-experts", "expert indexes up to 2^64",
     names_of(lambda: (b"model.layers.%d.mlp.experts.%d.w" % (i, (1 << 64) - i) for i in range(50_000)))),
    ("gguf-heads", "the heads of a million layers",
     gguf_keys(lambda: [
         pair(b"llama.attention.head_count", U32, pack("I", 8)),
         pair(b"llama.attention.head_count_kv", ARRAY, u32s(MILLION, 8)),
         pair(b"llama.embedding_length", U32, pack("I", 64)),
         pair(b"llama.feed_forward_length", ARRAY, u32s(MILLION, 8)),
         pair(b"llama.context_length", U32, pack("I", 4096))
     ])),
    ("gguf-layers", "2^32 - 1 layers with a pattern of windows",
     gguf_keys(
         lambda: [
             pair(b"gemma3.block_count", U32, pack("I", 0xFFFFFFFF)),
             pair(b"gemma3.attention.sliding_window", U32, pack("I", 0xFFFFFFFF)),
             pair(b"gemma3.attention.sliding_window_pattern", ARRAY, array(7, MILLION, b"\1\0" * (MILLION // 2))),
             pair(b"gemma3.attention.head_count", U32, pack("I", 0xFFFFFFFF)),
             pair(b"gemma3.embedding_length", U32, pack("I", 0xFFFFFFFF)),
             pair(b"gemma3.attention.key_length", U32, pack("I", 0xFFFFFFFF)),
             pair(b"gemma3.context_length", U32, pack("I", 0xFFFFFFFF))
         ], b"gemma3")),
    ("gguf-base-models", "2^32 base models and a million tags",
     gguf_keys(lambda: [
         pair(b"general.base_model.count", U32, pack("I", 0xFFFFFFFF)),
         pair(b"general.tags", ARRAY, array(STRING, MILLION,
                                            text(b"") * MILLION)),
         pair(b"general.languages", ARRAY, array(U8, 5, b"12345"))
     ])),
    ("gguf-one-module", "100,000 tensors of one packed module",
     gguf_keys(
         lambda: [], tensors=lambda:
         [tensor(b"m." + (b"weight", b"scales", b"qweight", b"qzeros", b"other")[i % 5], (2, 2), 26) for i in range(100_000)])),
    ("gguf-projector", "a projector of 20,000 tensors beside a model", lambda folder: [
        put(folder, "m.gguf",
            gguf([pair(b"general.architecture", STRING, text(b"llama"))], [tensor(b"token_embd.weight", (8, 4), 0)], bytes(128))),
        put(
            folder, "mmproj-m.gguf",
            gguf([pair(b"general.architecture", STRING, text(b"clip"))],
                 [tensor(b"v.t%d" % i, (1 << 40, 1 << 20), 0) for i in range(20_000)])), ""
    ][-1]),
    ("gguf-template", "a chat template of 10 MB, and 20,000 with names",
     gguf_keys(lambda: [
         pair(b"tokenizer.chat_template", STRING, text(b"{{ tools }}" * 900_000)), *(
             pair(b"tokenizer.chat_template.t%d" % i, STRING, text(b"a")) for i in range(20_000))
     ])),
]

ATTACKS = [Attack(f"summary-{name}", "directory" if name.startswith(("config-numbers", "hub-cache", "directories", "other-weights",
                                                                     "checkpoints", "pipeline", "modules", "files")) else FORMAT,
                  what, build, EITHER) for name, what, build in ROWS]
