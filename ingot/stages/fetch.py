"""Plan the download of a file that a manifest pins by its sha256.

A download is an action like any other: the store caches the file, and machines that
cannot reach the address get it from a shared cache. It is the only action that uses the
network, which its platform declares. The manifest pins the sha256 of its output, so the
action is reproducible nevertheless.
"""

from __future__ import annotations

from ingot.engine.actions import Action, Output
from ingot.model.weight_sources import WeightFile
from ingot.programs.fetch.spec import FetchSpec
from ingot.stages.program import program_argv, program_inputs

NETWORK = ("network", "yes")


def plan_fetch(file: WeightFile) -> Action:
    """Return the action that downloads the file."""
    assert isinstance(file.source, Output)
    assert file.sha256
    output = file.source.path
    specification = FetchSpec(url=file.url, sha256=file.sha256, output=output)
    return Action(
        task=file.source.task,
        argv=program_argv("fetch"),
        inputs=program_inputs("fetch", specification),
        outputs=(output,),
        tools=("python",),
        platform=(NETWORK,),
    )
