"""The REST API: ``path("api/", include("django_jobs.api.urls"))``."""
