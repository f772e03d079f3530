"""Test that GGUF files and archives bake to the same bytes as a checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from ingot.errors import IngotError
from ingot.weights.element_types import BLOCKS, decode
from ingot.weights.irpa import read_archive
from ingot.weights.rope_table import RopeTable
from tests.gguf_cases import FORMATS, Twins, random_blocks, write_gguf

HF, GGUF, IRPA = "model.safetensors", "model.gguf", "model.irpa"


@pytest.fixture
def twins(tmp_path: Path) -> Twins:
    return Twins(tmp_path)


def archived(folder: Path, name: str, element: Any) -> Any:
    path = folder / "model.irpa"
    entry = next(item for item in read_archive(path) if item.key == name)
    content = path.read_bytes()[entry.offset : entry.offset + entry.size_bytes]
    return np.frombuffer(content, element)


@pytest.mark.parametrize("stored", ["f32", "bf16", "f16"])
def test_a_checkpoint_and_a_gguf_file_make_the_same_archive(
    stored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins = Twins(tmp_path, stored)
    twins.bake(HF, monkeypatch)
    checkpoint = twins.archive()
    twins.bake(GGUF, monkeypatch)
    assert twins.archive() == checkpoint


def test_the_archive_has_the_conventions_of_the_contract(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins.bake(GGUF, monkeypatch)
    _, norm = twins.gguf["output_norm.weight"]
    found = archived(twins.folder, "output_norm.weight", np.float32)
    np.testing.assert_array_equal(found, norm)
    # Rows as Hugging Face has them.
    _, query = twins.hf["model.blk.0.attn_q.weight"]
    found = archived(twins.folder, "blk.0.attn_q.weight", np.uint16)
    np.testing.assert_array_equal(found, query.ravel())


def test_an_archive_is_baked_to_itself(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins.bake(HF, monkeypatch)
    first = twins.archive()
    (twins.folder / "weights" / IRPA).write_bytes(first)
    report = twins.bake(IRPA, monkeypatch)
    assert twins.archive() == first
    # Computed again, and found to be the same.
    assert report["ignored"] == [Twins.ROPE]


def test_an_archive_of_other_rope_angles_is_an_error(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins.bake(HF, monkeypatch)
    (twins.folder / "weights" / IRPA).write_bytes(twins.archive())
    twins.parameters[-1]["table"] = asdict(RopeTable(500000.0))
    assert twins.errors(IRPA, monkeypatch) == [
        "model.irpa: tensor 'rope.weight' (F32[32, 8]) is not the table that the"
        " manifest describes; expected [32, 8]: rope, base 500000\n"
        "  the archive was baked from a manifest with other dims or hyperparameters"
    ]


def test_the_report_says_what_a_table_was_computed_of(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = twins.bake(GGUF, monkeypatch)
    found = {item["name"]: item["source"] for item in report["parameters"]}
    assert found[Twins.ROPE] == {
        "file": "computed",
        "tensor": "rope, base 10000",
        "type": "f32",
    }


def test_blocks_are_as_large_as_the_gguf_package_says() -> None:
    for element, sizes in BLOCKS.items():
        assert GGML_QUANT_SIZES[GGMLQuantizationType[element]] == sizes


@pytest.mark.parametrize("element", FORMATS)
def test_a_block_means_what_its_definition_says(element: str) -> None:
    _, block_bytes = BLOCKS[element]
    content = random_blocks(element, 4, block_bytes, block_bytes)
    expected = [value for block in content for value in FORMATS[element][0](block)]
    found = decode(memoryview(content.tobytes()), element)
    # A processor may fuse the last multiplication and addition.
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("element", FORMATS)
def test_quantised_tensors_are_converted_to_the_stored_type(
    element: str, twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, block_bytes = BLOCKS[element]
    # Larger than what is converted at a time, and a number of rows that is odd.
    rows, width = 4101, 512
    row_bytes = width // BLOCKS[element][0] * block_bytes
    content = random_blocks(element, rows, row_bytes, block_bytes)
    twins.gguf["token_embd.weight"] = (element, content)
    twins.parameters[0]["shape"] = [rows, width]
    report = twins.bake(GGUF, monkeypatch)
    expected = decode(memoryview(content.tobytes()), element)
    found = archived(twins.folder, "token_embd.weight", np.uint16)
    stored = expected.astype(ml_dtypes.bfloat16).view(np.uint16)
    np.testing.assert_array_equal(found, stored)
    item = next(i for i in report["parameters"] if i["name"] == "token_embd.weight")
    assert (item["type"], item["source"]["type"]) == ("bf16", element)


def test_rows_of_heads_are_put_in_order_across_blocks_of_values(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, width, heads = 3 * 640, 1024, 3
    values = np.arange(rows, dtype=np.float32)[:, None] + np.zeros((1, width))
    twins.parameters[2].update(
        shape=[rows, width], interleaved_heads=heads, stored="f32"
    )
    halves = values.reshape(heads, 2, 320, width).swapaxes(1, 2).reshape(rows, width)
    twins.gguf["blk.0.attn_q.weight"] = ("F32", halves)
    twins.bake(GGUF, monkeypatch)
    found = archived(twins.folder, "blk.0.attn_q.weight", np.float32)
    np.testing.assert_array_equal(found.reshape(rows, width), values)


# Defects.


def test_a_value_that_is_not_finite_after_conversion_is_named(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = random_blocks("Q8_0", 12, 34, 34)
    content[5, :2] = np.array([np.nan], np.float16).view(np.uint8)
    twins.gguf["token_embd.weight"] = ("Q8_0", content)
    twins.parameters[0]["shape"] = [12, 32]
    assert twins.errors(GGUF, monkeypatch) == [
        "model.gguf: tensor 'token_embd.weight' has a value that is not finite;"
        " expected a number, found nan at [5, 0]\n"
        "  the checkpoint is damaged, or its training diverged"
    ]


def test_an_unsupported_type_is_an_error(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins.gguf["token_embd.weight"] = ("IQ2_XXS", np.zeros((12, 66), np.uint8))
    twins.parameters[0]["shape"] = [12, 256]
    assert twins.errors(GGUF, monkeypatch) == [
        "model.gguf: tensor 'token_embd.weight' for parameter 'token_embd.weight':"
        " unsupported type; expected one of F32, F16, BF16, Q8_0, Q4_0, Q4_1,"
        " Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, found IQ2_XXS\n"
        "  convert it: llama-quantize --allow-requantize FILE NEW_FILE Q8_0"
    ]


def test_a_policy_that_does_not_expect_blocks_is_told_so(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins.gguf["token_embd.weight"] = ("Q8_0", random_blocks("Q8_0", 12, 34, 34))
    twins.parameters[0].update(shape=[12, 32], source="bf16")
    assert twins.errors(GGUF, monkeypatch) == [
        "model.gguf: tensor 'token_embd.weight' for parameter 'token_embd.weight':"
        " wrong type; expected BF16, found Q8_0\n"
        "  remove 'source' from the rule of weights.policy: the bake converts it"
    ]


def test_dims_of_another_model_are_named(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins.parameters[0]["shape"] = [12, 16]
    assert twins.errors(GGUF, monkeypatch) == [
        "model.gguf: tensor 'token_embd.weight' for parameter 'token_embd.weight':"
        " wrong shape; expected [12, 16], found [12, 8]\n"
        "  the manifest's dims are those of another model"
    ]


def test_heads_that_the_rows_do_not_divide_into_are_named(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins.parameters[2]["interleaved_heads"] = 3
    assert twins.errors(GGUF, monkeypatch) == [
        "model.gguf: tensor 'blk.0.attn_q.weight' for parameter 'blk.0.attn_q.weight':"
        " its rows are not those of 3 heads; expected a multiple of 6, found 16\n"
        "  the architecture's number of heads is that of another parameter"
    ]


def test_a_tied_checkpoint_of_an_untied_model_is_named(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = {**twins.parameters[0], "name": "output.weight", "tensor": "lm_head.weight"}
    twins.parameters.append(head)
    for file, tensor in ((HF, "lm_head.weight"), (GGUF, "output.weight")):
        assert twins.errors(file, monkeypatch) == [
            f"file {file}: tensor '{tensor}' is missing; expected [12, 8] for parameter"
            " 'output.weight', found none\n"
            "  the checkpoint is tied: 'token_embd.weight' serves for both; write"
            " 'tied: [output.weight]' in weights"
        ]


def test_an_untied_checkpoint_of_a_tied_model_is_named(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    element, values = twins.gguf["token_embd.weight"]
    twins.gguf["output.weight"] = (element, values)
    assert twins.bake(GGUF, monkeypatch)["ignored"] == ["output.weight"]
    twins.gguf["output.weight"] = (element, 2 * values)
    assert twins.errors(GGUF, monkeypatch) == [
        "model.gguf: no parameter reads tensor 'output.weight' (BF16[12, 8]), and its"
        " values are not those of 'token_embd.weight': the checkpoint is not tied\n"
        "  remove 'output.weight' from weights.tied, or use another architecture;"
        " if the model is tied nevertheless, add the tensor to weights.ignore"
    ]


def test_a_file_that_is_no_archive_is_named(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins.bake(HF, monkeypatch)
    whole = twins.archive()
    path = twins.folder / "weights" / IRPA
    for content in (b"", b"GGUF" + bytes(200), whole[:100], whole[:2700]):
        path.write_bytes(content)
        with pytest.raises(IngotError, match=r"^model\.irpa: ") as caught:
            twins.bake(IRPA, monkeypatch)
        assert str(path) not in str(caught.value)


def test_an_archive_that_does_not_say_what_it_holds_is_named(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins.bake(HF, monkeypatch)
    path = twins.folder / "weights" / IRPA
    whole = twins.archive()
    path.write_bytes(whole.replace(b"TENSORv0:", b"TENSORv9:"))
    with pytest.raises(IngotError) as caught:
        twins.bake(IRPA, monkeypatch)
    assert str(caught.value).startswith(
        "model.irpa: parameter 'blk.0.attn_k.weight': no type and shape; expected"
        ' metadata such as TENSORv0:{"type": "Tensor", "dtype": "float32", "shape":'
        " [2, 3]}, found 'TENSORv9:"
    )
    path.write_bytes(whole.replace(b"[12, 8]", b"[12, 9]"))
    with pytest.raises(IngotError) as caught:
        twins.bake(IRPA, monkeypatch)
    assert str(caught.value) == (
        "model.irpa: parameter 'token_embd.weight': its size is not that of its shape;"
        " expected 216 bytes for BF16[12, 9], found 192\n"
        "  the program that wrote the archive is at fault"
    )


def test_a_gguf_file_that_was_cut_short_is_named(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(twins, "write", lambda file: None)
    path = twins.folder / "weights" / GGUF
    write_gguf(path, twins.gguf)
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(IngotError, match=r"^model\.gguf: .*reaches past the end"):
        twins.bake(GGUF, monkeypatch)
