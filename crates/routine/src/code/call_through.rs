//! `trampoline_call_through`: the guest's call of a hooked function goes through us.
//!
//! The stack at each stage, where the caller's stack has room; offsets are those of `Frame`, whose first byte is at rbp -
//! 112:
//!
//! ```text
//!   1 at the entry              2 while `enter` runs          3 while the original runs      4 while `leave` runs
//!
//!   stack arguments             stack arguments               stack arguments                stack arguments
//!   return address  ◄── rsp     return address                return address                 return address
//!   (free)                      caller's rbp    ◄── rbp       caller's rbp    ◄── rbp        caller's rbp    ◄── rbp
//!   caller's r11, by the stub   caller's r11                  caller's r11                   caller's r11
//!                               descriptor                    descriptor                     descriptor
//!                               (original)                    original                       original
//!                               (ticket)                      ticket                         ticket
//!                               arguments' registers          arguments' registers           arguments' registers
//!                               xmm7 … xmm0                   xmm7 … xmm0                    xmm7 … xmm0
//!                               alignment                     alignment                      results' registers
//!                               xmm15 … xmm8    ◄── rsp       copy of the                    alignment       ◄── rsp
//!                               return address of ours        stack arguments ◄── rsp        return address of ours
//!                                                             return address of ours
//! ```
//!
//! Where it has not (`room`), in stages 2 and 4 `enter` and `leave` run on a work stack, where the vector registers are
//! too; in stage 3 there are, in the place of xmm0 to xmm7, their low halves or nothing. `small` has that code.
//!
//! In stage 1 the words below rsp are the stub's and ours: the ABI's red zone belongs to a function that runs, and
//! the hooked one has not begun. r11 may be used: it is scratch at a call; its value is kept for callers compiled
//! with `-fipa-ra`.

/// Behind each call: overwrites the return address that the call left below the stack pointer. `hooks::parked` searches
/// stacks for such words, and a later function may have this place in an array that it does not write: the word would be
/// taken for a frame that is still to return, and the unwinder's hook would stay for it.
#[doc(hidden)]
#[macro_export]
macro_rules! __clear_return {
    () => {
        "mov qword ptr [rsp - 8], 0"
    };
}

/// Expands to `trampoline_call_through` and, behind it, to its unwinding rules. The offsets are those of `Frame`, `Results` and `Descriptor`; a
/// change of what is on the stack at a stage must be made in the rules too, or exceptions do not pass through.
#[doc(hidden)]
#[macro_export]
macro_rules! __call_through {
    ($enter:path, $leave:path, $quick_enter:path, $quick_leave:path, $gate:path, $offset:expr,
        $rooms:path, $blocks:path) => {
        ::core::arch::global_asm!(
            ".pushsection .text.trampoline,\"ax\",@progbits",
            ".balign 64",
            ".globl trampoline_call_through",
            ".hidden trampoline_call_through",
            ".type trampoline_call_through, @function",
            "trampoline_call_through:",
            "endbr64",
            // Stage 1. A closed gate: as if we were not here.
            "cmp dword ptr [rip + {gate} + {offset}], 0",
            "je .Lcall_through_original",
            "test dword ptr [r11 + {flags}], {guarded}",
            "jnz .Lcall_through_guard",
            // An ordinary C frame, so that those who walk by frame pointers pass too.
            ".Lcall_through_wanted:",
            "push rbp",
            ".Lcall_through_pushed:",
            "mov rbp, rsp",
            ".Lcall_through_framed:",
            "lea rsp, [rbp - {frame}]",
            // Stage 2.
            "mov [rbp - {frame} + {descriptor}], r11",
            "test dword ptr [r11 + {flags}], {blocks}",
            "jnz .Lblocks_enter",
            ".Lcall_through_stage_2:",
            $crate::__arguments!(save),
            $crate::__room!("call_through"),
            // rdx: the thread's record, or 0.
            ".Lcall_through_roomy:",
            "lea rsp, [rbp - {frame} - {vectors} - {upper}]",
            "and rsp, -16",
            // Without vector registers. The record of the thread is kept in the place of the original, for the long way.
            "mov [rbp - {frame} + {kept_original}], rdx",
            "lea rdi, [rbp - {frame}]",
            "mov rsi, rdx",
            "call {quick_enter}",
            $crate::__clear_return!(),
            "cmp eax, {quick_done}",
            "je .Lquick_entered",
            "jb .Lcall_through_not_seen",
            $crate::__lower_vectors!(save "rbp - {frame} - {vectors}"),
            $crate::__upper_vectors!(save "rsp - 16 * 8"),
            "lea rdi, [rbp - {frame}]",
            "lea rsi, [rbp - {frame} - {vectors}]",
            "mov rdx, [rbp - {frame} + {kept_original}]",
            "call {enter}",
            $crate::__clear_return!(),
            $crate::__upper_vectors!(restore "rsp - 16 * 8"),
            "mov r11, [rbp - {frame} + {descriptor}]",
            // Nothing but the entry is wanted, or not even that.
            "test eax, eax",
            "jz .Lcall_through_unwanted",
            "test dword ptr [r11 + {flags}], {entry_only}",
            "jnz .Lcall_through_unwanted",
            "mov rax, [r11 + {original}]",
            "mov [rbp - {frame} + {kept_original}], rax",
            // Stage 3.
            "lea rsp, [rbp - {frame} - {vectors}]",
            "and rsp, -16",
            $crate::__copy!("call_through",
                "movups xmm0, [rbp + {above} - 16 + rcx]",
                "sub rcx, 16",
                "movups [rsp + rcx], xmm0"),
            $crate::__lower_vectors!(restore "rbp - {frame} - {vectors}"),
            ".Lcall_through_call:",
            $crate::__arguments!(restore),
            "mov r11, [rbp - {frame} + {kept_r11}]",
            "call [rbp - {frame} + {kept_original}]",
            $crate::__clear_return!(),
            // The gate may have been closed meanwhile, or this is a child that came out of fork with its gate wiped:
            // nothing to note.
            "cmp dword ptr [rip + {gate} + {offset}], 0",
            "jne .Lcall_through_results",
            // But a function that forks is left in the child too: there it waits to be followed.
            "push r11",
            "mov r11, [rbp - {frame} + {descriptor}]",
            "test dword ptr [r11 + {flags}], {forks}",
            "pop r11",
            "jz .Lcall_through_return",
            // Stage 4: everything that the original left, whole, below the frame.
            ".Lcall_through_results:",
            "lea rsp, [rbp - {frame} - {vectors} - {results}]",
            "and rsp, -16",
            $crate::__results!(save "rsp"),
            "lea rdi, [rbp - {frame}]",
            "mov rsi, rsp",
            "call {quick_leave}",
            $crate::__clear_return!(),
            "cmp eax, {quick_done}",
            "je .Lquick_left",
            $crate::__all_vectors!(save "rsp"),
            "lea rdi, [rbp - {frame}]",
            "mov rsi, rsp",
            "lea rdx, [rbp - {frame} - {vectors}]",
            "call {leave}",
            $crate::__clear_return!(),
            $crate::__all_vectors!(restore "rsp"),
            ".Lquick_left:",
            $crate::__results!(restore "rsp"),
            ".Lcall_through_return:",
            "leave",
            ".Lcall_through_left:",
            "ret",
            ".Lcall_through_framed_again:",
            // From stage 2 to stage 3 with the vector registers as they are.
            ".Lquick_entered:",
            "mov r11, [rbp - {frame} + {descriptor}]",
            "mov rax, [r11 + {original}]",
            "mov [rbp - {frame} + {kept_original}], rax",
            "lea rsp, [rbp - {frame} - {vectors}]",
            "and rsp, -16",
            $crate::__copy!("quick",
                "mov rax, [rbp + {above} - 16 + rcx]",
                "mov rdx, [rbp + {above} - 8 + rcx]",
                "mov [rsp + rcx - 16], rax",
                "mov [rsp + rcx - 8], rdx",
                "sub rcx, 16"),
            "jmp .Lcall_through_call",
            $crate::__next_page!("quick"),
            $crate::__next_page!("call_through"),
            $crate::__search!("call_through"),
            $crate::__small!($enter, $leave),
            $crate::__blocks!(),
            // From stage 2 back to stage 1: as if we had not been here.
            ".Lcall_through_unwanted:",
            $crate::__lower_vectors!(restore "rbp - {frame} - {vectors}"),
            // The vector registers are there already.
            ".Lcall_through_not_seen:",
            $crate::__arguments!(restore),
            ".Lcall_through_as_it_was:",
            "mov r11, [rbp - {frame} + {descriptor}]",
            "leave",
            ".Lcall_through_unframed:",
            // Stage 1: to the original, with the caller's r11 from where the stub put it.
            ".Lcall_through_original:",
            "mov r11, [r11 + {original}]",
            "mov [rsp - 8], r11",
            "mov r11, [rsp - {stub_r11}]",
            "jmp [rsp - 8]",
            // Stage 1: one of six arguments decides, which are kept below rsp for so long, by their numbers.
            ".Lcall_through_guard:",
            "mov [rsp - {spill} + 8 * 0], rdi",
            "mov [rsp - {spill} + 8 * 1], rsi",
            "mov [rsp - {spill} + 8 * 2], rdx",
            "mov [rsp - {spill} + 8 * 3], rcx",
            "mov [rsp - {spill} + 8 * 4], r8",
            "mov [rsp - {spill} + 8 * 5], r9",
            "mov [rsp - {spill} + 8 * 6], rax",
            "movzx eax, byte ptr [r11 + {register}]",
            "movzx ecx, byte ptr [r11 + {left}]",
            "mov rax, [rsp + rax*8 - {spill}]",
            // (argument << left) - low <= span, unsigned, against `outside`.
            "shl rax, cl",
            "sub rax, [r11 + {low}]",
            "cmp rax, [r11 + {span}]",
            "setbe al",
            "cmp al, [r11 + {outside}]",
            "mov rcx, [rsp - {spill} + 8 * 3]",
            "mov rax, [rsp - {spill} + 8 * 6]",
            "jne .Lcall_through_wanted",
            "jmp .Lcall_through_original",
            ".globl trampoline_call_through_end",
            ".hidden trampoline_call_through_end",
            "trampoline_call_through_end:",
            ".size trampoline_call_through, . - trampoline_call_through",
            ".popsection",
            $crate::__rules!(),
            enter = sym $enter,
            leave = sym $leave,
            quick_enter = sym $quick_enter,
            quick_leave = sym $quick_leave,
            quick_done = const $crate::quick::DONE,
            gate = sym $gate,
            offset = const $offset,
            rooms = sym $rooms,
            threads = const $crate::room::THREADS,
            moved = const $crate::room::MOVED,
            thread = const ::core::mem::offset_of!($crate::Room, thread),
            room_low = const ::core::mem::offset_of!($crate::Room, low),
            room_span = const ::core::mem::offset_of!($crate::Room, span),
            stack_low = const ::core::mem::offset_of!($crate::Rooms, stack),
            stack_span = const ::core::mem::offset_of!($crate::Rooms, stack) + 8,
            tells_pointer = const ::core::mem::offset_of!($crate::Rooms, tells_pointer),
            unseen = const ::core::mem::offset_of!($crate::Rooms, unseen),
            works = const $crate::room::WORK_STACKS,
            work_size = const $crate::room::WORK_STACK,
            heads = const $crate::room::HEADS,
            // The frame, from its first byte to the caller's rbp; and what lies above that: rbp and the return address.
            frame = const ::core::mem::offset_of!($crate::Frame, rbp),
            above = const 16,
            vectors = const ::core::mem::size_of::<$crate::Vectors>(),
            upper = const 8 * 16,
            results = const ::core::mem::size_of::<$crate::Results>(),
            in_rdi = const ::core::mem::offset_of!($crate::Frame, rdi),
            in_rsi = const ::core::mem::offset_of!($crate::Frame, rsi),
            in_rdx = const ::core::mem::offset_of!($crate::Frame, rdx),
            in_rcx = const ::core::mem::offset_of!($crate::Frame, rcx),
            in_r8 = const ::core::mem::offset_of!($crate::Frame, r8),
            in_r9 = const ::core::mem::offset_of!($crate::Frame, r9),
            in_rax = const ::core::mem::offset_of!($crate::Frame, rax),
            in_r10 = const ::core::mem::offset_of!($crate::Frame, r10),
            kept_original = const ::core::mem::offset_of!($crate::Frame, original),
            descriptor = const ::core::mem::offset_of!($crate::Frame, descriptor),
            kept_r11 = const ::core::mem::offset_of!($crate::Frame, r11),
            // General registers of results, while they are kept by themselves.
            kept_results = const 9 * 8,
            // On a work stack: results, vectors.
            small_area = const ::core::mem::size_of::<$crate::Results>()
                + ::core::mem::size_of::<$crate::Vectors>(),
            out_rax = const ::core::mem::offset_of!($crate::Results, rax),
            out_rdx = const ::core::mem::offset_of!($crate::Results, rdx),
            out_rcx = const ::core::mem::offset_of!($crate::Results, scratch),
            out_rsi = const ::core::mem::offset_of!($crate::Results, scratch) + 8,
            out_rdi = const ::core::mem::offset_of!($crate::Results, scratch) + 8 * 2,
            out_r8 = const ::core::mem::offset_of!($crate::Results, scratch) + 8 * 3,
            out_r9 = const ::core::mem::offset_of!($crate::Results, scratch) + 8 * 4,
            out_r10 = const ::core::mem::offset_of!($crate::Results, scratch) + 8 * 5,
            out_r11 = const ::core::mem::offset_of!($crate::Results, scratch) + 8 * 6,
            original = const ::core::mem::offset_of!($crate::Descriptor, original),
            flags = const ::core::mem::offset_of!($crate::Descriptor, flags),
            copied = const ::core::mem::offset_of!($crate::Descriptor, copied),
            low = const ::core::mem::offset_of!($crate::Descriptor, guard.low),
            span = const ::core::mem::offset_of!($crate::Descriptor, guard.span),
            register = const ::core::mem::offset_of!($crate::Descriptor, guard.register),
            left = const ::core::mem::offset_of!($crate::Descriptor, guard.left),
            outside = const ::core::mem::offset_of!($crate::Descriptor, guard.outside),
            guarded = const $crate::frame::flags::GUARDED,
            entry_only = const $crate::frame::flags::ENTRY_ONLY,
            forks = const $crate::frame::flags::FORKS,
            blocks = const $crate::frame::flags::BLOCKS,
            wants_floats = const $crate::frame::flags::FLOATS,
            floats = const 8 * 8,
            // Where the stub puts the caller's r11, below rsp; and where a guard's arguments begin, below that.
            stub_r11 = const 16,
            spill = const 80,
            page = const 4096,
            rt_sigprocmask = const 14,
            nanosleep = const 35,
            waits = const $crate::room::WAITS,
            gettid = const 186,
            sig_setmask = const 2,
            efault = const 14,
            // What the agent counts of blocks (blocks.rs).
            ticket = const ::core::mem::offset_of!($crate::Frame, ticket),
            book = const $blocks.book,
            hook_want = const $blocks.want,
            effect = const $blocks.effect,
            factor = const $blocks.factor,
            tallies = const $blocks.tallies,
            in_vain = const $blocks.in_vain,
            grain = const $blocks.grain,
            era = const $blocks.era,
            eras = const $blocks.eras[0],
            era_at = const $blocks.eras[1],
            tables = const $blocks.tables,
            regions = const $blocks.regions[0],
            region_shift = const $blocks.regions[1],
            words = const $blocks.words[0],
            page_shift = const $blocks.words[1],
            found = const $blocks.found,
            places = const $blocks.sites[0],
            sites = const $blocks.sites[1],
            factor_of_place = const $blocks.factor_of_place,
            wrapper = const $blocks.wrappers[0],
            depths = const $blocks.wrappers[1],
            tally_thread = const $blocks.tally[0],
            tally_session = const $blocks.tally[1],
            tally_unwatched = const $blocks.tally[2],
            tally_taking = const $blocks.tally[3],
            rows = const $blocks.rows[0],
            row_shift = const $blocks.rows[1],
            born = const $blocks.row[0],
            born_bytes = const $blocks.row[1],
            dead = const $blocks.row[2],
            dead_bytes = const $blocks.row[3],
            size_at = const $blocks.size_at,
            highest = const $crate::blocks::HIGHEST,
            block_places = const $crate::blocks::PLACES,
            quick_mark = const $crate::quick::MARK,
            // DWARF's numbers of registers and instructions (rules.rs).
            rsp = const 7,
            rbp = const 6,
            return_address = const 16,
            def_cfa = const 0x0c,
            def_cfa_register = const 0x0d,
            def_cfa_offset = const 0x0e,
            at_offset = const 0x80,
            as_at_first = const 0xc0,
            advance = const 4,
        );
    };
}
