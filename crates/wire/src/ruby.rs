//! Ruby's part of the configuration: the functions of Ruby's C API that the agent of `mem` calls. It calls no other VM.

/// Addresses of Ruby's functions in the guest, written by the command; 0 = this version has none of that name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs, reason = "each is Ruby's function of that name")]
pub struct Functions {
    pub rb_postponed_job_register_one: u64,
    pub rb_add_event_hook2: u64,
    pub rb_remove_event_hook: u64,
    pub rb_objspace_each_objects: u64,
    pub rb_obj_memsize_of: u64,
    pub rb_gc_start: u64,
    pub rb_gc_count: u64,
    pub rb_gc_enable: u64,
    pub rb_gc_disable: u64,
    pub rb_data_typed_object_wrap: u64,
    pub rb_gc_register_address: u64,
    pub rb_gc_unregister_address: u64,
    pub rb_set_end_proc: u64,
    pub rb_thread_call_with_gvl: u64,
    pub rb_protect: u64,
    pub rb_errinfo: u64,
    pub rb_set_errinfo: u64,
    pub rb_eval_string_protect: u64,
    pub rb_gc_stat: u64,
    pub rb_objspace_reachable_objects_from: u64,
    pub rb_objspace_reachable_objects_from_root: u64,
    pub rb_shape_get_shape_by_id: u64,
    pub rb_define_singleton_method: u64,
    pub rb_ary_new_capa: u64,
    pub rb_ary_push: u64,
    pub rb_ary_new_from_values: u64,
    pub rb_str_new: u64,
    pub rb_utf8_str_new: u64,
}

impl Functions {
    /// Functions of which no address is known.
    pub const NONE: Functions = Functions {
        rb_postponed_job_register_one: 0,
        rb_add_event_hook2: 0,
        rb_remove_event_hook: 0,
        rb_objspace_each_objects: 0,
        rb_obj_memsize_of: 0,
        rb_gc_start: 0,
        rb_gc_count: 0,
        rb_gc_enable: 0,
        rb_gc_disable: 0,
        rb_data_typed_object_wrap: 0,
        rb_gc_register_address: 0,
        rb_gc_unregister_address: 0,
        rb_set_end_proc: 0,
        rb_thread_call_with_gvl: 0,
        rb_protect: 0,
        rb_errinfo: 0,
        rb_set_errinfo: 0,
        rb_eval_string_protect: 0,
        rb_gc_stat: 0,
        rb_objspace_reachable_objects_from: 0,
        rb_objspace_reachable_objects_from_root: 0,
        rb_shape_get_shape_by_id: 0,
        rb_define_singleton_method: 0,
        rb_ary_new_capa: 0,
        rb_ary_push: 0,
        rb_ary_new_from_values: 0,
        rb_str_new: 0,
        rb_utf8_str_new: 0,
    };
}
