"""Test the error of the bake for each kind of wrong checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.errors import IngotError
from tests.weights_cases import LABEL, Toy


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


# Each defect, and its errors.
Break = Callable[[Toy], None]


def drop(toy: Toy) -> None:
    toy.tensors["lin.bias"] = toy.tensors.pop("lin.b")


def add(toy: Toy) -> None:
    toy.tensors["head"] = ("F32", np.ones((2, 3)))


def duplicate(toy: Toy) -> None:
    toy.tensors["head"] = toy.tensors["emb"]


def untie(toy: Toy) -> None:
    toy.specification["parameters"].append(
        toy.parameter("output.weight", [6, 4], "lm_head")
    )


def tie(toy: Toy) -> None:
    toy.specification["parameters"].append(
        toy.parameter("output.weight", [6, 4], "emb")
    )


def untie_checkpoint(toy: Toy) -> None:
    toy.tensors["lm_head.weight"] = ("F32", toy.tensors["emb"][1] + 1)


def transpose(toy: Toy) -> None:
    toy.tensors["emb"] = ("F32", toy.tensors["emb"][1].T)


def reshape(toy: Toy) -> None:
    toy.tensors["emb"] = ("F32", np.ones((6, 5)))


def halve(toy: Toy) -> None:
    toy.tensors["emb"] = ("F16", toy.tensors["emb"][1])


def integers(toy: Toy) -> None:
    toy.tensors["emb"] = ("I64", np.ones((6, 4)))


def nan(toy: Toy) -> None:
    toy.tensors["emb"][1][4, 2] = np.nan


def infinity(toy: Toy) -> None:
    toy.tensors["lin.b"][1][1:] = -np.inf


def overflow(toy: Toy) -> None:
    toy.tensors["emb"][1][0, 3] = 70000
    toy.specification["parameters"][0]["stored"] = "f16"


def endless_scale(toy: Toy) -> None:
    toy.tensors["emb"] = ("F32", np.ones((8, 64)))
    toy.tensors["emb"][1][3, 40] = -1e7
    weight = toy.specification["parameters"][0]
    shapes = {"weight": ("i8", [1, 2, 32, 8]), "weight_scale": ("f16", [1, 2, 8])}
    parts = [
        {"name": name, "argument": name, "element": element, "shape": shape}
        for name, (element, shape) in shapes.items()
    ]
    weight |= {"shape": [8, 64], "stored": "i8_block32", "tile_n": 8, "parts": parts}


def ignore_all(toy: Toy) -> None:
    toy.specification["ignore"] = ["*"]


DEFECTS: dict[str, tuple[Break, list[str]]] = {
    "missing": (
        drop,
        [
            "file model.safetensors: tensor 'lin.b' is missing; expected F32[4] for"
            " parameter 'blk.0.ffn_up.bias', found none\n"
            "  did you mean 'lin.bias'? No parameter reads it",
            f"{LABEL}: no parameter reads tensor 'lin.bias' (F32[4])\n"
            "  add a parameter to the architecture, or the tensor to weights.ignore",
        ],
    ),
    "unused": (
        add,
        [
            f"{LABEL}: no parameter reads tensor 'head' (F32[2, 3])\n"
            "  add a parameter to the architecture, or the tensor to weights.ignore"
        ],
    ),
    "unused_twin": (
        duplicate,
        [
            f"{LABEL}: no parameter reads tensor 'head' (F32[6, 4])\n"
            "  its bytes are those of 'emb' (tied): add it to weights.ignore"
        ],
    ),
    "missing_because_tied": (
        untie,
        [
            "file model.safetensors: tensor 'lm_head' is missing; expected F32[6, 4]"
            " for parameter 'output.weight', found none\n"
            "  the checkpoint is tied: 'token_embd.weight' serves for both; write"
            " 'tied: [output.weight]' in weights"
        ],
    ),
    "tied": (
        tie,
        [
            f"{LABEL}: two parameters read tensor 'emb', 'output.weight' and"
            " 'token_embd.weight'; expected one\n"
            "  tied weights are one parameter: use 'output.weight' twice in the"
            " architecture"
        ],
    ),
    "untied_checkpoint_of_a_tied_model": (
        untie_checkpoint,
        [
            f"{LABEL}: no parameter reads tensor 'lm_head.weight' (F32[6, 4]), and its"
            " values are not those of 'emb': the checkpoint is not tied\n"
            "  remove 'output.weight' from weights.tied, or use another architecture;"
            " if the model is tied nevertheless, add the tensor to weights.ignore"
        ],
    ),
    "transposed": (
        transpose,
        [
            f"{LABEL}: tensor 'emb' for parameter 'token_embd.weight': wrong shape;"
            " expected [6, 4], found [4, 6]\n"
            "  the tensor is transposed: the architecture is of another framework"
        ],
    ),
    "wrong_shape": (
        reshape,
        [
            f"{LABEL}: tensor 'emb' for parameter 'token_embd.weight': wrong shape;"
            " expected [6, 4], found [6, 5]\n"
            "  the manifest's dims are those of another model"
        ],
    ),
    "wrong_type": (
        halve,
        [
            f"{LABEL}: tensor 'emb' for parameter 'token_embd.weight': wrong type;"
            " expected F32, found F16\n"
            "  write 'source: f16' in the rule of weights.policy"
        ],
    ),
    "unsupported_type": (
        integers,
        [
            f"{LABEL}: tensor 'emb' for parameter 'token_embd.weight': unsupported"
            " type; expected one of F32, F16, BF16, found I64\n"
            "  convert the checkpoint to one of these"
        ],
    ),
    "nan": (
        nan,
        [
            f"{LABEL}: tensor 'emb' has a value that is not finite; expected a number,"
            " found nan at [4, 2]\n"
            "  the checkpoint is damaged, or its training diverged"
        ],
    ),
    "infinity": (
        infinity,
        [
            f"{LABEL}: tensor 'lin.b' has a value that is not finite; expected a"
            " number, found -inf at [1]\n"
            "  the checkpoint is damaged, or its training diverged"
        ],
    ),
    "overflow": (
        overflow,
        [
            f"{LABEL}: tensor 'emb': a value is beyond the stored type; expected a"
            " f16, found 70000 at [0, 3]\n"
            "  store it as bf16 or f32: change 'stored' in the rule of weights.policy"
        ],
    ),
    "endless_scale": (
        endless_scale,
        [
            f"{LABEL}: tensor 'emb': a value is beyond the stored type; expected a"
            " i8_block32, found -1e+07 at [3, 40]\n"
            "  store it as bf16 or f32: change 'stored' in the rule of weights.policy"
        ],
    ),
    "greedy_ignore": (
        ignore_all,
        [
            "file model.safetensors: weights.ignore '*' also matches tensor 'lin.b',"
            " which parameter 'blk.0.ffn_up.bias' reads\n"
            "  make the pattern narrower"
        ],
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_is_named(
    defect: str, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage, expected = DEFECTS[defect]
    damage(toy)
    assert toy.errors(monkeypatch) == expected
    assert not (toy.folder / "model.irpa").exists()


def test_all_defects_are_told_at_once(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for damage in (drop, add, nan):
        damage(toy)
    toy.tensors["lin.w"] = ("F16", np.ones((4, 5)))
    found = "\n".join(toy.errors(monkeypatch))
    for part in ("'lin.b' is missing", "wrong shape", "wrong type", "nan at", "'head'"):
        assert part in found


def test_a_file_that_is_not_the_pinned_one_is_an_error(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(toy.save().read_bytes()).hexdigest()
    toy.specification["files"][0]["sha256"] = digest
    toy.bake(monkeypatch)
    toy.specification["files"][0]["sha256"] = "0" * 64
    with pytest.raises(IngotError) as caught:
        toy.bake(monkeypatch)
    assert str(caught.value) == (
        f"{LABEL}: not the pinned file; expected sha256 {'0' * 64}, found {digest}\n"
        "  fetch it again; if the change is intended, write the new sha256 into"
        " weights.source"
    )


def test_an_archive_that_reads_back_differently_is_an_error(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingot.weights import irpa

    write = irpa.write_archive

    def damaged(path: Path, sources: Any) -> Any:
        entries = write(path, sources)
        with path.open("r+b") as file:
            file.seek(entries[1].offset)
            file.write(b"\xff")
        return entries

    monkeypatch.setattr(irpa, "write_archive", damaged)
    with pytest.raises(IngotError, match=r"'blk\.0\.ffn_up\.weight': not as it was"):
        toy.bake(monkeypatch)
