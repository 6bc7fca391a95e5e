//! Time: whether the tick stops, how often it comes, and the clock that programs read. Used by `rules`.

use std::time::Instant;

use super::rule::{NOTHING, Risk, Rule, WRITE_BACK};
use crate::kconfig::Built;
use crate::machine::Machine;
use crate::setting::Setting;
use crate::tree::Cannot;
use crate::verdict::{Outcome, Verdict};

pub(super) const TICKLESS: Rule = Rule {
    id: "T01",
    title: "tickless kernel",
    of_2009: true,
    reads: "/proc/timer_list (root), else CONFIG_NO_HZ_COMMON, CONFIG_HZ_PERIODIC; /proc/cmdline",
    why: "A periodic tick wakes every idle CPU HZ times a second, and every virtual CPU of every guest. \
          CONFIG_NO_HZ is only a compatibility alias and unset on tickless kernels too.",
    source: "Documentation/timers/no_hz.rst; configurations of 17 distribution kernels",
    dated: "2009 (2.6.21 and later); stands today",
    change: "remove nohz=off and highres=off from the kernel's command line; otherwise another kernel",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: true,
    counts: false,
    checked: &[
        ("kernel/time/timer_list.c", "nohz"),
        ("kernel/time/Kconfig", "NO_HZ_COMMON"),
        ("kernel/time/tick-sched.c", "setup_tick_nohz"),
    ],
    check: tickless,
};

fn tickless(machine: &Machine) -> Result<Outcome, Cannot> {
    const FILE: &str = "/proc/timer_list";
    match machine.tree.read(FILE) {
        Ok(text) => {
            let values = |key: &str| -> Vec<&str> {
                let value = |line: &'_ str| line.trim().strip_prefix(key).map(str::len);
                let lines = text.lines().filter(|line| value(line).is_some());
                lines
                    .filter_map(|line| Some(line.split_once(':')?.1.trim()))
                    .collect()
            };
            // Kernels before 6.10 call it nohz_mode: 0 is off, 1 low and 2 high resolution.
            let (ticks, timers) = (values(".nohz"), values(".hres_active"));
            let on = |all: &[&str]| !all.is_empty() && all.iter().all(|value| *value != "0");
            let outcome = match (on(&ticks), on(&timers)) {
                (true, true) => {
                    Outcome::good("the tick stops on idle CPUs; high resolution timers")
                }
                (true, false) => {
                    Outcome::bad("the tick stops, but timers are no finer than the tick")
                }
                (false, _) if ticks.is_empty() => return Err(Cannot::odd(FILE, &text)),
                (false, _) => Outcome::bad("the tick never stops, on idle CPUs neither"),
            };
            Ok(outcome
                .saw(format!("{FILE} .nohz per CPU"), ticks.join(" "))
                .saw(format!("{FILE} .hres_active per CPU"), timers.join(" ")))
        }
        Err(cannot) => tickless_by_config(machine, cannot),
    }
}

fn tickless_by_config(machine: &Machine, cannot: Cannot) -> Result<Outcome, Cannot> {
    let cmdline = machine.tree.word("/proc/cmdline").unwrap_or_default();
    if cmdline.split_whitespace().any(|word| word == "nohz=off") {
        return Ok(
            Outcome::bad("the tick never stops: nohz=off on the command line")
                .saw("/proc/cmdline", cmdline),
        );
    }
    let Ok((common, from)) = machine.built("NO_HZ_COMMON") else {
        return Err(cannot);
    };
    let (old, old_from) = machine.built("NO_HZ")?;
    let (periodic, _) = machine.built("HZ_PERIODIC")?;
    // NO_HZ_COMMON came with 3.10; before that NO_HZ stood alone.
    let outcome = match (common.is_there() || old.is_there(), periodic.is_there()) {
        (true, false) => Outcome::good("built tickless"),
        _ => Outcome::bad("built with a periodic tick"),
    };
    Ok(outcome
        .saw(from, common.words())
        .saw(old_from, old.words())
        .saw("not the running state", cannot))
}

pub(super) const HZ: Rule = Rule {
    id: "T02",
    title: "tick rate",
    of_2009: true,
    reads: "jiffies in /proc/timer_list, twice (root); else CONFIG_HZ. Never CLK_TCK, which is always 100",
    why: "HZ bounds how finely the scheduler slices and how late coarse timers are. On a tickless kernel with \
          high resolution timers 250 and 1000 both serve; 100 makes time slices of 10 ms.",
    source: "kernel/Kconfig.hz; of 17 distribution kernels 13 have 1000, 4 have 250, none 100",
    dated: "2009 advised 100 for servers; dated since tickless kernels (2.6.21) and all distributions left it",
    change: "another kernel",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: true,
    counts: true,
    checked: &[
        ("kernel/Kconfig.hz", "HZ_250"),
        ("kernel/time/timer_list.c", "jiffies"),
    ],
    check: hz,
};

fn hz(machine: &Machine) -> Result<Outcome, Cannot> {
    let built = machine.built("HZ").ok();
    let built_hz = built.as_ref().and_then(|(built, _)| match built {
        Built::Value(text) => text.parse::<u32>().ok(),
        _ => None,
    });
    let first = machine.samples.first.ticks;
    let second = machine
        .samples
        .second
        .as_ref()
        .and_then(|(second, _)| second.ticks);
    let measured = match (first, second) {
        (Some((from, begin)), Some((to, end))) if end > begin => {
            Some(to.saturating_sub(from) as f64 * 1e9 / (end - begin) as f64)
        }
        _ => None,
    };
    let rate = match (built_hz, measured) {
        (Some(rate), _) => rate,
        // Measured over a second it is within a tick or two of the true one.
        (None, Some(measured)) => {
            let nearest = |rate: &u32| (f64::from(*rate) - measured).abs() as u64;
            [100, 250, 300, 1000]
                .into_iter()
                .min_by_key(nearest)
                .unwrap_or(0)
        }
        (None, None) => {
            machine.config()?;
            return Ok(Outcome::cannot_tell("the configuration has no CONFIG_HZ"));
        }
    };
    let mut outcome = match rate {
        250..=1000 => Outcome::good(format!("{rate} Hz")),
        _ => Outcome::consider(format!(
            "{rate} Hz: time slices of {} ms",
            1000 / rate.max(1)
        )),
    };
    if let Some((built, from)) = built {
        outcome = outcome.saw(from, built.words());
    }
    if let Some(measured) = measured {
        outcome = outcome.saw(
            format!(
                "jiffies in /proc/timer_list over {}",
                machine.samples.over()
            ),
            format!("{measured:.2} Hz"),
        );
    }
    Ok(outcome)
}

pub(super) const CLOCKSOURCE: Rule = Rule {
    id: "T14",
    title: "clock source",
    of_2009: false,
    reads: "/sys/devices/system/clocksource/clocksource0/{current,available}_clocksource; the kernel's log for why tsc was \
            given up; on the live machine the time of clock_gettime",
    why: "Only tsc, the paravirtual clocks and ARM's counter are read without a system call. xen, hpet and \
          acpi_pm make each Time.now a system call or worse. If tsc is not offered, the kernel found it \
          unreliable: it must not be forced.",
    source: "packagecloud 2017: about 77% slower on EC2, and forcing tsc \"considered dangerous\"; heap.io; \
             Documentation/virt/kvm/x86/timekeeping.rst",
    dated: "2017; stands today",
    change: "echo tsc > current_clocksource, only where tsc is offered",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        ("kernel/time/clocksource.c", "current_clocksource"),
        ("Documentation/virt/kvm/x86/timekeeping.rst", "TSC"),
    ],
    check: clocksource,
};

fn clocksource(machine: &Machine) -> Result<Outcome, Cannot> {
    const BASE: &str = "/sys/devices/system/clocksource/clocksource0";
    let (current_file, offered_file) = (
        format!("{BASE}/current_clocksource"),
        format!("{BASE}/available_clocksource"),
    );
    let current = machine.tree.word(&current_file)?;
    let offered = machine.tree.word(&offered_file).unwrap_or_default();
    let tsc_offered = offered.split_whitespace().any(|name| name == "tsc");
    let outcome = match current.as_str() {
        "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page" => {
            Outcome::good(format!("{current}: read without a system call"))
        }
        "xen" | "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "pit" if tsc_offered => {
            Outcome::bad(format!(
                "{current}: every look at the clock is slow, and tsc is offered"
            ))
            .change(Setting::file(&current_file), "tsc")
        }
        "xen" | "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "pit" => {
            Outcome::bad(format!(
                "{current}: every look at the clock is slow; tsc is not offered and must not be forced"
            ))
        }
        other => Outcome::cannot_tell(format!("nothing is known of clock source `{other}`")),
    };
    let measured = machine
        .tree
        .is_live()
        .then(|| (nanos_per_look(false), nanos_per_look(true)));
    // Whatever its name promises, the clock is slow if reading it past libc costs no more.
    let outcome = match (measured, outcome.verdict) {
        (Some((usual, syscall)), Verdict::Good) if usual > syscall * 0.8 => Outcome::consider(
            format!("{current}, and yet each look at the clock is a system call ({usual:.0} ns)"),
        ),
        _ => outcome,
    };
    let outcome = outcome
        .saw(current_file, current)
        .saw(offered_file, offered);
    let outcome = machine.logged(outcome, &GIVEN_UP);
    Ok(match measured {
        Some((usual, syscall)) => outcome.saw(
            "clock_gettime here",
            format!("{usual:.0} ns, as a real system call {syscall:.0} ns"),
        ),
        None => outcome,
    })
}

/// How the kernel reports that tsc cannot be used as a clock (kernel/time/clocksource.c, arch/x86/kernel/tsc.c).
const GIVEN_UP: [&str; 3] = [
    "Marking TSC unstable",
    "as unstable because",
    "Clocksource tsc unstable",
];

/// Returns the cost in nanoseconds of reading the clock once, through libc or past it: the best of several tries, as
/// other programs may take the CPU in between.
fn nanos_per_look(by_syscall: bool) -> f64 {
    let tries = (0..5).map(|_| one_try(by_syscall));
    tries.fold(f64::INFINITY, f64::min)
}

fn one_try(by_syscall: bool) -> f64 {
    const LOOKS: u32 = 100;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let begin = Instant::now();
    for _ in 0..LOOKS {
        // SAFETY: the time lives across the call, and the kernel writes only that.
        unsafe {
            if by_syscall {
                libc::syscall(
                    libc::SYS_clock_gettime,
                    libc::CLOCK_MONOTONIC,
                    &raw mut time,
                );
            } else {
                libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
            }
        }
    }
    begin.elapsed().as_nanos() as f64 / f64::from(LOOKS)
}
