//! The browser on the snapshot of a made-up shop, driven by keys.

use std::collections::VecDeque;

use heap::{About, Builder};
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::*;

#[path = "../../../../../heap/examples/shop.rs"]
mod shop;

/// What the screen says after these keys, line by line.
fn after(keys: &[KeyCode], width: u16, height: u16) -> Vec<String> {
    let shop = shop::planted();
    let analysis = Analysis::of(&shop);
    let answers = Answers::of(&analysis, owner);
    let mut state = state(&answers, None);
    for key in keys {
        assert_eq!(state.press(KeyEvent::from(*key)), Action::Stay, "{key:?}");
    }
    painted(&mut state, width, height)
}

fn state<'a>(answers: &'a Answers<'a>, diff: Option<Diff>) -> State<'a> {
    let view = View {
        answers,
        diff,
        contents: false,
    };
    State::new(view, false, true)
}

fn painted(state: &mut State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    let done = terminal.draw(|frame| screen::draw(frame, state));
    let buffer = done.expect("it is painted").buffer.clone();
    let rows = buffer.content().chunks(usize::from(width));
    let text = rows.map(|row| {
        row.iter()
            .map(ratatui::buffer::Cell::symbol)
            .collect::<String>()
    });
    text.map(|line| line.trim_end().to_owned()).collect()
}

/// The keys that type this and look for it.
fn search(text: &str) -> Vec<KeyCode> {
    let letters = text.chars().map(KeyCode::Char);
    let slash = [KeyCode::Char('/')].into_iter();
    slash.chain(letters).chain([KeyCode::Enter]).collect()
}

#[track_caller]
fn has(lines: &[String], wanted: &str) {
    let found = lines.iter().any(|line| line.contains(wanted));
    assert!(found, "no {wanted:?} in\n{}", lines.join("\n"));
}

#[test]
fn it_begins_with_the_suspects() {
    let lines = after(&[], 80, 24);
    insta::assert_snapshot!(lines.join("\n"), @r#"
    process 4242 (ruby 3.1.2) bin/shop
    9,114 living objects, 816.5 KiB, 13,410 references; 100 objects of garbage, 9.4
    KiB, which the next collection frees; resident memory 5.0 MiB
    note: roots that lead to addresses at which no object was found: 1
    [Suspects]  Types   Lines   Dominators   Garbage   New
      ▼retained  1 of 3
      376.0 KiB >Hash @global $cache retains 376.0 KiB (46 %): 4,000 × Order, most m
      234.8 KiB  Array @local variable rows of IMEMO:env retains 234.8 KiB (29 %): 3
      195.7 KiB  Array @thread local rows of THREAD retains 195.7 KiB (24 %): 2,000











    Hash @global $cache retains 376.0 KiB (46 %): 4,000 × Order, most made at
    app/order.rb:31; 0x20000, path: global $cache Hash
    q quit  Enter open  Esc back  Tab page  ←→ tree  s sort  / find
    t what it dominates  n new snapshot  m mark: what comes from here is new
    "#);
}

#[test]
fn a_suspect_leads_to_its_object_and_from_there_on() {
    let open = [KeyCode::Enter];
    let lines = after(&open, 100, 30);
    has(&lines, "[Suspects]  › Hash");
    has(
        &lines,
        "Hash 0x20000: 1000 B itself, retains 376.0 KiB (46 %)",
    );
    has(&lines, ">global $cache Hash 0x20000");
    has(&lines, " held by");
    has(&lines, " refers to");
    // Below the path and the roots are the orders, a thousand of them; the way back is the suspects again.
    let mut keys = vec![KeyCode::Enter, KeyCode::End];
    has(&after(&keys, 100, 30), ">… 3,000 more rows");
    keys.extend([KeyCode::Up, KeyCode::Enter]);
    let lines = after(&keys, 100, 30);
    has(&lines, "made at app/order.rb:");
    has(&lines, "it dies with Hash 0x20000, which retains 376.0 KiB");
    has(&lines, " […] Order 0x");
    keys.extend([KeyCode::Esc, KeyCode::Backspace]);
    assert_eq!(after(&keys, 80, 24), after(&[], 80, 24));
}

#[test]
fn types_are_sorted_and_their_objects_listed() {
    let types = [KeyCode::Tab];
    let lines = after(&types, 80, 24);
    has(&lines, "▼retained");
    has(&lines, "5 >Array");
    let by_name: Vec<KeyCode> = [KeyCode::Tab]
        .into_iter()
        .chain([KeyCode::Char('s'); 3])
        .collect();
    let lines = after(&by_name, 80, 24);
    has(&lines, ">Array");
    let lines = after(&[KeyCode::Tab, KeyCode::Down, KeyCode::Enter], 80, 24);
    has(&lines, "› Order");
    has(&lines, "1 of 4100");
    has(&lines, ">Order 0x1000000");
}

#[test]
fn the_tree_opens_level_by_level() {
    let mut keys = vec![KeyCode::Tab, KeyCode::Tab, KeyCode::Tab];
    let lines = after(&keys, 80, 24);
    has(&lines, ">▸ Hash 0x20000");
    keys.push(KeyCode::Right);
    let lines = after(&keys, 80, 24);
    has(&lines, ">▾ Hash 0x20000");
    has(&lines, "     4,000 × Order");
    keys.extend([KeyCode::Down, KeyCode::Left]);
    has(&after(&keys, 80, 24), ">▾ Hash 0x20000");
    keys.push(KeyCode::Left);
    let lines = after(&keys, 80, 24);
    has(&lines, ">▸ Hash 0x20000");
    assert!(!lines.iter().any(|line| line.contains("4,000 × Order")));
    // What one object dominates, from its own page.
    let lines = after(&[KeyCode::Enter, KeyCode::Char('t')], 80, 24);
    has(&lines, "› Dominated by Hash");
    has(&lines, ">  4,000 × Order");
}

#[test]
fn garbage_is_told_by_type() {
    let mut keys = vec![KeyCode::Tab; 4];
    let lines = after(&keys, 80, 24);
    has(&lines, "[Garbage]");
    has(&lines, "100 >Order, 0 in cycles, 0 with a finalizer");
    keys.push(KeyCode::Enter);
    has(&after(&keys, 80, 24), "1 of 100");
    keys.push(KeyCode::Enter);
    has(&after(&keys, 80, 24), "nothing holds it: it is garbage");
}

#[test]
fn it_finds_addresses_and_types() {
    has(
        &after(&search("0x20000"), 80, 24),
        "Hash 0x20000: 1000 B itself",
    );
    has(
        &after(&search("0x20001"), 80, 24),
        "there is no object at 0x20001",
    );
    let lines = after(&search("oRd"), 80, 24);
    has(&lines, "Types with `oRd`");
    has(&lines, ">Order");
    has(
        &after(&search("nothing"), 80, 24),
        "no living object is of a type with `nothing`",
    );
    // Letters that are typed are no keys.
    has(&after(&search("q")[..2], 80, 24), "type or 0xADDRESS: q█");
}

#[test]
fn what_is_new_is_the_first_page_of_a_later_snapshot() {
    let empty = Builder::new(About::default()).finish();
    let before = Analysis::of(&empty);
    let shop = shop::planted();
    let analysis = Analysis::of(&shop);
    let answers = Answers::of(&analysis, owner);
    let mut state = state(&answers, Some(Diff::of(&before, &analysis)));
    let lines = painted(&mut state, 100, 24);
    has(&lines, "[New]");
    has(&lines, " Garbage ");
    has(&lines, "new and living: 9,");
    has(&lines, "who holds what is new");
    // A row is chosen, and no heading.
    has(&lines, ">no single object holds");
}

#[test]
fn any_size_of_screen_will_do() {
    let shop = shop::planted();
    let analysis = Analysis::of(&shop);
    let answers = Answers::of(&analysis, owner);
    let mut state = state(&answers, None);
    for key in [KeyCode::Tab, KeyCode::Enter, KeyCode::End, KeyCode::Enter] {
        state.press(KeyEvent::from(key));
        for width in [1, 2, 20, 79, 300] {
            for height in 1..30 {
                painted(&mut state, width, height);
            }
        }
    }
    // What was chosen on a small screen is seen on it.
    state.press(KeyEvent::from(KeyCode::End));
    has(&painted(&mut state, 80, 12), ">");
}

#[test]
fn a_heap_without_objects_has_pages_too() {
    let empty = Builder::new(About::default()).finish();
    let analysis = Analysis::of(&empty);
    let answers = Answers::of(&analysis, owner);
    let mut state = state(&answers, None);
    for key in "jkst".chars().map(KeyCode::Char) {
        state.press(KeyEvent::from(key));
    }
    for key in [
        KeyCode::Tab,
        KeyCode::Right,
        KeyCode::Left,
        KeyCode::End,
        KeyCode::PageUp,
        KeyCode::Enter,
    ] {
        state.press(KeyEvent::from(key));
        painted(&mut state, 80, 24);
    }
}

#[test]
fn the_loop_ends_on_a_key() {
    let shop = shop::planted();
    let analysis = Analysis::of(&shop);
    let answers = Answers::of(&analysis, owner);
    let ends = |key: KeyEvent| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a screen");
        let mut state = state(&answers, None);
        let down = KeyEvent::from(KeyCode::Down);
        let mut keys: VecDeque<KeyEvent> = [down, key].into();
        let events = |_| Ok(keys.pop_front().map(Event::Key));
        watch(&mut terminal, &mut state, events).expect("it ends")
    };
    assert_eq!(ends(KeyEvent::from(KeyCode::Char('q'))), Action::Quit);
    assert_eq!(ends(KeyEvent::from(KeyCode::Esc)), Action::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(ends(interrupt), Action::Quit);
    assert_eq!(ends(KeyEvent::from(KeyCode::Char('n'))), Action::Again);
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let shop = shop::planted();
    let analysis = Analysis::of(&shop);
    let answers = Answers::of(&analysis, owner);
    let mut state = state(&answers, None);
    let mut colours = |has_color: bool| {
        state.color = has_color;
        state.press(KeyEvent::from(KeyCode::Char('t')));
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a screen");
        let done = terminal.draw(|frame| screen::draw(frame, &mut state));
        let cells = done.expect("it is painted").buffer.content().to_vec();
        cells.iter().filter(|cell| cell.fg != Color::Reset).count()
    };
    assert!(colours(true) > 0);
    assert_eq!(colours(false), 0);
}
