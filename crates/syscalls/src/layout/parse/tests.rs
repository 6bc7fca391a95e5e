//! The language of the files, and what is said of mistakes.

use super::*;

#[test]
fn members_lie_as_c_lays_them() {
    let mut tables = Tables::default();
    let text =
        "struct inner\n  a u8\n  b u16\nstruct outer\n  x u8\n  y inner[2]\n  z u64\n  w u8\n";
    read(&mut tables, text).unwrap();
    let of = tables.structure(tables.struct_names["outer"]);
    let offsets: Vec<u32> = of.members.iter().map(|member| member.offset).collect();
    assert_eq!(offsets, [0, 2, 16, 24]);
    assert_eq!((of.size, of.align), (32, 8));
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let told = |text: &'static str| read(&mut Tables::default(), text).unwrap_err();
    let tables = Tables::default();
    let of_struct = |lines: &[&'static str]| structure(&tables, lines).unwrap_err();
    assert_eq!(of_struct(&["struct a", "  b u7"]), "b u7: u7 is no type");
    assert_eq!(told("  b u8\n"), "line 1: nothing is open");
    assert_eq!(names_of(&["A=1", "  A"]).unwrap_err(), "A has no number");
    assert_eq!(
        of_struct(&["struct a", "  b u8 x"]),
        "b u8 x: x is not understood"
    );
    assert_eq!(
        ioctls(&tables, &["ioctl WHAT none"]).unwrap_err(),
        "ioctl WHAT none: WHAT is no number"
    );
    assert_eq!(told("\nstroct a\n"), "line 2: stroct a is not understood");
}

#[test]
fn the_names_of_a_list_are_read_when_one_is_asked_for() {
    let mut tables = Tables::default();
    let text = "list a A_???\n  A=1 B=2 # of these\n  C=3\nlist b - D~E=4\n";
    read(&mut tables, text).unwrap();
    let were_read = || {
        let all = tables.lists.iter();
        all.map(|list| list.read.get().is_some())
            .collect::<Vec<_>>()
    };
    assert_eq!(were_read(), [false, false]);
    assert_eq!(tables.lists[1].find(4), Some("D E"));
    assert_eq!(were_read(), [false, true]);
    assert_eq!(tables.lists[0].find(3), Some("C"));
    assert_eq!(tables.lists[0].names().len(), 3);
}
