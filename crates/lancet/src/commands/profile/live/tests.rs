//! The screen of profiles that are written down here.

use std::collections::VecDeque;

use frames::profile::waits::Wait;
use frames::profile::{By, Frame, Function, Kind, Mode};
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::state::crop;
use super::*;

fn frame(name: &str, line: u32) -> Frame {
    Frame {
        function: Function {
            name: name.to_owned(),
            file: "/srv/cart.rb".to_owned(),
            kind: Kind::Script,
        },
        line,
        library: false,
    }
}

/// A second of ten looks at a thread that runs and one that sleeps.
fn second(state: &mut State) {
    state.now.rounds = 10;
    let wait = Wait {
        doing: "asleep in IO#gets".to_owned(),
        on: ": tcp to 10.0.0.7:80".to_owned(),
        ..Wait::default()
    };
    for number in 0..10 {
        let caller = if number < 7 {
            frame("dear", 4)
        } else {
            frame("cheap", 8)
        };
        state
            .now
            .add(vec![frame("main", 1), caller, frame("total", 31)]);
        state.now.slept += 1;
        let waits = vec![frame("main", 1), frame("ask", 12)];
        state.now.waits.add(7, waits, wait.clone());
    }
    state.renew();
}

fn seen() -> State {
    let mut state = State::new("process 7 (ruby app.rb)".to_owned(), View::default());
    second(&mut state);
    state
}

fn screen(state: &State, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    terminal
}

/// Holds what is on a screen against these parts of lines, in their order.
fn has(screen: &Terminal<TestBackend>, parts: &[&str]) {
    let text = screen.backend().to_string();
    let mut rest = text.as_str();
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else {
            panic!("no {part:?} in {text}");
        };
        rest = behind;
    }
}

fn press(state: &mut State, key: KeyCode) -> Action {
    state.press(KeyEvent::from(key))
}

#[test]
fn functions_and_waits() {
    has(
        &screen(&seen(), 100, 16),
        &[
            "process 7 (ruby app.rb), the last 5 s ",
            "100 % of the time in which threads ran is at total (/srv/cart.rb:31), called by dear",
            "1.0 threads ran, 0.0 waited for a processor and 1.0 slept, on average",
            "▼own   total  function",
            " 100.0%  100.0% >total (/srv/cart.rb:31)",
            "   0.0%   70.0%  dear (/srv/cart.rb)",
            " waited  at which line, and what for",
            "  50.0%  ask (/srv/cart.rb:12): asleep in IO#gets: tcp to 10.0.0.7:80",
            "q quit  s sort",
        ],
    );
}

#[test]
fn a_function_is_gone_into_and_left() {
    let mut state = seen();
    press(&mut state, KeyCode::Enter);
    has(
        &screen(&state, 60, 20),
        &[
            "  share  total (/srv/cart.rb)",
            ">it is called by",
            "  70.0%  dear (/srv/cart.rb:4)",
            "  30.0%  cheap (/srv/cart.rb:8)",
            " it calls",
        ],
    );
    press(&mut state, KeyCode::Down);
    press(&mut state, KeyCode::Enter);
    assert_eq!(state.opened().unwrap().name, "dear");
    press(&mut state, KeyCode::Esc);
    press(&mut state, KeyCode::Esc);
    assert!(state.opened().is_none());
    assert_eq!(press(&mut state, KeyCode::Esc), Action::Quit);
}

#[test]
fn what_is_chosen_stays_chosen_in_another_order() {
    let mut state = seen();
    press(&mut state, KeyCode::End);
    let chosen = state.items[state.chosen()].name.clone();
    press(&mut state, KeyCode::Char('s'));
    assert_eq!(state.items[0].name, "total (/srv/cart.rb:31)");
    assert_eq!(state.items[state.chosen()].name, chosen);
}

#[test]
fn the_last_seconds_alone_are_shown_and_nothing_is_forgotten() {
    let mut state = State::new(String::new(), View::default());
    for _ in 0..7 {
        second(&mut state);
    }
    assert_eq!(state.waits.len(), 1);
    press(&mut state, KeyCode::Char('+'));
    assert_eq!(state.span(), "the last 10 s");
    for _ in 0..3 {
        press(&mut state, KeyCode::Char('-'));
    }
    assert_eq!(state.span(), "the last 5 s");
    let whole = state.into_profile();
    assert_eq!((whole.samples, whole.rounds), (70, 70));
}

#[test]
fn the_screen_shows_what_was_asked_for() {
    let view = View {
        mode: Mode::Wait,
        by: By::File,
        by_total: true,
    };
    let mut state = State::new("process 7 (ruby app.rb)".to_owned(), view);
    second(&mut state);
    has(
        &screen(&state, 120, 16),
        &[
            "of the time in which threads waited is at /srv/cart.rb, where a thread sleeps in IO#gets",
            "own  ▼total  file",
            " 100.0%  100.0% >asleep in IO#gets",
            "   0.0%  100.0%  /srv/cart.rb",
        ],
    );
}

/// A program that makes new functions all the while has no minute on the screen, which says so.
#[test]
fn seconds_without_room_are_dropped_and_it_is_said() {
    let mut state = seen();
    for _ in 0..3 {
        second(&mut state);
    }
    let of_one = state.seconds[0].memory();
    assert!(!crop(&mut state.seconds, 4 * of_one));
    assert!(crop(&mut state.seconds, 2 * of_one));
    assert_eq!(state.seconds.len(), 2);
    assert!(crop(&mut state.seconds, 0));
    assert_eq!(state.seconds.len(), 1);
    state.is_full = true;
    assert_eq!(state.span(), "the last 1 s (there is no room for more)");
    assert_eq!(state.into_profile().samples, 40);
}

#[test]
fn any_size_of_screen_will_do() {
    let mut state = seen();
    for opened in [false, true] {
        for width in [1, 2, 10, 63, 300] {
            for height in 1..20 {
                screen(&state, width, height);
            }
        }
        if !opened {
            press(&mut state, KeyCode::Enter);
            press(&mut state, KeyCode::Tab);
        }
    }
}

/// Rests with these keys, as far as they are asked for; what came of it, and how many were left.
fn rested(state: &mut State, keys: &[KeyEvent]) -> (Option<Duration>, usize) {
    let mut terminal = Terminal::new(TestBackend::new(80, 10)).unwrap();
    let mut keys: VecDeque<KeyEvent> = keys.iter().copied().collect();
    let far = Instant::now() + Duration::from_secs(3600);
    let over = std::cell::Cell::new(false);
    let events = |_| {
        let key = keys.pop_front();
        over.set(key.is_none());
        Ok(key.map(Event::Key))
    };
    let rested = rest(&mut terminal, state, far, &|| over.get(), events).unwrap();
    (rested, keys.len())
}

#[test]
fn a_pause_is_over_at_the_key_and_ctrl_c_quits() {
    let key = |key| KeyEvent::from(KeyCode::Char(key));
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let mut state = seen();
    assert_eq!(rested(&mut state, &[key('p'), ctrl_c, key('x')]), (None, 1));
    assert!(state.paused());
    let (time, left) = rested(&mut state, &[key('p')]);
    assert_eq!((time.is_some(), left, state.paused()), (true, 0, false));
}
