"""Plan the actions that write a GGUF's vocabulary, and that check a tokenizer."""

from __future__ import annotations

from collections.abc import Iterator

from ingot.engine.actions import Action, Output
from ingot.model.manifest import Manifest
from ingot.model.weight_sources import TOKENIZER_FILE as TOKENIZER
from ingot.programs.check_tokenizer.spec import ROWS, CheckTokenizerSpec
from ingot.programs.tokenizer.spec import TokenizerSpec
from ingot.runtime.decoder import DECODE, PREFILL
from ingot.stages.program import program_argv, program_inputs

TOOLS = ("python", "gguf", "numpy", "pyyaml")


def plan_tokenizer(manifest: Manifest) -> Iterator[Action]:
    """Yield the action, if the manifest's tokenizer is the vocabulary of a GGUF."""
    task = f"tokenizer:{manifest.model}"
    tokenizer = manifest.tokenizer
    source = tokenizer.source if tokenizer else None
    if not isinstance(source, Output) or source.task != task:
        return
    weights = manifest.weights.source.files[0]
    specification = TokenizerSpec(
        path=weights.path, label=weights.label, output=source.path
    )
    yield Action(
        task=task,
        argv=program_argv("tokenizer"),
        inputs=(
            (weights.path, weights.source),
            *program_inputs("tokenizer", specification),
        ),
        outputs=(source.path,),
        tools=TOOLS,
        exported_to=(f"build/{manifest.model}/{source.path}",),
    )


def plan_check_tokenizer(manifest: Manifest) -> Iterator[Action]:
    """Yield the action that compares the tokenizer with its source, if there is one."""
    tokenizer, weights = manifest.tokenizer, manifest.weights.source.files
    if tokenizer is None:
        return
    generation = manifest.generation
    special = {f"end_tokens[{i}]": x for i, x in enumerate(generation.end_tokens)}
    if generation.bos is not None:
        special["bos"] = generation.bos
    gguf = weights[0] if weights and weights[0].path.endswith(".gguf") else None
    names = [entry.name for entry in manifest.graph.entry_points]
    specification = CheckTokenizerSpec(
        task=f"check {manifest.model}",
        tokenizer=TOKENIZER,
        gguf=gguf.path if gguf else None,
        gguf_label=gguf.label if gguf else "",
        n_vocab=dict(manifest.dims).get("n_vocab"),
        writes_text=PREFILL in names and DECODE in names,
        special=special,
        bos=generation.bos,
        chat_template=generation.chat_template,
    )
    yield Action(
        task=f"check-tokenizer:{manifest.model}",
        argv=program_argv("check_tokenizer"),
        inputs=(
            (TOKENIZER, tokenizer.source),
            *(((gguf.path, gguf.source),) if gguf else ()),
            *program_inputs("check_tokenizer", specification),
        ),
        outputs=(ROWS,),
        tools=(*TOOLS, "tokenizers", "jinja2", "markupsafe"),
    )
