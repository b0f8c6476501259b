import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection

from django_jobs.models import Job
from django_jobs.testing import make_job

ROOT = Path(__file__).resolve().parents[2]
EXACT_COLUMNS = importlib.import_module("django_jobs.migrations.0001_initial").EXACT_COLUMNS

# A host project with nothing but what django_jobs needs.
MAKEMIGRATIONS = """
import sys
import django
from django.conf import settings
from django.core.management import call_command

settings.configure(
    DEFAULT_AUTO_FIELD=sys.argv[1],
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_jobs"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
django.setup()
call_command("makemigrations", "django_jobs", check_changes=True, dry_run=True)
"""


def schema():
    """Return columns, constraints and indexes of each of our tables."""
    tables = [model._meta.db_table for model in apps.get_app_config("django_jobs").get_models()]
    with connection.cursor() as cursor:
        there = connection.introspection.table_names(cursor)
        return {
            table: (
                [
                    (column.name, column.type_code, column.null_ok, column.collation)
                    for column in connection.introspection.get_table_description(cursor, table)
                ],
                connection.introspection.get_constraints(cursor, table),
            )
            for table in tables
            if table in there
        }


@pytest.mark.parametrize("auto_field", ["AutoField", "BigAutoField", "SmallAutoField"])
def test_the_hosts_default_key_makes_no_new_migration(auto_field):
    subprocess.run(
        [sys.executable, "-c", MAKEMIGRATIONS, f"django.db.models.{auto_field}"],
        cwd=ROOT,
        check=True,
        timeout=60,
    )


@pytest.mark.django_db
def test_the_migrations_make_what_the_models_are():
    call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)


@pytest.mark.django_db(transaction=True)
def test_the_tables_can_be_taken_away_and_made_again(user):
    make_job(user)
    before = schema()
    try:
        call_command("migrate", "django_jobs", "zero", verbosity=0)
        assert schema() == {}
    finally:
        call_command("migrate", "django_jobs", verbosity=0)
    assert len(before) == 3
    assert schema() == before
    assert not Job.objects.exists()
    make_job(user)


@pytest.mark.skipif(connection.vendor != "mysql", reason="other databases compare texts exactly")
@pytest.mark.django_db
@pytest.mark.parametrize(("table", "column", "definition"), EXACT_COLUMNS)
def test_names_are_compared_exactly(table, column, definition):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT collation_name, column_type, is_nullable FROM information_schema.columns "
            "WHERE table_schema = DATABASE() AND table_name = %s AND column_name = %s",
            [table, column],
        )
        [(collation, kind, nullable)] = cursor.fetchall()
    assert collation.startswith("utf8mb4_") and collation.endswith("bin")
    assert definition.startswith(kind)
    assert definition.endswith("NOT NULL") == (nullable == "NO")


@pytest.mark.parametrize(("table", "column", "definition"), EXACT_COLUMNS)
def test_exact_columns_are_as_long_as_the_fields_of_the_models(table, column, definition):
    [model] = [
        model
        for model in apps.get_app_config("django_jobs").get_models()
        if model._meta.db_table == table
    ]
    field = model._meta.get_field(column)
    assert definition.startswith(f"varchar({field.max_length}) ")
    assert definition.endswith("NOT NULL") is not field.null
