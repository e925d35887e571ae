//! The `iolane` command.
fn main() {}
