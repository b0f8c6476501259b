"""Routers of host projects."""


class JobsElsewhere:
    """Sends the jobs to the database "other"."""

    def db_for_read(self, model, **hints):
        return "other" if model._meta.app_label == "django_jobs" else None

    db_for_write = db_for_read


class AllElsewhere:
    """Sends everything to the database "other"."""

    def db_for_read(self, model, **hints):
        return "other"

    db_for_write = db_for_read
