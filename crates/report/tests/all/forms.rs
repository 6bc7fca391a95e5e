//! What the forms of all commands make of an answer.

use births::analysis::{Report, View};
use report::forms::FORMS;
use report::losses::{Loss, What};
use report::mem::json;

use super::formats::Output;
use super::formats::guests::shop;

/// The answer of `mem` in a form.
fn shown(name: &str) -> String {
    let mut all = FORMS.iter();
    let form = all
        .find(|form| format!("{form:?}") == name)
        .expect("a form");
    let kept = Output::default();
    let mut out = form.over(Box::new(kept.clone()));
    let view = View {
        top: Some(4),
        ..View::default()
    };
    let census = shop();
    json::write(&mut out, &census, &Report::new(&census, &view)).expect("memory");
    let loss = Loss::new(Some(4242), What::Births, Some(40), "40 births were lost");
    report::losses::write(&mut out, &[loss], 0, None).expect("memory");
    drop(out);
    kept.text()
}

#[test]
fn csv_has_the_rows() {
    insta::assert_snapshot!(shown("csv"), @"
    record,pid,place,type,born,live,dead,bytes,allocated,rows
    row,4242,app.rb:12,String,300001,150001,150000,6000040,19200064,
    row,4242,app.rb:12,Array,12,12,0,9437184,768,
    row,4242,/var/lib/gems/3.1.0/gems/rack-2.2.4/lib/rack/utils.rb:88,Hash,900,12,888,2880,57600,
    row,4242,,String,5,5,0,200,320,
    rest,4242,,,40001,22525,40000,2094264,2560064,4
    ");
}

#[test]
fn markdown_is_short() {
    insta::assert_snapshot!(shown("markdown"), @"
    ### `ruby app.rb` (process 4242, Ruby 3.1.2)

    row

    | place | type | born | live | dead | bytes | allocated |
    |---|---|--:|--:|--:|--:|--:|
    | `app.rb:12` | `String` | 300,001 | 150,001 | 150,000 | 5.7 MiB | 18.3 MiB |
    | `app.rb:12` | `Array` | 12 | 12 | 0 | 9.0 MiB | 768 B |
    | `/var/lib/gems/3.1.0/gems/rack-2.2.4/lib/rack/utils.rb:88` | `Hash` | 900 | 12 | 888 | 2.8 KiB | 56.2 KiB |
    |  | `String` | 5 | 5 | 0 | 200 B | 320 B |

    look: watched 30.04 s, by `line`, collection pause 15.5 ms, walk pause 1.1 ms

    total: born 340,919, live 172,555, dead 190,888, bytes 16.7 MiB, allocated 20.8 MiB, rest rows 4, rest born 40,001, rest live 22,525, rest dead 40,000, rest bytes 2.0 MiB, rest allocated 2.4 MiB, before live 22,524, before bytes 2.0 MiB, hidden born 70, hidden live 9,060, hidden dead 10, hidden bytes 3.8 MiB, hidden allocated 4.4 KiB

    own

    | type | live | bytes |
    |---|--:|--:|
    | `IMEMO:iseq` | 9,000 | 3.8 MiB |
    | `IMEMO:env` | 60 | 2.3 KiB |

    **Lost:**

    - 40 births were lost
    ");
}
