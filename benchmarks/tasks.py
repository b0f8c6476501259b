"""What plain django-q2 runs."""


def noop() -> None:
    """The same as the job ``noop``, for ``async_task``."""
