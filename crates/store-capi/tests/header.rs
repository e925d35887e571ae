//! The committed header is what cbindgen makes of the sources.

#[path = "../../capi/tests/c_header/mod.rs"]
mod c_header;

use c_header::CHeader;

const HEADER: CHeader = CHeader {
    crate_folder: env!("CARGO_MANIFEST_DIR"),
    path: "include/iolane_store.h",
    modules: &[
        "error",
        "options",
        "row",
        "store",
        "transaction",
        "cursor",
        "load",
        "backup",
        "waits",
        "statistics",
    ],
};

#[test]
fn the_header_is_up_to_date() {
    HEADER.is_up_to_date();
}

#[test]
fn every_public_function_is_documented() {
    HEADER.documents_every_function(43);
}
