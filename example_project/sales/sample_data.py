"""Invented sales for the demo."""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

from django.db import transaction

from example_project.sales.models import Sale

ROWS = 50_000
BATCH = 2_000
FIRST_DAY = dt.date(2025, 1, 1)
CUSTOMERS = ("Ada", "Blaise", "Charles", "Dorothy", '=HYPERLINK("http://example.org")')
PRODUCTS = {"Anchor": 120, "Barometer": 80, "Compass": 45, "Dividers": 12}


def ensure_sales(rows: int = ROWS) -> None:
    """Fill the table with ``rows`` rows, unless it has that many."""
    with transaction.atomic():
        if Sale.objects.count() != rows:
            Sale.objects.all().delete()
            Sale.objects.bulk_create(_sales(rows), batch_size=BATCH)


def _sales(rows: int) -> Iterator[Sale]:
    products = list(PRODUCTS.items())
    for number in range(rows):
        product, price = products[number % len(products)]
        quantity = number % 7 + 1
        yield Sale(
            sold_on=FIRST_DAY + dt.timedelta(days=number % 365),
            customer=CUSTOMERS[number % len(CUSTOMERS)],
            product=product,
            quantity=quantity,
            amount=Decimal(price * quantity),
        )
