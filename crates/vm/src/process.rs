//! What the readers of one process have in common: memory + layout + facts. Used by `perl`, `php` and `ruby`.

/// Defines the reader of a language whose layouts are static tables: `$reader` with its constructor and its parts.
macro_rules! process_reader {
    ($(#[$doc:meta])+ $reader:ident) => {
        $(#[$doc])+
        #[derive(Debug)]
        pub struct $reader<'a, M> {
            memory: &'a M,
            layout: &'static Layout,
            facts: Facts,
        }

        impl<M> Clone for $reader<'_, M> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<M> Copy for $reader<'_, M> {}

        impl<'a, M: crate::Memory> $reader<'a, M> {
            /// A reader for the process that `facts` were found in.
            pub fn new(memory: &'a M, facts: Facts) -> Result<$reader<'a, M>, Unsupported> {
                Ok($reader {
                    memory,
                    layout: Layout::of(facts.table())?,
                    facts,
                })
            }

            /// Returns a reader of the same process through another memory.
            pub fn over<'b, N>(&self, memory: &'b N) -> $reader<'b, N> {
                $reader {
                    memory,
                    layout: self.layout,
                    facts: self.facts,
                }
            }

            /// Returns the memory that it reads.
            pub fn memory(&self) -> &'a M {
                self.memory
            }

            /// Returns the layout of its version.
            pub fn layout(&self) -> &'static Layout {
                self.layout
            }

            /// Returns what is known about the process.
            pub fn facts(&self) -> &Facts {
                &self.facts
            }
        }
    };
}

pub(crate) use process_reader;
