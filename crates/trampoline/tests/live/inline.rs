//! Stubs that count and record system calls by themselves, around system calls of this very process.

use std::arch::asm;
use std::io::Write;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use trampoline::probe::{self, Spot};
use trampoline::{Destination, Function, Inline, Options, Pads, Recorded, Targets};
use wire::calls::record::{self, Shape};
use wire::calls::{
    COUNTS, Calls, Count, Hook, OpenSystemCall, Ring, bucket, first_row, inline, row_key, want,
};

use crate::guest::{island, seen, trampoline_probe, turn, write};
use crate::signals::{Signals, pass_look};

/// The session of the test.
pub const SESSION: u32 = 7;
pub const NUMBER: u32 = 1234;
pub const GETPID: u32 = 39;
pub const CLOSE: u32 = 3;
/// Its kernel writes between the two probes, what and where the test wants it.
pub const READ: u32 = 0;
pub const GETPPID: u32 = 110;
/// The number of the hook of the system call's number: its lower and its upper part are in different words of a record.
pub const RECORDED: u32 = 0x15_4321;
/// Bytes of the records of the ring: so many that no storm of signals fills it between two looks.
pub const RECORDS: usize = 1 << 20;

/// The gate, and what the agent knows of threads, which begins with the addresses of their rings.
#[repr(C)]
struct Image {
    calls: Calls,
    gate: AtomicU32,
}

/// A function that makes one system call, with the two probes around it that count by themselves.
pub struct Counted {
    image: *mut Image,
    pub ring: *mut Ring,
    row: *mut Count,
    /// The hooks before and behind it, and that of its number.
    pub hooks: [*mut Hook; 3],
    pub call: u64,
}

/// Zeros, a page at least, never given back.
fn zeros<T>(bytes: usize) -> *mut T {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, private, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at.cast()
}

fn fs_base() -> u64 {
    let pointer: u64;
    // SAFETY: glibc keeps the thread pointer at its own address.
    unsafe { asm!("mov {}, fs:[0]", out(reg) pointer) };
    pointer
}

/// How far the kernel's id of the thread lies from its thread pointer.
fn tid_offset() -> u64 {
    // SAFETY: reads words of this thread's own block.
    let is_there =
        |offset: &u64| unsafe { *((fs_base() + offset) as *const u32) == libc::gettid() as u32 };
    let all = (64..0x800).step_by(4);
    all.clone().find(is_there).expect("glibc keeps it")
}

impl Counted {
    pub fn new(number: u32, wanted: u64) -> Self {
        let image: *mut Image = zeros(size_of::<Image>());
        let ring: *mut Ring = zeros(4096);
        let counts: *mut Count = zeros(COUNTS * size_of::<Count>());
        let table = zeros::<Hook>(4096);
        let hooks = [0, 1, 2].map(|index| table.wrapping_add(index));
        let thread = fs_base();
        let row = counts.wrapping_add(first_row(row_key(NUMBER, 0)));
        // SAFETY: zeros of these types, which are plain words; nobody else knows them.
        unsafe {
            (*image).calls.tid_offset = tid_offset();
            (&(*image).calls.rings)[routine::room::place(thread)]
                .store(ring as u64, Ordering::Relaxed);
            (*image).gate.store(SESSION, Ordering::Relaxed);
            (*ring).thread.store(thread, Ordering::Relaxed);
            (*ring).tid.store(libc::gettid() as u32, Ordering::Relaxed);
            (*ring).session.store(SESSION, Ordering::Relaxed);
            (*ring).has_block.store(1, Ordering::Relaxed);
            (*ring).counts.store(counts as u64, Ordering::Relaxed);
            (*ring).records = zeros::<u64>(RECORDS) as u64;
            (*ring).size = RECORDS as u64;
            let limit = RECORDS as u64 / 8;
            (*ring).written.limit.store(limit, Ordering::Relaxed);
            (*row).key = row_key(NUMBER, 0);
            // Not a call for the agent.
            (*row).returned = 1;
            (*hooks[2]).want = wanted;
            for hook in &hooks[..2] {
                let work = match wanted & (want::COUNT | want::BARE) {
                    want::COUNT => inline::COUNT,
                    0 => inline::RECORD,
                    _ => inline::COUNT_BARE,
                };
                (**hook).inline = u64::from(SESSION) | u64::from(work) << 32;
                (**hook).called = hooks[2] as u64;
            }
        }
        let call = hooked(number, image, hooks);
        Counted {
            image,
            ring,
            row,
            hooks,
            call,
        }
    }

    pub fn count(&self) -> Count {
        // SAFETY: a row of this test's own table.
        unsafe { self.row.read_volatile() }
    }

    pub fn depth(&self) -> u64 {
        // SAFETY: this test's own ring.
        unsafe { (*self.ring).depth.load(Ordering::Relaxed) }
    }

    /// Makes the call; what it returned.
    pub fn make(&self, argument: u64) -> i64 {
        // SAFETY: the function takes one argument.
        let call: extern "C" fn(u64) -> i64 = unsafe { std::mem::transmute(self.call) };
        call(argument)
    }

    /// The newest open call, or the one that was.
    pub fn open(&self) -> OpenSystemCall {
        // SAFETY: this test's own ring.
        unsafe { (*(*self.ring).system_calls.get())[0] }
    }

    /// Makes the call of one that is of [`READ`], which puts `word` at `at` between the two probes.
    pub fn make_writing<T>(&self, at: *mut T, word: u32) {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(&word.to_ne_bytes()).expect("room");
        // SAFETY: the function hands three arguments on to read(2), and `at` is this test's own.
        let read = unsafe {
            let read: extern "C" fn(i32, *mut T, usize) -> i64 = std::mem::transmute(self.call);
            read(reader.as_raw_fd(), at, 4)
        };
        assert_eq!(read, 4);
    }

    /// Makes that call with a script's line, as the agent notes it before one.
    pub fn make_in_line(&self, lines: u32) {
        // SAFETY: this test's own ring.
        let open = unsafe { (*self.ring).system_calls.get().cast::<OpenSystemCall>() };
        // SAFETY: as above; the upper half of the word.
        let line = unsafe { (&raw mut (*open).ticket).cast::<u32>().add(1) };
        self.make_writing(line, lines);
    }
}

/// What is recorded of a system call: two kinds, which between them have all that a plain shape can have.
pub fn shape(number: u32) -> Shape {
    let wanted = match number {
        GETPID => record::RecordedRegisters {
            integers: 6,
            second_result: true,
            ..record::RecordedRegisters::UNKNOWN
        },
        _ => record::RecordedRegisters {
            integers: 3,
            narrow: true,
            narrow_result: true,
            ..record::RecordedRegisters::UNKNOWN
        },
    };
    wanted.shape(true, true)
}

/// Writes the function and hooks it.
fn hooked(number: u32, image: *mut Image, hooks: [*mut Hook; 3]) -> u64 {
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let entry = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, private, -1, 0) } as u64;
    let mut code = vec![0xb8];
    code.extend(number.to_le_bytes());
    // syscall; cmp $-4096,%rax; ja +1; ret; ret
    code.extend([
        0x0f, 5, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0x77, 1, 0xc3, 0xc3,
    ]);
    write(entry, &code);
    let function = Function {
        entry,
        code: &code,
        size: code.len(),
    };
    let targets = Targets::of(&code, entry, &[entry], None);
    let (instruction, calls) = (entry + 5, image as u64);
    let spots = [(Spot::Before, instruction), (Spot::From, instruction + 2)];
    let mut patches = Vec::new();
    for (index, (spot, site)) in spots.into_iter().enumerate() {
        let plan = probe::plan(
            &function,
            site,
            spot,
            &targets,
            &mut Pads::default(),
            Options::default(),
        );
        let plan = plan.expect("a plan");
        assert!(plan.may_inline(), "{spot:?}");
        let recorded = Recorded {
            number: RECORDED,
            shape: shape(number),
        };
        let inline = Inline {
            number: NUMBER,
            instruction,
            behind: spot == Spot::From,
            recorded: Some(recorded),
            calls,
            gate: calls + offset_of!(Image, gate) as u64,
        };
        let to = Destination {
            routine: trampoline_probe as *const () as u64,
            descriptor: hooks[index] as u64,
        };
        let at = island(entry);
        let stub = plan.stub(at, to, Some(inline)).expect("near");
        let most = plan.most(true);
        assert!(stub.bytes.len() <= most, "{} of {most}", stub.bytes.len());
        write(at, &stub.bytes);
        patches.extend(plan.patches(at).expect("near"));
    }
    patches.iter().for_each(|patch| write(patch.at, &patch.new));
    entry
}

#[test]
fn calls_are_counted_without_the_agent() {
    let _turn = turn();
    let counted = Counted::new(GETPID, want::COUNT | want::BARE | want::PLACE);
    for _ in 0..1000 {
        assert_eq!(counted.make(0), i64::from(std::process::id()));
    }
    let count = counted.count();
    assert_eq!([count.begun, count.returned, count.errors], [1000, 1001, 0]);
    assert_eq!([count.total, count.longest, count.shortest], [0; 3]);
    let failing = Counted::new(CLOSE, want::COUNT | want::BARE);
    for _ in 0..10 {
        assert_eq!(failing.make(u64::MAX), -i64::from(libc::EBADF));
    }
    let count = failing.count();
    assert_eq!([count.begun, count.returned, count.errors], [10, 11, 10]);
    assert_eq!([counted.depth(), failing.depth()], [0, 0]);
    assert!(seen().is_empty(), "the routine was asked");
}

#[test]
fn times_are_told_where_they_are_wanted() {
    let _turn = turn();
    let counted = Counted::new(GETPID, want::COUNT);
    counted.make(0);
    let count = counted.count();
    assert_eq!([count.begun, count.returned], [1, 2]);
    assert_ne!(count.total, 0);
    assert_eq!([count.longest, count.shortest], [count.total; 2]);
    assert_eq!(count.buckets[bucket(count.total)], 1);
    for _ in 1..1000 {
        counted.make(0);
    }
    let count = counted.count();
    assert!(count.shortest <= count.total / 1000 && count.total / 1000 <= count.longest);
    assert_eq!(count.buckets.iter().sum::<u32>(), 1000);
    assert_ne!(count.buckets[bucket(count.longest)], 0);
    assert_ne!(count.buckets[bucket(count.shortest)], 0);
    assert!(seen().is_empty(), "the routine was asked");
}

/// What must be so that a stub counts, each made otherwise once. The routine is asked then, and nothing has been changed.
#[test]
fn whatever_is_not_plain_is_left_to_the_routine() {
    let _turn = turn();
    type Change = (&'static str, fn(&Counted));
    // SAFETY: this test's own, and no stub runs meanwhile.
    let before: [Change; 12] = unsafe {
        [
            ("no ring", |it| {
                (*it.image)
                    .calls
                    .rings
                    .iter()
                    .for_each(|ring| ring.store(0, Ordering::Relaxed))
            }),
            ("moved", |it| {
                (*it.image)
                    .calls
                    .rings
                    .iter()
                    .for_each(|ring| ring.store(1, Ordering::Relaxed))
            }),
            ("another thread", |it| {
                (*it.ring).thread.store(fs_base() + 64, Ordering::Relaxed)
            }),
            ("its id is another", |it| {
                (*it.ring).tid.store(1, Ordering::Relaxed)
            }),
            ("another session's ring", |it| {
                (*it.ring).session.store(SESSION + 1, Ordering::Relaxed)
            }),
            ("lent", |it| {
                (*it.ring).lent.store(it.call, Ordering::Relaxed)
            }),
            ("closed", |it| (*it.image).gate.store(0, Ordering::Relaxed)),
            ("another session", |it| {
                (*it.image).gate.store(SESSION + 1, Ordering::Relaxed)
            }),
            ("not this session's", |it| {
                it.hooks[..2].iter().for_each(|hook| (**hook).inline = 0)
            }),
            ("a script", |it| (*it.image).calls.language = 1),
            ("ids are not known", |it| (*it.image).calls.tid_offset = 0),
            ("a storage of its own", |it| {
                (*it.ring).has_block.store(0, Ordering::Relaxed)
            }),
        ]
    };
    for (name, change) in before {
        let counted = Counted::new(GETPID, want::COUNT);
        change(&counted);
        let already = seen().len();
        assert_eq!(counted.make(0), i64::from(std::process::id()), "{name}");
        assert_eq!(seen().len(), already + 2, "{name}: both probes ask");
        let count = counted.count();
        assert_eq!(
            [count.begun, count.returned, counted.depth()],
            [0, 1, 0],
            "{name}"
        );
    }
    // SAFETY: as above.
    let behind: [Change; 5] = unsafe {
        [
            ("told", |it| {
                (*it.hooks[2]).want = want::ENTRY | want::RETURN
            }),
            ("a condition", |it| (*it.hooks[2]).want |= want::HELD),
            ("no table", |it| {
                (*it.ring).counts.store(0, Ordering::Relaxed)
            }),
            ("another row", |it| (*it.row).key += 1),
            ("a look is due", |it| (*it.row).returned = 1024),
        ]
    };
    for (name, change) in behind {
        let counted = Counted::new(GETPID, want::COUNT | want::BARE);
        change(&counted);
        let already = seen().len();
        assert_eq!(counted.make(0), i64::from(std::process::id()), "{name}");
        assert_eq!(seen().len(), already + 1, "{name}: the one behind asks");
        assert_eq!([counted.count().begun, counted.depth()], [0, 1], "{name}");
        let open = counted.open();
        let hook = counted.hooks[2] as u64;
        let of_it = [open.instruction, open.hook, open.ticket, open.injected];
        assert_eq!(of_it, [counted.call + 5, hook, SESSION.into(), 0], "{name}");
        assert_ne!(
            open.began,
            OpenSystemCall::NONE.began,
            "{name}: it would be one that was not told"
        );
    }
    // One that is open below it is another's.
    let counted = Counted::new(GETPID, want::COUNT);
    // SAFETY: this test's own.
    unsafe { (*counted.ring).depth.store(18, Ordering::Relaxed) };
    counted.make(0);
    assert_eq!([counted.count().begun, counted.depth()], [1, 18]);
}

/// Makes the call with a value in each register, and sees that all but those that a system call changes are left alone. Not 0: the stack
/// below it was written.
pub fn leaves_all_alone(counted: &Counted) -> u64 {
    let mut kept: [u64; 12] =
        std::array::from_fn(|index| 0x1111_1111_1111_1111 * (index as u64 + 1));
    let before = kept;
    let mut below = 0u64;
    // SAFETY: the call keeps all other registers, which is what is tested; the stack below is nobody's.
    unsafe {
        asm!(
            "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15", "push rsi",
            // A pattern below what the call itself pushes.
            "lea rax, [rsp - 1024]",
            "2: mov rcx, rax", "mov [rax], rcx", "add rax, 8", "lea rcx, [rsp - 16]", "cmp rax, rcx", "jb 2b",
            "mov r11, rdi", "mov rax, rsi",
            "mov rbx, [rax]", "mov rbp, [rax + 8]", "mov rsi, [rax + 16]", "mov rdi, [rax + 24]",
            "mov r8, [rax + 32]", "mov r9, [rax + 40]", "mov r10, [rax + 48]", "mov r12, [rax + 56]",
            "mov r13, [rax + 64]", "mov r14, [rax + 72]", "mov r15, [rax + 80]", "mov rdx, [rax + 88]",
            "call r11",
            "mov rax, [rsp]",
            "mov [rax], rbx", "mov [rax + 8], rbp", "mov [rax + 16], rsi", "mov [rax + 24], rdi",
            "mov [rax + 32], r8", "mov [rax + 40], r9", "mov [rax + 48], r10", "mov [rax + 56], r12",
            "mov [rax + 64], r13", "mov [rax + 72], r14", "mov [rax + 80], r15", "mov [rax + 88], rdx",
            "xor edx, edx",
            "lea rax, [rsp - 1024]",
            "3: mov rcx, [rax]", "sub rcx, rax", "or rdx, rcx", "add rax, 8", "lea rcx, [rsp - 16]", "cmp rax, rcx", "jb 3b",
            "pop rax", "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
            inout("rsi") kept.as_mut_ptr() => _,
            inout("rdi") counted.call => _,
            inout("rdx") below,
            out("rax") _, out("rcx") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
        );
    }
    assert_eq!(kept, before);
    below
}

#[test]
fn registers_and_the_stack_are_left_alone() {
    let _turn = turn();
    for wanted in [want::COUNT, want::COUNT | want::BARE] {
        let counted = Counted::new(GETPID, wanted);
        assert_eq!(leaves_all_alone(&counted), 0, "the stack below was written");
        assert_eq!(counted.count().begun, 1);
    }
    assert!(seen().is_empty());
}

/// A handler that makes the same call comes in anywhere.
#[test]
fn signals_between_any_two_instructions_lose_no_count() {
    let _turn = turn();
    for wanted in [want::COUNT, want::COUNT | want::BARE] {
        let counted = Counted::new(GETPID, wanted);
        // SAFETY: this test's own row.
        let returned = unsafe { &raw mut (*counted.row).returned };
        let signals = Signals::new(counted.call, Some(returned));
        let mut made = 0u64;
        while Signals::handled() < 2000 {
            if counted.count().returned % 1024 > 1000 {
                // SAFETY: this test's own row; no handler comes meanwhile.
                signals.without(|| unsafe { pass_look(returned) });
            }
            counted.make(0);
            made += 1;
        }
        drop(signals);
        let handled = Signals::handled();
        let count = counted.count();
        assert_eq!(count.begun, made + handled);
        assert_eq!(counted.depth(), 0);
        if wanted & want::BARE == 0 {
            assert_eq!(u64::from(count.buckets.iter().sum::<u32>()), made + handled);
        }
    }
    assert!(seen().is_empty(), "the routine was asked");
}
