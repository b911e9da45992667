"""The class of a layer of each type of model: what FSDP shards as one unit."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from jobgen.named_tuple import NamedTuple

LAYER_CLASSES: Mapping[str, tuple[str, ...]] = {
    "arcee": ("ArceeDecoderLayer",),
    "baichuan": ("DecoderLayer", "BaichuanLayer"),
    "bamba": ("BambaDecoderLayer",),
    "bloom": ("BloomBlock",),
    "codegen": ("CodeGenBlock",),
    "cohere": ("CohereDecoderLayer",),
    "cohere2": ("Cohere2DecoderLayer",),
    "cwm": ("CwmDecoderLayer",),
    "deepseek": ("DeepseekDecoderLayer",),
    "deepseek_v2": ("DeepseekV2DecoderLayer",),
    "deepseek_v3": ("DeepseekV3DecoderLayer",),
    "dots1": ("Dots1DecoderLayer",),
    "ernie4_5": ("Ernie4_5DecoderLayer",),
    "exaone4": ("Exaone4DecoderLayer",),
    "falcon": ("FalconDecoderLayer",),
    "falcon_h1": ("FalconH1DecoderLayer",),
    "flex_olmo": ("FlexOlmoDecoderLayer",),
    "gemma": ("GemmaDecoderLayer",),
    "gemma2": ("Gemma2DecoderLayer",),
    "gemma3": ("Gemma3DecoderLayer", "SiglipEncoderLayer"),
    "gemma3_text": ("Gemma3DecoderLayer",),
    "glm": ("GlmDecoderLayer",),
    "glm4": ("Glm4DecoderLayer",),
    "glm4_moe": ("Glm4MoeDecoderLayer",),
    "glm4_moe_lite": ("Glm4MoeLiteDecoderLayer",),
    "gpt2": ("GPT2Block",),
    "gpt_bigcode": ("GPTBigCodeBlock",),
    "gpt_neo": ("GPTNeoBlock",),
    "gpt_neox": ("GPTNeoXLayer",),
    "gpt_oss": ("GptOssDecoderLayer",),
    "gptj": ("GPTJBlock",),
    "granite": ("GraniteDecoderLayer",),
    "granitemoe": ("GraniteMoeDecoderLayer",),
    "granitemoehybrid": ("GraniteMoeHybridDecoderLayer",),
    "granitemoeshared": ("GraniteMoeSharedDecoderLayer",),
    "helium": ("HeliumDecoderLayer",),
    "hunyuan_v1_dense": ("HunYuanDenseV1DecoderLayer",),
    "internlm2": ("InternLM2DecoderLayer",),
    "jamba": ("JambaAttentionDecoderLayer", "JambaMambaDecoderLayer"),
    "kimi_k2": ("DeepseekV3DecoderLayer",),
    "kimi_linear": ("KimiLinearDecoderLayer",),
    "lfm2": ("Lfm2DecoderLayer",),
    "lfm2_moe": ("Lfm2MoeDecoderLayer",),
    "llama": ("LlamaDecoderLayer",),
    "llama4_text": ("Llama4TextDecoderLayer",),
    "minicpm3": ("MiniCPM3DecoderLayer",),
    "minimax_m2": ("MiniMaxM2DecoderLayer",),
    "ministral": ("MinistralDecoderLayer",),
    "ministral3": ("Ministral3DecoderLayer",),
    "mistral": ("MistralDecoderLayer",),
    "mixtral": ("MixtralDecoderLayer",),
    "mpt": ("MptBlock",),
    "nemotron": ("NemotronDecoderLayer",),
    "nemotron_h": ("NemotronHBlock",),
    "olmo": ("OlmoDecoderLayer",),
    "olmo2": ("Olmo2DecoderLayer",),
    "olmo3": ("Olmo3DecoderLayer",),
    "olmo_hybrid": ("OlmoHybridAttentionDecoderLayer", "OlmoHybridLinearAttentionDecoderLayer"),
    "olmoe": ("OlmoeDecoderLayer",),
    "opt": ("OPTDecoderLayer",),
    "phi": ("PhiDecoderLayer",),
    "phi3": ("Phi3DecoderLayer",),
    "phimoe": ("PhimoeDecoderLayer",),
    "qwen": ("QWenBlock",),
    "qwen2": ("Qwen2DecoderLayer",),
    "qwen2_5_vl": ("Qwen2_5_VLDecoderLayer", "Qwen2_5_VLVisionBlock"),
    "qwen2_5_vl_text": ("Qwen2_5_VLDecoderLayer",),
    "qwen2_moe": ("Qwen2MoeDecoderLayer",),
    "qwen2_vl": ("Qwen2VLDecoderLayer", "Qwen2VLVisionBlock"),
    "qwen2_vl_text": ("Qwen2VLDecoderLayer",),
    "qwen3": ("Qwen3DecoderLayer",),
    "qwen3_5": ("Qwen3_5DecoderLayer", "Qwen3_5VisionBlock"),
    "qwen3_5_moe": ("Qwen3_5MoeDecoderLayer", "Qwen3_5MoeVisionBlock"),
    "qwen3_5_moe_text": ("Qwen3_5MoeDecoderLayer",),
    "qwen3_5_text": ("Qwen3_5DecoderLayer",),
    "qwen3_moe": ("Qwen3MoeDecoderLayer",),
    "qwen3_next": ("Qwen3NextDecoderLayer",),
    "qwen3_vl_moe_text": ("Qwen3VLMoeTextDecoderLayer",),
    "qwen3_vl_text": ("Qwen3VLTextDecoderLayer",),
    "seed_oss": ("SeedOssDecoderLayer",),
    "smollm3": ("SmolLM3DecoderLayer",),
    "stablelm": ("StableLmDecoderLayer",),
    "starcoder2": ("Starcoder2DecoderLayer",),
    "youtu": ("YoutuDecoderLayer",),
}
"""``model_type`` → its layers, the text's first: ``_no_split_modules`` of transformers 5.23, or of
the modeling file that lies beside the weights (baichuan, deepseek, internlm2, kimi_k2, qwen)."""


class UnlikelyClass(NamedTuple):
    """A class to wrap that the model does not have."""

    name: str
    type: str
    """The ``model_type`` that has it; empty where none does."""
    layer: str
    """The model's own class that it stands for."""


def find_unlikely_class(kind: str, classes: tuple[str, ...]) -> UnlikelyClass | None:
    """The first class that is a layer of another type, or that is spelled nearly as one of this
    type; None where there is none. Classes of a program's own are no layer of any type."""
    own = LAYER_CLASSES.get(kind, ())
    for name in classes if own else ():
        if name in own:
            continue
        other = next((each for each, layers in LAYER_CLASSES.items() if name in layers), "")
        near = get_close_matches(name.lower(), [layer.lower() for layer in own], 1, 0.8)
        if other or near:
            spelled = {layer.lower(): layer for layer in own}
            return UnlikelyClass(name, other, spelled[near[0]] if near and not other else own[0])
    return None
