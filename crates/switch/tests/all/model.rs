//! Random programs of coroutines against a model that has none.
//!
//! The model keeps, for each coroutine, a plain state; every operation is applied to both and the
//! results compared. Destructors on the stacks count themselves, so that a frame unwound twice or
//! never shows.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use lancet_switch::pool::{Config, Pool};
use lancet_switch::{Builder, Coroutine, Finished, State};
use proptest::prelude::*;

/// What a test does next; the number chooses a coroutine.
#[derive(Debug, Clone)]
enum Step {
    Make { depth: u8, lives: u8, end: End },
    Resume(usize, u32),
    Cancel(usize),
    Drop(usize),
}

/// How a body ends after its last suspend.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Return,
    Panic,
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![3 => Just(End::Return), 1 => Just(End::Panic)];
    prop_oneof![
        2 => (0..20u8, 0..6u8, end).prop_map(|(depth, lives, end)| Step::Make { depth, lives, end }),
        8 => (any::<usize>(), any::<u32>()).prop_map(|(which, input)| Step::Resume(which, input)),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => any::<usize>().prop_map(Step::Drop),
    ]
}

/// Counts frames that stand.
struct Frame(Rc<Cell<usize>>);

impl Frame {
    fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Frame(count.clone())
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

struct Model {
    sum: u32,
    lives: u8,
    depth: usize,
    end: End,
    started: bool,
    done: bool,
}

impl Model {
    fn frames(&self) -> usize {
        if self.started && !self.done {
            self.depth + 1
        } else {
            0
        }
    }
}

type Made = Coroutine<u32, u32, u32>;

fn make(pool: &Pool, depth: u8, lives: u8, end: End, count: &Rc<Cell<usize>>) -> Made {
    let count = count.clone();
    Builder::new()
        .pool(pool)
        .spawn(move |suspender, first: u32| {
            fn down(depth: u8, count: &Rc<Cell<usize>>, body: &mut dyn FnMut() -> u32) -> u32 {
                let _frame = Frame::new(count);
                if depth == 0 {
                    body()
                } else {
                    down(depth - 1, count, body)
                }
            }
            down(depth, &count, &mut || {
                let mut sum = first;
                for _ in 0..lives {
                    sum = sum.wrapping_add(suspender.suspend(sum));
                }
                match end {
                    End::Return => sum,
                    End::Panic => resume_unwind(Box::new(sum)),
                }
            })
        })
        .expect("a coroutine")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_program_does_what_the_model_says(steps in prop::collection::vec(step(), 1..120)) {
        let pool = Pool::new(Config::default()).expect("a pool");
        let frames = Rc::new(Cell::new(0));
        let mut all: Vec<(Made, Model)> = Vec::new();
        for step in steps {
            match step {
                Step::Make { depth, lives, end } => {
                    let model = Model {
                        sum: 0, lives, depth: usize::from(depth), end, started: false, done: false,
                    };
                    all.push((make(&pool, depth, lives, end, &frames), model));
                }
                Step::Resume(which, input) if !all.is_empty() => {
                    let which = which % all.len();
                    let (made, model) = &mut all[which];
                    let got = catch_unwind(AssertUnwindSafe(|| made.try_resume(input)));
                    if model.done {
                        prop_assert_eq!(got.ok(), Some(Err(Finished(input))));
                        continue;
                    }
                    model.sum = if model.started { model.sum.wrapping_add(input) } else { input };
                    model.started = true;
                    if model.lives > 0 {
                        model.lives -= 1;
                        prop_assert_eq!(got.ok(), Some(Ok(State::Suspended(model.sum))));
                    } else {
                        model.done = true;
                        match (model.end, got) {
                            (End::Return, Ok(got)) => prop_assert_eq!(got, Ok(State::Finished(model.sum))),
                            (End::Panic, Err(payload)) => {
                                prop_assert_eq!(payload.downcast_ref::<u32>(), Some(&model.sum));
                            }
                            (end, _) => prop_assert!(false, "{:?} went the other way", end),
                        }
                    }
                }
                Step::Cancel(which) if !all.is_empty() => {
                    let which = which % all.len();
                    let (made, model) = &mut all[which];
                    prop_assert_eq!(made.cancel(), Ok(()));
                    model.done = true;
                }
                Step::Drop(which) if !all.is_empty() => {
                    let which = which % all.len();
                    all.swap_remove(which);
                }
                _ => {}
            }
            prop_assert_eq!(frames.get(), all.iter().map(|(_, model)| model.frames()).sum::<usize>());
            prop_assert_eq!(pool.stats().live, all.len());
            for (made, model) in &all {
                prop_assert_eq!(made.is_finished(), model.done);
                prop_assert!(model.done || made.has_started() == model.started);
            }
        }
        drop(all);
        prop_assert_eq!(frames.get(), 0);
        prop_assert_eq!(pool.stats().live, 0);
    }
}
