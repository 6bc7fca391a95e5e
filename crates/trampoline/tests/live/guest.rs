//! A guest that is ourselves: what `process` does from outside and `agent` inside, in a few lines each.

use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use routine::escape::{Registers, escape, leave_image};
use routine::frame::Guard;
use routine::room::NO_ROOM;
use trampoline::{
    Descriptor, Destination, Frame, Options, Patch, Plan, ProbeFrame, Results, Rooms, Stub,
    Vectors, plan,
};

use crate::modules::Module;

routine::routines! {
    enter = enter,
    leave = leave,
    quick_enter = quick_enter,
    quick_leave = quick_leave,
    probe = probe,
    quick_probe = quick_probe,
    gate = GATE,
    offset = 0,
    rooms = ROOMS,
    blocks = routine::blocks::NONE,
}

/// What the routine knows of stacks.
pub static ROOMS: Rooms = Rooms::anywhere();

/// Probes are done with without vector registers.
pub static QUICK: AtomicBool = AtomicBool::new(false);

/// Open.
pub static GATE: AtomicU32 = AtomicU32::new(1);
/// Calls with this payload are not wanted: `enter` answers 0.
pub static UNWANTED: AtomicU64 = AtomicU64::new(u64::MAX);
/// `enter` reads two stack arguments: every function that is hooked has them.
pub static READS_STACK: AtomicBool = AtomicBool::new(false);

/// Where the next call fails, as by a panic: [`IN_ENTER`], [`IN_LEAVE`], [`IN_PROBE`]; 0 = nowhere.
pub static FAILS: AtomicU32 = AtomicU32::new(0);
pub const IN_ENTER: u32 = 1;
pub const IN_LEAVE: u32 = 2;
pub const IN_PROBE: u32 = 3;

/// Fails below so many frames of Rust, which use all the registers they can.
#[inline(never)]
fn fail(depth: u64, numbers: [u64; 8]) -> u64 {
    if depth == 0 {
        // SAFETY: `land` leaves the registers of the routine; none of the frames below owns anything.
        unsafe { escape(land) }
    }
    let mut mixed = numbers;
    for (at, number) in mixed.iter_mut().enumerate() {
        *number = std::hint::black_box(*number).wrapping_mul(depth + at as u64);
    }
    let deeper = fail(depth - 1, mixed);
    let folded = mixed.iter().zip(numbers).map(|(a, b)| a ^ b);
    folded.fold(deeper, u64::wrapping_add)
}

extern "C" fn land(registers: &mut Registers) -> u64 {
    if leave_image(registers, |_| false).is_none() {
        // A panic would look for its own way out.
        std::process::abort();
    }
    0
}

fn fail_if(here: u32) {
    let order = Ordering::Relaxed;
    if FAILS.compare_exchange(here, 0, order, order).is_ok() {
        fail(20, [7; 8]);
    }
}

/// One call as it was seen.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    pub payload: u64,
    /// 1 = entry, 2 = return, 3 = probe.
    pub what: u64,
    pub integers: [u64; 6],
    pub floats: [f64; 8],
    pub stack: [u64; 2],
    pub result: u64,
}

struct Log(UnsafeCell<[Record; 1 << 16]>);
// SAFETY: each place is written by the one who took it from `NEXT`, and read when the calls have ended.
unsafe impl Sync for Log {}
static LOG: Log = Log(UnsafeCell::new(
    [Record {
        payload: 0,
        what: 0,
        integers: [0; 6],
        floats: [0.0; 8],
        stack: [0; 2],
        result: 0,
    }; 1 << 16],
));
static NEXT: AtomicUsize = AtomicUsize::new(0);

fn note(record: Record) {
    let index = NEXT.fetch_add(1, Ordering::Relaxed);
    if index < 1 << 16 {
        // SAFETY: this place is ours alone.
        unsafe { (&raw mut (*LOG.0.get())[index]).write(record) };
    }
}

/// Ruins every vector register that the ABI lets a function ruin, as `enter` and `leave` may.
fn spoil() {
    spoil_general();
    // SAFETY: the compiler is told.
    unsafe {
        std::arch::asm!("pcmpeqd xmm0, xmm0", "movaps xmm1, xmm0", "movaps xmm2, xmm0", "movaps xmm3, xmm0",
            "movaps xmm4, xmm0", "movaps xmm5, xmm0", "movaps xmm6, xmm0", "movaps xmm7, xmm0",
            "movaps xmm8, xmm0", "movaps xmm15, xmm0", out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
            out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm15") _);
    }
}

/// Ruins the general registers that the ABI lets a function ruin.
fn spoil_general() {
    // SAFETY: the compiler is told.
    unsafe {
        std::arch::asm!("mov r11, -1", "mov r10, -1", "mov r9, -1", "mov r8, -1", "mov rcx, -1", "mov rsi, -1",
            "mov rdi, -1", "mov rdx, -1", "mov rax, -1", out("r11") _, out("r10") _, out("r9") _, out("r8") _,
            out("rcx") _, out("rsi") _, out("rdi") _, out("rdx") _, out("rax") _);
    }
}

/// Everything is asked of `enter` and `leave`, which see vector registers too.
extern "C" fn quick_enter(_: *mut Frame, _: *const routine::Room) -> u64 {
    routine::quick::ASK
}

extern "C" fn quick_leave(_: *mut Frame, _: *const Results) -> u64 {
    routine::quick::ASK
}

/// Done, or asks for `probe`, as the test wants it.
extern "C" fn quick_probe(_: *const ProbeFrame, _: *const routine::Room) -> u64 {
    spoil_general();
    if QUICK.load(Ordering::Relaxed) {
        routine::quick::DONE
    } else {
        routine::quick::ASK
    }
}

unsafe extern "C" fn enter(frame: *mut Frame, vectors: *mut Vectors) -> u64 {
    fail_if(IN_ENTER);
    // SAFETY: the routine's frame, and the descriptor that the stub was made with.
    let (frame, vectors, descriptor) = unsafe { (&mut *frame, &*vectors, &*(*frame).descriptor) };
    assert_eq!(std::ptr::from_mut(frame) as usize % 16, 0);
    if descriptor.payload == UNWANTED.load(Ordering::Relaxed) {
        spoil();
        return 0;
    }
    let stack = Frame::stack_arguments(frame);
    let mut record = Record {
        payload: descriptor.payload,
        what: 1,
        integers: [
            frame.rdi, frame.rsi, frame.rdx, frame.rcx, frame.r8, frame.r9,
        ],
        ..Record::default()
    };
    for (float, xmm) in record.floats.iter_mut().zip(vectors) {
        *float = f64::from_bits(xmm[0]);
    }
    if READS_STACK.load(Ordering::Relaxed) {
        // SAFETY: the test says that they are there.
        record.stack = unsafe { [stack.read(), stack.add(1).read()] };
    }
    note(record);
    frame.ticket = [descriptor.payload, !descriptor.payload, 0x5eed];
    spoil();
    1
}

unsafe extern "C" fn leave(frame: *mut Frame, results: *mut Results) {
    fail_if(IN_LEAVE);
    // SAFETY: as in `enter`.
    let (frame, results) = unsafe { (&mut *frame, &mut *results) };
    assert_eq!(
        frame.ticket,
        [frame.ticket[0], !frame.ticket[0], 0x5eed],
        "the ticket came through"
    );
    note(Record {
        payload: frame.ticket[0],
        what: 2,
        integers: [
            frame.rdi, frame.rsi, frame.rdx, frame.rcx, frame.r8, frame.r9,
        ],
        floats: [f64::from_bits(results.xmm[0][0]); 8],
        result: results.rax,
        ..Record::default()
    });
    spoil();
}

unsafe extern "C" fn probe(frame: *mut ProbeFrame) {
    fail_if(IN_PROBE);
    // SAFETY: as in `enter`.
    let frame = unsafe { &*frame };
    let mut record = Record {
        what: 3,
        // SAFETY: the descriptor that the stub was made with.
        payload: unsafe { (*frame.descriptor).payload },
        result: frame.registers[0],
        ..Record::default()
    };
    record.integers.copy_from_slice(&frame.registers[..6]);
    record.floats[0] = f64::from_bits(frame.registers[6]);
    record.floats[1] = f64::from_bits(frame.registers[7]);
    note(record);
    spoil();
}

/// One test at a time, with an empty log; in `small`, on stacks that have no room.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let guard = TURN.lock().unwrap_or_else(|broken| broken.into_inner());
    NEXT.store(0, Ordering::Relaxed);
    GATE.store(1, Ordering::Relaxed);
    UNWANTED.store(u64::MAX, Ordering::Relaxed);
    if crate::SMALL {
        for (bound, none) in ROOMS.stack.iter().zip(NO_ROOM) {
            bound.store(none, Ordering::Relaxed);
        }
    }
    guard
}

/// What was seen since the turn began.
pub fn seen() -> Vec<Record> {
    let count = NEXT.load(Ordering::Relaxed).min(1 << 16);
    // SAFETY: the calls have ended.
    unsafe { (&(*LOG.0.get()))[..count].to_vec() }
}

/// How many calls, also of those that had no place in the log.
pub fn count() -> usize {
    NEXT.load(Ordering::Relaxed)
}

/// A loaded library.
pub struct Library {
    handle: *mut c_void,
    module: Module,
}
// SAFETY: the handle is only read.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// The fixture `calls.cpp`, compiled once.
pub fn calls() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| Library::compiled("calls.cpp", &[]))
}

/// The fixture `shapes.S`, likewise. Its functions call each other directly.
pub fn shapes() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| Library::compiled("shapes.S", &["-Wl,-Bsymbolic"]))
}

impl Library {
    /// Compiles a fixture with the given options added, and loads it.
    pub fn compiled(name: &str, options: &[&str]) -> Self {
        let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{name}-{}.so", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(name);
        let status = Command::new("g++")
            .args([
                "-O2",
                "-fPIC",
                "-shared",
                "-mno-red-zone",
                "-Wall",
                "-Wno-psabi",
                "-Wno-infinite-recursion",
                "-o",
            ])
            .args([&out, &source])
            .args(options)
            .status()
            .expect("g++ is installed (make deps-test)");
        assert!(status.success());
        let library = Self::load(&out);
        std::fs::remove_file(&out).expect("ours");
        library
    }

    /// Loads a library.
    pub fn load(path: &Path) -> Self {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
        // SAFETY: a library whose initialisers we know to be harmless.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        // SAFETY: dlerror's string is valid until the next call.
        assert!(!handle.is_null(), "{:?}", unsafe {
            CStr::from_ptr(libc::dlerror())
        });
        let mut map = std::ptr::null_mut::<LinkMap>();
        // SAFETY: RTLD_DI_LINKMAP stores one pointer.
        let said = unsafe { libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) };
        assert_eq!(said, 0);
        // SAFETY: the loader's own structure.
        let (base, loaded) = unsafe { ((*map).base, CStr::from_ptr((*map).name)) };
        let file = Path::new(loaded.to_str().expect("a path"));
        let module = Module::at(file, base);
        Self { handle, module }
    }

    pub fn address(&self, name: &str) -> u64 {
        let symbol = CString::new(name).expect("a name");
        // SAFETY: a valid handle and string.
        let found = unsafe { libc::dlsym(self.handle, symbol.as_ptr()) };
        assert!(!found.is_null(), "no {name}");
        found as u64
    }

    /// A checker's answer: 0, or the line that was wrong.
    pub fn check(&self, name: &str) -> i32 {
        // SAFETY: checkers take nothing and return an int.
        let check: extern "C" fn() -> i32 = unsafe { std::mem::transmute(self.address(name)) };
        check()
    }

    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Hooks a function.
    pub fn hook(&self, name: &str, flags: u32, copied: u32) -> Hook {
        self.hook_with(
            name,
            flags,
            copied,
            trampoline_call_through as *const () as u64,
        )
    }

    /// Hooks a function with a routine of one's own. The payload is its address.
    pub fn hook_with(&self, name: &str, flags: u32, copied: u32, routine: u64) -> Hook {
        let entry = self.address(name);
        let named = self
            .module
            .functions()
            .find(|named| named.code.entry == entry);
        let function = named.unwrap_or_else(|| panic!("no {name}")).code;
        let plan = plan(
            &function,
            &self.module.targets(),
            &mut self.module.pads(),
            Options::default(),
        );
        Hook::set(
            plan.unwrap_or_else(|why| panic!("{name}: {why}")),
            flags,
            copied,
            routine,
        )
    }
}

/// `struct link_map` of <link.h>, its first members.
#[repr(C)]
struct LinkMap {
    base: u64,
    name: *const libc::c_char,
}

/// A hook that is set. Its stub is never unmapped.
pub struct Hook {
    pub plan: Plan,
    pub stub: Stub,
    patches: Vec<Patch>,
    descriptor: *mut Descriptor,
}

/// Memory for stubs near `to`.
pub fn island(to: u64) -> u64 {
    let mut hint = to & !0xfff;
    loop {
        hint -= 1 << 20;
        assert!(to - hint < 1 << 31, "no room");
        let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: a new mapping where there is none.
        let at = unsafe { libc::mmap(hint as *mut c_void, 4096, access, flags, -1, 0) };
        if at as u64 == hint {
            return hint;
        }
    }
}

/// Writes into our own text.
pub fn write(at: u64, bytes: &[u8]) {
    let page = at & !0xfff;
    let length = (at + bytes.len() as u64 - page) as usize;
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: text of ours, which keeps its contents.
    let said = unsafe { libc::mprotect(page as *mut c_void, length, access) };
    assert_eq!(said, 0);
    // SAFETY: writable now; nobody runs these bytes, because tests take turns.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
}

impl Hook {
    pub fn set(plan: Plan, flags: u32, copied: u32, routine: u64) -> Self {
        let at = island(plan.patch_at);
        let descriptor = Descriptor::new(0, flags, copied, plan.entry, plan.entry);
        let descriptor = Box::into_raw(Box::new(descriptor));
        let to = Destination {
            routine,
            descriptor: descriptor as u64,
        };
        let stub = plan.stub(at, to).expect("within reach");
        // SAFETY: never freed, and no stub leads to it yet.
        unsafe { (*descriptor).original = stub.original };
        write(at, &stub.bytes);
        let patches = plan.patches(at).expect("within reach");
        let hook = Self {
            plan,
            stub,
            patches,
            descriptor,
        };
        hook.put();
        hook
    }

    /// Gives it a guard; nobody calls the function meanwhile.
    pub fn guard(&self, guard: Guard) {
        // SAFETY: never freed; tests take turns.
        unsafe { (*self.descriptor).guard = guard };
    }

    /// Sets it again.
    pub fn put(&self) {
        for patch in &self.patches {
            // SAFETY: readable text.
            let now = unsafe { std::slice::from_raw_parts(patch.at as *const u8, patch.old.len()) };
            assert_eq!(now, patch.old, "somebody else was here");
            write(patch.at, &patch.new);
        }
    }

    /// Takes the hook back; its stub stays.
    pub fn lift(&self) {
        for patch in self.patches.iter().rev() {
            write(patch.at, &patch.old);
        }
    }
}

impl Drop for Hook {
    /// The next test finds the text as it was, however this one ended.
    fn drop(&mut self) {
        self.lift();
    }
}
