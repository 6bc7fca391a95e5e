//! Functions in machine code, and what is found of the arguments they read on the stack.

use super::*;

fn of(code: &[u8]) -> Stack {
    let function = 0x1000..0x1000 + code.len() as u64;
    Stacks::default().of(code, 0x1000, function, &[])
}

#[test]
fn a_function_without_stack_arguments_reads_none() {
    // push rbp; mov rbp,rsp; sub rsp,32; mov [rbp-8],rdi; lea rax,[rbp-8]; leave; ret
    let code = [
        0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0x48, 0x89, 0x7d, 0xf8, 0x48, 0x8d, 0x45,
        0xf8, 0xc9, 0xc3,
    ];
    assert_eq!(of(&code), Stack::Reads(0));
}

#[test]
fn words_behind_the_return_address_are_counted() {
    // mov rax,[rsp+8]; ret
    assert_eq!(of(&[0x48, 0x8b, 0x44, 0x24, 0x08, 0xc3]), Stack::Reads(8));
    // push rbp; mov rbp,rsp; sub rsp,64; mov rax,[rbp+24]; leave; ret
    let framed = [
        0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x40, 0x48, 0x8b, 0x45, 0x18, 0xc9, 0xc3,
    ];
    assert_eq!(of(&framed), Stack::Reads(16));
    // sub rsp,24; movups xmm0,[rsp+40]; add rsp,24; ret
    let wide = [
        0x48, 0x83, 0xec, 0x18, 0x0f, 0x10, 0x44, 0x24, 0x28, 0x48, 0x83, 0xc4, 0x18, 0xc3,
    ];
    assert_eq!(of(&wide), Stack::Reads(24));
}

#[test]
fn a_branch_and_a_tail_call_are_followed() {
    // test edi,edi; je +1; ret; mov rax,[rsp+16]; ret
    let branch = [
        0x85, 0xff, 0x74, 0x01, 0xc3, 0x48, 0x8b, 0x44, 0x24, 0x10, 0xc3,
    ];
    assert_eq!(of(&branch), Stack::Reads(16));
    // jmp +1; int3; mov rax,[rsp+24]; ret, the second being another function
    let tail = [0xeb, 0x01, 0xcc, 0x48, 0x8b, 0x44, 0x24, 0x18, 0xc3];
    assert_eq!(
        Stacks::default().of(&tail, 0x1000, 0x1000..0x1002, &[]),
        Stack::Reads(24)
    );
    // jmp [rip+0]
    assert_eq!(of(&[0xff, 0x25, 0, 0, 0, 0]), Stack::Unproven(0));
}

#[test]
fn an_address_of_arguments_may_be_used_for_all_of_them() {
    // lea rax,[rsp+8]; ret
    assert_eq!(of(&[0x48, 0x8d, 0x44, 0x24, 0x08, 0xc3]), Stack::All);
    // movsx eax,byte [rsp+rdi+8]; ret
    assert_eq!(of(&[0x0f, 0xbe, 0x44, 0x3c, 0x08, 0xc3]), Stack::All);
}

#[test]
fn who_works_on_the_return_address_is_seen() {
    // mov rdx,[rsp]; mov [rdi+56],rdx; xor eax,eax; ret
    let keeps = [
        0x48, 0x8b, 0x14, 0x24, 0x48, 0x89, 0x57, 0x38, 0x31, 0xc0, 0xc3,
    ];
    assert_eq!(of(&keeps), Stack::OwnReturn);
    // pop rdx; jmp rdx
    assert_eq!(of(&[0x5a, 0xff, 0xe2]), Stack::OwnReturn);
    // push rbp; mov rbp,rsp; mov rax,[rbp+8]; pop rbp; ret
    let framed = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x45, 0x08, 0x5d, 0xc3];
    assert_eq!(of(&framed), Stack::OwnReturn);
    // mov [rsp],rax; ret
    assert_eq!(of(&[0x48, 0x89, 0x04, 0x24, 0xc3]), Stack::OwnReturn);
    // lea rdx,[rsp+8]; mov rdx,[rsp]; ret: that it takes the address of its arguments too hides nothing
    let both = [0x48, 0x8d, 0x54, 0x24, 0x08, 0x48, 0x8b, 0x14, 0x24, 0xc3];
    assert_eq!(of(&both), Stack::OwnReturn);
    // push rbx; mov rax,[rsp]; pop rbx; ret
    assert_eq!(
        of(&[0x53, 0x48, 0x8b, 0x04, 0x24, 0x5b, 0xc3]),
        Stack::Reads(0)
    );
    // call +0; mov rax,[rsp]; ret: behind a call that may not return
    let behind = [0xe8, 0, 0, 0, 0, 0x48, 0x8b, 0x04, 0x24, 0xc3];
    assert_eq!(of(&behind), Stack::Reads(0));
}

#[test]
fn code_behind_a_jump_by_table_is_followed() {
    // sub rsp,8; jmp rax; mov rax,[rsp+16]; add rsp,8; ret
    let code = [
        0x48, 0x83, 0xec, 0x08, 0xff, 0xe0, 0x48, 0x8b, 0x44, 0x24, 0x10, 0x48, 0x83, 0xc4, 0x08,
        0xc3,
    ];
    assert_eq!(of(&code), Stack::Reads(8));
}

#[test]
fn a_jump_behind_a_call_into_another_function_is_no_tail_call() {
    // jmp +1; int3; pop rbx; ret: as if `pop` were the first instruction of a function.
    let tail = [0xeb, 0x01, 0xcc, 0x5b, 0xc3];
    let of = |code: &[u8], own: u64, starts: &[u64]| {
        Stacks::default().of(code, 0x1000, 0x1000..0x1000 + own, starts)
    };
    assert_eq!(of(&tail, 2, &[]), Stack::OwnReturn);
    // The same behind push rbx; call +0; pop rbx. What stands there has its own stack, which is not known: the call may be one that
    // does not return, and the code behind it another function's.
    let mut behind = alloc::vec![0x53, 0xe8, 0, 0, 0, 0, 0x5b];
    behind.extend(tail);
    assert_eq!(of(&behind, 9, &[]), Stack::Reads(0));
    // But where a function begins it is one.
    assert_eq!(of(&behind, 9, &[0x100a]), Stack::OwnReturn);
}

#[test]
fn what_is_read_counts_beside_a_jump_that_is_not_followed() {
    // mov rax,[rsp+0x80]; jmp [rip+0], as HotSpot's nmethod::new_nmethod: more than is copied where nothing is known.
    let code = [
        0x48, 0x8b, 0x84, 0x24, 0x80, 0, 0, 0, 0xff, 0x25, 0, 0, 0, 0,
    ];
    assert_eq!(of(&code), Stack::Unproven(128));
}
