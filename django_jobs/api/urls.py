"""The routes of the API. A project may register the viewsets with a router of its own instead."""

from rest_framework.routers import SimpleRouter

from django_jobs.api.assets import AssetViewSet
from django_jobs.api.job_types import JobTypeViewSet
from django_jobs.api.jobs import JobViewSet

app_name = "django_jobs"

router = SimpleRouter()
router.register("jobs", JobViewSet, basename="job")
router.register("assets", AssetViewSet, basename="asset")
router.register("job-types", JobTypeViewSet, basename="job-type")

urlpatterns = router.urls
