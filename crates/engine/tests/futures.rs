//! The examples of futures do what they say.

mod common;

#[allow(dead_code, reason = "its main")]
#[path = "../examples/on_tokio.rs"]
mod on_tokio;
#[allow(dead_code, reason = "its main")]
#[path = "../examples/without_runtime.rs"]
mod without_runtime;

use common::folder;

#[test]
fn a_runtime_runs_the_engines_futures() {
    let folder = folder();
    assert_eq!(on_tokio::run(folder.path()).unwrap(), (256, 32));
}

#[test]
fn futures_need_no_runtime() {
    let folder = folder();
    assert_eq!(without_runtime::run(folder.path()).unwrap(), 2 << 20);
}
