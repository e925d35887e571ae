//! The committed header of a crate with a C interface: of this one, and of the store's.
//!
//! It is no part of `iolane-testing`: cbindgen brings crates along whose presence changes
//! what other crates' tests mean.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// With it set, a header is written instead of compared.
const UPDATE: &str = "IOLANE_UPDATE_HEADER";

/// A header that cbindgen makes of modules in `src/sys`, as the crate's `cbindgen.toml` says.
pub struct CHeader {
    /// The crate's folder.
    pub crate_folder: &'static str,
    /// The header, from there.
    pub path: &'static str,
    /// Names of the modules, in the order in which a reader needs them.
    pub modules: &'static [&'static str],
}

impl CHeader {
    fn file(&self) -> PathBuf {
        Path::new(self.crate_folder).join(self.path)
    }

    fn committed(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    /// It is what cbindgen makes of the sources.
    ///
    /// # Panics
    /// If it is not. With `IOLANE_UPDATE_HEADER` in the environment it is written instead.
    pub fn is_up_to_date(&self) {
        let folder = Path::new(self.crate_folder);
        let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
        let mut builder = cbindgen::Builder::new().with_config(config);
        for module in self.modules {
            builder = builder.with_src(folder.join(format!("src/sys/{module}.rs")));
        }
        let mut made = Vec::new();
        builder.generate().unwrap().write(&mut made);
        let made = String::from_utf8(made).unwrap();
        if env::var_os(UPDATE).is_some() {
            fs::write(self.file(), &made).unwrap();
        }
        assert!(
            self.committed() == made,
            "{} is not what the sources say: run this test with {UPDATE}=1",
            self.path
        );
    }

    /// Each function says what its caller must know: what blocks, and how it fails.
    ///
    /// # Panics
    /// If one does not, or if there are fewer than `functions_min`.
    pub fn documents_every_function(&self, functions_min: usize) {
        let header = self.committed();
        let mut functions = 0;
        for block in header.split("\n\n") {
            let Some((comment, declaration)) = block.rsplit_once("*/\n") else {
                continue;
            };
            let is_function = declaration.contains('(')
                && declaration.trim_end().ends_with(");")
                && !declaration.starts_with("typedef");
            if !is_function {
                continue;
            }
            functions += 1;
            let comment = comment.replace("\n * ", " ");
            let speaks = |words: &[&str]| words.iter().any(|word| comment.contains(word));
            assert!(
                speaks(&["Never blocks", "Blocks", "blocks", "waits", "Takes some"]),
                "blocking: {block}"
            );
            assert!(
                speaks(&["fails", "Fails", "NULL is allowed", "for NULL"]),
                "errors: {block}"
            );
        }
        assert!(
            functions >= functions_min,
            "{functions} functions in {}",
            self.path
        );
    }
}
