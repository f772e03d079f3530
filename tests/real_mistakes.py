"""Plant mistakes in the artifact of a decoder with trained weights, one at a time.

The oracle, the manifest and the inputs stay right. A mistake is either in the archive,
so that a right module reads wrong numbers, or in the graph or a component that a module
is made of. All modules of one model are compiled together: they share their kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ingot.checks import pieces
from ingot.checks.archive_parameters import read_parameters
from ingot.checks.cases import (
    PADDED_BATCH,
    Case,
    entry_inputs,
    faint_cases,
    make_case,
)
from ingot.checks.compare import Row
from ingot.checks.oracle_runs import (
    Recorded,
    Recording,
    block_inputs,
    faint_blocks,
)
from ingot.checks.padding import padding_of
from ingot.checks.pieces import Piece, block_rows
from ingot.checks.tolerances import USUAL
from ingot.emit.modules import BlockForm, block_module
from ingot.engine.actions import Action, InlineText, Output
from ingot.model.component import code_of
from ingot.model.graph import Block, EntryPoint, Graph, Instance
from ingot.model.oracle import load_oracles, run_block, run_entry_point
from ingot.model.target import Target
from ingot.runtime.invoke import Module
from ingot.stages.compile import SERIAL
from ingot.stages.specialize import plan_specialize
from tests import scratch
from tests.project import ROOT

Array = Any
Edit = Callable[["Weights"], None]
Change = Callable[["Layer"], None]


class Weights(dict[str, Array]):
    """What an archive has, by name: matrices [row, column], not packed."""

    def __init__(self, graph: Graph, parameters: Mapping[str, Array]) -> None:
        """Unpack the parameters as they are read."""
        super().__init__()
        self.specs = {item.name: item for item in graph.parameters}
        self.stored = parameters

    def __missing__(self, name: str) -> Array:
        """Return a copy of a parameter, to be changed in place."""
        value, packing = np.array(self.stored[name]), self.specs[name].packing
        if packing:
            assert packing.scheme == "f32"
            tiles = value.reshape(-1, packing.shape[-1], packing.tile_n)
            value = tiles.transpose(0, 2, 1).reshape(packing.shape)
        self[name] = np.ascontiguousarray(value)
        return self[name]

    def packed(self, name: str) -> Array:
        """Return a parameter as the archive has it."""
        packing, value = self.specs[name].packing, self[name]
        if packing:
            tiles = value.reshape(-1, packing.tile_n, packing.shape[-1])
            value = tiles.transpose(0, 2, 1)
        return np.ascontiguousarray(value)


@dataclass(frozen=True)
class Mistake:
    """A mistake in the archive, or in what a block's module is made of."""

    name: str
    edit: Edit | None = None
    change: Change | None = None
    block: str = "layer"


class Layer:
    """A block's calls and their components, to be changed."""

    def __init__(self, graph: Graph, block: Block, number: int) -> None:
        """Start from what is right."""
        self.graph, self.block, self.number = graph, block, number
        self.calls = {use.name: use for use in block.calls}
        self.instances: dict[str, Instance] = {}
        self.texts: dict[str, str] = {}

    def scalar(self, call: str, name: str, value: Callable[[Any], Any]) -> None:
        """Change a scalar of a call."""
        use = self.calls[call]
        names = [item for item, _ in self.graph.instance(use.instance).scalars]
        place = names.index(name)
        scalars = list(use.scalars)
        scalars[place] = value(scalars[place])
        assert tuple(scalars) != use.scalars
        self.calls[call] = replace(use, scalars=tuple(scalars))

    def operands(self, call: str, **others: str) -> None:
        """Change operands of a call, by the names of its component's arguments."""
        use = self.calls[call]
        names = [item.name for item in self.graph.instance(use.instance).arguments]
        found = dict(zip(names, use.operands, strict=True))
        assert others.keys() <= found.keys(), (call, names)
        self.calls[call] = replace(use, operands=tuple({**found, **others}.values()))

    def component(self, call: str, right: str, wrong: str) -> None:
        """Change the text of the component that a call uses, here alone."""
        use = self.calls[call]
        instance = self.graph.instance(use.instance)
        text = (ROOT / f"components/{instance.component}.mlir").read_text("utf-8")
        assert right in text, f"{right!r} is not in {instance.component}"
        name = f"{instance.name}__mistake_{self.number}"
        self.instances[name] = replace(instance, name=name)
        self.texts[name] = text.replace(right, wrong, 1)
        self.calls[call] = replace(use, instance=name)


def swapped(array: Array, one: slice, other: slice) -> None:
    """Exchange two parts of an array, in place."""
    kept = array[one].copy()
    array[one] = array[other]
    array[other] = kept


class Model:
    """The right model on a target: its graph, its weights, and recorded inputs."""

    def __init__(
        self, graph: Graph, archive: Path, target: Target, folder: Path
    ) -> None:
        """Read the archive; nothing is compiled yet."""
        self.graph, self.target, self.folder = graph, target, folder
        self.parameters = read_parameters(graph, archive)
        self.oracles = load_oracles(graph)
        self.entry = next(x for x in graph.entry_points if x.name == "prefill")
        self.made: dict[Any, Any] = {}
        self.n_archive = 0

    def block(self, kind: str) -> Block:
        """Return the block of a kind: of layers one in the middle."""
        found = [x for x in self.entry.blocks if x.kind.partition(".")[0] == kind]
        return found[len(found) // 2]

    @cached_property
    def steps(self) -> list[tuple[Case, Any, dict[str, tuple[Array, ...]]]]:
        """Each case in which the check compares blocks alone, with all their inputs."""
        case = make_case(self.graph, self.entry, *PADDED_BATCH)
        inputs = entry_inputs(self.graph, self.entry, case)
        _, steps = run_entry_point(
            self.graph, self.oracles, self.entry, inputs, self.parameters, keep=True
        )
        ports = {
            port.name: x for port, x in zip(self.entry.inputs, inputs, strict=True)
        }
        held = self.entry.held()
        of_block = {x.block.name: block_inputs(x, ports, held) for x in steps}
        found = [(case, padding_of(self.entry, case, inputs), of_block)]
        emulated = self.target.runner.emulated
        for case, size in faint_cases(self.graph, self.entry, emulated).items():
            blocks = faint_blocks(self.graph, self.entry, case, size, steps)
            found.append((case, None, {name: x for name, (_, x) in blocks.items()}))
        return found

    def recorded(self, block: Block, entry: EntryPoint) -> Recorded:
        """Return the inputs of a block, as a check records them."""
        path = self.folder / f"{entry.name}.{block.name}.npz"
        recording = Recording(path)
        for case, padding, inputs in self.steps:
            if block.name in inputs:
                recording.block(entry, case, block, inputs[block.name], padding)
        recording.write()
        return Recorded(path)

    def run_block(
        self, graph: Graph, oracles: Any, block: Block, inputs: Any, parameters: Any
    ) -> Any:
        """Return what the right block gives; the same inputs are computed once."""
        # Cases differ in their shapes, but for the head's: of the last tokens alone.
        shapes = tuple((np.shape(x), float(np.max(x))) for x in inputs)
        key = (block.name, oracles is self.oracles, shapes)
        if key not in self.made:
            self.made[key] = run_block(graph, oracles, block, inputs, parameters)
        return self.made[key]

    def archive(self, block: Block, mistake: Mistake | None) -> Path:
        """Write what a block reads, with a mistake in it."""
        from iree.runtime import ParameterIndex

        weights = Weights(self.graph, self.parameters)
        if mistake and mistake.edit:
            mistake.edit(weights)
            names = weights.keys() & set(block.parameters)
            assert any(
                not np.array_equal(weights.packed(x), self.parameters[x]) for x in names
            ), f"{mistake.name} changes nothing that {block.name} reads"
        index = ParameterIndex()
        for name in block.parameters:
            stored = weights.packed(name) if name in weights else self.parameters[name]
            index.add_buffer(name, np.ascontiguousarray(stored).tobytes())
        # A name of its own: a module that is loaded keeps the archive of its name.
        self.n_archive += 1
        path = self.folder / f"mistaken-{self.n_archive}.irpa"
        index.create_archive_file(str(path))
        return path

    def module(self, block: Block, mistakes: list[Mistake]) -> dict[str, EntryPoint]:
        """Compile a block as it is and with each mistake; return them by name.

        Each is an entry point of its own, whose other blocks are right.
        """
        entries = {"right": replace(self.entry, name="right")}
        instances = {x.name: x for x in self.graph.instances}
        texts: dict[str, str] = {}
        for number, mistake in enumerate(mistakes):
            layer = Layer(self.graph, block, number)
            assert mistake.change
            mistake.change(layer)
            wrong = replace(block, calls=tuple(layer.calls.values()))
            assert wrong != block, f"{mistake.name} changes nothing"
            instances |= layer.instances
            texts |= layer.texts
            blocks = tuple(wrong if x == block else x for x in self.entry.blocks)
            name = f"mistake_{number}"
            entries[mistake.name] = replace(self.entry, name=name, blocks=blocks)
        graph = replace(
            self.graph,
            instances=tuple(sorted(instances.values(), key=lambda x: x.name)),
            entry_points=tuple(entries.values()),
        )
        form = BlockForm("all", tuple((x.name, block.name) for x in entries.values()))
        self._compile(graph, form, texts, block)
        return entries

    def _compile(
        self, graph: Graph, form: BlockForm, texts: Mapping[str, str], block: Block
    ) -> None:
        called = {
            use.instance
            for entry in graph.entry_points
            for item in entry.blocks
            if item.name == block.name
            for use in item.calls
        }
        made: dict[str, Path] = {}
        for name in sorted(called):
            instance = graph.instance(name)
            path = ROOT / f"components/{instance.component}.mlir"
            text = texts.get(name) or path.read_text("utf-8")
            action = plan_specialize(instance, code_of(text))
            made[f"{name}.mlir"] = scratch.run(action, self.folder / name)
        words = (word for name in made for word in ("--link-module", name))
        link = Action(
            task="link",
            argv=("iree-link", "piece.mlir", *words, "-o", "linked.mlir"),
            inputs=(
                ("piece.mlir", InlineText(block_module(graph, form))),
                *((name, Output("specialize", name)) for name in made),
            ),
            outputs=("linked.mlir",),
            tools=("iree-base-compiler",),
        )
        linked = scratch.run(link, self.folder / f"link-{block.name}", made)
        self.vmfb = scratch.compiled(
            self.target, linked, self.folder / f"vmfb-{block.name}", steps=(SERIAL,)
        )

    def rows(self, block: Block, entry: str, archive: Path) -> list[Row]:
        """Return the rows of a block of the module, compared with the right one."""
        right = replace(self.entry, name=entry)
        piece = Piece(
            graph=replace(self.graph, entry_points=(right,)),
            oracles=self.oracles,
            parameters=self.parameters,
            runner=self.target.runner,
            tolerance=USUAL,
        )
        recorded = self.recorded(block, right)
        return list(block_rows(piece, Module(self.vmfb, archive), recorded))


def shares(model: Model, mistakes: list[Mistake], monkeypatch: Any) -> dict[str, float]:
    """Return how far each mistake is beyond its limit, and "right" how near to it."""
    monkeypatch.setattr(pieces, "run_block", model.run_block)
    found: dict[str, float] = {}
    for kind in dict.fromkeys(item.block for item in mistakes):
        block = model.block(kind)
        of_block = [item for item in mistakes if item.block == kind]
        changed = [item for item in of_block if item.change]
        entries = model.module(block, changed)
        for mistake in (None, *of_block):
            is_changed = mistake is not None and mistake.change is not None
            entry = entries[mistake.name if mistake and is_changed else "right"]
            archive = model.archive(block, mistake)
            rows = model.rows(block, entry.name, archive)
            archive.unlink()
            share = max(row.share for row in rows)
            passed = all(row.passed for row in rows)
            assert passed == (share <= 1)
            name = mistake.name if mistake else f"right {kind}"
            found[name] = share
    return found
