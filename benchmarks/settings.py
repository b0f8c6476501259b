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
    INSTALLED_APPS.append("django_jobs")
    DJANGO_JOBS = VARIANT["django_jobs"]
DATABASES = {"default": VARIANT["database"]}
Q_CLUSTER = VARIANT["q_cluster"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
