//! A generator: recursion that yields from any depth, as an iterator.
//!
//! ```text
//! cargo run -p lancet-switch --example generator
//! ```

use lancet_switch::{Coroutine, State, Suspender};

enum Tree {
    Leaf,
    Node(Box<Tree>, u32, Box<Tree>),
}

/// Visits in order; the recursion needs no state machine, for it keeps its stack.
fn walk(tree: &Tree, out: &Suspender<(), u32>) {
    if let Tree::Node(left, value, right) = tree {
        walk(left, out);
        out.suspend(*value);
        walk(right, out);
    }
}

/// The iterator around it.
struct InOrder<'t>(Coroutine<'t, (), u32, ()>);

impl<'t> InOrder<'t> {
    fn new(tree: &'t Tree) -> Self {
        InOrder(Coroutine::new(|out, ()| walk(tree, out)))
    }
}

impl Iterator for InOrder<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        match self.0.try_resume(()) {
            Ok(State::Suspended(value)) => Some(value),
            _ => None,
        }
    }
}

fn balanced(low: u32, high: u32) -> Tree {
    if low > high {
        return Tree::Leaf;
    }
    let middle = low.midpoint(high);
    let left = if middle == low {
        Tree::Leaf
    } else {
        balanced(low, middle - 1)
    };
    Tree::Node(Box::new(left), middle, Box::new(balanced(middle + 1, high)))
}

fn main() {
    let tree = balanced(1, 100);
    let odd: Vec<_> = InOrder::new(&tree).filter(|n| n % 2 == 1).take(5).collect();
    println!("{odd:?}");
    assert_eq!(odd, [1, 3, 5, 7, 9]);
    assert!(InOrder::new(&tree).eq(1..=100));
}
