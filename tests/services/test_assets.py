import inspect
import math
import uuid

import pytest

from django_jobs.exceptions import JobAccessDenied, JobNotFound, LeaseLost
from django_jobs.models import Asset, Job
from django_jobs.services import create_asset, get_job_assets
from django_jobs.services.assets import attach
from django_jobs.services.fencing import Fence
from django_jobs.testing import make_job
from tests.naming import readable

pytestmark = pytest.mark.django_db


def create(job, user, *, asset_type="image", url="", storage_path="a/b.png", size=1, name=None):
    return create_asset(job.pk, user, asset_type, url, storage_path, size, name=name)


# -- what is linked ----------------------------------------------------------------------------


def test_an_asset_is_linked_to_its_job(driven_job, user):
    asset = create(driven_job, user, url="https://x.org/b.png", storage_path="a/b.png", size=5)

    asset.refresh_from_db()
    assert (asset.job, asset.user, asset.attempt) == (driven_job, user, 1)
    assert (asset.asset_type, asset.name, asset.file_size) == ("image", "b.png", 5)
    assert (asset.url, asset.storage_path) == ("https://x.org/b.png", "a/b.png")
    assert (asset.storage, asset.content_type, asset.checksum) == ("", "", "")
    assert get_job_assets(driven_job.pk, user) == [asset]


def test_watchers_of_the_job_see_that_it_changed(driven_job, user):
    create(driven_job, user)

    job = Job.objects.get(pk=driven_job.pk)
    assert job.version == driven_job.version + 1
    assert job.updated_at >= driven_job.updated_at


def test_an_outside_driver_s_lease_is_renewed(driven_job, user):
    create(driven_job, user)

    assert Job.objects.get(pk=driven_job.pk).due_at > driven_job.due_at


@pytest.mark.parametrize("size", [0, 1, 2**31, 2**63 - 1])
def test_any_number_of_bytes_is_a_size(driven_job, user, size):
    create(driven_job, user, size=size)

    assert Asset.objects.get().file_size == size


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("storage_path", "url", "name"),
    [
        ("a/b.png", "", "b.png"),
        ("b.png", "https://x.org/c.png", "b.png"),
        ("a/b/", "", "b"),
        ("", "https://x.org/a/c.png?size=1#top", "c.png"),
        ("", "https://x.org/", "image"),
        ("", "https://x.org", "image"),
        ("", "/files/d.png", "d.png"),
        ("", "", "image"),
        ("/", "", "image"),
        ("  ", "", "image"),
        ("x" * 300, "", "x" * 247),
        ("ordner/bücher 漢.png", "", "bücher 漢.png"),
    ],
)
def test_without_a_name_an_asset_is_called_after_its_path(
    driven_job, user, storage_path, url, name
):
    assert create(driven_job, user, storage_path=storage_path, url=url).name == name


def test_a_name_that_is_taken_is_numbered(driven_job, user):
    names = [create(driven_job, user).name for _ in range(12)]

    assert names == ["b.png", *(f"b.png ({number})" for number in range(2, 13))]


def test_the_longest_name_can_be_numbered(driven_job, user):
    names = [create(driven_job, user, storage_path="x" * 300).name for _ in range(11)]

    assert len(set(names)) == 11
    assert max(len(name) for name in names) <= 255


def test_a_name_that_is_a_pattern_is_only_a_name(driven_job, user):
    for path in ("a%b", "a_b", "a\\b"):
        create(driven_job, user, storage_path=path)

    assert create(driven_job, user, storage_path="a%b").name == "a%b (2)"


@pytest.mark.parametrize("first", ["b.png", "B.PNG"])
def test_names_that_differ_in_case_are_two_assets(driven_job, user, first):
    create(driven_job, user, name=first)
    create(driven_job, user, name=first.swapcase())

    assert Asset.objects.count() == 2
    assert create(driven_job, user, storage_path=first).name == f"{first} (2)"


def test_an_asset_of_the_same_name_is_replaced(driven_job, user):
    first = create(driven_job, user, name="n", url="https://x.org/1", size=1)
    second = create(driven_job, user, name="n", url="https://x.org/2", size=2, asset_type="pdf")

    assert second.pk == first.pk
    asset = Asset.objects.get()
    assert (asset.url, asset.file_size, asset.asset_type) == ("https://x.org/2", 2, "pdf")


def test_other_jobs_have_names_of_their_own(driven_job, user):
    create(driven_job, user, name="n")
    create(make_job(user, "processing"), user, name="n")

    assert Asset.objects.count() == 2


# -- addresses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://x.org",
        "https://x.org/a b".replace(" ", "%20"),
        "HTTPS://X.org/a?b=c&d=e#f",
        "https://bücher.example/ä",
        "http://[::1]:8000/a",
        "http://localhost:8000",
        "/media/a.png",
        "/",
        "/a//b",
        "/a?next=https://x.org",
        "/javascript:alert(1)",
    ],
)
def test_a_safe_address_is_kept_as_it_is(driven_job, user, url):
    create(driven_job, user, url=url)

    assert Asset.objects.get().url == url


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " javascript:alert(1)",
        "java\tscript:alert(1)",
        "java\nscript:alert(1)",
        "\x01javascript:alert(1)",
        "javascript://x.org/%0aalert(1)",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "file:///etc/passwd",
        "ftp://x.org/a",
        "blob:https://x.org/1",
        "mailto:me@x.org",
        "//evil.test",
        "///evil.test",
        "////evil.test",
        "/\\evil.test",
        "\\\\evil.test",
        "/\t/evil.test",
        "http://user:pw@h",
        "http://user@h/",
        "http:evil.test",
        "http:/evil.test",
        "http:///evil.test",
        "https://",
        "http://:80",
        "http://[::1",
        "http://x.org\\@evil.test",
        "http://x.org/a b\n",
        " https://x.org",
        "https://x.org ",
        "https://x.org/\u2028",
        "https://x.org/\u202egnp",
        "a.png",
        "./a.png",
        "../a.png",
        "?a=b",
        "#a",
        "x.org/a",
        "https:" + "x" * 9000,
        "/" + "x" * 9000,
        "a\x00b",
        None,
        1,
        b"https://x.org",
    ],
    ids=lambda url: repr(url)[:40],
)
def test_an_unsafe_address_is_refused(driven_job, user, url, nothing_written):
    with nothing_written(), pytest.raises(ValueError, match=r"url|URL") as raised:
        create(driven_job, user, url=url)

    assert len(str(raised.value)) < 200


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [
        {"asset_type": ""},
        {"asset_type": "x" * 51},
        {"asset_type": "x" * 5000},
        {"asset_type": "a\x00"},
        {"asset_type": None},
        {"storage_path": "x" * 8001},
        {"storage_path": "a\x00"},
        {"storage_path": None},
        {"storage_path": 1},
        {"name": ""},
        {"name": " "},
        {"name": "x" * 256},
        {"name": "x" * 5000},
        {"name": "\ud800"},
        {"name": 1},
    ],
    ids=lambda option: repr(option)[:30],
)
def test_a_text_that_cannot_be_stored_is_refused_and_named(
    driven_job, user, option, nothing_written
):
    (name,) = option
    with nothing_written(), pytest.raises(ValueError, match=name) as raised:
        create(driven_job, user, **option)

    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    "size", [-1, 2**63, 1.5, "1", None, True, math.nan, 10**400], ids=lambda size: repr(size)[:20]
)
def test_what_is_no_number_of_bytes_is_refused(driven_job, user, size, nothing_written):
    with nothing_written(), pytest.raises(ValueError, match="file_size must be a number of bytes"):
        create(driven_job, user, size=size)


@pytest.mark.parametrize("job_id", ["x", "", None, 1, uuid.UUID(int=0)], ids=readable)
def test_an_unknown_job_is_not_found(user, job_id):
    with pytest.raises(JobNotFound):
        create_asset(job_id, user, "image", "", "a", 1)


# -- who may link ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["queued", "processing", "completed"])
def test_the_job_of_somebody_else_is_denied(user, other_user, status, nothing_written):
    job = make_job(user, status)

    with nothing_written(), pytest.raises(JobAccessDenied):
        create(job, other_user)


@pytest.mark.parametrize("status", ["queued", "completed", "partial", "failed"])
def test_a_job_that_is_not_running_takes_no_assets(user, status, nothing_written):
    job = make_job(user, status)

    with nothing_written(), pytest.raises(LeaseLost, match=f"is {status}: it takes no assets"):
        create(job, user)


def test_a_job_that_one_of_our_workers_holds_is_refused(held_job, user, nothing_written):
    with nothing_written(), pytest.raises(LeaseLost, match="held by one of our workers"):
        create(held_job, user)


@pytest.mark.parametrize("field", ["attempt", "worker", "job_id"])
def test_an_asset_of_an_attempt_that_is_over_is_refused(held_job, user, field, nothing_written):
    wrong = {"attempt": 2, "worker": "somebody", "job_id": uuid.UUID(int=0)}
    fence = Fence(**{**vars(Fence.of(held_job)), field: wrong[field]})
    asset = Asset(job=held_job, user=user, asset_type="image", name="n")

    with nothing_written(), pytest.raises(LeaseLost, match=r"Attempt . of job .* is over"):
        attach(asset, fence, "default")


def test_an_asset_of_the_open_attempt_is_attached(held_job, user):
    asset = Asset(job=held_job, user=user, asset_type="image", name="n")

    assert attach(asset, Fence.of(held_job), "default").pk == Asset.objects.get().pk


def test_the_signature_is_as_documented():
    parameters = inspect.signature(create_asset).parameters.values()
    bare = [parameter.replace(annotation=parameter.empty) for parameter in parameters]

    assert str(inspect.Signature(bare)) == (
        "(job_id, user, asset_type, url, storage_path, file_size, *, name=None)"
    )
