"""Define the specification of one conversion."""

from __future__ import annotations

from dataclasses import dataclass

SAFETENSORS = "model.safetensors"
CONFIG = "config.json"
"""What is written with the tensors: the config that Hugging Face keeps beside them."""
TOKENIZER = "tokenizer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSpec:
    """A file of llama2.c, and the file that it is converted to."""

    path: str  # in the working folder
    label: str  # its name in messages
    output: str  # SAFETENSORS or TOKENIZER
