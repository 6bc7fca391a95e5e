/* Switches in C, one row per way, CPU time of the thread: prints "name ns" per round.
 *
 * Every row does the same: a round trip carries one pointer in and back, two switches. The other side has
 * computed something inexact, and this one has not, as in nearly every program: the flags of MXCSR differ, which matters
 * to whoever saves and loads it. The copying rows of a ring are in ring.c. Built against what is there: see ../run. */
#define _GNU_SOURCE
#include <fenv.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "lancet_switch.h"
#ifdef HAVE_MINICORO
#define MINICORO_IMPL
#include "minicoro.h"
#endif
#ifdef HAVE_BOOST
/* boost/context/detail/fcontext.hpp, as C sees it */
typedef void *fcontext_t;
typedef struct {
    fcontext_t from;
    void *data;
} transfer_t;
extern transfer_t jump_fcontext(fcontext_t to, void *data);
extern fcontext_t make_fcontext(void *top, size_t size, void (*entry)(transfer_t));
#endif

#define ROUNDS 1000000
#define STACK (256 << 10)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static volatile double third = 3;

/* The first thing that the other side does. */
static void inexact(void) {
    third = 1 / third;
}

/* Before the other side is made: what it starts with is saved then. */
static void exact(void) {
    third = 3;
    feclearexcept(FE_ALL_EXCEPT);
}

static char *stack(void) {
    char *at = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    return at;
}

static void row(const char *name, double from, double switches) {
    printf("%s %.3f\n", name, (now() - from) / switches);
}

static void *lancet_echo(lancet_fiber *self, void *first, void *argument) {
    (void)argument;
    inexact();
    while (first != (void *)-1)
        first = lancet_suspend(self, first);
    return NULL;
}

static void lancet(const char *name, unsigned flags) {
    lancet_options o = LANCET_OPTIONS_INIT;
    lancet_fiber *f;
    o.flags = flags;
    exact();
    if (lancet_fiber_new(&f, lancet_echo, NULL, &o) != 0)
        exit(1);
    lancet_resume(f, NULL);
    double from = now();
    for (intptr_t i = 0; i < ROUNDS; i++)
        if (lancet_resume(f, (void *)i).value != (void *)i)
            exit(1);
    row(name, from, 2.0 * ROUNDS);
    lancet_fiber_free(f);
}

/* MANY of them in turn, each on a stack of its own: what a loop around one of them has in the caches and predicts is not there. */
#define MANY 1000
static void lancet_many(const char *name) {
    static lancet_fiber *all[MANY];
    exact();
    for (int i = 0; i < MANY; i++) {
        if (lancet_fiber_new(&all[i], lancet_echo, NULL, NULL) != 0)
            exit(1);
        lancet_resume(all[i], NULL);
    }
    double from = now();
    for (intptr_t i = 0; i < ROUNDS; i++)
        if (lancet_resume(all[i % MANY], (void *)i).value != (void *)i)
            exit(1);
    row(name, from, 2.0 * ROUNDS);
    for (int i = 0; i < MANY; i++)
        lancet_fiber_free(all[i]);
}

static ucontext_t uc_main, uc_fiber;
static void *volatile carried;

static void uc_echo(void) {
    inexact();
    for (;;)
        swapcontext(&uc_fiber, &uc_main);
}

static void swapcontexts(void) {
    char *at = stack();
    exact();
    getcontext(&uc_fiber);
    uc_fiber.uc_stack.ss_sp = at;
    uc_fiber.uc_stack.ss_size = STACK;
    makecontext(&uc_fiber, uc_echo, 0);
    swapcontext(&uc_main, &uc_fiber);
    double from = now();
    for (intptr_t i = 0; i < ROUNDS / 10; i++) {
        carried = (void *)i;
        swapcontext(&uc_main, &uc_fiber);
        if (carried != (void *)i)
            exit(1);
    }
    row("swapcontext", from, 2.0 * ROUNDS / 10);
    munmap(at, STACK);
}

static jmp_buf jb_main, jb_fiber;

static void jb_echo(void) {
    inexact();
    if (_setjmp(jb_fiber) == 0)
        swapcontext(&uc_fiber, &uc_main);
    for (;;)
        if (_setjmp(jb_fiber) == 0)
            _longjmp(jb_main, 1);
}

static void setjmps(void) {
    char *at = stack();
    exact();
    getcontext(&uc_fiber);
    uc_fiber.uc_stack.ss_sp = at;
    uc_fiber.uc_stack.ss_size = STACK;
    makecontext(&uc_fiber, jb_echo, 0);
    swapcontext(&uc_main, &uc_fiber);
    double from = now();
    for (volatile intptr_t i = 0; i < ROUNDS; i++) {
        carried = (void *)i;
        if (_setjmp(jb_main) == 0)
            _longjmp(jb_fiber, 1);
        if (carried != (void *)i)
            exit(1);
    }
    row("setjmp/longjmp", from, 2.0 * ROUNDS);
    munmap(at, STACK);
}

static void sigmasks(void) {
    sigset_t set;
    sigemptyset(&set);
    double from = now();
    for (int i = 0; i < ROUNDS / 10; i++)
        syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 8);
    row("rt_sigprocmask", from, ROUNDS / 10.0);
}

#ifdef HAVE_MINICORO
static void minicoro_echo(mco_coro *self) {
    inexact();
    for (;;) {
        void *value;
        mco_pop(self, &value, sizeof value);
        mco_push(self, &value, sizeof value);
        mco_yield(self);
    }
}

static void minicoro_bare(mco_coro *self) {
    inexact();
    for (;;)
        mco_yield(self);
}

static void minicoro(const char *name, void (*body)(mco_coro *), int carry) {
    mco_desc desc = mco_desc_init(body, STACK);
    mco_coro *co;
    exact();
    if (mco_create(&co, &desc) != MCO_SUCCESS)
        exit(1);
    double from = now();
    for (intptr_t i = 0; i < ROUNDS; i++) {
        void *value = (void *)i;
        if (carry)
            mco_push(co, &value, sizeof value);
        mco_resume(co);
        if (carry)
            mco_pop(co, &value, sizeof value);
    }
    row(name, from, 2.0 * ROUNDS);
    mco_destroy(co);
}
#endif

#ifdef HAVE_BOOST
static void boost_echo(transfer_t t) {
    inexact();
    for (;;)
        t = jump_fcontext(t.from, t.data);
}

static void boost(void) {
    char *at = stack();
    exact();
    fcontext_t to = make_fcontext(at + STACK, STACK, boost_echo);
    double from = now();
    for (intptr_t i = 0; i < ROUNDS; i++) {
        transfer_t t = jump_fcontext(to, (void *)i);
        if (t.data != (void *)i)
            exit(1);
        to = t.from;
    }
    row("boost", from, 2.0 * ROUNDS);
    munmap(at, STACK);
}
#endif

int main(int argc, char **argv) {
    const char *prefix = argc > 1 ? argv[1] : "c";
    char plain[64], words[64];
    snprintf(plain, sizeof plain, "%s", prefix);
    snprintf(words, sizeof words, "%s-fp", prefix);
    for (int round = 0; round < 7; round++) {
        lancet(plain, 0);
        lancet(words, LANCET_KEEP_FP);
        if (argc > 2)
            continue;
        lancet_many("c-static-many");
        swapcontexts();
        setjmps();
        sigmasks();
#ifdef HAVE_MINICORO
        minicoro("minicoro", minicoro_bare, 0);
        minicoro("minicoro-carrying", minicoro_echo, 1);
#endif
#ifdef HAVE_BOOST
        boost();
#endif
    }
    return 0;
}
