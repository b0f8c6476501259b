"""URLs of the example project."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="photos:upload")),
    path("admin/", admin.site.urls),
    path("api/", include("django_jobs.api.urls")),
    path("photos/", include("example_project.photos.urls")),
]
