//! Assigns script frames to the native frames that run them. Used by `stack`.
//!
//! ```text
//!   write                    │
//!   rb_io_write              │  native frames, innermost first
//!   rb_vm_exec          ◄────┼── app.rb:12:in `puts', app.rb:30:in `run'   one run: up to the frame
//!   rb_yield                 │                                              that ends it
//!   rb_ary_each              │
//!   rb_vm_exec          ◄────┼── app.rb:40:in `<main>'                      the next run
//!   main                     │
//! ```
//!
//! If the VM keeps a record of its own in each native frame, the frame is found by its address. Otherwise frames of
//! the VM's function and runs are counted, from the outer end: a thread may be seen when it has noted a script frame
//! whose run has not begun, or has ended, but only at the inner end. A stack whose outer end was not found,
//! or whose outer script frames could not be read, is counted from the inner one.

use std::ops::Range;

use super::scripts::{Placement, Script};
use super::stack::Line;

/// Consecutive script frames that one native frame runs.
struct Run {
    scripts: Vec<Script>,
    placement: Placement,
}

/// Assigns each run to the native frame that runs it, and returns the script frames for which there is none. `runner`
/// is the code of the function that runs scripts; `whole` says that `lines` and `scripts` reach to the outer end.
pub(super) fn merge(
    lines: &mut [Line],
    scripts: Vec<Script>,
    runner: &[Range<u64>],
    whole: bool,
) -> Vec<Script> {
    let runs = runs(scripts);
    let is_runner = |line: &Line| {
        let at = line.native.lookup;
        runner.iter().any(|range| range.contains(&at))
    };
    let runners: Vec<usize> = (0..lines.len())
        .filter(|&at| is_runner(&lines[at]))
        .collect();
    let is_counted = |run: &&Run| matches!(run.placement, Placement::SameRun | Placement::EndsRun);
    let counted = runs.iter().filter(is_counted).count();
    // How many runs at the inner end have no native frame, and how many native frames there have no run.
    let difference = |more: usize, fewer: usize| if whole { more.saturating_sub(fewer) } else { 0 };
    let excess = difference(counted, runners.len());
    let spare = difference(runners.len(), counted);

    let mut unplaced = Vec::new();
    let mut number: usize = 0;
    // Functions of C are searched for from here on, but not beyond the next runner.
    let mut from = 0;
    let mut waiting: Vec<Script> = Vec::new();
    for run in runs {
        let line = match run.placement {
            Placement::EndsRunAround(address) => holding(lines, address),
            Placement::NativeFunction(start) => {
                let is_it = |line: &Line| {
                    let function = line.function.as_ref();
                    function.is_some_and(|function| function.start == start)
                };
                let mut between = (from..lines.len()).take_while(|&at| !is_runner(&lines[at]));
                match between.find(|&at| is_it(&lines[at])) {
                    Some(at) => {
                        lines[at].scripts.extend(run.scripts);
                        from = at + 1;
                    }
                    // The compiler has inlined the function into its caller, where the script frames are shown then.
                    None => waiting.extend(run.scripts),
                }
                continue;
            }
            Placement::SameRun | Placement::EndsRun => {
                let place = (number + spare).checked_sub(excess);
                number += 1;
                place.and_then(|at| runners.get(at).copied())
            }
        };
        let scripts = waiting.drain(..).chain(run.scripts);
        match line {
            Some(at) => {
                lines[at].scripts.extend(scripts);
                from = at + 1;
            }
            None => unplaced.extend(scripts),
        }
    }
    unplaced.extend(waiting);
    unplaced
}

/// Cuts the script frames into runs.
fn runs(scripts: Vec<Script>) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut run = Vec::new();
    for script in scripts {
        // A function of C in the middle of a run stays there.
        let placement = match script.placement {
            Placement::NativeFunction(_) if !run.is_empty() => Placement::SameRun,
            placement => placement,
        };
        run.push(script);
        if placement != Placement::SameRun {
            runs.push(Run {
                scripts: std::mem::take(&mut run),
                placement,
            });
        }
    }
    if !run.is_empty() {
        runs.push(Run {
            scripts: run,
            placement: Placement::SameRun,
        });
    }
    runs
}

/// Returns the number of the frame that holds an address.
fn holding(lines: &[Line], address: u64) -> Option<usize> {
    let after = lines.partition_point(|line| line.native.sp <= address);
    let at = after.checked_sub(1)?;
    (address < lines[at].native.cfa).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::loaded::Function;
    use crate::live::unwind::Native;

    /// Where the function that runs scripts lies, and others.
    const RUNNER: Range<u64> = 100..200;
    const PART: Range<u64> = 900..950;
    const OTHER: u64 = 300;

    /// Frames of 16 bytes from 1000 up, by where they execute.
    fn lines(places: &[u64]) -> Vec<Line> {
        let line = |(number, &at): (u64, &u64)| Line {
            native: Native {
                ip: at,
                lookup: at,
                sp: 1000 + number * 16,
                cfa: 1016 + number * 16,
            },
            module: None,
            function: Some(Function {
                name: None,
                start: at / 100 * 100,
                offset: at % 100,
            }),
            scripts: Vec::new(),
            objects: None,
        };
        (0..).zip(places).map(line).collect()
    }

    fn scripts(placements: &[Placement]) -> Vec<Script> {
        let script = |(number, &placement): (u32, &Placement)| Script {
            launcher: false,
            path: "x".to_owned(),
            line: number,
            name: String::new(),
            qualified: None,
            placement,
        };
        (0..).zip(placements).map(script).collect()
    }

    /// The numbers of the scripts of each line, then of those without.
    fn merged(places: &[u64], placements: &[Placement], whole: bool) -> Vec<Vec<u32>> {
        let mut lines = lines(places);
        let unplaced = merge(&mut lines, scripts(placements), &[RUNNER, PART], whole);
        let mut all: Vec<Vec<Script>> = lines.into_iter().map(|line| line.scripts).collect();
        all.push(unplaced);
        let numbers = all
            .iter()
            .map(|scripts| scripts.iter().map(|script| script.line));
        numbers.map(Iterator::collect).collect()
    }

    const NONE: Vec<u32> = Vec::new();

    #[test]
    fn runs_are_counted_parts_of_the_function_too() {
        let placements = [
            Placement::SameRun,
            Placement::EndsRun,
            Placement::EndsRun,
            Placement::SameRun,
        ];
        assert_eq!(
            merged(&[OTHER, 150, 910, OTHER, 199], &placements, true),
            [NONE, vec![0, 1], vec![2], NONE, vec![3], NONE]
        );
    }

    #[test]
    fn what_does_not_match_is_at_the_inner_end() {
        let placements = [Placement::EndsRun, Placement::EndsRun];
        assert_eq!(merged(&[150], &placements, true), [vec![1], vec![0]]);
        assert_eq!(
            merged(&[150, 150, 150], &placements, true),
            [NONE, vec![0], vec![1], NONE]
        );
        // Of a stack whose outer end is not known it is the other way round.
        assert_eq!(merged(&[150], &placements, false), [vec![0], vec![1]]);
        assert_eq!(merged(&[], &placements, true), [vec![0, 1]]);
    }

    #[test]
    fn an_address_says_more_than_counting() {
        let placements = [
            Placement::EndsRunAround(1035),
            Placement::EndsRunAround(999),
            Placement::EndsRunAround(1048),
        ];
        assert_eq!(
            merged(&[150, 150, OTHER], &placements, true),
            [NONE, NONE, vec![0], vec![1, 2]]
        );
    }

    #[test]
    fn functions_of_c_stand_between_runs() {
        let placements = [
            Placement::NativeFunction(OTHER),
            Placement::EndsRun,
            Placement::NativeFunction(OTHER),
            Placement::NativeFunction(OTHER),
            Placement::EndsRun,
        ];
        assert_eq!(
            merged(&[OTHER, 150, 50, OTHER, 150], &placements, true),
            [vec![0], vec![1], NONE, vec![2], vec![3, 4], NONE]
        );
        assert_eq!(
            merged(
                &[150],
                &[Placement::EndsRun, Placement::NativeFunction(OTHER)],
                true
            ),
            [vec![0], vec![1]]
        );
    }
}
