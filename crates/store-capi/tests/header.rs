//! The committed header is what cbindgen makes of the sources.

use std::fs;
use std::path::Path;

/// With it set, the header is written instead of compared.
const UPDATE: &str = "IOLANE_UPDATE_HEADER";

#[test]
fn the_header_is_up_to_date() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_folder.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    // In the order in which a reader needs them.
    for module in [
        "error",
        "options",
        "row",
        "store",
        "transaction",
        "cursor",
        "statistics",
    ] {
        builder = builder.with_src(crate_folder.join(format!("src/sys/{module}.rs")));
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = crate_folder.join("include/iolane_store.h");
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &made).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap();
    assert!(
        committed == made,
        "include/iolane_store.h is not what the sources say: {UPDATE}=1 cargo test -p iolane-store-capi"
    );
}

/// Each function says what its caller must know.
#[test]
fn every_public_function_is_documented() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/iolane_store.h");
    let header = fs::read_to_string(header).unwrap();
    let mut documented = String::new();
    let mut functions = 0;
    for block in header.split("\n\n") {
        let Some((comment, declaration)) = block.rsplit_once("*/\n") else {
            continue;
        };
        documented = comment.replace("\n * ", " ");
        let is_function = declaration.contains('(')
            && declaration.trim_end().ends_with(");")
            && !declaration.starts_with("typedef");
        if is_function {
            functions += 1;
            let speaks = |words: &[&str]| words.iter().any(|word| documented.contains(word));
            assert!(
                speaks(&["Never blocks", "Blocks", "blocks", "waits", "Takes some"]),
                "blocking: {block}"
            );
            assert!(
                speaks(&["fails", "Fails", "NULL is allowed", "for NULL"]),
                "errors: {block}"
            );
        }
    }
    assert!(
        functions > 35,
        "{functions} functions, the last: {documented}"
    );
}
