//! Static probes: read from notes, hooked at their nops.

use std::sync::atomic::Ordering;

use trampoline::probe::{self, Spot};
use trampoline::usdt::{self, Found};
use trampoline::{Descriptor, Destination, Options, Refusal};

use crate::guest::{QUICK, ROOMS, island, seen, shapes, trampoline_probe, turn, write};
use crate::modules::Module;

/// Takes patches back.
pub struct Patched(pub Vec<trampoline::Patch>);
impl Drop for Patched {
    fn drop(&mut self) {
        self.0
            .iter()
            .rev()
            .for_each(|patch| write(patch.at, &patch.old));
    }
}

/// Hooks the probe at an address within a function: the patches, how many bytes before the nop they begin, and the
/// descriptor.
fn hooked(module: &Module, function: &str, pc: u64) -> (Patched, u64, &'static Descriptor) {
    let named = module
        .functions()
        .find(|named| named.name == function)
        .expect(function);
    let plan = probe::plan(
        &named.code,
        pc,
        Spot::Nop,
        &module.targets(),
        &mut module.pads(),
        Options::default(),
    )
    .expect(function);
    let at = island(pc);
    let descriptor = Box::leak(Box::new(Descriptor::new(0, 0, 0, 5, pc)));
    let to = Destination {
        routine: trampoline_probe as *const () as u64,
        descriptor: &raw const *descriptor as u64,
    };
    let stub = plan.stub(at, to, None).expect("near");
    assert!(stub.bytes.len() <= plan.most(false));
    write(at, &stub.bytes);
    let patched = Patched(plan.patches(at).expect("near"));
    patched
        .0
        .iter()
        .for_each(|patch| write(patch.at, &patch.new));
    (patched, plan.site - plan.patch_at, descriptor)
}

#[test]
fn a_probe_sees_all_registers_and_disturbs_none() {
    let _turn = turn();
    let library = shapes();
    let module = library.module();
    let (base, notes) = module.probes();
    for (name, function, before) in [("early", "probed", 0), ("late", "probed_late", 4)] {
        let probe = usdt::probes(&notes, base)
            .find(|probe| probe.name == name)
            .expect(name);
        assert_eq!(probe.provider, "shapes");
        // SAFETY: the fixture's functions have this type.
        let called: extern "C" fn(u64, u64) -> u64 =
            unsafe { std::mem::transmute(library.address(function)) };
        let pairs = [(1, 2), (2, 1), (7, 7), (40, 100)];
        let bare = pairs.map(|(a, b)| called(a, b));
        let (patched, before_it, descriptor) = hooked(module, function, probe.pc);
        assert_eq!(before_it, before, "{name}");
        let already = seen().len();
        assert_eq!(pairs.map(|(a, b)| called(a, b)), bare, "{name}");
        let hits = seen()[already..].to_vec();
        assert_eq!(hits.len(), 4);
        for (hit, (a, b)) in hits.iter().zip(pairs) {
            let mut frame = trampoline::ProbeFrame {
                xmm: [[0; 2]; 16],
                registers: [0; 16],
                flags: 0,
                descriptor,
            };
            frame.registers[..6].copy_from_slice(&hit.integers);
            // rsi and rdi, which the log has among its floats.
            frame.registers[6] = hit.floats[0].to_bits();
            frame.registers[7] = hit.floats[1].to_bits();
            let found: Vec<Found> = usdt::arguments(probe.arguments)
                .map(|argument| argument.expect("understood").find(&frame, 0))
                .collect();
            if name == "early" {
                assert_eq!(found[..2], [Found::Value(a), Found::Value(b)]);
                assert_eq!(
                    found[2],
                    Found::At(frame.registers[4] - 8),
                    "relative to the stack pointer at the nop"
                );
            } else {
                assert_eq!(found, [Found::Value(a + b)]);
            }
        }
        drop(patched);
        assert_eq!(pairs.map(|(a, b)| called(a, b)), bare);
        assert_eq!(seen().len(), already + 4);
    }
}

/// Both by `popf` and by `sahf`, with and without vector registers.
#[test]
fn the_flags_are_those_of_before_the_probe() {
    let _turn = turn();
    let library = shapes();
    let module = library.module();
    let (base, notes) = module.probes();
    let probe = usdt::probes(&notes, base).find(|probe| probe.name == "flags");
    let (patched, ..) = hooked(module, "probed_flags", probe.expect("in shapes.S").pc);
    // SAFETY: the fixture's function has this type.
    let called: extern "C" fn(u64) -> u64 =
        unsafe { std::mem::transmute(library.address("probed_flags")) };
    // CF, PF, AF, ZF, SF, DF, OF; AC, which lets nothing happen in what runs in between but aligned accesses, is left out.
    let bits = [0, 2, 4, 6, 7, 10, 11];
    // SAFETY: reads a word of the auxiliary vector. Bit 1: programs may use `rdfsbase` (arch/x86/include/uapi/asm/hwcap2.h).
    let tells = unsafe { libc::getauxval(libc::AT_HWCAP2) } & 2 != 0;
    for tells in [false, tells] {
        ROOMS.tells_pointer.store(tells.into(), Ordering::Relaxed);
        for quick in [false, true] {
            QUICK.store(quick, Ordering::Relaxed);
            for chosen in 0..1 << bits.len() {
                let set = bits.iter().enumerate();
                let flags = set.fold(0x202, |flags, (at, bit)| flags | (chosen >> at & 1) << bit);
                assert_eq!(called(flags), flags, "{flags:#x} {tells} {quick}");
            }
        }
    }
    ROOMS.tells_pointer.store(0, Ordering::Relaxed);
    QUICK.store(false, Ordering::Relaxed);
    drop(patched);
}

#[test]
fn a_probe_that_would_miss_some_is_refused() {
    let module = shapes().module();
    let (base, notes) = module.probes();
    let probe = usdt::probes(&notes, base)
        .find(|probe| probe.name == "never")
        .expect("in shapes.S");
    let named = module
        .functions()
        .find(|named| named.name == "probed_never")
        .expect("in shapes.S");
    let refused = probe::plan(
        &named.code,
        probe.pc,
        Spot::Nop,
        &module.targets(),
        &mut module.pads(),
        Options::default(),
    );
    assert_eq!(refused.err(), Some(Refusal::BranchInto));
}

#[test]
fn the_probes_of_ruby_and_python_are_read_and_planned() {
    for name in [
        "libruby-3.1.so.3.1",
        "libpython3.11.so.1.0",
        "libc.so.6",
        "libstdc++.so.6",
    ] {
        let Some(module) = Module::open(name) else {
            eprintln!("SKIPPED {name}: not installed");
            continue;
        };
        let (base, notes) = module.probes();
        let (targets, mut pads) = (module.targets(), module.pads());
        let (mut all, mut planned, mut bad) = (0, 0, 0);
        for probe in usdt::probes(&notes, base) {
            all += 1;
            bad += usdt::arguments(probe.arguments)
                .filter(Option::is_none)
                .count();
            assert_eq!(module.bytes(probe.pc, 1), [0x90], "{probe:?}");
            // A stripped library: the function around the probe may have no name. Any exported one before it is a place
            // where an instruction begins.
            let Some(function) = module.containing(probe.pc) else {
                continue;
            };
            match probe::plan(
                &function,
                probe.pc,
                Spot::Nop,
                &targets,
                &mut pads,
                Options::default(),
            ) {
                Ok(_) => planned += 1,
                Err(why) => println!("    {name} {}:{} {why}", probe.provider, probe.name),
            }
        }
        println!("{name}: {all} probes, {planned} can be hooked");
        assert!(all > 0 || !name.contains("ruby"), "{name}");
        assert_eq!(bad, 0, "{name}: arguments not understood");
        assert!(planned * 20 >= all * 17, "{name}: {planned} of {all}");
    }
}
