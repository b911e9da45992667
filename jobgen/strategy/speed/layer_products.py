"""Seconds of a layer's matrix products, with the adapters beside its weights."""

from __future__ import annotations

from jobgen.strategy.estimate import ClusterHardware
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes.architecture import Tensor
from jobgen.strategy.speed.adapter_products import compute_adapters
from jobgen.strategy.speed.products import Both, build_product, compute_product, is_narrow


def compute_products(setup: Setup, machine: ClusterHardware, tensors: tuple[Tensor, ...]) -> Both:
    """Seconds of all matrix products of a layer but those of attention."""
    ahead = back = 0.0
    narrow, frozen = is_narrow(setup), setup.adapters is not None
    experts = setup.model.sizes.experts
    for tensor in tensors:
        if len(tensor.shape) < 2 or tensor.kind == "mixer" or tensor.name.endswith(".bias"):
            continue  # filters of convolutions are no matrices, and experts' biases are a table
        outer, inner = tensor.shape[-2:]
        one = build_product(
            setup, inner, outer, narrow=narrow and tensor.kind != "router", frozen=frozen
        )
        if tensor.kind == "expert" and experts:
            together = setup.mesh.expert_tp  # of the ranks of tp, the others have other tokens
            one = one._replace(
                tokens=one.tokens * experts.active * together / setup.mesh.tp,
                tp=together,
                copies=experts.count / setup.mesh.ep,
            )
        took = compute_product(one, machine)
        beside = compute_adapters(setup, machine, tensor, one)
        ahead += took.forward + beside.forward
        back += took.backward + beside.backward
    return Both(ahead, back)
