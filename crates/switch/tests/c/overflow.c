/* Overflows its fiber's stack: overflow {recursion|giant|larger|alloca} {main|thread} */
#include <alloca.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lancet_switch.h"

static volatile char sink;

__attribute__((noinline)) int dig(int depth) {
    volatile char block[200];
    block[0] = (char)depth;
    return depth < 0 ? 0 : dig(depth + 1) + block[0];
}

/* Without stack probes the first write is far below the guard's upper end. */
__attribute__((noinline)) void one_giant_frame(void) {
    volatile char block[325000];
    block[0] = 1;
    sink = block[0];
}

/* This one jumps the default guard. */
__attribute__((noinline)) void one_larger_frame(void) {
    volatile char block[390000];
    block[0] = 1;
    sink = block[0];
}

__attribute__((noinline)) void takes_alloca(size_t bytes) {
    char *block = alloca(bytes);
    block[0] = 1;
    sink = block[0];
}

static const char *kind;

static void *body(lancet_fiber *self, void *first, void *argument) {
    (void)self, (void)argument;
    if (strcmp(kind, "recursion") == 0)
        sink = (char)dig(0);
    else if (strcmp(kind, "giant") == 0)
        one_giant_frame();
    else if (strcmp(kind, "larger") == 0)
        one_larger_frame();
    else
        takes_alloca(300000);
    return first;
}

static void *run(void *unused) {
    lancet_fiber *fiber;
    lancet_options options = LANCET_OPTIONS_INIT;
    options.name = "deep one";
    if (lancet_report_cover_thread() != 0 || lancet_fiber_new(&fiber, body, NULL, &options) != 0)
        return unused;
    lancet_resume(fiber, NULL);
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    kind = argv[1];
    lancet_report_install();
    if (strcmp(argv[2], "thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, run, NULL);
        pthread_join(thread, NULL);
    } else {
        run(NULL);
    }
    puts("no overflow");
    return 0;
}
