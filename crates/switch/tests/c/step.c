/* Resumes and suspends, to be single-stepped by a debugger: step [keep], keep: with control words. */
#include "lancet_switch.h"

static void *body(lancet_fiber *self, void *value, void *argument) {
    (void)argument;
    for (;;)
        value = lancet_suspend(self, value);
    return 0;
}

__attribute__((noinline)) void resumer(lancet_fiber *fiber) {
    for (int i = 0; i < 8; i++)
        lancet_resume(fiber, 0);
}

int main(int argc, char **argv) {
    (void)argv;
    lancet_options options = LANCET_OPTIONS_INIT;
    options.flags = argc > 1 ? LANCET_KEEP_FP : 0;
    lancet_fiber *fiber;
    if (lancet_fiber_new(&fiber, body, 0, &options) != 0)
        return 1;
    resumer(fiber);
    return lancet_fiber_free(fiber);
}
