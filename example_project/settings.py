"""Settings of the example project: one SQLite file, or whatever ``DATABASE_URL`` names."""

from pathlib import Path

import dj_database_url

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = "only-for-the-example-project-on-your-own-machine"  # noqa: S105
DEBUG = True
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_filters",  # with rest_framework: for the pages of the browsable API
    "rest_framework",
    "django_q",
    "django_jobs",
    "example_project.photos",
    "example_project.sales",
    "example_project.demo",  # manage.py demo and serve; leave it out in a project of your own
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"
ASGI_APPLICATION = "example_project.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {
    "default": dj_database_url.config(
        default=f"sqlite:///{BASE_DIR / 'example.sqlite3'}", conn_max_age=60
    ),
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # Readers do not wait for the writer, and writers queue up instead of failing with "locked".
    DATABASES["default"]["OPTIONS"] = {
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
    }

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

LOGIN_URL = "admin:login"

STATIC_URL = "static/"
MEDIA_URL = "media/"
MEDIA_ROOT = BASE_DIR / "media"


def _private(folder):
    """A storage outside MEDIA_ROOT, where no web server looks."""
    return {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {
            "location": BASE_DIR / folder,
            "file_permissions_mode": 0o600,
            "directory_permissions_mode": 0o700,
        },
    }


STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "django_jobs": _private("job_files"),
    "uploads": _private("job_files/uploads"),
}

DJANGO_JOBS = {
    "ENGINE": "django_q",  # jobs are run by the workers of a cluster: manage.py jobworker
    "SYSTEM_USER": "system",  # owns what the clock orders: manage.py schedule_nightly
}
Q_CLUSTER = {
    "name": "example",
    "broker_class": "django_jobs.broker.JobBroker",  # the workers take jobs from the table
    "orm": "default",  # where async_task() puts other tasks of the project
    "workers": 2,
    "queue_limit": 2,  # no more than there are workers
    "timeout": 60,  # of other tasks; jobs have their own
    "retry": 120,
    "save_limit": -1,  # other tasks that went well leave no row
}
