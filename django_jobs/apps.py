"""The Django app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from django_jobs.handlers import autodiscover


class DjangoJobsConfig(AppConfig):
    name = "django_jobs"
    verbose_name = _("Jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # models, which the checks know, can be imported only from here on
        from django_jobs.checks import register_checks

        register_checks()
        autodiscover()
