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
    insta::assert_snapshot!(table, @"
    ruby app.rb (PID 4242), Ruby 3.1.2, what was born and died within 30.0 s

       dead  share     born  allocated  file:line:Type
    150,000   49 %  300,001   18.3 MiB  app.rb:12:String
     40,000  100 %   40,000    2.4 MiB  app.rb:30:String
        888   96 %      918   57.4 KiB  … and 4 more rows (888 objects, 57.4 KiB)
    190,888   55 %  340,919   20.8 MiB  total

    dead: born while lancet watched, and gone by this look; share: of all that were born
    allocated: by all that were born, soon after birth; estimated from 1 in 32
    paused: 15.5 ms for a GC before the count, 1.1 ms for the count
    lost: 40 births had no room in their table and are not counted
    ");
}
