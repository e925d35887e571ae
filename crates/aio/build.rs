//! Names the shared library as its installed symbolic link.

fn main() {
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libiolane-aio.so.{major}");
    println!("cargo::rerun-if-changed=build.rs");
}
