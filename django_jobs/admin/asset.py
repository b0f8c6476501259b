"""The admin of assets."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.defaultfilters import filesizeformat
from django.urls import path
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_jobs.admin import rendering
from django_jobs.admin.page import content_of
from django_jobs.admin.readonly import ReadOnlyAdmin
from django_jobs.models import Asset
from django_jobs.services.downloads import (
    AssetFileMissing,
    AssetStorageDown,
    download_response,
)


@admin.register(Asset)
class AssetAdmin(ReadOnlyAdmin):
    """Assets are looked at and downloaded. They go when their job goes."""

    actions = None
    list_display = ("name", "asset_type", "job_type", "owner", "size", "age", "content")
    list_defer = ("job__parameters", "job__result", "job__error_message")
    list_filter = ("created_at",)
    list_select_related = ("user", "job")
    search_help_text = gettext_lazy("A part of the name, or the id of a job.")
    fieldsets = (
        (
            None,
            {"fields": ("id", "name", "job_link", "user", "asset_type", "attempt", "created_at")},
        ),
        (
            gettext_lazy("Content"),
            {
                "fields": (
                    "content",
                    "size",
                    "content_type",
                    "checksum",
                    "storage",
                    "storage_path",
                    "address_text",
                )
            },
        ),
    )

    def get_urls(self) -> list[Any]:
        download = path(
            "<path:object_id>/download/",
            self.admin_site.admin_view(self.download_view),
            name="django_jobs_asset_download",
        )
        return [download, *super().get_urls()]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who may delete a job, or a user, may delete what goes with it; see ``delete_view``."""
        return super().has_delete_permission(request, obj) or request.user.has_perm(
            "django_jobs.delete_job"
        )

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        raise PermissionDenied

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        context = {"show_delete": False, **(extra_context or {})}
        return super().change_view(request, object_id, form_url, context)

    def get_search_results(
        self, request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        """Find by a part of the name, or by the exact id of the job."""
        term = search_term.strip()
        with contextlib.suppress(ValueError):
            return queryset.filter(job_id=uuid.UUID(term)), False
        return queryset.filter(name__icontains=term), False

    def download_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        asset = self.found(request, object_id)
        if not self.has_view_permission(request, asset):
            raise PermissionDenied
        if asset is None:
            return self.not_found(request, object_id)
        try:
            return download_response(asset, request)
        except AssetFileMissing:
            text = _("The file of this asset is missing.")
        except AssetStorageDown:
            text = _("The file of this asset cannot be read just now: the log says why.")
        self.message_user(request, text, messages.ERROR)
        return HttpResponseRedirect(self.address("django_jobs_asset_change", asset.pk))

    # -- columns and facts ---------------------------------------------------------------------

    @admin.display(description=gettext_lazy("job"))
    def job_link(self, asset: Asset) -> SafeString:
        return rendering.link(self.address("django_jobs_job_change", asset.job_id), asset.job)

    @admin.display(description=gettext_lazy("job"))
    def job_type(self, asset: Asset) -> SafeString:
        address = self.address("django_jobs_job_change", asset.job_id)
        return rendering.link(address, asset.job.job_type)

    @admin.display(description=gettext_lazy("user"))
    def owner(self, asset: Asset) -> str:
        return str(asset.user)

    @admin.display(description=gettext_lazy("size"))
    def size(self, asset: Asset) -> str:
        return filesizeformat(asset.file_size)

    @admin.display(description=gettext_lazy("age"), ordering="-id")
    def age(self, asset: Asset) -> SafeString:
        return rendering.age(asset.created_at)

    @admin.display(description=gettext_lazy("content"))
    def content(self, asset: Asset) -> SafeString:
        return content_of(asset, self)

    @admin.display(description=gettext_lazy("URL"))
    def address_text(self, asset: Asset) -> SafeString:
        return rendering.asset_address(asset)
