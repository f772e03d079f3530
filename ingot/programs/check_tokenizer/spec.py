"""Define the specification of the check of one tokenizer."""

from __future__ import annotations

from dataclasses import dataclass

ROWS = "rows.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTokenizerSpec:
    """A tokenizer, what it was made from, and the model that it is for."""

    task: str  # its name in messages: "check smollm2-135m"
    tokenizer: str  # the path of the tokenizer.json
    gguf: str | None  # the path of the GGUF that has a vocabulary of its own
    gguf_label: str
    n_vocab: int | None  # rows of the embedding
    writes_text: bool  # a decoder does
    special: dict[str, int]  # ids that the manifest names, by their key
    bos: int | None
    chat_template: str
    cpu_s: int = 300
    memory_bytes: int = 4 << 30
