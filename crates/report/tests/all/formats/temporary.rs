//! What was made and is gone, most first.

use births::analysis::{Order, View};
use report::Style;
use report::mem::table;

use super::{report, shop, text};

#[test]
fn what_died_young_stands_first_with_its_share() {
    let view = View {
        order: Order::Dead,
        top: Some(2),
        ..View::default()
    };
    let table = text(|out| table::write(out, &shop(), &report(view), &Style::default()));
    insta::assert_snapshot!(table, @"");
}
