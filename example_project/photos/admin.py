"""Uploads in the admin: to look at and to delete."""

from django.contrib import admin

from example_project.photos.models import PhotoUpload


@admin.register(PhotoUpload)
class PhotoUploadAdmin(admin.ModelAdmin):
    list_display = ["id", "user", "created_at"]
    readonly_fields = ["user", "created_at"]
    exclude = ["file"]  # private: no web server knows it

    def has_add_permission(self, request: object) -> bool:
        return False
