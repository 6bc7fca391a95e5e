//! Records of which some were lost.

use super::*;
use crate::event::CallEdge;
use crate::live::guest::Copying;
use hooks::Wanted;
use process::functions::Function;
use prototypes::Detail;
use std::sync::Arc;

struct Known;

impl Sees for Known {
    fn told(&self, number: u64) -> Option<Rc<Told>> {
        let function = Function {
            address: number,
            ..Function::default()
        };
        let edge = CallEdge {
            function: Arc::new(function.clone()),
            ..CallEdge::default()
        };
        let copying = Copying {
            detail: Detail {
                strings: 32,
                array: 16,
                whole: false,
            },
            messages: 0,
            environment: false,
            copies: false,
            callers: false,
        };
        let told = Told::new(&Wanted::of(function), None, copying, Arc::new(edge));
        told.map(Rc::new)
    }

    fn wall(&self, time: u64) -> Duration {
        Duration::from_nanos(time)
    }

    fn note_uncopied(&self, _: u64, _: u64) {}
}

fn call(number: u64, time: u64, missed: bool) -> Record {
    Record::Call {
        pid: 1,
        tid: 1,
        time,
        number,
        arguments: [0; 6],
        behind: 0,
        stack: 0,
        copied: Copied::default(),
        missed,
    }
}

fn returns(time: u64, result: u64) -> Record {
    Record::Return {
        pid: 1,
        tid: 1,
        time,
        result,
        copied: Copied::default(),
        again: Copied::default(),
    }
}

/// What is told of records: the number of each call, and the result of each return.
fn told(telling: &mut Telling, records: Vec<Record>) -> Vec<(&'static str, u64)> {
    let mut all = Vec::new();
    let mut tell = |event: Event| {
        all.push(match event.kind {
            EventKind::Call(call) => ("call", call.edge.function.address),
            EventKind::Return(back) => ("return", back.returned.rax),
            _ => ("other", 0),
        });
    };
    for record in records {
        telling.tell(record, &Known, &mut tell);
    }
    all
}

/// The result of a call is not told of the one before, whose return was lost.
#[test]
fn a_call_whose_return_was_lost_has_none() {
    let records = vec![call(7, 10, true), call(8, 20, false), returns(30, 5)];
    let all = told(&mut Telling::default(), records);
    assert_eq!(all, [("call", 7), ("call", 8), ("return", 5)]);
}

/// Of a call in which it was when it began to be watched, the return alone is told; if it was in none, both are of the first call.
#[test]
fn only_a_call_that_was_reported_is_not_told_again() {
    let records = || vec![call(7, 10, false), returns(30, 5)];
    let within = told(&mut Telling::since(Some(10)), records());
    assert_eq!(within, [("return", 5)]);
    let between = told(&mut Telling::since(None), records());
    assert_eq!(between, [("call", 7), ("return", 5)]);
}
