from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ingot.imports.manifest_writer import number, quoted
from ingot.model import judge
from ingot.model.graph import Graph
from ingot.model.manifest import read_manifest
from ingot.model.yaml_scalars import scalar
from ingot.weights.irpa import read_archive
from tests.import_cases import (
    PUBLISHED,
    TINY,
    bring,
    checkout,
    gguf_name,
    numbers,
    write_as_gguf,
    write_hf,
    write_hollow,
    write_shards,
)
from tests.project import ROOT, Project


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout without models."""
    return checkout(tmp_path)


def without_sources(graph: Graph) -> Graph:
    """The graph without what a source's naming decides."""
    parameters = tuple(
        replace(item, source_name="", offset=0.0, interleaved_heads=None, form=None)
        for item in graph.parameters
    )
    return replace(graph, parameters=parameters)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_config_has_the_numbers_of_the_models_here(
    name: str, root: Path
) -> None:
    source = write_hollow(root.parent / name, PUBLISHED[name])
    _, found = bring(root, source)
    ours = read_manifest(ROOT / "models" / f"{name}.yaml", ROOT)
    assert found.model == ours.model
    assert found.architecture == ours.architecture
    assert found.licence == ours.licence
    assert found.dims == ours.dims
    assert found.hyperparameters == ours.hyperparameters
    assert without_sources(found.graph) == without_sources(ours.graph)
    if ours.weights.naming == "hf":
        assert found.graph == ours.graph
    assert found.bench == ours.bench
    (policy,) = found.weights.policies
    assert (policy.source, policy.stored) == ("bf16", "bf16")


def test_a_vocabulary_that_is_no_multiple_of_a_tile_keeps_its_type(root: Path) -> None:
    config = {**PUBLISHED["smollm2-135m"], "vocab_size": 49153}
    imported, found = bring(root, write_hollow(root.parent / "odd", config))
    (policy,) = found.weights.policies
    assert (policy.source, policy.stored) == ("bf16", "bf16")
    assert imported.notes == (
        "token_embd.weight: 49153 rows, stored as 49160: kernels read 8 together",
    )


@pytest.mark.parametrize("name", TINY)
def test_a_gguf_file_makes_the_manifest_of_its_safetensors(
    name: str, root: Path
) -> None:
    config = dict(TINY[name])
    if name == "gemma3":
        # Not in GGUF metadata: llama.cpp takes the head's dims.
        config["query_pre_attn_scalar"] = config["head_dim"]
    _, hf = bring(root, write_hf(root.parent / f"tiny-{name}", config))
    _, gguf = bring(root, write_as_gguf(root.parent / f"{name}.gguf", config))
    assert hf.dims == gguf.dims
    assert hf.hyperparameters == gguf.hyperparameters
    assert (hf.weights.naming, gguf.weights.naming) == ("hf", "gguf")
    assert gguf.licence == "Apache-2.0"


def test_shards_are_imported_as_one_file_is(root: Path) -> None:
    config = TINY["llama"]
    _, one = bring(root, write_hf(root.parent / "one", config))
    _, two = bring(root, write_shards(root.parent / "two", config))
    assert (one.dims, one.hyperparameters) == (two.dims, two.hyperparameters)


def test_the_whole_manifest_of_a_small_llama(root: Path) -> None:
    source = write_hf(root.parent / "Tiny Llama_1.5", TINY["llama"])
    shutil.copy(ROOT / "models/tokenizers/bytes.json", source / "tokenizer.json")
    imported, _ = bring(root, source, n_ctx=48)
    assert (root / imported.path).read_text() == MANIFEST


MANIFEST = """\
# Imported by `doit import` of "Tiny Llama_1.5".
model: tiny-llama-1.5
architecture: llama
licence: Apache-2.0
dims: {n_vocab: 300, n_ctx: 48, n_embd: 32, n_head: 4, n_head_kv: 2, head_dim: 8, \
n_ff: 48, n_layer: 2}
hyperparameters:
  rms_norm_eps: 1.0e-5
  rope_freq_base: 100000
  attention_scale: 0.3535533905932738
dynamic:
  batch: {min: 1, max: 64}
  seq: {min: 1, max: 48}
  ctx: {min: 1, max: 48}

weights:
  source: {kind: hf-directory, path: "../../Tiny Llama_1.5"}
  naming: hf
  tied: [output.weight]
  policy:
    - {match: "*", source: f32, stored: f32, compute: f32}

tokenizer: {kind: file, path: "../../Tiny Llama_1.5/tokenizer.json"}

generation:
  end_tokens: [0]

bench:
  prefill:
    - {batch: 1, seq: 48, ctx: 48}
  decode:
    - {batch: 1, ctx: 48}
"""


def test_what_was_decided_is_told_with_where_it_comes_from(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "wheels", lambda names: ())
    config = {**TINY["llama"], "max_position_embeddings": 4096}
    del config["rms_norm_eps"]
    imported, _ = bring(root, write_hf(root.parent / "tiny", config), model="small")
    assert str(imported) == TOLD


TOLD = """\
models/small.yaml written
  architecture     llama               config.json: LlamaForCausalLM
  n_vocab          300                 config.json: vocab_size
  n_ctx            2048                config.json: max_position_embeddings is 4096; \
more: n_ctx=
  n_embd           32                  config.json: hidden_size
  n_head           4                   config.json: num_attention_heads
  n_head_kv        2                   config.json: num_key_value_heads
  head_dim         8                   n_embd / n_head
  n_ff             48                  config.json: intermediate_size
  n_layer          2                   config.json: num_hidden_layers
  rms_norm_eps     1.0e-6              not in config.json; the default of \
LlamaForCausalLM
  rope_freq_base   100000              config.json: rope_theta
  attention_scale  0.3535533905932738  1 / sqrt(head_dim)
  weights          F32 -> f32          20 tensors, 0.1 MB; stored= f32, bf16, f16, i8, \
i8_block32, i4_block32, i4_block32_hqq
  tied             output.weight       the checkpoint has no such tensor
  licence          Apache-2.0          README.md: license
  tokenizer        none                no tokenizer.json: `doit generate` needs one
  end_tokens       0                   config.json: eos_token_id
next: doit check model=small
      no independent judge: it compares with the project's own oracles, which share
      what was read here; transformers judges it too after
      pip install 'ingot-build[golden]'"""


@pytest.mark.parametrize("said", [True, False])
def test_the_tensors_decide_whether_a_model_is_tied(said: bool, root: Path) -> None:
    config = {**TINY["qwen2"], "tie_word_embeddings": said}
    name = "lm_head.weight"
    own = {name: numbers(config)["model.embed_tokens.weight"]} if said else {}
    imported, _ = bring(root, write_hf(root.parent / "tiny", config, **own))
    text = (root / imported.path).read_text()
    assert ("tied: [output.weight]" in text) is not said
    assert imported.notes == (
        "config.json: tie_word_embeddings is true, but the checkpoint has"
        " 'lm_head.weight': imported as not tied; if its values are the embedding's,"
        " 'tied: [output.weight]' in weights makes the archive smaller"
        if said
        else "config.json: tie_word_embeddings is false, but there is no"
        " 'lm_head.weight': imported as tied",
    )


def test_the_newer_form_of_rope_settings_is_read(root: Path) -> None:
    config = dict(TINY["gemma3"])
    for key in ("rope_theta", "rope_local_base_freq", "rope_scaling"):
        del config[key]
    config["rope_parameters"] = {
        "full_attention": {"rope_type": "default", "rope_theta": 5000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 700.5},
    }
    _, found = bring(root, write_hf(root.parent / "tiny", config))
    chosen = dict(found.hyperparameters)
    assert (chosen["rope_freq_base"], chosen["rope_freq_base_swa"]) == (5000, 700.5)


def test_a_table_of_older_checkpoints_is_left_out(root: Path) -> None:
    table = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4)}
    source = write_hf(root.parent / "tiny", TINY["llama"], **table)
    _, found = bring(root, source)
    assert found.weights.ignore == ("*.rotary_emb.inv_freq",)


def test_a_download_cache_gives_the_models_name(root: Path) -> None:
    folder = root.parent / "models--owner--Small-1B/snapshots/0123abc"
    imported, _ = bring(root, write_hf(folder, TINY["llama"]))
    assert imported.path == "models/small-1b.yaml"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e-5, "1.0e-5"), (1e4, "10000"), (0.125, "0.125"), (2.5e-7, "2.5e-7")],
)
def test_numbers_are_written_as_every_reader_reads_them(
    value: float, text: str
) -> None:
    assert number(value) == text
    assert scalar(text) == value


@pytest.mark.parametrize("text", ["a b", "x: y", "no", "1.5", "a#b", "{a}", "~", "ü"])
def test_texts_that_yaml_takes_for_another_are_in_quotes(text: str) -> None:
    assert json.loads(quoted(text)) == text


def test_an_imported_checkpoint_is_baked_number_for_number(tmp_path: Path) -> None:
    config = TINY["llama"]
    # Of the same architecture.
    project = Project.create(tmp_path / "checkout", models=("clm-60m",))
    source = write_hf(tmp_path / "tiny", config)
    for words in (f"source={source}", f"source={write_gguf_beside(source)}"):
        run = project.doit("import", words)
        assert run.code == 0, run.err
        assert "next: doit check model=tiny" in run.out
    archives = []
    for model in ("tiny", "tiny-file"):
        run = project.doit("bake", f"model={model}", "target=vulkan-llvmpipe")
        assert run.code == 0, run.out + run.err
        archive = project.root / "build" / model / "weights/packed_u32/model.irpa"
        archives.append(archive.read_bytes())
    assert archives[0] == archives[1]
    baked = {entry.key: entry for entry in read_archive(archive)}
    for name, values in numbers(config).items():
        entry = baked.pop(gguf_name(name, gemma=False))
        content = archives[0][entry.offset : entry.offset + entry.size_bytes]
        if values.ndim == 2 and len(values) % 8 == 0:
            # In groups of 8 rows, the numbers of one column side by side.
            values = values.reshape(-1, 8, values.shape[1]).transpose(0, 2, 1)
        assert content == values.tobytes(), name
    assert list(baked) == ["rope.table"]


def write_gguf_beside(source: Path) -> Path:
    return write_as_gguf(source.parent / "tiny-file.gguf", TINY["llama"])


def test_the_command_line_says_what_is_wrong(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "checkout")
    for words, message in (
        (("import",), "import needs source=PATH"),
        (("import", "task", "source=x"), "import takes no task, found 'task'"),
    ):
        run = project.doit(*words)
        assert run.code == 3
        assert message in run.err
