from django.apps import AppConfig


class PhotosConfig(AppConfig):
    name = "example_project.photos"
    verbose_name = "Photos"
