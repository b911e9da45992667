"""Plain job scripts: directives that sbatch does not read, and their variables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.data.message_codes import codes
from jobgen.load import check, load_cluster

HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n"
INFINIBAND = """
name: ib
scheduler: slurm
paths: {root: /scratch}
nodes: {count: 4, gpus_per_node: 8, gpu: H100-SXM5-80GB, cpus: 96}
network: {fabric: infiniband}
"""


def found(text: str) -> list[tuple[str, str, int, int]]:
    """(code, severity, line, column) of each problem."""
    checked = check(text, "old.sbatch")
    assert checked.kind == "script"
    assert checked.valid
    return [(p.code, p.severity, p.place.line, p.place.col) for p in checked.problems if p.place]


@pytest.mark.parametrize(
    ("lines", "problems"),
    [
        ("#SBATCH --mem=0\nset -e\n", []),
        ("set -e\n#SBATCH --mem=0\n", [("J326", "warning", 4, 1)]),
        ("# SBATCH --mem=0\n", [("J327", "warning", 3, 1)]),
        (" #SBATCH --mem=0\n", [("J327", "warning", 3, 2)]),
        ("##SBATCH --mem=0\n", [("J327", "note", 3, 1)]),
        ("#sbatch --mem=0\n", [("J327", "warning", 3, 1)]),
        ("###SBATCH --mem=0\n", [("J327", "note", 3, 1)]),
        ("# SBATCH reads the lines above\n", []),
        ("#   sbatch -N 2 this.sh\n", []),
        ("cat > b.sh <<'EOF'\n#!/bin/bash\n#SBATCH --mem=0\nEOF\nhostname\n", []),
        ("cat <<E\nx\nE\n#SBATCH --mem=0\n", [("J326", "warning", 6, 1)]),
        ("#SBATCH --output=/s/$USER/%j.out\n", [("J328", "warning", 3, 1)]),
        ("#SBATCH --time=1:00:00 # as long as $USER likes\n", []),
        ("#SBATCH --ntask-per-node=1\n", [("J329", "error", 3, 9)]),
        ("#SBATCH --gpu=8\n", [("J329", "error", 3, 9)]),
        ("#SBATCH --ntasks-per=8\n", [("J329", "error", 3, 9)]),
        ("#SBATCH --gpus=8 --nodel=n1 --gpus-per-n=8\n", []),
        ("#SBATCH --container-image=x.sqsh --gpus-per-node=8\n", []),
        ("export NCCL_DEBUG=INFO\n", [("J308", "note", 3, 8)]),
        ("#SBATCH --export=ALL,NCCL_DEBUG=INFO # x\ntrue\n", [("J308", "note", 3, 9)]),
        ("  NCCL_TIMEOUT=5 srun train.py\n", [("J304", "warning", 3, 3)]),
        ("export NCCL_SOCKET_IFNAME=lo\n", [("J316", "error", 3, 8)]),
        ("echo NCCL_DEBUG=INFO\nNCCL_DEBUG=INFO\n", []),
        ("export HF_HOME=/x LR=1\n", []),
    ],
)
def test_a_plain_script_is_read_as_sbatch_and_bash_read_it(
    lines: str, problems: list[tuple[str, str, int, int]]
) -> None:
    assert found(HEAD + lines) == problems


def test_what_sbatch_refuses_is_an_error() -> None:
    assert found("#SBATCH --nodes=1\nhostname\n")[0][:2] == ("J328", "error")
    assert ("J328", "error") in [f[:2] for f in found("#!/bin/bash\r\nhostname\r\n")]
    # what is sourced needs no first line
    assert check("export A=1\n", "env.sh").problems == ()


def test_a_cluster_beside_it_is_known() -> None:
    profile = load_cluster(INFINIBAND, "ib.yaml").value
    text = HEAD + "export NCCL_IB_DISABLE=1 FI_EFA_FORK_SAFE=1\n"
    alone = {(p.code, p.severity) for p in check(text, "x.sh").problems}
    beside = {(p.code, p.severity) for p in check(text, "x.sh", cluster=profile).problems}
    assert ("J316", "warning") not in alone
    assert ("J316", "warning") in beside


@pytest.mark.parametrize("code", ["J326", "J327", "J328", "J329"])
def test_the_examples_of_a_code_do_what_they_say(code: str) -> None:
    entry = codes()[code]
    assert code in {f[0] for f in found(HEAD + entry.wrong + "\n")}
    assert code not in {f[0] for f in found(HEAD + entry.right + "\n")}


@given(st.text(max_size=300))
def test_any_text_is_checked(text: str) -> None:
    check(text, "x.sbatch")
    check("#!" + text, "x")
