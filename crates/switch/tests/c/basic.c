/* The C interface, case by case. Prints "ok"; any other end is a failure. */
#define _GNU_SOURCE
#include <fenv.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lancet_switch.h"

#define CHECK(what)                                                                              \
    do {                                                                                         \
        if (!(what)) {                                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                           \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

static void *count(lancet_fiber *self, void *first, void *argument) {
    intptr_t sum = (intptr_t)first;
    for (int i = 0; i < 3; i++)
        sum += (intptr_t)lancet_suspend(self, (void *)sum);
    return (char *)argument + sum;
}

static void values(void) {
    lancet_fiber *f;
    char base[100];
    CHECK(lancet_fiber_new(&f, count, base, NULL) == 0);
    CHECK(lancet_fiber_state(f) == LANCET_STATE_SUSPENDED);
    for (intptr_t i = 0; i < 3; i++) {
        lancet_result r = lancet_resume(f, (void *)10);
        CHECK(r.status == LANCET_SUSPENDED && r.value == (void *)(10 * (i + 1)));
    }
    lancet_result r = lancet_resume(f, (void *)10);
    CHECK(r.status == LANCET_FINISHED && r.value == base + 40);
    CHECK(lancet_fiber_state(f) == LANCET_STATE_DONE);
    CHECK(lancet_resume(f, NULL).status == LANCET_EDONE);
    CHECK(lancet_cancel(f) == 0);
    CHECK(lancet_fiber_free(f) == 0);
}

static void *reenter(lancet_fiber *self, void *first, void *argument) {
    (void)first, (void)argument;
    CHECK(lancet_fiber_state(self) == LANCET_STATE_RUNNING);
    CHECK(lancet_resume(self, NULL).status == LANCET_ERUNNING);
    CHECK(lancet_cancel(self) == LANCET_ERUNNING);
    CHECK(lancet_fiber_free(self) == LANCET_ERUNNING);
    CHECK(lancet_fiber_discard(self) == LANCET_ERUNNING);
    return NULL;
}

static void running(void) {
    lancet_fiber *f;
    CHECK(lancet_fiber_new(&f, reenter, NULL, NULL) == 0);
    CHECK(lancet_resume(f, NULL).status == LANCET_FINISHED);
    CHECK(lancet_fiber_free(f) == 0);
}

static void *nest(lancet_fiber *self, void *first, void *argument) {
    intptr_t depth = (intptr_t)first;
    (void)argument;
    lancet_suspend(self, NULL);
    if (depth == 0)
        return NULL;
    lancet_fiber *inner;
    CHECK(lancet_fiber_new(&inner, nest, NULL, NULL) == 0);
    CHECK(lancet_resume(inner, (void *)(depth - 1)).status == LANCET_SUSPENDED);
    lancet_result r = lancet_resume(inner, NULL);
    CHECK(r.status == LANCET_FINISHED);
    CHECK(lancet_fiber_free(inner) == 0);
    return (char *)r.value + 1;
}

static void nested(void) {
    lancet_fiber *f;
    CHECK(lancet_fiber_new(&f, nest, NULL, NULL) == 0);
    lancet_resume(f, (void *)50);
    CHECK(lancet_resume(f, NULL).value == (void *)50);
    CHECK(lancet_fiber_free(f) == 0);
}

static int cleaned;

static void clean(int *what) { cleaned += *what; }

static void *with_cleanup(lancet_fiber *self, void *first, void *argument) {
    int one __attribute__((cleanup(clean))) = 1;
    (void)first, (void)argument;
    lancet_suspend(self, &one);
    CHECK(!"resumed after its cancellation");
    return NULL;
}

/* Compiled with -fexceptions, C has destructors too. */
static void cancelled(void) {
    lancet_fiber *f;
    CHECK(lancet_fiber_new(&f, with_cleanup, NULL, NULL) == 0);
    lancet_resume(f, NULL);
    CHECK(lancet_cancel(f) == 0 && cleaned == 1);
    CHECK(lancet_fiber_state(f) == LANCET_STATE_DONE);
    CHECK(lancet_fiber_free(f) == 0);

    CHECK(lancet_fiber_new(&f, with_cleanup, NULL, NULL) == 0);
    CHECK(lancet_fiber_free(f) == 0 && cleaned == 1); /* never ran */
    CHECK(lancet_fiber_new(&f, with_cleanup, NULL, NULL) == 0);
    lancet_resume(f, NULL);
    CHECK(lancet_fiber_free(f) == 0 && cleaned == 2);
    CHECK(lancet_fiber_new(&f, with_cleanup, NULL, NULL) == 0);
    lancet_resume(f, NULL);
    CHECK(lancet_fiber_discard(f) == 0 && cleaned == 2);
}

static void sizes(void) {
    lancet_fiber *f;
    lancet_options o = LANCET_OPTIONS_INIT;
    o.stack_size = 1;
    CHECK(lancet_fiber_new(&f, count, NULL, &o) == LANCET_ETOOSMALL);
    o.stack_size = SIZE_MAX;
    CHECK(lancet_fiber_new(&f, count, NULL, &o) == LANCET_ETOOLARGE);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    /* Shadow memory for half an address space takes a sanitizer for ever. */
    o.stack_size = (size_t)1 << 46;
    int e = lancet_fiber_new(&f, count, NULL, &o);
    CHECK(e == LANCET_ENOMEM || e == 0);
    if (e == 0)
        lancet_fiber_free(f);
#endif
    CHECK(lancet_fiber_new(NULL, count, NULL, NULL) == LANCET_EINVALID);
    CHECK(lancet_fiber_new(&f, NULL, NULL, NULL) == LANCET_EINVALID);
    o.stack_size = 1 << 20;
    CHECK(lancet_fiber_new(&f, count, NULL, &o) == 0);
    size_t size;
    CHECK(lancet_fiber_high_water(f, &size) == 4096 && size == 1 << 20);
    CHECK(lancet_fiber_free(f) == 0);
    for (int code = -12; code <= 0; code++)
        CHECK(strcmp(lancet_strerror(code), "no such code") != 0);
}

static int freed;

static void on_free(void *stack, size_t size, void *user) {
    CHECK(user == &freed);
    freed++;
    munmap(stack, size);
}

static void own_memory(void) {
    lancet_options o = LANCET_OPTIONS_INIT;
    o.stack_size = 65536;
    o.stack = mmap(NULL, o.stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    o.stack_free = on_free;
    o.stack_user = &freed;
    lancet_fiber *f;
    CHECK(lancet_fiber_new(&f, count, NULL, &o) == 0);
    CHECK(lancet_resume(f, (void *)7).value == (void *)7);
    CHECK(lancet_fiber_free(f) == 0 && freed == 1);
}

static void pools(void) {
    lancet_pool *pool;
    lancet_pool_config c = {.stack_size = 32768, .guard_size = 4096, .max_stacks = 2,
                            .reuse = LANCET_REUSE_DONTNEED};
    CHECK(lancet_pool_new(&pool, &c) == 0);
    lancet_options o = LANCET_OPTIONS_INIT;
    o.pool = pool;
    lancet_fiber *a, *b, *d;
    CHECK(lancet_fiber_new(&a, count, NULL, &o) == 0);
    CHECK(lancet_fiber_new(&b, count, NULL, &o) == 0);
    CHECK(lancet_fiber_new(&d, count, NULL, &o) == LANCET_EPOOLFULL);
    lancet_pool_statistics s;
    lancet_pool_stats(pool, &s);
    CHECK(s.live == 2 && s.peak == 2 && s.free == 0 && s.given == 2);
    CHECK(s.light_guards + s.mprotect_guards == 2);
    CHECK(lancet_fiber_free(a) == 0);
    lancet_pool_stats(pool, &s);
    CHECK(s.live == 1 && s.free == 1);
    lancet_pool_trim(pool);
    lancet_pool_free(pool);
    CHECK(lancet_resume(b, (void *)5).value == (void *)5); /* outlives the handle */
    CHECK(lancet_fiber_free(b) == 0);
    c.reuse = 9;
    CHECK(lancet_pool_new(&pool, &c) == LANCET_EINVALID);
}

static void *rounds_up(lancet_fiber *self, void *first, void *argument) {
    (void)first, (void)argument;
    fesetround(FE_UPWARD);
    lancet_suspend(self, NULL);
    return (void *)(intptr_t)fegetround();
}

static void control_words(void) {
    lancet_options o = LANCET_OPTIONS_INIT;
    for (int keep = 0; keep < 2; keep++) {
        lancet_fiber *f;
        o.flags = keep ? LANCET_KEEP_FP : 0;
        CHECK(lancet_fiber_new(&f, rounds_up, NULL, &o) == 0);
        lancet_resume(f, NULL);
        CHECK(fegetround() == (keep ? FE_TONEAREST : FE_UPWARD));
        fesetround(FE_DOWNWARD);
        CHECK((intptr_t)lancet_resume(f, NULL).value == (keep ? FE_UPWARD : FE_DOWNWARD));
        CHECK(fegetround() == FE_DOWNWARD);
        fesetround(FE_TONEAREST);
        CHECK(lancet_fiber_free(f) == 0);
    }
}

/* Flags of exceptions are the thread's, whether the control words travel or not, and whether they differ or not. */
static void *divides_by_zero(lancet_fiber *self, void *first, void *argument) {
    volatile double zero = 0, quotient;
    (void)argument;
    if (first)
        fesetround(FE_UPWARD);
    quotient = 1 / zero;
    lancet_suspend(self, NULL);
    return (void *)(intptr_t)(quotient > 0 && fetestexcept(FE_INVALID) != 0);
}

static void flags_are_the_threads(void) {
    lancet_options o = LANCET_OPTIONS_INIT;
    for (int turn = 0; turn < 4; turn++) {
        lancet_fiber *f;
        o.flags = turn & 1 ? LANCET_KEEP_FP : 0;
        feclearexcept(FE_ALL_EXCEPT);
        CHECK(lancet_fiber_new(&f, divides_by_zero, NULL, &o) == 0);
        lancet_resume(f, (void *)(intptr_t)(turn & 2));
        CHECK(fetestexcept(FE_DIVBYZERO) != 0);
        feraiseexcept(FE_INVALID);
        CHECK((intptr_t)lancet_resume(f, NULL).value == 1);
        CHECK(fetestexcept(FE_DIVBYZERO) != 0 && fetestexcept(FE_INVALID) != 0);
        fesetround(FE_TONEAREST);
        feclearexcept(FE_ALL_EXCEPT);
        CHECK(lancet_fiber_free(f) == 0);
    }
}

static void *jumps(lancet_fiber *self, void *first, void *argument) {
    jmp_buf here;
    volatile int times = 0;
    (void)first, (void)argument;
    if (setjmp(here) < 3) {
        lancet_suspend(self, NULL);
        longjmp(here, ++times);
    }
    return (void *)(intptr_t)times;
}

static void long_jump_within_a_stack(void) {
    lancet_fiber *f;
    CHECK(lancet_fiber_new(&f, jumps, NULL, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(lancet_resume(f, NULL).status == LANCET_SUSPENDED);
    CHECK(lancet_resume(f, NULL).value == (void *)3);
    CHECK(lancet_fiber_free(f) == 0);
}

static lancet_fiber *moved;

static void *resume_there(void *unused) {
    return lancet_resume(moved, unused).value;
}

static void another_thread(void) {
    CHECK(lancet_fiber_new(&moved, count, NULL, NULL) == 0);
    CHECK(lancet_resume(moved, (void *)1).value == (void *)1);
    pthread_t thread;
    void *value;
    CHECK(pthread_create(&thread, NULL, resume_there, (void *)2) == 0);
    CHECK(pthread_join(thread, &value) == 0 && value == (void *)3);
    CHECK(lancet_resume(moved, (void *)3).value == (void *)6);
    CHECK(lancet_fiber_free(moved) == 0);
}

#ifndef __SANITIZE_THREAD__
static volatile sig_atomic_t signals;

static void on_signal(int number) { (void)number, signals++; }

static void *busy(lancet_fiber *self, void *first, void *argument) {
    (void)argument;
    while (first)
        first = lancet_suspend(self, first);
    return NULL;
}

/* Handlers run on whatever stack is current, in the middle of switches too. */
static void signals_on_any_stack(void) {
    lancet_fiber *f[2];
    signal(SIGALRM, on_signal);
    ualarm(200, 200);
    for (int i = 0; i < 2; i++)
        CHECK(lancet_fiber_new(&f[i], busy, NULL, NULL) == 0);
    for (intptr_t n = 1; signals < 200; n++)
        CHECK(lancet_resume(f[n & 1], (void *)n).value == (void *)n);
    ualarm(0, 0);
    for (int i = 0; i < 2; i++)
        CHECK(lancet_fiber_free(f[i]) == 0);
}

#endif

static void *forks(lancet_fiber *self, void *first, void *argument) {
    (void)argument;
    pid_t child = fork();
    CHECK(child >= 0);
    first = lancet_suspend(self, first);
    if (child == 0)
        _exit((int)(intptr_t)first);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return (void *)(intptr_t)WEXITSTATUS(status);
}

static void fork_on_a_fiber(void) {
    lancet_fiber *f;
    CHECK(lancet_fiber_new(&f, forks, NULL, NULL) == 0);
    lancet_resume(f, NULL);
    CHECK(lancet_resume(f, (void *)42).value == (void *)42);
    CHECK(lancet_fiber_free(f) == 0);
}

static __thread int local;

static void *locals(lancet_fiber *self, void *first, void *argument) {
    (void)first, (void)argument;
    local++;
    lancet_suspend(self, &local);
    local++;
    return &local;
}

static void thread_locals(void) {
    lancet_fiber *f;
    CHECK(lancet_fiber_new(&f, locals, NULL, NULL) == 0);
    CHECK(lancet_resume(f, NULL).value == &local && local == 1);
    local = 10;
    CHECK(lancet_resume(f, NULL).value == &local && local == 11);
    CHECK(lancet_fiber_free(f) == 0);
}

int main(void) {
    values();
    running();
    nested();
    cancelled();
    sizes();
    own_memory();
    pools();
    control_words();
    flags_are_the_threads();
    long_jump_within_a_stack();
    another_thread();
#ifndef __SANITIZE_THREAD__ /* which holds signals back until the next system call */
    signals_on_any_stack();
#endif
    fork_on_a_fiber();
    thread_locals();
    puts("ok");
    return 0;
}
