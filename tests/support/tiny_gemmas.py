"""Tiny repositories of Gemma 2, 3 and 4."""
from tiny_repository import HIDDEN, KV_HEADS, Repository, attention, card, config, decoder, feed_forward, norms
from tiny_tokenizers import sentencepiece

CONTROLS = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>")
CHAT = "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m['role'] }}\n{{ m['content'] }}<end_of_turn>\n{% endfor %}"
HEAD = 32
LAYER_NORMS = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
IDS = {"bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0}


def tokenizer(controls=CONTROLS, **more):
    return sentencepiece(controls, **{"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>",
                                      "add_bos_token": True, "add_eos_token": False, "tokenizer_class": "GemmaTokenizer", **more})


def layer_of(document, head_norms):
    def layer(prefix, _):
        return {**norms(document, prefix, *LAYER_NORMS), **attention(document, f"{prefix}.self_attn", norms=head_norms),
                **feed_forward(document, f"{prefix}.mlp")}

    return layer


def gemma2():
    """Soft caps, a sliding window, a stored lm_head that is dropped."""
    words = tokenizer(chat_template=CHAT)
    document = config("Gemma2ForCausalLM", "gemma2", words.size + 3, head_dim=HEAD, attn_logit_softcapping=50.0, rms_norm_eps=1e-6,
                      final_logit_softcapping=30.0, sliding_window=128, query_pre_attn_scalar=HEAD, tie_word_embeddings=None, **IDS)
    readme = card("license: gemma", "library_name: transformers", "pipeline_tag: text-generation", "base_model: google/gemma-2-9b",
                  "extra_gated_heading: Access", "tags: [conversational]")
    return Repository("default", document, decoder(document, layer_of(document, None), head=True),
                      {**words.files, "README.md": readme})


def gemma3_config(architecture, words, padding, **fields):
    return config(architecture, "gemma3_text", words.size + padding, **{
        "head_dim": HEAD, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window": 64,
        "query_pre_attn_scalar": HEAD, "num_hidden_layers": 3, "tie_word_embeddings": True, **fields})


def gemma3():
    """Only text, with tokenizer.model; a final soft cap."""
    words = tokenizer(fast=True, chat_template=CHAT)
    document = gemma3_config("Gemma3ForCausalLM", words, 0, sliding_window_pattern=6, final_logit_softcapping=30.0, **IDS,
                             rope_scaling=None)
    generation = {"bos_token_id": 2, "eos_token_id": [1, 6], "top_k": 64, "top_p": 0.95, "do_sample": True}
    return Repository("default", document, decoder(document, layer_of(document, (HEAD, HEAD))),
                      {**words.files, "generation_config.json": generation})


VISION = {"vision_tower.vision_model.embeddings.patch_embedding.weight": (32, 3, 4, 4),
          "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight": (64, 32),
          "vision_tower.vision_model.post_layernorm.weight": (32,),
          "multi_modal_projector.mm_input_projection_weight": (32, HIDDEN), "multi_modal_projector.mm_soft_emb_norm.weight": (32,)}


def gemma3_vision(words, padding, prefix, **parts):
    """With a vision tower that is dropped, and the configuration of the text inside another."""
    text = gemma3_config(None, words, padding, tie_word_embeddings=False, rope_scaling={"rope_type": "linear", "factor": 8.0},
                         layer_types=["sliding_attention"] * 3)
    document = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "eos_token_id": [1, 6],
                "text_config": {key: value for key, value in text.items() if key != "tie_word_embeddings"},
                "vision_config": {"hidden_size": 32, "num_hidden_layers": 1, "model_type": "siglip_vision_model"},
                "mm_tokens_per_image": 256, "boi_token_index": 4, "bos_token_id": 2}
    shapes = {**decoder(text, layer_of(text, (HEAD, HEAD)), head=False, model=prefix), **VISION}
    return Repository("default", document, shapes, words.files, **parts)


def gemma3_image():
    words = tokenizer(fast=True, chat_template=CHAT, added_tokens=("<image_soft_token>",))
    return gemma3_vision(words, 0, "language_model.model")


def gemma3_image_fast():
    """Without tokenizer.model: rows of the embedding beyond the tokens are dropped."""
    words = tokenizer(model=False, fast=True, chat_template=CHAT, added_tokens=("<image_soft_token>",))
    return gemma3_vision(words, 40, "model.language_model", deviates="tokenizer")


def gemma3_defaults():
    """As the 4B and larger models state it: most fields are those of the class."""
    words = tokenizer(fast=True, added_tokens=("<image_soft_token>",))
    text = {"hidden_size": HIDDEN, "intermediate_size": 128, "model_type": "gemma3_text", "num_hidden_layers": 2,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024, "vocab_size": words.size}
    document = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text,
                "vision_config": {"hidden_size": 32}, "torch_dtype": "bfloat16"}
    full = {**text, "head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4}
    shapes = {**decoder(full, layer_of(full, (256, 256)), head=False, model="language_model.model"), **VISION}
    return Repository("default", document, shapes, words.files, deviates="defaults")


GEMMA4_CONTROLS = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|tool_call>",
                   "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>')
GLOBAL_HEAD = 64
PER_LAYER = 32
LAYERS4 = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
ROPE4 = {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
EXPERTS, EXPERT_SIZE = 4, 96


def gemma4_layer(text, experts):
    def layer(prefix, number):
        full = LAYERS4[number] == "full_attention"
        head = GLOBAL_HEAD if full else HEAD
        kv_heads = text.get("num_global_key_value_heads") or KV_HEADS if full else KV_HEADS
        shared = number >= len(LAYERS4) - text["num_kv_shared_layers"]
        wide = {**text, "intermediate_size": text["intermediate_size"] * (2 if shared and text["use_double_wide_mlp"] else 1)}
        shapes = {f"{prefix}.layer_scalar": (1,), **norms(text, prefix, *LAYER_NORMS), **feed_forward(wide, f"{prefix}.mlp"),
                  **attention({**text, "head_dim": head, "num_key_value_heads": kv_heads}, f"{prefix}.self_attn",
                              norms=(head, head))}
        if full and text["attention_k_eq_v"]:
            del shapes[f"{prefix}.self_attn.v_proj.weight"]
        if text["hidden_size_per_layer_input"]:
            shapes.update({f"{prefix}.per_layer_input_gate.weight": (PER_LAYER, HIDDEN),
                           f"{prefix}.per_layer_projection.weight": (HIDDEN, PER_LAYER),
                           **norms(text, prefix, "post_per_layer_input_norm")})
        return {**shapes, **(gemma4_experts(text, prefix) if experts else {})}

    return layer


def gemma4_experts(text, prefix):
    return {**norms(text, prefix, "pre_feedforward_layernorm_2", "post_feedforward_layernorm_1", "post_feedforward_layernorm_2"),
            f"{prefix}.router.proj.weight": (EXPERTS, HIDDEN), f"{prefix}.router.scale": (HIDDEN,),
            f"{prefix}.router.per_expert_scale": (EXPERTS,),
            f"{prefix}.experts.gate_up_proj": (EXPERTS, 2 * EXPERT_SIZE, HIDDEN),
            f"{prefix}.experts.down_proj": (EXPERTS, HIDDEN, EXPERT_SIZE)}


def gemma4_config(words, **fields):
    return config(None, "gemma4_text", words.size, **{
        "head_dim": HEAD, "global_head_dim": GLOBAL_HEAD, "rms_norm_eps": 1e-6, "rope_theta": None, "rope_parameters": ROPE4,
        "num_hidden_layers": len(LAYERS4), "layer_types": LAYERS4, "sliding_window": 64, "final_logit_softcapping": 30.0,
        "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0, "tie_word_embeddings": True, "use_double_wide_mlp": False,
        "attention_k_eq_v": False, **IDS, **fields})


def gemma4_tokenizer():
    return tokenizer(GEMMA4_CONTROLS, model=False, fast=True, chat_template=CHAT.replace("<start_of_turn>", "<|turn>"),
                     tokenizer_class="GemmaTokenizer")


def gemma4_dense():
    """Inputs per layer, layers that share keys and values and have a wider feed-forward part; a vision tower."""
    words = gemma4_tokenizer()
    text = gemma4_config(words, num_kv_shared_layers=2, hidden_size_per_layer_input=PER_LAYER, use_double_wide_mlp=True,
                         vocab_size_per_layer_input=words.size)
    text.update({"moe_intermediate_size": None, "num_global_key_value_heads": None})
    document = {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "text_config": text,
                "vision_config": {"hidden_size": 32}, "audio_config": None, "tie_word_embeddings": True}
    shapes = decoder(text, gemma4_layer(text, experts=False), model="model.language_model")
    width = PER_LAYER * len(LAYERS4)
    shapes.update({"model.language_model.embed_tokens_per_layer.weight": (words.size, width),
                   "model.language_model.per_layer_model_projection.weight": (width, HIDDEN),
                   "model.language_model.per_layer_projection_norm.weight": (PER_LAYER,),
                   "model.vision_tower.patch_embedder.input_proj.weight": (32, 48),
                   "model.embed_vision.embedding_projection.weight": (32, 32)})
    return Repository("default", document, shapes, words.files)


def gemma4_moe():
    """Experts that stay fused, another number of key heads in the layers of full attention, which have no v."""
    words = gemma4_tokenizer()
    text = gemma4_config(words, num_global_key_value_heads=1, attention_k_eq_v=True, num_experts=EXPERTS, top_k_experts=2,
                         moe_intermediate_size=EXPERT_SIZE, enable_moe_block=True)
    document = {**text, "architectures": ["Gemma4ForCausalLM"]}
    return Repository("default", document, decoder(text, gemma4_layer(text, experts=True)), words.files)


REPOSITORIES = {
    "gemma-2-tiny-it": gemma2, "gemma-3-150k-it": gemma3, "gemma-3-tiny-vision": gemma3_image,
    "gemma-3-tiny-fast": gemma3_image_fast, "gemma-3-tiny-defaults": gemma3_defaults,
    "gemma-4-E100K-it": gemma4_dense, "gemma-4-tiny-A1B": gemma4_moe,
}
