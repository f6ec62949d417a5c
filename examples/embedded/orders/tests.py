"""Tests of the shop; run them with `python manage.py test`."""

from django.db import transaction
from django.test import TestCase
from django.urls import reverse

from orders.models import Customer, Order
from orders.services import place_order
from schedules.models import Event, Job


class Embedding(TestCase):
    def setUp(self) -> None:
        self.olga = Customer.objects.create_superuser("olga@example.org", "correct horse")
        self.client.force_login(self.olga)

    def test_order_and_its_job_are_stored_together(self) -> None:
        answer = self.client.post("/", {"item": "lamp"})

        job = Job.objects.get(task="orders.remind")
        self.assertEqual(answer.status_code, 201)
        self.assertEqual(job.kwargs, {"order_id": Order.objects.get().pk})
        self.assertEqual((job.owner, job.timezone), (self.olga, "Europe/Berlin"))
        self.assertEqual(Event.objects.get().door, Event.Door.CODE)

    def test_rollback_of_the_shop_leaves_no_job(self) -> None:
        with self.assertRaises(RuntimeError), transaction.atomic():
            place_order(self.olga, "lamp")
            raise RuntimeError("payment failed")

        self.assertFalse(Order.objects.exists())
        self.assertFalse(Job.objects.exists())
        self.assertFalse(Event.objects.exists())

    def test_order_without_a_job_is_not_stored(self) -> None:
        with self.settings(CRONTY_MAX_ACTIVE_JOBS=0), self.assertRaises(ValueError):
            place_order(self.olga, "lamp")

        self.assertFalse(Order.objects.exists())

    def test_pages_answer_below_their_prefix(self) -> None:
        place_order(self.olga, "lamp")
        job = Job.objects.get()

        names = ["jobs", "new", "runs", "calendar", "inbox", "notifications", "connect", "activity"]
        names += ["trash", "system", "welcome", "settings"]
        pages = {name: self.client.get(reverse(f"schedules:{name}")) for name in names}
        pages["job"] = self.client.get(f"/cronty/jobs/{job.public_id}/")

        self.assertEqual({name: page.status_code for name, page in pages.items()}, dict.fromkeys(pages, 200))
        self.assertContains(pages["jobs"], job.name)
        self.assertContains(pages["jobs"], f"/cronty/jobs/{job.public_id}/")

    def test_pages_send_strangers_to_the_login_of_the_shop(self) -> None:
        self.client.logout()

        self.assertRedirects(self.client.get("/cronty/"), "/login/?next=/cronty/")

    def test_admin_lists_and_finds_jobs(self) -> None:
        place_order(self.olga, "lamp")

        for model in ("job", "execution", "token"):
            answer = self.client.get(f"/admin/schedules/{model}/", {"q": "olga"})
            self.assertEqual(answer.status_code, 200, model)
        self.assertContains(self.client.get("/admin/schedules/job/", {"q": "olga"}), "Remind of order")
