//! Whatever memory holds, the readers answer or refuse: they do not panic and do not loop for ever.

mod memory;
mod python;
mod ruby;
