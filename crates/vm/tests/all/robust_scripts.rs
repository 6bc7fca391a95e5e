//! Perl and PHP readers on whatever memory holds: they answer or refuse, they do not panic and do not loop for ever.

use std::fmt::Write;
use std::ops::ControlFlow;

use proptest::prelude::*;
use vm::{Fault, Memory, perl, php};

/// Memory made up from its address: full of pointers into itself, of small numbers and of types and flags.
struct Maze {
    seed: u64,
    /// One address in so many faults; 0 for none.
    faults: u64,
}

impl Maze {
    fn word(&self, at: u64) -> u64 {
        let mut mixed = (at ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 29;
        mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^= mixed >> 32;
        match mixed % 8 {
            0..=3 => 0x10_0000 + (mixed >> 8) % 64 * 8,
            4 => mixed >> 8 & 0xff,
            // Perl's types and flags in the high half, contexts and types of PHP in the low one.
            5 => {
                (0x0200_0000
                    | [9, 12, 13, 1, 3][(mixed >> 8) as usize % 5]
                    | (mixed >> 16 & 0xff00))
                    << 32
                    | 9
            }
            6 => [0, 1, 2, 9, 0x49, 11, 0x4b, 0x2_0008][(mixed >> 8) as usize % 8],
            _ => mixed,
        }
    }
}

impl Memory for Maze {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        for (offset, byte) in into.iter_mut().enumerate() {
            let at = at.checked_add(offset as u64).ok_or(Fault { at })?;
            let aligned = at & !7;
            if self.faults != 0 && self.word(!aligned).is_multiple_of(self.faults) {
                return Err(Fault { at });
            }
            *byte = self.word(aligned).to_le_bytes()[(at % 8) as usize];
        }
        Ok(())
    }
}

/// Every word the same: the shortest cycles there are.
struct Constant(u64);

impl Memory for Constant {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        for (offset, byte) in into.iter_mut().enumerate() {
            *byte = self.0.to_le_bytes()[(at.wrapping_add(offset as u64) % 8) as usize];
        }
        Ok(())
    }
}

/// Takes a little, then refuses.
struct Short(usize);

impl Write for Short {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(std::fmt::Error)?;
        Ok(())
    }
}

fn ask_perl(memory: &dyn Memory, at: u64) {
    // One type for all memories: the readers are compiled once.
    let memory = &memory;
    let out = &mut Short(1 << 12);
    for layout in perl::Layout::all() {
        for key in [7, u64::MAX] {
            let mut words = [at; perl::Facts::WORDS];
            words[0] = perl::Version::new(5, layout.version, 0).packed();
            words[1] = key;
            let facts = perl::Facts::from_words(words);
            assert_eq!(facts.to_words(), words);
            let perl = perl::Perl::new(memory, facts).expect("a known version");
            let _ = perl.interpreter(at);
            for interpreter in [perl.main_interpreter(), perl.at(at)] {
                let _ = perl.depth(&interpreter);
                if let Ok(frames) = perl.frames(&interpreter) {
                    for frame in frames.take(4).flatten() {
                        if let Some(point) = frame.point {
                            let _ = perl.position(point);
                            let _ = perl.package(&interpreter, point);
                        }
                    }
                }
                let _ = perl.xsub(&interpreter, "DBI::db::do");
                let _ = perl.each_sub(&interpreter, "", &mut |_, _| ControlFlow::Continue(()));
                let _ = perl.each_package(&interpreter, "", &mut |_| ControlFlow::Continue(()));
                let mark = perl.mark(&interpreter).unwrap_or(0);
                let _ = perl.write_above(&interpreter, mark, 16, 40, out);
            }
            let _ = perl.write_code_name(at, out);
            let _ = perl.write_value(at, 1000, out);
            ask_perl_heap(&perl, at);
        }
    }
    let _ = perl::Facts::find(memory, &|_| Some(at));
    let _ = perl::Facts::find(memory, &|name| (name != "PL_thr_key").then_some(at));
}

/// Elements of one thing, and heads in all.
const MOST: u64 = 1 << 10;

fn ask_perl_heap<M: Memory>(perl: &perl::Perl<M>, at: u64) {
    let interpreter = perl.at(at);
    let Ok(places) = perl.places(&interpreter, &|_| Some(at)) else {
        return;
    };
    let mut heads = 0;
    let _ = perl.each_arena(&places, MOST, &mut |arena| {
        heads += (arena.end - arena.start) / 24;
        assert!(arena.is_empty() || perl::heap::is_head(&arena, arena.start));
    });
    assert!(heads <= MOST, "more than there may be");
    let mut told = 0;
    let _ = perl.each_sv(at..at.saturating_add(24 * 64), &mut |sv| {
        let _ = perl.size(&sv, false, MOST);
        let _ = perl.references(&sv, MOST, &mut |_, _| told += 1);
        let _ = perl.package_of(&sv);
        if let Ok(Some(names)) = perl.pad_names(&sv, MOST) {
            let _ = perl.pad_name(&names, 1);
        }
        ControlFlow::Continue(())
    });
    let _ = perl.each_glob(at, MOST, &mut |_, _, _| ControlFlow::Continue(()));
}

fn ask_php_heap<M: Memory>(php: &php::Php<M>, at: u64) {
    use php::heap::{Sort, Thing};
    let _ = (php.is_in_request(), php.frame_stack());
    let Ok(places) = php.places(&|_| Some(at)) else {
        return;
    };
    let mut left = MOST;
    let _ = php.each_root(&places, MOST, &mut |_| left = left.saturating_sub(1));
    let _ = php.each_object(MOST, &mut |_| left = left.saturating_sub(1));
    for sort in [
        Sort::Text,
        Sort::Array,
        Sort::Object,
        Sort::Resource,
        Sort::Reference,
    ] {
        let thing = Thing { address: at, sort };
        let _ = (php.count(thing), php.block(thing));
        let _ = php.each_block(&places, thing, MOST, &mut |_| {});
        let _ = php.references(&places, thing, MOST, &mut |_, _| {});
    }
    let mut entries = MOST;
    let _ = php.each_property(at, &mut entries, &mut |_, _, _| {});
}

fn ask_allocator(memory: &&dyn Memory, at: u64) {
    use php::allocator::{Allocator, PAGES};
    for found in [Allocator::at(memory, at), Allocator::of(memory, at)] {
        let Some(allocator) = found else {
            continue;
        };
        let _ = (allocator.in_use(memory), allocator.cached(memory));
        let _ = allocator.next_chunk(memory, allocator.main);
        for page in 0..PAGES {
            let _ = allocator.page(memory, allocator.main, page);
        }
        let _ = allocator.block(memory, at);
        let _ = allocator.large_block(memory, at);
    }
}

fn ask_php(memory: &dyn Memory, at: u64) {
    let memory = &memory;
    let out = &mut Short(1 << 12);
    for layout in php::Layout::all() {
        let facts = php::Facts::from_words([layout.api.into(), at, at, 64, at]);
        let php = php::Php::new(memory, facts).expect("a known version");
        let _ = php.here();
        for frame in php.frames(at).take(4).flatten() {
            let _ = php.write_function_name(frame.function, out);
            if let Some(point) = frame.point {
                let _ = (php.line(point), php.file(point));
            }
        }
        let _ = php.internal("mysqli::query");
        let _ = php.each_function(None, &mut |_, _| ControlFlow::Continue(()));
        let _ = php.each_class(&mut |_| ControlFlow::Continue(()));
        let _ = php.write_arguments(at, 16, 40, out);
        let _ = php.identity(at);
        let _ = php.write_string(at, 40, out);
        let mut left = 100;
        let _ = php.each_fiber(&mut |_| {
            left -= 1;
            if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let _ = php.fiber(at, at);
        let _ = php.parked(at);
        let _ = php.write_value(at, 1000, out);
        ask_php_heap(&php, at);
    }
    ask_allocator(memory, at);
    let _ = php::Facts::find(memory, &|_| Some(at));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn mazes(seed: u64, faults in prop_oneof![Just(0_u64), 2..200_u64], slot in 0..64_u64) {
        ask_perl(&Maze { seed, faults }, 0x10_0000 + slot * 8);
        ask_php(&Maze { seed, faults }, 0x10_0000 + slot * 8);
    }

    #[test]
    fn any_address(seed: u64, at: u64) {
        ask_perl(&Maze { seed, faults: 50 }, at);
        ask_php(&Maze { seed, faults: 50 }, at);
    }
}

#[test]
fn nothing_is_readable() {
    struct Nothing;
    impl Memory for Nothing {
        fn read(&self, at: u64, _: &mut [u8]) -> Result<(), Fault> {
            Err(Fault { at })
        }
    }
    ask_perl(&Nothing, 0x1000);
    ask_php(&Nothing, 0x1000);
}

#[test]
fn constants() {
    for word in [0, 9, u64::MAX] {
        ask_perl(&Constant(word), word & !7);
        ask_php(&Constant(word), word & !7);
    }
}
