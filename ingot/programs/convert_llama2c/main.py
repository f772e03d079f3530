"""Convert a checkpoint of llama2.c to safetensors, or its vocabulary to JSON."""

from __future__ import annotations

import sys
from pathlib import Path

from ingot.codec import from_json
from ingot.errors import IngotError
from ingot.programs.convert_llama2c.spec import TOKENIZER, ConvertSpec
from ingot.weights.llama2c import to_safetensors, to_tokenizer


def main() -> None:
    """Convert the file of the specification in `argv[1]`."""
    specification = from_json(ConvertSpec, Path(sys.argv[1]).read_bytes())
    is_tokenizer = specification.output == TOKENIZER
    convert = to_tokenizer if is_tokenizer else to_safetensors
    try:
        convert(
            Path(specification.path), specification.label, Path(specification.output)
        )
    except IngotError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
