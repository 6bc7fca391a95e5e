//! How long it takes to decode a library's text, to plan a hook, and to follow a function's stack arguments, the smallest of
//! many rounds.
//!
//! `cargo run --release -p lancet-trampoline --example sweep [LIBRARY]`

#[path = "../tests/modules/mod.rs"]
mod modules;

use std::time::Instant;

use trampoline::{Options, Stacks, plan};

fn main() {
    let name = std::env::args().nth(1);
    let name = name.as_deref().unwrap_or("libruby-3.1.so.3.1");
    let module = modules::Module::open(name).expect("a library of that name");
    let (mut decode, mut each, mut follow) = (f64::MAX, f64::MAX, f64::MAX);
    let (at, code) = module.text();
    let starts: Vec<u64> = module.functions().map(|named| named.code.entry).collect();
    for _ in 0..10 {
        let start = Instant::now();
        let targets = module.targets();
        decode = decode.min(start.elapsed().as_secs_f64());
        let mut pads = module.pads();
        let start = Instant::now();
        let planned = module
            .functions()
            .filter(|named| plan(&named.code, &targets, &mut pads, Options::default()).is_ok())
            .count();
        each = each.min(start.elapsed().as_secs_f64() / planned as f64);
        let start = Instant::now();
        let mut stacks = Stacks::default();
        for named in module.functions() {
            let size = named.code.size.min(named.code.code.len()) as u64;
            std::hint::black_box(stacks.of(
                code,
                at,
                named.code.entry..named.code.entry + size,
                &starts,
            ));
        }
        follow = follow.min(start.elapsed().as_secs_f64() / planned as f64);
    }
    println!(
        "{name}: {} bytes decoded in {:.1} ms",
        code.len(),
        decode * 1e3
    );
    println!(
        "{:.2} µs to plan one hook, {:.2} µs to follow its stack",
        each * 1e6,
        follow * 1e6
    );
}
