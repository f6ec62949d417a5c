"""Snippets that make a job on another machine send its pings, in the format that other ping services share."""

from schedules.web.snippets import Snippet


def ping_snippets(url: str, named_url: str) -> list[Snippet]:
    """Return a snippet for each kind of scheduler or program that can send pings."""
    return [
        Snippet(
            "crontab",
            "crontab",
            "Add this to the end of the line. The exit code says whether it succeeded.",
            f"17 3 * * * /usr/local/bin/backup; curl -fsS -m 10 --retry 5 -o /dev/null {url}/$?",
        ),
        Snippet(
            "cronty",
            "cronty exec",
            "Wraps a command on any machine with the package: start, end, exit code and output, also after an outage.",
            f"CRONTY_URL={url.partition('/ping/')[0]} cronty exec --job {url.rpartition('/')[2]} -- /usr/local/bin/backup",
        ),
        Snippet("shell", "Shell script", "With the time it takes and its output.", _shell(url)),
        Snippet(
            "systemd",
            "systemd",
            "Add this to the [Service] section of the unit that the timer starts.",
            f"ExecStartPre=-/usr/bin/curl -fsS -m 10 --retry 5 -o /dev/null {url}/start\n"
            # For a program that was killed, EXIT_STATUS is the name of a signal.
            "ExecStopPost=-/bin/sh -c 'curl -fsS -m 10 --retry 5 -o /dev/null "
            f'{url}/$$([ "$$EXIT_CODE" = exited ] && echo $$EXIT_STATUS || echo fail)\'',
        ),
        Snippet(
            "windows",
            "Windows",
            "Add this after the program in the PowerShell script that the Task Scheduler runs.",
            # Windows exit codes can exceed the range that pings accept.
            f'curl.exe -fsS -m 10 --retry 5 -o NUL "{url}/$([int][bool]$LASTEXITCODE)"',
        ),
        Snippet("github", "GitHub Actions", "Add these steps to the end of the job.", _github(url)),
        Snippet(
            "borgmatic",
            "borgmatic",
            "Add this to its configuration file.",
            f"healthchecks:\n    ping_url: {url}\n    send_logs: true",
        ),
        Snippet(
            "runitor",
            "runitor",
            "Wraps a command: sends its start, its end and its output.",
            f"runitor -api-url {url.rpartition('/')[0]} -uuid {url.rpartition('/')[2]} -- /usr/local/bin/backup",
        ),
        Snippet(
            "python",
            "Python",
            "Add this where the work is done.",
            f'from urllib.request import urlopen\n\nurlopen("{named_url or url}", timeout=10)',
        ),
    ]


def _shell(url: str) -> str:
    return (
        "#!/bin/sh\n"
        "rid=$(cat /proc/sys/kernel/random/uuid)\n"
        f'curl -fsS -m 10 --retry 5 -o /dev/null "{url}/start?rid=$rid"\n'
        "output=$(/usr/local/bin/backup 2>&1); code=$?\n"
        'printf %s "$output" | tail -c 100000 |\n'
        f'  curl -fsS -m 10 --retry 5 -o /dev/null --data-binary @- "{url}/$code?rid=$rid"\n'
        "exit $code"
    )


def _github(url: str) -> str:
    return (
        "- name: Report success\n"
        f"  run: curl -fsS -m 10 --retry 5 -o /dev/null {url}\n"
        "- name: Report failure\n"
        "  if: failure()\n"
        f"  run: curl -fsS -m 10 --retry 5 -o /dev/null {url}/fail"
    )
