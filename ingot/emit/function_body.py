"""Write the lines of a function that calls the functions of its blocks in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from ingot.emit.aliasing import Step
from ingot.emit.block_functions import Blocks, integers_of
from ingot.emit.mlir_text import literal, mlir_type, result_list, sizes_of, symbol, tied
from ingot.model.graph import EntryPoint


@dataclass(slots=True)
class Run:
    """The body of a function, as it grows."""

    blocks: Blocks
    entry: EntryPoint
    lines: list[str]
    values: dict[str, str]  # by value of the entry point: its name in this body
    loaded: dict[str, str] = field(default_factory=dict)  # parameters

    def call(self, step: Step) -> None:
        """Add a call of a block; the inputs that it holds are buffers."""
        graph, block = self.blocks.graph, step.block
        function = self.blocks.function(self.entry, step)
        self.lines.append(f"// Block {block.name}.")
        operands = [f"%size.{symbol(dim)}" for dim in function.sizes]
        operands += [self.values[value] for _, value in block.inputs]
        operands += [self._parameter(name) for name in block.parameters]
        for name, kind, number in integers_of(graph, block):
            operands.append(f"%{symbol(block.name)}.{name}")
            self.lines.append(
                f"{operands[-1]} = arith.constant {literal(number, kind)}"
            )
        self._hold(step)
        results = [f"%{symbol(block.name)}.{symbol(x)}" for x, _ in function.results]
        kinds = [mlir_type(kind) for _, kind in function.results]
        self.lines += [
            f"{', '.join(results)} = util.call @{function.name}(",
            f"    {', '.join(operands)}",
            f") : ({', '.join(kind for _, kind in function.arguments)})",
            f"    -> {result_list(kinds)}",
        ]
        for (inner, type_), result in zip(function.results, results, strict=True):
            typed = f"{mlir_type(type_)}{sizes_of(type_, function.sizes)}"
            made = result
            if typed.endswith("}"):
                made = f"{result}.sized"
                self.lines += tied(made, result, typed)
            for name, returned in block.outputs:
                if returned == inner:
                    self.values[name] = made
        self.lines.append("")

    def _hold(self, step: Step) -> None:
        """Map the values that the block updates to the buffers that they live in."""
        buffers = {
            step.held[formal]: self.values[value]
            for formal, value in step.block.inputs
            if formal in step.held
        }
        for made, inner in step.block.outputs:
            if inner in step.owners:
                self.values[made] = buffers[step.owners[inner]]

    def _parameter(self, name: str) -> str:
        """Return the value that holds a parameter; it is loaded once."""
        if name not in self.loaded:
            self.loaded[name] = f"%{symbol(name)}"
            self.lines.append(
                f"{self.loaded[name]} = util.global.load immutable @{symbol(name)}"
                f" : {self.blocks.kinds[name]}"
            )
        return self.loaded[name]
