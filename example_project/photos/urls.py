"""URLs of the photos app."""

from django.urls import path

from example_project.photos.views import UploadView

app_name = "photos"

urlpatterns = [
    path("", UploadView.as_view(), name="upload"),
]
