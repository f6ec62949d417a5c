from greetings.models import Greeting
from schedules.tasks import task


@task("greetings.greet")
def greet(name: str) -> str:
    Greeting.objects.create(name=name)
    return f"Hello {name}"
