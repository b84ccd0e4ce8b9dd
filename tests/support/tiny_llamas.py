"""Tiny repositories of the architectures whose query and key rows GGUF permutes: Llama, Mistral, Mixtral, Granite, SmolLM3."""
from tiny_repository import (HEADS, HIDDEN, Repository, attention, card, config, decoder, feed_forward, norms, plain_layer)
from tiny_tokenizers import byte_level, sentencepiece, template

LLAMA3 = ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>")
LLAMA3_TEMPLATE = ("{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
                   "{{ m['content'] }}<|eot_id|>{% endfor %}")
INST_TEMPLATE = "{{ bos_token }}{% for m in messages %}[INST] {{ m['content'] }} [/INST]{% endfor %}"
TOOL_TEMPLATE = "{% for t in tools %}{{ t }}{% endfor %}"


def llama3_tokenizer(**more):
    return byte_level("llama-bpe", LLAMA3, pairs=False, post=lambda ids: template((LLAMA3[0], ids[LLAMA3[0]])),
                      bos_token=LLAMA3[0], eos_token=LLAMA3[2], **more)


def llama3():
    """Grouped heads, llama3 scaling of RoPE as old configurations have it, two files, three rows without a token."""
    tokenizer = llama3_tokenizer(chat_template=LLAMA3_TEMPLATE)
    document = config("LlamaForCausalLM", "llama", tokenizer.size + 3, head_dim=16, num_hidden_layers=3, rope_theta=500000.0,
                      bos_token_id=tokenizer.ids[LLAMA3[0]], eos_token_id=[tokenizer.ids[LLAMA3[1]], tokenizer.ids[LLAMA3[2]]],
                      rope_scaling={"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                                    "original_max_position_embeddings": 64, "rope_type": "llama3"})
    readme = card("license: llama3.2", "language:", "- en", "- de", "- no", "library_name: transformers", "tags:", "- facebook",
                  "- tiny", "pipeline_tag: text-generation", "base_model: meta-llama/Llama-3.2-1B", "datasets:",
                  "- some-owner/Some-Data-v2", "- plain")
    generation = {"bos_token_id": 1, "do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 40, "repetition_penalty": 1.1}
    return Repository("llama-bpe", document, decoder(document, plain_layer(document)),
                      {**tokenizer.files, "README.md": readme, "generation_config.json": generation}, shards=2)


def llama3_tied():
    """As transformers 5 writes it: rope_parameters, dtype, the template in a file; tied; head_dim is not the quotient."""
    tokenizer = llama3_tokenizer()
    document = config("LlamaForCausalLM", "llama", tokenizer.size, head_dim=32, tie_word_embeddings=True, rope_theta=None,
                      torch_dtype=None, dtype="float16", bos_token_id=tokenizer.ids[LLAMA3[0]],
                      rope_parameters={"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "rope_theta": 500000.0,
                                       "original_max_position_embeddings": 256, "rope_type": "llama3"})
    return Repository("llama-bpe", document, decoder(document, plain_layer(document)),
                      {**tokenizer.files, "chat_template.jinja": LLAMA3_TEMPLATE}, dtype="float16")


def llama2_config(size, **fields):
    return config("LlamaForCausalLM", "llama", size, num_key_value_heads=HEADS, max_position_embeddings=256, bos_token_id=1,
                  eos_token_id=2, pad_token_id=0, **fields)


def llama2():
    """SentencePiece, linear scaling of RoPE, no head_dim, rows of 88 elements, a token in added_tokens.json, 5 padding rows."""
    tokenizer = sentencepiece(("<unk>", "<s>", "</s>"), bos_token="<s>", eos_token={"content": "</s>"}, unk_token="<unk>",
                              add_bos_token=True, add_eos_token=False, legacy=False, tokenizer_class="LlamaTokenizer")
    document = llama2_config(tokenizer.size + 6, intermediate_size=88, rope_scaling={"type": "linear", "factor": 2.0})
    return Repository("default", document, decoder(document, plain_layer(document)),
                      {**tokenizer.files, "added_tokens.json": {"[PAD]": tokenizer.size},
                       "generation_config.json": {"max_length": 256, "temperature": 0.9, "min_p": 0.05}}, dtype="float16")


def llama2_fast():
    """Only tokenizer.json with byte fallback: weightfs makes scores from the merges."""
    tokenizer = sentencepiece(("<unk>", "<s>", "</s>"), added_tokens=("<|im_start|>", "<|im_end|>"), model=False, fast=True,
                              bos_token="<s>", eos_token="</s>", unk_token="<unk>", add_bos_token=True, add_prefix_space=True,
                              tokenizer_class="LlamaTokenizer", chat_template=INST_TEMPLATE)
    document = llama2_config(tokenizer.size)
    return Repository("default", document, decoder(document, plain_layer(document)), tokenizer.files, deviates="scores")


def llama_float32():
    """All float32, which becomes float16; every projection has a bias; rows of 88 elements, one matrix with the edges of types."""
    tokenizer = byte_level("smaug-bpe", ("<s>", "</s>", "<pad>"), ("<tool>",), pairs=False, bos_token="<s>", eos_token="</s>",
                           pad_token="<pad>", add_prefix_space=False,
                           post=lambda ids: template(("<s>", ids["<s>"]), ("</s>", ids["</s>"])))
    document = config("LlamaForCausalLM", "llama", tokenizer.size, torch_dtype="float32", attention_bias=True, mlp_bias=True,
                      intermediate_size=88, _name_or_path="some-owner/Other-Name-7B-v1.5-Chat")
    return Repository("smaug-bpe", document, decoder(document, plain_layer(document, "qkvo", bias=True)), tokenizer.files,
                      dtype="float32", dtypes={"model.layers.0.mlp.down_proj.weight": "edges"})


def llama_bare():
    """A base model: names without `model.`, no lm_head; additional templates in files; ids only in config.json."""
    tokenizer = llama3_tokenizer()
    document = config("LlamaModel", "llama", tokenizer.size, head_dim=16, pad_token_id=3, bos_token_id=tokenizer.ids[LLAMA3[0]],
                      eos_token_id=tokenizer.ids[LLAMA3[1]], sep_token_id=4)
    files = {**tokenizer.files, "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"},
             "chat_template.jinja": LLAMA3_TEMPLATE, "additional_chat_templates/tool-use.jinja": TOOL_TEMPLATE}
    shapes = {name.removeprefix("model."): shape for name, shape in decoder(document, plain_layer(document), head=False).items()}
    return Repository("llama-bpe", document, shapes, files)


def smollm2():
    """The vocabulary's size turns add_bos_token off; most of its ids have no token; a prefix space."""
    tokenizer = byte_level("smollm", ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"), pairs=False,
                           bos_token="<|im_start|>", eos_token="<|im_end|>", unk_token="<|endoftext|>", pad_token="<|im_end|>",
                           add_prefix_space=False, tokenizer_class="GPT2Tokenizer", chat_template=INST_TEMPLATE)
    document = config("LlamaForCausalLM", "llama", 49152, hidden_size=32, num_attention_heads=2, num_key_value_heads=1,
                      tie_word_embeddings=True, rope_theta=100000, bos_token_id=1, eos_token_id=2, rope_interleaved=False)
    return Repository("smollm", document, decoder(document, plain_layer(document)), tokenizer.files)


def mistral():
    """SentencePiece, a sliding window, head_dim 32; norms in float32 beside bfloat16."""
    tokenizer = sentencepiece(("<unk>", "<s>", "</s>"), fast=True, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                              add_bos_token=True, add_eos_token=False, tokenizer_class="LlamaTokenizer", legacy=True,
                              chat_template=INST_TEMPLATE)
    document = config("MistralForCausalLM", "mistral", tokenizer.size, head_dim=32, sliding_window=128, rope_theta=1000000.0,
                      bos_token_id=1, eos_token_id=2)
    shapes = decoder(document, plain_layer(document))
    readme = card("license: apache-2.0", "base_model:", "- mistralai/Mistral-7B-v0.3", "- https://huggingface.co/other/Merged-2x7B",
                  "license_name: own", "license_link: https://example.org/license", "language: en", "model_name: A Given Name")
    return Repository("default", document, shapes, {**tokenizer.files, "README.md": readme},
                      dtypes={name: "float32" for name in shapes if name.endswith("norm.weight")})


def mistral_nemo():
    """Byte-level BPE with another regular expression, two named chat templates."""
    tokenizer = byte_level("tekken", ("<unk>", "<s>", "</s>", "[INST]", "[/INST]"), bos_token="<s>", eos_token="</s>",
                           unk_token="<unk>", add_bos_token=True, add_eos_token=False, tokenizer_class="GPT2Tokenizer",
                           post=lambda ids: template(("<s>", ids["<s>"])),
                           chat_template=[{"name": "tool_use", "template": TOOL_TEMPLATE},
                                          {"name": "default", "template": INST_TEMPLATE}])
    document = config("MistralForCausalLM", "mistral", tokenizer.size, head_dim=16, sliding_window=None, rope_theta=1000000.0)
    return Repository("tekken", document, decoder(document, plain_layer(document)), tokenizer.files)


def mixtral():
    """Experts w1, w2 and w3 in two files, the names of which are not in the order of the layers."""
    tokenizer = sentencepiece(("<unk>", "<s>", "</s>"), bos_token="<s>", eos_token="</s>", unk_token="<unk>", add_bos_token=True,
                              tokenizer_class="LlamaTokenizer")
    document = config("MixtralForCausalLM", "mixtral", tokenizer.size, num_local_experts=4, num_experts_per_tok=2,
                      router_aux_loss_coef=0.02, rope_theta=1000000.0, sliding_window=None, num_hidden_layers=3)

    def layer(prefix, _):
        moe = f"{prefix}.block_sparse_moe"
        shapes = {**norms(document, prefix, "input_layernorm", "post_attention_layernorm"),
                  **attention(document, f"{prefix}.self_attn"), f"{moe}.gate.weight": (4, HIDDEN)}
        for expert in range(4):
            shapes.update(feed_forward(document, f"{moe}.experts.{expert}", names=("w1", "w3", "w2")))
        return shapes

    return Repository("default", document, decoder(document, layer), tokenizer.files, shards=2)


def granite():
    """Four multipliers, tied; the vocabulary is GPT-2's."""
    tokenizer = byte_level("gpt-2", ("<|end_of_text|>", "<fim_prefix>"), pairs=False, bos_token="<|end_of_text|>",
                           eos_token="<|end_of_text|>", unk_token="<|end_of_text|>", pad_token="<|end_of_text|>",
                           tokenizer_class="GPT2Tokenizer")
    document = config("GraniteForCausalLM", "granite", tokenizer.size, tie_word_embeddings=True, attention_multiplier=0.015625,
                      embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0)
    return Repository("gpt-2", document, decoder(document, plain_layer(document)), tokenizer.files)


def smollm3():
    """Layers without RoPE, yarn, tied although lm_head is stored."""
    tokenizer = byte_level("smaug-bpe", ("<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"),
                           ("<think>", "</think>"), bos_token=None, eos_token="<|im_end|>", pad_token="<|im_end|>",
                           chat_template=INST_TEMPLATE)
    document = config("SmolLM3ForCausalLM", "smollm3", tokenizer.size, tie_word_embeddings=True, no_rope_layers=[1, 1],
                      no_rope_layer_interval=4, pad_token_id=tokenizer.ids["<|im_end|>"],
                      rope_scaling={"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 256})
    return Repository("smaug-bpe", document, decoder(document, plain_layer(document), head=True), tokenizer.files)


def ministral3():
    """Yarn with all of its factors, and the scaling of the attention's temperature."""
    tokenizer = byte_level("tekken", ("<unk>", "<s>", "</s>"), bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                           post=lambda ids: template(("<s>", ids["<s>"])))
    document = config("Ministral3ForCausalLM", "ministral3", tokenizer.size, head_dim=32, rope_theta=None, rope_parameters={
        "rope_type": "yarn", "type": "yarn", "factor": 16.0, "original_max_position_embeddings": 64, "beta_fast": 32.0,
        "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1, "rope_theta": 1000000.0})
    return Repository("tekken", document, decoder(document, plain_layer(document)), tokenizer.files)


REPOSITORIES = {
    "Tiny-Llama3-200K-Instruct": llama3, "tiny-llama3.2-tied": llama3_tied, "tiny_llama2": llama2, "tiny-llama2-fast": llama2_fast,
    "tiny-llama-f32": llama_float32, "tiny-llama-bare": llama_bare, "SmolLM2-100M-tiny": smollm2,
    "Tiny-Mistral-7B-v0.3": mistral, "Tiny-Mistral-Nemo-Instruct-2407": mistral_nemo,
    "Tiny-Mixtral-4x100K": mixtral, "granite-3.3-tiny-base": granite, "SmolLM3-Tiny": smollm3, "ministral-3-tiny": ministral3,
}
