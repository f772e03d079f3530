"""Convert a checkpoint of llama2.c to safetensors, or its vocabulary to JSON."""

from __future__ import annotations

import sys
from pathlib import Path

from ingot.codec import from_json
from ingot.errors import IngotError
from ingot.programs.convert_llama2c.spec import CONFIG, TOKENIZER, ConvertSpec
from ingot.weights.llama2c import to_config, to_safetensors, to_tokenizer


def main() -> None:
    """Convert the file of the specification in `argv[1]`."""
    specification = from_json(ConvertSpec, Path(sys.argv[1]).read_bytes())
    path, label = Path(specification.path), specification.label
    try:
        if specification.output == TOKENIZER:
            to_tokenizer(path, label, Path(TOKENIZER))
        else:
            to_safetensors(path, label, Path(specification.output))
            to_config(path, label, Path(CONFIG))
    except IngotError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
