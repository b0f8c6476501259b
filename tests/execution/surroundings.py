"""Where a handler can find itself."""

import pytest

#: Runs a test in both surroundings: at commit, and inside the transaction of a test case.
everywhere = pytest.mark.parametrize(
    "run",
    [
        pytest.param("commit", marks=pytest.mark.django_db(transaction=True)),
        pytest.param("test case", marks=pytest.mark.django_db),
    ],
    indirect=True,
)
