"""Settings of the processes that are measured; the environment's BENCH says which variant."""

import json
import os

VARIANT = json.loads(os.environ["BENCH"])

SECRET_KEY = "for benchmarks only"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_q",
    "benchmarks",
]
if VARIANT["is_ours"]:
    INSTALLED_APPS += [
        "django_jobs",
        "django.contrib.admin",
        "django.contrib.messages",
        "django.contrib.sessions",
        "django_filters",
        "rest_framework",
    ]
    DJANGO_JOBS = VARIANT["django_jobs"]
    ROOT_URLCONF = "benchmarks.urls"
    ALLOWED_HOSTS = ["*"]
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
    STATIC_URL = "/static/"
    STORAGES = {  # nothing that is measured makes files
        "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
DATABASES = {"default": VARIANT["database"]}
Q_CLUSTER = VARIANT["q_cluster"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
