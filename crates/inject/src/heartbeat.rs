//! The heartbeat by which an agent knows that its command lives.
//!
//! One thread changes a word of every open guest four times a second. It dies with us, however we
//! die, and that is the point.

use process::memory::GuestMemory;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Between two beats.
const BEAT: Duration = Duration::from_millis(250);

/// How long the time-stamp counter is watched to learn its speed.
const CALIBRATION: Duration = Duration::from_millis(2);

#[derive(Debug)]
struct Beating {
    memory: Arc<GuestMemory>,
    at: u64,
    gone: Arc<AtomicBool>,
}

static BEATING: Mutex<Vec<Beating>> = Mutex::new(Vec::new());
static STARTED: OnceLock<()> = OnceLock::new();

/// A panic of who held it has changed nothing by halves.
fn beating() -> MutexGuard<'static, Vec<Beating>> {
    BEATING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guest's heartbeat; it stops when this is dropped.
#[derive(Debug)]
pub struct Heartbeat {
    gone: Arc<AtomicBool>,
}

impl Heartbeat {
    /// None yet.
    pub fn still() -> Self {
        Heartbeat {
            gone: Arc::new(AtomicBool::new(true)),
        }
    }

    /// Changes the word at `at` from now on.
    pub fn start(memory: Arc<GuestMemory>, at: u64) -> Self {
        let gone = Arc::new(AtomicBool::new(false));
        let guest = Beating {
            memory,
            at,
            gone: gone.clone(),
        };
        guest.beat();
        beating().push(guest);
        STARTED.get_or_init(|| {
            thread::spawn(|| {
                loop {
                    thread::sleep(BEAT);
                    process::fault::point("beating");
                    beating().retain(|guest| !guest.gone.load(Ordering::Relaxed) && guest.beat());
                }
            });
        });
        Heartbeat { gone }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

impl Beating {
    /// Whether the guest is still there.
    fn beat(&self) -> bool {
        // An agent remembers the heartbeat of the command before us: one that began to count anew would seem to have
        // stood still since then.
        self.memory.write(self.at, &unique().to_le_bytes()).is_ok()
    }
}

/// A number no other attach has, and no other heartbeat.
pub fn unique() -> u64 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 48
}

/// A duration in cycles of the time-stamp counter.
pub fn ticks(duration: Duration) -> u64 {
    static PER_MILLISECOND: OnceLock<u64> = OnceLock::new();
    let per_millisecond = *PER_MILLISECOND.get_or_init(|| {
        let (started, from) = (Instant::now(), process::clock::now());
        thread::sleep(CALIBRATION);
        let ticks = process::clock::now() - from;
        (ticks as u128 * 1_000_000 / started.elapsed().as_nanos()) as u64
    });
    let ticks = u128::from(per_millisecond).saturating_mul(duration.as_nanos()) / 1_000_000;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}
