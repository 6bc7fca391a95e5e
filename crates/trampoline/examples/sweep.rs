//! How long it takes to decode a library's text and to plan a hook, the smallest of many rounds.
//!
//! `cargo run --release -p lancet-trampoline --example sweep [LIBRARY]`

#[path = "../tests/modules/mod.rs"]
mod modules;

use std::time::Instant;

use trampoline::{Options, plan};

fn main() {
    let name = std::env::args().nth(1);
    let name = name.as_deref().unwrap_or("libruby-3.1.so.3.1");
    let module = modules::Module::open(name).expect("a library of that name");
    let (mut decode, mut each) = (f64::MAX, f64::MAX);
    for _ in 0..40 {
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
    }
    let (_, code) = module.text();
    println!(
        "{name}: {} bytes decoded in {:.1} ms",
        code.len(),
        decode * 1e3
    );
    println!("{:.2} µs to plan one hook", each * 1e6);
}
