"""The Django app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from django_jobs.handlers import autodiscover


class DjangoJobsConfig(AppConfig):
    name = "django_jobs"
    verbose_name = _("Jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # models, which these know, can be imported only from here on
        from django_jobs.checks import register_checks
        from django_jobs.services.files import watch_assets

        register_checks()
        watch_assets()
        autodiscover()
