"""An admin in which nothing can be edited, made for long tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets, quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from django_jobs.admin.counting import BoundedPaginator

if TYPE_CHECKING:  # generic in the stubs only
    _ModelAdmin: TypeAlias = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


class LeanChangeList(ChangeList):
    """A list that leaves large columns in the database: ``list_defer`` of its admin."""

    def get_queryset(self, request: HttpRequest, *args: Any, **options: Any) -> Any:
        return super().get_queryset(request, *args, **options).defer(*self.model_admin.list_defer)  # type: ignore[attr-defined]


class ReadOnlyAdmin(_ModelAdmin):
    """Pages without a field to fill in. What changes rows are the views of the subclasses."""

    list_defer: tuple[str, ...] = ()
    list_per_page = 50
    ordering = ("-id",)
    sortable_by = ("age",)
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # each facet counts the table
    search_fields = ("pk",)  # shows the field; see get_search_results() of the subclasses

    class Media:
        css = {"all": ["django_jobs/admin.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return flatten_fieldsets(self.get_fieldsets(request, obj))

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[ChangeList]:
        return LeanChangeList

    def response_action(
        self, request: HttpRequest, *args: Any, **options: Any
    ) -> HttpResponse | None:
        """Django's own, but selected ids that are none end in a message."""
        try:
            return super().response_action(request, *args, **options)
        except ValidationError:
            self.message_user(request, _("The selection is not valid."), messages.WARNING)
            return None

    # -- for the views of the subclasses -------------------------------------------------------

    def found(self, request: HttpRequest, object_id: str) -> Any:
        """Return the object that an address names, or ``None``."""
        return self.get_object(request, unquote(object_id))

    def not_found(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Django's answer to an address that names nothing: a message on the index page."""
        response: HttpResponse = self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined]
            request, self.opts, object_id
        )
        return response

    def address(self, name: str, *args: Any) -> str:
        """Return the path of a page of this site, like ``django_jobs_job_change``."""
        return reverse(
            f"admin:{name}", args=[quote(arg) for arg in args], current_app=self.admin_site.name
        )
