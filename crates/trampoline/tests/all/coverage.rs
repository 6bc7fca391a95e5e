//! How many of the exported functions of this machine's libraries can be hooked: at least 99 in 100, each.
//!
//! `cargo test -p lancet-trampoline --test all coverage:: -- --nocapture` prints the table and the refused by name.

use std::collections::BTreeMap;

use crate::modules::Module;
use trampoline::hook_policy::{Treatment, treatment};
use trampoline::{Destination, Kind, Options, Refusal, Stack, Stacks, plan};

const LIBRARIES: [&str; 10] = [
    "libruby-3.1.so.3.1",
    "libc.so.6",
    "libm.so.6",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libssl.so.3",
    "libcrypto.so.3",
    "libpython3.11.so.1.0",
    "libperl.so.5.36",
    "libmariadb.so.3",
];

#[test]
fn ninety_nine_in_a_hundred_exported_functions_are_planned() {
    let mut bad = Vec::new();
    let mut seen = 0;
    for name in LIBRARIES {
        let Some(module) = Module::open(name) else {
            eprintln!("SKIPPED {name}: not installed");
            continue;
        };
        seen += 1;
        let (targets, mut pads) = (module.targets(), module.pads());
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        let mut refused = BTreeMap::new();
        let mut stacks = Stacks::default();
        let mut starts: Vec<u64> = module.functions().map(|named| named.code.entry).collect();
        starts.sort_unstable();
        for function in module.functions() {
            let range = function.code.entry..function.code.entry + function.code.size as u64;
            let (at, code) = module.text();
            let own_return = range.start >= at
                && range.end <= at + code.len() as u64
                && stacks.of(code, at, range, &starts) == Stack::OwnReturn
                && treatment(function.name) == Treatment::CallThrough;
            if own_return {
                let why = Refusal::ReturnAddress;
                refused.insert(function.name, why.to_string());
                continue;
            }
            match plan(&function.code, &targets, &mut pads, Options::default()) {
                Ok(plan) => {
                    let kind = match plan.kind {
                        Kind::Long => "long",
                        Kind::Padded => "padded",
                        Kind::Short { .. } => "short",
                        Kind::Whole => "whole",
                    };
                    *kinds.entry(kind).or_default() += 1;
                    // An island 1 GiB away, the routine at the other end of the address space.
                    let at = plan.entry + (1 << 30);
                    let far = Destination {
                        routine: 0x7fff_0000_0000,
                        descriptor: 0x7ffe_0000_0000,
                    };
                    let stub = plan.stub(at, far).expect("encodes");
                    assert!(stub.bytes.len() <= plan.most(), "{}", function.name);
                    let patches = plan.patches(at).expect("in reach");
                    for patch in patches {
                        assert_eq!(module.bytes(patch.at, patch.old.len()), patch.old);
                    }
                }
                Err(refusal) => {
                    refused.insert(function.name, refusal.to_string());
                }
            }
        }
        let planned: usize = kinds.values().sum();
        let all = planned + refused.len();
        println!(
            "{name}: {planned} of {all} ({:.2}%) {kinds:?}; tables {} blind {}",
            100.0 * planned as f64 / all as f64,
            targets.tables,
            targets.blind.len()
        );
        for (name, why) in &refused {
            println!("    {name}: {why}");
        }
        assert!(all > 50, "{name}: only {all} functions");
        if planned * 100 < all * 99 {
            bad.push(name);
        }
    }
    assert!(seen >= 5, "too few libraries to say anything");
    assert!(bad.is_empty(), "below 99%: {bad:?}");
}
