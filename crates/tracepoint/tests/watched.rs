//! The programs pass the kernel's verifier, and what they count and tell is what a process does.

use capture::{Op, Source};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tracepoint::{Copies, Lost, OF_32_BITS, Record, Refused, Tells, Watch, Whose};

/// The watch, or `None` where BPF is not allowed, which must then be said with the reason.
fn begin(tells: &Tells<'_>, whose: Whose) -> Option<Watch> {
    match Watch::begin(tells, whose) {
        Ok(watch) => Some(watch),
        Err(refused @ (Refused::Lacks { .. } | Refused::Forbidden)) => {
            println!("SKIPPED: {refused}");
            None
        }
        Err(refused) => panic!("{refused}"),
    }
}

/// A shell that waits for a line, and ends with what it then runs.
fn shell(script: &str) -> Child {
    let mut child = Command::new("sh")
        .args(["-c", &format!("echo ready; read line; {script}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    is_ready(&mut child);
    child
}

/// Waits for the line that says so.
fn is_ready(child: &mut Child) {
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
}

fn go(mut child: Child) {
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(b"go\n")
        .expect("written");
    assert!(child.wait().expect("its end").success());
}

const CHDIR: u64 = 80;
const EXECVE: u64 = 59;
const EXIT_GROUP: u64 = 231;

fn of(watch: &Watch, number: u64) -> tracepoint::Figures {
    let counted = watch.counted();
    let found = counted.iter().find(|(known, _)| *known == number);
    found.map_or_else(Default::default, |(_, figures)| *figures)
}

#[test]
fn calls_are_counted_with_their_errors() {
    let Some(watch) = begin(&Tells::Counts, Whose::Alone) else {
        return;
    };
    let child = shell("for i in 1 2 3 4 5; do cd /tmp; cd /none; done 2>/dev/null; exit 0");
    watch.add(child.id() as i32).expect("room");
    go(child);
    let figures = of(&watch, CHDIR);
    assert_eq!([figures.returned, figures.errors], [10, 5], "{figures:?}");
    assert!(
        figures.shortest > 0
            && figures.shortest <= figures.longest
            && figures.longest <= figures.total
            && figures.total < 1_000_000_000,
        "{figures:?}"
    );
    // The read that it slept in.
    assert!(of(&watch, 0).returned >= 1, "{:?}", watch.counted());
    let ended = of(&watch, EXIT_GROUP);
    assert_eq!([ended.returned, ended.left], [0, 1], "{ended:?}");
    assert_eq!(watch.lost(), Lost::default());
    assert!(
        watch
            .counted()
            .iter()
            .all(|(number, _)| *number < OF_32_BITS),
        "{:?}",
        watch.counted()
    );
}

/// Waits until a process sleeps in the call of that number.
fn sleeps_in(pid: u32, number: u64) {
    let end = Instant::now() + Duration::from_secs(60);
    let call = || std::fs::read_to_string(format!("/proc/{pid}/syscall")).expect("it lives");
    while !call().starts_with(&format!("{number} ")) {
        assert!(Instant::now() < end, "{}", call());
        std::thread::yield_now();
    }
}

/// A process that is watched for the second time is in another call than the one in which it was left: that one is counted, with the time
/// since it is watched again.
#[test]
fn what_an_earlier_watch_has_left_is_not_believed() {
    const READ: u64 = 0;
    const WAIT4: u64 = 61;
    let Some(watch) = begin(&Tells::Counts, Whose::Alone) else {
        return;
    };
    let mut child = shell("sh -c 'read x; exit 0'; read y; exit 0");
    let pid = child.id();
    let mut tell = |line: &[u8]| {
        let stdin = child.stdin.as_mut().expect("a pipe");
        stdin.write_all(line).expect("written");
    };
    watch.add(pid as i32).expect("room");
    tell(b"go\n");
    sleeps_in(pid, WAIT4);
    watch.remove(pid as i32);
    tell(b"x\n");
    sleeps_in(pid, READ);
    watch.add(pid as i32).expect("room");
    tell(b"y\n");
    assert!(child.wait().expect("its end").success());
    // Each read of the shell takes one byte.
    let counted = [READ, WAIT4].map(|number| of(&watch, number).returned);
    assert_eq!(counted, [5, 0], "{:?}", watch.counted());
}

#[test]
fn children_are_watched_if_they_are_asked_for() {
    for whose in [Whose::Alone, Whose::WithChildren] {
        let Some(mut watch) = begin(&Tells::Counts, whose) else {
            return;
        };
        // Each child changes its folder once, and one of them is another program.
        let child = shell("(cd /tmp); (cd /tmp); /bin/true; exit 0");
        let pid = child.id() as i32;
        watch.add(pid).expect("room");
        go(child);
        let mut made = Vec::new();
        watch.read(|record| made.push(record));
        let expected = match whose {
            Whose::WithChildren => [2, 1, 3],
            _ => [0, 0, 0],
        };
        let counted = [
            of(&watch, CHDIR).returned,
            of(&watch, EXECVE).returned,
            made.len() as u64,
        ];
        assert_eq!(counted, expected, "{made:?}, {:?}", watch.counted());
        let is_its =
            |record: &Record| matches!(record, Record::Child { parent, .. } if *parent == pid);
        assert!(made.iter().all(is_its), "{made:?}");
    }
}

#[test]
fn calls_are_told_with_arguments_and_results() {
    let path = [Op::Value(Source::Gp(0)), Op::Text { unit: 1, max: 4096 }].map(Op::encode);
    let asked = |number| match number {
        CHDIR => Some([path.to_vec(), Vec::new()]),
        EXIT_GROUP => Some(Copies::default()),
        _ => None,
    };
    let Some(mut watch) = begin(&Tells::Calls(&asked), Whose::Alone) else {
        return;
    };
    let child = shell("cd /tmp; cd /none; exit 7");
    let pid = child.id() as i32;
    watch.add(pid).expect("room");
    let mut child = child;
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(b"go\n")
        .expect("written");
    assert_eq!(child.wait().expect("its end").code(), Some(7));
    let mut told = Vec::new();
    let mut last = 0;
    let mut paths = Vec::new();
    watch.read(|record| {
        told.push(match record {
            Record::Call {
                pid: of,
                tid,
                number,
                arguments,
                time,
                copied,
                ..
            } => {
                paths.extend(copied.pieces().map(|(_, bytes)| bytes.to_vec()));
                assert_eq!([of, tid], [pid, pid]);
                assert!(time >= last, "{number}");
                last = time;
                (
                    number,
                    if number == EXIT_GROUP {
                        arguments[0]
                    } else {
                        0
                    },
                )
            }
            Record::Return { result, time, .. } => {
                assert!(time > last, "{result}");
                last = time;
                (u64::MAX, result)
            }
            Record::Child { .. } => panic!("{record:?}"),
        });
    });
    assert_eq!(paths, [b"/tmp\0".to_vec(), b"/none\0".to_vec()]);
    let missing = -i64::from(libc::ENOENT) as u64;
    assert_eq!(
        told,
        [
            (CHDIR, 0),
            (u64::MAX, 0),
            (CHDIR, 0),
            (u64::MAX, missing),
            (EXIT_GROUP, 7)
        ]
    );
    assert_eq!(watch.lost(), Lost::default());
}

/// A shell makes more calls than there is room for, and nobody reads. Returns the watch, how long it took, and the shell's id.
fn unread(tells: &Tells<'_>) -> Option<(Watch, Duration, i32)> {
    let watch = begin(tells, Whose::Alone)?;
    let child = shell("i=0; while [ $i -lt 60000 ]; do cd /; i=$((i+1)); done");
    let pid = child.id() as i32;
    watch.add(pid).expect("room");
    let begun = Instant::now();
    go(child);
    Some((watch, begun.elapsed(), pid))
}

/// Who makes calls that nobody reads is held up while there is room, if that is wanted. What finds none is counted.
#[test]
fn records_that_nobody_reads_are_counted() {
    let all = |_| Some(Copies::default());
    let Some((free, at_once, _)) = unread(&Tells::CallsAtOnce(&all)) else {
        return;
    };
    assert!(free.lost().records > 1_000, "{:?}", free.lost());
    let (mut watch, held, pid) = unread(&Tells::Calls(&all)).expect("as before");
    assert!(held > at_once * 2, "{held:?}, not held up {at_once:?}");
    let mut told = 0u64;
    watch.read(|_| told += 1);
    let lost = watch.lost().records;
    assert!(told > 10_000 && lost > 1_000, "{told} told, {lost} lost");
    // Whose they are, and of which call: it makes no other then but its last ones.
    let unfit = watch.unfit();
    let sum: u64 = unfit.iter().map(|one| one.records).sum();
    assert_eq!(sum, lost, "{unfit:?}");
    let chdir = unfit
        .iter()
        .find(|one| one.number == libc::SYS_chdir as u64);
    let chdir = chdir.expect("some of those");
    assert_eq!([chdir.pid, chdir.tid], [pid; 2], "{unfit:?}");
    assert!(chdir.records * 10 > lost * 9, "{unfit:?}");
    // There is room again.
    assert!(!watch.read(|record| panic!("{record:?}")));
}

/// A call in which a thread is killed has never returned; one that a signal interrupts, and that is made again, has.
#[test]
fn calls_in_which_a_process_is_killed_have_not_returned() {
    const PAUSE: u64 = 34;
    let Some(watch) = begin(&Tells::Counts, Whose::Alone) else {
        return;
    };
    let mut child = Command::new("python3")
        .args([
            "-c",
            "import signal; print('ready', flush=True); signal.pause()",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a Python");
    is_ready(&mut child);
    let pid = child.id() as i32;
    let state = |wanted: &str| loop {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        if text.contains(wanted) {
            return;
        }
        std::thread::yield_now();
    };
    let send = |signal| {
        // SAFETY: our own child, which we have not waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    };
    state(") S ");
    watch.add(pid).expect("room");
    for (signal, then) in [(libc::SIGSTOP, ") T "), (libc::SIGCONT, ") S ")] {
        send(signal);
        state(then);
    }
    send(libc::SIGKILL);
    child.wait().expect("its end");
    let figures = of(&watch, PAUSE);
    assert_eq!(
        [figures.returned, figures.errors, figures.left],
        [1, 1, 1],
        "{figures:?}"
    );
}

/// Code of 64 bits that asks by `int $0x80` makes calls of 32 bits, with arguments in other registers.
#[test]
fn calls_of_32_bits_are_known_by_their_instruction() {
    const GETPPID: u64 = 64;
    let all = |_| Some(Copies::default());
    for tells in [Tells::Counts, Tells::Calls(&all)] {
        let Some(mut watch) = begin(&tells, Whose::Alone) else {
            return;
        };
        let own = std::process::id() as i32;
        watch.add(own).expect("room");
        // SAFETY: getppid of 32 bits takes nothing; rbx, which is not for us to name as an operand, is put back.
        unsafe {
            std::arch::asm!(
                "xchg rbx, {first}", "int 0x80", "xchg rbx, {first}",
                first = inout(reg) 7u64 => _,
                inout("rax") GETPPID => _,
                in("rcx") 8, in("rdx") 9, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            );
        }
        watch.remove(own);
        if let Tells::Counts = tells {
            assert_eq!(of(&watch, OF_32_BITS | GETPPID).returned, 1);
            continue;
        }
        let mut told = Vec::new();
        watch.read(|record| {
            if let Record::Call {
                number, arguments, ..
            } = record
            {
                told.push((number, arguments[..3].to_vec()));
            }
        });
        assert!(
            told.contains(&(OF_32_BITS | GETPPID, vec![7, 8, 9])),
            "{told:x?}"
        );
    }
}

/// A program of 32 bits that ends at once, or `None` if this compiler makes none.
fn of_32_bits(program: &std::path::Path) -> Option<()> {
    let mut gcc = Command::new("gcc")
        .args(["-m32", "-nostdlib", "-static", "-fno-pic", "-no-pie"])
        .args(["-x", "assembler", "-", "-o"])
        .arg(program)
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let source = b".globl _start\n_start: mov $1, %eax; xor %ebx, %ebx; int $0x80\n";
    let mut stdin = gcc.stdin.take().expect("a pipe");
    stdin.write_all(source).expect("gcc reads");
    drop(stdin);
    gcc.wait().expect("its end").success().then_some(())
}

/// The end of an exec for which there is no room is lost as that of an exec, also where another width begins with it.
#[test]
fn a_lost_end_of_an_exec_is_one_of_an_exec() {
    // A word of the kernel's before each record of a call, and of a return. So many pairs leave room for one record of a call behind them.
    const PAIR: u64 = (8 + 104) + (8 + 40);
    const PAIRS: u64 = (8 << 20) / PAIR;
    let asked = |number| [CHDIR, EXECVE].contains(&number).then(Copies::default);
    let Some(mut watch) = begin(&Tells::CallsAtOnce(&asked), Whose::Alone) else {
        return;
    };
    let program = std::env::temp_dir().join(format!("lancet-of-32-{}", std::process::id()));
    if of_32_bits(&program).is_none() {
        return println!("SKIPPED: this gcc makes no program of 32 bits");
    }
    let child = shell(&format!(
        "i=0; while [ $i -lt {PAIRS} ]; do cd /; i=$((i+1)); done; exec {}",
        program.display()
    ));
    let pid = child.id() as i32;
    watch.add(pid).expect("room");
    go(child);
    let _ = std::fs::remove_file(&program);
    let mut last = None;
    let mut told = 0;
    watch.read(|record| {
        told += 1;
        last = Some(record);
    });
    assert!(
        matches!(last, Some(Record::Call { number: EXECVE, .. })),
        "{last:?}"
    );
    assert_eq!(told, 2 * PAIRS + 1);
    let unfit = watch.unfit();
    let lost = unfit
        .iter()
        .map(|one| (one.pid, one.number, one.records))
        .collect::<Vec<_>>();
    assert_eq!(lost, [(pid, EXECVE, 1)]);
}
