//! What each format looks like. The expected text stands in the test, for people to read.

mod calls;
pub mod guests;
mod temporary;

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use births::analysis::{By, Fold, Growth, Order, Report, View};
use report::Style;
use report::forms::stacks::{FOLDED, Stacks};
use report::mem::Weight;
use report::mem::{json, memprof, stacks, table};

use guests::{earlier, leaking, shop, shop_with_stacks};

/// An output that is looked at when all is written.
#[derive(Clone, Default)]
pub struct Output(Rc<RefCell<Vec<u8>>>);

impl Output {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.take()).expect("the formats are UTF-8")
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The output of a writer as text.
fn text(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).expect("writing to memory works");
    String::from_utf8(out).expect("the formats are UTF-8")
}

fn report(view: View) -> Report {
    Report::new(&shop(), &view)
}

#[test]
fn table_by_line() {
    let view = View {
        top: Some(4),
        ..View::default()
    };
    let table = text(|out| table::write(out, &shop(), &report(view), &Style::default()));
    insta::assert_snapshot!(table, @"
    ruby app.rb (PID 4242), Ruby 3.1.2, watched for 30.0 s

       live     born     dead     bytes  allocated  file:line:Type
    150,001  300,001  150,000   5.7 MiB   18.3 MiB  app.rb:12:String
         12       12        0   9.0 MiB      768 B  app.rb:12:Array
         12      900      888   2.8 KiB   56.2 KiB  rack/…/utils.rb:88:Hash
          5        5        0     200 B      320 B  (vm):String
     22,525   40,001   40,000   2.0 MiB    2.4 MiB  … and 4 more rows (22,525 objects, 2.0 MiB)
    172,555  340,919  190,888  16.7 MiB   20.8 MiB  total

    allocated: by all that were born, soon after birth; estimated from 1 in 32
    of the total: 22,524 objects (2.0 MiB) from before lancet came
    not shown: 9,060 objects (3.8 MiB) of the VM's own; --internal shows them
        most of it: IMEMO:iseq 3.8 MiB, IMEMO:env 2.3 KiB
    paused: 15.5 ms for a GC before the count, 1.1 ms for the count
    lost: 40 births had no room in their table and are not counted
    ");
}

#[test]
fn a_leak_is_said_first_and_stands_first() {
    let view = View {
        order: Order::Growth,
        top: Some(3),
        ..View::default()
    };
    let report = Report::new(&leaking(), &view);
    let table = text(|out| table::write(out, &leaking(), &report, &Style::default()));
    insta::assert_snapshot!(table, @"
    ruby app.rb (PID 4242), Ruby 3.1.2, watched for 20.0 s

    leak: app.rb:25:Hash grew in each of 4 intervals of 5.0 s, +140 (+35 each), +23.0 KiB, nothing of it died

      live  >5.0 s    born      bytes  allocated  file:line:Type
       140     105     140   23.0 KiB    8.8 KiB  app.rb:25:Hash
     9,000   9,000   9,000  351.6 KiB  562.5 KiB  app.rb:9:String
       400       0  88,000   15.6 KiB    5.4 MiB  app.rb:40:Array
    22,524       0       0    2.0 MiB        0 B  … and 2 more rows (22,524 objects, 2.0 MiB)
    32,064   9,105  97,140    2.4 MiB    5.9 MiB  total

    >5.0 s: born more than 5.0 s ago and alive
    allocated: by all that were born, soon after birth; estimated from 1 in 32
    of the total: 22,524 objects (2.0 MiB) from before lancet came
    not shown: 9,000 objects (3.8 MiB) of the VM's own; --internal shows them
        most of it: IMEMO:iseq 3.8 MiB
    paused: 15.5 ms for a GC before the count, 1.1 ms for the count
    ");
    let json = text(|out| json::write(out, &leaking(), &report));
    insta::assert_snapshot!(json.lines().take(5).collect::<Vec<_>>().join("\n"), @r#"
    {"record":"process","schema":2,"pid":4242,"command":["ruby","app.rb"],"languages":[{"name":"Ruby","version":"3.1.2"}]}
    {"record":"look","pid":4242,"watched_ns":20000000000,"interval_ns":null,"by":"line","collection_pause_ns":15520000,"walk_pause_ns":1130000,"looks":0,"paused_ns":0,"garbage_included":false,"intervals_ns":[5000000000,5000000000,5000000000,5000000000]}
    {"record":"verdict","pid":4242,"verdict":"leak","text":"leak: app.rb:25:Hash grew in each of 4 intervals of 5.0 s, +140 (+35 each), +23.0 KiB, nothing of it died","collector_off":false,"followed":true}
    {"record":"leak","pid":4242,"place":{"path":"app.rb","line":25,"function":null},"type":"Hash","before":false,"grows":"number","born":140,"live":140,"dead":0,"bytes":23520,"allocated":8960,"grown":0,"growing":0,"alive":[35,35,35,35]}
    {"record":"row","pid":4242,"place":{"path":"app.rb","line":25,"function":null},"type":"Hash","born":140,"live":140,"dead":0,"bytes":23520,"allocated":8960,"alive":[35,35,35,35]}
    "#);
}

/// Rows of a library are one row of its gem, but the one that leaks is named with its line.
#[test]
fn a_library_is_one_row_unless_it_leaks() {
    let mut census = leaking();
    let rack = "/var/lib/gems/3.1.0/gems/rack-2.2.4/lib/rack/utils.rb";
    for (line, site) in [(7, 1), (8, 0), (9, 2)] {
        let frame = births::analysis::Frame {
            path: rack.into(),
            line,
            method: "parse".into(),
        };
        let site = births::analysis::SiteCount {
            frames: vec![std::sync::Arc::new(frame)],
            ..census.sites[site].clone()
        };
        census.sites.push(site);
    }
    let names = |app: &str| -> Vec<String> {
        let view = View {
            order: Order::Growth,
            fold: Fold::Libraries { app: app.into() },
            top: Some(6),
            ..View::default()
        };
        let rows = Report::new(&census, &view).rows;
        let rows = rows.iter().filter(|row| !row.before);
        rows.map(|row| report::mem::label(row, "")).collect()
    };
    assert_eq!(
        names(""),
        [
            "rack/…/utils.rb:7:Hash",
            "app.rb:25:Hash",
            "rack-2.2.4",
            "app.rb:9:String",
            "app.rb:40:Array"
        ]
    );
    assert!(names("rack").contains(&"rack/…/utils.rb:8:String".into()));
    assert!(names("rack").contains(&"app".into()));
}

#[test]
fn table_by_gem_with_internal() {
    let view = View {
        by: By::Gem,
        internal: true,
        order: Order::Bytes,
        ..View::default()
    };
    let table = text(|out| table::write(out, &shop(), &report(view), &Style::default()));
    insta::assert_snapshot!(table, @"
    ruby app.rb (PID 4242), Ruby 3.1.2, watched for 30.0 s

       live     born     dead      bytes  allocated  gem
    150,074  340,084  190,010   14.7 MiB   20.8 MiB  app
         12      900      888    2.8 KiB   56.2 KiB  rack-2.2.4
          5        5        0      200 B      320 B  (vm)
      9,000        -        -    3.8 MiB          -  IMEMO:iseq (before lancet)
     21,500        -        -    1.1 MiB          -  String (before lancet)
      1,024        -        -  869.1 KiB          -  Class (before lancet)
    181,615  340,989  190,898   20.5 MiB   20.8 MiB  total

    allocated: by all that were born, soon after birth; estimated from 1 in 32
    of the total: 31,524 objects (5.8 MiB) from before lancet came
    the VM's own objects:
    9,000  3.8 MiB  IMEMO:iseq
       60  2.3 KiB  IMEMO:env
    paused: 15.5 ms for a GC before the count, 1.1 ms for the count
    lost: 40 births had no room in their table and are not counted
    ");
}

#[test]
fn table_of_an_empty_guest() {
    let mut guest = shop();
    guest.sites.clear();
    guest.before.clear();
    let report = Report::new(&guest, &View::default());
    let table = text(|out| table::write(out, &guest, &report, &Style::default()));
    insta::assert_snapshot!(table, @"
    ruby app.rb (PID 4242), Ruby 3.1.2, watched for 30.0 s

    live  born  dead  bytes  allocated  file:line:Type
       0     0     0    0 B        0 B  total

    allocated: by all that were born, soon after birth; estimated from 1 in 32
    paused: 15.5 ms for a GC before the count, 1.1 ms for the count
    lost: 40 births had no room in their table and are not counted
    ");
}

#[test]
fn table_with_callers() {
    let guest = shop_with_stacks();
    let report = Report::new(
        &guest,
        &View {
            by: By::Stack,
            ..View::default()
        },
    );
    let table = text(|out| table::write(out, &guest, &report, &Style::default()));
    insta::assert_snapshot!(table, @"
    ruby app.rb (PID 4242), Ruby 3.1.2, watched for 30.0 s

     live  born  dead     bytes  allocated  file:line:Type, with its callers
        7    20    13     280 B    1.2 KiB  app.rb:12:String
                                              from app.rb:30 block in serve
                                              from app.rb:40 <main>
        2     4     2      80 B      256 B  app.rb:12:String
                                              from app.rb:40 <main>
        1     1     0     600 B       64 B  (vm):Class
    2,000     -     -  78.1 KiB          -  String (before lancet)
        0     9     9       0 B      576 B  … and 1 more row (0 objects, 0 B)
    2,010    34    24  79.1 KiB    2.1 KiB  total

    allocated: by all that were born, soon after birth; estimated from 1 in 32
    of the total: 2,000 objects (78.1 KiB) from before lancet came
    paused: 1.1 ms for the count, no GC before it
    live includes garbage that no GC has collected yet
    ");
}

#[test]
fn table_on_a_narrow_terminal() {
    let style = Style {
        width: Some(64),
        color: true,
    };
    let view = View {
        top: Some(2),
        ..View::default()
    };
    let table = text(|out| table::write(out, &shop(), &report(view), &style));
    insta::assert_snapshot!(table.replace('\x1b', "^"), @"
    ^[1mruby app.rb (PID 4242), Ruby 3.1.2, watched for 30.0 s^[0m

    ^[1m   live     born     dead     bytes  allocated  file:line:Type^[0m
    150,001  300,001  150,000   5.7 MiB   18.3 MiB  app.rb:12:String
         12       12        0   9.0 MiB      768 B  app.rb:12:Array
    ^[2m 22,542   40,906   40,888   2.0 MiB    2.5 MiB  … and 6 more rows (22,542 objects, 2.0 MiB)^[0m
    ^[1m172,555  340,919  190,888  16.7 MiB   20.8 MiB  total^[0m

    ^[2mallocated: by all that were born, soon after birth; estimated from 1 in 32^[0m
    ^[2mof the total: 22,524 objects (2.0 MiB) from before lancet came^[0m
    ^[2mnot shown: 9,060 objects (3.8 MiB) of the VM's own; --internal shows them^[0m
    ^[2m    most of it: IMEMO:iseq 3.8 MiB, IMEMO:env 2.3 KiB^[0m
    ^[2mpaused: 15.5 ms for a GC before the count, 1.1 ms for the count^[0m
    ^[33mlost: 40 births had no room in their table and are not counted^[0m
    ");
}

#[test]
fn table_of_growth() {
    let view = View {
        top: Some(3),
        ..View::default()
    };
    let growth = Growth::new(&earlier(), &shop(), &view).unwrap();
    let table = text(|out| table::write_growth(out, &shop(), &growth, &Style::default()));
    insta::assert_snapshot!(table, @"
    ruby app.rb (PID 4242), Ruby 3.1.2, what changed in 10.0 s (30.0 s after opening)

      +live    +bytes     born  allocated  live now  file:line:Type
    +50,000  +1.9 MiB  100,000        0 B   150,001  app.rb:12:String
          0  +4.5 MiB        0        0 B        12  app.rb:12:Array
         -2    -480 B      300        0 B        12  rack/…/utils.rb:88:Hash
       -100  -5.6 KiB   10,000        0 B            … and 2 more rows (-100 objects, -5.6 KiB)
    +49,898  +6.4 MiB  110,300        0 B            total

    allocated: by all that were born, soon after birth; estimated from 1 in 32
    not shown: +20 objects (+800 B) of the VM's own; --internal shows them
    paused: 15.5 ms for a GC before the count, 1.1 ms for the count
    lost: 40 births had no room in their table and are not counted
    ");
}

#[test]
fn memprof_is_the_classic() {
    let classic = text(|out| memprof::write(out, &report(View::default())));
    insta::assert_snapshot!(classic.replace(' ', "."), @"
    .150001.app.rb:12:String
    .....12.app.rb:12:Array
    .....12./var/lib/gems/3.1.0/gems/rack-2.2.4/lib/rack/utils.rb:88:Hash
    ......5.__null__:0:String
    ......1.app.rb:7:Shop::Order
    ");
}

#[test]
fn json_of_a_look() {
    let view = View {
        top: Some(2),
        ..View::default()
    };
    let lines = text(|out| json::write(out, &shop(), &report(view)));
    insta::assert_snapshot!(lines, @r#"
    {"record":"process","schema":2,"pid":4242,"command":["ruby","app.rb"],"languages":[{"name":"Ruby","version":"3.1.2"}]}
    {"record":"look","pid":4242,"watched_ns":30040000000,"interval_ns":null,"by":"line","collection_pause_ns":15520000,"walk_pause_ns":1130000,"looks":0,"paused_ns":0,"garbage_included":false}
    {"record":"row","pid":4242,"place":{"path":"app.rb","line":12,"function":null},"type":"String","born":300001,"live":150001,"dead":150000,"bytes":6000040,"allocated":19200064}
    {"record":"row","pid":4242,"place":{"path":"app.rb","line":12,"function":null},"type":"Array","born":12,"live":12,"dead":0,"bytes":9437184,"allocated":768}
    {"record":"total","pid":4242,"born":340919,"live":172555,"dead":190888,"bytes":17534568,"allocated":21818816,"rest":{"rows":6,"born":40906,"live":22542,"dead":40888,"bytes":2097344,"allocated":2617984},"before":{"live":22524,"bytes":2094224},"hidden":{"born":70,"live":9060,"dead":10,"bytes":4002400,"allocated":4480}}
    {"record":"own","pid":4242,"type":"IMEMO:iseq","live":9000,"bytes":4000000}
    {"record":"own","pid":4242,"type":"IMEMO:env","live":60,"bytes":2400}
    {"record":"loss","pid":4242,"what":"births","count":40,"text":"40 births had no room in their table and are not counted"}
    "#);
}

#[test]
fn json_of_each_grouping() {
    for by in [By::Line, By::Method, By::File, By::Gem, By::Type, By::Stack] {
        let guest = shop_with_stacks();
        let report = Report::new(
            &guest,
            &View {
                by,
                ..View::default()
            },
        );
        let lines = text(|out| json::write(out, &guest, &report));
        for line in lines.lines() {
            let value: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
            assert!(value["record"].is_string(), "{line}");
        }
        let row = lines.lines().nth(2).expect("there is a row");
        match by {
            By::Line => {
                insta::assert_snapshot!(row, @r#"{"record":"row","pid":4242,"place":{"path":"app.rb","line":12,"function":null},"type":"String","born":24,"live":9,"dead":15,"bytes":360,"allocated":1536}"#)
            }
            By::Method => {
                insta::assert_snapshot!(row, @r#"{"record":"row","pid":4242,"place":{"path":"app.rb","line":null,"function":"fill"},"born":24,"live":9,"dead":15,"bytes":360,"allocated":1536}"#)
            }
            By::File => {
                insta::assert_snapshot!(row, @r#"{"record":"row","pid":4242,"place":{"path":"app.rb","line":null,"function":null},"born":33,"live":9,"dead":24,"bytes":360,"allocated":2112}"#)
            }
            By::Gem => {
                insta::assert_snapshot!(row, @r#"{"record":"row","pid":4242,"place":null,"gem":"app","born":33,"live":9,"dead":24,"bytes":360,"allocated":2112}"#)
            }
            By::Type => {
                insta::assert_snapshot!(row, @r#"{"record":"row","pid":4242,"place":null,"type":"String","born":24,"live":9,"dead":15,"bytes":360,"allocated":1536}"#)
            }
            By::Stack => {
                insta::assert_snapshot!(row, @r#"{"record":"row","pid":4242,"place":null,"type":"String","stack":[{"path":"app.rb","line":12,"function":"fill"},{"path":"app.rb","line":30,"function":"block in serve"},{"path":"app.rb","line":40,"function":"<main>"}],"born":20,"live":7,"dead":13,"bytes":280,"allocated":1280}"#)
            }
        }
    }
}

#[test]
fn json_of_growth() {
    let view = View {
        top: Some(1),
        ..View::default()
    };
    let growth = Growth::new(&earlier(), &shop(), &view).unwrap();
    let lines = text(|out| json::write_growth(out, &shop(), &growth));
    insta::assert_snapshot!(lines, @r#"
    {"record":"process","schema":2,"pid":4242,"command":["ruby","app.rb"],"languages":[{"name":"Ruby","version":"3.1.2"}]}
    {"record":"look","pid":4242,"watched_ns":30040000000,"interval_ns":10040000000,"by":"line","collection_pause_ns":15520000,"walk_pause_ns":1130000,"looks":0,"paused_ns":0,"garbage_included":false}
    {"record":"growth","pid":4242,"place":{"path":"app.rb","line":12,"function":null},"type":"String","before":false,"born":100000,"live":50000,"bytes":2000000,"allocated":0,"now_live":150001,"now_bytes":6000040}
    {"record":"growth_total","pid":4242,"born":110300,"live":49898,"bytes":6712336,"allocated":0,"rest":{"rows":4,"born":10300,"live":-102,"bytes":4712336,"allocated":0},"hidden":{"born":20,"live":20,"bytes":800,"allocated":0}}
    {"record":"loss","pid":4242,"what":"births","count":40,"text":"40 births had no room in their table and are not counted"}
    "#);
}

#[test]
fn json_of_several_guests_has_no_pid() {
    let merged = births::analysis::merge(&[shop(), shop()]).unwrap();
    let view = View {
        top: Some(1),
        ..View::default()
    };
    let report = Report::new(&merged, &view);
    let lines = text(|out| json::write(out, &merged, &report));
    insta::assert_snapshot!(lines.lines().take(3).collect::<Vec<_>>().join("\n"), @r#"
    {"record":"process","schema":2,"pid":null,"command":["2 processes: ruby app.rb"],"languages":[{"name":"Ruby","version":"3.1.2"}]}
    {"record":"look","pid":null,"watched_ns":30040000000,"interval_ns":null,"by":"line","collection_pause_ns":15520000,"walk_pause_ns":1130000,"looks":0,"paused_ns":0,"garbage_included":false}
    {"record":"row","pid":null,"place":{"path":"app.rb","line":12,"function":null},"type":"String","born":600002,"live":300002,"dead":300000,"bytes":12000080,"allocated":38400128}
    "#);
}

fn folded(rows: &dyn Stacks) -> String {
    text(|out| FOLDED.write(rows, out))
}

#[test]
fn folded_stacks() {
    let guest = shop_with_stacks();
    let view = View {
        by: By::Stack,
        min: 0,
        ..View::default()
    };
    let report = Report::new(&guest, &view);
    let live = folded(&stacks::holding(&guest, &report, Weight::Live));
    insta::assert_snapshot!(live, @"
    <main> (app.rb:40);block in serve (app.rb:30);fill (app.rb:12);String 7
    <main> (app.rb:40);fill (app.rb:12);String 2
    (vm);Class 1
    (before lancet);String 2000
    ");
    let born = folded(&stacks::holding(&guest, &report, Weight::Born));
    insta::assert_snapshot!(born, @"
    <main> (app.rb:40);block in serve (app.rb:30);fill (app.rb:12);String 20
    <main> (app.rb:40);fill (app.rb:12);String 4
    (vm);Class 1
    <main> (app.rb:40);block in serve (app.rb:30);Array 9
    ");
    let bytes = folded(&stacks::holding(&guest, &report, Weight::Bytes));
    insta::assert_snapshot!(bytes, @"
    <main> (app.rb:40);block in serve (app.rb:30);fill (app.rb:12);String 280
    <main> (app.rb:40);fill (app.rb:12);String 80
    (vm);Class 600
    (before lancet);String 80000
    ");
}

#[test]
fn folded_growth_has_no_negative_widths() {
    let view = View {
        by: By::Stack,
        ..View::default()
    };
    let newer = shop();
    let growth = Growth::new(&earlier(), &newer, &view).unwrap();
    let stacks = folded(&stacks::grown(&newer, &growth, Weight::Live));
    insta::assert_snapshot!(stacks, @"fill (app.rb:12);String 50000");
}

#[test]
fn a_hostile_file_name_stays_on_its_line() {
    let mut guest = shop();
    guest.sites.truncate(1);
    guest.before.clear();
    guest.sites[0].frames = vec![guests::frame("a\x1b[2J;\n7 b.rb", 1, "x;y")];
    let report = Report::new(
        &guest,
        &View {
            by: By::Stack,
            ..View::default()
        },
    );
    let stacks = folded(&stacks::holding(&guest, &report, Weight::Live));
    insta::assert_snapshot!(stacks, @r"x:y (a\x1b[2J:\n7 b.rb:1);String 150001");
    let report = Report::new(&guest, &View::default());
    let classic = text(|out| memprof::write(out, &report));
    insta::assert_snapshot!(classic, @r" 150001 a\x1b[2J;\n7 b.rb:1:String");
    let table = text(|out| table::write(out, &guest, &report, &Style::default()));
    assert!(!table.contains('\x1b'));
}

#[test]
fn the_write_error_is_passed_on() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (guest, report) = (shop(), report(View::default()));
    let errors = [
        table::write(&mut Full, &shop(), &report, &Style::default()),
        memprof::write(&mut Full, &report),
        json::write(&mut Full, &shop(), &report),
        FOLDED.write(&stacks::holding(&guest, &report, Weight::Live), &mut Full),
    ];
    for error in errors {
        let error = error.expect_err("nothing can be written");
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    }
}
