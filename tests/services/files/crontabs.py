"""A crontab of real life, with what cron, people and packages put into it."""

REAL_LIFE = r"""# Edit this file to introduce tasks to be run by cron.
#
# m h  dom mon dow   command
SHELL=/bin/bash
PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin
MAILTO="root@example.org, ops@example.org"
HOME = /home/olga
BACKUP_DIR='/srv/backups'

# ---- backups ----
# Nightly backup
0 3 * * * /usr/local/bin/backup.sh --all
# Backup of the database, compressed
30 2 * * 1-5 pg_dump shop | gzip > /srv/backups/shop.$(date +\%F).gz
15 4 * * 0 /usr/bin/rsync -a --delete /srv/ backup@nas:/srv/ >/dev/null 2>&1
@daily /usr/bin/find /tmp/cache -type f -mtime +7 -delete
@weekly restic prune
@monthly cd /srv/app && ./report.sh
@reboot /home/olga/bin/start-tunnel
#0 5 * * * /usr/local/bin/old-job
*/5 * * * * /usr/bin/php /var/www/nextcloud/cron.php
*/15 * * * * cd /var/www/site && /usr/bin/php artisan schedule:run >> /dev/null 2>&1
0-59/10 8-18 * * mon-fri /opt/check.py --quiet
10-50/10 * * * * /opt/ten.sh
5,35 * * * * ./bin/relative.sh now
0 0 1 1 * echo "Happy new year" | mail -s "Greetings" all@example.org
0 9 * * 1 mail -s "Weekly" team@example.org%Hello team,%%see you at ten.%
0 22 * * 5 /usr/bin/test -x /opt/x && /opt/x
59 23 28-31 * * [ "$(date +\%d -d tomorrow)" = "01" ] && /opt/month-end.sh
0 6 * jan,apr,jul,oct * /opt/quarterly.sh
0 0 * * 7 /opt/sunday.sh
00 08 * * * /opt/leading-zeros.sh
* * * * * /usr/bin/flock -n /tmp/x.lock /opt/every-minute.sh
*/2 * * * * sleep 30; /opt/half-minute.sh
-*/30 * * * * /opt/without-log.sh
0 12 * * * DISPLAY=:0 notify-send lunch
0 13 * * * FOO=bar BAZ="a b" /opt/with-variables.sh
45 6 * * * . /home/olga/.profile; /opt/login-shell.sh
17 * * * * cd / && run-parts --report /etc/cron.hourly
0 4 * * * /usr/bin/docker ps --format '{{names}}' > /tmp/names
5 4 * * * /usr/bin/awk '{print $1}' /var/log/syslog
25 4 * * * /opt/braces.sh {name} {{x}}
0 5 31 2 * /opt/never.sh
0 25 * * * /opt/bad-hour.sh
0~30 5 * * * /opt/random.sh
@every 5m /opt/go-style.sh
0 5 * * ? /opt/quartz.sh
0 0 5 * * * /opt/six-fields.sh
0 5 * *
this is not a cron line
RANDOM_DELAY=45

CRON_TZ=America/New_York
# New York opening bell
30 9 * * 1-5 /opt/bell.sh open
# New York opening bell
35 9 * * 1-5 /opt/bell.sh open
0 16 * * 1-5 /opt/bell.sh close
CRON_TZ=Mars/Olympus
0 1 * * * /opt/mars.sh
CRON_TZ=Europe/Berlin
TZ=UTC
LANG=de_DE.UTF-8
0 7 * * * /opt/berlin.sh "quoted argument" 'single one'
0 8 * * *	/opt/tab.sh	tabbed
50 23 * * * /opt/ümlaut.sh --name=Zoë
"""
