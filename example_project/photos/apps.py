from django.apps import AppConfig


class PhotosConfig(AppConfig):
    name = "example_project.photos"
    verbose_name = "Photos"
    default_auto_field = "django.db.models.BigAutoField"
