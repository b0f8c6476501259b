"""Uploading a zip, and seeing what became of it."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db import transaction
from django.http import HttpResponse
from django.urls import reverse_lazy
from django.views.generic import CreateView

from django_jobs.models import Job
from django_jobs.services import create_job
from example_project.photos.forms import PhotoUploadForm

SHOWN_JOBS = 10


class UploadView(LoginRequiredMixin, CreateView):
    form_class = PhotoUploadForm
    template_name = "photos/upload.html"
    success_url = reverse_lazy("photos:upload")

    def form_valid(self, form: PhotoUploadForm) -> HttpResponse:
        form.instance.user = self.request.user
        with transaction.atomic():  # the upload and its job, or neither
            response = super().form_valid(form)
            job = create_job(self.request.user, "thumbnails", {"upload": self.object.pk})
        messages.success(self.request, f"Job {job.pk} makes the thumbnails.")
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        jobs = Job.objects.filter(user=self.request.user, job_type="thumbnails")
        return super().get_context_data(jobs=jobs.order_by("-created_at")[:SHOWN_JOBS], **kwargs)
