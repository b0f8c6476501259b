"""A table with enough rows to be worth a job."""

from django.db import models


class Sale(models.Model):
    """One sale; ``customer`` and ``product`` are texts that anybody may have typed."""

    sold_on = models.DateField()
    customer = models.CharField(max_length=100)
    product = models.CharField(max_length=100)
    quantity = models.PositiveIntegerField()
    amount = models.DecimalField(max_digits=10, decimal_places=2)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.quantity} {self.product} for {self.customer}"
