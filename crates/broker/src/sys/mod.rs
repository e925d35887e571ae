//! What is not safe: the memory's file, the life line, sockets and processes.

pub mod life;
pub mod memory_file;
pub mod process;
pub mod socket;
