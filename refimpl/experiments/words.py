"""Numbers in words."""


def several(count: int, what: str) -> str:
    """A count with its noun: "1 run", "2 runs"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def duration(seconds: float) -> str:
    """A time in the largest unit of which it is more than one and a half: "2 minutes"."""
    unit, name = (3600, "hour") if seconds > 5400 else (60, "minute") if seconds > 90 else (1, "second")
    return several(round(seconds / unit), name)
