"""Names of imported lines: they say what runs, and never show a password."""

import pytest

from schedules.services.files.crontab import parse_crontab
from schedules.services.files.crontab_jobs import make_jobs
from schedules.services.files.crontab_names import LONGEST_NAME, readable_name

LINES = [
    ("/usr/local/bin/backup.sh --full > /dev/null", "backup --full"),
    (
        "/usr/bin/rsync -a --delete /srv/ backup@nas:/srv/ >/dev/null 2>&1",
        "rsync -a --delete srv backup@nas:/srv/",
    ),
    ("cd /var/www/site && /usr/bin/php artisan schedule:run >> /dev/null 2>&1", "artisan schedule:run"),
    ("/usr/bin/php -f /var/www/nextcloud/cron.php", "nextcloud/cron"),
    ("pg_dump shop | gzip > /srv/backups/shop.$(date +%F).gz", "pg_dump shop"),
    ("[ -x /usr/bin/certbot ] && /usr/bin/certbot -q renew", "certbot -q renew"),
    (
        "test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )",
        "run-parts --report cron.daily",
    ),
    ("/usr/bin/flock -n /tmp/x.lock /opt/every-minute.sh", "every-minute"),
    ('flock -w 10 /var/lock/sync -c "/opt/sync.sh --all"', "sync --all"),
    ("nice -n 19 ionice -c3 /usr/bin/find /tmp/cache -type f -delete", "find cache -type f -delete"),
    ("sudo -u postgres /usr/bin/vacuumdb --all --analyze", "vacuumdb --all --analyze"),
    ("bash -lc 'cd /srv/app && bundle exec rake reports:daily'", "bundle exec rake reports:daily"),
    ("/srv/venv/bin/python /srv/app/manage.py clearsessions", "manage clearsessions"),
    ("/usr/bin/python3 -m compileall -q /srv/app", "compileall -q app"),
    (
        "curl -fsS --retry 3 https://me:pw@hc-ping.com/abc?token=1 > /dev/null",
        "curl -fsS --retry 3 hc-ping.com/abc",
    ),
    (
        "mysqldump -u root -phunter2 --databases shop | gzip > /srv/shop.gz",
        "mysqldump -u root --databases shop",
    ),
    ("/opt/report --api-key=abc --token hush daily", "report --api-key --token daily"),
    ('FOO=bar BAZ="a b" /opt/with-variables.sh', "with-variables"),
    ("sleep 30; /opt/half-minute.sh", "half-minute"),
    ("timeout 60 /usr/bin/wget -q -O - http://localhost/cron.php", "wget -q -O - localhost/cron.php"),
    (". /home/olga/.profile; /opt/login-shell.sh", "login-shell"),
    ("if [ -f /tmp/a ]; then /opt/archive.sh; fi", "archive"),
    ("(cd /srv && make -s nightly)", "make -s nightly"),
    ("echo hello", "echo hello"),
]


@pytest.mark.parametrize(("line", "name"), LINES)
def test_name_says_what_runs(line, name):
    assert readable_name(line) == name


@pytest.mark.parametrize(
    "line", ["", ";;", '"unfinished', "A=1", "sudo", "bash -c", "x" * 5000, "a " * 3000, "sh -c 'sh -c x'"]
)
def test_name_of_an_odd_line_is_short_and_no_error(line):
    assert len(readable_name(line)) <= LONGEST_NAME


def test_imported_jobs_and_commands_have_such_names_which_are_unique():
    lines = [line.replace("%", r"\%") for line, _ in LINES]
    text = "".join(f"0 3 * * * {line}\n" for line in [*lines, "/opt/backup.sh --full"])
    entries = parse_crontab(text, timezone="UTC", user="olga", home="/home/olga").entries

    commands, jobs = make_jobs(entries, {}, lambda name: False)

    names = [job.get("name", key) for key, job in jobs.items()]
    assert names == [*[name for _, name in LINES], "backup --full (2)"]
    assert len(commands) == len(lines) + 1
    assert {"backup-full", "backup-full-2", "certbot-q-renew", "nextcloud-cron"} <= set(commands)
    assert not any("hunter2" in name or "hush" in name for name in (*names, *commands))
