//! The screen held against its expected text, and the loop driven by made-up events.

use std::collections::VecDeque;
use std::sync::Arc;

use births::analysis::{Counts, Frame, SiteCount, TypeCount};
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::*;

fn site(path: &str, line: u32, kind: &str, born: u64, live: u64, bytes: u64) -> SiteCount {
    let frame = Frame {
        path: path.into(),
        line,
        method: "fill".into(),
    };
    SiteCount {
        frames: vec![Arc::new(frame)],
        kind: kind.into(),
        internal: false,
        counts: Counts::of_births(born, live, bytes),
    }
}

/// A guest in which one line leaks with every second.
fn guest(pid: i32, second: u64) -> Census {
    Census {
        pid,
        command: vec!["puma: worker".into()],
        language: "Ruby",
        version: "3.1.2".into(),
        seconds: second as f64,
        taken_at: None,
        sites: vec![
            site(
                "/srv/shop/app/models/cart.rb",
                12,
                "String",
                2000 * second,
                1000 * second,
                40_000 * second,
            ),
            site("app.rb", 3, "Array", 4, 4, 4_000_000),
            site(
                "/var/lib/gems/3.1.0/gems/rack-2.2.4/lib/rack.rb",
                88,
                "Hash",
                500 * second,
                300 - second,
                9_000,
            ),
        ],
        before: vec![TypeCount {
            kind: "String".into(),
            internal: false,
            counts: Counts {
                live: 21_500,
                bytes: 1_204_224,
                ..Counts::default()
            },
        }],
        gc_pause: Some(Duration::from_micros(15_520)),
        walk_pause: Duration::from_micros(1_130),
        followed: true,
        uncollected: births::analysis::Uncollected::Ran,
        ..Census::default()
    }
}

fn seen(seconds: &[u64]) -> State {
    let mut state = State::new(View::default(), true);
    for &second in seconds {
        state.update(vec![guest(7, second)]);
    }
    state
}

fn screen(state: &State, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    terminal
}

fn press(state: &mut State, key: char) -> Action {
    state.press(KeyEvent::from(KeyCode::Char(key)))
}

#[test]
fn before_the_first_look() {
    insta::assert_snapshot!(screen(&seen(&[]), 20, 2).backend(), @r#"
    "opening…            "
    "                    "
    "#);
}

#[test]
fn rows_and_growth() {
    insta::assert_snapshot!(screen(&seen(&[1, 2, 5]), 110, 10).backend(), @r#"
    "puma: worker (PID 7), Ruby 3.1.2, watched for 5.0 s                                                           "
    "26,799 objects +3,996, 5.2 MiB +156.2 KiB in 4.0 s; paused 15.5 ms GC, 1.1 ms count                           "
    "                                                                                                              "
    "        ▼live        +live       bytes       +bytes            born file:line:Type                            "
    "        5,000       +4,000   195.3 KiB   +156.2 KiB          10,000 /srv/shop/app/models/cart.rb:12:String    "
    "          295           -4     8.8 KiB          0 B           2,500 rack/…/rack.rb:88:Hash                    "
    "            4            0     3.8 MiB          0 B               4 app.rb:3:Array                            "
    "       21,500            0     1.1 MiB          0 B               - String (before lancet)                    "
    "                                                                                                              "
    "q quit  s sort  g group  p pause  m mark growth from here  Tab next process                                   "
    "#);
}

#[test]
fn growth_has_a_colour_unless_refused() {
    let reds = |state: &State| {
        let terminal = screen(state, 110, 10);
        terminal
            .backend()
            .buffer()
            .content()
            .iter()
            .filter(|cell| cell.fg == Color::Red)
            .count()
    };
    let mut state = seen(&[1, 5]);
    assert!(reds(&state) > 0);
    state.color = false;
    assert_eq!(reds(&state), 0);
}

#[test]
fn what_does_not_fit_is_added_up() {
    insta::assert_snapshot!(screen(&seen(&[1, 2]), 100, 7).backend(), @r#"
    "puma: worker (PID 7), Ruby 3.1.2, watched for 2.0 s                                                 "
    "23,802 objects +999, 5.0 MiB +39.1 KiB in 1.0 s; paused 15.5 ms GC, 1.1 ms count                    "
    "                                                                                                    "
    "        ▼live        +live       bytes       +bytes file:line:Type                                  "
    "        2,000       +1,000    78.1 KiB    +39.1 KiB /srv/shop/app/models/cart.rb:12:String          "
    "       21,802           -1     5.0 MiB          0 B … and 3 more rows                               "
    "q quit  s sort  g group  p pause  m mark growth from here  Tab next process                         "
    "#);
}

#[test]
fn sorted_by_growth_and_grouped_by_gem() {
    let mut state = seen(&[1, 2]);
    press(&mut state, 's');
    press(&mut state, 's');
    for _ in 0..3 {
        press(&mut state, 'g');
    }
    insta::assert_snapshot!(screen(&state, 100, 10).backend(), @r#"
    "puma: worker (PID 7), Ruby 3.1.2, watched for 2.0 s                                                 "
    "23,802 objects +999, 5.0 MiB +39.1 KiB in 1.0 s; paused 15.5 ms GC, 1.1 ms count                    "
    "                                                                                                    "
    "         live       ▼+live       bytes       +bytes            born gem                             "
    "        2,004       +1,000     3.9 MiB    +39.1 KiB           4,004 app                             "
    "       21,500            0     1.1 MiB          0 B               - String (before lancet)          "
    "          298           -1     8.8 KiB          0 B           1,000 rack-2.2.4                      "
    "                                                                                                    "
    "                                                                                                    "
    "q quit  s sort  g group  p pause  m mark growth from here  Tab next process                         "
    "#);
}

#[test]
fn a_mark_restarts_the_growth() {
    let mut state = seen(&[1, 2]);
    assert!(state.grown.live > 0);
    press(&mut state, 'm');
    assert_eq!(state.grown.live, 0);
    state.update(vec![guest(7, 3)]);
    assert_eq!(state.grown.live, 999);
}

#[test]
fn several_processes_are_merged_and_chosen() {
    let mut state = State::new(View::default(), false);
    state.update(vec![guest(7, 1), guest(8, 1)]);
    let mut lost = guest(8, 2);
    let loss = |text: &str| births::analysis::Loss {
        what: births::analysis::Lost::Births,
        count: None,
        text: text.into(),
    };
    lost.losses = vec![
        loss("3 births had no room"),
        loss("a frame was not readable"),
    ];
    state.update(vec![guest(7, 2), lost]);
    insta::assert_snapshot!(screen(&state, 100, 12).backend(), @r#"
    "2 processes: puma: worker, Ruby 3.1.2, watched for 2.0 s [1 of 3, Tab]                              "
    "47,604 objects +1,998, 10.1 MiB +78.1 KiB in 1.0 s; paused 15.5 ms GC, 1.1 ms count                 "
    "lost: PID 8: 3 births had no room (and 1 more)                                                      "
    "                                                                                                    "
    "        ▼live        +live       bytes       +bytes file:line:Type                                  "
    "        4,000       +2,000   156.2 KiB    +78.1 KiB /srv/shop/app/models/cart.rb:12:String          "
    "          596           -2    17.6 KiB          0 B rack/…/rack.rb:88:Hash                          "
    "            8            0     7.6 MiB          0 B app.rb:3:Array                                  "
    "       43,000            0     2.3 MiB          0 B String (before lancet)                          "
    "                                                                                                    "
    "                                                                                                    "
    "q quit  s sort  g group  p pause  m mark growth from here  Tab next process                         "
    "#);
    state.press(KeyEvent::from(KeyCode::Tab));
    assert_eq!(state.guest().unwrap().pid, 7);
    state.press(KeyEvent::from(KeyCode::Tab));
    assert_eq!(state.guest().unwrap().pid, 8);

    // A worker that is gone is not shown for ever.
    state.update(vec![guest(7, 3)]);
    assert_eq!(state.guest().unwrap().pid, 7);
    let pids: Vec<i32> = state
        .into_censuses()
        .iter()
        .map(|census| census.pid)
        .collect();
    assert_eq!(pids, [7]);
}

/// A worker has the objects of its parent from its fork on: that they are there is no growth of all together.
#[test]
fn a_worker_that_came_did_not_grow() {
    let mut state = State::new(View::default(), false);
    state.update(vec![guest(7, 1), guest(8, 1)]);
    state.update(vec![guest(7, 2), guest(8, 2), guest(9, 2)]);
    assert_eq!(state.grown.live, 2 * 999);
    state.update(vec![guest(7, 3), guest(9, 3)]);
    assert_eq!(state.grown.live, 2 * 999 + 999, "of those that are there");
    assert_eq!(state.marks.len(), 2, "what has gone is forgotten");
    // The id of the worker that has gone.
    let mut anew = guest(9, 1);
    anew.watch = 1;
    state.update(vec![guest(7, 3), anew]);
    assert_eq!(state.grown.live, 2 * 999);
}

#[test]
fn any_size_of_screen_will_do() {
    let state = seen(&[1, 2]);
    for width in [1, 2, 10, 63, 64, 65, 300] {
        for height in 1..12 {
            screen(&state, width, height);
        }
    }
}

#[test]
fn keys_to_leave() {
    let mut state = seen(&[1]);
    assert_eq!(press(&mut state, 'q'), Action::Quit);
    assert_eq!(state.press(KeyEvent::from(KeyCode::Esc)), Action::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.press(interrupt), Action::Quit);
    assert_eq!(press(&mut state, 'c'), Action::Stay);
    assert_eq!(press(&mut state, 'x'), Action::Stay);
}

/// Runs the loop over keys (a pause between two looks is `None`), and counts the looks.
fn run_with(keys: &[Option<char>], last_second: u64) -> (Vec<Census>, u64) {
    let mut terminal = Terminal::new(TestBackend::new(80, 10)).unwrap();
    let mut keys: VecDeque<Option<char>> = keys.iter().copied().collect();
    let mut second = 0;
    let events = |_| {
        let key = keys.pop_front().unwrap_or(None);
        Ok(key.map(|key| Event::Key(KeyEvent::from(KeyCode::Char(key)))))
    };
    let next = || {
        second += 1;
        Ok((second <= last_second).then(|| (vec![guest(7, second)], Duration::ZERO)))
    };
    let last = watch(&mut terminal, View::default(), events, next).unwrap();
    (last, second)
}

#[test]
fn the_loop_ends_with_the_guest() {
    let (last, looks) = run_with(&[], 3);
    assert_eq!(last[0].seconds, 3.0);
    assert_eq!(looks, 4);
}

#[test]
fn the_loop_ends_on_a_key() {
    let (last, looks) = run_with(&[None, Some('q')], 100);
    assert_eq!(last[0].seconds, 2.0);
    assert_eq!(looks, 2);
}

#[test]
fn a_pause_leaves_the_guest_alone() {
    let (last, looks) = run_with(&[Some('p'), None, None, Some('p'), Some('q')], 100);
    assert_eq!(looks, 2);
    assert_eq!(last[0].seconds, 2.0);
}

#[test]
fn the_error_of_a_look_comes_out() {
    let mut terminal = Terminal::new(TestBackend::new(80, 10)).unwrap();
    let next = || anyhow::bail!("the process is gone");
    let error = watch(&mut terminal, View::default(), |_| Ok(None), next).unwrap_err();
    assert_eq!(error.to_string(), "the process is gone");
}
