//! The language of the files, and what is said of mistakes.

use super::*;

#[test]
fn members_lie_as_c_lays_them() {
    let mut tables = Tables::default();
    let text =
        "struct inner\n  a u8\n  b u16\nstruct outer\n  x u8\n  y inner[2]\n  z u64\n  w u8\n";
    read(&mut tables, text).unwrap();
    let of = &tables.structs[tables.struct_names["outer"]];
    let offsets: Vec<u32> = of.members.iter().map(|member| member.offset).collect();
    assert_eq!(offsets, [0, 2, 16, 24]);
    assert_eq!((of.size, of.align), (32, 8));
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let told = |text: &str| read(&mut Tables::default(), text).unwrap_err();
    assert_eq!(told("\nstruct a\n  b u7\n"), "line 3: u7 is no type");
    assert_eq!(told("  b u8\n"), "line 1: nothing is open");
    assert_eq!(told("list a A_??? A\n"), "line 1: A has no number");
    assert_eq!(told("struct a\n  b u8 x\n"), "line 2: x is not understood");
    assert_eq!(told("ioctl WHAT none\n"), "line 1: WHAT is no number");
}
