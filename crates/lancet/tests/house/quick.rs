//! The agent's short way of a call and past a probe (`quick_enter`, `quick_leave`, `quick_probe`) uses no vector register:
//! the routine keeps none for it.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess,
};
use object::{Object, ObjectSection, ObjectSymbol};
use std::fs;

/// The instructions of a function, by its symbol.
fn code(file: &object::File, name: &str) -> Vec<Instruction> {
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name));
    let symbol = symbol.unwrap_or_else(|| panic!("{name} is not in the agent"));
    let section = symbol.section_index().expect("it is code");
    let section = file.section_by_index(section).expect("it is code");
    let bytes = section.data_range(symbol.address(), symbol.size());
    let bytes = bytes.expect("readable").expect("all of it");
    let decoder = Decoder::with_ip(64, bytes, symbol.address(), DecoderOptions::NONE);
    decoder.into_iter().collect()
}

#[test]
fn the_short_way_of_a_call_leaves_vector_registers_alone() {
    let bytes = fs::read(env!("LANCET_AGENT")).expect("the agent, built by build.rs");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let mut registers = InstructionInfoFactory::new();
    for name in ["quick_enter", "quick_leave", "quick_probe"] {
        let code = code(&file, name);
        assert!(code.len() > 50, "{name}: {} instructions", code.len());
        let within = code[0].ip()..code[code.len() - 1].next_ip();
        for instruction in &code {
            let at = format!(
                "{name}+{:#x}: {:?}",
                instruction.ip() - within.start,
                instruction.mnemonic()
            );
            let calls = match instruction.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall | FlowControl::IndirectBranch => {
                    // `syscall` is a call to the decoder; the kernel keeps vector registers.
                    instruction.mnemonic() != iced_x86::Mnemonic::Syscall
                }
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    !within.contains(&instruction.near_branch_target())
                }
                _ => false,
            };
            assert!(!calls, "{at}: other code runs");
            let used = registers.info(instruction).used_registers();
            let vectors = used.iter().filter(|used| used.access() != OpAccess::None);
            for used in vectors {
                let register = used.register();
                let other = register.is_vector_register() || register.is_st() || register.is_mm();
                assert!(!other, "{at}");
            }
        }
    }
}
