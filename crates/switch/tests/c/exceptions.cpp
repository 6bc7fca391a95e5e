// C++ exceptions and fibers: stopped inside, carried across, cancelled. Prints "ok".
#include <cfenv>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <cxxabi.h>

#include "lancet_switch.h"

#define CHECK(what)                                                                              \
    do {                                                                                         \
        if (!(what)) {                                                                           \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                      \
            std::exit(1);                                                                        \
        }                                                                                        \
    } while (0)

static int alive;

struct Counted {
    Counted() { alive++; }
    ~Counted() { alive--; }
};

static lancet_fiber *make(lancet_entry entry, void *argument = nullptr) {
    lancet_fiber *fiber;
    CHECK(lancet_fiber_new(&fiber, entry, argument, nullptr) == 0);
    return fiber;
}

static void *catches(lancet_fiber *self, void *, void *) {
    Counted counted;
    std::string text;
    try {
        Counted inner;
        lancet_suspend(self, nullptr);
        throw std::runtime_error("inside");
    } catch (const std::exception &error) {
        text = error.what();
    }
    lancet_suspend(self, nullptr);
    return reinterpret_cast<void *>(text.size());
}

static void caught_inside() {
    lancet_fiber *fiber = make(catches);
    lancet_resume(fiber, nullptr);
    lancet_resume(fiber, nullptr);
    CHECK(lancet_resume(fiber, nullptr).value == reinterpret_cast<void *>(6));
    CHECK(alive == 0 && lancet_fiber_free(fiber) == 0);
}

static void *throws(lancet_fiber *self, void *, void *argument) {
    Counted counted;
    lancet_suspend(self, nullptr);
    if (argument)
        throw 42;
    throw std::runtime_error("carried");
}

static void carried_across() {
    lancet_fiber *fiber = make(throws);
    lancet_resume(fiber, nullptr);
    bool caught = false;
    try {
        Counted outside;
        lancet_resume(fiber, nullptr);
    } catch (const std::runtime_error &error) {
        caught = std::string(error.what()) == "carried";
    }
    CHECK(caught && alive == 0);
    CHECK(std::uncaught_exceptions() == 0);
    CHECK(lancet_fiber_state(fiber) == LANCET_STATE_DONE);
    CHECK(lancet_resume(fiber, nullptr).status == LANCET_EDONE);
    CHECK(lancet_fiber_free(fiber) == 0);
}

static void *resumes_a_thrower(lancet_fiber *, void *, void *) {
    Counted counted;
    lancet_fiber *inner = make(throws, &alive);
    lancet_resume(inner, nullptr);
    try {
        lancet_resume(inner, nullptr);
    } catch (...) {
        CHECK(lancet_fiber_free(inner) == 0);
        throw;
    }
    return nullptr;
}

static void carried_across_two() {
    lancet_fiber *fiber = make(resumes_a_thrower);
    int caught = 0;
    try {
        lancet_resume(fiber, nullptr);
    } catch (int value) {
        caught = value;
    }
    CHECK(caught == 42 && alive == 0);
    CHECK(lancet_fiber_free(fiber) == 0);
}

static int entered;

static void *waits(lancet_fiber *self, void *, void *) {
    Counted counted;
    try {
        Counted inner;
        lancet_suspend(self, nullptr);
    } catch (abi::__forced_unwind &) {
        entered++;
        throw;
    }
    return nullptr;
}

static void cancelled() {
    for (int i = 0; i < 1000; i++) {
        lancet_fiber *fiber = make(waits);
        lancet_resume(fiber, nullptr);
        CHECK(alive == 2);
        CHECK(lancet_fiber_free(fiber) == 0);
        CHECK(alive == 0 && entered == i + 1);
    }
}

static void *swallows(lancet_fiber *self, void *, void *) {
    try {
        lancet_suspend(self, nullptr);
    } catch (...) {
    }
    lancet_suspend(self, nullptr);
    return nullptr;
}

static void cancellation_swallowed() {
    lancet_fiber *fiber = make(swallows);
    lancet_resume(fiber, nullptr);
    CHECK(lancet_cancel(fiber) == LANCET_ESTILL);
    CHECK(lancet_fiber_state(fiber) == LANCET_STATE_SUSPENDED);
    CHECK(lancet_cancel(fiber) == 0); // the second suspend is not caught
    CHECK(lancet_fiber_free(fiber) == 0);
}

static void *throws_when_cancelled(lancet_fiber *self, void *, void *) {
    try {
        lancet_suspend(self, nullptr);
    } catch (...) {
        throw std::runtime_error("instead");
    }
    return nullptr;
}

static void cancellation_replaced() {
    lancet_fiber *fiber = make(throws_when_cancelled);
    lancet_resume(fiber, nullptr);
    bool caught = false;
    try {
        lancet_cancel(fiber);
    } catch (const std::runtime_error &) {
        caught = true;
    }
    CHECK(caught && lancet_fiber_state(fiber) == LANCET_STATE_DONE);
    CHECK(lancet_fiber_free(fiber) == 0);
}

static void cancelled_while_unwinding() {
    struct Frees {
        lancet_fiber *fiber;
        ~Frees() { CHECK(lancet_fiber_free(fiber) == 0); }
    };
    bool caught = false;
    try {
        lancet_fiber *fiber = make(waits);
        lancet_resume(fiber, nullptr);
        Frees frees{fiber};
        throw 1;
    } catch (int) {
        caught = true;
    }
    CHECK(caught && alive == 0);
}

struct Chain {
    lancet_fiber *outer, *inner;
};

static void *suspends_the_outer(lancet_fiber *, void *, void *argument) {
    Counted counted;
    std::fesetround(FE_UPWARD);
    lancet_suspend(static_cast<Chain *>(argument)->outer, nullptr);
    return nullptr;
}

static void *resumes_an_inner(lancet_fiber *, void *, void *argument) {
    Counted counted;
    Chain *chain = static_cast<Chain *>(argument);
    lancet_options options = LANCET_OPTIONS_INIT;
    options.flags = LANCET_KEEP_FP;
    CHECK(lancet_fiber_new(&chain->inner, suspends_the_outer, chain, &options) == 0);
    lancet_resume(chain->inner, nullptr);
    return nullptr;
}

// The innermost fiber runs, and suspends one that it was called from: both are unwound.
static void a_chain_cancelled() {
    Chain chain;
    chain.outer = make(resumes_an_inner, &chain);
    lancet_resume(chain.outer, nullptr);
    CHECK(alive == 2 && std::fegetround() == FE_UPWARD);
    CHECK(lancet_fiber_state(chain.outer) == LANCET_STATE_SUSPENDED);
    CHECK(lancet_fiber_state(chain.inner) == LANCET_STATE_RUNNING);
    CHECK(lancet_cancel(chain.outer) == 0 && alive == 0);
    CHECK(std::fegetround() == FE_TONEAREST);
    CHECK(lancet_fiber_state(chain.outer) == LANCET_STATE_DONE);
    CHECK(lancet_fiber_state(chain.inner) == LANCET_STATE_DONE);
    CHECK(lancet_fiber_free(chain.inner) == 0 && lancet_fiber_free(chain.outer) == 0);
}

static void *suspends_in_a_destructor(lancet_fiber *self, void *, void *) {
    struct Suspends {
        lancet_fiber *self;
        ~Suspends() { lancet_suspend(self, nullptr); }
    };
    Counted counted;
    Suspends suspends{self};
    lancet_suspend(self, nullptr);
    return nullptr;
}

// It cannot be unwound again from where it stands; resumed, it goes on unwinding.
static void a_cancellation_stopped() {
    lancet_fiber *fiber = make(suspends_in_a_destructor);
    lancet_resume(fiber, nullptr);
    for (int i = 0; i < 3; i++)
        CHECK(lancet_cancel(fiber) == LANCET_ESTILL && alive == 1);
    CHECK(lancet_fiber_free(fiber) == LANCET_ESTILL);
    CHECK(lancet_resume(fiber, nullptr).status == LANCET_CANCELLED && alive == 0);
    CHECK(lancet_fiber_free(fiber) == 0);
}

int main(int argc, char **) {
    if (argc > 1) { // nobody catches: the process ends with a message
        lancet_fiber *fiber = make(throws);
        lancet_resume(fiber, nullptr);
        lancet_resume(fiber, nullptr);
        return 0;
    }
    caught_inside();
    carried_across();
    carried_across_two();
    cancelled();
    cancellation_swallowed();
    cancellation_replaced();
    cancelled_while_unwinding();
    a_chain_cancelled();
    a_cancellation_stopped();
    std::puts("ok");
}
