from django.apps import AppConfig


class SalesConfig(AppConfig):
    name = "example_project.sales"
    verbose_name = "Sales"
    default_auto_field = "django.db.models.BigAutoField"
