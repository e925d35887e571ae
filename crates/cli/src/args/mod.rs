//! What the user can type: one definition per option, from which the help and
//! the parser are generated.

pub mod batch;
pub mod choices;
pub mod commit;
pub mod common;
pub mod demo;
pub mod disk;
pub mod duration;
pub mod figures;
pub mod hugepages;
pub mod list;
pub mod mix;
pub mod needs;
pub mod rate;
pub mod regret;
pub mod run;
pub mod size;
pub mod store;
pub mod store_bench;
pub mod sweep;
