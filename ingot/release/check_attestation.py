"""State that a bundle passed its check, as an in-toto test result.

Source: in-toto attestation framework, "Test Result" 0.1.
"""

from __future__ import annotations

from typing import Any

from ingot.release.statements import Subject

PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"


def check_result(subject: Subject, contract: dict[str, Any]) -> dict[str, Any]:
    """Return the predicate about a bundle with this `bundle.json`.

    The configuration is the whole report and the golden outputs, by digest; what the
    reference was, and whether the device was emulated, are annotations of it.
    """
    check = contract["check"]
    files = {
        name: subject.files[name]
        for name in ("check.json", "golden.json")
        if name in subject.files
    }
    passed, failed = [], []
    for level, found in sorted(check["levels"].items()):
        rows, bad = int(found.get("rows", 0)), int(found.get("failed", 0))
        if rows > bad:
            passed.append(f"{level}: {rows - bad} of {rows}")
        if bad:
            failed.append(f"{level}: {bad} of {rows}")
    about = {
        "judge": check["judge"],
        "emulated": check["emulated"],
        "target": subject.target,
        "quality": check["quality"],
    }
    return {
        "result": "PASSED" if check["passed"] else "FAILED",
        "configuration": [
            {"name": name, "digest": {"sha256": sha256}, "annotations": about}
            for name, sha256 in sorted(files.items())
        ],
        "passedTests": passed,
        "warnedTests": [],
        "failedTests": failed,
    }
