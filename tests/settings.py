"""Settings of the test suite; the environment chooses the database and the variants."""

import json
import os
import select
import time
from pathlib import Path

import dj_database_url

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = os.environ.get("TEST_SECRET_KEY", "for tests only")
ALLOWED_HOSTS = ["*"]

DATABASE = os.environ.get("TEST_DATABASE", "sqlite")
URLS = {
    "sqlite": f"sqlite:///{BASE_DIR / 'tests' / '.sqlite3'}",
    "postgres": os.environ.get("POSTGRES_URL", "postgres://postgres@127.0.0.1:5432/postgres"),
    "mariadb": os.environ.get("MARIADB_URL", "mysql://root@127.0.0.1:3306/test"),
}
default = dj_database_url.parse(
    URLS[DATABASE],
    conn_max_age=int(os.environ.get("TEST_CONN_MAX_AGE", "60")),
    conn_health_checks=os.environ.get("TEST_CONN_HEALTH_CHECKS", "1") == "1",
)
SUFFIX = os.environ.get("TEST_DATABASE_SUFFIX", "")  # for two runs at a time
default["TEST"] = {"NAME": f"test_django_jobs{SUFFIX}"}
if DATABASE == "sqlite":
    # a file, not memory: other processes and threads must see it
    default["TEST"] = {"NAME": str(BASE_DIR / "tests" / f".test{SUFFIX}.sqlite3")}
    default["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": int(os.environ.get("TEST_SQLITE_TIMEOUT", "20")),
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
if DATABASE == "mariadb":
    default["OPTIONS"] = {"charset": "utf8mb4"}
    if zone := os.environ.get("TEST_MARIADB_SESSION_ZONE"):
        default["OPTIONS"]["init_command"] = f"SET time_zone = '{zone}'"

if name := os.environ.get("TEST_CONNECT_TO"):  # a process of its own, beside the running test
    default["NAME"] = name
    LOGGING = {  # its output is what an operator reads
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"console": {"class": "logging.StreamHandler"}},
        "loggers": {"django_jobs": {"handlers": ["console"], "level": "INFO"}},
    }

# A second database, so that a test can move the jobs away from the alias "default".
other = {**default, "TEST": {**default["TEST"]}}
other["TEST"]["NAME"] = (
    str(BASE_DIR / "tests" / f".test_other{SUFFIX}.sqlite3")
    if DATABASE == "sqlite"
    else f"test_django_jobs_other{SUFFIX}"
)
DATABASES = {"default": default, "other": other}

if "FAKETIME" in os.environ:  # libfaketime shifts the clock, and breaks the call below time.sleep
    time.sleep = lambda seconds: select.select([], [], [], seconds)

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "tests.email_users",
    "tests.host_jobs",
    "tests.sample_jobs",
    "django_filters",  # with rest_framework: for the pages of the browsable API
    "django_q",
    "django_jobs",
    "rest_framework",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
AUTH_USER_MODEL = (
    "email_users.EmailUser" if os.environ.get("TEST_USER_MODEL") == "email" else "auth.User"
)
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ROOT_URLCONF = "tests.urls"
USE_TZ = os.environ.get("TEST_USE_TZ", "1") == "1"
TIME_ZONE = os.environ.get("TEST_TIME_ZONE", "UTC")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "/static/"
MEDIA_ROOT = ""
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
STORAGES.update(json.loads(os.environ.get("TEST_STORAGES", "{}")))
DJANGO_JOBS = json.loads(os.environ.get("TEST_DJANGO_JOBS", '{"ENGINE": "immediate"}'))
Q_CLUSTER = {
    "name": "tests",
    "broker_class": "django_jobs.broker.JobBroker",
    "orm": "default",
    "workers": 2,
    "queue_limit": 2,
    "timeout": 60,
    "retry": 120,
    "save_limit": -1,
    "log_level": "DEBUG",
    **json.loads(os.environ.get("TEST_Q_CLUSTER", "{}")),
}
