from django.contrib import admin

from example_project.sales.models import Sale


@admin.register(Sale)
class SaleAdmin(admin.ModelAdmin):
    list_display = ["id", "sold_on", "customer", "product", "quantity", "amount"]
    search_fields = ["customer", "product"]
