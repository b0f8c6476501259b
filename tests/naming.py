"""Names of parametrized tests: the same in every process, whatever the values are."""

import re


def readable(value):
    """Return a short repr without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:60]
