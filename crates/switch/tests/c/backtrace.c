/* Spins or stops in a fiber, below functions with names to look for in a backtrace:
 * backtrace [spin SECONDS | walk]; walk follows the frame pointers itself. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lancet_switch.h"

static volatile unsigned long counter;

void resumer_of_fiber(lancet_fiber *fiber);

/* Whether some return address in the chain of frame pointers is in resumer_of_fiber. */
static int chain_reaches_resumer(void) {
    void **frame = __builtin_frame_address(0);
    for (int depth = 0; depth < 8; depth++, frame = *frame)
        if ((size_t)((char *)frame[1] - (char *)resumer_of_fiber) < 64)
            return 1;
    return 0;
}

__attribute__((noinline)) void innermost_in_fiber(double seconds) {
    if (seconds < 0 && !chain_reaches_resumer())
        exit(3);
    if (seconds == 0)
        raise(SIGTRAP);
    clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
    while (clock() < end)
        for (int i = 0; i < 1000000; i++)
            counter++;
    counter++;
}

static void *body_of_fiber(lancet_fiber *self, void *first, void *argument) {
    lancet_suspend(self, first);
    innermost_in_fiber(*(double *)argument);
    counter++;
    return NULL;
}

__attribute__((noinline)) void resumer_of_fiber(lancet_fiber *fiber) {
    lancet_resume(fiber, NULL);
    counter++;
}

static void *run(void *argument) {
    lancet_fiber *fiber;
    if (lancet_fiber_new(&fiber, body_of_fiber, argument, NULL) != 0)
        exit(1);
    lancet_resume(fiber, NULL);
    resumer_of_fiber(fiber);
    lancet_fiber_free(fiber);
    return NULL;
}

int main(int argc, char **argv) {
    int walk = argc > 1 && strcmp(argv[1], "walk") == 0;
    double seconds = walk ? -1 : argc > 2 ? atof(argv[2]) : 0;
    pthread_t thread;
    run(&seconds);
    /* On a thread the resumer's stack may lie below the fiber's. */
    pthread_create(&thread, NULL, run, &seconds);
    pthread_join(thread, NULL);
    puts("ok");
    return 0;
}
