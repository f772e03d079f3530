"""Make bytes.json: a tokenizer whose tokens are the 256 bytes, for synthetic models.

A byte's token id is the byte, then come <bos> (256) and <eos> (257). It is a byte-level
BPE without merges, so any text goes through it and back; <bos> is put before a text.

    pip install tokenizers==0.23.3
    python models/tokenizers/make_bytes.py models/tokenizers/bytes.json
"""

from __future__ import annotations

import sys
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, processors
from tokenizers.pre_tokenizers import ByteLevel

BEGIN, END = "<bos>", "<eos>"


def alphabet() -> dict[str, int]:
    """Return the character that byte-level BPE writes for each byte, and the byte.

    Source: openai/gpt-2, src/encoder.py, bytes_to_unicode.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    written = {byte: chr(byte) for byte in printable}
    written |= {byte: chr(256 + place) for place, byte in enumerate(others)}
    return {written[byte]: byte for byte in range(256)}


def tokenizer() -> Tokenizer:
    """Return the tokenizer."""
    made = Tokenizer(models.BPE(vocab=alphabet(), merges=[]))
    # No regex: without merges there is nothing to keep apart.
    made.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel(add_prefix_space=False, use_regex=False)
    made.add_special_tokens([AddedToken(BEGIN), AddedToken(END)])
    made.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A",
        pair=f"{BEGIN} $A $B",
        special_tokens=[(BEGIN, made.token_to_id(BEGIN))],
    )
    return made


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(tokenizer().to_str(pretty=True) + "\n", "utf-8")
