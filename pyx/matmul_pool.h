/* Threads that run parts of a job: started once, asleep between jobs, absent in a forked child.
 *
 * A decoder computes hundreds of small products for each token. Starting a thread takes longer than some of them, so
 * threads remain; and waking one takes about as long, so after a job a thread polls for the next one for a while before
 * it sleeps. Parts are claimed one by one, by the caller too: nobody waits for a thread that has not started, and if
 * threads cannot be started, or another caller's job uses them, the caller does everything. The parts do not depend on
 * the thread that runs them.
 */
#ifndef I2S_MATMUL_POOL_H
#define I2S_MATMUL_POOL_H

#include <stdint.h>

typedef void (*i2s_pool_part)(void *job, int64_t part);

#if defined(_WIN32)

typedef int i2s_pool_flag;

#define I2S_POOL_MOST_PARTS 1
static void i2s_pool_run(i2s_pool_part run, void *job, int64_t parts, int64_t threads) {
    (void)threads;
    for (int64_t i = 0; i < parts; i++) run(job, i);
}

#else

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

typedef _Atomic int i2s_pool_flag; /* which several parts of a job may set */

#define I2S_POOL_MOST_HELPERS 255  /* threads beside the caller */
#define I2S_POOL_MOST_PARTS 65535
#define I2S_POOL_LOOKOUT 60000     /* nanoseconds that a thread polls for a job before it sleeps */

#if defined(__x86_64__) || defined(__i386__)
#define I2S_POOL_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define I2S_POOL_PAUSE() __asm__ volatile("yield")
#else
#define I2S_POOL_PAUSE() (void)0
#endif

/* What threads poll, what they write when done, and what a caller writes before a job are in separate cache lines, two
 * apart, since some processors fetch lines in pairs: otherwise polling would take the line from the writer. */
#define I2S_POOL_LINE __attribute__((aligned(128)))

static struct {
    pthread_mutex_t busy; /* held by the caller whose job runs */
    pthread_mutex_t lock; /* held to go to sleep and to wake others */
    pthread_cond_t wake, done;
    int64_t started;
    /* The numbers of threads that sleep or are about to, and whether the caller does. A thread about to sleep announces
     * it first and then checks again; a thread with a job for it writes the job first and then checks: one of the two
     * sees the other. */
    _Atomic int64_t sleepers;
    _Atomic int caller_sleeps;
    /* The number of the job, the number of helping threads, the next part and the number of parts: one word, so that a
     * thread that claims a part knows that it belongs to the job whose fields follow. */
    I2S_POOL_LINE _Atomic uint64_t ticket;
    I2S_POOL_LINE _Atomic int64_t left; /* parts that are not done */
    I2S_POOL_LINE i2s_pool_part run;
    void *job;
} i2s_pool = {.busy = PTHREAD_MUTEX_INITIALIZER,
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .wake = PTHREAD_COND_INITIALIZER,
              .done = PTHREAD_COND_INITIALIZER};

#define I2S_TICKET(number, helpers, parts) ((uint64_t)(number) << 40 | (uint64_t)(helpers) << 32 | (uint64_t)(parts))
#define I2S_TICKET_NUMBER(t) ((t) >> 40)
#define I2S_TICKET_HELPERS(t) ((int64_t)((t) >> 32 & 0xFF))
#define I2S_TICKET_NEXT(t) ((int64_t)((t) >> 16 & 0xFFFF))
#define I2S_TICKET_PARTS(t) ((int64_t)((t) & 0xFFFF))
#define I2S_TICKET_ONE_PART ((uint64_t)1 << 16)

/* Claim a part of the current job, and run it. */
static int i2s_pool_claim(void) {
    uint64_t ticket = atomic_load_explicit(&i2s_pool.ticket, memory_order_acquire);
    do
        if (I2S_TICKET_NEXT(ticket) >= I2S_TICKET_PARTS(ticket)) return 0;
    while (!atomic_compare_exchange_weak_explicit(&i2s_pool.ticket, &ticket, ticket + I2S_TICKET_ONE_PART,
                                                  memory_order_acq_rel, memory_order_acquire));
    i2s_pool.run(i2s_pool.job, I2S_TICKET_NEXT(ticket));
    if (atomic_fetch_sub(&i2s_pool.left, 1) == 1 && atomic_load(&i2s_pool.caller_sleeps)) {
        pthread_mutex_lock(&i2s_pool.lock);
        pthread_cond_signal(&i2s_pool.done);
        pthread_mutex_unlock(&i2s_pool.lock);
    }
    return 1;
}

static int64_t i2s_pool_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int i2s_pool_mine(uint64_t ticket, int64_t me) {
    return me < I2S_TICKET_HELPERS(ticket) && I2S_TICKET_NEXT(ticket) < I2S_TICKET_PARTS(ticket);
}

static uint64_t i2s_pool_ticket(void) { return atomic_load_explicit(&i2s_pool.ticket, memory_order_acquire); }

/* Wait until there is a job for this thread: first polling, then asleep. */
static void i2s_pool_wait(int64_t me) {
    const int64_t until = i2s_pool_now() + I2S_POOL_LOOKOUT;
    do
        for (int i = 0; i < 64; i++) { /* reading the clock takes longer than polling */
            if (i2s_pool_mine(i2s_pool_ticket(), me)) return;
            I2S_POOL_PAUSE();
        }
    while (i2s_pool_now() < until);
    pthread_mutex_lock(&i2s_pool.lock);
    atomic_fetch_add(&i2s_pool.sleepers, 1);
    while (!i2s_pool_mine(atomic_load(&i2s_pool.ticket), me)) pthread_cond_wait(&i2s_pool.wake, &i2s_pool.lock);
    atomic_fetch_sub(&i2s_pool.sleepers, 1);
    pthread_mutex_unlock(&i2s_pool.lock);
}

static void *i2s_pool_thread(void *of) {
    const int64_t me = (int64_t)(intptr_t)of;
    for (;;) {
        i2s_pool_wait(me);
        while (i2s_pool_mine(i2s_pool_ticket(), me) && i2s_pool_claim()) {}
    }
    return NULL;
}

/* Wait until the last part is done. */
static void i2s_pool_finish(void) {
    const int64_t until = i2s_pool_now() + I2S_POOL_LOOKOUT;
    do
        for (int i = 0; i < 64; i++) {
            if (atomic_load_explicit(&i2s_pool.left, memory_order_acquire) == 0) return;
            I2S_POOL_PAUSE();
        }
    while (i2s_pool_now() < until);
    pthread_mutex_lock(&i2s_pool.lock);
    atomic_store(&i2s_pool.caller_sleeps, 1);
    while (atomic_load(&i2s_pool.left) > 0) pthread_cond_wait(&i2s_pool.done, &i2s_pool.lock);
    atomic_store(&i2s_pool.caller_sleeps, 0);
    pthread_mutex_unlock(&i2s_pool.lock);
}

/* A forked child has no threads, whatever was running. */
static void i2s_pool_forked(void) {
    pthread_mutex_init(&i2s_pool.busy, NULL);
    pthread_mutex_init(&i2s_pool.lock, NULL);
    pthread_cond_init(&i2s_pool.wake, NULL);
    pthread_cond_init(&i2s_pool.done, NULL);
    i2s_pool.started = 0;
    atomic_store(&i2s_pool.sleepers, 0);
    atomic_store(&i2s_pool.caller_sleeps, 0);
    atomic_store(&i2s_pool.ticket, 0);
    atomic_store(&i2s_pool.left, 0);
}

static void i2s_pool_prepare(void) { pthread_atfork(NULL, NULL, i2s_pool_forked); }

/* Start this many threads if possible. Signals are left to the threads that existed before. */
static void i2s_pool_start(int64_t helpers) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, i2s_pool_prepare);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (i2s_pool.started < helpers) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, i2s_pool_thread, (void *)(intptr_t)i2s_pool.started) != 0) break;
        pthread_detach(thread);
        i2s_pool.started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* run(job, 0), run(job, 1) ... in the calling thread and up to threads - 1 others; returns when all are done. */
static void i2s_pool_run(i2s_pool_part run, void *job, int64_t parts, int64_t threads) {
    int64_t helpers = (threads < parts ? threads : parts) - 1;
    if (helpers > I2S_POOL_MOST_HELPERS) helpers = I2S_POOL_MOST_HELPERS;
    if (helpers < 1 || parts > I2S_POOL_MOST_PARTS || pthread_mutex_trylock(&i2s_pool.busy) != 0) {
        for (int64_t i = 0; i < parts; i++) run(job, i);
        return;
    }
    if (i2s_pool.started < helpers) i2s_pool_start(helpers);
    i2s_pool.run = run;
    i2s_pool.job = job;
    atomic_store_explicit(&i2s_pool.left, parts, memory_order_relaxed);
    const uint64_t before = atomic_load_explicit(&i2s_pool.ticket, memory_order_relaxed);
    atomic_store(&i2s_pool.ticket, I2S_TICKET(I2S_TICKET_NUMBER(before) + 1, helpers, parts));
    if (atomic_load(&i2s_pool.sleepers) > 0) {
        pthread_mutex_lock(&i2s_pool.lock);
        pthread_cond_broadcast(&i2s_pool.wake);
        pthread_mutex_unlock(&i2s_pool.lock);
    }

    while (i2s_pool_claim()) {}
    i2s_pool_finish();
    pthread_mutex_unlock(&i2s_pool.busy);
}

#endif
#endif
