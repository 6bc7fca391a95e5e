/* lancet_switch.h - stacks that live in their own mappings, switched without a system call
 *
 * A fiber is a function with a stack of its own. It runs when it is resumed and stands still when
 * it suspends itself; a pointer travels with every switch. Linux, x86-64, System V ABI.
 *
 * Every function but lancet_resume, lancet_cancel and lancet_fiber_free (which let through what
 * the fiber throws) and lancet_suspend (which is unwound by a cancellation) throws nothing.
 * lancet_switch(3) says what is guaranteed and what is undefined.
 */
#ifndef LANCET_SWITCH_H
#define LANCET_SWITCH_H

#include <stddef.h>
#include <stdint.h>

/* A switch through the procedure linkage table of a program takes half as long again. */
#ifdef __has_attribute
#if __has_attribute(noplt)
#define LANCET_NOPLT __attribute__((noplt))
#endif
#endif
#ifndef LANCET_NOPLT
#define LANCET_NOPLT
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lancet_fiber lancet_fiber;
typedef struct lancet_pool lancet_pool;

/* The function of a fiber: first is the value of the first resume, what it returns is the value of
 * the last one. An exception it throws leaves the fiber and goes on in the resumer. */
typedef void *(*lancet_entry)(lancet_fiber *self, void *first, void *argument);

/* What comes out of a resume. */
typedef struct lancet_result {
    void *value;     /* what was passed to lancet_suspend, or returned; else NULL */
    intptr_t status; /* one of the LANCET_… below, or a negative LANCET_E… */
} lancet_result;

enum {
    LANCET_SUSPENDED = 0, /* the fiber suspended itself */
    LANCET_FINISHED = 1,  /* its function returned */
    LANCET_CANCELLED = 2, /* resumed in a destructor of its cancellation, it was unwound to its end */

    LANCET_EINVALID = -1,      /* an argument is invalid */
    LANCET_ETOOSMALL = -2,     /* the stack asked for is too small */
    LANCET_ETOOLARGE = -3,     /* it does not fit an address space */
    LANCET_ENOMEM = -4,        /* there is no memory for stacks */
    LANCET_ENOMAPPINGS = -5,   /* no mapping left for a guard (vm.max_map_count) */
    LANCET_ENOGUARD = -6,      /* the kernel refused to make a guard */
    LANCET_EPOOLFULL = -7,     /* all max_stacks are in use */
    LANCET_ESHADOWSTACK = -8,  /* this thread runs with a shadow stack (CET) */
    LANCET_ERUNNING = -9,      /* the fiber is running */
    LANCET_EDONE = -10,        /* the fiber has ended */
    LANCET_ESTILL = -11,       /* it caught its cancellation and is suspended again */
    LANCET_ESYSTEM = -12       /* a system call failed; see errno */
};

/* States of a fiber. */
enum { LANCET_STATE_SUSPENDED = 1, LANCET_STATE_RUNNING = 2, LANCET_STATE_DONE = 3 };

/* Flags of lancet_options: the control bits of mxcsr and the x87 control word are saved and restored at each switch. The
 * flags of exceptions are the thread's: an x87 flag that one side has raised traps (SIGFPE) on a side whose control word
 * enables that exception. */
enum { LANCET_KEEP_FP = 1 };

/* All fields but size may be zero: LANCET_OPTIONS_INIT. */
typedef struct lancet_options {
    size_t size;            /* sizeof(lancet_options) */
    size_t stack_size;      /* bytes; 0 for the pool's size (LANCET_STACK_SIZE, 256 KiB) */
    const char *name;       /* for the overflow report; 32 bytes are kept */
    const lancet_pool *pool; /* NULL for the pool of the process */
    void *stack;            /* NULL, or stack_size bytes of your own, with a guard of your own */
    void (*stack_free)(void *stack, size_t stack_size, void *stack_user);
    void *stack_user;
    unsigned flags;
} lancet_options;

#define LANCET_OPTIONS_INIT { sizeof(lancet_options), 0, NULL, NULL, NULL, NULL, NULL, 0 }

/* Makes a fiber; 0 or a LANCET_E…. Nothing of it runs before the first resume. */
int lancet_fiber_new(lancet_fiber **out, lancet_entry entry, void *argument,
                     const lancet_options *options);

/* Runs a fiber until it suspends itself or ends. */
LANCET_NOPLT lancet_result lancet_resume(lancet_fiber *fiber, void *value);

/* Called on the fiber itself: goes back to the resumer, returns what the next resume passes. */
LANCET_NOPLT void *lancet_suspend(lancet_fiber *self, void *value);

/* Ends a suspended fiber by unwinding its stack, as pthread_cancel does: destructors run,
 * catch (...) is entered. 0, LANCET_ERUNNING or LANCET_ESTILL. */
int lancet_cancel(lancet_fiber *fiber);

/* Cancels a fiber if need be and frees it; on error it is still there. NULL is ignored. */
int lancet_fiber_free(lancet_fiber *fiber);

/* Frees a fiber that is not running without unwinding it: for C code that holds nothing there. */
int lancet_fiber_discard(lancet_fiber *fiber);

int lancet_fiber_state(const lancet_fiber *fiber);
uint64_t lancet_fiber_id(const lancet_fiber *fiber);

/* The most bytes of its stack that were ever in use, in whole pages; *size gets how many it has. */
size_t lancet_fiber_high_water(const lancet_fiber *fiber, size_t *size);

/* What happens to the memory of a stack that comes back. The default: it stays in the 64 stacks of a size that came back last. */
enum {
    LANCET_REUSE_KEEP = 1,
    LANCET_REUSE_FREE = 2,
    LANCET_REUSE_DONTNEED = 3,
    LANCET_REUSE_WARM = 4
};

/* Flags of lancet_pool_config. */
enum { LANCET_NO_GUARD = 1, LANCET_GUARD_MPROTECT = 2 };

/* Zero in a field is the default, or what the environment says. */
typedef struct lancet_pool_config {
    size_t stack_size;
    size_t guard_size;
    size_t max_stacks;
    unsigned reuse;
    unsigned flags;
} lancet_pool_config;

typedef struct lancet_pool_statistics {
    size_t slabs, mapped;      /* mappings, and bytes of address space in them */
    size_t live, peak, free;   /* stacks in use, the most ever, and those that wait */
    uint64_t given, reused;    /* stacks given out, and how many of them were not new */
    size_t light_guards;       /* by MADV_GUARD_INSTALL */
    size_t mprotect_guards;
} lancet_pool_statistics;

int lancet_pool_new(lancet_pool **out, const lancet_pool_config *config);
void lancet_pool_free(lancet_pool *pool); /* its stacks live on until their fibers are freed */
void lancet_pool_trim(const lancet_pool *pool);
void lancet_pool_stats(const lancet_pool *pool, lancet_pool_statistics *out);

/* The overflow report: a SIGSEGV handler, and an alternate signal stack for this thread. */
int lancet_report_install(void);
int lancet_report_cover_thread(void); /* for any other thread */

const char *lancet_strerror(int code);

#ifdef __cplusplus
}
#endif

#endif
