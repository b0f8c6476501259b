"""What a job made: a stored file or a link."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Func, Q
from django.utils.translation import gettext_lazy as _

from django_jobs.models.fields import DatabaseTimeField, UUID7Field

#: Characters of a path that an index can hold on every database.
PATH_START = 150


class Asset(models.Model):
    """One file (``storage``, ``storage_path``) or link (``url``) that a job made."""

    id = UUID7Field()
    job = models.ForeignKey(
        "django_jobs.Job", models.CASCADE, related_name="assets", db_index=False
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="django_jobs_assets"
    )
    asset_type = models.CharField(_("asset type"), max_length=50)
    name = models.CharField(_("name"), max_length=255)
    url = models.TextField(_("URL"), blank=True, default="")
    storage = models.CharField(_("storage"), max_length=50, blank=True, default="")
    storage_path = models.TextField(_("storage path"), blank=True, default="")
    #: What tells quickly whether some asset refers to a file. The database itself fills it in.
    storage_path_start = models.GeneratedField(
        # no blank after a comma: Django's introspection of SQLite would take it for a new column
        expression=Func("storage_path", 1, PATH_START, function="SUBSTR", arg_joiner=","),
        output_field=models.CharField(max_length=PATH_START),
        db_persist=True,
    )
    file_size = models.BigIntegerField(_("file size"), default=0)  # bytes
    content_type = models.CharField(_("content type"), max_length=100, blank=True, default="")
    checksum = models.CharField(_("SHA-256"), max_length=64, blank=True, default="")
    attempt = models.IntegerField(_("attempt"), default=0)
    created_at = DatabaseTimeField(verbose_name=_("created at"))

    class Meta:
        verbose_name = _("asset")
        verbose_name_plural = _("assets")
        constraints = [
            models.UniqueConstraint(fields=["job", "name"], name="django_jobs_asset_name"),
            models.CheckConstraint(
                condition=Q(file_size__gte=0), name="django_jobs_valid_file_size"
            ),
        ]
        indexes = [
            models.Index(fields=["job"], name="django_jobs_asset_job"),
            models.Index(fields=["storage_path_start"], name="django_jobs_asset_path"),
        ]

    def __str__(self) -> str:
        return self.name
