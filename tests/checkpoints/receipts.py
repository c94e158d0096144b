"""What tests read from receipts."""

from __future__ import annotations

from typing import Any


def statuses(receipt: dict[str, Any]) -> dict[str, str]:
    """The status of each check, by its letter."""
    return {check["id"]: check["status"] for check in receipt["checks"]}
