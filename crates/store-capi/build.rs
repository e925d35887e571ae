//! Names the shared library as its installed symbolic link: programs load the
//! interface that they were linked with.

fn main() {
    // Until 1.0 each minor version may change the interface.
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libiolane_store.so.{major}");
    println!("cargo::rerun-if-changed=build.rs");
}
