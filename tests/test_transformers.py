"""Test the prepared golden outputs against transformers itself, where it is installed.

pip install '.[golden]'
python -m pytest -m nightly tests/test_transformers.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ingot.checks.golden_files import read_logits
from ingot.programs.golden.judged_logits import last_logits, logits_file
from ingot.programs.golden.main import load
from tests.import_cases import write_as_gguf, write_hf
from tests.judged_checkpoints import DATA, FAMILIES, N_IDS, write_judged

pytestmark = pytest.mark.nightly


@pytest.fixture(autouse=True)
def _installed() -> None:
    pytest.importorskip("transformers", reason="needs the extra golden")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_prepared_golden_outputs_are_those_of_transformers(
    family: str, tmp_path: Path
) -> None:
    model = load(write_judged(tmp_path / "tiny", family), None, 64)
    n_ctx = FAMILIES[family]["max_position_embeddings"]
    content, _ = logits_file(model, family, n_ctx, N_IDS, {})
    path = tmp_path / "golden.npz"
    path.write_bytes(content)
    found, prepared = read_logits(path), read_logits(DATA / f"{family}.npz")
    assert found.prompts == prepared.prompts
    assert found.greedy == prepared.greedy
    for one, other in zip(found.expected, prepared.expected, strict=True):
        assert np.abs(one.logits - other.logits).max() < 1e-5 * other.range


@pytest.mark.parametrize("family", ["gemma3", "llama", "qwen2"])
def test_transformers_reads_a_gguf_file_as_the_checkpoint_it_was_made_from(
    family: str, tmp_path: Path
) -> None:
    config = FAMILIES[family]
    if family == "gemma3":
        # The only size of a head for which transformers has the scale of attention.
        config = {**config, "head_dim": 256}
    write_as_gguf(tmp_path / "m.gguf", config)
    found = load(tmp_path, "m.gguf", 64)
    made_from = load(write_hf(tmp_path / "tiny", config), None, 64)
    tokens = np.arange(3, 20, dtype=np.int32)
    expected = last_logits(made_from, tokens)
    assert np.abs(last_logits(found, tokens) - expected).max() < 1e-4 * np.ptp(expected)


def test_a_checkpoint_without_a_parameter_is_not_judged(tmp_path: Path) -> None:
    source = write_judged(tmp_path / "tiny", "llama")
    whole = (source / "config.json").read_text()
    two = '"num_hidden_layers": 2'
    assert two in whole
    (source / "config.json").write_text(whole.replace(two, '"num_hidden_layers": 3'))
    with pytest.raises(ValueError, match="does not fit its config: missing_keys"):
        load(source, None, 64)
