"""One way to train one model on given ranks: what its memory and its speed are asked about."""

from __future__ import annotations

from typing import Literal

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import WorkUnit
from jobgen.strategy.measured_model import MeasuredModel
from jobgen.strategy.shapes.architecture import Kind, Model, Tensor
from jobgen.strategy.spec import Batch, Mesh, Offloaded

Loss = Literal["plain", "held", "narrow", "in-place", "compiled", "chunked", "held-chunks", "fused"]
NVLINK_CHANNELS = 24
"""Of an NCCL communicator whose ranks NVLink joins, on nodes of eight GPUs."""
PCIE_CHANNELS = 2
"""Where only PCIe does ("2 coll channels" in NCCL's log of two GPUs: NVIDIA/nccl, issue 1190)."""
LINEAR: tuple[Kind, ...] = ("attention", "mlp", "expert", "shared")
"""Kinds of tensors that are linear layers inside of a layer."""


class Recipe(NamedTuple):
    """Bytes of one element of each kind of state, and of what is computed."""

    name: str
    params: float
    grads: float
    master: float
    """An fp32 copy of the parameters, where parameters are narrower."""
    moments: float
    """What the optimizer keeps of each element."""
    compute: int = 2
    """Bytes of activations and of gathered parameters."""
    reduce: int = 2
    """Bytes of a gradient on the network."""
    note: str = ""
    """Where the numbers come from."""
    embedding_moments: float | None = None
    """The optimizer's of an embedding's element, where they are others."""

    @property
    def total(self) -> float:
        """Bytes of all states for one trained parameter."""
        return self.params + self.grads + self.master + self.moments

    @property
    def product_bits(self) -> int:
        """Of an element that linear layers multiply: the name has fp4, fp8 or float8."""
        name = self.name.lower()
        if "fp4" in name:
            return 4
        return 8 if "fp8" in name or "float8" in name else 16

    @property
    def has_narrow_products(self) -> bool:
        """Whether linear layers multiply in types of fewer than 16 bits."""
        return self.product_bits < 16


class Adapters(NamedTuple):
    """LoRA: what is trained beside frozen parameters."""

    rank: int
    targets: tuple[str, ...]
    """Names of the tensors that have adapters; empty means every linear layer."""
    bits: int = 16
    """Of a frozen element: 4 for QLoRA, whose other layers have 16; 32 where nothing is narrow."""
    trained_fully: tuple[str, ...] = ()
    """Kinds of tensors that are trained whole: embedding, head."""
    dropout: bool = True
    """Each adapter's input is kept once more, with the mask of what was dropped."""
    width: int = 4
    """Bytes of an adapter's element: peft keeps adapters in fp32 (``autocast_adapter_dtype``)."""
    autocast: bool = True
    """Their products are made in the computing type, however wide their weights."""
    prepared: bool = False
    """What is not quantized is made fp32, and with it the stream between layers: peft's
    ``prepare_model_for_kbit_training``, which trl calls."""
    narrow_ends: bool = False
    """Prepared, but embedding and output layer are 16 bits wide again: trl's
    ``peft_module_casting_to_bf16`` (trainer/utils.py), which its SFTTrainer calls with ``bf16``
    since 2024. The stream is fp32 only where norms of single operations make it so."""
    nested: bool = True
    """The scales of 4 bits are quantized as well: ``bnb_4bit_use_double_quant``."""
    fused: bool = True
    """One kernel makes frozen weights 16 bits wide, as bitsandbytes has it; where not, single
    operations do, as in AutoGPTQ."""

    cast_back: bool = True
    """Autocast makes an adapter's input as narrow as the model again for its products; without it,
    an adapter of a wider type multiplies in that type."""
    joined: bool = False
    """One function multiplies the weights and their adapters and casts no input, as unsloth's."""
    keeps_inputs: Literal["no", "once", "twice"] = "no"
    """Quantized matrices keep their inputs in attributes of the graph, which autograd does not free
    (bitsandbytes before 0.43.2, autograd/_functions.py, ``MatMul4Bit``): twice where the
    loop holds a graph until the next forward pass has ended, and that has as many tokens."""

    flattened: bool = False
    """fsdp: an adapter and the frozen weights beside it are parts of one flat parameter, as where a
    unit is a layer and ``use_orig_params`` is set. All of it requires a gradient, so that those of
    frozen weights are computed too (torch 2.13, distributed/fsdp/_wrap_utils.py,
    ``_validate_frozen_params``)."""

    def has(self, tensor: Tensor) -> bool:
        """Whether these matrices have adapters."""
        if tensor.kind not in LINEAR or len(tensor.shape) < 2:
            return False
        return not self.targets or any(word in tensor.name for word in self.targets)


class Setup(NamedTuple):
    """What is trained, how it is divided, and what is kept where."""

    model: Model
    strategy: str
    """Its word in job.yaml."""
    mesh: Mesh
    batch: Batch
    seq: int
    recipe: Recipe
    recompute: Literal["none", "selective", "full"] = "none"
    recompute_every: int = 1
    """Full recomputation: of so many layers one is computed again and all of the others is kept, as
    torchtitan's ``selective_ac_option`` had it as a number."""
    offload: Offloaded = Offloaded()
    offload_activations: bool = False
    reshard: bool | int = True
    """fsdp2: ``reshard_after_forward``. zero3: False where autograd keeps gathered weights for the
    backward pass, as without ``zero.Init``'s own linear layer (DeepSpeed, runtime/zero/linear.py).
    """
    gathers_ahead: bool = False
    """fsdp: nothing holds Python back from gathering all layers before the first has computed, as
    with ``limit_all_gathers=False``, FSDP1's default before torch 2.1 (pytorch/pytorch, pull
    request 104900)."""
    narrow_gather: bool = False
    """fsdp2: weights of linear layers are gathered in float8, as with torchao's
    ``enable_fsdp_float8_all_gather``."""
    narrow_copies: bool = False
    """fsdp2: a float8 copy of each weight, transposed, stays for the backward pass where nothing is
    computed again, as without torchao's ``force_recompute_fp8_weight_in_bwd``."""
    keeps_cache: bool = False
    """The model returns keys and values of each layer, as transformers' does with ``use_cache``
    unless it checkpoints itself, and the loop holds them until the next forward pass has ended."""
    split_root: bool = False
    """fsdp2: the embedding is a unit of its own, and so is the output layer with its norm."""
    framework: str = "torch"
    flash: bool = True
    """Attention without the matrix of scores in memory."""
    tf32: bool = False
    """Products of fp32 are rounded to TF32, for which GPUs since Ampere have tensor cores:
    ``torch.backends.cuda.matmul.allow_tf32``."""
    compiled: bool = False
    loss: Loss = "plain"
    """How logits become the loss: eagerly in fp32, so that fp32 logits are held until the backward
    pass has ended, eagerly in 16 bits, in fp32 in their own memory
    as Megatron's, in one compiled kernel, chunk by chunk, or together with the output layer, so
    that no logits are kept."""
    fused_norms: bool = False
    """RMSNorm and rotation are one kernel each, as with flash-attn's, Liger's or Transformer
    Engine's: a norm keeps its input and no copy in fp32."""
    joined_norms: bool = False
    """RMSNorm alone is one kernel that keeps its input, as torch's own since 2.9 where its weight
    has the input's type (pytorch/pytorch, pull request 153666: ``_fused_rms_norm``), which
    torchtitan takes (models/common/nn_modules.py)."""
    wide_rotation: bool = False
    """Queries and keys are cast to fp32 for the one kernel of their rotation, and back."""
    fused_attention: bool = False
    """Attention is Transformer Engine's, as Megatron's is."""
    fused_activation: bool = False
    """A gated activation is one kernel that keeps its input only, as Megatron's."""
    hidden_dropout: bool = False
    """What attention and the feed-forward layer return is dropped out before it is added, as
    Megatron-LM does by default (``--hidden-dropout``), and models of transformers whose config.json
    says so: a byte of each element is kept."""
    attention_dropout: bool = False
    """So are scores after softmax, by the models of transformers: flash attention keeps none."""
    vocab_divisor: int = 128
    """Megatron-LM's vocabulary is a multiple of this on each rank of tp, and nanotron's of 1
    (``make_vocab_size_divisible_by``, by default)."""
    legacy: bool = False
    """Layers of Megatron-LM before megatron-core (``--use-legacy-models``): a gated activation and
    rotation are single operations, and attention is flash-attn's own kernel, for which keys and
    values are repeated (megatron/legacy/model/transformer.py)."""
    reentrant: bool = False
    """Checkpointing is torch's reentrant kind, transformers' default before release 5."""
    checkpoints_inside: bool = False
    """fsdp: what is checkpointed lies in a unit, as where ``apply_activation_checkpointing`` wraps
    the layers of a sharded model; transformers checkpoints units."""
    unsynced: bool = False
    """FSDP reduces gradients with the last micro-batch only (``no_sync``): until then they are
    whole on every rank."""
    longest_first: bool = False
    """The longest micro-batch is the first of the run, when there are no gradients of others."""
    reduce_bucket: int = 500_000_000
    """Elements of DeepSpeed's reduce_bucket_size; the default of runtime/zero/config.py."""
    persistent_grads: bool = False
    """Gradients keep their memory between steps, as Megatron's and DDP's buckets do."""
    copied_grads: bool = False
    """DDP's buckets hold the gradients once more: without ``gradient_as_bucket_view``. They
    are None between steps, and buckets stay (torch, csrc/distributed/c10d/reducer.cpp)."""
    fused_step: bool = True
    """The optimizer works in place; where not, it makes a temporary of each parameter's size."""
    cpu_adam: bool = True
    """zero: DeepSpeed's CPU Adam steps what lies on the host, and not the program's own optimizer:
    torch's, as accelerate keeps it with ``zero_force_ds_cpu_optimizer: false``."""
    step_copies: int = 1
    """How many such temporaries there are at once."""
    repeat_kv: bool = False
    """Keys and values are copied to as many heads as queries have."""
    document: int = 0
    """Tokens of a sample, where a sequence is packed of many and attention stays within each, as
    NeMo's does (llm/gpt/model/base.py, ``get_packed_seq_params``); 0 where it goes over all."""
    loose: bool = False
    """Lengths vary from batch to batch, so that the allocator's cache grows."""
    sequence_parallel: bool = False
    """With tp: norms and dropouts are divided along the sequence."""
    keeps_gathered: bool = False
    """With sequence_parallel: linear layers keep for the backward pass what they gathered, as
    torchtitan's (models/llama3/infra/parallelize.py, ``PrepareModuleInput``) and nanotron's without
    ``tp_linear_async_communication`` (parallel/tensor_parallel/functional.py, ``column_linear``).
    Megatron-LM's keep their part and gather it again."""
    overlap_tp: bool = False
    """With tp: what a layer sends goes piece by piece beside its products, as with Megatron's
    ``--tp-comm-overlap`` and torchtitan's asynchronous tp."""
    overlap_reduce: bool = True
    """Gradients are reduced beside the backward pass, as with DDP's buckets, DeepSpeed's
    ``overlap_comm`` and Megatron's ``--overlap-grad-reduce``; where not, after it."""
    overlap_gather: bool = True
    """Megatron's zero1: parameters are gathered beside the forward pass, as with
    ``--overlap-param-gather``; where not, after the optimizer's step."""
    fused_dispatch: bool = False
    """With ep: a token is sent once to each node and forwarded inside it, as DeepEP and HybridEP
    do; NCCL's all-to-all sends it once for each of its experts."""
    gathers_tokens: bool = False
    """With experts: each rank gathers the tokens of all ranks that share experts with it, as with
    Megatron's ``--moe-token-dispatcher-type allgather``, its default."""
    fused_experts: bool = False
    """Kernels of the experts' products also add biases, clamp and activate: Megatron-LM's
    ``--use-transformer-engine-op-fuser`` with MXFP8 on Blackwell (Transformer Engine,
    pytorch/ops/fused/grouped_mlp.py)."""
    overlap_experts: bool = False
    """With ep: what one micro-batch sends to its experts goes beside the computing of another, as
    with Megatron's ``--overlap-moe-expert-parallel-comm``."""
    graphed: bool = False
    """CUDA graphs start the kernels of a layer, as with Megatron's ``--cuda-graph-impl``."""
    graphs_attention: bool = True
    """Those graphs have attention, too, as without ``--cuda-graph-scope`` or with its ``attn``."""
    graphs_step: bool = False
    """One graph has the whole step, as with the scope ``full_iteration``."""
    chunks: int = 1
    """Pipeline: interleaved parts of the model that one stage holds."""
    adapters: Adapters | None = None
    step_in_backward: bool = False
    """The optimizer's step is done parameter by parameter while gradients come."""
    keeps_full_copy: bool = False
    """The whole model is on the GPU in 16 bits once, as with full state dicts of FSDP."""
    expandable: bool = False
    """The allocator has ``expandable_segments``."""
    lazy_modules: bool = True
    """CUDA loads a kernel when it is first used: since torch 1.13 with CUDA 11.7."""
    channels: int = NVLINK_CHANNELS
    """Of an NCCL communicator."""
    world_per_node: int = 8
    """Ranks of one node."""
    nvlink_nodes: int = 1
    """Nodes whose GPUs NVLink joins."""
    measured: MeasuredModel | None = None
    """The user's own model, whose activations are measured and not counted."""
    assumed: tuple[str, ...] = ()
    """Keys of ``train`` that the job does not write, and whose values were assumed."""
    derived: tuple[str, ...] = ()
    """Keys whose values follow from ``train.global_batch``, the largest that it allows."""

    @property
    def tokens(self) -> int:
        """Tokens of one rank in one micro-batch, before tp divides them."""
        return self.batch.micro * self.seq // self.mesh.cp


def has_frozen_weights(setup: Setup) -> bool:
    """Whether no gradients are computed of the weights beside adapters."""
    return setup.adapters is not None and not setup.adapters.flattened


def get_work_unit(setup: Setup) -> WorkUnit:
    """What a step is measured in: samples of a model of the user's own without ``seq_len``."""
    by_samples = setup.measured is not None and "seq_len" in setup.assumed
    return "samples" if by_samples else "tokens"
