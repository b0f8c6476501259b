from django_jobs.execution.items import Items
from django_jobs.execution.reports import Reports


def test_the_thread_that_is_less_far_may_report_last():
    reports, items = Reports(), Items()
    reports.remember(20, "b", items)
    reports.remember(10, None, items)

    assert (reports.percent, reports.columns()["progress_message"]) == (20, "b")
