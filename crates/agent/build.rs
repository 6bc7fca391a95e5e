//! Links the agent as a static position-independent program without libc, start files or imports.

fn main() {
    for argument in [
        "-nostdlib",
        "-nostartfiles",
        "-static-pie",
        "-Wl,--entry=enter",
        // Entered by address only, so the linker sees no use of it.
        "-Wl,--undefined=open_calls",
        "-Wl,--undefined=trampoline_call_through",
        "-Wl,--no-dynamic-linker",
        "-Wl,-z,norelro",
        "-Wl,-z,noexecstack",
        "-Wl,-z,max-page-size=4096",
        "-Wl,--build-id=none",
        "-Wl,--hash-style=gnu",
    ] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
