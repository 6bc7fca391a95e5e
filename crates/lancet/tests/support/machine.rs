//! How much slower the machine is than it would be if it did nothing else.

use std::fs;

/// What `/proc/stat` counts, of all processors since the boot (`Documentation/filesystems/proc.rst`, 1.7): ticks in which
/// something ran, and those in which something could have run but the hypervisor gave the processor to somebody else.
#[derive(Clone, Copy)]
pub struct Ticks {
    ran: f64,
    stolen: f64,
}

impl Ticks {
    /// Up to now.
    pub fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").expect("/proc/stat");
        let ticks: Vec<f64> = stat
            .split_whitespace()
            .skip(1)
            .map_while(|word| word.parse().ok())
            .collect();
        let [user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] = ticks[..] else {
            panic!("/proc/stat: {stat}");
        };
        Ticks {
            ran: user + nice + system + irq + softirq,
            stolen,
        }
    }

    /// The part of the time since then that the hypervisor gave to somebody else.
    pub fn stolen_since(self) -> f64 {
        let now = Ticks::now();
        let (ran, stolen) = (now.ran - self.ran, now.stolen - self.stolen);
        stolen / (ran + stolen).max(1.0)
    }

    /// How many times as long everything has taken since then: by what the hypervisor took, and by what else wanted to run.
    pub fn slowness(self) -> f64 {
        let now = Ticks::now();
        let (ran, stolen) = (now.ran - self.ran, now.stolen - self.stolen);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load: f64 = load
            .split(' ')
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or(0.0);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        (1.0 + stolen / ran.max(1.0)) * (load / processors as f64).max(1.0)
    }
}
