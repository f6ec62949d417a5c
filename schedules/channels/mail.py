"""The e-mail channel: messages through the operator's mail server, with Django's mail backend."""

import asyncio
import smtplib
from concurrent.futures import ThreadPoolExecutor
from email.utils import make_msgid

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import EmailValidator

from schedules.channels.kinds import ChannelKind, Field, Values
from schedules.channels.message import HIGH_PRIORITY, Message
from schedules.tasks.interface import Final, RetryLater

# A separate pool: a slow mail server must not block the threads that everything else uses.
_threads = ThreadPoolExecutor(4, "mail")
# Backends that send nothing.
_WITHOUT_SERVER = ("console.EmailBackend", "dummy.EmailBackend")


def has_mail_server() -> bool:
    """Return whether mail really leaves this machine."""
    return not settings.EMAIL_BACKEND.endswith(_WITHOUT_SERVER)


async def send_mail(values: Values, message: Message) -> dict[str, object]:
    """Send a message; raises Final or RetryLater if the mail server did not accept it."""
    if not has_mail_server():
        raise Final("This installation has no mail server: the operator sets EMAIL_URL.")
    loop = asyncio.get_running_loop()
    try:
        await loop.run_in_executor(_threads, _mail_of(values["address"], message).send)
    except smtplib.SMTPResponseException as error:
        problem = f"The mail server answered {error.smtp_code}: {_one_line(error.smtp_error)}"
        raise (Final if 500 <= error.smtp_code < 600 else RetryLater)(problem) from error
    except smtplib.SMTPRecipientsRefused as error:
        code, reply = next(iter(error.recipients.values()))
        problem = f"The mail server answered {code}: {_one_line(reply)}"
        raise (Final if 500 <= code < 600 else RetryLater)(problem) from error
    except smtplib.SMTPException as error:
        raise RetryLater(f"The mail server did not take the message: {_one_line(str(error))}") from error
    except OSError as error:
        raise RetryLater(f"Can't reach the mail server: {error.strerror or type(error).__name__}.") from error
    return {"server": settings.EMAIL_HOST}


def _mail_of(address: str, message: Message) -> EmailMessage:
    subject = " ".join((message.title or message.text[:80]).split())
    text = "\n\n".join(part for part in (message.text, message.listed_links) if part)
    headers = {
        # Suppresses out-of-office replies.
        "Auto-Submitted": "auto-generated",
        **({"Importance": "high"} if message.priority >= HIGH_PRIORITY else {}),
        **({"Message-ID": _message_id(message.key)} if message.key else {}),
    }
    return EmailMessage(subject, f"{text}\n", to=[address], headers=headers)


def _message_id(key: str) -> str:
    """Return the same id for every attempt, so that mail programs show a repeated message once."""
    domain = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].strip("> ") or "cronty"
    local_part = "".join(letter if letter.isalnum() else "." for letter in key)
    return f"<{local_part}@{domain}>" if local_part.isascii() else make_msgid(domain=domain)


def _one_line(reply: bytes | str) -> str:
    text = reply.decode(errors="replace") if isinstance(reply, bytes) else reply
    return " ".join(text.split())[:200]


def _address_problem(address: str) -> str | None:
    try:
        EmailValidator()(address)
    except ValidationError:
        return "Enter an e-mail address."
    return None


EMAIL = ChannelKind(
    "email",
    "E-mail",
    (Field("address", "Address", "It gets a code that you enter here.", problem=_address_problem),),
)
