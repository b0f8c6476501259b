"""Tests of the sales app; run with ``manage.py test example_project``."""

import csv
import datetime as dt
import io
import tracemalloc

from django.contrib.auth import get_user_model
from django.core.files.storage import storages
from django.db import connection
from django.test import SimpleTestCase, TransactionTestCase

from django_jobs.models import JobStatus
from django_jobs.services import create_job
from django_jobs.testing import run_due_jobs
from example_project.sales.csv_lines import csv_line
from example_project.sales.models import Sale
from example_project.sales.sample_data import ensure_sales

ROWS = 15_000
MEGABYTE = 1024**2


class CsvLineTests(SimpleTestCase):
    def test_texts_that_begin_like_a_formula_are_made_harmless(self):
        for cell in ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1"):
            with self.subTest(cell):
                [[read]] = csv.reader(io.StringIO(csv_line([cell]).decode(), newline=""))
                self.assertEqual(read, f"'{cell}")

    def test_numbers_dates_and_other_texts_stay_as_they_are(self):
        line = csv_line([-5, dt.date(2026, 1, 2), 'Zoë, "the" 1st'])
        self.assertEqual(line.decode(), '-5,2026-01-02,"Zoë, ""the"" 1st"\r\n')


class CsvExportTests(TransactionTestCase):
    def run_job(self):
        create_job(get_user_model()._default_manager.create_user("ada"), "csv_export")
        [job] = run_due_jobs()
        self.addCleanup(
            lambda: [_file_storage(asset).delete(asset.storage_path) for asset in job.assets.all()]
        )
        return job

    def test_all_rows_are_written_without_holding_them_in_memory(self):
        ensure_sales(ROWS)
        tracemalloc.start()
        try:
            job = self.run_job()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        self.assertEqual((job.status, job.result), (JobStatus.COMPLETED, {"rows": ROWS}))
        self.assertEqual(job.progress, 100)
        if connection.vendor != "mysql":  # its driver fetches the whole result, in any case
            self.assertLess(peak, 4 * MEGABYTE)
        lines = _lines(job)
        self.assertEqual(len(lines), ROWS + 1)
        self.assertEqual(lines[0][:3], ["id", "sold_on", "customer"])
        self.assertEqual(lines[5][2], '\'=HYPERLINK("http://example.org")')

    def test_an_empty_table_gives_the_heading_alone(self):
        job = self.run_job()
        self.assertEqual((job.result, len(_lines(job))), ({"rows": 0}, 1))

    def test_sample_data_are_made_once(self):
        ensure_sales(100)
        first = Sale.objects.first()
        ensure_sales(100)
        self.assertEqual((Sale.objects.first(), Sale.objects.count()), (first, 100))


def _file_storage(asset):
    return storages[asset.storage]


def _lines(job):
    asset = job.assets.get()
    with _file_storage(asset).open(asset.storage_path) as file:
        return list(csv.reader(io.TextIOWrapper(file, "utf-8", newline="")))
