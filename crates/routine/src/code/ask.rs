//! Whether the caller's stack has the room that `enter`, `leave` and `probe` need (`room.rs`): asked at each call.
//!
//! Each macro is text for a block whose operands it uses. `$p` begins its labels: the block's name.

/// Whether the stack at rbp has room: goes on below with the thread's record in rdx, if it has, or jumps to
/// `.L$p_search`. All general registers but r11, rbp and rsp are free.
#[doc(hidden)]
#[macro_export]
macro_rules! __room {
    ($p:literal) => {
        concat!(
            "lea rdi, [rip + {rooms}]\n",
            "cmp qword ptr [rdi + {tells_pointer}], 0\n",
            "je .L",
            $p,
            "_search\n",
            "rdfsbase rax\n",
            // `room::place`.
            "mov rcx, rax\n",
            "shr rcx, 14\n",
            "xor ecx, eax\n",
            "shr ecx, 6\n",
            "and ecx, {threads} - 1\n",
            "mov rdx, [rdi + rcx*8]\n",
            "cmp rdx, {moved}\n",
            "jbe .L",
            $p,
            "_search\n",
            "cmp [rdx + {thread}], rax\n",
            "jne .L",
            $p,
            "_search\n",
            "mov rax, rbp\n",
            "sub rax, [rdx + {room_low}]\n",
            "cmp rax, [rdx + {room_span}]\n",
            "ja .L",
            $p,
            "_small\n",
        )
    };
}

/// The same question, where the thread's record is not the first: jumps to `.L$p_roomy`, with the record or 0 in rdx, or
/// to `.L$p_small`.
#[doc(hidden)]
#[macro_export]
macro_rules! __search {
    ($p:literal) => {
        concat!(
            ".L",
            $p,
            "_search:\n",
            "lea rdi, [rip + {rooms}]\n",
            "cmp qword ptr [rdi + {tells_pointer}], 0\n",
            "jne .L",
            $p,
            "_asks\n",
            // A program that has just begun has no thread-local storage; later, the command hooks none here in which a
            // thread has none.
            "xor edx, edx\n",
            "mov rax, rbp\n",
            "sub rax, [rdi + {stack_low}]\n",
            "cmp rax, [rdi + {stack_span}]\n",
            "jbe .L", $p, "_roomy\n",
            "mov rax, fs:[0]\n",
            "jmp .L",
            $p,
            "_pointer\n",
            ".L",
            $p,
            "_asks:\n",
            "rdfsbase rax\n",
            "test rax, rax\n",
            "jnz .L",
            $p,
            "_pointer\n",
            "mov r8, r11\n",
            "mov eax, {gettid}\n",
            "syscall\n",
            "mov r11, r8\n",
            "bts rax, 63\n",
            ".L",
            $p,
            "_pointer:\n",
            "mov rcx, rax\n",
            "shr rcx, 14\n",
            "xor ecx, eax\n",
            "shr ecx, 6\n",
            "mov esi, {threads}\n",
            ".L",
            $p,
            "_look:\n",
            "and ecx, {threads} - 1\n",
            "mov rdx, [rdi + rcx*8]\n",
            "test rdx, rdx\n",
            "jz .L",
            $p,
            "_unknown\n",
            "cmp rdx, {moved}\n",
            "je .L",
            $p,
            "_further\n",
            "cmp [rdx + {thread}], rax\n",
            "je .L",
            $p,
            "_known\n",
            ".L",
            $p,
            "_further:\n",
            "inc ecx\n",
            "dec esi\n",
            "jnz .L",
            $p,
            "_look\n",
            "xor edx, edx\n",
            ".L",
            $p,
            "_unknown:\n",
            "mov rax, rbp\n",
            "sub rax, [rdi + {stack_low}]\n",
            "cmp rax, [rdi + {stack_span}]\n",
            "jbe .L",
            $p,
            "_roomy\n",
            "jmp .L",
            $p,
            "_small\n",
            ".L",
            $p,
            "_known:\n",
            "mov rax, rbp\n",
            "sub rax, [rdx + {room_low}]\n",
            "cmp rax, [rdx + {room_span}]\n",
            "jbe .L",
            $p,
            "_roomy\n",
            "jmp .L",
            $p,
            "_small\n",
        )
    };
}
