"""What lists can be filtered by. An unknown value is a 400, an unknown name is ignored."""

from __future__ import annotations

from django_filters import rest_framework as filters

from django_jobs.states import FailureCode, JobStatus


class JobFilter(filters.FilterSet):  # type: ignore[misc] # without types
    """``status`` and ``failure_code`` may be given several times: any of them."""

    job_type = filters.CharFilter()
    status = filters.MultipleChoiceFilter(choices=JobStatus.choices, distinct=False)
    failure_code = filters.MultipleChoiceFilter(choices=FailureCode.choices, distinct=False)


class AssetFilter(filters.FilterSet):  # type: ignore[misc]
    job = filters.UUIDFilter(field_name="job_id")
    asset_type = filters.CharFilter()
