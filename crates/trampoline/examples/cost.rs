//! What a hooked call costs, in nanoseconds: the smallest of many rounds, all kinds in one run.
//!
//! `cargo run --release -p lancet-trampoline --example cost`
//!
//! `enter` and `leave` do what an agent's would: place in a ring by one atomic addition, 128 bytes of record, the time
//! stamp counter at entry and at return. The last lines compare ways to keep the vector registers.

use std::arch::x86_64::_rdtsc;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use routine::frame::{COPIED, flags};
use trampoline::{
    Descriptor, Destination, Frame, Function, Options, Pads, ProbeFrame, Results, Rooms, Targets,
    Vectors, plan,
};

routine::routines! { enter = enter, leave = leave, quick_enter = quick_enter, quick_leave = quick_leave,
probe = probe, quick_probe = quick_probe, gate = GATE, offset = 0, rooms = ROOMS, blocks = routine::blocks::NONE }

static ROOMS: Rooms = Rooms::anywhere();

static GATE: AtomicU32 = AtomicU32::new(1);
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// An argument that is not wanted.
static UNWANTED: AtomicU64 = AtomicU64::new(u64::MAX);

/// Two cache lines.
#[repr(C, align(64))]
struct Record {
    payload: u64,
    begin: u64,
    end: u64,
    caller: u64,
    integers: [u64; 6],
    stack: u64,
    result: u64,
    floats: [u64; 4],
}

const PLACES: usize = 1 << 12;
struct Ring(UnsafeCell<[Record; PLACES]>);
// SAFETY: one thread.
unsafe impl Sync for Ring {}
static RING: Ring = Ring(UnsafeCell::new([const { zero() }; PLACES]));

const fn zero() -> Record {
    Record {
        payload: 0,
        begin: 0,
        end: 0,
        caller: 0,
        integers: [0; 6],
        stack: 0,
        result: 0,
        floats: [0; 4],
    }
}

/// Everything is asked of `enter` and `leave`, which see vector registers too.
extern "C" fn quick_enter(_: *mut Frame, _: *const routine::Room) -> u64 {
    routine::quick::ASK
}

extern "C" fn quick_leave(_: *mut Frame, _: *const Results) -> u64 {
    routine::quick::ASK
}

extern "C" fn quick_probe(_: *const ProbeFrame, _: *const routine::Room) -> u64 {
    routine::quick::ASK
}

unsafe extern "C" fn enter(frame: *mut Frame, vectors: *mut Vectors) -> u64 {
    // SAFETY: the routine's frame and registers.
    let (frame, xmm) = unsafe { (&mut *frame, &*vectors) };
    if frame.rdi == UNWANTED.load(Ordering::Relaxed) {
        return 0;
    }
    let place = NEXT.fetch_add(1, Ordering::Relaxed) % PLACES;
    // SAFETY: within the ring.
    let record = unsafe { &mut (*RING.0.get())[place] };
    // SAFETY: the stub's descriptor.
    record.payload = unsafe { (*frame.descriptor).payload };
    record.caller = frame.return_address;
    record.integers = [
        frame.rdi, frame.rsi, frame.rdx, frame.rcx, frame.r8, frame.r9,
    ];
    record.floats = [xmm[0][0], xmm[1][0], xmm[2][0], xmm[3][0]];
    record.stack = Frame::stack_arguments(frame) as u64;
    // SAFETY: any x86-64 has it.
    record.begin = unsafe { _rdtsc() };
    frame.ticket[0] = std::ptr::from_mut(record) as u64;
    1
}

unsafe extern "C" fn leave(frame: *mut Frame, results: *mut Results) {
    // SAFETY: the routine's; the ticket is `enter`'s.
    unsafe {
        let record = &mut *((*frame).ticket[0] as *mut Record);
        record.end = _rdtsc();
        record.result = (*results).rax;
    }
}

unsafe extern "C" fn probe(_: *mut ProbeFrame) {}

core::arch::global_asm!(
    ".balign 64",
    ".globl trivial",
    "trivial:",
    "lea rax, [rdi + rsi]",
    "add rax, rdx",
    "add rax, r9",
    "ret",
    ".balign 64",
    ".globl sse",
    "sse:",
    "sub rsp, 264",
    "movups [rsp], xmm0",
    "movups [rsp+16], xmm1",
    "movups [rsp+32], xmm2",
    "movups [rsp+48], xmm3",
    "movups [rsp+64], xmm4",
    "movups [rsp+80], xmm5",
    "movups [rsp+96], xmm6",
    "movups [rsp+112], xmm7",
    "movups [rsp+128], xmm8",
    "movups [rsp+144], xmm9",
    "movups [rsp+160], xmm10",
    "movups [rsp+176], xmm11",
    "movups [rsp+192], xmm12",
    "movups [rsp+208], xmm13",
    "movups [rsp+224], xmm14",
    "movups [rsp+240], xmm15",
    "movups xmm0, [rsp]",
    "movups xmm1, [rsp+16]",
    "movups xmm2, [rsp+32]",
    "movups xmm3, [rsp+48]",
    "movups xmm4, [rsp+64]",
    "movups xmm5, [rsp+80]",
    "movups xmm6, [rsp+96]",
    "movups xmm7, [rsp+112]",
    "movups xmm8, [rsp+128]",
    "movups xmm9, [rsp+144]",
    "movups xmm10, [rsp+160]",
    "movups xmm11, [rsp+176]",
    "movups xmm12, [rsp+192]",
    "movups xmm13, [rsp+208]",
    "movups xmm14, [rsp+224]",
    "movups xmm15, [rsp+240]",
    "add rsp, 264",
    "ret",
    ".balign 64",
    ".globl xsave_pair",
    "xsave_pair:",
    "mov eax, 0xe6",
    "xor edx, edx",
    "xsavec [rdi]",
    "mov eax, 0xe6",
    "xor edx, edx",
    "xrstor [rdi]",
    "ret",
    ".balign 64",
    ".globl counter",
    "counter:",
    "rdtsc",
    "ret",
);
unsafe extern "C" {
    fn trivial(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64;
    fn sse(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64;
    fn xsave_pair(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64;
    fn counter(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64;
}
type Six = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64;

#[repr(C, align(64))]
struct Area(UnsafeCell<[u8; 4096]>);
// SAFETY: one thread.
unsafe impl Sync for Area {}
static AREA: Area = Area(UnsafeCell::new([0; 4096]));

/// Nanoseconds of one call, loop included.
fn time(function: Six) -> f64 {
    let function = black_box(function);
    let argument = AREA.0.get() as u64;
    let round = || {
        let start = Instant::now();
        for turn in 0..20_000 {
            // SAFETY: these functions take six integers, one of them an area to write to.
            black_box(unsafe { function(argument, turn, 3, 4, 5, 6) });
        }
        start.elapsed().as_nanos() as f64 / 20_000.0
    };
    (0..300).map(|_| round()).fold(f64::MAX, f64::min)
}

fn writable(at: u64, length: usize) {
    let page = at & !4095;
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: our own text.
    let said =
        unsafe { libc::mprotect(page as *mut c_void, (at - page) as usize + length, access) };
    assert_eq!(said, 0);
}

fn main() {
    let entry = trivial as *const () as u64;
    // SAFETY: our own text.
    let code = unsafe { std::slice::from_raw_parts(entry as *const u8, 16) };
    let function = Function {
        entry,
        code,
        size: 11,
    };
    let targets = Targets::of(code, entry, &[], None);
    let plan = plan(
        &function,
        &targets,
        &mut Pads::default(),
        Options::default(),
    )
    .expect("a plan");
    let hint = (entry & !4095) - (64 << 20);
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping.
    let island = unsafe { libc::mmap(hint as *mut c_void, 4096, access, private, -1, 0) } as u64;
    assert_eq!(island, hint);
    let descriptor: *mut Descriptor = Box::leak(Box::new(Descriptor::new(0, 0, 0, 7, entry)));
    let routine = trampoline_call_through as *const () as u64;
    let stub = plan
        .stub(
            island,
            Destination {
                routine,
                descriptor: descriptor as u64,
            },
        )
        .expect("in reach");
    let patch = plan.patches(island).expect("in reach").remove(0);
    writable(patch.at, 5);
    let write = |at: u64, bytes: &[u8]| {
        // SAFETY: writable, and nobody runs it now.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
    };
    write(island, &stub.bytes);
    println!("stub of {} bytes", stub.bytes.len());

    let bare = time(trivial);
    println!("{bare:6.1} ns  bare");
    write(patch.at, &patch.new);
    let set = |flags, copied| {
        // SAFETY: one thread, no call is under way.
        unsafe { *descriptor = Descriptor::new(stub.original, flags, copied, 7, entry) };
    };
    let show = |what: &str| {
        let hooked = time(trivial);
        println!("{hooked:6.1} ns  {what} (+{:.1})", hooked - bare);
    };
    set(0, COPIED);
    show("entry + return, six arguments, 2 rdtsc, 128-byte record, 96 bytes of stack copied");
    set(0, 0);
    show("the same, known to have no stack arguments");
    set(flags::ENTRY_ONLY, 0);
    show("entry only");
    UNWANTED.store(AREA.0.get() as u64, Ordering::Relaxed);
    set(0, COPIED);
    show("enter says no");
    GATE.store(0, Ordering::Relaxed);
    show("gate closed");
    write(patch.at, &patch.old);
    println!("{:6.1} ns  bare again", time(trivial));
    println!("{:6.1} ns  one rdtsc", time(counter));
    println!(
        "{:6.1} ns  sixteen xmm saved and restored by movups, once",
        time(sse)
    );
    if is_x86_feature_detected!("xsavec") && is_x86_feature_detected!("avx512f") {
        println!(
            "{:6.1} ns  all vector registers by xsavec and xrstor, once",
            time(xsave_pair)
        );
    }
}
