"""Tests of the photos app; run with ``manage.py test example_project``."""

import datetime as dt
import io
import struct
import zipfile
import zlib

from django.contrib.auth import get_user_model
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.core.management import call_command
from django.test import TestCase, override_settings
from django.urls import reverse
from django.utils import timezone
from django.utils.module_loading import import_string
from django_q.models import Schedule
from PIL import Image

from django_jobs.exceptions import InvalidParameters
from django_jobs.models import Job, JobStatus
from django_jobs.services import create_job, retry_job
from django_jobs.testing import run_due_jobs
from example_project.photos import archives, pictures
from example_project.photos.models import PhotoUpload
from example_project.photos.schedules import order_nightly_job

IN_MEMORY = {"BACKEND": "django.core.files.storage.InMemoryStorage"}
TEST_STORAGES = {
    "default": IN_MEMORY,
    "django_jobs": IN_MEMORY,
    "uploads": IN_MEMORY,
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
KILOBYTE = 1024


def picture(width=60, height=40, kind="JPEG"):
    content = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(content, kind)
    return content.getvalue()


def zip_of(files, compression=zipfile.ZIP_DEFLATED):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return content.getvalue()


def png_that_claims(width, height):
    """A few bytes that would unpack to ``width`` times ``height`` pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    length, checksum = struct.pack(">I", len(header)), struct.pack(">I", zlib.crc32(chunk))
    return b"\x89PNG\r\n\x1a\n" + length + chunk + checksum + b"\0\0\0\0IDAT\x35\xaf\x06\x1e"


@override_settings(STORAGES=TEST_STORAGES)
class PhotosTestCase(TestCase):
    def setUp(self):
        users = get_user_model()._default_manager
        self.ada = users.create_user("ada")
        self.bob = users.create_user("bob")

    def upload(self, content, user=None):
        file = ContentFile(content, "photos.zip")
        return PhotoUpload.objects.create(user=user or self.ada, file=file)

    def run_job(self, upload, user=None):
        create_job(user or self.ada, "thumbnails", {"upload": upload.pk, "size": 32})
        [job] = run_due_jobs()
        return job

    def run_files(self, *files, **options):
        return self.run_job(self.upload(zip_of(files, **options)))


class ThumbnailsTests(PhotosTestCase):
    def test_the_samples_end_partial_with_six_thumbnails_that_open(self):
        create_job(self.ada, "thumbnails")
        [job] = run_due_jobs()
        self.assertEqual(job.status, JobStatus.PARTIAL)
        self.assertEqual((job.items_succeeded, job.items_failed), (6, 1))
        self.assertIn("truncated_download.jpg: OSError: image file is trunc", job.error_message)
        self.assertEqual(job.assets.count(), 6)
        for asset in job.assets.all():
            with (
                storages[asset.storage].open(asset.storage_path) as file,
                Image.open(file) as image,
            ):
                image.load()
                self.assertEqual(max(image.size), 320)

    def test_a_retry_of_the_failed_pictures_leaves_the_others_alone(self):
        job = create_job(self.ada, "thumbnails")
        run_due_jobs()
        retry_job(job.pk, actor=self.ada, only_failed=True)
        [again] = run_due_jobs()
        self.assertEqual(again.items_to_retry, ["truncated_download.jpg"])
        self.assertEqual((again.status, again.items_total), (JobStatus.FAILED, 1))
        self.assertEqual(again.assets.count(), 0)

    def test_the_pictures_of_an_upload_become_thumbnails_in_either_format(self):
        job = self.run_files(("a.jpg", picture()), ("b.png", picture(kind="PNG")))
        self.assertEqual(job.status, JobStatus.COMPLETED)
        self.assertEqual(names(job), ["a-32.jpg", "b-32.jpg"])

    def test_files_of_one_name_keep_a_thumbnail_each(self):
        job = self.run_files(("1/a.jpg", picture()), ("2/a.jpg", picture()))
        self.assertEqual(names(job), ["a-32 (2).jpg", "a-32.jpg"])

    def test_what_is_no_picture_fails_as_an_item(self):
        job = self.run_files(("a.jpg", picture()), ("notes.txt", b"no picture"))
        self.assertEqual(job.status, JobStatus.PARTIAL)
        self.assertIn("notes.txt: UnidentifiedImageError", job.error_message)

    def test_a_truncated_picture_fails_as_an_item(self):
        job = self.run_files(("a.jpg", picture()), ("b.jpg", picture(600, 600)[:-200]))
        self.assertEqual((job.status, job.items_failed), (JobStatus.PARTIAL, 1))

    def test_a_picture_of_too_many_pixels_fails_before_it_is_unpacked(self):
        bomb = png_that_claims(8_000, pictures.MAX_PIXELS // 8_000 + 1)
        job = self.run_files(("a.jpg", picture()), ("bomb.png", bomb))
        self.assertIn(f"more than {pictures.MAX_PIXELS} pixels", job.error_message)

    def test_formats_with_dangerous_decoders_are_not_opened(self):
        job = self.run_files(("a.jpg", picture()), ("b.bmp", picture(kind="BMP")))
        self.assertEqual(job.items_failed, 1)

    def test_a_name_that_leads_elsewhere_stays_inside_the_storage(self):
        job = self.run_files(("../../etc/a.jpg", picture()))
        self.assertEqual(names(job), ["a-32.jpg"])

    def test_the_rubbish_of_a_mac_and_folders_are_no_items(self):
        job = self.run_files(("a/", b""), ("a/b.jpg", picture()), ("__MACOSX/a/._b.jpg", b"x"))
        self.assertEqual((job.status, job.items_total), (JobStatus.COMPLETED, 1))

    def test_a_foreign_upload_is_unknown(self):
        job = self.run_job(self.upload(zip_of([("a.jpg", picture())]), self.bob))
        self.assertEqual(job.status, JobStatus.FAILED)
        self.assertEqual(job.error_message, "You have no such upload.")
        self.assertFalse(job.assets.exists())

    def test_an_upload_without_its_file_fails_and_tells_no_path(self):
        upload = self.upload(zip_of([("a.jpg", picture())]))
        upload.file.delete(save=False)
        PhotoUpload.objects.filter(pk=upload.pk).update(file="gone.zip")
        self.assertEqual(self.run_job(upload).error_message, "The file of the upload is gone.")

    def test_folder_and_upload_together_are_refused(self):
        with self.assertRaises(InvalidParameters):
            create_job(self.ada, "thumbnails", {"folder": "samples", "upload": 1})

    def test_other_folders_are_refused(self):
        with self.assertRaises(InvalidParameters):
            create_job(self.ada, "thumbnails", {"folder": "/etc"})


class ArchiveTests(PhotosTestCase):
    def refusal(self, content):
        job = self.run_job(self.upload(content))
        self.assertEqual(job.status, JobStatus.FAILED)
        return job.error_message

    def test_too_many_members_are_refused(self):
        files = [(f"{number}.jpg", b"") for number in range(archives.MAX_MEMBERS + 1)]
        self.assertIn("more than 200 files", self.refusal(zip_of(files)))

    def test_a_zip_that_unpacks_to_too_much_is_refused(self):
        megabyte = bytes(1024 * KILOBYTE)
        files = [(f"{number}.jpg", megabyte * 2) for number in range(101)]
        bomb = zip_of(files)
        self.assertLess(len(bomb), 300 * KILOBYTE)
        self.assertIn("larger than", self.refusal(bomb))

    def test_a_member_that_unpacks_to_too_much_fails_as_an_item(self):
        bomb = bytes(archives.MAX_MEMBER_BYTES + 1)
        job = self.run_files(("a.jpg", picture()), ("bomb.jpg", bomb))
        self.assertIn(
            f"bomb.jpg: ValueError: more than {archives.MAX_MEMBER_BYTES} bytes", job.error_message
        )

    def test_a_member_that_lies_about_its_size_fails_as_an_item(self):
        content = bytearray(zip_of([("a.jpg", bytes(100 * KILOBYTE)), ("b.jpg", picture())]))
        for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
            at = content.index(signature) + offset
            content[at : at + 4] = struct.pack("<I", 10)
        job = self.run_job(self.upload(bytes(content)))
        self.assertEqual((job.status, job.items_failed), (JobStatus.PARTIAL, 1))

    def test_compressions_that_explode_at_once_fail_as_items(self):
        for compression in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            with self.subTest(compression):
                job = self.run_files(("a.jpg", picture()), compression=compression)
                self.assertIn("neither deflated nor stored", job.error_message)

    def test_what_is_no_zip_is_refused(self):
        self.assertIn("no zip", self.refusal(b"PK\x03\x04 and then nothing"))

    def test_an_empty_zip_is_refused(self):
        self.assertEqual(self.refusal(zip_of([])), "The zip is empty.")

    def test_a_zip_of_too_many_bytes_is_not_even_opened(self):
        opening = archives.opened_archive(io.BytesIO(), archives.MAX_ZIP_BYTES + 1)
        with self.assertRaisesRegex(archives.ArchiveRefused, "larger than"), opening:
            self.fail("opened")


class UploadViewTests(PhotosTestCase):
    url = "/photos/"

    def post(self, content):
        file = ContentFile(content, "photos.zip")
        with self.captureOnCommitCallbacks(execute=True):
            return self.client.post(self.url, {"file": file})

    def test_strangers_are_sent_to_the_login(self):
        for response in (self.client.get(self.url), self.post(b"")):
            self.assertRedirects(response, f"{reverse('admin:login')}?next={self.url}")

    def test_an_upload_orders_a_job_for_its_user(self):
        self.client.force_login(self.ada)
        self.assertRedirects(self.post(zip_of([("a.jpg", picture())])), self.url)
        upload = PhotoUpload.objects.get(user=self.ada)
        self.assertNotIn("photos.zip", upload.file.name)
        [job] = run_due_jobs()
        self.assertEqual((job.user, job.status), (self.ada, JobStatus.COMPLETED))
        self.assertContains(self.client.get(self.url), str(job.pk))

    def test_a_refused_zip_is_explained_and_not_kept(self):
        self.client.force_login(self.ada)
        self.assertContains(self.post(b"no zip"), "The file is no zip")
        self.assertFalse(PhotoUpload.objects.exists() or Job.objects.exists())

    def test_nobody_sees_the_jobs_of_others(self):
        job = create_job(self.bob, "thumbnails")
        self.client.force_login(self.ada)
        self.assertNotContains(self.client.get(self.url), str(job.pk))


class NightlyTests(PhotosTestCase):
    def setUp(self):
        super().setUp()
        call_command("schedule_nightly", stdout=io.StringIO())

    def test_the_schedule_is_made_once_and_names_a_function_that_exists(self):
        call_command("schedule_nightly", stdout=io.StringIO())
        schedule = Schedule.objects.get()
        self.assertIs(import_string(schedule.func), order_nightly_job)
        self.assertGreater(schedule.next_run, timezone.now())

    def test_the_clock_orders_one_job_a_night_for_the_system_user(self):
        self.assertEqual(order_nightly_job(), order_nightly_job())
        self.assertEqual(Job.objects.get().user.get_username(), "system")

    def test_old_uploads_go_with_their_files_and_new_ones_stay(self):
        old, new = self.upload(b"old"), self.upload(b"new")
        long_ago = timezone.now() - dt.timedelta(days=31)
        PhotoUpload.objects.filter(pk=old.pk).update(created_at=long_ago)
        order_nightly_job()
        [job] = run_due_jobs()
        self.assertEqual((job.status, job.result), (JobStatus.COMPLETED, {"deleted": 1}))
        self.assertEqual(list(PhotoUpload.objects.all()), [new])
        self.assertFalse(old.file.storage.exists(old.file.name))
        self.assertTrue(new.file.storage.exists(new.file.name))


def names(job):
    return sorted(asset.name for asset in job.assets.all())
