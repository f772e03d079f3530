"""Write the vocabulary of a GGUF file as a tokenizer.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ingot.codec import from_json
from ingot.errors import IngotError
from ingot.programs.tokenizer.spec import TokenizerSpec


def main() -> None:
    """Write the file of the specification in `argv[1]`."""
    from ingot.weights.gguf_vocabulary import read_vocabulary, tokenizer_json

    specification = from_json(TokenizerSpec, Path(sys.argv[1]).read_bytes())
    try:
        found = read_vocabulary(Path(specification.path), specification.label)
        content = tokenizer_json(found)
    except IngotError as error:
        sys.exit(str(error))
    text = json.dumps(content, ensure_ascii=False) + "\n"
    Path(specification.output).write_text(text, encoding="utf-8")
    print(f"{len(found.tokens)} tokens of {found.label}: {found.model}, {found.pre}")


if __name__ == "__main__":
    main()
