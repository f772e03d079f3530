"""Find the independent judge of a model: a golden file, transformers, or none.

The judge reads the checkpoint's own config.json, or the metadata of a GGUF file, while
oracles and targets share what the manifest says.
"""

from __future__ import annotations

import sysconfig
from functools import cache
from importlib.metadata import distributions
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ingot.weights.quantise import is_exact

if TYPE_CHECKING:
    from ingot.model.manifest import Manifest
    from ingot.model.target import Target

PACKAGES = ("torch", "transformers")
# transformers reads GGUF files with these.
GGUF_PACKAGES = (*PACKAGES, "accelerate", "gguf")

# The architectures that transformers reads as they are, by the kind of checkpoint.
_HF = (
    *("dbrx", "gemma", "gemma2", "gemma3", "granite", "llama", "llama-biased"),
    *("mistral", "mixtral", "olmo2", "olmo3", "phi3", "qwen2", "qwen2moe", "qwen3"),
    *("qwen3moe", "smollm3"),
)
_GGUF = ("gemma3", "llama", "qwen2", "qwen3")
# In a GGUF file, transformers overlooks the size of a head of Qwen3, and the scale of
# Gemma 3's attention. It takes what belongs to heads of these sizes.
_GGUF_HEAD_DIM = {"gemma3": 256, "qwen3": 128}

# A greedy sequence needs a prompt of 16 tokens, a few steps and some spare positions.
N_CTX_MIN = 32


def judge_name(manifest: Manifest) -> str | None:
    """Return the model's independent judge in a few words; None if it has none."""
    if manifest.golden:
        return f"golden file {manifest.golden.name}"
    packages = judging_packages(manifest)
    if not packages:
        return None
    versions = dict(wheels(packages))
    return ", ".join(f"{name} {versions[name]}" for name in reversed(PACKAGES))


def golden_task(manifest: Manifest) -> str:
    """Return the task that computes the model's golden outputs."""
    return f"check-golden:{manifest.model}"


def oracle_task(manifest: Manifest) -> str:
    """Return the task that compares the model's oracle with golden outputs."""
    return f"check-oracle:{manifest.model}"


def oracle_is_judged(manifest: Manifest) -> bool:
    """Return whether an action compares the oracle with the computed golden outputs."""
    return bool(judging_packages(manifest)) and bool(rounded_types(manifest))


def rounded_types(manifest: Manifest) -> set[str]:
    """Return the types to which weights are rounded, and in which targets read them."""
    policies = manifest.weights.policies
    rounded = {item.stored for item in policies if item.source != item.stored}
    if manifest.weights.source.seed is None:
        # The blocks of a GGUF file are kept.
        rounded = {name for name in rounded if not is_exact(name)}
    return rounded - {"f32"}


def source_is_quantised(manifest: Manifest) -> bool:
    """Return whether the checkpoint is a GGUF file whose blocks the model keeps.

    What was lost when they were made is known to nobody here.
    """
    policies = manifest.weights.policies
    is_synthetic = manifest.weights.source.seed is not None
    return not is_synthetic and any(is_exact(item.stored) for item in policies)


def is_measured(manifest: Manifest) -> bool:
    """Return whether the check needs the quality: of rounded weights, or for a gate."""
    is_wanted = bool(rounded_types(manifest)) or bool(manifest.quality)
    return is_wanted and unmeasured(manifest) is None


def unmeasured(manifest: Manifest) -> str | None:
    """Return why the quality of the stored weights cannot be measured, or None."""
    names = {entry.name for entry in manifest.graph.entry_points}
    if manifest.weights.source.seed is not None:
        return "the weights are synthetic"
    if not names >= {"prefill", "decode"}:
        return "the model is no decoder"
    if manifest.tokenizer is None:
        return "the manifest has no tokenizer"
    return None


def quality_task(manifest: Manifest, target: Target) -> str:
    """Return the task that measures the cost of rounding for a target.

    Targets that are slow here share that of their layout, which the oracle computes.
    """
    slow = target.runner.is_slow or target.runner.emulated
    slow = slow or target.runner.compiles_at_load
    place = target.layout.name if slow else target.resolved
    return f"check-quality:{manifest.model}@{place}"


def judging_packages(manifest: Manifest) -> tuple[str, ...]:
    """Return the packages that compute the checkpoint, if they are installed."""
    source = manifest.weights.source
    if manifest.golden or dict(manifest.dims).get("n_ctx", 0) < N_CTX_MIN:
        return ()
    kinds = {PurePosixPath(file.path).suffix for file in source.files}
    if kinds == {".gguf"} and len(source.files) == 1:
        head_dim = dict(manifest.dims)["head_dim"]
        is_known = manifest.architecture in _GGUF
        # It overlooks how a GGUF file scales positions.
        tables = (item.table for item in manifest.graph.parameters)
        is_known = is_known and not any(t and t.multipliers for t in tables)
        is_read = _GGUF_HEAD_DIM.get(manifest.architecture, head_dim) == head_dim
        return _installed(GGUF_PACKAGES, is_known and is_read)
    elif kinds == {".safetensors"} and source.config:
        return _installed(PACKAGES, manifest.architecture in _HF)
    return ()


def _installed(packages: tuple[str, ...], is_known: bool) -> tuple[str, ...]:
    return packages if is_known and wheels(packages) else ()


@cache
def wheels(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the wheels and all that they need, with versions; none if one is missing.

    They are looked up where actions find their tools.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    site = [sysconfig.get_path("purelib")]
    found: dict[str, str] = {}
    pending = list(names)
    while pending:
        name = pending.pop()
        if canonicalize_name(name) in found:
            continue
        wheel = next(iter(distributions(name=name, path=site)), None)
        if wheel is None:
            if name in names:
                return ()
            continue
        found[canonicalize_name(name)] = wheel.version
        for text in wheel.requires or ():
            required = Requirement(text)
            if required.marker is None or required.marker.evaluate({"extra": ""}):
                pending.append(required.name)
    return tuple(sorted(found.items()))
