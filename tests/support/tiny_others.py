"""Tiny repositories of gpt-oss, Phi-3, OLMo 2, GLM-4, BERT and DeepSeek."""
from tiny_repository import HEADS, HIDDEN, KV_HEADS, Repository, attention, card, config, decoder, feed_forward, norms
from tiny_tokenizers import byte_level, sentencepiece, template, wordpiece

CHAT = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
EXPERTS, INNER = 4, 64


def gpt_oss_config(words, **fields):
    return config("GptOssForCausalLM", "gpt_oss", words.size, head_dim=16, attention_bias=True, num_local_experts=EXPERTS,
                  num_experts_per_tok=2, experts_per_token=2, intermediate_size=INNER, sliding_window=128, rope_theta=150000,
                  eos_token_id=words.ids["<|return|>"], pad_token_id=words.ids["<|endoftext|>"],
                  layer_types=["sliding_attention", "full_attention"], swiglu_limit=7.0,
                  rope_scaling={"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                                "original_max_position_embeddings": 64}, **fields)


def gpt_oss_words():
    return byte_level("gpt-4o", ("<|startoftext|>", "<|endoftext|>", "<|return|>", "<|start|>", "<|message|>", "<|end|>"),
                      bos_token="<|startoftext|>", eos_token="<|return|>", pad_token="<|endoftext|>")


def gpt_oss(quantised):
    """Sinks, biases of the experts; their weights as MXFP4 blocks, or as a fine-tune stores them again: bfloat16, columns first."""
    words = gpt_oss_words()
    document = gpt_oss_config(words, quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["model.embed_tokens"]}
                              if quantised else None)

    def layer(prefix, _):
        moe = f"{prefix}.mlp"
        shapes = {**norms(document, prefix, "input_layernorm", "post_attention_layernorm"),
                  **attention(document, f"{prefix}.self_attn", "qkvo"), f"{prefix}.self_attn.sinks": (HEADS,),
                  f"{moe}.router.weight": (EXPERTS, HIDDEN), f"{moe}.router.bias": (EXPERTS,)}
        for name, rows, columns in (("gate_up_proj", 2 * INNER, HIDDEN), ("down_proj", HIDDEN, INNER)):
            shapes[f"{moe}.experts.{name}_bias"] = (EXPERTS, rows)
            if quantised:
                shapes[f"{moe}.experts.{name}_blocks"] = (EXPERTS, rows, columns // 32, 16)
                shapes[f"{moe}.experts.{name}_scales"] = (EXPERTS, rows, columns // 32)
            else:
                shapes[f"{moe}.experts.{name}"] = (EXPERTS, columns, rows)
        return shapes

    shapes = decoder(document, layer)
    bytes_of = {each: "uint8" if each.endswith("_blocks") else "e8m0" for each in shapes if each.endswith(("_blocks", "_scales"))}
    readme = card("license: apache-2.0", "pipeline_tag: text-generation", "library_name: transformers", "tags:", "- vllm")
    return Repository("gpt-4o", document, shapes, {**words.files, "chat_template.jinja": CHAT, "README.md": readme},
                      dtypes=bytes_of)


def phi3_layer(document):
    rows = HIDDEN + 2 * KV_HEADS * HIDDEN // HEADS

    def layer(prefix, _):
        inner = document["intermediate_size"]
        return {**norms(document, prefix, "input_layernorm", "post_attention_layernorm"),
                f"{prefix}.self_attn.qkv_proj.weight": (rows, HIDDEN), f"{prefix}.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
                f"{prefix}.mlp.gate_up_proj.weight": (2 * inner, HIDDEN), f"{prefix}.mlp.down_proj.weight": (HIDDEN, inner)}

    return layer


def phi3_long():
    """Factors of RoPE for long and short contexts; SentencePiece, further tokens in tokenizer.json; a name that contains phi3."""
    tokens = ("<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>")
    words = sentencepiece(("<unk>", "<s>", "</s>"), added_tokens=tokens, fast=True, bos_token="<s>", eos_token="<|endoftext|>",
                          unk_token="<unk>", pad_token="<|endoftext|>",
                          add_bos_token=False, add_eos_token=False, tokenizer_class="LlamaTokenizer", chat_template=CHAT)
    document = config("Phi3ForCausalLM", "phi3", words.size + 4, bos_token_id=1, eos_token_id=words.ids["<|endoftext|>"],
                      original_max_position_embeddings=128, sliding_window=64, rope_scaling={
                          "type": "longrope", "long_factor": [1.0 + at / 10 for at in range(8)],
                          "short_factor": [1.0 + at / 100 for at in range(8)]})
    return Repository("default", document, decoder(document, phi3_layer(document)), words.files)


def phi4():
    """Byte-level BPE, part of each head rotated, no factors, no window."""
    words = byte_level("gpt-4o", ("<|endoftext|>", "<|im_start|>", "<|im_end|>"), bos_token="<|endoftext|>", eos_token="<|im_end|>",
                       pad_token="<|endoftext|>", tokenizer_class="GPT2Tokenizer", unk_token="<|endoftext|>")
    document = config("Phi3ForCausalLM", "phi3", words.size, original_max_position_embeddings=512, partial_rotary_factor=0.75,
                      sliding_window=None, rope_scaling=None, tie_word_embeddings=True, rope_theta=250000.0)
    return Repository("gpt-4o", document, decoder(document, phi3_layer(document)), words.files, dtype="float16")


def olmo(third):
    """Norms after attention and feed-forward, norms of q and k over the whole width; OLMo 3 with a window in most layers."""
    words = byte_level("gpt-2", ("<|endoftext|>", "<|pad|>"), pairs=False, bos_token="<|endoftext|>", eos_token="<|endoftext|>",
                       pad_token="<|pad|>", tokenizer_class="GPT2Tokenizer")
    more = {"sliding_window": 64, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]} if third else {}
    document = config("Olmo3ForCausalLM" if third else "Olmo2ForCausalLM", "olmo3" if third else "olmo2", words.size,
                      num_hidden_layers=4 if third else 2, attention_bias=False, **more)

    def layer(prefix, _):
        widths = (HIDDEN, KV_HEADS * HIDDEN // HEADS)
        return {**attention(document, f"{prefix}.self_attn", norms=widths), **feed_forward(document, f"{prefix}.mlp"),
                **norms(document, prefix, "post_attention_layernorm", "post_feedforward_layernorm")}

    return Repository("gpt-2", document, decoder(document, layer), words.files, dtype="float32" if third else "bfloat16")


def glm4():
    """Norms around attention and feed-forward, half of each head rotated, gate and up in one, tokens that are set by name."""
    words = byte_level("glm4", ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
                       pad_token="<|endoftext|>", eos_token="<|user|>", chat_template=CHAT, do_lower_case=False,
                       post=lambda ids: template(("[gMASK]", ids["[gMASK]"])))
    document = config("Glm4ForCausalLM", "glm4", words.size, head_dim=16, partial_rotary_factor=0.5, attention_bias=True,
                      eos_token_id=[words.ids["<|endoftext|>"], words.ids["<|user|>"]], pad_token_id=words.ids["<|endoftext|>"])

    def layer(prefix, _):
        inner = document["intermediate_size"]
        return {**norms(document, prefix, "input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm",
                        "post_mlp_layernorm"), **attention(document, f"{prefix}.self_attn", "qkv"),
                f"{prefix}.mlp.gate_up_proj.weight": (2 * inner, HIDDEN), f"{prefix}.mlp.down_proj.weight": (HIDDEN, inner)}

    return Repository("glm4", document, decoder(document, layer), words.files)


def bert_shapes(document, prefix, weight="weight", bias="bias"):
    """`weight`, `bias`: what the parts of a LayerNorm are called."""
    width, inner = HIDDEN, document["intermediate_size"]

    def layer_norm(name):
        return {f"{name}.LayerNorm.{weight}": (width,), f"{name}.LayerNorm.{bias}": (width,)}

    def linear(name, rows, columns):
        return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}

    shapes = {f"{prefix}embeddings.position_ids": (1, document["max_position_embeddings"]),
              f"{prefix}embeddings.word_embeddings.weight": (document["vocab_size"], width),
              f"{prefix}embeddings.position_embeddings.weight": (document["max_position_embeddings"], width),
              f"{prefix}embeddings.token_type_embeddings.weight": (document["type_vocab_size"], width),
              **layer_norm(f"{prefix}embeddings")}
    for number in range(document["num_hidden_layers"]):
        layer = f"{prefix}encoder.layer.{number}"
        for part in ("query", "key", "value"):
            shapes.update(linear(f"{layer}.attention.self.{part}", width, width))
        shapes.update({**linear(f"{layer}.attention.output.dense", width, width), **layer_norm(f"{layer}.attention.output"),
                       **linear(f"{layer}.intermediate.dense", inner, width), **linear(f"{layer}.output.dense", width, inner),
                       **layer_norm(f"{layer}.output")})
    return {**shapes, **linear(f"{prefix}pooler.dense", width, width)}


def bert_config(architecture, words, **fields):
    return config(architecture, "bert", words.size, rms_norm_eps=None, rope_theta=None, num_key_value_heads=None,
                  layer_norm_eps=1e-12, tie_word_embeddings=None, type_vocab_size=2, hidden_act="gelu", pad_token_id=0, **fields)


def integers(shapes):
    return {name: "int64" for name in shapes if name.endswith("position_ids")}


def bert(pooling):
    """An embedding model of sentence-transformers, float32 throughout."""
    words = wordpiece(do_lower_case=True, model_max_length=512)
    document = bert_config("BertModel", words, torch_dtype="float32")
    shapes = bert_shapes(document, "")
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
               {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
               {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]
    readme = card("license: mit  # as text", "tags:", "- sentence-transformers", "- 'feature-extraction'", '- "mteb"',
                  "language: en",
                  "pipeline_tag: sentence-similarity", "model-index:", "- name: other", "  results:", "  - task:",
                  "      type: Classification", "    dataset: {type: mteb/some, name: MTEB Some}", "    metrics:",
                  "    - type: accuracy", "      value: 73.79", "library_name: sentence-transformers")
    files = {"modules.json": modules, "README.md": readme, "1_Pooling/config.json": {"word_embedding_dimension": HIDDEN, **pooling}}
    return Repository("bert-bge", document, shapes, {**words.files, **files}, dtype="float32", dtypes=integers(shapes))


def bert_classifier():
    """A cross-encoder: one label, whose row is the classifier's."""
    words = wordpiece(do_lower_case=True)
    document = bert_config("BertForSequenceClassification", words, id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0})
    shapes = {**bert_shapes(document, "bert."), "classifier.weight": (1, HIDDEN), "classifier.bias": (1,)}
    return Repository("bert-bge", document, shapes, words.files, dtype="float32", dtypes=integers(shapes))


def bert_masked():
    """Old names of the norms, a prefix, and the head of a masked language model, which is dropped."""
    words = wordpiece()
    document = bert_config("BertForMaskedLM", words, intermediate_size=120)
    shapes = {**bert_shapes(document, "bert.", "gamma", "beta"), "cls.predictions.bias": (words.size,),
              "cls.predictions.transform.dense.weight": (HIDDEN, HIDDEN), "cls.predictions.transform.LayerNorm.gamma": (HIDDEN,),
              "cls.seq_relationship.weight": (2, HIDDEN)}
    return Repository("bert-bge", document, shapes, words.files, dtype="float16", dtypes=integers(shapes))


V3_TOKENS = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>")


def deepseek_words():
    return byte_level("deepseek-v3", V3_TOKENS, ("<｜User｜>", "<｜Assistant｜>", "<think>"), pairs=False,
                      bos_token={"content": V3_TOKENS[0]}, eos_token={"content": V3_TOKENS[1]},
                      pad_token={"content": V3_TOKENS[1]}, add_bos_token=True, add_eos_token=False,
                      tokenizer_class="LlamaTokenizerFast", chat_template=CHAT,
                      post=lambda ids: template((V3_TOKENS[0], ids[V3_TOKENS[0]])))


def deepseek_layer(document):
    nope, rope, value = document["qk_nope_head_dim"], document["qk_rope_head_dim"], document["v_head_dim"]
    rank, query_rank = document["kv_lora_rank"], document.get("q_lora_rank")

    def attention_of(prefix):
        rows = HEADS * (nope + rope)
        query = {f"{prefix}.q_a_proj.weight": (query_rank, HIDDEN), f"{prefix}.q_a_layernorm.weight": (query_rank,),
                 f"{prefix}.q_b_proj.weight": (rows, query_rank)} if query_rank else {f"{prefix}.q_proj.weight": (rows, HIDDEN)}
        return {**query, f"{prefix}.kv_a_proj_with_mqa.weight": (rank + rope, HIDDEN), f"{prefix}.kv_a_layernorm.weight": (rank,),
                f"{prefix}.kv_b_proj.weight": (HEADS * (nope + value), rank), f"{prefix}.o_proj.weight": (HIDDEN, HEADS * value)}

    def layer(prefix, number):
        shapes = {**norms(document, prefix, "input_layernorm", "post_attention_layernorm"), **attention_of(f"{prefix}.self_attn")}
        if number < document["first_k_dense_replace"]:
            return {**shapes, **feed_forward(document, f"{prefix}.mlp")}
        size, count = document["moe_intermediate_size"], document["n_routed_experts"]
        shapes[f"{prefix}.mlp.gate.weight"] = (count, HIDDEN)
        if document["scoring_func"] == "sigmoid":
            shapes[f"{prefix}.mlp.gate.e_score_correction_bias"] = (count,)
        for expert in range(count):
            shapes.update(feed_forward(document, f"{prefix}.mlp.experts.{expert}", size))
        return {**shapes, **feed_forward(document, f"{prefix}.mlp.shared_experts", size * document["n_shared_experts"])}

    return layer


def deepseek_config(architecture, model_type, words, **fields):
    return config(architecture, model_type, words.size, **{
        "num_key_value_heads": HEADS, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24,
        "n_routed_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": 96, "first_k_dense_replace": 1,
        "rms_norm_eps": 1e-6, "num_hidden_layers": 3, "bos_token_id": words.ids[V3_TOKENS[0]],
        "eos_token_id": words.ids[V3_TOKENS[1]], **fields})


def deepseek2():
    """As V2-Lite: q in one matrix, two shared experts, softmax; 26 layers, by which llama.cpp knows that q is in one."""
    words = deepseek_words()
    document = deepseek_config("DeepseekV2ForCausalLM", "deepseek_v2", words, q_lora_rank=None, n_shared_experts=2,
                               num_hidden_layers=26, n_routed_experts=2, moe_intermediate_size=32, intermediate_size=64,
                               scoring_func="softmax", topk_method="greedy", n_group=1, topk_group=1, norm_topk_prob=False,
                               routed_scaling_factor=1.0, rope_scaling={
                                   "type": "yarn", "factor": 40, "original_max_position_embeddings": 64, "beta_fast": 32,
                                   "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707})
    document["q_lora_rank"] = None
    return Repository("deepseek-v3", document, decoder(document, deepseek_layer(document)), words.files)


def deepseek3_parts():
    words = deepseek_words()
    document = deepseek_config("DeepseekV3ForCausalLM", "deepseek_v3", words, q_lora_rank=24, n_shared_experts=1,
                               scoring_func="sigmoid", topk_method="noaux_tc", n_group=2, topk_group=1, norm_topk_prob=True,
                               routed_scaling_factor=2.5, num_nextn_predict_layers=1, rope_scaling={
                                   "type": "yarn", "factor": 40, "original_max_position_embeddings": 64, "beta_fast": 32,
                                   "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0})
    layer = deepseek_layer(document)
    extra = {**layer("model.layers.3", 3), "model.layers.3.eh_proj.weight": (HIDDEN, 2 * HIDDEN),
             **norms(document, "model.layers.3", "enorm", "hnorm", "shared_head.norm"),
             "model.layers.3.shared_head.head.weight": (words.size, HIDDEN),
             "model.layers.3.embed_tokens.weight": (words.size, HIDDEN)}
    shapes = {**decoder(document, layer), **extra}
    floats = {name: "float32" for name in shapes if name.endswith("e_score_correction_bias")}
    return words, document, shapes, floats


def deepseek3():
    """As V3: sigmoid with a correction, groups, a layer that predicts further tokens and is dropped."""
    words, document, shapes, floats = deepseek3_parts()
    return Repository("deepseek-v3", document, shapes, words.files, dtypes=floats)


def deepseek3_float8():
    """As V3 is published: matrices in float8 with a scale for each 32 × 32, the last of which are cut by the edge."""
    words, document, shapes, floats = deepseek3_parts()
    document["quantization_config"] = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                                       "weight_block_size": [32, 32]}
    scaled, kinds = {}, dict(floats)
    for name, shape in shapes.items():
        scaled[name] = shape
        if name.endswith("_proj.weight") or name.endswith("_mqa.weight"):
            kinds[name] = "float8_e4m3fn"
            scaled[f"{name}_scale_inv"] = tuple(-(-size // 32) for size in shape)
            kinds[f"{name}_scale_inv"] = "float32"
    return Repository("deepseek-v3", document, scaled, words.files, dtypes=kinds)


REPOSITORIES = {
    "gpt-oss-tiny": lambda: gpt_oss(True), "gpt-oss-tiny-BF16": lambda: gpt_oss(False), "Phi-3-tiny-128k-instruct": phi3_long,
    "phi-4-tiny": phi4, "OLMo-2-tiny": lambda: olmo(False), "Olmo-3-tiny-Think": lambda: olmo(True), "GLM-4-tiny-0414": glm4,
    "bge-tiny-en-v1.5": lambda: bert({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}),
    "all-MiniLM-L2-v2": lambda: bert({"pooling_mode_mean_tokens": True}), "bert-tiny-uncased": bert_masked,
    "DeepSeek-V2-Tiny-Lite": deepseek2, "DeepSeek-V3-Tiny": deepseek3,
    "DeepSeek-V3-Tiny-FP8": deepseek3_float8, "ms-marco-MiniLM-tiny": bert_classifier,
}
