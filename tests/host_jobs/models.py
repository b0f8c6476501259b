from django.conf import settings
from django.db import models


class Job(models.Model):
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    title = models.CharField(max_length=50)


class Asset(models.Model):
    job = models.ForeignKey(Job, models.CASCADE)
