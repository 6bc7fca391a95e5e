//! The heap of a PHP's request, read from outside. Used by `php`.
//!
//! The VM lists its objects; all else is found from variables, constants, frames and the objects (`vm::php::heap`). The size of something
//! is that of its allocated block. What is in use and was not found is one row: compiled code, the stack of frames, buffers, what only C
//! code knows. So all sizes together equal `memory_get_usage()`.
//!
//! Between two requests nothing of a program lives: variables, objects and classes were freed at the end of the last one. The VM's own
//! variables still have their addresses, so they are not followed then. The snapshot of such a process says so.

mod blocks;
mod kinds;
mod roots;
mod walk;

use crate::snapshot;
use crate::snapshot::frozen::Frozen;
use crate::snapshot::heap_source::HeapSource;
use blocks::Blocks;
use heap::{Builder, Collector, Snapshot};
use vm::Memory;
use vm::php::{Facts, Php, collector};
use walk::Walk;

/// Finds the heap of a PHP.
pub fn find(
    memory: &dyn Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
) -> Result<Box<dyn snapshot::ReadAlone>, String> {
    let facts = Facts::find(&memory, symbol).map_err(|error| error.to_string())?;
    Ok(Box::new(facts))
}

impl snapshot::Heap for Facts {
    fn vm_version(&self) -> String {
        self.version().to_string()
    }

    fn of_core(&self, found: &HeapSource, builder: Builder) -> Result<Snapshot, String> {
        read(found, *self, builder).map(Builder::finish)
    }
}

impl snapshot::ReadAlone for Facts {
    fn of_memory(&self, found: &HeapSource, builder: Builder) -> Result<Builder, String> {
        read(found, *self, builder)
    }
}

/// Adds all that variables, frames and the store of objects lead to, with the roots, to `builder`.
///
/// # Errors
/// Its memory comes from another allocator, or it took too long.
fn read(found: &HeapSource, facts: Facts, builder: Builder) -> Result<Builder, String> {
    let frozen = Frozen::new(found.memory);
    let mut builder = builder;
    let on = (found.symbol)(collector::IS_ENABLED).and_then(|at| collector::is_on(&frozen, at));
    builder.about_mut().collector = Collector::of(on);
    let php = Php::new(&frozen, facts).map_err(|error| error.to_string())?;
    let unreadable = |error: vm::php::Error| error.to_string();
    let stack = php.frame_stack().map_err(unreadable)?;
    let blocks = Blocks::find(&frozen, stack, found.bytes);
    if !php.is_in_request().map_err(unreadable)? {
        return Ok(between_requests(builder, blocks));
    }
    let blocks = blocks.ok_or(
        "its memory comes from malloc and not from its own allocator (USE_ZEND_ALLOC=0), which alone says how large a block is",
    )?;
    let places = php.places(found.symbol).map_err(unreadable)?;
    let mut walk = Walk::new(&php, places, blocks, builder, found);
    walk.all()?;
    Ok(walk.finish())
}

/// Makes the snapshot of a PHP that waits for a request: what its allocator still has in use.
fn between_requests(mut builder: Builder, blocks: Option<Blocks>) -> Builder {
    if let Some(blocks) = blocks {
        kinds::add_rest(&mut builder, &blocks);
    }
    builder.about_mut().notes.push(
        "it serves no request at this moment, and between two requests nothing of a program lives in a PHP. What its memory is used for says \
         lancet heap -p PID --rss"
            .to_owned(),
    );
    builder
}
