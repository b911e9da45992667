"""Words of Slurm and of nvidia-smi, and the GPUs that they can mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.data import gpus
from jobgen.survey.catalogued import find_candidates, find_product

A100 = ("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIE-40GB", "A100-PCIE-80GB")


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("a100", A100),
        ("A100", A100),
        ("a100_80gb", ("A100-SXM4-80GB", "A100-PCIE-80GB")),
        ("nvidia_a100-sxm4-80gb", ("A100-SXM4-80GB",)),
        ("nvidia_h100_80gb_hbm3", ("H100-SXM5-80GB",)),
        ("h100", ("H100-SXM5-80GB", "H100-PCIE-80GB", "H100-NVL-94GB")),
        ("h200", ("H200-SXM5-141GB", "H200-NVL-141GB")),
        ("tesla_v100-sxm2-32gb", ("V100-SXM2-32GB",)),
        ("rtx3090", ("RTX-3090-24GB",)),
        ("rtx_a6000", ("RTX-A6000-48GB",)),
        ("l40s", ("L40S-48GB",)),
        ("l40", ("L40-48GB",)),
        ("a10", ("A10-24GB",)),
        ("a10g", ("A10G-24GB",)),
        ("a100_1g.5gb", ()),
        ("1g.10gb", ()),
        ("mig_24gb", ()),
        ("mig-2g.20gb", ()),
        ("tesla", ()),
        ("gpu", ()),
        ("k80", ()),
        ("", ()),
    ],
)
def test_a_gres_type_means_all_that_it_can(word: str, found: tuple[str, ...]) -> None:
    assert find_candidates(word) == found


@pytest.mark.parametrize(
    ("name", "memory", "found"),
    [
        ("NVIDIA A100-SXM4-80GB", 81920, "A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", 81920, "A100-PCIE-80GB"),
        ("NVIDIA H100 80GB HBM3", 81559, "H100-SXM5-80GB"),
        ("NVIDIA H100 PCIe", 81559, "H100-PCIE-80GB"),
        ("NVIDIA H100 NVL", 95830, "H100-NVL-94GB"),
        ("NVIDIA H200", 143771, "H200-SXM5-141GB"),
        ("NVIDIA B200", 183359, "B200-SXM-180GB"),
        ("NVIDIA GH200 480GB", 97871, "GH200-96GB"),
        ("NVIDIA L4", 23034, "L4-24GB"),
        ("NVIDIA A40", 46068, "A40-48GB"),
        ("Tesla V100-SXM2-16GB", 16384, "V100-SXM2-16GB"),
        ("Tesla T4", 15360, "T4-16GB"),
        ("NVIDIA GeForce RTX 4090", 24564, "RTX-4090-24GB"),
    ],
)
def test_a_product_name_is_one_gpu(name: str, memory: float, found: str) -> None:
    assert find_product(name, memory) == (found,)


def test_a_product_whose_memory_is_not_the_names_is_none() -> None:
    assert find_product("NVIDIA A100-SXM4-80GB", 40960) == ()


def test_every_gpu_of_the_catalogue_is_found_by_its_name() -> None:
    for name in gpus():
        assert name in find_candidates(name)


@given(st.text(max_size=60), st.none() | st.floats(allow_nan=True))
def test_any_word_means_gpus_of_the_catalogue(word: str, memory: float | None) -> None:
    assert set(find_candidates(word, memory)) | set(find_product(word, memory)) <= set(gpus())
