//! The short way of a hook that counts blocks ([`flags::BLOCKS`](crate::frame::flags)): `malloc`, `calloc`, `free` and what is like them.
//! What is counted, and where: `wire::calls::blocks`. What is missing, is new or is not simple goes on where all other hooks go, as if
//! nothing had been done here; the agent's `calls::blocks` does the same and more.
//!
//! It changes no vector register, keeps the general ones that it changes in their places of the frame, calls nothing but the original, and
//! needs no room on the stack but the frame. Each thing that is counted is changed by one instruction, which a handler of a signal cannot
//! split.
//!
//! ```text
//!   rsi   the book      rdx   the thread's tally      r11   the descriptor, whose place is in the frame      rax, rcx   free
//!
//!   of the frame        ticket    session, tally, site and era as they are in a block's word
//!                       r8        the bytes that are asked for
//!                       rdi, rsi  the arguments, by which the agent knows the size of what it counts itself
//!                       rcx, rdx, r9   after the return: the function's rcx, rdx, rsi
//! ```

/// Text for the block of `__call_through`, whose operands and labels it uses. All of it has a frame.
#[doc(hidden)]
#[macro_export]
macro_rules! __blocks {
    () => {
        concat!(
            ".Lblocks_enter:\n",
            $crate::__general!(save "rbp - {frame}" "in_": rax rcx rdx rsi),
            "cmp qword ptr [rip + {rooms} + {tells_pointer}], 0\n",
            "je .Lblocks_slow\n",
            "cmp qword ptr [r11 + {hook_want}], 0\n",
            "je .Lblocks_slow\n",
            // The book comes before the session: while that is the one which the tally is of, so is the book.
            "mov rsi, [rip + {rooms} + {book}]\n",
            "test rsi, rsi\n",
            "jz .Lblocks_slow\n",
            "rdfsbase rax\n",
            // `room::place`.
            "mov rcx, rax\n",
            "shr rcx, 14\n",
            "xor ecx, eax\n",
            "shr ecx, 6\n",
            "and ecx, {threads} - 1\n",
            ".Lblocks_thread:\n",
            "mov rdx, [rsi + rcx*8 + {tallies}]\n",
            "cmp rdx, {in_vain}\n",
            "jbe .Lblocks_slow\n",
            "cmp [rdx + {tally_thread}], rax\n",
            "jne .Lblocks_other_thread\n",
            "mov eax, [rip + {gate} + {offset}]\n",
            "mov [rbp - {frame} + {ticket}], rax\n",
            "cmp [rdx + {tally_session}], rax\n",
            "jne .Lblocks_slow\n",
            // Now and then the heartbeat is looked at.
            "sub qword ptr [rdx + {tally_unwatched}], 1\n",
            "js .Lblocks_slow\n",
            "test dword ptr [r11 + {flags}], {entry_only}\n",
            "jz .Lblocks_take\n",
            $crate::__blocks!(give),
            ".Lblocks_given:\n",
            $crate::__general!(restore "rbp - {frame}" "in_": rax rcx rdx rsi),
            "jmp .Lcall_through_as_it_was\n",
            ".Lblocks_take:\n",
            $crate::__blocks!(site),
            "mov eax, [rsi + {era}]\n",
            "and eax, {eras}\n",
            "shl eax, {era_at}\n",
            "or rcx, rax\n",
            "mov [rbp - {frame} + {ticket} + 16], rcx\n",
            "mov r11, [rbp - {frame} + {descriptor}]\n",
            "mov rax, rdi\n",
            "test dword ptr [r11 + {effect}], {factor}\n",
            "jnz .Lblocks_product\n",
            ".Lblocks_size:\n",
            "cmp rax, 0x7fffffff\n",
            "ja .Lblocks_slow\n",
            "mov [rbp - {frame} + {in_r8}], rax\n",
            "mov [rbp - {frame} + {in_rdi}], rdi\n",
            "mov rax, [r11 + {original}]\n",
            "mov [rbp - {frame} + {kept_original}], rax\n",
            $crate::__general!(restore "rbp - {frame}" "in_": rax rcx rdx rsi),
            "mov r11, [rbp - {frame} + {kept_r11}]\n",
            "call [rbp - {frame} + {kept_original}]\n",
            $crate::__clear_return!(),
            "\n",
            $crate::__blocks!(taken),
            $crate::__blocks!(beside),
        )
    };
    // The block whose address is in rdi is given back: its word is taken away before the allocator knows.
    (give) => {
        concat!(
            "mov rax, rdi\n",
            "shr rax, {region_shift}\n",
            "cmp rax, {regions}\n",
            "jae .Lblocks_given\n",
            "mov rax, [rsi + rax*8 + {tables}]\n",
            "test rax, rax\n",
            "jz .Lblocks_given\n",
            "mov ecx, [rsi + {grain}]\n",
            "mov r11d, edi\n",
            "and r11d, (1 << {region_shift}) - 1\n",
            "shr r11d, cl\n",
            "mov rcx, [rax + r11*8 + {words}]\n",
            "test rcx, rcx\n",
            "jz .Lblocks_given\n",
            "mov qword ptr [rax + r11*8 + {words}], 0\n",
            // One of a session before is none.
            "mov eax, ecx\n",
            "shr eax, {era_at}\n",
            "xor eax, [rsi + {era}]\n",
            "test eax, {eras}\n",
            "jnz .Lblocks_given\n",
            "movzx eax, cx\n",
            "shl eax, {row_shift}\n",
            "shr rcx, {size_at}\n",
            "add qword ptr [rdx + rax + {rows} + {dead}], 1\n",
            "add qword ptr [rdx + rax + {rows} + {dead_bytes}], rcx\n",
        )
    };
    // rcx = the number of the site. The tally goes into the frame; rdx is where the return address is.
    (site) => {
        concat!(
            "cmp qword ptr [rdx + {tally_taking}], 0\n",
            "jne .Lblocks_slow\n",
            "mov [rbp - {frame} + {ticket} + 8], rdx\n",
            "lea rdx, [rbp + 8]\n",
            ".Lblocks_caller:\n",
            "mov rax, [rdx]\n",
            "imul r11, rax, {factor_of_place}\n",
            "shr r11, 32\n",
            "shl rax, 16\n",
            ".Lblocks_place:\n",
            "and r11d, {places} - 1\n",
            "mov rcx, [rsi + r11*8 + {found}]\n",
            "xor rcx, rax\n",
            "cmp rcx, {sites}\n",
            "jae .Lblocks_other_place\n",
            "cmp ecx, {wrapper}\n",
            "jae .Lblocks_wrapper\n",
        )
    };
    // rax = the block.
    (taken) => {
        concat!(
            $crate::__general!(save "rbp - {frame}" "in_": rcx rdx),
            "mov [rbp - {frame} + {in_r9}], rsi\n",
            "test rax, rax\n",
            "jz .Lblocks_taken\n",
            "mov rdx, [rip + {rooms} + {book}]\n",
            "mov ecx, [rip + {gate} + {offset}]\n",
            "cmp rcx, [rbp - {frame} + {ticket}]\n",
            "jne .Lblocks_taken\n",
            "mov rcx, rax\n",
            "shr rcx, {region_shift}\n",
            "cmp rcx, {regions}\n",
            "jae .Lblocks_missing\n",
            "mov rsi, [rdx + rcx*8 + {tables}]\n",
            "test rsi, rsi\n",
            "jz .Lblocks_missing\n",
            "mov ecx, [rdx + {grain}]\n",
            "mov edx, eax\n",
            "and edx, (1 << {region_shift}) - 1\n",
            "shr edx, cl\n",
            // The page of the word must have been counted.
            "mov ecx, edx\n",
            "shr ecx, {page_shift}\n",
            "cmp byte ptr [rsi + rcx], 0\n",
            "je .Lblocks_missing\n",
            "cmp qword ptr [rsi + rdx*8 + {words}], 0\n",
            "jne .Lblocks_missing\n",
            "mov rcx, [rbp - {frame} + {in_r8}]\n",
            "shl rcx, {size_at}\n",
            "or rcx, [rbp - {frame} + {ticket} + 16]\n",
            "mov [rsi + rdx*8 + {words}], rcx\n",
            "mov rdx, [rbp - {frame} + {ticket} + 8]\n",
            "movzx esi, cx\n",
            "shl esi, {row_shift}\n",
            "shr rcx, {size_at}\n",
            "add qword ptr [rdx + rsi + {rows} + {born}], 1\n",
            "add qword ptr [rdx + rsi + {rows} + {born_bytes}], rcx\n",
            ".Lblocks_taken:\n",
            $crate::__general!(restore "rbp - {frame}" "in_": rcx rdx),
            "mov rsi, [rbp - {frame} + {in_r9}]\n",
            "jmp .Lcall_through_return\n",
        )
    };
    // What is seldom needed.
    (beside) => {
        concat!(
            ".Lblocks_other_thread:\n",
            "inc ecx\n",
            "test ecx, {block_places} - 1\n",
            "jz .Lblocks_slow\n",
            "jmp .Lblocks_thread\n",
            ".Lblocks_other_place:\n",
            "inc r11d\n",
            "test r11d, {block_places} - 1\n",
            "jnz .Lblocks_place\n",
            "jmp .Lblocks_slow\n",
            // The function that has called passes on what it is asked for: its own caller counts.
            ".Lblocks_wrapper:\n",
            "lea rax, [rip + {rooms} + {depths}]\n",
            "sub ecx, {wrapper}\n",
            "add rdx, [rax + rcx*8]\n",
            "add rdx, 8\n",
            "lea rax, [rbp + {highest}]\n",
            "cmp rdx, rax\n",
            "jb .Lblocks_caller\n",
            "jmp .Lblocks_slow\n",
            ".Lblocks_product:\n",
            "mov rcx, [rbp - {frame} + {in_rsi}]\n",
            "imul rax, rcx\n",
            "jno .Lblocks_size\n",
            ".Lblocks_slow:\n",
            $crate::__general!(restore "rbp - {frame}" "in_": rax rcx rdx rsi),
            "mov r11, [rbp - {frame} + {descriptor}]\n",
            "jmp .Lcall_through_stage_2\n",
            // The agent finds what is missing: its ring is put where the long way has it. The results are kept below the frame, until it is
            // known where there is room for that.
            ".Lblocks_missing:\n",
            $crate::__general!(restore "rbp - {frame}" "in_": rcx rdx),
            "mov rsi, [rbp - {frame} + {in_r9}]\n",
            "lea rsp, [rbp - {frame} - {kept_results}]\n",
            $crate::__results!(save "rsp - 256"),
            "mov qword ptr [rbp - {frame} + {ticket} + 8], 0\n",
            "mov qword ptr [rbp - {frame} + {ticket} + 16], 0\n",
            $crate::__room!("blocks"),
            ".Lblocks_roomy:\n",
            "test rdx, rdx\n",
            "jz .Lblocks_long\n",
            "or rdx, {quick_mark}\n",
            "mov [rbp - {frame} + {ticket} + 8], rdx\n",
            ".Lblocks_long:\n",
            $crate::__results!(restore "rsp - 256"),
            "jmp .Lcall_through_results\n",
            ".Lblocks_small:\n",
            $crate::__results!(restore "rsp - 256"),
            "mov qword ptr [rbp - {frame} + {kept_r11}], 0\n",
            "jmp .Lsmall_results\n",
            $crate::__search!("blocks"),
        )
    };
}
