from django.apps import AppConfig


class HostJobsConfig(AppConfig):
    name = "tests.host_jobs"
    label = "jobs"
