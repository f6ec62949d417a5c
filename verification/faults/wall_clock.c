/* A library to preload: the wall clock of a process is wrong by WALL_CLOCK_OFFSET seconds, its monotonic clock is right. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long offset(void)
{
    const char *seconds = getenv("WALL_CLOCK_OFFSET");
    return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*original)(clockid_t, struct timespec *);
    if (!original)
        original = dlsym(RTLD_NEXT, "clock_gettime");
    int result = original(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}

/* The kernel compares the deadline with the right clock. */
int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline)
{
    static int (*original)(sem_t *, const struct timespec *);
    if (!original)
        original = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec right = *deadline;
    right.tv_sec -= offset();
    return original(semaphore, &right);
}
