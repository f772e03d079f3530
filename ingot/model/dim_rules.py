"""Find sizes in a manifest that may each be right and are not right together."""

from __future__ import annotations

from collections.abc import Iterator

from ingot.errors import ManifestError
from ingot.model.manifest_schema import ManifestFile


def check_dims(file: ManifestFile) -> Iterator[ManifestError]:
    """Yield where a manifest's dims and their ranges contradict each other."""
    yield from _check_ranges(file)
    yield from _check_blocks(file)
    dims = file.dims
    if {"n_expert", "n_expert_used"} <= dims.keys():
        used, most = dims["n_expert_used"], dims["n_expert"]
        if used > most:
            message = f"more than there are; expected at most n_expert = {most}"
            yield file.at.error("dims.n_expert_used", f"{message}, found {used}")
    if {"n_head", "n_head_kv"} <= dims.keys() and dims["n_head"] % dims["n_head_kv"]:
        message = f"expected a multiple of n_head_kv = {dims['n_head_kv']}"
        yield file.at.error("dims.n_head", f"{message}, found {dims['n_head']}")


def _check_ranges(file: ManifestFile) -> Iterator[ManifestError]:
    ranges, context = file.dynamic, file.dims.get("n_ctx")
    for name, given in ranges.items():
        if given.min > given.max:
            yield given.at.error(
                "", f"expected min <= max, found {given.min} > {given.max}"
            )
        if name in ("seq", "ctx") and context and given.max > context:
            message = f"longer than the context, n_ctx = {context}"
            yield given.at.error("max", f"{message}, found {given.max}")
    if "ctx" in ranges and "seq" in ranges:
        cache, longest = ranges["ctx"], ranges["seq"].max
        if cache.max < longest:
            message = "no cache holds the longest sequence"
            found = f"expected at least {longest}, found {cache.max}"
            yield cache.at.error("max", f"{message}; {found}")


def _check_blocks(file: ManifestFile) -> Iterator[ManifestError]:
    """Yield where a pool of blocks, or a table of them, does not fit a sequence."""
    pool, table = file.dynamic.get("n_block"), file.dynamic.get("n_block_seq")
    if table is None:
        return
    size, context = file.dims.get("block_size"), file.dims.get("n_ctx")
    if size and context and (held := table.max * size) > context:
        message = f"longer than the context, n_ctx = {context}"
        yield table.at.error("max", f"{message}, found blocks for {held}")
    if pool is None:
        return
    # Block 0 is nobody's.
    longest, shortest = 1 + table.max, 1 + table.min
    if pool.max < longest:
        message = f"no pool holds the longest sequence; expected at least {longest}"
        yield pool.at.error("max", f"{message}, found {pool.max}")
    if pool.min > shortest:
        message = f"a short sequence has no pool; expected at most {shortest}"
        yield pool.at.error("min", f"{message}, found {pool.min}")
