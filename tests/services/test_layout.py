import uuid

import pytest

from django_jobs.models import Job
from django_jobs.services.layout import job_of, new_path

pytestmark = pytest.mark.django_db  # the time of a new job is the database's

KEY = uuid.UUID("01a23404-1f26-734a-8a4c-0096d11a6100")


@pytest.mark.parametrize("user_id", [1, "a/b", "..", uuid.UUID(int=1)])
@pytest.mark.parametrize("name", ["a.txt", "..", "/", "a/b\n.txt", "漢" * 200, "-"])
def test_a_path_says_whose_it_is(user_id, name):
    path = new_path(Job(pk=KEY, user_id=user_id, attempt=2), name)

    assert job_of(path) == KEY
    assert path.split("/")[1:3] == [str(KEY), "2"]


def test_no_two_paths_are_the_same():
    job = Job(pk=KEY, user_id=1, attempt=1)

    assert new_path(job, "a.txt") != new_path(job, "a.txt")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "avatars/ada.png",
        f"{KEY}",
        f"1/{KEY}",
        f"1/{KEY}/1",
        f"1/{KEY}/a.txt",
        f"1/{KEY}/1/a.txt",
        f"1/{KEY}/x/00000000-a.txt",
        f"1/{KEY}/1/0000000-a.txt",
        f"1/{KEY}/1/00000000-",
        f"1/{KEY}/1/00000000-a/b",
        f"/1/{KEY}/1/00000000-a",
        f"1/{KEY.hex}/1/00000000-a",
        f"0/1/{KEY}/1/00000000-a",
    ],
)
def test_other_paths_are_not_ours(path):
    assert job_of(path) is None
