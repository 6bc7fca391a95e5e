/* thread-ring in four builds of one program: 403 threads pass a token; each has FRAMES deeper
 * frames (some 400 bytes each) under it while it stands still.
 *
 *   -DCOPY     one stack; the live part is copied out and in at every switch, as Ruby 1.8 did
 *   -DUCONTEXT own stacks, swapcontext
 *   -DSETJMP   own stacks, _setjmp/_longjmp
 *   -DLANCET   own stacks, lancet_switch
 *
 * ring SWITCHES FRAMES: prints ns of CPU time per switch.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#ifdef LANCET
#include "lancet_switch.h"
#endif

#ifndef THREADS
#define THREADS 403
#endif
#define STACK (256 << 10)

static long left, measured;
static int frames;
static double from;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void pass(int me); /* stands still until it is me's turn again */

static volatile double third = 3;

/* What every thread does once it is deep enough. Every second one has computed something inexact: the flags of MXCSR differ. */
static void work(int me) {
    if (me & 1)
        third = 1 / third;
    while (left > 0) {
        /* From here on every thread has its frames: page faults of the first round do not count. */
        if (left-- == measured)
            from = now();
        pass(me);
    }
}

__attribute__((noinline)) static void deeper(int me, int depth) {
    volatile char weight[352];
    weight[0] = (char)depth;
    if (depth > 0)
        deeper(me, depth - 1);
    else
        work(me);
    weight[1] = weight[0];
}

#if defined(COPY) || defined(SETJMP)
struct thread {
    jmp_buf registers;
    int started;
    char *saved, *low; /* COPY: where the live part is kept, and where it belongs */
    size_t size, room;
} threads[THREADS];
#endif

#ifdef COPY
static jmp_buf end;
static int current;
static char *base; /* all threads run below this address of the one stack */

__attribute__((noinline)) static void restore(struct thread *to);

/* Grows the stack until the copy cannot overwrite the frame that copies. */
__attribute__((noinline)) static void make_room(struct thread *to) {
    volatile char room[4096];
    room[0] = 0;
    restore(to);
    room[1] = room[0];
}

__attribute__((noinline)) static void restore(struct thread *to) {
    if ((char *)__builtin_frame_address(0) > to->low - 512)
        make_room(to);
    memcpy(to->low, to->saved, to->size);
    _longjmp(to->registers, 1);
}

__attribute__((noinline)) static void pass(int me) {
    struct thread *from = &threads[me], *to;
    if (_setjmp(from->registers) != 0)
        return;
    from->low = (char *)__builtin_frame_address(0) - 256;
    from->size = (size_t)(base - from->low);
    if (from->size > from->room) {
        from->room = from->size * 2;
        free(from->saved);
        from->saved = malloc(from->room);
    }
    memcpy(from->saved, from->low, from->size);
    current = (me + 1) % THREADS;
    to = &threads[current];
    if (to->started)
        restore(to);
    _longjmp(end, 2); /* back to the bottom, to start the next one */
}

__attribute__((noinline)) static void run(void) {
    base = __builtin_frame_address(0);
    if (_setjmp(end) == 1)
        return;
    threads[current].started = 1;
    deeper(current, frames);
    _longjmp(end, 1);
}
#endif

#if defined(UCONTEXT) || defined(SETJMP)
static char *stack(void) {
    char *at = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    return at;
}

static ucontext_t contexts[THREADS], first;

static void begin(int me) {
    deeper(me, frames);
    setcontext(&first);
}

static void make(int me) {
    getcontext(&contexts[me]);
    contexts[me].uc_stack.ss_sp = stack();
    contexts[me].uc_stack.ss_size = STACK;
    makecontext(&contexts[me], (void (*)(void))begin, 1, me);
}
#endif

#ifdef UCONTEXT
static void pass(int me) {
    int next = (me + 1) % THREADS;
    swapcontext(&contexts[me], &contexts[next]);
}

static void run(void) {
    for (int me = 0; me < THREADS; me++)
        make(me);
    swapcontext(&first, &contexts[0]);
}
#endif

#ifdef SETJMP
static void pass(int me) {
    int next = (me + 1) % THREADS;
    if (_setjmp(threads[me].registers) != 0)
        return;
    if (threads[next].started)
        _longjmp(threads[next].registers, 1);
    threads[next].started = 1;
    setcontext(&contexts[next]);
}

static void run(void) {
    for (int me = 0; me < THREADS; me++)
        make(me);
    threads[0].started = 1;
    swapcontext(&first, &contexts[0]);
}
#endif

#ifdef LANCET
/* Resume and suspend lead through a scheduler: two switches for each pass, and both are counted. */
static lancet_fiber *fibers[THREADS];

static void pass(int me) {
    lancet_suspend(fibers[me], NULL);
}

static void *begin(lancet_fiber *self, void *number, void *argument) {
    (void)self, (void)argument;
    deeper((int)(intptr_t)number, frames);
    return NULL;
}

static void run(void) {
    for (int me = 0; me < THREADS; me++)
        if (lancet_fiber_new(&fibers[me], begin, NULL, NULL) != 0)
            exit(1);
    for (int me = 0; left > 0; me = (me + 1) % THREADS)
        lancet_resume(fibers[me], (void *)(intptr_t)me);
}
#endif

int main(int argc, char **argv) {
    measured = argc > 1 ? atol(argv[1]) : 1000000;
    frames = argc > 2 ? atoi(argv[2]) : 0;
    left = measured + 2 * THREADS;
    run();
    printf("%.3f\n", (now() - from) / (double)measured);
    return 0;
}
