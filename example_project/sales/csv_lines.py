"""CSV that a spreadsheet shows and does not run."""

import csv
from collections.abc import Iterable
from io import StringIO
from typing import Any

# A cell that begins so is a formula: https://owasp.org/www-community/attacks/CSV_Injection
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_line(cells: Iterable[Any]) -> bytes:
    """Return one line of CSV in UTF-8."""
    line = StringIO()
    csv.writer(line).writerow([_harmless(cell) for cell in cells])
    return line.getvalue().encode()


def _harmless(cell: Any) -> Any:
    """Texts only: a negative number is no formula."""
    is_formula = isinstance(cell, str) and cell.lstrip(" ").startswith(FORMULA_STARTS)
    return f"'{cell}" if is_formula else cell
