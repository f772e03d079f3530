"""Decide whose results a build uses, and count those that it passes over.

pyproject.toml names the public keys that a project trusts, until when, and for which
tasks. Without `trust = "signed"` there is no `Trust`, and nothing is verified.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib.util import find_spec
from pathlib import Path

from ingot.codec import to_json
from ingot.engine.actions import ActionResult
from ingot.engine.signed_statements import (
    HintStatement,
    Statement,
    TrustedKey,
    result_statement,
)
from ingot.errors import IngotError, counted

KEY_VARIABLE = "INGOT_SIGNING_KEY"


@dataclass
class Trust:
    """The keys that a project trusts; safe for several threads."""

    keys: tuple[TrustedKey, ...]
    today: str = field(default_factory=lambda: date.today().isoformat())

    def __post_init__(self) -> None:
        """Start with nothing passed over."""
        self._lock = threading.Lock()
        self._passed_over: dict[str, str] = {}

    @property
    def state(self) -> str:
        """Return a text that changes when a key starts or ceases to count."""
        valid = [
            (key.public, key.signs)
            for key in self.keys
            if not key.revoked and self.today <= key.expires
        ]
        return hashlib.sha256(to_json(tuple(sorted(valid))).encode()).hexdigest()[:16]

    def accepts(self, key: str, result: ActionResult, task: str) -> bool:
        """Return whether the result under an action's key may be used for the task.

        A result that this store made itself needs no signature.
        """
        if result.made_here:
            return True
        return not self._noted(key, self.why_not(key, result, task))

    def why_not(self, key: str, result: ActionResult, task: str) -> str:
        """Return why no signature of the result counts; "" if one does."""
        from ingot.engine.signatures import why_not

        statement = result_statement(key, result)
        return why_not(self.keys, self.today, result.signature, statement, task)

    def accepts_hint(self, statement: HintStatement, signature: bytes) -> bool:
        """Return whether what a cache says of the task's last build may be shown."""
        from ingot.engine.signatures import why_not

        reason = why_not(self.keys, self.today, signature, statement, statement.task)
        return not self._noted(f"hint {statement.task}", reason)

    def report(self) -> str:
        """Return how many results were passed over, and why; "" if none were."""
        with self._lock:
            reasons = Counter(self._passed_over.values())
        if not reasons:
            return ""
        total = counted(reasons.total(), "result")
        lines = [f"{number:,} {reason}" for reason, number in reasons.most_common()]
        return (
            f"trust: {total} of others {'was' if reasons.total() == 1 else 'were'}"
            f" passed over: {', '.join(lines)}"
        )

    def _noted(self, what: str, reason: str) -> str:
        """Remember the reason for the report, if there is one; return it."""
        if reason:
            with self._lock:
                self._passed_over[what] = reason
        return reason


def signer(environment: Mapping[str, str]) -> Callable[[Statement], bytes] | None:
    """Return what signs with this machine's private key; None if it has none.

    INGOT_SIGNING_KEY is the key as PEM, or its file; without it, a server's worker,
    which has no environment of its own, finds `~/.config/ingot/signing-key`.

    Raises: IngotError if the key cannot be read.
    """
    named = environment.get(KEY_VARIABLE, "").strip()
    folder = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = Path(named).expanduser() if named else Path(folder) / "ingot/signing-key"
    is_key = named.startswith("-----BEGIN")
    if not is_key and not named and not path.exists():
        return None
    name = KEY_VARIABLE if is_key else str(path)
    try:
        pem = named.encode() if is_key else path.read_bytes()
        check_installed(name)
        from ingot.engine.signatures import signer as signer_of

        return signer_of(pem, name)
    except OSError as error:
        raise IngotError(
            f"{KEY_VARIABLE}: {path}: cannot be read: {error.strerror}",
            "make a key: openssl genpkey -algorithm ed25519 -out KEY",
        ) from error


def check_installed(what: str) -> None:
    """Check that this environment can sign and verify.

    Raises: IngotError if it cannot.
    """
    if find_spec("cryptography") is None:
        raise IngotError(
            f"{what}: the package 'cryptography' is not installed",
            "run: pip install 'ingot-build[signing]'",
        )
