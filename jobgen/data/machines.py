"""Whose machines the shipped profiles describe, and which of them a word may mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from jobgen.named_tuple import NamedTuple

Group = Literal["yours", "project", "this machine", "cloud", "on-premises"]
TYPO, ALIKE = 0.8, 0.6
"""Likeness, from 0 to 1, of a misspelt name, and of one that is named if nothing fits better."""
_GPU = re.compile(r"^(?!\s*#).*\bgpu:[ \t]*[\"']?([\w.-]+)", re.M)
_FABRIC = re.compile(r"^(?!\s*#).*\bfabric:[ \t]*[\"']?([a-z]+)", re.M)
_BREAK = re.compile(r"[^a-z0-9]+")


class Provider(NamedTuple):
    """Who rents out or builds a kind of machine."""

    name: str
    group: Group
    also_called: str = ""


PROVIDERS: Mapping[str, Provider] = {
    "aws": Provider("AWS", "cloud", "amazon ec2"),
    "azure": Provider("Azure", "cloud", "microsoft"),
    "coreweave": Provider("CoreWeave", "cloud"),
    "gcp": Provider("Google Cloud", "cloud", "google gce"),
    "oci": Provider("Oracle Cloud", "cloud", "oracle"),
    "dgx": Provider("NVIDIA DGX", "on-premises", "nvidia superpod"),
    "a100x16": Provider("NVIDIA DGX", "on-premises", "nvidia dgx"),
    "hgx": Provider("HGX servers", "on-premises", "lambda"),
    "gb200": Provider("NVL72 racks", "on-premises", "nvidia"),
    "gb300": Provider("NVL72 racks", "on-premises", "nvidia"),
    "lumi": Provider("LUMI", "on-premises", "csc amd"),
}
"""By the first part of a shipped profile's name."""
OTHERS = Provider("PCIe servers and workstations", "on-premises")


class Traits(NamedTuple):
    """What a profile can be found by."""

    name: str
    provider: Provider
    gpu: str = ""
    fabric: str = ""
    shipped: bool = True

    @property
    def search_terms(self) -> set[str]:
        """All words that find it."""
        text = (
            f"{self.name} {self.provider.name} {self.provider.also_called} {self.gpu} {self.fabric}"
        )
        return set(_BREAK.split(text.lower())) | {self.name.lower()}


def read_traits(name: str, texts: Iterable[str], *, shipped: bool) -> Traits:
    """A profile's traits, from its text and the texts of what it extends, nearest first."""
    gpu = fabric = ""
    for text in texts:
        gpu = gpu or next(iter(_GPU.findall(text)), "")
        fabric = fabric or next(iter(_FABRIC.findall(text)), "")
    return Traits(name, find_provider(name), gpu, fabric, shipped)


def find_provider(name: str) -> Provider:
    """Whose machine a shipped profile describes."""
    return PROVIDERS.get(name.partition("-")[0], OTHERS)


def is_match(word: str, traits: Traits) -> bool:
    """Whether each part of a word, as of ``aws h100``, begins one of the profile's words."""
    parts = [part for part in _BREAK.split(word.lower()[:64]) if part]
    return bool(parts) and all(
        any(w.startswith(part) for w in traits.search_terms) for part in parts
    )


def rank_nearest(word: str, known: Iterable[Traits], most: int) -> list[str]:
    """The names that a word may mean, the best first: misspelt names, then what it describes."""
    from difflib import SequenceMatcher

    scored = []
    for traits in known:
        likeness = SequenceMatcher(None, word.lower()[:64], traits.name.lower()).ratio()
        named, cloud = word.lower() in traits.name.lower(), traits.provider.group == "cloud"
        kind = 0 if likeness >= TYPO else 2 - is_match(word, traits)
        if kind < 2 or likeness >= ALIKE:
            order = (kind, not named, traits.shipped, cloud, -likeness)
            scored.append((order, traits.name))
    best = [each for each in scored if each[0][0] < 2]
    return [name for _, name in sorted(best or scored)[:most]]
