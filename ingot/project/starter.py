"""Hold the files of a new project, which `ingot init` writes.

The project is small and whole: a manifest, its architecture, one component that ingot
does not bring, the component's oracle, and a test of the oracle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ingot.engine.atomic_files import remedy
from ingot.errors import IngotError

MODEL = "small-ffn"

_PYPROJECT = """\
[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["ingot-build"]

[dependency-groups]
dev = ["pytest"]

[tool.ingot]
default-model = "small-ffn"
default-target = "host"

[tool.pytest.ini_options]
pythonpath = ["."]
testpaths = ["tests"]

# The program `doit` finds the commands of ingot here; the program `ingot` knows them.
[tool.doit.plugins.command]
{commands}
"""

_DODO = '''\
"""Declare the tasks of this project; tasks of its own may follow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingot.cli.tasks import Checkout

DOIT_CONFIG = {"default_tasks": ["build"]}

CHECKOUT = Checkout(Path(__file__).parent)


def task_ingot() -> Iterator[dict[str, Any]]:
    """Yield every stage of every model, and `build`, which is all of them."""
    yield from CHECKOUT.all_tasks()
'''

_MANIFEST = """\
# A feed-forward block of toy size with random weights: it builds in seconds.
model: small-ffn
architecture: small-ffn
licence: Apache-2.0
dims: {n_embd: 32, n_ff: 64}
hyperparameters: {}
dynamic:
  batch: {min: 1, max: 8}
  seq: {min: 1, max: 64}

weights:
  source: {kind: synthetic, seed: 1}
  naming: gguf
  policy:
    - {match: "*", source: f32, stored: f32, compute: f32}

bench:
  run:
    - {batch: 1, seq: 16}
"""

_ARCHITECTURE = """\
# A feed-forward block: `linear/linear` and `elementwise/add` are components that ingot
# brings, `own/hard_swish` is one of this project.
architecture: small-ffn
dims: [n_embd, n_ff]
hyperparameters: []
dynamic: [batch, seq]

parameters:
  ffn_up.weight: {shape: [n_ff, n_embd]}
  ffn_down.weight: {shape: [n_embd, n_ff]}

blocks:
  ffn:
    inputs:
      hidden: f32[batch, seq, n_embd]
    nodes:
      - name: up
        uses: linear/linear
        operands: {x: hidden}
        parameters: {weight: ffn_up.weight}
      - name: act
        uses: own/hard_swish
        operands: {x: up}
      - name: down
        uses: linear/linear
        operands: {x: act}
        parameters: {weight: ffn_down.weight}
      - name: sum
        uses: elementwise/add
        operands: {a: down, b: hidden}
    outputs: {hidden: sum}

entry_points:
  run:
    inputs:
      hidden: {type: "f32[batch, seq, n_embd]", role: hidden}
    steps:
      - {block: ffn, operands: {hidden: hidden}, results: {hidden: output}}
    outputs:
      hidden: {value: output, role: hidden}
"""

_COMPONENT = """\
// hard_swish: the sigmoid linear unit, with straight lines in place of the sigmoid.
//
//   y = x * min(max(x + 3, 0), 6) / 6
//
// Source:  Howard et al. 2019, arXiv:1905.02244, section 5.2.
// Exports: @hard_swish.forward
// Imports: none
// Dims:    batch, seq (dynamic), n_ff (fixed by specialize)
// Types:   f32 in, f32 out
// Oracle:  oracles/own.py hard_swish
// Try:     iree-opt components/own/hard_swish.mlir
module @hard_swish {
  util.func public @forward(
      %x: tensor<?x?x?xf32>  // [batch, seq, n_ff]
  ) -> tensor<?x?x?xf32> {   // [batch, seq, n_ff]
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %three = arith.constant 3.0 : f32
    %six = arith.constant 6.0 : f32
    %batch = tensor.dim %x, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %x, %c1 : tensor<?x?x?xf32>
    %n_ff = tensor.dim %x, %c2 : tensor<?x?x?xf32>
    %y_init = tensor.empty(%batch, %seq, %n_ff) : tensor<?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(b, s, j) -> (b, s, j)>,
        affine_map<(b, s, j) -> (b, s, j)>
      ],
      iterator_types = ["parallel", "parallel", "parallel"]
    } ins(%x : tensor<?x?x?xf32>) outs(%y_init : tensor<?x?x?xf32>) {
    ^bb0(%value: f32, %unused: f32):
      %shifted = arith.addf %value, %three : f32
      %above_zero = arith.maximumf %shifted, %zero : f32
      %below_six = arith.minimumf %above_zero, %six : f32
      %product = arith.mulf %value, %below_six : f32
      %hard_swish = arith.divf %product, %six : f32
      linalg.yield %hard_swish : f32
    } -> tensor<?x?x?xf32>
    util.return %y : tensor<?x?x?xf32>
  }
}
"""

_ORACLE = '''\
"""Oracles of this project: what its components must compute, in float64."""

import numpy as np
from numpy.typing import NDArray


def hard_swish(x: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return x, multiplied by a sigmoid made of straight lines.

    Shapes: x [batch, seq, n_ff] -> [batch, seq, n_ff].
    Source: Howard et al. 2019, arXiv:1905.02244, section 5.2.
    """
    exact = x.astype(np.float64)
    return exact * np.clip(exact + 3, 0, 6) / 6
'''

_TEST = '''\
"""Test the oracle of `own/hard_swish`; the build compares the component with it."""

import numpy as np

from oracles.own import hard_swish


def test_hard_swish_is_zero_then_a_parabola_then_the_identity() -> None:
    x = np.array([[[-4.0, -3.0, -1.5, 0.0, 3.0, 4.0]]])
    assert hard_swish(x).tolist() == [[[0.0, 0.0, -0.375, 0.0, 3.0, 4.0]]]
'''

_IGNORED = """\
/.venv/
/build/
/.doit.db*
__pycache__/
"""


def files(name: str, commands: Iterable[str]) -> dict[str, str]:
    """Return the text of each file of a project, by its path.

    `name` is the name of the project's folder, `commands` are those of ingot.
    """
    kebab = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-") or "models"
    lines = (f'{word} = "ingot.cli.doit_commands:{word}"' for word in commands)
    return {
        "dodo.py": _DODO,
        "pyproject.toml": _PYPROJECT.format(name=kebab, commands="\n".join(lines)),
        f"models/{MODEL}.yaml": _MANIFEST,
        f"models/architectures/{MODEL}.yaml": _ARCHITECTURE,
        "components/own/hard_swish.mlir": _COMPONENT,
        "oracles/own.py": _ORACLE,
        "tests/test_own.py": _TEST,
        ".gitignore": _IGNORED,
    }


def write(root: Path, texts: dict[str, str]) -> None:
    """Write the files of a project into a folder that has none of them.

    Raises: IngotError if the folder has one of them, or a file cannot be written; the
        files that were written are then removed.
    """
    there = [name for name in texts if (root / name).exists()]
    if there:
        text = f"this folder already has {', '.join(there)}; nothing was written"
        raise IngotError(text, "run `ingot init` in an empty folder")
    written: list[Path] = []
    for name, content in texts.items():
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(content)
        except OSError as error:
            for other in written:
                other.unlink(missing_ok=True)
            text = f"{name}: cannot be written: {error.strerror}; nothing was written"
            raise IngotError(text, remedy(error, "in this folder")) from error
