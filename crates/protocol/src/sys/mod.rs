//! What is not safe: system calls, and the memory itself.

pub mod clock;
pub mod confinement;
pub mod futex;
pub mod introduce;
pub mod mapping;
pub mod raw;
