//! The unwinding rules of `trampoline_call_through`, one entry in the form of `.eh_frame` (DWARF 5, 6.4; LSB core
//! 5.0, 10.6.1).
//!
//! They are no `.cfi` directives: those would make an entry without a name in the image's `.eh_frame`, and
//! `trampoline_find_fde` has to give its address (`unwind.rs`). So the record is laid out here, its instructions by
//! name; `tests/all/rules.rs` of crate `trampoline` walks the routine and holds them against each of its instructions.
//!
//! ```text
//!   where                     the frame's address (CFA) is     the caller's rbp
//!   entry … push              rsp + 8                          in rbp
//!   pushed                    rsp + 16                         at CFA - 16
//!   framed … leave            rbp + 16                         at CFA - 16
//!   left: ret                 rsp + 8                          in rbp
//!   framed again … leave      rbp + 16                         at CFA - 16
//!   unframed … end            rsp + 8                          in rbp
//! ```
//!
//! The return address is at CFA - 8 all the time. Offsets are divided by the data factor, -8.

/// Text for the block of `__call_through`, whose operands and labels it uses.
#[doc(hidden)]
#[macro_export]
macro_rules! __rules {
    () => {
        concat!(
            ".pushsection .rodata.trampoline,\"a\",@progbits\n",
            ".balign 8\n",
            // What entries have in common: length, 0, version, augmentation, code and data factors (1 and -8), column
            // of the return address, bytes of augmentation, how addresses are written (pcrel | sdata4).
            ".Lrules_common:\n",
            ".long .Lrules_common_end - .Lrules_common_begin\n",
            ".Lrules_common_begin:\n",
            ".long 0\n",
            ".byte 1\n",
            ".asciz \"zR\"\n",
            ".uleb128 1\n",
            ".sleb128 -8\n",
            ".byte {return_address}, 1, 0x1b\n",
            ".byte {def_cfa}, {rsp}, 8\n",
            ".byte {at_offset} + {return_address}, 1\n",
            ".balign 4\n",
            ".Lrules_common_end:\n",
            // The entry: length, distance of the common part, begin and length of the code, bytes of augmentation.
            ".globl trampoline_fde\n",
            ".hidden trampoline_fde\n",
            "trampoline_fde:\n",
            ".long .Lrules_end - .Lrules_begin\n",
            ".Lrules_begin:\n",
            ".long .Lrules_begin - .Lrules_common\n",
            ".long trampoline_call_through - .\n",
            ".long trampoline_call_through_end - trampoline_call_through\n",
            ".byte 0\n",
            $crate::__rules!(from "trampoline_call_through" to ".Lcall_through_pushed"),
            ".byte {def_cfa_offset}, 16\n",
            ".byte {at_offset} + {rbp}, 2\n",
            $crate::__rules!(from ".Lcall_through_pushed" to ".Lcall_through_framed"),
            ".byte {def_cfa_register}, {rbp}\n",
            $crate::__rules!(from ".Lcall_through_framed" to ".Lcall_through_left"),
            ".byte {def_cfa}, {rsp}, 8\n",
            ".byte {as_at_first} + {rbp}\n",
            $crate::__rules!(from ".Lcall_through_left" to ".Lcall_through_framed_again"),
            ".byte {def_cfa}, {rbp}, 16\n",
            ".byte {at_offset} + {rbp}, 2\n",
            $crate::__rules!(from ".Lcall_through_framed_again" to ".Lcall_through_unframed"),
            ".byte {def_cfa}, {rsp}, 8\n",
            ".byte {as_at_first} + {rbp}\n",
            ".balign 4\n",
            ".Lrules_end:\n",
            // No entry follows.
            ".long 0\n",
            // Where they are, in the form of `.eh_frame_hdr` (LSB core 5.0, 10.6.2): version; how the address of the rules, the
            // number of entries and the table are written (pcrel | sdata4, udata4, datarel | sdata4).
            ".balign 4\n",
            ".globl trampoline_eh_frame_hdr\n",
            ".hidden trampoline_eh_frame_hdr\n",
            "trampoline_eh_frame_hdr:\n",
            ".byte 1, 0x1b, 3, 0x3b\n",
            ".long .Lrules_common - .\n",
            ".long 1\n",
            ".long trampoline_call_through - trampoline_eh_frame_hdr\n",
            ".long trampoline_fde - trampoline_eh_frame_hdr\n",
            ".popsection\n",
        )
    };
    // What follows holds from `to` on.
    (from $from:literal to $to:literal) => {
        concat!(".byte {advance}\n.long ", $to, " - ", $from, "\n")
    };
}
