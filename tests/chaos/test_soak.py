"""For minutes on end anything may be killed at any moment."""

import os
from collections import Counter

import pytest
from django.conf import settings

from tests.chaos.soak import Findings, Orders, Watch, strike_for, wait_until_all_have_ended
from tests.chaos.trees import Tree, wait_until_whole

pytestmark = pytest.mark.django_db(transaction=True)
MINUTES = float(os.environ.get("TEST_SOAK_MINUTES", "1"))


@pytest.mark.smoke
def test_soak(server, user, notes, tmp_path, capsys):
    strikes = Counter()
    orders, watch = Orders(user, notes), Watch()
    with Tree(tmp_path, "one", strikes) as one, Tree(tmp_path, "two", strikes) as two:
        orders.start()
        watch.start()
        try:
            strike_for(MINUTES * 60, [one, two], server, strikes)
        finally:
            orders.is_over.set()
            orders.join()
        stuck = wait_until_all_have_ended()
        wait_until_whole([one, two])
        watch.is_over.set()
        watch.join()
    findings = Findings(orders, watch, stuck)
    with capsys.disabled():
        print(f"\nsoak on {settings.DATABASE}, {MINUTES:g} min")
        for line in findings.lines(strikes):
            print(f"  {line}")
    assert orders.error is None
    assert not any(findings.faults.values()), findings.faults
