"""A model as Megatron-LM's arguments: ``gpt_builders.py`` builds GPTModel from them and no file.

What the planner counts is passed, also where Megatron-LM has the same default: a later release may
have another. What no argument can say is a fault, and so is an argument of run that says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from jobgen.strategy.frameworks import FrameworkRequest
from jobgen.strategy.frameworks.program_options import ProgramOption, has_option, read_values
from jobgen.strategy.shapes.architecture import Architecture, Experts, Mla
from jobgen.strategy.spec import TrainDiagnostic
from jobgen.wording import join_words

DIVISOR = 128
"""Megatron-LM's default for --make-vocab-size-divisible-by."""

_BUILDERS = (
    *("--spec", "--yaml-cfg", "--use-checkpoint-args", "--use-legacy-models"),
    *("--heterogeneous-layers-config-path", "--heterogeneous-layers-config-encoded-json"),
)
_MIXERS = ("--experimental-attention-variant", "--is-hybrid-model", "--hybrid-override-pattern")
"""Arguments that bring layers without attention; sizes of these stand beside them in run."""
_BIASES: Mapping[tuple[bool, bool, bool], tuple[str, ...]] = {
    (False, False, False): ("--disable-bias-linear",),
    (True, False, False): ("--disable-bias-linear", "--add-qkv-bias"),
    (True, True, True): (),
}
"""Biases of queries, keys and values; of attention's output; of the feed-forward layer."""
_SHAPING = (
    *("--swiglu", "--quick-geglu", "--disable-bias-linear", "--add-qkv-bias", "--qk-layernorm"),
    *("--untie-embeddings-and-output-weights", "--group-query-attention"),
    *("--multi-latent-attention", "--num-experts", "--moe-shared-expert-intermediate-size"),
    "--moe-shared-expert-gate",
)
"""Arguments that no later one takes back: in run, they are right only where they are passed too."""
_MODEL = ("train", "model")


def describe_model(
    request: FrameworkRequest,
) -> tuple[tuple[ProgramOption, ...], tuple[TrainDiagnostic, ...]]:
    """The model's arguments, or why they cannot be passed; neither where run brings a model.

    Only a model that is known without doubt is passed. ``--spec`` in run brings layers of its own
    for the sizes that are passed, and other arguments a whole model, as those of layers without
    attention do.
    """
    arch, builder = request.model, find_builder(request.run_args)
    if arch is None or builder not in {"", "--spec"}:
        return (), ()
    if arch.mixes and any(name in read_values(request.run_args) for name in _MIXERS):
        return (), ()
    found = tuple(_check_model(arch, request))
    if found:
        return (), () if builder else found
    passed = tuple(_list_options(arch, request))
    return passed, tuple(_check_run(passed, arch, request))


def find_builder(words: Sequence[str]) -> str:
    """The argument of run that gives the program a model of its own; empty if there is none."""
    return next((name for name in read_values(words) if name in _BUILDERS), "")


def _list_options(arch: Architecture, request: FrameworkRequest) -> Iterator[ProgramOption]:
    yield ProgramOption("--num-layers", arch.layers)
    yield ProgramOption("--hidden-size", arch.hidden)
    yield ProgramOption("--ffn-hidden-size", arch.ffn)
    yield ProgramOption("--num-attention-heads", arch.heads)
    yield from _latent(arch.mla) if arch.mla else _heads(arch)
    if arch.gated:
        yield ProgramOption("--swiglu", None, _explain(arch, "gated"))
    norm = "LayerNorm" if arch.layer_norm else "RMSNorm"
    yield ProgramOption("--normalization", norm, _explain(arch, "norm"))
    if arch.norm_epsilon and not has_option(request.run_args, "--norm-epsilon"):
        yield ProgramOption("--norm-epsilon", arch.norm_epsilon)
    for name in _BIASES[_biases(arch)]:
        yield ProgramOption(name, None, _explain(arch, "bias"))
    yield from _positions(arch, request)
    if arch.experts and arch.experts.count_sparse(arch.layers):
        yield from _experts(arch, arch.experts, request.run_args)
    if not arch.tied:
        yield ProgramOption("--untie-embeddings-and-output-weights")
    yield from _vocabulary(arch, request)


def _explain(arch: Architecture, key: str) -> str:
    return f"assumed: train.model does not set {key}" if key in arch.assumed else ""


def _heads(arch: Architecture) -> Iterator[ProgramOption]:
    yield ProgramOption("--kv-channels", arch.head_dim)
    if arch.kv_heads != arch.heads:
        yield ProgramOption("--group-query-attention")
        yield ProgramOption("--num-query-groups", arch.kv_heads)
    if arch.qk_norm:
        yield ProgramOption("--qk-layernorm")


def _latent(mla: Mla) -> Iterator[ProgramOption]:
    yield ProgramOption("--multi-latent-attention")
    if mla.q_rank is not None:
        yield ProgramOption("--q-lora-rank", mla.q_rank)
    yield ProgramOption("--kv-lora-rank", mla.kv_rank)
    yield ProgramOption("--qk-head-dim", mla.nope_dim)
    yield ProgramOption("--qk-pos-emb-head-dim", mla.rope_dim)
    yield ProgramOption("--v-head-dim", mla.v_dim)
    yield ProgramOption("--qk-layernorm", None, "norms of the compressed queries, keys and values")


def _biases(arch: Architecture) -> tuple[bool, bool, bool]:
    experts = arch.experts
    dense = experts is None or experts.count_sparse(arch.layers) < arch.layers or experts.shared_ffn
    mlp = arch.mlp_bias if dense or experts is None else experts.bias
    return arch.qkv_bias, arch.out_bias, mlp


def _positions(arch: Architecture, request: FrameworkRequest) -> Iterator[ProgramOption]:
    words, seq_len = request.run_args, request.strategy.seq_len
    kind = "learned_absolute" if arch.positions else "rope"
    yield ProgramOption("--position-embedding-type", kind, _explain(arch, "positions"))
    if arch.positions:
        yield ProgramOption("--max-position-embeddings", arch.positions)
        return
    yield ProgramOption("--rotary-percent", arch.rotary_percent)
    if arch.rotary_base and not has_option(words, "--rotary-base"):
        yield ProgramOption("--rotary-base", arch.rotary_base)
    most = seq_len or arch.most
    if most and not has_option(words, "--max-position-embeddings"):
        yield ProgramOption(
            "--max-position-embeddings", most, "required by Megatron-LM, ignored by rope"
        )


def _experts(arch: Architecture, experts: Experts, words: Iterable[str]) -> Iterator[ProgramOption]:
    yield ProgramOption("--num-experts", experts.count)
    yield ProgramOption("--moe-router-topk", experts.active, _explain(arch, "experts_active"))
    if experts.active == 1 and not has_option(words, "--moe-router-score-function"):
        reason = "required by Megatron-LM with one expert per token: its softmax would be 1"
        yield ProgramOption("--moe-router-pre-softmax", None, reason)
    yield ProgramOption("--moe-ffn-hidden-size", experts.ffn)
    yield ProgramOption("--moe-layer-freq", _frequency(arch.layers, experts))
    if arch.balance_loss and not has_option(words, "--moe-aux-loss-coeff"):
        yield ProgramOption("--moe-aux-loss-coeff", arch.balance_loss)
    if experts.shared_ffn:
        yield ProgramOption("--moe-shared-expert-intermediate-size", experts.shared_ffn)
        if experts.shared_gate:
            yield ProgramOption("--moe-shared-expert-gate")


def _frequency(layers: int, experts: Experts) -> str:
    """Which layers have experts: every one, or an expression whose value is a list of 0 and 1."""
    if experts.count_sparse(layers) == layers:
        return "1"
    rounds, rest = divmod(layers, experts.every)
    skipped = experts.dense_layers // experts.every
    one = f"[0]*{experts.every - 1}+[1]" if experts.every > 1 else "[1]"
    parts = [f"[0]*{skipped * experts.every}"] if skipped else []
    parts.append(f"({one})*{rounds - skipped}")
    parts += [f"[0]*{rest}"] if rest else []
    return "+".join(parts)


def _vocabulary(arch: Architecture, request: FrameworkRequest) -> Iterator[ProgramOption]:
    """The embedding's rows; without this, they follow from whatever tokenizer run names."""
    own, tp = read_values(request.run_args), request.strategy.mesh.tp
    padded = own.get("--padded-vocab-size") or ""
    if not arch.vocab or (padded.isdecimal() and int(padded) >= arch.vocab):
        return
    asked = own.get("--make-vocab-size-divisible-by") or ""
    divisor = int(asked) if asked.isdecimal() and int(asked) else DIVISOR
    rows = -(-arch.vocab // (divisor * tp)) * divisor * tp
    reason = f"vocab {arch.vocab}, padded to a multiple of {divisor} x tp {tp}"
    yield ProgramOption("--padded-vocab-size", rows, reason if rows != arch.vocab else "")


def _check_model(arch: Architecture, request: FrameworkRequest) -> Iterator[TrainDiagnostic]:
    """What no argument can say of this model."""
    lacking = [what for has, what in _list_lacking(arch) if has]
    if lacking:
        name = arch.name or "train.model"
        message = f"jobgen has no arguments of Megatron-LM for {name}: {', '.join(lacking)}"
        hint = "write the sizes of a model without it as a mapping, or, if the program builds its "
        hint += "own layers, pass them with --spec in run:"
        if arch.mixes:
            hint = f"pass all arguments of the model in run:, with {join_words(_MIXERS, 'or')}"
        yield TrainDiagnostic("J252", message, ("model",), hint)
        return
    if _biases(arch) not in _BIASES:
        message = "Megatron-LM supports biases in all linear layers, in none, or in queries, "
        hint = "set bias: true without qkv_bias, or bias: false"
        yield TrainDiagnostic("J252", f"{message}keys and values only", ("model", "qkv_bias"), hint)
    if arch.experts and arch.experts.bias:
        yield from _check_expert_biases(arch.experts, request)


def _check_expert_biases(experts: Experts, request: FrameworkRequest) -> Iterator[TrainDiagnostic]:
    path, etp = ("model", "bias"), request.strategy.mesh.expert_tp
    apart = read_values(request.run_args).get("--expert-tensor-parallel-size") == "1"
    if experts.shared_ffn:
        message = "Megatron-LM has no biases in experts next to a shared expert"
        yield TrainDiagnostic("J252", message, path, "set bias: false, or remove shared_ffn")
    elif etp > 1 and not apart:
        message = f"Megatron-LM cannot shard experts with biases over {etp} ranks"
        hint = "set bias: false, or etp: 1"
        yield TrainDiagnostic("J252", message, path, hint)


def _list_lacking(arch: Architecture) -> Iterator[tuple[bool, str]]:
    yield bool(arch.special), arch.special
    yield arch.mixes > 0, "layers without attention"
    yield arch.gated_attention, "gated attention"
    yield arch.norms != 2, f"{arch.norms or 'no'} norm{'s' * (arch.norms != 1)} per layer"
    yield arch.parallel, "attention parallel to the feed-forward layer"
    yield arch.embedding_norm, "a norm after the embedding"
    yield not arch.final_norm, "no norm after the last layer"
    yield arch.layer_norm and not arch.norm_bias, "LayerNorm without a bias"
    yield arch.qk_norm == "hidden", "norms over all heads of queries and keys"
    yield not (arch.positions or arch.rotary), "ALiBi"
    yield arch.embedding_dim is not None, "an embedding narrower than the layers"
    yield arch.head_bias, "a bias in the output layer"
    yield arch.activation == "relu", "ReLU"
    yield bool(arch.name) and _biases(arch) not in _BIASES, "biases in some linear layers only"


def _check_run(
    options: Iterable[ProgramOption], arch: Architecture, request: FrameworkRequest
) -> Iterator[TrainDiagnostic]:
    """Arguments of run that describe another model than these."""
    passed = {option.name: option.value for option in options}
    refused = (*_SHAPING, "--use-rotary-position-embeddings") if arch.positions else _SHAPING
    other = []
    for name, value in read_values(request.run_args).items():
        expected = passed.get(name)
        if name not in passed and name in refused:
            other.append(name)
        elif value and expected is not None and _differ(value, expected):
            other.append(f"{name} {value} instead of {expected}")
    if other:
        message = f"run: describes a model other than train.model: {', '.join(other)}"
        hint = "remove them from run: (train.model passes its own), or change train.model"
        yield TrainDiagnostic("J252", message, ("model",), hint)


def _differ(own: str, passed: str | float) -> bool:
    """Whether two values of one argument are not alike; variables and expressions may be."""
    if "$" in own or "[" in own:
        return False
    try:
        return float(own) != float(passed)
    except ValueError:
        return own != passed
