"""Each rule of the judge: what it says something of, and what it leaves alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.data.env_variables import catalogue
from jobgen.data.message_codes import codes
from jobgen.fabric.variables import CODES, Context, VariableDiagnostic, judge

IB = Context(fabric="infiniband", nodes=2, maker="nvidia", intra="nvswitch", gpus=8)
ROCE = IB._replace(fabric="roce")
EFA = IB._replace(fabric="efa")
TCP = IB._replace(fabric="ethernet", intra="pcie")
AMD = IB._replace(maker="amd", intra="infinity-fabric")


def said(
    name: str, value: str | None, context: Context = IB, **others: str
) -> tuple[VariableDiagnostic, ...]:
    """What the judge says of a variable among others."""
    return judge(name, value, context._replace(others={name: value, **others}))


def codes_of(
    name: str, value: str | None, context: Context = IB, **others: str
) -> list[tuple[str, str]]:
    """The codes, each with its severity."""
    return [(f.code, f.severity) for f in said(name, value, context, **others)]


def test_an_unknown_name_has_the_nearest_one() -> None:
    (found,) = said("NCCL_SOCKET_IFNAMES", "ib0")
    assert (found.code, found.severity) == ("J303", "warning")
    assert found.hint == "did you mean 'NCCL_SOCKET_IFNAME'?"
    (found,) = said("NCCL_SOCKET_TIMEOUT_MS", "5")
    assert found.code == "J303"
    assert "NCCL_SOCKET_RETRY_CNT" in found.hint
    assert codes_of("NCCL_ZZZZZZZZ_QQ", "1") == [("J303", "warning")]


@pytest.mark.parametrize("name", ["NCCL_TESTS_DIR", "NCCL_LIB_DIR", "UCX_FANCY_NEW", "FI_OTHER"])
def test_names_of_scripts_and_of_open_families_are_left_alone(name: str) -> None:
    assert codes_of(name, "x") == []


def test_hearsay_says_what_to_write_instead() -> None:
    (found,) = said("NCCL_TIMEOUT", "1800")
    assert (found.code, found.severity) == ("J304", "warning")
    assert "init_process_group(timeout=...)" in found.hint
    assert codes_of("NCCL_DEBUG", "verbose") == [("J304", "warning")]
    assert codes_of("NCCL_ALGO", "CollNet") == [("J304", "warning")]
    assert codes_of("NCCL_ROOT", "/opt/nccl") == [("J304", "note")]
    assert codes_of("NCCL_PLUGIN_PATH", "/x") == [("J304", "warning")]
    assert codes_of("NCCL_PLUGIN_PATH", "/x", IB._replace(fabric="gib")) == [("J304", "note")]


def test_pytorchs_names_are_told_from_nccls() -> None:
    (found,) = said("NCCL_ASYNC_ERROR_HANDLING", "1")
    assert found.code == "J312"
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" in found.hint
    (found,) = said("NCCL_AVOID_RECORD_STREAMS", "1")
    assert (found.code, found.hint) == ("J312", "use TORCH_NCCL_AVOID_RECORD_STREAMS")


def test_a_variable_that_is_gone_depends_on_the_release() -> None:
    (found,) = said("NCCL_TREE_THRESHOLD", "0")
    assert (found.code, found.severity) == ("J310", "warning")
    assert "NCCL_ALGO" in found.hint
    old = IB._replace(versions={"nccl": "2.4.7"})
    assert not any(f.code == "J310" for f in said("NCCL_TREE_THRESHOLD", "0", old))
    # gone with the last releases only
    assert codes_of("NCCL_SHM_USE_CUDA_MEMCPY", "1") == [("J310", "note")]
    new = IB._replace(versions={"nccl": "2.30.7"})
    assert codes_of("NCCL_SHM_USE_CUDA_MEMCPY", "1", new) == [("J310", "warning")]


def test_what_current_releases_do_without_is_noted() -> None:
    assert codes_of("FI_EFA_USE_DEVICE_RDMA", "1", EFA) == [("J310", "note")]
    old = EFA._replace(versions={"libfabric": "1.16.1"})
    assert codes_of("FI_EFA_USE_DEVICE_RDMA", "1", old) == []
    assert codes_of("FI_EFA_ENABLE_SHM_TRANSFER", "0", EFA) == [("J310", "note")]


def test_a_variable_that_is_too_new_depends_on_the_release() -> None:
    name, value = "NCCL_IB_ADDR_RANGE", "10.0.0.0/8"
    assert codes_of(name, value, ROCE) == []
    assert codes_of(name, value, ROCE._replace(versions={"nccl": "2.21"})) == []
    (found,) = said(name, value, ROCE._replace(versions={"nccl": "2.20.5"}))
    assert (found.code, found.severity) == ("J311", "warning")
    assert "2.20.5" in found.message


def test_a_default_that_is_restated_is_noted() -> None:
    assert codes_of("NCCL_IB_TIMEOUT", "20") == [("J313", "note")]
    assert codes_of("NCCL_IB_TIMEOUT", "22") == []
    assert codes_of("NCCL_CROSS_NIC", "2") == [("J313", "note")]
    # the defaults of an old release are not known
    assert codes_of("NCCL_IB_TIMEOUT", "20", IB._replace(versions={"nccl": "2.18.5"})) == []


def test_an_old_name_is_noted() -> None:
    (found,) = said("NCCL_MIN_NCHANNELS", "16")
    assert (found.code, found.severity) == ("J314", "note")
    assert found.hint == "use NCCL_MIN_CTAS"
    before = IB._replace(versions={"nccl": "2.16.5"})
    assert not any(f.code == "J314" for f in said("NCCL_MIN_NCHANNELS", "16", before))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_DEBUG", "trace"),
        ("CUDA_LAUNCH_BLOCKING", "1"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),
        ("TORCH_NCCL_DESYNC_DEBUG", "1"),
        ("NCCL_LAUNCH_MODE", "GROUP"),
        ("FI_LOG_LEVEL", "debug"),
    ],
)
def test_a_switch_for_finding_faults_is_noted(name: str, value: str) -> None:
    assert ("J308", "note") in codes_of(name, value)


def test_a_switch_that_is_off_is_none() -> None:
    assert codes_of("NCCL_DEBUG", "WARN") == []
    assert not any(code == "J308" for code, _ in codes_of("CUDA_LAUNCH_BLOCKING", "0"))
    assert not any(code == "J308" for code, _ in codes_of("TORCH_DISTRIBUTED_DEBUG", "OFF"))


def test_forced_tuning_is_noted_unless_its_maker_forces_it() -> None:
    assert codes_of("NCCL_ALGO", "Ring") == [("J315", "note")]
    assert codes_of("NCCL_PROTO", "LL128") == [("J315", "warning")]
    assert codes_of("NCCL_PROTO", "^LL128") == [("J315", "note")]
    assert codes_of("NCCL_MIN_CTAS", "16") == [("J315", "note")]
    tcpx = IB._replace(fabric="tcpx")
    assert not any(
        code == "J315" and level == "warning"
        for code, level in codes_of("NCCL_PROTO", "LL128", tcpx)
    )
    assert codes_of("NCCL_ALGO", "Ring", IB._replace(kind="cluster")) == []


@pytest.mark.parametrize(
    ("name", "value", "context", "severity"),
    [
        ("NCCL_IB_DISABLE", "1", IB, "warning"),
        ("NCCL_IB_DISABLE", "1", ROCE, "warning"),
        ("NCCL_NET", "Socket", IB, "warning"),
        ("NCCL_NET", "IB", TCP, "warning"),
        ("NCCL_NET", "AWS Libfabric", IB, "warning"),
        ("NCCL_IB_HCA", "=mlx5_0", TCP, "warning"),
        ("NCCL_IB_GID_INDEX", "3", IB, "warning"),
        ("NCCL_IB_TIMEOUT", "22", TCP, "note"),
        ("NCCL_SOCKET_NTHREADS", "4", IB, "note"),
        ("FI_PROVIDER", "tcp", EFA, "warning"),
        ("FI_PROVIDER", "efa", IB, "warning"),
        ("FI_EFA_USE_HUGE_PAGE", "0", IB, "note"),
        ("RDMAV_FORK_SAFE", "1", EFA, "warning"),
        ("NCCL_NET_PLUGIN", "none", EFA, "warning"),
        ("NCCL_GPUDIRECTTCPX_CTRL_DEV", "eth0", IB, "note"),
        ("NCCL_SOCKET_IFNAME", "lo", IB, "error"),
        ("GLOO_SOCKET_IFNAME", "lo", IB, "error"),
        ("NCCL_P2P_DISABLE", "1", IB, "warning"),
        ("NCCL_P2P_LEVEL", "LOC", IB, "warning"),
    ],
)
def test_a_fight_with_the_cluster_is_said(
    name: str, value: str, context: Context, severity: str
) -> None:
    assert ("J316", severity) in codes_of(name, value, context)


@pytest.mark.parametrize(
    ("name", "value", "context"),
    [
        ("NCCL_IB_DISABLE", "1", TCP),
        ("NCCL_IB_DISABLE", "1", IB._replace(fabric="", nodes=1)),
        ("NCCL_NET", "IB", ROCE),
        ("NCCL_NET", "Socket", TCP),
        ("NCCL_NET", "gIB", IB._replace(fabric="gib")),
        ("NCCL_IB_GID_INDEX", "3", ROCE),
        ("NCCL_SOCKET_IFNAME", "lo", IB._replace(simulated=True)),
        ("NCCL_SOCKET_IFNAME", "lo", IB._replace(nodes=1)),
        ("NCCL_P2P_DISABLE", "1", TCP),
        ("NCCL_IB_HCA", None, TCP),
    ],
)
def test_peace_is_left_alone(name: str, value: str | None, context: Context) -> None:
    assert not any(code == "J316" for code, _ in codes_of(name, value, context))


def test_two_variables_that_do_not_go_together_are_said() -> None:
    both = codes_of("NCCL_IB_DISABLE", "1", NCCL_NET="IB")
    assert ("J317", "error") in both
    assert ("J317", "warning") in codes_of("NCCL_P2P_DISABLE", "1", TCP, NCCL_SHM_DISABLE="1")
    assert ("J317", "warning") in codes_of("NCCL_MIN_CTAS", "32", NCCL_MAX_CTAS="16")
    assert ("J317", "note") in codes_of("NCCL_DEBUG_SUBSYS", "NET", NCCL_DEBUG="WARN")
    assert not codes_of("NCCL_DEBUG_SUBSYS", "NET", NCCL_DEBUG="INFO")
    assert ("J317", "note") in codes_of("GLOO_SOCKET_IFNAME", "eth0", NCCL_SOCKET_IFNAME="=ib0")
    assert not codes_of("GLOO_SOCKET_IFNAME", "eth0", NCCL_SOCKET_IFNAME="eth")
    assert not codes_of("NCCL_MNNVL_ENABLE", "1", NCCL_CUMEM_ENABLE="1")


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("NCCL_IB_HCA", "mlx5_1", "warning"),
        ("NCCL_IB_HCA", "^mlx5_1", "warning"),
        ("NCCL_IB_HCA", "mlx5_0,mlx5_3:1", "warning"),
        ("NCCL_IB_HCA", "mlx5_1,mlx5_10", "warning"),
        ("NCCL_IB_HCA", "mlx5_1,mlx5_2,mlx5_10", "warning"),
        ("NCCL_IB_HCA", "mlx5_0,mlx5_1,mlx5_4,mlx5_5", "warning"),
        ("NCCL_IB_HCA", "mlx5_0,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_7,mlx5_8,mlx5_9", "note"),
        ("NCCL_IB_HCA", "mlx5_10", "note"),
        ("NCCL_IB_HCA", ",".join(["mlx5_1", *(f"mlx5_1{n}" for n in range(10))]), "note"),
        ("NCCL_IB_HCA", "mlx5_bond_1,mlx5_bond_2", "note"),
        ("NCCL_SOCKET_IFNAME", "eth1", "note"),
        ("NCCL_IB_HCA", "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7", "note"),
    ],
)
def test_a_prefix_of_other_names_is_a_trap(name: str, value: str, severity: str) -> None:
    assert ("J318", severity) in codes_of(name, value)


def test_a_prefix_names_the_card_that_it_takes_too() -> None:
    cards = ",".join(f"mlx5_{n}" for n in (1, 2, 10, 11, 12, 14, 15))
    (trap,) = (f for f in said("NCCL_IB_HCA", cards) if f.code == "J318")
    assert "mlx5_1 also matches mlx5_13" in trap.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_IB_HCA", "=mlx5_1"),
        ("NCCL_IB_HCA", "mlx5"),
        ("NCCL_IB_HCA", "ibp"),
        ("NCCL_IB_HCA", "mlx5_0"),
        ("NCCL_IB_HCA", "mlx5_100"),
        ("NCCL_SOCKET_IFNAME", "enp0s12"),
        ("NCCL_SOCKET_IFNAME", "^docker,lo"),
    ],
)
def test_a_prefix_that_is_meant_is_none(name: str, value: str) -> None:
    assert codes_of(name, value) == []


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("NCCL_IB_HCA", "=mlx5_0, mlx5_1", "NCCL_IB_HCA==mlx5_0,mlx5_1"),
        ("NCCL_IB_HCA", "=mlx5_0,=mlx5_1", "NCCL_IB_HCA==mlx5_0,mlx5_1"),
        ("NCCL_IB_HCA", "=mlx5_0,mlx5_1,", "NCCL_IB_HCA==mlx5_0,mlx5_1"),
        ("NCCL_IB_HCA", "=^mlx5_0", "NCCL_IB_HCA=^=mlx5_0"),
        ("NCCL_IB_HCA", "=mlx5_0,mlx5_0", "NCCL_IB_HCA==mlx5_0"),
        ("NCCL_SOCKET_IFNAME", "eth0;eth2", "NCCL_SOCKET_IFNAME=eth0,eth2"),
        ("GLOO_SOCKET_IFNAME", "^docker0", "GLOO_SOCKET_IFNAME=docker0"),
        ("GLOO_SOCKET_IFNAME", "=eth0", "GLOO_SOCKET_IFNAME=eth0"),
        ("UCX_NET_DEVICES", "mlx5_0", "UCX_NET_DEVICES=mlx5_0:1"),
    ],
)
def test_a_list_in_the_wrong_form_is_put_right(name: str, value: str, right: str) -> None:
    found = next(f for f in said(name, value) if f.code == "J319")
    assert right in found.hint


def test_more_cards_than_nccl_takes_are_said() -> None:
    many = "=" + ",".join(f"mlx5_{n}" for n in range(33))
    assert ("J319", "warning") in codes_of("NCCL_IB_HCA", many)
    assert codes_of("NCCL_IB_HCA", many.rpartition(",")[0]) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_IB_TIMEOUT", "60"),
        ("NCCL_IB_TIMEOUT", "long"),
        ("NCCL_IB_SL", "16"),
        ("NCCL_IB_TC", "256"),
        ("NCCL_IB_RETRY_CNT", "8"),
        ("NCCL_IB_QPS_PER_CONNECTION", "0"),
        ("NCCL_IB_DISABLE", "true"),
        ("NCCL_IB_DISABLE", "2"),
        ("NCCL_CUMEM_ENABLE", "3"),
        ("NCCL_BUFFSIZE", "8M"),
        ("TORCH_NCCL_BLOCKING_WAIT", "on"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "5"),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", "many"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments=True"),
        ("NCCL_CROSS_NIC", "3"),
        ("NCCL_SOCKET_FAMILY", "IPV4"),
        ("NCCL_ALGO", "Rign"),
        ("NCCL_PROTO", "LL64"),
        ("NCCL_P2P_LEVEL", "NVLINK"),
        ("TORCH_DISTRIBUTED_DEBUG", "ALL"),
        ("MASTER_PORT", "70000"),
    ],
)
def test_a_value_that_is_not_taken_is_said(name: str, value: str) -> None:
    context = IB._replace(kind="script")
    assert ("J320", "warning") in codes_of(name, value, context)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_IB_TC", "-1"),
        ("NCCL_CUMEM_ENABLE", "-2"),
        ("NCCL_CTA_POLICY", "1"),
        ("NCCL_CTA_POLICY", "efficiency"),
        ("TORCH_NCCL_BLOCKING_WAIT", "Yes"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "1800"),
        (
            "PYTORCH_CUDA_ALLOC_CONF",
            "expandable_segments:True,roundup_power2_divisions:[256:1,>:4]",
        ),
        ("NCCL_IB_TC", "106"),
        ("NCCL_IB_SL", "0"),
        ("NCCL_ALGO", "allreduce:tree,collnetdirect;broadcast:ring"),
        ("NCCL_PROTO", "Simple,ll"),
        ("NCCL_SOCKET_FAMILY", "AF_INET6"),
        ("NCCL_SOCKET_MAGIC", "0xff"),
        ("NCCL_NET_GDR_LEVEL", "5"),
        ("NCCL_RAS_TIMEOUT_FACTOR", "0.5"),
        ("NCCL_DEBUG", "ATTN"),
        ("NCCL_IB_HCA", "=mlx5_0:1:0:0,mlx5_1:1:0:1"),
    ],
)
def test_a_value_that_is_taken_is_left_alone(name: str, value: str) -> None:
    assert not any(code in {"J319", "J320"} for code, _ in codes_of(name, value, ROCE))


def test_what_nccl_makes_of_a_text_that_is_no_number_is_said() -> None:
    """NCCL reads numbers with strtoll: what stands behind the digits is dropped."""
    assert any("reads it as 8" in f.message for f in said("NCCL_BUFFSIZE", "8M"))
    assert any("reads it as 0" in f.message for f in said("NCCL_IB_DISABLE", "true"))


def test_names_keep_their_case() -> None:
    (found,) = said("nccl_debug", "WARN")
    assert (found.code, found.hint) == ("J303", "did you mean 'NCCL_DEBUG'?")
    assert codes_of("nccl_tests_dir", "/opt/tests") == []


def test_hpcx_has_ucx_variables_under_a_prefix_of_its_own() -> None:
    assert codes_of("NCCL_UCX_TLS", "rc_x,cuda_copy") == []


def test_too_many_sockets_are_said_once() -> None:
    four, sixteen = "NCCL_NSOCKS_PERTHREAD", "NCCL_SOCKET_NTHREADS"
    first = codes_of(four, "8", TCP, **{sixteen: "16"})
    second = codes_of(sixteen, "16", TCP, **{four: "8"})
    assert (first + second).count(("J321", "warning")) == 1
    assert codes_of(four, "4", TCP, **{sixteen: "4"}) == []


def test_what_the_launcher_sets_is_not_set_by_hand() -> None:
    setup = IB._replace(setup=True)
    assert codes_of("PET_NNODES", "2") == [("J322", "warning")]
    assert codes_of("MASTER_ADDR", None, setup) == [("J322", "warning")]
    assert codes_of("TORCHELASTIC_RUN_ID", "x") == [("J322", "warning")]
    assert codes_of("CUDA_VISIBLE_DEVICES", "0,1") == [("J322", "warning")]
    script = setup._replace(kind="script")
    assert codes_of("MASTER_ADDR", None, script) == []
    assert codes_of("MASTER_ADDR", "localhost", script) == [("J322", "warning")]
    assert codes_of("MASTER_PORT", "29500", script) == [("J322", "note")]
    assert codes_of("RANK", "0", script) == [("J322", "warning")]


@pytest.mark.parametrize(
    ("value", "ranks", "said"),
    [
        ("2,1,7,5,3,0,6,4", 8, []),  # an order of one's own
        ("0,1", 2, []),  # one for each rank, on a node of which the others stay free
        ("GPU-8f1c,GPU-2b3d", 2, []),
        ("-1", 8, []),  # hides them all
        ("NoDevFiles", 8, []),
        ("", 8, []),
        ("0,1,2,3,4,5,6,7", 8, [("J322", "note")]),
        ("0,1", 8, [("J322", "warning")]),
        ("0", 2, [("J322", "warning")]),
    ],
)
def test_gpus_that_are_chosen_on_purpose_are_left_alone(
    value: str, ranks: int, said: list[tuple[str, str]]
) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        context = (IB if name.startswith("CUDA") else AMD)._replace(ranks=ranks)
        assert codes_of(name, value, context) == said


@pytest.mark.parametrize(
    "name",
    [
        "TORCH_DIST_INIT_BARRIER",
        "TORCH_SHOW_CPP_STACKTRACES",
        "TORCH_INCLUDE_ONLY_ACTIVE",
        "TORCH_NCCL_EXTRA_DUMP_ON_EXEC",
    ],
)
def test_a_switch_that_costs_nothing_is_left_alone(name: str) -> None:
    assert codes_of(name, "1") == []


def test_every_switch_for_finding_faults_is_reported_with_its_own_cost() -> None:
    for name, value, cost in [
        ("NCCL_DEBUG", "INFO", "verbose output"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "slows down every step"),
        ("CUDA_LAUNCH_BLOCKING", "1", "slows down every step"),
        ("TORCH_NCCL_NAN_CHECK", "1", "reads every tensor once more before sending it"),
        ("OMP_DISPLAY_ENV", "true", "prints OpenMP's settings at the start"),
    ]:
        (found,) = said(name, value)
        assert (found.code, found.severity) == ("J308", "note")
        assert found.message.endswith(f"is for debugging: {cost}")


def test_threads_are_held_to_the_cpus() -> None:
    node = IB._replace(cpus=96, ranks=8)
    assert codes_of("OMP_NUM_THREADS", "12", node) == []
    assert codes_of("OMP_NUM_THREADS", "96", node) == [("J323", "warning")]
    assert codes_of("OMP_NUM_THREADS", "0") == [("J323", "warning")]
    assert codes_of("OMP_NUM_THREADS", "4,2") == []


def test_amds_names_are_told_from_nvidias() -> None:
    (found,) = said("RCCL_DEBUG", "WARN", AMD)
    assert (found.code, found.hint) == ("J324", "use NCCL_DEBUG")
    assert codes_of("HSA_NO_SCRATCH_RECLAIM", "1") == [("J324", "note")]
    assert codes_of("HSA_NO_SCRATCH_RECLAIM", "1", AMD) == []
    assert codes_of("NCCL_DEBUG", "ERROR", AMD) == []


def test_what_is_not_documented_is_noted() -> None:
    assert codes_of("NCCL_P2P_NVL_CHUNKSIZE", "1048576") == [("J325", "note")]
    assert codes_of("NCCL_P2P_NVL_CHUNKSIZE", "1048576", IB._replace(kind="cluster")) == []


def test_every_code_is_explained() -> None:
    assert set(codes()) >= CODES


@given(
    name=st.sampled_from([*catalogue(), "NCCL_TIMEOUT", "RCCL_X", "PET_", "NCCL_"]),
    value=st.none() | st.text(max_size=40),
    fabric=st.sampled_from(["", "infiniband", "roce", "ethernet", "efa", "tcpx", "none", "x"]),
    kind=st.sampled_from(["job", "cluster", "script"]),
)
def test_any_value_is_judged(name: str, value: str | None, fabric: str, kind: str) -> None:
    context = IB._replace(fabric=fabric, kind=kind)  # type: ignore[arg-type]
    for found in said(name, value, context):
        assert found.code in CODES
        assert found.severity in {"error", "warning", "note"}
        assert found.message


def test_the_entry_of_the_gid_table_is_left_to_nccl_from_2_21() -> None:
    for known in ({}, {"nccl": "2.21.5"}, {"nccl": "2.27.3"}):
        found = codes_of("NCCL_IB_GID_INDEX", "3", ROCE._replace(versions=known))
        assert found == [("J310", "note")]
    assert codes_of("NCCL_IB_GID_INDEX", "3", ROCE._replace(versions={"nccl": "2.18.5"})) == []
    assert codes_of("NCCL_IB_GID_INDEX", "3", ROCE._replace(kind="cluster")) == []


def test_another_provider_than_efa_is_not_needless() -> None:
    slingshot = IB._replace(fabric="slingshot")
    assert codes_of("FI_PROVIDER", "cxi", slingshot) == []
    assert codes_of("FI_PROVIDER", "efa", EFA) == [("J310", "note")]


def test_sharp_needs_its_plug_in() -> None:
    found = codes_of("NCCL_COLLNET_ENABLE", "1", NCCL_NET_PLUGIN="none")
    assert ("J317", "warning") in found


def test_an_old_plug_in_for_efa_needs_its_protocol() -> None:
    assert codes_of("NCCL_PROTO", "simple", EFA._replace(versions={"ofi_nccl": "1.5.0"})) == []
    assert ("J315", "note") in codes_of("NCCL_PROTO", "simple", EFA)


def test_what_nccl_has_dropped_is_a_note_on_amd() -> None:
    assert codes_of("NCCL_CHECKS_DISABLE", "1", AMD) == [("J310", "note")]
    assert codes_of("NCCL_CHECKS_DISABLE", "1") == [("J310", "warning")]


def test_rccl_has_more_channels_than_nccl() -> None:
    assert not any(code == "J320" for code, _ in codes_of("NCCL_MIN_NCHANNELS", "112", AMD))
    assert ("J320", "warning") in codes_of("NCCL_MIN_CTAS", "112", IB)


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("NCCL_IB_HCA", "ib0", "ibv_devices"),
        ("NCCL_IB_HCA", "=ib0,ib1", "ibv_devices"),
        ("NCCL_IB_HCA", "enp12s0", "ibv_devices"),
        ("NCCL_SOCKET_IFNAME", "=mlx5_0", "ip -br link"),
        ("GLOO_SOCKET_IFNAME", "mlx5_0", "ip -br link"),
        ("NCCL_SOCKET_IFNAME", "10.0.0.1", "ip -br addr"),
        ("NCCL_IB_HCA", "mlx5_*", "mlx5_"),
        ("NCCL_IB_HCA", "mlx5_[0-3]", "mlx5_"),
        ("NCCL_SOCKET_IFNAME", '"eth0"', "quotes"),
    ],
)
def test_what_is_no_name_of_a_card_or_an_interface_is_said(
    name: str, value: str, hint: str
) -> None:
    found = [f for f in said(name, value) if f.code == "J319"]
    assert [f.severity for f in found] == ["warning"]
    assert hint in found[0].hint


def test_a_card_that_is_called_as_an_interface_is_noted() -> None:
    assert ("J319", "note") in codes_of("NCCL_IB_HCA", "eth0")


@pytest.mark.parametrize(
    "value", ["mlx5", "=ibp0", "bnxt_re0", "rocep1s0f0", "rdma0:1", "ionic_0", "mlx5_bond_0", "ibp"]
)
def test_cards_are_not_taken_for_interfaces(value: str) -> None:
    assert not any(code == "J319" for code, _ in codes_of("NCCL_IB_HCA", value))


def test_networks_have_names_of_nccls_own() -> None:
    for value, right in (("InfiniBand", "IB"), ("RoCE", "IB"), ("tcp", "Socket")):
        (found,) = said("NCCL_NET", value)
        assert (found.code, found.severity) == ("J320", "warning")
        assert f"NCCL_NET={right}" in found.hint
    assert codes_of("NCCL_NET", "spcx") == []


def test_parts_of_the_log_and_ranges_have_a_form() -> None:
    assert ("J320", "note") in codes_of("NCCL_DEBUG_SUBSYS", "INIT,NETT", NCCL_DEBUG="INFO")
    assert codes_of("NCCL_DEBUG_SUBSYS", "^init,NET", NCCL_DEBUG="INFO") == []
    assert ("J320", "warning") in codes_of("NCCL_IB_ADDR_RANGE", "10.0.0.0", ROCE)
    assert codes_of("NCCL_IB_ADDR_RANGE", "10.0.0.0/8", ROCE) == []
    assert codes_of("NCCL_IB_ADDR_RANGE", "fd00::/8", ROCE) == []


@pytest.mark.parametrize(
    "name",
    ["NCCL_BUFFSIZE", "NCCL_NSOCKS_PERTHREAD", "OMP_NUM_THREADS", "MASTER_PORT", "NCCL_MIN_CTAS"],
)
def test_numbers_of_any_length_are_judged(name: str) -> None:
    many = "9" * 100_000
    assert said(name, many, NCCL_SOCKET_NTHREADS=many, NCCL_MAX_CTAS=many) is not None
