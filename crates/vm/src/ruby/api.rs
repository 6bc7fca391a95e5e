//! The functions of Ruby's C API that are called in a process, by the agent of `mem` and `heap`. Used by the crates
//! `agent` and `enter`.

/// Declares [`Functions`] of the functions that every version must have, and of those that only some have or that only a part of the
/// questions needs.
macro_rules! functions {
    (needed: $($needed:ident),+; not_needed: $($other:ident),+;) => {
        /// Addresses of Ruby's functions in a process; 0 = this version has none of that name.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is Ruby's function of that name")]
        pub struct Functions {
            $(pub $needed: u64,)+
            $(pub $other: u64,)+
        }

        impl Functions {
            /// The number of functions.
            pub const WORDS: usize = [$(stringify!($needed),)+ $(stringify!($other)),+].len();

            /// Functions of which no address is known.
            pub const NONE: Functions = Functions {
                $($needed: 0,)+
                $($other: 0,)+
            };

            /// Finds the functions. `address` returns the address of one, given its name and whether it is needed; 0 = there is none.
            pub fn find(mut address: impl FnMut(&'static str, bool) -> u64) -> Self {
                Functions {
                    $($needed: address(stringify!($needed), true),)+
                    $($other: address(stringify!($other), false),)+
                }
            }

            /// Returns the addresses as words, in an order that only [`from_words`](Functions::from_words) needs to know.
            pub const fn to_words(self) -> [u64; Functions::WORDS] {
                [$(self.$needed,)+ $(self.$other),+]
            }

            /// The inverse of [`to_words`](Functions::to_words).
            pub const fn from_words(words: [u64; Functions::WORDS]) -> Functions {
                let [$($needed,)+ $($other),+] = words;
                Functions { $($needed,)+ $($other),+ }
            }
        }
    };
}

functions! {
    needed:
        rb_postponed_job_register_one, rb_add_event_hook2, rb_remove_event_hook, rb_objspace_each_objects, rb_obj_memsize_of, rb_gc_start,
        rb_gc_count, rb_gc_enable, rb_gc_disable, rb_data_typed_object_wrap, rb_gc_register_address, rb_gc_unregister_address,
        rb_set_end_proc, rb_thread_call_with_gvl, rb_protect, rb_errinfo, rb_set_errinfo, rb_eval_string_protect, rb_gc_stat,
        rb_define_singleton_method, rb_ary_new_capa, rb_ary_push, rb_ary_new_from_values, rb_str_new, rb_utf8_str_new;
    // Snapshots alone need these.
    not_needed:
        rb_objspace_reachable_objects_from, rb_objspace_reachable_objects_from_root, rb_shape_get_shape_by_id;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each address comes back under the name that it was found by.
    #[test]
    fn words_keep_their_functions() {
        let mut last = 0;
        let found = Functions::find(|name, needed| {
            last += 1;
            assert_eq!(
                needed,
                !name.contains("reachable") && !name.contains("shape")
            );
            last
        });
        assert_eq!(found.rb_postponed_job_register_one, 1);
        assert_eq!(found.rb_shape_get_shape_by_id, Functions::WORDS as u64);
        assert_eq!(Functions::from_words(found.to_words()), found);
    }
}
