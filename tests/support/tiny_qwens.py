"""Tiny repositories of Qwen 2, 3 and 3.5, dense and with experts."""
from tiny_repository import (HIDDEN, Repository, attention, card, config, decoder, feed_forward, norms, plain_layer)
from tiny_tokenizers import byte_level, template

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>")
PLAIN = ("<tool_call>", "</tool_call>", "<|fim_prefix|>")
CHAT = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
EXPERTS = 4


def tokenizer(pre="qwen2", **more):
    return byte_level(pre, SPECIAL, PLAIN, normalizer={"type": "NFC"}, **{
        "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None, "add_prefix_space": False,
        "tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False, **more})


def with_ids(words, **fields):
    return {"bos_token_id": words.ids["<|endoftext|>"], "eos_token_id": words.ids["<|im_end|>"], "rms_norm_eps": 1e-6,
            "rope_theta": 1000000.0, **fields}


def qwen2():
    """Biases of q, k and v, tied, merges as pairs, 12 padding rows, a window that is not used."""
    words = tokenizer(chat_template=CHAT)
    document = config("Qwen2ForCausalLM", "qwen2", words.size + 12, **with_ids(
        words, tie_word_embeddings=True, use_sliding_window=False, sliding_window=512, max_window_layers=2))
    readme = card("license: apache-2.0", "license_link: https://huggingface.co/Qwen/Qwen2.5-0.5B/blob/main/LICENSE", "language:",
                  "- en", "pipeline_tag: text-generation", "base_model: Qwen/Qwen2.5-0.5B", "tags:", "- chat")
    generation = {"do_sample": True, "repetition_penalty": 1.05, "temperature": 0.7, "top_p": 0.8, "top_k": 20}
    return Repository("qwen2", document, decoder(document, plain_layer(document, "qkv")),
                      {**words.files, "README.md": readme, "generation_config.json": generation})


def qwen2_embedding():
    """An embedding model: names without `model.`, no lm_head, the pooling in a file of its own."""
    words = tokenizer()
    document = config("Qwen2Model", "qwen2", words.size, **with_ids(words, is_causal=False))
    shapes = decoder(document, plain_layer(document, "qkv"), head=False)
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
               {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    pooling = {"word_embedding_dimension": HIDDEN, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False,
               "pooling_mode_lasttoken": True}
    return Repository("qwen2", document, {name.removeprefix("model."): shape for name, shape in shapes.items()},
                      {**words.files, "modules.json": modules, "1_Pooling/config.json": pooling}, dtype="float16")


def experts(document, prefix, stacked, shared=False, size=96):
    """The router and its experts, one by one or stacked as transformers 5 writes them; perhaps a shared expert."""
    shapes = {f"{prefix}.gate.weight": (EXPERTS, HIDDEN)}
    if stacked:
        shapes[f"{prefix}.experts.gate_up_proj"] = (EXPERTS, 2 * size, HIDDEN)
        shapes[f"{prefix}.experts.down_proj"] = (EXPERTS, HIDDEN, size)
    else:
        for expert in range(EXPERTS):
            shapes.update(feed_forward(document, f"{prefix}.experts.{expert}", size))
    if shared:
        shapes.update(feed_forward(document, f"{prefix}.shared_expert", 2 * size))
        shapes[f"{prefix}.shared_expert_gate.weight"] = (1, HIDDEN)
    return shapes


def moe_layer(document, biases, head_norms, **kinds):
    def layer(prefix, _):
        return {**norms(document, prefix, "input_layernorm", "post_attention_layernorm"),
                **attention(document, f"{prefix}.self_attn", biases, head_norms), **experts(document, f"{prefix}.mlp", **kinds)}

    return layer


def qwen2_moe():
    """A shared expert with a gate; rows of 80 elements."""
    words = tokenizer()
    document = config("Qwen2MoeForCausalLM", "qwen2_moe", words.size, **with_ids(
        words, num_experts=EXPERTS, num_experts_per_tok=2, moe_intermediate_size=80, shared_expert_intermediate_size=160,
        norm_topk_prob=False, decoder_sparse_step=1))
    return Repository("qwen2", document, decoder(document, moe_layer(document, "qkv", None, stacked=False, shared=True, size=80)),
                      words.files)


def qwen3_config(architecture, model_type, words, **fields):
    return config(architecture, model_type, words.size + 5, head_dim=32, attention_bias=False, **with_ids(words, **fields))


def qwen3():
    """Norms of q and k, tied although lm_head is stored, the template in a file, yarn."""
    words = tokenizer(chat_template=None)
    document = qwen3_config("Qwen3ForCausalLM", "qwen3", words, tie_word_embeddings=True, rope_scaling={
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "attention_factor": 1.2})
    del words.files["tokenizer_config.json"]["chat_template"]
    return Repository("qwen2", document, decoder(document, plain_layer(document, head_norms=(32, 32)), head=True),
                      {**words.files, "chat_template.jinja": CHAT, "generation_config.json": {"top_k": 20, "temperature": 0.6}})


def qwen3_embedding():
    """An embedding model: names without `model.`, an end of text that the template adds."""
    words = byte_level("qwen2", SPECIAL, PLAIN, eos_token="<|im_end|>", pad_token="<|endoftext|>", tokenizer_class="Qwen2Tokenizer",
                       post=lambda ids: template(last=("<|endoftext|>", ids["<|endoftext|>"])))
    document = qwen3_config("Qwen3Model", "qwen3", words)
    shapes = decoder(document, plain_layer(document, head_norms=(32, 32)), head=False)
    modules = [{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    return Repository("qwen2", document, {name.removeprefix("model."): shape for name, shape in shapes.items()},
                      {**words.files, "modules.json": modules, "1_Pooling/config.json": {"pooling_mode": "lasttoken"}})


def qwen3_moe():
    """Experts one by one, in two files, 11 layers: blk.10 stands before blk.2."""
    words = tokenizer(chat_template=CHAT)
    document = qwen3_config("Qwen3MoeForCausalLM", "qwen3_moe", words, num_experts=EXPERTS, num_experts_per_tok=2,
                            moe_intermediate_size=32, num_hidden_layers=11, num_attention_heads=2, num_key_value_heads=1)
    return Repository("qwen2", document, decoder(document, moe_layer(document, (), (32, 32), stacked=False, size=32)), words.files,
                      shards=2)


def qwen3_moe_stacked():
    """Qwen3-MoE with the experts of a layer in two tensors."""
    words = tokenizer()
    document = qwen3_config("Qwen3MoeForCausalLM", "qwen3_moe", words, num_experts=EXPERTS, num_experts_per_tok=2,
                            moe_intermediate_size=96, torch_dtype=None, dtype="bfloat16")
    return Repository("qwen2", document, decoder(document, moe_layer(document, (), (32, 32), stacked=True)), words.files)


KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM = 2, 4, 16, 16  # llama.cpp has one size for both


def qwen35_config(words, layers, **fields):
    """The text part of a configuration."""
    return config(None, "qwen3_5_text", words.size, head_dim=32, num_hidden_layers=layers, rms_norm_eps=1e-6, rope_theta=None,
                  layer_types=["full_attention" if number % 4 == 3 else "linear_attention" for number in range(layers)],
                  full_attention_interval=4, linear_conv_kernel_dim=4, linear_key_head_dim=KEY_DIM,
                  linear_num_key_heads=KEY_HEADS, linear_num_value_heads=VALUE_HEADS, linear_value_head_dim=VALUE_DIM,
                  attn_output_gate=True, eos_token_id=words.ids["<|im_end|>"],
                  rope_parameters={"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25,
                                   "mrope_section": [2, 1, 1], "mrope_interleaved": True}, **fields)


def gated_attention(document, prefix):
    """Attention whose q_proj also makes a gate."""
    shapes = attention(document, prefix, norms=(32, 32))
    rows, width = shapes[f"{prefix}.q_proj.weight"]
    return {**shapes, f"{prefix}.q_proj.weight": (2 * rows, width)}


def linear_attention(prefix):
    channels = 2 * KEY_DIM * KEY_HEADS + VALUE_DIM * VALUE_HEADS
    values = VALUE_DIM * VALUE_HEADS
    return {f"{prefix}.A_log": (VALUE_HEADS,), f"{prefix}.dt_bias": (VALUE_HEADS,), f"{prefix}.conv1d.weight": (channels, 1, 4),
            f"{prefix}.in_proj_qkv.weight": (channels, HIDDEN), f"{prefix}.in_proj_z.weight": (values, HIDDEN),
            f"{prefix}.in_proj_a.weight": (VALUE_HEADS, HIDDEN), f"{prefix}.in_proj_b.weight": (VALUE_HEADS, HIDDEN),
            f"{prefix}.norm.weight": (VALUE_DIM,), f"{prefix}.out_proj.weight": (HIDDEN, values)}


def qwen35_layer(document, block):
    """`block(prefix)`: the feed-forward part."""
    def layer(prefix, number):
        linear = document["layer_types"][number] == "linear_attention"
        mixing = linear_attention(f"{prefix}.linear_attn") if linear else gated_attention(document, f"{prefix}.self_attn")
        return {**norms(document, prefix, "input_layernorm", "post_attention_layernorm"), **mixing, **block(f"{prefix}.mlp")}

    return layer


def multi_token_prediction(document, block):
    return {**norms(document, "mtp", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"), "mtp.fc.weight": (HIDDEN, 2 * HIDDEN),
            **norms(document, "mtp.layers.0", "input_layernorm", "post_attention_layernorm"),
            **gated_attention(document, "mtp.layers.0.self_attn"), **block("mtp.layers.0.mlp")}


VISION = {"model.visual.patch_embed.proj.weight": (32, 3, 2, 4, 4), "model.visual.blocks.0.attn.qkv.weight": (96, 32),
          "model.visual.merger.norm.weight": (32,)}


def qwen35(moe):
    """With a vision tower and a layer that predicts further tokens."""
    words = tokenizer("qwen35", chat_template=CHAT)
    more = {"num_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": 96, "shared_expert_intermediate_size": 192,
            "intermediate_size": None} if moe else {}
    text = qwen35_config(words, 4, mtp_num_hidden_layers=1, tie_word_embeddings=not moe, **more)
    name = "Qwen3_5MoeForConditionalGeneration" if moe else "Qwen3_5ForConditionalGeneration"
    document = {"architectures": [name], "model_type": "qwen3_5_moe" if moe else "qwen3_5", "text_config": text,
                "vision_config": {"depth": 1, "hidden_size": 32, "num_heads": 2}, "tie_word_embeddings": not moe}

    def block(prefix):
        return experts(text, prefix, stacked=True, shared=True) if moe else feed_forward(text, prefix)

    shapes = decoder(text, qwen35_layer(text, block), model="model.language_model")
    shapes.update({**VISION, **multi_token_prediction(text, block)})
    floats = {each: "float32" for each in shapes if each.endswith((".A_log", "linear_attn.norm.weight"))}
    return Repository("qwen35", document, shapes, words.files, dtypes=floats)


def qwen35_text(predicts):
    """Only text, as many key heads as value heads: nothing is reordered. `predicts`: a layer predicts further tokens."""
    words = tokenizer("qwen35")
    document = qwen35_config(words, 4, mtp_num_hidden_layers=1 if predicts else None, tie_word_embeddings=True)
    document.update({"architectures": ["Qwen3_5ForCausalLM"], "linear_num_key_heads": VALUE_HEADS, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25}})
    channels = (2 * KEY_DIM + VALUE_DIM) * VALUE_HEADS

    def block(prefix):
        return feed_forward(document, prefix)

    shapes = decoder(document, qwen35_layer(document, block))
    if predicts:
        shapes.update(multi_token_prediction(document, block))
    for name, shape in shapes.items():
        if name.endswith((".conv1d.weight", ".in_proj_qkv.weight")):
            shapes[name] = (channels, *shape[1:])
    return Repository("qwen35", document, shapes, words.files)


REPOSITORIES = {
    "Qwen2.5-Tiny-Instruct": qwen2, "tiny-qwen2-embedding": qwen2_embedding, "Qwen1.5-MoE-A100K": qwen2_moe, "Qwen3-Tiny": qwen3,
    "Qwen3-Tiny-200K-A100K": qwen3_moe, "tiny-qwen3moe-stacked": qwen3_moe_stacked, "Qwen3.5-Tiny": lambda: qwen35(False),
    "Qwen3.5-Tiny-MoE": lambda: qwen35(True), "qwen3.5-text": lambda: qwen35_text(True),
    "qwen3.5-text-sft": lambda: qwen35_text(False), "Qwen3-Embedding-tiny": qwen3_embedding,
}
