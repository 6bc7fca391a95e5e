//! The agent makes pointers of numbers in one module, `memory::follow`, whose text says of each kind of memory why an access cannot
//! fault. An address that was followed elsewhere has killed guests: it was asked whether it can be read, and another thread gave the
//! memory back before it was.

use super::{refuse, sources};

/// Where pointers are made of numbers.
const HERE: &str = "agent/src/memory/follow.rs";

/// The functions of the module, which its table must have.
const KINDS: [&str; 4] = ["ours", "own_stack", "kept", "Copied"];

/// Files that read what others keep or what lies on the thread's own stack. A new one argues in the table why that cannot fault.
const READ: [&str; 17] = [
    "agent/src/languages/php/births/bailout.rs",
    "agent/src/languages/php/births/requests.rs",
    "agent/src/languages/ruby/births/birth.rs",
    "agent/src/languages/ruby/births/census.rs",
    "agent/src/languages/ruby/births/door.rs",
    "agent/src/languages/ruby/births/newborns.rs",
    "agent/src/languages/ruby/births/watch.rs",
    "agent/src/calls/blocks.rs",
    "agent/src/calls/loader.rs",
    "agent/src/calls/ring.rs",
    "agent/src/calls/room.rs",
    "agent/src/calls/system_calls.rs",
    "agent/src/calls/system_calls/inject.rs",
    "agent/src/languages/ruby/collections.rs",
    "agent/src/memory/copied.rs",
    "agent/src/memory/direct.rs",
    "agent/src/memory/follow.rs",
];

/// Files that call functions of the guest by their addresses.
const CALL: [&str; 5] = [
    "agent/src/languages/functions.rs",
    "agent/src/languages/python/snapshot.rs",
    "agent/src/languages/ruby/jobs.rs",
    "agent/src/languages/ruby/vmcalls.rs",
    "agent/src/snapshot/allocator.rs",
];

/// Files with instructions of their own, none of which reads an address that a guest has given.
const ASSEMBLE: [&str; 9] = [
    "agent/src/languages/php/births/bailout.rs",
    "agent/src/languages/php/births/handlers.rs",
    "agent/src/calls/thread.rs",
    "agent/src/calls/x87.rs",
    "agent/src/guard.rs",
    "agent/src/memory/builtins.rs",
    "agent/src/memory/instruction.rs",
    "agent/src/memory/sys.rs",
    "agent/src/memory/sys/alarm.rs",
];

/// Interrupts the agent behind each of its instructions, in tests alone: it is in no agent that a guest gets (`calls.rs`).
const STEPS: &str = "agent/src/calls/interleaved/steps.rs";

/// Ways to make a pointer of a number, in code without white space.
const MADE: [&str; 11] = [
    "as*const",
    "as*mut",
    "with_exposed_provenance",
    "from_exposed_addr",
    "with_addr(",
    "map_addr(",
    "without_provenance",
    "null::<",
    "null_mut::<",
    "NonNull::new",
    "byte_add(",
];

/// What is at fault in the code of a file.
fn strays(name: &str, text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .flat_map(str::split_whitespace)
        .collect();
    // The address of a function is a number that is made of a pointer, not the reverse.
    let code = code.replace("as*const()asu64", "");
    let mut found: Vec<&str> = MADE
        .into_iter()
        .filter(|way| name != HERE && code.contains(way))
        .collect();
    if code.contains("transmute") && !CALL.contains(&name) {
        found.push("transmute");
    }
    if (code.contains("kept::<") || code.contains("own_stack::<")) && !READ.contains(&name) {
        found.push("kept, own_stack");
    }
    if code.contains("asm!(") && !ASSEMBLE.contains(&name) {
        found.push("asm!");
    }
    let told = |way| format!("{name}: {way}: follow addresses by memory::follow alone");
    found.into_iter().map(told).collect()
}

#[test]
fn are_in_one_module() {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let name = path.display().to_string();
        if name == "agent/src/calls.rs" {
            let of_tests = "#[cfg(all(test, not(miri)))]\nmod interleaved;";
            assert!(text.contains(of_tests), "{STEPS} is more than a test");
        }
        if name.starts_with("agent/src/") && name != STEPS {
            seen += 1;
            wrong.extend(strays(&name, &text));
        }
        if name == HERE {
            let rows = KINDS.map(|kind| text.contains(&format!("//! | [`{kind}`]")));
            assert_eq!(rows, [true; KINDS.len()], "its table lacks a kind");
        }
    }
    assert!(seen > 50, "these are not all: {seen}");
    refuse(wrong);
}

/// A dereference that is added elsewhere is found, however it is written.
#[test]
fn a_stray_is_found() {
    let (path, text) = sources()
        .into_iter()
        .find(|(path, _)| path.ends_with("agent/src/calls/captures.rs"))
        .expect("the file");
    let name = path.display().to_string();
    assert_eq!(strays(&name, &text), [""; 0]);
    for stray in [
        "let byte = unsafe { *(at as *const u8) };",
        "unsafe { (at as\n    *mut u64).write(0) };",
        "let word = unsafe { core::ptr::with_exposed_provenance::<u64>(at as usize).read() };",
        "let word: &u64 = unsafe { core::mem::transmute(at) };",
        "unsafe { core::arch::asm!(\"mov {}, [{}]\", out(reg) word, in(reg) at) };",
        "let word = unsafe { core::ptr::null::<u8>().add(at as usize).read() };",
        "let word = unsafe { *crate::memory::follow::kept::<u64>(at) };",
    ] {
        let more = format!("{text}\nfn stray(at: u64) {{ {stray} }}\n");
        assert_eq!(strays(&name, &more).len(), 1, "{stray}");
    }
}
