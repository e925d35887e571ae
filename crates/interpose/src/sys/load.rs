//! When the library is loaded.

use crate::client;
use crate::sys::real;

/// The dynamic loader calls what is listed here before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    real::resolve_all();
    client::begin();
}
