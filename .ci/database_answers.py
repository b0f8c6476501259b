"""Exit 0 if the database server named by an environment variable answers, else 1 and say why.

Usage: database_answers.py NAME VARIABLE, as in ``database_answers.py MariaDB MARIADB_URL``
"""

import os
import sys

import dj_database_url
import django
from django.conf import settings
from django.db import Error, connection


def main(name: str, variable: str) -> None:
    address = dj_database_url.parse(os.environ[variable])
    address["OPTIONS"] = {"connect_timeout": 5}
    if address["ENGINE"] == "django.db.backends.mysql":
        address["NAME"] = ""  # the tests make their own database
    settings.configure(DATABASES={"default": address})
    django.setup()
    try:
        connection.ensure_connection()
    except Error as error:
        server = f"{address['HOST']}:{address['PORT']}"
        sys.exit(f"{name} does not answer at {server} ({variable}): {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
