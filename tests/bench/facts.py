"""Real texts of NCCL and nccl-tests."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "facts" / "nccl-tests"


def read(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


SOCKET = """\
9cce34ff6c6c:505250:505250 [1] NCCL INFO Bootstrap : Using eth0:172.17.0.2<0>
9cce34ff6c6c:505250:505433 [1] NCCL INFO NET/IB : No device found.
9cce34ff6c6c:505250:505433 [1] NCCL INFO NET/Socket : Using [0]eth0:172.17.0.2<0>
9cce34ff6c6c:505250:505433 [1] NCCL INFO Using network Socket
9cce34ff6c6c:505250:505433 [1] NCCL INFO Channel 00/0 : 1[3000] -> 0[83000] via P2P/IPC comm 0x1725
"""
"""RCCL on two GPUs of one node; as in public issues on it."""
DIRECT = """\
NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:10.0.0.1<0>
NCCL INFO Using network IB
NCCL INFO Channel 00/0 : 2[0] -> 0[0] [send] via NET/IB/0
NCCL INFO Channel 00/0 : 2[0] -> 0[0] [receive] via NET/IB/0/GDRDMA
"""
"""The form of NVIDIA/nccl, src/transport/net.cc: ``via NET/%s/%d%s``, with /GDRDMA at the end."""
