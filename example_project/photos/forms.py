"""The form for a zip of photographs."""

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile

from example_project.photos.archives import ArchiveRefused, opened_archive
from example_project.photos.models import PhotoUpload


class PhotoUploadForm(forms.ModelForm):
    """Refuses what the job would refuse too, while the user is still there to read it."""

    class Meta:
        model = PhotoUpload
        fields = ["file"]
        widgets = {"file": forms.FileInput(attrs={"accept": ".zip"})}

    def clean_file(self) -> Any:
        file: UploadedFile = self.cleaned_data["file"]
        try:
            with opened_archive(file, file.size):
                pass
        except ArchiveRefused as error:
            raise forms.ValidationError(str(error)) from error
        file.seek(0)
        return file
