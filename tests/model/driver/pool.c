/* The pool's threads run parts of a job. Each part waits until all parts have started, so that each needs a separate
 * thread.
 *
 * Jobs go to new threads, to sleeping threads, and to those of a child process. A part that waits in vain gives up
 * after two seconds, and then no part waits any more. */
#include "matmul_pool.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, JOBS = 20 };
#define PATIENCE 2000000000

static _Atomic int begun, in_vain;

static void meet(void *job, int64_t part) {
    const int64_t until = i2s_pool_now() + PATIENCE;
    (void)job, (void)part;
    atomic_fetch_add(&begun, 1);
    while (atomic_load(&begun) < THREADS && !atomic_load(&in_vain)) {
        if (i2s_pool_now() > until) atomic_store(&in_vain, 1);
        usleep(50);
    }
}

/* Whether all threads except the caller's sleep in the end. */
static int asleep(void) {
    const int64_t until = i2s_pool_now() + PATIENCE;
    while (atomic_load(&i2s_pool.sleepers) < THREADS - 1) {
        if (i2s_pool_now() > until) return 0;
        usleep(50);
    }
    return 1;
}

static int met(void) {
    atomic_store(&begun, 0);
    i2s_pool_run(meet, NULL, THREADS, THREADS);
    return !atomic_load(&in_vain) && atomic_load(&begun) == THREADS;
}

int main(void) {
    int status, i;
    if (!met()) return printf("new threads did nothing\n"), 1;
    for (i = 0; i < JOBS; i++) {
        if (!asleep()) return printf("threads do not sleep\n"), 1;
        if (!met()) return printf("threads that slept did nothing\n"), 1;
    }
    const pid_t child = fork();
    if (child == 0) _exit(met() && asleep() && met() ? 0 : 1);
    if (waitpid(child, &status, 0) != child || status != 0) return printf("threads of a child did nothing\n"), 1;
    printf("all threads met\n");
    return 0;
}
