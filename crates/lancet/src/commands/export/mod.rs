//! `lancet export`: answers that were saved, as Parquet files in a folder of tables (docs/fleet.md).

mod args;
mod run;

pub use args::ExportArgs;
pub use run::{NOTHING, run};
