import io

import pytest

from django_jobs.services.ranges import Part, RangeNotSatisfiable, part_of


@pytest.mark.parametrize(
    ("header", "part"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=2-", (2, 8)),
        ("bytes=-3", (7, 3)),
        ("bytes=-20", (0, 10)),
        ("bytes=9-100", (9, 1)),
        ("bytes=0-1,4-5", None),
        ("bytes=4-2", None),
        ("items=0-1", None),
        ("", None),
    ],
)
def test_what_a_header_wants_of_ten_bytes(header, part):
    assert part_of(header, 10) == part


@pytest.mark.parametrize(("header", "size"), [("bytes=10-", 10), ("bytes=-0", 10), ("bytes=-1", 0)])
def test_what_is_behind_the_end(header, size):
    with pytest.raises(RangeNotSatisfiable):
        part_of(header, size)


@pytest.mark.parametrize("step", [1, 2, 3, 100, -1])
def test_a_part_ends_where_it_should_and_closes_its_file(step):
    file = io.BytesIO(b"0123456789")
    file.seek(2)
    part = Part(file, 5)

    assert b"".join(iter(lambda: part.read(step), b"")) == b"23456"
    part.close()
    assert file.closed
