import pytest

from django_jobs.models import Job
from tests.api.callers import url

pytestmark = pytest.mark.django_db

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
ORDER = b'{"job_type": "open", "parameters": %s}'


@pytest.fixture
def send(me):
    """Send bytes as an order; return the answer, which must not be one of the server's faults."""

    def send(body, content_type=JSON, **headers):
        response = me.client.generic("POST", url("job-list"), body, content_type, headers=headers)
        assert response.status_code < 500
        return response

    return send


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"null",
        b"[]",
        b"[1]",
        b'"abc"',
        b"5",
        b"true",
        b'{"job_type": "\xff\xfe"}',
        b'\xef\xbb\xbf{"job_type": "x"}',
        '{"job_type": "x"}'.encode("utf-16"),
        b'{"job_type": NaN}',
        b"\x00",
        ORDER % b"NaN",
        ORDER % b"-Infinity",
        ORDER % (b"9" * 5000),
        ORDER % (b"[" * 100_000),
        ORDER % (b'{"a":' * 100_000),
        b"[" * 100_000,
    ],
    ids=lambda body: repr(body[:30]),
)
def test_a_body_that_is_no_order_is_a_bad_request(send, body):
    assert send(body).status_code == 400
    assert not Job.objects.exists()


@pytest.mark.parametrize("depth", [32, 100, 300, 400, 500, 700, 900, 960, 1000, 3000])
@pytest.mark.parametrize("level", [(b"[", b"]"), (b'{"a":', b"}")], ids=["list", "object"])
def test_parameters_nested_too_deep_are_a_bad_request(send, open_type, depth, level):
    opened, closed = level
    nested = b'{"a":' + opened * depth + b"1" + closed * depth + b"}"
    body = b'{"job_type": "%s", "parameters": %s}' % (open_type.encode(), nested)

    assert send(body).status_code == 400
    assert not Job.objects.exists()


def test_an_infinite_number_is_a_bad_request(send, open_type):
    body = b'{"job_type": "%s", "parameters": {"a": 1e999}}' % open_type.encode()

    assert send(body).status_code == 400


def test_parameters_that_are_too_large_are_a_bad_request(send, open_type, settings):
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "MAX_PARAMETERS_BYTES": 1000}
    body = b'{"job_type": "%s", "parameters": {"a": "%s"}}'

    assert send(body % (open_type.encode(), b"x" * 980)).status_code == 202
    response = send(body % (open_type.encode(), b"x" * 1000))
    assert response.status_code == 400
    assert "1009 bytes of JSON are more than the 1000 allowed" in str(response.json()["parameters"])


def test_of_two_equal_keys_the_last_one_counts(send, open_type):
    body = b'{"job_type": "no-such", "job_type": "%s"}' % open_type.encode()

    assert send(body).status_code == 202


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "nonsense", "a/b/c"])
def test_other_types_of_content_are_refused(send, content_type):
    assert send(b'{"job_type": "x"}', content_type).status_code == 415


@pytest.mark.parametrize("charset", ["utf-16", "hex", "rot13", "bz2", "idna", "nonsense"])
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"job_type": "%s"}', JSON),
        (b"job_type=%s", FORM),
        (
            b'--x\r\nContent-Disposition: form-data; name="job_type"\r\n\r\n%s\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
        ),
    ],
    ids=["json", "form", "multipart"],
)
def test_a_body_is_read_as_utf_8_whatever_it_calls_itself(
    send, open_type, body, content_type, charset
):
    response = send(body % open_type.encode(), f"{content_type}; charset={charset}")

    assert response.status_code == 202


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"%00=%00&job_type=%00", FORM),
        (b"&&&===", FORM),
        (b"\xff\xfe", FORM),
        (b"nonsense", "multipart/form-data"),
        (b"nonsense", "multipart/form-data; boundary=x"),
        (b"--x\r\n\r\n", "multipart/form-data; boundary=x"),
    ],
)
def test_a_broken_form_is_a_bad_request(send, body, content_type):
    assert send(body, content_type).status_code == 400
