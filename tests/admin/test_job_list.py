import datetime as dt
import html
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_jobs.admin import counting
from django_jobs.handlers import job_handler
from django_jobs.models import Job
from django_jobs.services import cancel_job
from django_jobs.states import JobStatus
from django_jobs.testing import make_job
from tests.admin.conftest import address
from tests.conftest import create_user
from tests.services.conftest import OUR_WORKER

pytestmark = pytest.mark.django_db


def rows(response):
    """The jobs that the list shows."""
    return list(response.context["cl"].result_list)


def listed(client, **query):
    response = client.get(address("job_changelist"), query)
    assert response.status_code == 200
    return rows(response)


@pytest.mark.parametrize("status", list(JobStatus))
def test_a_job_in_any_state_is_listed_with_its_state_as_a_word(as_admin, user, status):
    make_job(user, status, job_type="printing")

    page = as_admin.get(address("job_changelist")).text

    assert f'django-jobs-status-{status}">{status.label}</span>' in page
    assert "printing" in page
    assert str(user) in page


def test_the_bar_has_its_number_beside_it_and_a_label(as_admin, user):
    make_job(user, "processing", progress=40)

    page = as_admin.get(address("job_changelist")).text

    assert '<progress max="100" value="40" aria-label="progress"></progress> 40 %' in page


def test_the_list_tells_age_attempt_and_failure_code(as_admin, user):
    job = make_job(user, "failed", failure_code="timed_out", max_attempts=3, worker=OUR_WORKER)
    Job.objects.filter(pk=job.pk).update(
        created_at=job.created_at - dt.timedelta(hours=2, minutes=5)
    )

    page = as_admin.get(address("job_changelist")).text

    assert ">2\xa0hours</time>" in page
    assert "1 of 3" in page
    assert ">timed_out</span>" in page


def test_a_running_job_that_was_asked_to_stop_says_so(as_admin, admin, user):
    job = make_job(user, "processing")
    assert "asked to stop" not in as_admin.get(address("job_changelist")).text

    cancel_job(job.pk, actor=admin)

    assert "asked to stop" in as_admin.get(address("job_changelist")).text


def test_the_newest_job_comes_first(as_admin, user):
    jobs = [make_job(user) for _ in range(3)]

    assert listed(as_admin) == jobs[::-1]


# -- what it costs ---------------------------------------------------------------------------------


def test_a_longer_list_takes_no_more_queries(as_admin, user):
    def count():
        with CaptureQueriesContext(
            connection,
        ) as queries:
            as_admin.get(address("job_changelist"))
        return len(queries)

    make_job(user)
    few = count()
    for _ in range(20):
        make_job(create_user(), "failed")

    assert count() == few <= 8


def test_json_is_never_selected_and_the_table_never_counted(as_admin, user):
    for _ in range(2):
        make_job(user, "completed", result={"size": 1})

    with CaptureQueriesContext(connection) as queries:
        as_admin.get(address("job_changelist"), {"status": "completed", "q": str(user)})

    of_jobs = [query["sql"] for query in queries if "django_jobs_job" in query["sql"]]
    assert len(of_jobs) == 2
    for sql in of_jobs:
        assert not re.search(r"\b(parameters|result)\b", sql)
    counts = [sql for sql in of_jobs if "COUNT" in sql]
    assert len(counts) == 1
    assert f"LIMIT {counting.COUNTED + 1}" in counts[0]
    assert "ORDER BY" not in counts[0]
    assert not any("DISTINCT" in sql for sql in of_jobs)


def test_a_long_list_is_not_counted_to_its_end(as_admin, user, monkeypatch):
    monkeypatch.setattr(counting, "COUNTED", 3)
    for _ in range(5):
        make_job(user)

    page = as_admin.get(address("job_changelist")).text

    assert "3+ jobs" in page
    assert "5 jobs" not in page


def test_a_list_that_just_fits_is_counted(as_admin, user, monkeypatch):
    monkeypatch.setattr(counting, "COUNTED", 3)
    for _ in range(3):
        make_job(user)

    page = as_admin.get(address("job_changelist")).text

    assert "3 jobs" in page
    assert "3+ jobs" not in page


def test_the_mark_of_a_long_list_is_left_out_where_separators_would_garble_it(settings):
    assert str(counting.AtLeast(10_000)) == "10000+"
    settings.USE_THOUSAND_SEPARATOR = True
    assert str(counting.AtLeast(10_000)) == "10000"


@pytest.mark.parametrize("page", ["1000000", "10" * 15, "-1", "x"])
def test_a_page_that_is_not_there_is_no_error(as_admin, user, page):
    make_job(user)

    response = as_admin.get(address("job_changelist"), {"p": page}, follow=True)

    assert response.status_code == 200


# -- filters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"status": "failed"}, 1),
        ({"job_type": "printing"}, 2),
        ({"failure_code": "timed_out"}, 1),
        ({"queue": "slow"}, 2),
        ({"queue": "fast"}, 3),
    ],
)
def test_filters(as_admin, user, query, wanted):
    """``wanted``: which of the jobs is left, or none."""
    jobs = {
        1: make_job(user, "failed", failure_code="timed_out"),
        2: make_job(user, job_type="printing", queue="slow"),
    }

    assert listed(as_admin, **query) == ([jobs[wanted]] if wanted in jobs else [])


def test_the_list_can_be_narrowed_to_a_span_of_days(as_admin, user):
    new, old = make_job(user), make_job(user)
    Job.objects.filter(pk=old.pk).update(created_at=old.created_at - dt.timedelta(days=3))
    page = as_admin.get(address("job_changelist")).text

    links = re.findall(r'href="(\?created_at__gte=[^"]*)">([^<]*)</a>', page)
    spans = {name: html.unescape(query) for query, name in links}

    def shown(span):
        return rows(as_admin.get(address("job_changelist") + spans[span]))

    assert shown("Today") == [new]
    assert shown("Past 7 days") == [old, new]


@pytest.mark.parametrize("name", ["status", "job_type", "failure_code", "queue"])
@pytest.mark.parametrize("value", ["nobody-declared-this", "<script>alert(1)</script>"])
def test_a_filter_by_something_undeclared_is_shown_and_works(as_admin, user, name, value):
    make_job(user, "failed")

    response = as_admin.get(address("job_changelist"), {name: value})

    assert response.status_code == 200
    assert rows(response) == []
    assert "<script>alert" not in response.text
    assert value.replace("<", "&lt;").replace(">", "&gt;") in response.text


@pytest.mark.parametrize("name", ["status", "job_type", "failure_code", "queue", "q"])
def test_a_nul_character_in_the_address_is_no_error(as_admin, user, name):
    make_job(user)

    response = as_admin.get(address("job_changelist"), {name: "a\0b"})

    assert response.status_code == 200


def test_types_and_queues_are_offered_as_declared_without_a_look_at_the_table(as_admin, handler):
    handler(lambda job: None, name="printing", title="Print a book", queue="slow")

    page = as_admin.get(address("job_changelist")).text

    assert "?job_type=printing" in page
    assert "Print a book" in page
    assert "?queue=slow" in page
    assert "?queue=default" in page


# -- search ----------------------------------------------------------------------------------------


@pytest.fixture
def found(as_admin, user):
    """Search among three jobs; return the numbers of those found."""
    other = create_user()
    jobs = [
        make_job(user, idempotency_key="order-4711"),
        make_job(other, idempotency_key="order-47"),
        make_job(other, idempotency_key="0190163d-8694-739b-aea5-966c26f8ad91"),
    ]

    def search(term):
        return sorted(jobs.index(job) for job in listed(as_admin, q=term.format(jobs=jobs)))

    return search


@pytest.mark.parametrize(
    ("term", "numbers"),
    [
        ("{jobs[1].pk}", [1]),
        ("{jobs[1].pk.hex}", [1]),
        ("  {jobs[0].pk} ", [0]),
        ("order-47", [1]),
        ("order-4711", [0]),
        ("order", []),
        ("0190163d-8694-739b-aea5-966c26f8ad91", [2]),
        ("{jobs[0].user}", [0]),
        ("{jobs[2].user}", [1, 2]),
        ("nobody", []),
        ("%", []),
        ("", [0, 1, 2]),
    ],
)
def test_search_finds_by_exact_id_key_and_login(found, term, numbers):
    assert found(term) == numbers


def test_nothing_in_the_list_can_be_edited(as_admin, user):
    job = make_job(user, progress=0)
    before = Job.objects.values().get()

    as_admin.post(
        address("job_changelist"),
        {
            "_save": "Save",
            "form-TOTAL_FORMS": 1,
            "form-INITIAL_FORMS": 1,
            "form-0-id": job.pk,
            "form-0-progress": 50,
            "form-0-status": "completed",
        },
    )

    assert Job.objects.values().get() == before


def test_a_title_of_a_type_is_escaped(as_admin):
    job_handler("evil", title="<script>alert(1)</script>")(lambda job: None)

    assert "<script>alert" not in as_admin.get(address("job_changelist")).text
