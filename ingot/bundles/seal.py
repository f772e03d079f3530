"""Write `bundle.json` with its own digest, and read it back.

No other file contains the digest of `bundle.json`. A digest inside the file detects
damage; it is not a signature.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ingot.codec import to_json
from ingot.errors import IngotError

KEY = "sha256"


def seal(contract: dict[str, Any]) -> str:
    """Return the text of `bundle.json`."""
    return to_json({**contract, KEY: _digest(contract)}, indent=True) + "\n"


def unseal(text: str) -> dict[str, Any]:
    """Return the content of `bundle.json`.

    Raises: IngotError if a byte differs from what `seal` wrote.
    """
    try:
        sealed = json.loads(text)
        contract = {key: value for key, value in sealed.items() if key != KEY}
    except (ValueError, AttributeError) as error:
        raise IngotError(f"bundle.json: damaged; {error}") from error
    if text != seal(contract):
        raise IngotError(
            "bundle.json: damaged; expected its own sha256 "
            f"{_digest(contract)}, found {sealed.get(KEY)}"
        )
    return contract


def _digest(contract: dict[str, Any]) -> str:
    return hashlib.sha256(to_json(contract).encode()).hexdigest()
