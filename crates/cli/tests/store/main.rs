//! `iolane store`: the built program on real files.

mod files;
mod formats;
mod interrupted;
mod rows;
mod session;
mod small_disk;

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const PERSON: &str = "person(id integer, name text, weight real null, photo blob null, primary key(id), \
    index by_name(name), unique index by_weight(weight))";

/// Rows with everything that text could lose.
const PEOPLE: &str = "id,name,weight,photo\n\
    1,Anna,61.5,0x00ff\n\
    2,,,0x\n\
    -3,\"two\nlines, \"\"quoted\"\"\",1e300,\\N\n\
    4,\\\\N,0.30000000000000004,0x5c4e\n\
    9223372036854775807,Zoë,-inf,\n";

/// A directory for stores and files.
struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir_in("/var/tmp").unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iolane"));
        command
            .arg("store")
            .args(arguments)
            .current_dir(self.root.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it prints; it must succeed.
    fn good(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// What it complains about, behind progress; it must end with this code,
    /// and say what to do.
    fn bad(&self, arguments: &[&str], code: i32) -> String {
        complaint(&self.run(arguments), code, &format!("{arguments:?}"))
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    fn create(&self, store: &str) {
        self.good(&["create", store, "--table", PERSON, "--log-size", "8m"]);
    }

    /// A store with the people in it.
    fn people(&self, store: &str) {
        self.create(store);
        self.write("people.csv", PEOPLE);
        self.good(&["load", store, "person", "people.csv"]);
    }

    /// A file of a store by the ending of its name.
    fn table_file(&self, store: &str) -> PathBuf {
        let files = fs::read_dir(self.path(store)).unwrap();
        let mut files = files.map(|file| file.unwrap().path());
        files
            .find(|path| {
                path.file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .starts_with("table-")
            })
            .unwrap()
    }

    /// Takes away the copies from which damaged pages would be repaired.
    fn lose_copies(&self, store: &str) {
        const HEADER_BYTES: u64 = 32 << 10;
        let area = self.path(store).join("doublewrite");
        let length = fs::metadata(&area).unwrap().len();
        overwrite(
            &area,
            HEADER_BYTES,
            &vec![0; (length - HEADER_BYTES) as usize],
        );
    }

    /// A load that has begun and waits for more than three rows.
    fn loading(&self, store: &str, method: &str) -> Child {
        let mut child = self
            .command(&[
                "load",
                store,
                "person",
                "--method",
                method,
                "--transaction-rows",
                "2",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.as_mut().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "loading standard input into person\n");
        let input = child.stdin.as_mut().unwrap();
        input.write_all(b"id,name\n1,a\n2,b\n3,c\n").unwrap();
        child
    }
}

fn complaint(output: &Output, code: i32, what: &str) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{what}: {stderr}");
    let (_, complaint) = stderr
        .split_once("error: ")
        .unwrap_or_else(|| panic!("{what}: {stderr}"));
    assert_eq!(
        complaint.lines().count(),
        2,
        "cause and remedy: {complaint}"
    );
    complaint.to_owned()
}

fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}
