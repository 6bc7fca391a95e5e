//! What an event costs does not depend on how many there were before: bytes, time and memory, of the writer and of the
//! reader. `LANCET_SOAK=1` writes a thousand million events, or as many as `LANCET_EVENTS` says, to be run with
//! `--release`: 500 million calls with their returns.

use crate::made::{How, THREADS, begin};
use prototypes::capture::{Registers, Returned};
use prototypes::show::Captures;
use recording::{CallRecord, Copies, Merge, Place, Recording, ReturnRecord, Site, Wanted};
use std::fs::File;
use std::time::Duration;

/// This thread's CPU time, and the most memory that it had at once, in KiB.
fn used() -> (Duration, u64) {
    let read = |path: &str| std::fs::read_to_string(path).expect("procfs");
    let stat = read("/proc/thread-self/schedstat");
    let nanos = stat.split(' ').next().and_then(|text| text.parse().ok());
    let status = read("/proc/self/status");
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let most = most.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    (
        Duration::from_nanos(nanos.expect("a time")),
        most.expect("memory"),
    )
}

const NAME: &str = "growth::an_event_costs_the_same_however_many_there_were";

/// In the environment of the process that measures.
const MEASURED: &str = "LANCET_GROWTH";

/// The same test in a process of its own: the most memory that a process had is also that of the tests that run beside this one.
fn measured_by_itself() {
    let program = std::env::current_exe().expect("a program");
    let mut alone = std::process::Command::new(program);
    alone
        .args(["--exact", NAME, "--nocapture"])
        .env(MEASURED, "1");
    let status = alone.status().expect("it starts");
    assert!(status.success(), "{status}");
}

/// Reads all events in the order of time, and holds them against what was written.
fn read(path: &std::path::Path, calls: u64) {
    let mut recording = Recording::open(File::open(path).expect("the file")).unwrap();
    let mut merge = Merge::new(Wanted::ALL);
    for number in 0..calls {
        let call = merge.next(&recording).unwrap().expect("a call");
        let recording::EventKind::Call(of) = &call.kind else {
            panic!("{call:?}");
        };
        assert_eq!(
            (of.registers.gp[0], call.at.ring),
            (number, (number / 100 % THREADS) as u32)
        );
        let back = merge.next(&recording).unwrap().expect("a return");
        assert!(
            matches!(back.kind, recording::EventKind::Return(_)),
            "{back:?}"
        );
    }
    assert_eq!(merge.next(&recording).unwrap(), None);
    assert!(recording.flaw().is_none());
}

#[test]
fn an_event_costs_the_same_however_many_there_were() {
    if std::env::var_os(MEASURED).is_none() {
        return measured_by_itself();
    }
    let few = 100_000;
    let asked = std::env::var("LANCET_EVENTS").ok();
    let asked = asked.map(|events| events.parse::<u64>().expect("a number of events"));
    let many = match (asked, std::env::var_os("LANCET_SOAK")) {
        (Some(events), _) => events / 2,
        (None, Some(_)) => 500_000_000,
        (None, None) => 2_000_000,
    };
    let path = std::env::temp_dir().join(format!("lancet-growth-{}", std::process::id()));
    let mut figures = Vec::new();
    for calls in [few, many] {
        let (began, _) = used();
        let bytes = crate::made::write(&path, calls, How::default()).expect("a file");
        let (written, _) = used();
        read(&path, calls);
        let (read, memory) = used();
        let each = |time: Duration| time.as_nanos() as f64 / calls as f64;
        let per_call = bytes as f64 / calls as f64;
        figures.push((
            per_call,
            each(written - began),
            each(read - written),
            memory,
        ));
    }
    std::fs::remove_file(&path).expect("it was there");
    println!("calls {few}, {many}: bytes, ns to write, ns to read, KiB: {figures:?}");
    let [
        (bytes, write, read, memory),
        (bytes_then, write_then, read_then, memory_then),
    ] = figures[..]
    else {
        unreachable!("two runs")
    };
    assert!(bytes_then < bytes * 1.02, "{figures:?}");
    assert!(
        write_then < write * 2.0 && read_then < read * 2.0,
        "{figures:?}"
    );
    assert!(
        memory_then < memory + (8 << 10) && memory_then < 64 << 10,
        "{figures:?}"
    );
}

/// So many calls of one function, each with another argument and result, and the bytes that they take. `text`: with a
/// short string each.
fn bytes_per_call(calls: u64, text: bool) -> f64 {
    let mut writer = begin(Vec::new());
    let mut random = 1_u64;
    let mut time = 1_700_000_000_000_000_000;
    for number in 0..calls {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let mut captures = Captures::new();
        if text {
            captures.add(0x7f00_0000_0000, format!("hello {number}\n\0").as_bytes());
        }
        let place = Place {
            guest: 0,
            tid: 1,
            stack: 4096,
        };
        time += 90 + random % 20;
        let call = CallRecord {
            site: Site {
                edge: 1,
                caller: 0x5555_5555_1234,
                line: 0,
                library: 0,
            },
            place,
            frame: 0x7ffd_0000_1000,
            time,
            registers: &Registers {
                gp: [number, 0x7f00_0000_0000, 9, 1, 2, 3],
                ..Registers::default()
            },
            copies: Copies::Captures(&captures),
            callers: &[],
        };
        writer.call(0, &call).unwrap();
        time += 20 + random % 10;
        let back = ReturnRecord {
            place,
            frame: call.frame,
            time,
            returned: &Returned {
                rax: random >> 40,
                ..Returned::default()
            },
            copies: Copies::Words(&[]),
        };
        writer.back(0, &back).unwrap();
    }
    writer.finish().unwrap().len() as f64 / calls as f64
}

/// The figure that matters for a guest at full speed: bytes of a call with its return.
#[test]
fn a_call_like_the_one_before_takes_few_bytes() {
    let (short, long) = (
        bytes_per_call(10_000, false),
        bytes_per_call(1_000_000, false),
    );
    assert!(short < 8.5 && long < 8.0, "{short:.2}, {long:.2} bytes");
    let text = bytes_per_call(100_000, true);
    assert!(text < 32.0, "{text:.2} bytes");
    println!("{short:.2}, {long:.2}; with text {text:.2} bytes");
}
