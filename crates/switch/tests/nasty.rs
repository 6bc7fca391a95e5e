//! What goes wrong around stacks: fork, signals in the middle of switches, thread-local storage,
//! addresses of sizes nobody can have, no memory, no mappings, no guards, seccomp.
//!
//! Whatever changes the process for good runs in a child made with fork.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use lancet_switch::pool::{Config, Guard, Pool, PoolStack, Reuse};
use lancet_switch::{Builder, Coroutine, Error, Stack, State};

/// Runs `what` in a forked child; its value is the exit code.
fn in_child(what: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child only runs `what`, on the one thread it has, and exits.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(what()),
            child => {
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                if libc::WIFEXITED(status) {
                    libc::WEXITSTATUS(status)
                } else {
                    -libc::WTERMSIG(status)
                }
            }
        }
    }
}

fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    change(&mut config);
    config
}

/// Whether a write to this address kills the process with SIGSEGV.
fn faults(address: usize) -> bool {
    in_child(|| {
        // SAFETY: meant to fault, in a child, whose handler is the default.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            (address as *mut u8).write_volatile(1);
        }
        0
    }) == -libc::SIGSEGV
}

#[test]
fn guards_of_both_kinds_fault_and_survive_fork() {
    for guard in [Guard::Auto, Guard::Mprotect] {
        let pool = Pool::new(config(|c| c.guard = guard)).expect("a pool");
        let stacks: Vec<PoolStack> = (0..20).map(|_| pool.stack().expect("a stack")).collect();
        for stack in &stacks {
            let range = stack.range();
            assert_eq!(range.len(), 256 << 10);
            assert!(faults(range.start - 1) && faults(range.start - (68 << 10)));
            assert!(!faults(range.start) && !faults(range.end - 1));
        }
        let stats = pool.stats();
        assert_eq!(stats.light_guards + stats.mprotect_guards, 20);
        if guard == Guard::Mprotect {
            assert_eq!(stats.mprotect_guards, 20);
        }
    }
}

#[test]
fn a_reused_stack_is_as_the_policy_says() {
    for (reuse, expected) in [(Reuse::Keep, 7), (Reuse::DontNeed, 0)] {
        let pool = Pool::new(config(|c| c.reuse = reuse)).expect("a pool");
        let stack = pool.stack().expect("a stack");
        let middle = (stack.range().start + 100_000) as *mut u8;
        // SAFETY: within the stack, which nothing runs on.
        unsafe { middle.write(7) };
        drop(stack);
        let again = pool.stack().expect("a stack");
        assert!(again.range().contains(&(middle as usize)));
        // SAFETY: as above.
        assert_eq!(unsafe { middle.read() }, expected);
        drop(again);
        pool.trim();
        let trimmed = pool.stack().expect("a stack");
        assert_eq!(lancet_switch::pool::high_water_mark(trimmed.range()), 0);
    }
}

#[test]
fn impossible_sizes_are_errors() {
    let pool = Pool::new(Config::default()).expect("a pool");
    assert!(matches!(
        pool.stack_of(0),
        Err(Error::TooSmall { asked: 0, .. })
    ));
    assert!(matches!(
        pool.stack_of(1),
        Err(Error::TooSmall { asked: 1, .. })
    ));
    assert!(matches!(
        pool.stack_of(usize::MAX),
        Err(Error::TooLarge { .. })
    ));
    assert!(matches!(
        pool.stack_of(1 << 46),
        Err(Error::OutOfMemory { .. }) | Ok(_)
    ));
    assert!(Pool::new(config(|c| c.stack_size = 0)).is_err());
    assert!(Pool::new(config(|c| c.guard_size = usize::MAX)).is_err());
    let full = Pool::new(config(|c| c.max_stacks = Some(1))).expect("a pool");
    let one = full.stack().expect("a stack");
    assert_eq!(
        full.stack().map(drop),
        Err(Error::PoolFull { max_stacks: 1 })
    );
    drop(one);
    assert!(full.stack().is_ok());
}

#[test]
fn no_address_space_is_an_error() {
    let code = in_child(|| {
        let limit = libc::rlimit {
            rlim_cur: 512 << 20,
            rlim_max: 512 << 20,
        };
        // SAFETY: limits this child only.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
        let pool = Pool::new(Config::default()).expect("a pool");
        let mut stacks = Vec::new();
        let error = loop {
            match pool.stack() {
                Ok(stack) => stacks.push(stack),
                Err(error) => break error,
            }
        };
        // Whatever was given out works, and room comes back.
        let given = stacks.len();
        stacks.pop();
        let again = pool.stack().is_ok();
        i32::from(!(matches!(error, Error::OutOfMemory { .. }) && given > 100 && again))
    });
    assert_eq!(code, 0);
}

/// Makes a system call fail with `errno` from now on, by a seccomp filter.
fn forbid(call: libc::c_long, errno: i32) {
    let load = libc::sock_filter {
        code: 0x20,
        jt: 0,
        jf: 0,
        k: 0,
    };
    let is_it = libc::sock_filter {
        code: 0x15,
        jt: 0,
        jf: 1,
        k: call as u32,
    };
    let refuse = libc::sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ERRNO | errno as u32,
    };
    let allow = libc::sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    };
    let mut filter = [load, is_it, refuse, allow];
    let program = libc::sock_fprog {
        len: 4,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: a valid program of four instructions, for this child only.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program),
            0
        );
    }
}

#[test]
fn without_light_guards_mprotect_is_used() {
    let code = in_child(|| {
        forbid(libc::SYS_madvise, libc::EINVAL);
        let pool = Pool::new(Config::default()).expect("a pool");
        let _stacks: Vec<_> = (0..10).map(|_| pool.stack().expect("a stack")).collect();
        i32::from(pool.stats().mprotect_guards != 10)
    });
    assert_eq!(code, 0);
}

/// Under a filter a call that hardly any program makes could be fatal.
#[test]
fn under_seccomp_guards_are_made_one_at_a_time() {
    let before = Pool::new(Config::default()).expect("a pool");
    let light = before.stack().is_ok() && before.stats().light_guards == 1;
    let code = in_child(|| {
        forbid(libc::SYS_process_madvise, libc::EPERM);
        let pools = [
            Pool::new(Config::default()).expect("a pool"),
            before.clone(),
        ];
        for pool in &pools {
            let stacks: Vec<_> = (0..40).map(|_| pool.stack().expect("a stack")).collect();
            let all_fault = stacks.iter().all(|stack| faults(stack.range().start - 1));
            if !all_fault || light != (pool.stats().light_guards == 40) {
                return 1;
            }
        }
        0
    });
    assert_eq!(code, 0);
}

#[test]
fn without_any_guard_there_is_an_error() {
    let code = in_child(|| {
        let pool = Pool::new(config(|c| c.guard = Guard::Mprotect)).expect("a pool");
        let unguarded = Pool::new(config(|c| c.guard_size = 0)).expect("a pool");
        forbid(libc::SYS_mprotect, libc::EPERM);
        let refused = pool.stack().map(drop) == Err(Error::GuardRefused { errno: libc::EPERM });
        i32::from(!(refused && unguarded.stack().is_ok()))
    });
    assert_eq!(code, 0);
}

#[test]
fn with_mprotect_the_mappings_run_out_and_that_is_an_error() {
    let code = in_child(|| {
        let pool = Pool::new(config(|c| {
            c.stack_size = 16 << 10;
            c.guard_size = 4 << 10;
            c.guard = Guard::Mprotect;
        }))
        .expect("a pool");
        let mut stacks = Vec::with_capacity(70_000);
        let error = loop {
            match pool.stack() {
                Ok(stack) if stacks.len() < 70_000 => stacks.push(stack),
                Ok(_) => return 2,
                Err(error) => break error,
            }
        };
        eprintln!("mprotect guards: {} stacks, then: {error}", stacks.len());
        i32::from(!matches!(
            error,
            Error::OutOfMappings | Error::OutOfMemory { .. }
        ))
    });
    // 2: this machine's vm.max_map_count is above the default.
    assert!(code == 0 || code == 2, "{code}");
}

#[test]
fn a_hundred_and_fifty_thousand_guarded_fibers_at_the_default_max_map_count() {
    let fits = std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .is_ok_and(|text| text.trim() == "65530");
    let pool = Pool::new(config(|c| {
        c.stack_size = 64 << 10;
        c.guard_size = 16 << 10;
    }))
    .expect("a pool");
    let probe = pool.stack().expect("a stack");
    if pool.stats().light_guards == 0 {
        eprintln!("skipped: this kernel has no MADV_GUARD_INSTALL");
        return;
    }
    drop(probe);
    let before = resident();
    let mut fibers = Vec::with_capacity(150_000);
    for number in 0..150_000u32 {
        let mut fiber = Builder::new()
            .pool(&pool)
            .spawn(move |suspender, ()| {
                suspender.suspend(number);
                number
            })
            .expect("a fiber");
        assert_eq!(fiber.resume(()), State::Suspended(number));
        fibers.push(fiber);
    }
    let each = (resident() - before) / fibers.len();
    let maps = std::fs::read_to_string("/proc/self/maps").map_or(0, |text| text.lines().count());
    eprintln!(
        "150,000 fibers: {each} bytes resident each, {maps} mappings (max_map_count default: {fits})"
    );
    assert!(each <= 2 * 4096, "{each}");
    assert!(maps < 2000, "{maps}");
    for (number, fiber) in fibers.iter_mut().enumerate() {
        assert_eq!(fiber.resume(()), State::Finished(number as u32));
    }
    drop(fibers);
    assert_eq!(pool.stats().live, 0);
}

/// Bytes resident, page tables included.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    ["VmRSS:", "VmPTE:"]
        .iter()
        .filter_map(|name| status.lines().find_map(|line| line.strip_prefix(name)))
        .filter_map(|rest| rest.trim().split(' ').next()?.parse::<usize>().ok())
        .sum::<usize>()
        << 10
}

#[test]
fn one_touched_byte_costs_one_page_not_a_huge_one() {
    let pool = Pool::new(config(|c| c.stack_size = 8 << 20)).expect("a pool");
    let stack = pool.stack().expect("a stack");
    // SAFETY: within the stack, which nothing runs on.
    unsafe { ((stack.range().end - 1) as *mut u8).write(1) };
    assert_eq!(lancet_switch::pool::high_water_mark(stack.range()), 4096);
}

#[test]
fn fork_in_a_coroutine_goes_on_in_both() {
    let mut coroutine = Coroutine::<u8, i32, i32>::new(|suspender, _| {
        let code = in_child(|| i32::from(suspender.suspend(-1)));
        // Only the parent comes here; the child's exit code is what its own resumer gave it.
        code + 100
    });
    // In the child the first resume returns; it resumes itself with 42 and exits with that.
    match coroutine.resume(0) {
        State::Suspended(-1) => {
            coroutine.resume(42);
            unreachable!("the child exits in its body");
        }
        state => assert_eq!(state, State::Finished(142)),
    }
}

#[test]
fn a_child_of_fork_can_use_pools_that_other_threads_were_inside_of() {
    let own = Pool::new(Config::default()).expect("a pool");
    let busy = AtomicBool::new(true);
    std::thread::scope(|scope| {
        for pool in [&own, Pool::global()] {
            let busy = &busy;
            scope.spawn(move || {
                while busy.load(Ordering::Relaxed) {
                    drop(pool.stack().expect("a stack"));
                }
            });
        }
        let stuck = (0..100).find_map(|number| {
            let code = in_child(|| {
                // SAFETY: ends this child if it waits for ever.
                unsafe { libc::alarm(20) };
                i32::from(own.stack().is_err()) | i32::from(Pool::global().stack().is_err()) << 1
            });
            (code != 0).then_some((number, code))
        });
        busy.store(false, Ordering::Relaxed);
        // -SIGALRM: a lock was held for ever; 1 and 2: the first, the second had no stack.
        assert_eq!(stuck, None, "child, its exit code or its signal");
    });
}

static FORKED: AtomicU32 = AtomicU32::new(0);

extern "C" fn fork_on_signal(_signal: libc::c_int) {
    // SAFETY: the child exits at once; nothing else here takes memory or locks.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(0),
            child => libc::waitpid(child, std::ptr::null_mut(), 0),
        };
    }
    FORKED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_fork_in_a_signal_handler_that_interrupted_a_pool_returns() {
    let code = in_child(|| {
        let pool = Pool::new(Config::default()).expect("a pool");
        let after = libc::timeval {
            tv_sec: 0,
            tv_usec: 1000,
        };
        let timer = libc::itimerval {
            it_interval: libc::timeval {
                tv_sec: 0,
                tv_usec: 0,
            },
            it_value: after,
        };
        // SAFETY: the handler forks, which the pool is asked to stand; the alarm ends this child if it
        // does not.
        unsafe {
            libc::alarm(60);
            libc::signal(libc::SIGPROF, fork_on_signal as *const () as usize);
        }
        for number in 1..=20 {
            // SAFETY: the child has its own timer.
            unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut()) };
            while FORKED.load(Ordering::Relaxed) < number {
                drop(pool.stack().expect("a stack"));
            }
        }
        0
    });
    assert_eq!(code, 0);
}

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_signal(_signal: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn signals_may_come_at_any_instruction_of_a_switch() {
    let code = in_child(|| {
        let every = libc::timeval {
            tv_sec: 0,
            tv_usec: 100,
        };
        let timer = libc::itimerval {
            it_interval: every,
            it_value: every,
        };
        // SAFETY: a handler that only counts; the child has its own timer.
        unsafe {
            libc::signal(libc::SIGPROF, on_signal as *const () as usize);
            libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut());
        }
        let mut echo = Coroutine::<u64, u64, ()>::new(|suspender, mut input| {
            loop {
                input = suspender.suspend(input);
            }
        });
        let mut round = 0;
        while SIGNALS.load(Ordering::Relaxed) < 200 {
            for _ in 0..1000 {
                round += 1;
                if echo.resume(round) != State::Suspended(round) {
                    return 1;
                }
            }
        }
        0
    });
    assert_eq!(code, 0);
}

#[test]
fn thread_local_storage_is_the_threads() {
    thread_local!(static SEEN: Cell<u32> = const { Cell::new(0) });
    let mut coroutine = Coroutine::<(), u32, u32>::new(|suspender, ()| {
        SEEN.set(SEEN.get() + 1);
        suspender.suspend(SEEN.get());
        SEEN.get()
    });
    SEEN.set(10);
    assert_eq!(coroutine.resume(()), State::Suspended(11));
    SEEN.set(20);
    assert_eq!(coroutine.resume(()), State::Finished(20));
}

#[test]
fn a_pool_serves_many_threads() {
    let pool = Pool::new(Config::default()).expect("a pool");
    std::thread::scope(|scope| {
        for seed in 0..4u64 {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..500 {
                    let mut some: Vec<_> = (0..(round + seed) % 7 + 1)
                        .map(|_| {
                            Builder::new()
                                .pool(pool)
                                .spawn(|suspender, input: u64| suspender.suspend(input) + 1)
                                .expect("a fiber")
                        })
                        .collect();
                    for fiber in &mut some {
                        assert_eq!(fiber.resume(round), State::Suspended(round));
                        assert_eq!(fiber.resume(seed), State::Finished(seed + 1));
                    }
                }
            });
        }
    });
    let stats = pool.stats();
    assert_eq!(stats.live, 0);
    assert!(stats.peak <= 28 && stats.free <= 28, "{stats:?}");
}
