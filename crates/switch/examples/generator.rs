//! A generator: recursion that yields from any depth, as an iterator.
//!
//! ```text
//! cargo run -p lancet-switch --example generator
//! ```

use std::rc::Rc;

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

/// The iterator around it. It keeps the tree, which a coroutine may not borrow: an iterator can be forgotten.
struct InOrder(Coroutine<(), u32, ()>);

impl InOrder {
    fn new(tree: Rc<Tree>) -> Self {
        InOrder(Coroutine::new(move |out, ()| walk(&tree, out)))
    }
}

impl Iterator for InOrder {
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

/// Adds up a tree that is only borrowed: the coroutine is ended with its scope.
fn sum(tree: &Tree) -> u32 {
    Coroutine::scope(
        |out: &Suspender<(), u32>, ()| walk(tree, out),
        |mut values| {
            let mut sum = 0;
            while let State::Suspended(value) = values.resume(()) {
                sum += value;
            }
            sum
        },
    )
}

fn main() {
    let tree = Rc::new(balanced(1, 100));
    let odd: Vec<_> = InOrder::new(tree.clone())
        .filter(|n| n % 2 == 1)
        .take(5)
        .collect();
    println!("{odd:?}");
    assert_eq!(odd, [1, 3, 5, 7, 9]);
    assert!(InOrder::new(tree.clone()).eq(1..=100));
    assert_eq!(sum(&tree), 5050);
}
