//! Columns, heads and orders of the table.

use super::*;

/// Ten threads in `pselect6`, of which one has returned after a second.
#[test]
fn the_mean_is_that_of_calls_that_have_returned() {
    let mut figures = Figures {
        calls: 9,
        ..Figures::default()
    };
    figures.returned(Duration::from_secs(1), false);
    assert_eq!((figures.calls, figures.returned), (10, 1));
    assert_eq!(figures.mean(), Duration::from_secs(1));
    let mut all = Figures::default();
    all.add(&figures);
    all.add(&figures);
    assert_eq!(all.mean(), Duration::from_secs(1));
}

#[test]
fn columns_are_strace_s() {
    let all: Columns = "name,time-percent,total-time,min-time,max-time,avg-time,calls,errors"
        .parse()
        .expect("they are known");
    let mut text = String::new();
    all.head(&mut text);
    let micros = Duration::from_micros;
    let mut figures = Figures::default();
    figures.returned(micros(292), false);
    figures.returned(micros(8), true);
    let of = Of {
        all: micros(1000),
        strace: true,
        ..Of::default()
    };
    all.row(&figures, of, "execve", &mut text);
    assert_eq!(
        text,
        "\
syscall          % time     seconds shortest  longest  usecs/call     calls    errors
---------------- ------ ----------- -------- -------- ----------- --------- ---------
execve            30.00    0.000300 0.000008 0.000292         150         2         1
"
    );
    assert_eq!(
        "calls,calls".parse::<Columns>(),
        Err("calls is there twice".into())
    );
    assert!("nosuch".parse::<Columns>().is_err());
    let walls: Columns = "wall-total,wall-min,wall-max,wall-avg"
        .parse()
        .expect("columns");
    assert!(walls.ask_times());
    let mut text = String::new();
    walls.head(&mut text);
    walls.row(&figures, of, "execve", &mut text);
    assert_eq!(
        text,
        "\x20wall-total wall-min wall-max    wall-avg syscall
----------- -------- -------- ----------- ----------------
   0.000300 0.000008 0.000292         150 execve
"
    );
    let named: Columns = "calls".parse().expect("one");
    assert_eq!(named.0, [Column::Calls, Column::Name]);
}

#[test]
fn our_own_table_has_rates_and_parts_of_microseconds() {
    let columns = Columns::default().with_rate();
    assert_eq!(columns.before_name(), Some(7 + 12 + 12 + 10 + 10 + 10));
    let figures = Figures {
        calls: 2345,
        returned: 2345,
        time: Duration::from_micros(1291),
        ..Figures::default()
    };
    let of = Of {
        all: Duration::from_millis(2),
        watched: Some(Duration::from_secs(3)),
        strace: false,
    };
    let mut text = String::new();
    columns.head(&mut text);
    columns.row(&figures, of, "getpid", &mut text);
    assert_eq!(
        text,
        "\
% time     seconds  usecs/call     calls   calls/s    errors syscall
------ ----------- ----------- --------- --------- --------- ----------------
 64.55    0.001291       0.550      2345       782           getpid
"
    );
    // Who has chosen columns has those.
    let chosen: Columns = "calls,name".parse().expect("columns");
    assert_eq!(chosen.with_rate(), chosen);
}

#[test]
fn without_a_column_of_times_rows_stand_by_their_number() {
    let columns = |text: &str| text.parse::<Columns>().expect("columns");
    assert!(Columns::default().ask_times());
    assert_eq!(Columns::default().order(), Order::By(Column::Total));
    for text in ["calls,errors,name", "name", "errors"] {
        assert!(!columns(text).ask_times(), "{text}");
        assert_eq!(columns(text).order(), Order::By(Column::Calls), "{text}");
    }
    for text in [
        "calls,avg-time",
        "time,name",
        "min-time",
        "max-time",
        "total-time",
    ] {
        assert!(columns(text).ask_times(), "{text}");
    }
    let by = |text: &str| text.parse::<Order>().expect("an order");
    assert!(by("time").asks_times() && by("max-time").asks_times());
    assert!(!by("calls").asks_times() && !by("nothing").asks_times());
}
