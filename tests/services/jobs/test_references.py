"""References to jobs: public ids, numbers and names."""

from schedules import services
from schedules.models import Job
from schedules.models.job_texts import skeleton
from schedules.result import Err, Ok
from schedules.services.jobs.references import public_id_of
from tests.factories import JobFactory


def job_called(name, owner, **fields):
    return JobFactory(owner=owner, name=name, name_skeleton=name.casefold(), **fields)


def test_public_id_is_stripped_and_takes_no_query(agent, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert public_id_of(agent.jobs(), " msg_12_34\n") == Ok("msg_12_34")


def test_number_comes_before_a_name(agent, owner):
    job = JobFactory(owner=owner)
    job_called(f"#{job.pk}", owner)

    assert public_id_of(agent.jobs(), f"#{job.pk}") == Ok(job.public_id)


def test_only_the_whole_name_finds_the_job_and_its_exact_form_comes_first(agent, owner):
    job = job_called("Backup", owner)

    assert public_id_of(agent.jobs(), "Backup ") == Ok(job.public_id)
    assert public_id_of(agent.jobs(), "backup") == Ok(job.public_id)
    assert public_id_of(agent.jobs(), "back") == Ok("back")
    # It looks the same, but has a Cyrillic letter.
    assert public_id_of(agent.jobs(), "B\u0430ckup") == Ok("B\u0430ckup")
    other = job_called("backup", owner)
    assert public_id_of(agent.jobs(), "backup") == Ok(other.public_id)
    assert isinstance(public_id_of(agent.jobs(), "BACKUP"), Err)


def test_active_job_is_meant_before_ended_ones_of_its_name(agent, owner):
    for _ in range(2):
        job_called("Backup", owner, ended=True)

    assert isinstance(public_id_of(agent.jobs(), "Backup"), Err)
    active = job_called("Backup", owner)
    assert public_id_of(agent.jobs(), "Backup") == Ok(active.public_id)


def test_jobs_of_others_and_in_the_trash_are_not_found(agent, owner, stranger):
    foreign = job_called("Backup", stranger)
    services.delete(agent, job_called("Backup", owner).public_id)

    for text in (f"#{foreign.pk}", "Backup"):
        assert public_id_of(agent.jobs(), text) == Ok(text)


def test_job_outside_the_families_of_a_token_is_not_found(agent, owner):
    job = job_called("Backup", owner, task="webhook")
    notifier = services.Actor(owner, agent.door, tasks=frozenset({"notify"}))

    for text in (f"#{job.pk}", "Backup"):
        assert public_id_of(notifier.jobs(), text) == Ok(text)


def test_strange_text_finds_nothing(agent):
    JobFactory(owner=agent.user)
    for text in ["", "  ", "a\x00b", "x" * 5000, "9" * 40, "#", "²", "\u202e"]:
        assert public_id_of(agent.jobs(), text) == Ok(text.strip())
        assert Job.objects.count() == 1


def test_name_that_followed_its_message_still_finds_the_job(agent, owner):
    job = job_called("Drink tea", owner, task="notify", kwargs={"message": "Drink tea", "topic": "home"})
    kwargs = {"message": "Drink coffee", "topic": "home"}
    services.edit(agent, job.public_id, name="Drink coffee", kwargs=kwargs)

    assert public_id_of(agent.jobs(), "drink tea") == Ok(job.public_id)
    new = JobFactory(owner=owner, name="Drink tea", name_skeleton=skeleton("Drink tea"))
    assert public_id_of(agent.jobs(), "drink tea") == Ok(new.public_id)


def test_name_that_somebody_has_replaced_finds_nothing(agent, owner):
    services.edit(agent, job_called("Backup", owner).public_id, name="NAS")

    assert public_id_of(agent.jobs(), "Backup") == Ok("Backup")
