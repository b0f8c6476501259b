"""Group C: what goes in and comes out is the same everywhere, or refused in so many words."""

import json

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_jobs.conf import conf
from django_jobs.exceptions import InvalidParameters, UnknownJobType
from django_jobs.handlers import job_handler, registry
from django_jobs.models import Asset, Job
from django_jobs.services import create_asset, create_job, transition_status
from django_jobs.testing import run_due_jobs
from tests.api.callers import Caller, allow, url
from tests.cases.books import check_pages, ended
from tests.clusters.processes import entries, wait_for
from tests.conftest import create_user

pytestmark = pytest.mark.django_db(transaction=True)

JSON = "application/json"


@pytest.fixture(params=["worker", "here"])
def run(request, user, notes):
    """Order jobs by (type, parameters) and return them as they ended: in a worker, or here."""
    in_worker = request.param == "worker"
    cluster = request.getfixturevalue("cluster")

    def run(orders):
        jobs = [create_job(user, name, {"entries": str(notes), **own}) for name, own in orders]
        if in_worker:
            with cluster(workers=1):
                return [wait_for(lambda job=job: ended(job)) for job in jobs]
        run_due_jobs()
        return [ended(job) for job in jobs]

    return run


def returned(run, names):
    """Run jobs that return what goes by these names."""
    return dict(zip(names, run([("returns", {"what": name}) for name in names]), strict=True))


@pytest.fixture
def me(user):
    return Caller(allow(user, "add_job"))


def is_refused(response, *fields):
    assert response.status_code == 400, response.content
    assert not fields or set(fields) == set(response.json())
    assert not Job.objects.exists()
    return response.json()


# -- characters ------------------------------------------------------------------------------------


def test_c01_a_nul_in_what_a_handler_says_ends_its_job_in_readable_words(run):
    nul, surrogate, error, told = run(
        [
            ("returns", {"what": "nul"}),
            ("returns", {"what": "surrogate"}),
            ("raises", {"error": "nul"}),
            ("tells-a-nul", {}),
        ]
    )
    assert (nul.status, nul.failure_code) == ("failed", "invalid_result")
    assert nul.error_message == "result.t: a NUL character cannot be stored"
    assert surrogate.error_message == "result.t[1]: a lone surrogate cannot be stored"
    assert (error.status, error.error_message) == ("failed", "ValueError: x\ufffdy")
    assert (told.progress, told.progress_message) == (50, "half\ufffdway")


def test_c02_a_nul_in_a_request_is_a_bad_request(me):
    body = is_refused(me.order("echoes", parameters={"a": "\x00"}), "parameters")
    assert "parameters.a: a NUL character cannot be stored" in str(body)
    is_refused(me.order("x\x00"), "job_type")
    for name in ("search", "type", "ordering"):  # unknown names are ignored
        response = me.get("job-list", **{name: "\x00"})
        assert (response.status_code, response.json()["results"]) == (200, [])
    for name in ("job_type", "status", "failure_code"):
        assert me.get("job-list", **{name: "\x00"}).status_code == 400


# -- results ---------------------------------------------------------------------------------------


def test_c04_each_type_of_result_is_converted_or_refused_by_name_and_place(run):
    converted = {
        "datetime": "2026-01-02T03:04:05.678901Z",
        "date": "2026-01-02",
        "time": "01:02:03.000004",
        "timedelta": "P1DT00H00M00.000005S",
        "decimal": "1.50",
        "uuid": "00000000-0000-0000-0000-000000000007",
        "tuple": [1, [2, 3]],
        "enum": "red",
    }
    refused = {
        "set": "set",
        "bytes": "bytes",
        "path": "PosixPath",
        "dataclass": "Point",
        "model": "Job",
        "queryset": "JobQuerySet",
        "array": "Array",
    }
    ends = returned(run, [*converted, *refused, "nan"])
    for name, value in converted.items():
        assert (ends[name].status, ends[name].result) == ("completed", {"v": value}), name
    for name, kind in refused.items():
        assert (ends[name].status, ends[name].failure_code) == ("failed", "invalid_result")
        text = f"result.rows[1].v: a {kind} cannot be stored as JSON"
        assert ends[name].error_message == text
    assert ends["nan"].error_message == "result.rows[1].v: NaN is not valid JSON"


def test_c05_lazy_texts_are_texts_in_results_and_errors(run):
    result, plain, fields = run(
        [
            ("returns", {"what": "lazy"}),
            ("raises", {"error": "lazy"}),
            ("raises", {"error": "fields"}),
        ]
    )
    assert (result.status, result.result) == ("completed", {"m": "Yes"})
    assert plain.error_message == "ValidationError: No"
    assert fields.error_message == "ValidationError: size: No Too large."


def test_c07_names_that_are_too_long_are_refused_before_anything_is_written(me, user, handler):
    for length in (51, 5000):
        is_refused(me.order("x" * length), "job_type")
        with pytest.raises(UnknownJobType):
            create_job(user, "x" * length)
        with pytest.raises(ImproperlyConfigured, match="more than 50 characters"):
            handler(lambda job: None, name="x" * length)
    job = create_job(user, "noop")
    transition_status(job.pk, "processing")
    for name, asset_type in (("x" * 5000, "text"), ("name", "x" * 5000)):
        with pytest.raises(ValueError, match="must be a text of 1 to"):
            create_asset(job.pk, user, asset_type, "", "a/b", 1, name=name)
    for options in ({"name": "x" * 5000}, {"content_type": "x" * 5000}):
        saving = {"name": "a", "content": b"x", "asset_type": "text", **options}
        failed = create_job(user, handler(lambda job, saving=saving: job.save_asset(**saving)))
        run_due_jobs()
        assert "must be a text of 1 to" in ended(failed).error_message
    assert not Asset.objects.exists()
    transition_status(job.pk, "completed")


def test_c08_large_integers_are_exact_to_the_digit_or_refused(run, me):
    numbers = {"n": 2**53 + 1, "m": 2**63, "k": 2**70, "negative": -(2**200)}
    echo, huge = run([("echoes", numbers), ("returns", {"what": "huge integer"})])
    assert echo.result == numbers
    raw = me.get("job-detail", echo.pk).content.decode()
    result = json.loads(raw, parse_int=str)["result"]
    assert result == {name: str(number) for name, number in numbers.items()}
    assert (huge.status, huge.failure_code) == ("failed", "invalid_result")
    assert huge.error_message == "result.n: an integer of more than 4300 digits cannot be stored"

    before = Job.objects.count()
    body = '{"job_type": "echoes", "parameters": {"n": %s}}' % ("9" * 5000)
    response = me.client.generic("POST", url("job-list"), body, JSON)
    assert response.status_code == 400
    with pytest.raises(InvalidParameters, match=r"parameters\.n: an integer of more than 4300"):
        create_job(me.user, "echoes", {"n": 10**5000})
    assert Job.objects.count() == before


def test_c10_what_is_too_large_is_refused_whole_or_cut_with_a_mark(run, me):
    result, error = run([("returns", {"what": "20 MB"}), ("raises", {"error": "5 MB"})])
    assert (result.status, result.failure_code, result.result) == ("failed", "invalid_result", None)
    assert result.error_message == (
        "result: 20000012 bytes of JSON are more than the 1048576 allowed"
    )
    assert len(error.error_message) == conf.MAX_ERROR_CHARS
    assert error.error_message.startswith("ValueError: éééé")
    assert error.error_message.endswith("é […]")
    for job in (result, error):
        check_pages(job.pk, job.user_id)

    before = Job.objects.count()
    body = '{"job_type": "echoes", "parameters": {"text": "%s"}}' % ("x" * 20_000_000)
    response = me.client.generic("POST", url("job-list"), body, JSON)
    assert response.status_code in (400, 413)
    assert Job.objects.count() == before


def test_c11_nothing_null_and_empty_can_be_told_apart(run, me, user):
    created = [create_job(user, "echoes", *given) for given in ((), (None,), ({},))]
    assert [job.parameters for job in created] == [{}, {}, {}]
    for parameters in ([], "", 0, False):
        with pytest.raises(InvalidParameters):
            create_job(user, "echoes", parameters)
    bodies = [{}, {"parameters": None}, {"parameters": {}}]
    assert [me.order("echoes", **body).json()["parameters"] for body in bodies] == [{}, {}, {}]
    assert me.order("echoes", parameters=[]).status_code == 400
    Job.objects.all().delete()  # they were not given what their handler wants

    results = {"none": None, "object": {}, "empty": "", "zero": 0, "false": False}
    ends = returned(run, list(results))
    for name, value in results.items():
        shown = me.get("job-detail", ends[name].pk).json()["result"]
        for found in (ends[name].result, shown):
            assert (type(found), found) == (type(value), value)
    with_result = Job.objects.filter(job_type="returns", result__isnull=False)
    assert set(with_result) == {ends[name] for name in results if name != "none"}


# -- requests --------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", ["abc", [1], 5, True, '{"a": 1}'], ids=repr)
def test_c13_parameters_that_are_no_object_are_refused_under_their_name(me, parameters):
    is_refused(me.order("echoes", parameters=parameters), "parameters")
    if not isinstance(parameters, str):  # a field of a form is read as JSON
        form = {"job_type": "echoes", "parameters": json.dumps(parameters)}
        is_refused(me.post("job-list", body=form, format="multipart"), "parameters")


def test_c13_a_form_may_hold_parameters_as_json(me):
    form = {"job_type": "noop", "parameters": '{"a": 1}'}
    response = me.post("job-list", body=form, format="multipart")
    assert (response.status_code, response.json()["parameters"]) == (202, {"a": 1})
    run_due_jobs()


def test_c14_a_type_that_no_worker_knows_fails_by_name_at_its_deadline(cluster, user, handler):
    name = handler(lambda job: None, name="only in the web process", queue_timeout=1)
    job = create_job(user, name)
    with cluster(workers=1):
        end = wait_for(lambda: ended(job))
    assert (end.status, end.failure_code, end.attempt) == ("failed", "unknown_job_type", 0)
    assert name in end.error_message


@pytest.mark.parametrize("name", ["nobody's", "", " ", "A" * 255, "\u7de8\u96c6 \U0001f600"])
def test_c14_a_type_that_nobody_declared_is_refused_with_the_order(me, user, name):
    is_refused(me.order(name), "job_type")
    with pytest.raises(UnknownJobType):
        create_job(user, name)
    assert not Job.objects.exists()


def test_c16_a_handler_of_any_kind_runs_or_is_refused_when_it_is_declared(run, notes):
    kinds = ["async", "partial-function", "callable-object", "method"]
    ends = run([(kind, {}) for kind in kinds])
    assert [(end.status, end.result) for end in ends] == [("completed", {"ran": True})] * 4
    assert {line[0] for line in entries(notes)} == {str(end.pk) for end in ends}

    def yields(job):
        yield 1

    async def yields_later(job):
        yield 1

    for generator in (yields, yields_later):
        with pytest.raises(ImproperlyConfigured, match="is a generator function"):
            job_handler("generator")(generator)
    assert registry.find("generator") is None


BAD_BODIES = {
    "invalid UTF-8": (b'{"job_type": "\xff"}', JSON, 400),
    "UTF-16": ('{"job_type": "noop"}'.encode("utf-16"), JSON, 400),
    "nothing": (b"", JSON, 400),
    "plain text": (b'{"job_type": "noop"}', "text/plain", 415),
    "byte order mark": (b'\xef\xbb\xbf{"job_type": "noop"}', JSON, 400),
    "NaN": (b'{"job_type": "noop", "parameters": {"a": NaN}}', JSON, 400),
    "half": (b'{"job_type": "noop", "par', JSON, 400),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_c17_a_malformed_body_is_refused(me, name):
    body, content_type, status = BAD_BODIES[name]
    response = me.client.generic("POST", url("job-list"), body, content_type)
    assert response.status_code == status
    if name not in ("nothing", "plain text"):
        assert "JSON parse error" in response.json()["detail"]
    assert not Job.objects.exists()


def test_c17_of_two_equal_keys_the_last_one_counts(me):
    body = b'{"job_type": "echoes", "job_type": "noop"}'
    response = me.client.generic("POST", url("job-list"), body, JSON)
    assert (response.status_code, response.json()["job_type"]) == (202, "noop")
    run_due_jobs()


def test_c_an_owner_reads_no_secret_no_path_and_no_traceback(run, user):
    """The rule of all groups: what exceptions quote is for staff at most."""
    [end] = run([("leaks", {})])
    secret, folder = "hunter2", "/srv/private"
    assert end.error_message == (
        "OSError: no …/rows.csv at postgres://***@host, password=***, retry"
    )
    mine = Caller(user)
    for name in ("job-detail", "job-transitions"):
        text = mine.get(name, end.pk).content.decode()
        assert secret not in text and folder not in text and "Traceback" not in text
    staff = Caller(create_user(is_staff=True, is_superuser=True))
    [*_, last] = staff.get("job-transitions", end.pk, user=user.pk).json()["results"]
    assert "Traceback" in last["detail"] and folder in last["detail"]
    assert secret not in last["detail"]
