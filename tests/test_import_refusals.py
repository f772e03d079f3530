from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.errors import IngotError
from ingot.imports.checkpoint import import_checkpoint
from ingot.model.manifest import read_manifest
from tests.gguf_cases import F32
from tests.import_cases import (
    CARD,
    TINY,
    checkout,
    shapes,
    write_as_gguf,
    write_config,
    write_hf,
    write_shards,
)
from tests.refused_configs import GGUF, REFUSED
from tests.weights_cases import save

LLAMA = TINY["llama"]
Q_PROJ = "model.layers.0.self_attn.q_proj.weight"
END = "\nfound 1 error; nothing was written"
CHECKOUT = Path(__file__).parents[1]
TEXTS = ", ".join(sorted(path.stem for path in CHECKOUT.glob("models/licences/*.txt")))
LICENCE_HINT = (
    "\n  set licence=SPDX-ID, with its text in models/licences/<SPDX-ID>.txt; texts"
    f" there: {TEXTS}"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout without models."""
    return checkout(tmp_path)


@pytest.fixture
def tiny(root: Path) -> Path:
    """A checkpoint of a small Llama."""
    return write_hf(root.parent / "tiny", LLAMA)


def refusal(root: Path, source: Any, **words: Any) -> str:
    """Everything that the import says; nothing may have been written."""
    before = sorted((root / "models").iterdir())
    with pytest.raises(IngotError) as caught:
        import_checkpoint(root, str(source), **words)
    assert sorted((root / "models").iterdir()) == before
    return str(caught.value)


def test_all_that_is_not_supported_is_told_at_once(root: Path, tiny: Path) -> None:
    config = {
        **LLAMA,
        "mlp_bias": True,
        "hidden_act": "gelu",
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0},
        "num_key_value_heads": 3,
        "num_hidden_layers": "2",
    }
    write_config(tiny, config, card="# no front matter\n")
    assert refusal(root, tiny, model="Bad Name", n_ctx=0) == EVERYTHING


EVERYTHING = f"""\
config.json: rope_scaling.low_freq_factor: missing; rope of type 'llama3' needs it
config.json: rope_scaling.high_freq_factor: missing; rope of type 'llama3' needs it
model=Bad Name: expected a kebab-case name, found 'Bad Name'
  such as model=smollm2-135m
the licence of the checkpoint is unknown: it states none{LICENCE_HINT}
config.json: hidden_act: not supported; expected 'silu', found 'gelu'
  its MLP is SwiGLU
config.json: mlp_bias: not supported; expected null or false, found true
  the architecture has no such biases
config.json: num_hidden_layers: expected an integer, 1 or more, found '2'
config.json: num_attention_heads: expected a multiple of n_head_kv = 3 (config.json: \
num_key_value_heads), found 4
n_ctx=0: expected an integer, 1 or more, found '0'
found 9 errors; nothing was written"""


@pytest.mark.parametrize("case", REFUSED)
def test_a_config_that_is_not_computed_here_is_refused(case: str, root: Path) -> None:
    architecture, change, message = REFUSED[case]
    source = write_hf(root.parent / "tiny", TINY[architecture])
    write_config(source, {**TINY[architecture], **change})
    told = refusal(root, source).split("\nconfig.json: ")
    # Shapes that no longer fit are errors too.
    first = told[0].removeprefix("config.json: ").removesuffix(END)
    assert first.partition("\nmodel.safetensors: ")[0] == message


def test_numbers_that_contradict_the_tensors_are_told_with_both(
    root: Path, tiny: Path
) -> None:
    write_config(tiny, {**LLAMA, "head_dim": 4, "num_hidden_layers": 3})
    told = refusal(root, tiny)
    assert (
        f"\nmodel.safetensors: tensor '{Q_PROJ}', and 1 more like it: wrong shape;"
        " expected [16, 32] (n_head*head_dim, n_embd), found [32, 32]\n"
        "  n_head = 4: config.json: num_attention_heads; head_dim = 4: config.json:"
        " head_dim; n_embd = 32: config.json: hidden_size\n"
    ) in told
    assert told.startswith(
        "tiny: tensor 'model.layers.2.input_layernorm.weight': missing; expected"
        " [n_embd] for parameter 'blk.{layer}.attn_norm.weight', found none\n"
        "  config.json: num_hidden_layers says 3 layers\n"
    )


def test_a_number_of_layers_beyond_reason_is_not_counted_up_to(
    root: Path, tiny: Path
) -> None:
    write_config(tiny, {**LLAMA, "num_hidden_layers": 2**31 - 1})
    assert "num_hidden_layers says 2147483647 layers" in refusal(root, tiny)


def test_a_tensor_that_no_parameter_reads_is_told(root: Path) -> None:
    biases = {f"model.layers.{i}.mlp.up_proj.bias": np.ones(48, F32) for i in (0, 1)}
    source = write_hf(root.parent / "tiny", LLAMA, **biases)
    assert refusal(root, source) == (
        "model.safetensors: tensor 'model.layers.0.mlp.up_proj.bias' (F32[48]), and 1"
        " more like it: not supported; architecture 'llama' has no parameter for it"
        + END
    )


def test_a_head_beside_the_embedding_is_refused_where_there_is_none(
    root: Path,
) -> None:
    config = {**TINY["gemma3"], "tie_word_embeddings": False}
    head = {"lm_head.weight": np.ones((300, 32), F32)}
    assert refusal(root, write_hf(root.parent / "tiny", config, **head)) == (
        "config.json: tie_word_embeddings: not supported; expected true, found false\n"
        "  it computes logits with the embedding, but the checkpoint has"
        " 'lm_head.weight'" + END
    )


def test_an_element_type_that_is_not_read_is_told(root: Path) -> None:
    folder = root.parent / "tiny"
    write_config(folder, LLAMA)
    arrays = {name: np.zeros(shape) for name, shape in shapes(LLAMA).items()}
    save(
        folder / "model.safetensors",
        {n: ("I64" if "q_proj" in n else "F32", v) for n, v in arrays.items()},
    )
    assert refusal(root, folder) == (
        f"model.safetensors: tensor '{Q_PROJ}', and 1 more: not supported; expected"
        " F32, F16, BF16, found I64" + END
    )


def test_a_key_that_changes_nothing_is_ignored_if_the_user_says_so(
    root: Path, tiny: Path
) -> None:
    write_config(tiny, {**LLAMA, "sliding_window": 4096, "qk_clip": 1})
    wrong = refusal(root, tiny, ignored=("sliding_window", "qk_clips"))
    assert wrong.endswith(
        "ignore=qk_clip\n"
        "ignore=qk_clips: expected a key that the import does not know, found"
        " 'qk_clips'\n"
        "  unknown in config.json: sliding_window, qk_clip\n"
        "found 2 errors; nothing was written"
    )
    ignored = ("sliding_window", "qk_clip")
    imported = import_checkpoint(root, str(tiny), ignored=ignored)
    first = (root / imported.path).read_text().partition("\n")[0]
    assert first.endswith("of tiny, without sliding_window, qk_clip.")


@pytest.mark.parametrize("case", GGUF)
def test_metadata_that_is_not_computed_here_is_refused(case: str, root: Path) -> None:
    architecture, change, message = GGUF[case]
    config = TINY[architecture]
    path = write_as_gguf(root.parent / "m.gguf", config, **change)
    assert refusal(root, path) == f"m.gguf: {message}{END}"


def test_an_unknown_architecture_of_a_gguf_file_is_told(root: Path) -> None:
    config = {**LLAMA, "model_type": "lama"}
    path = write_as_gguf(root.parent / "m.gguf", config)
    assert refusal(root, path) == (
        "m.gguf: general.architecture: expected a known architecture, found 'lama'\n"
        "  known architectures: gemma, gemma2, gemma3, granite, llama, olmo2, qwen2,"
        " qwen3" + END
    )


def test_a_missing_shard_is_named(root: Path) -> None:
    source = write_shards(root.parent / "tiny", LLAMA)
    (source / "model-00002-of-00002.safetensors").unlink()
    assert refusal(root, source) == (
        "model-00002-of-00002.safetensors: no such file in 'tiny', though"
        " model.safetensors.index.json names it\n"
        "  fetch all files of that revision of the model" + END
    )


def test_a_folder_without_a_config_says_what_belongs_there(root: Path) -> None:
    folder = root.parent / "tiny"
    folder.mkdir()
    (folder / "README.md").write_text(CARD)
    (folder / "m.gguf").write_bytes(b"")
    (folder / "pytorch_model.bin").write_bytes(b"")
    assert refusal(root, folder) == (
        "config.json: no such file in 'tiny'\n"
        "  to import a GGUF file, name it: source=tiny/m.gguf\n"
        "model.safetensors: no such file in 'tiny'\n"
        "  expected model.safetensors, or shards and model.safetensors.index.json;"
        " PyTorch's own files contain programs: convert them to safetensors\n"
        "found 2 errors; nothing was written"
    )


def test_a_config_that_is_not_json_is_told(root: Path, tiny: Path) -> None:
    (tiny / "config.json").write_text("{'a': 1}")
    told = refusal(root, tiny)
    assert told.startswith("config.json: not JSON; Expecting property name")


def test_a_manifest_that_is_there_is_not_overwritten(root: Path, tiny: Path) -> None:
    (root / "models/tiny.yaml").write_text("mine")
    assert refusal(root, tiny) == (
        "models/tiny.yaml: already exists\n"
        "  choose another name with model=NAME, or remove the file" + END
    )
    assert (root / "models/tiny.yaml").read_text() == "mine"


def test_a_licence_without_a_text_here_is_a_question(root: Path, tiny: Path) -> None:
    (tiny / "README.md").write_text(CARD.replace("apache-2.0", "openrail"))
    assert refusal(root, tiny) == (
        "the licence of the checkpoint is unknown: README.md: license is 'openrail'"
        + LICENCE_HINT
        + END
    )
    assert refusal(root, tiny, licence="ISC") == (
        "licence=ISC: no text of 'ISC'\n"
        "  a bundle carries it: save it as models/licences/ISC.txt" + END
    )
    assert refusal(root, tiny, licence="gemma") == (
        "licence=gemma: no licence 'gemma' in SPDX's list\n"
        "  one that is not in the list is LicenseRef-NAME" + END
    )
    assert refusal(root, tiny, licence="Apache") == (
        "licence=Apache: no licence 'Apache' in SPDX's list\n"
        "  did you mean 'Apache-2.0'?" + END
    )
    (root / "models/licences/ISC.txt").write_text("text")
    imported = import_checkpoint(root, str(tiny), licence="ISC")
    assert imported.decision.licence.value == "ISC"


@pytest.mark.parametrize(
    ("stated", "name"),
    [
        ("gemma", "LicenseRef-Gemma"),
        ("llama2", "LicenseRef-Llama-2"),
        ("llama3.1", "LicenseRef-Llama-3.1"),
        ("mit", "MIT"),
    ],
)
def test_a_licence_may_have_the_hubs_name(
    stated: str, name: str, root: Path, tiny: Path
) -> None:
    (tiny / "README.md").write_text(CARD.replace("apache-2.0", stated))
    assert import_checkpoint(root, str(tiny)).decision.licence.value == name


@pytest.mark.parametrize("stated", ["other", "openrail"])
def test_the_licence_beside_the_checkpoint_is_taken(
    stated: str, root: Path, tiny: Path
) -> None:
    (tiny / "README.md").write_text(CARD.replace("apache-2.0", stated))
    (tiny / "LICENSE").write_text("You may look at it.\n")
    imported = import_checkpoint(root, str(tiny))
    licence = imported.decision.licence
    assert (licence.value, licence.origin) == ("LicenseRef-tiny", "LICENSE")
    text = root / "models/licences/LicenseRef-tiny.txt"
    assert text.read_text() == "You may look at it.\n"
    manifest = read_manifest(root / "models/tiny.yaml", root)
    assert not manifest.redistribution
    # Another checkpoint may not replace the text of this one.
    text.write_text("another")
    (root / "models/tiny.yaml").unlink()
    assert refusal(root, tiny) == (
        "models/licences/LicenseRef-tiny.txt: already exists, with another text\n"
        "  choose another name with model=NAME, or remove the file"
    )


def test_a_licence_that_is_known_is_not_read_beside_the_checkpoint(
    root: Path, tiny: Path
) -> None:
    (tiny / "README.md").write_text(CARD)
    (tiny / "LICENSE").write_text("Apache License, as the hub writes it.\n")
    assert import_checkpoint(root, str(tiny)).decision.licence.value == "Apache-2.0"


def test_a_source_that_does_not_exist_is_refused(root: Path) -> None:
    assert refusal(root, "nowhere") == "source=nowhere: no such file or folder"


def test_a_file_of_a_checkpoint_points_to_its_folder(root: Path, tiny: Path) -> None:
    assert refusal(root, tiny / "model.safetensors") == (
        f"source={tiny}/model.safetensors: expected a checkpoint's folder or a .gguf"
        f" file, found 'model.safetensors'\n  name the checkpoint's folder:"
        f" source={tiny}"
    )


def test_a_context_beyond_the_models_own_is_refused(root: Path, tiny: Path) -> None:
    assert refusal(root, tiny, n_ctx=65) == (
        "n_ctx=65: more than the model was trained for; expected at most 64"
        " (config.json: max_position_embeddings)" + END
    )


def test_an_empty_checkpoint_lacks_every_tensor(root: Path) -> None:
    folder = root.parent / "tiny"
    write_config(folder, LLAMA)
    save(folder / "model.safetensors", {})
    assert "tensor 'model.embed_tokens.weight': missing" in refusal(root, folder)


def test_a_damaged_file_is_named(root: Path, tiny: Path) -> None:
    path = tiny / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    assert refusal(root, tiny).startswith("model.safetensors: tensor ")
    cut = write_as_gguf(root.parent / "m.gguf", LLAMA)
    cut.write_bytes(cut.read_bytes()[:100])
    assert refusal(root, cut).startswith("m.gguf: the file ends inside its header")


def test_a_number_that_gguf_metadata_lacks_is_named_as_there(root: Path) -> None:
    path = write_as_gguf(
        root.parent / "m.gguf", {**TINY["qwen2"], "model_type": "gemma3"}
    )
    told = refusal(root, path)
    assert "m.gguf: gemma3.attention.sliding_window: missing; expected a number" in told
