"""The user's own ds_config.json: judged, then completed with what ``train`` says.

Where the file and ``train`` contradict each other, neither is preferred: both are named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from jobgen.strategy.batch import ConfigBatch
from jobgen.strategy.dsconfig import keys
from jobgen.strategy.dsconfig.batch_keys import MICRO, STEPS, check_product, compare_batch
from jobgen.strategy.dsconfig.chosen import ChosenKey, Path, UserConfig, Written, get, put
from jobgen.strategy.frameworks import FrameworkRequest
from jobgen.strategy.json_lines import index_lines
from jobgen.strategy.spec import TrainDiagnostic

_ZERO = "zero_optimization"
_OFFLOADS = ("offload_optimizer", "offload_param")
_EXACT: Mapping[Path, str] = {
    ("gradient_clipping",): "gradient_clipping",
    (_ZERO, "stage"): "strategy",
    (_ZERO, "offload_optimizer", "device"): "offload",
    (_ZERO, "offload_param", "device"): "offload",
    (_ZERO, "offload_optimizer", "nvme_path"): "offload.path",
    (_ZERO, "offload_param", "nvme_path"): "offload.path",
}
"""Key of the file → the key of ``train`` that says the same."""


class _RepeatedError(ValueError):
    pass


def read(content: bytes, name: str) -> tuple[UserConfig, list[TrainDiagnostic]]:
    """The mapping in the file; an empty one, and why, where there is none."""
    try:
        text = content.decode("utf-8-sig")
        values = json.loads(text, object_pairs_hook=_once, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        hint = "JSON has no comments and no trailing commas; only DeepSpeed itself accepts them"
        return UserConfig(name, {}, {}), [_fault(f"{name} is not valid JSON: {error}", hint)]
    if not isinstance(values, dict):
        return UserConfig(name, {}, {}), [
            _fault(f"{name} must contain a mapping", '{"train_batch_size": …}')
        ]
    return UserConfig(name, values, index_lines(text)), []


def read_batch(content: bytes | None, name: str) -> ConfigBatch | None:
    """The micro-batch that the file sets as a number; None where it sets none."""
    found, faults = read(content or b"", name)
    micro, steps = (get(found.values, path) for path in (MICRO, STEPS))
    if faults or type(micro) is not int or micro < 1:
        return None
    steps = steps if type(steps) is int and steps > 0 else 1
    return ConfigBatch(micro, steps, found.cite(MICRO))


def names_cpu_adam(content: bytes, name: str) -> bool:
    """Whether DeepSpeed's own optimizer steps what the file offloads, whoever reads it: the file
    names one, or lets accelerate replace the program's."""
    values = read(content, name)[0].values
    return "optimizer" in values or values.get("zero_force_ds_cpu_optimizer") is True


def check(found: UserConfig, ranks: int, reader: str) -> Iterator[TrainDiagnostic]:
    """What DeepSpeed, with so many data parallel ranks, would refuse or not read as it is meant."""
    yield from _check_keys(found, reader)
    yield from check_product(found, ranks, reader)


def _check_keys(found: UserConfig, reader: str) -> Iterator[TrainDiagnostic]:
    yield from check_unknown(found, auto=reader != "deepspeed")
    yield from _combinations(found)


def check_unknown(found: UserConfig, *, auto: bool) -> Iterator[TrainDiagnostic]:
    """Keys that DeepSpeed does not know, or would not read as they are meant."""
    for path, message, hint in keys.check_keys(found.values, auto=auto):
        yield _fault(f"{found.cite(path)}: {message}", hint)


def merge_config(request: FrameworkRequest, reader: str, asked: tuple[ChosenKey, ...]) -> Written:
    """The file with what ``train`` says filled in."""
    found, faults = read(request.strategy.config or b"", request.strategy.config_name)
    if faults:
        return Written({}, faults=tuple(faults))
    values = json.loads(json.dumps(found.values))
    why = {}
    for each in asked:
        held = get(found.values, each.path)
        if held is None and not _fills(each, found):
            continue
        if held is None or held == "auto":
            put(values, each.path, each.value)
            said = f"train.{'.'.join(each.key)}" if each.key else each.why
            why[".".join(each.path)] = f"not set in {found.name}: {said}"
    for name in ("fp16", "bf16"):
        if get(values, (name, "enabled")) == "auto":
            put(values, (name, "enabled"), request.strategy.precision == name)
    completed = found._replace(values=values)
    batch, ranks = request.strategy.batch, request.strategy.mesh.data
    faults = [
        *_check_keys(completed, reader),
        *(compare_batch(found, batch) if batch else check_product(completed, ranks, reader)),
        *_contradictions(request, found),
    ]
    return Written(values, why, tuple(faults))


def _fills(each: ChosenKey, found: UserConfig) -> bool:
    """What the job says goes in; what jobgen would choose only where a block of ours needs it."""
    if each.key:
        return True
    return each.path == ("zero_force_ds_cpu_optimizer",) and "optimizer" not in found.values


def _combinations(found: UserConfig) -> Iterator[TrainDiagnostic]:
    """What DeepSpeed refuses, or forgets, of the values together."""
    values = found.values
    if _on(values, "fp16") and _on(values, "bf16"):
        message = f"{found.cite(('fp16',))}: fp16 and bf16 are both enabled"
        yield _fault(message, "keep one of the two; train.precision defaults to bf16")
    yield from _unknown(found)
    stage = _read_stage(found) or 0
    for name in _OFFLOADS:
        path = (_ZERO, name)
        device = get(values, (*path, "device"))
        if device in ("cpu", "nvme") and name == "offload_param" and stage != 3:
            message = (
                f"{found.cite(path)}: offloading parameters needs ZeRO-3, but stage is {stage}"
            )
            yield _fault(message, "set stage 3, or remove offload_param", "J235")
        if device == "nvme":
            yield from _nvme(found, path, stage)
    stages = get(values, ("pipeline", "stages"))
    if isinstance(stages, int) and stages > 1 and stage >= 2:
        message = f"{found.cite(('pipeline',))}: ZeRO-{stage} does not support pipeline parallelism"
        yield _fault(message, "set stage 1", "J232")


def _unknown(found: UserConfig) -> Iterator[TrainDiagnostic]:
    """A stage or a device that DeepSpeed does not have."""
    known: dict[Path, tuple[object, ...]] = {(_ZERO, "stage"): (0, 1, 2, 3)}
    known |= {(_ZERO, name, "device"): ("none", "cpu", "nvme") for name in _OFFLOADS}
    for path, values in known.items():
        held = get(found.values, path)
        if held is None or held == "auto" or (held in values and not isinstance(held, bool)):
            continue
        message = f"{found.cite(path)}: {'.'.join(path)} is {json.dumps(held)}"
        yield _fault(message, f"must be {', '.join(map(str, values[:-1]))} or {values[-1]}")


def _read_stage(found: UserConfig) -> int | None:
    """The stage of ZeRO, where the file sets one that DeepSpeed has."""
    stage = get(found.values, (_ZERO, "stage"))
    return stage if type(stage) is int and stage in range(4) else None


def _nvme(found: UserConfig, path: Path, stage: int) -> Iterator[TrainDiagnostic]:
    where = found.cite(path)
    place = get(found.values, (*path, "nvme_path"))
    if not place:
        yield _fault(f"{where}: device nvme needs nvme_path", "such as /local/scratch", "J235")
    elif "$" in str(place):
        message = f"{where}: {place} contains a variable, but nothing expands it in a JSON file"
        yield _fault(message, "write the full path, such as /local/scratch", "J235")
    if stage != 3:
        message = f"{where}: offloading to NVMe needs ZeRO-3, but stage is {stage}"
        yield _fault(message, 'set stage 3, or "device": "cpu"', "J235")


def _contradictions(request: FrameworkRequest, found: UserConfig) -> Iterator[TrainDiagnostic]:
    """Values of the file that ``train`` says otherwise."""
    from jobgen.strategy.dsconfig import generate

    said = {each.path: each for each in generate.choose_keys(request, "deepspeed")}
    for path, key in _EXACT.items():
        held = get(found.values, path)
        if held is None or held == "auto":
            continue
        each = said.get(path)
        if each is None and path[-1] == "device" and held != "none":
            yield _differ(found, path, held, f"train.{key} does not offload it", _same_in(found))
        elif each is not None and each.key and not _same(held, each.value):
            said_so = f"train.{key} sets it to {each.value}"
            yield _differ(found, path, held, said_so, _same_in(found))
    for name in ("fp16", "bf16"):
        path = (name, "enabled")
        held, wanted = get(found.values, path), request.strategy.precision
        if isinstance(held, bool) and held != (wanted == name):
            yield _differ(found, path, json.dumps(held), f"train.precision is {wanted}")


def _same_in(found: UserConfig) -> str:
    """The keys of ``train`` that say what the file says of its stage and of offload."""
    stage = _read_stage(found)
    where = [get(found.values, (_ZERO, name, "device")) for name in _OFFLOADS]
    what = {(True, False): "optimizer", (False, True): "params", (True, True): "both"}
    offloads = tuple(isinstance(device, str) and device != "none" for device in where)
    keys = [f"strategy: zero{stage}"] if stage else []
    keys += [f"offload: {what[offloads]}"] if offloads in what else []
    return f"set {' and '.join(keys)}" if keys else ""


def _differ(
    found: UserConfig, path: Path, held: object, said: str, hint: str = ""
) -> TrainDiagnostic:
    message = f"{found.cite(path)}: {'.'.join(path)} is {held}, but {said}"
    hint = hint if hint and path[0] == _ZERO else "set the same value in both"
    return _fault(message, f"{hint}, or remove it from {found.name}")


def _on(values: Mapping[str, Any], name: str) -> bool:
    return get(values, (name, "enabled")) is True


def _same(held: object, wanted: object) -> bool:
    return held == wanted and isinstance(held, bool) == isinstance(wanted, bool)


def _fault(message: str, hint: str, code: str = "J237") -> TrainDiagnostic:
    return TrainDiagnostic(code, message, ("config",), hint)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _RepeatedError(f"duplicate key '{name}'")
        found[name] = value
    return found


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")
