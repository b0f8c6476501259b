"""The job of the sales app."""

from collections.abc import Iterator
from typing import Any

from django_jobs.execution import JobContext
from django_jobs.handlers import job_handler
from example_project.sales.csv_lines import csv_line
from example_project.sales.models import Sale

COLUMNS = ("id", "sold_on", "customer", "product", "quantity", "amount")
CHUNK = 2_000  # rows in memory at a time


@job_handler(
    "csv_export",
    timeout=600,
    max_attempts=3,
    permission="sales.view_sale",
    title="CSV export",
    description="Write all sales into a CSV file.",
)
def export_sales(job: JobContext) -> dict[str, Any]:
    rows = 0

    def lines() -> Iterator[bytes]:
        """Read by ``save_asset`` line by line: neither the table nor the file is ever in memory.

        But on MySQL and MariaDB, whose driver fetches the whole result at once.
        """
        nonlocal rows
        yield csv_line(COLUMNS)
        sales = Sale.objects.order_by("id").values_list(*COLUMNS)
        for sale in job.track(sales.iterator(CHUNK), "Writing", total=sales.count()):
            yield csv_line(sale)
            rows += 1

    job.save_asset("sales.csv", lines(), "export", "text/csv")
    return {"rows": rows}
