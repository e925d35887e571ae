//! Stores that are missing, locked, damaged, foreign or read-only.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use iolane_testing::skipped;

use crate::{PERSON, Place, complaint, overwrite};

#[test]
fn stores_that_are_not_there_or_there_already() {
    let place = Place::new();
    place.people("s");
    fs::create_dir(place.path("empty")).unwrap();
    place.write("file", "x");
    let said = place.bad(&["check", "empty"], 2);
    assert!(
        said.starts_with("empty is no store: it has no redo.log"),
        "{said}"
    );
    assert_eq!(
        fs::read_dir(place.path("empty")).unwrap().count(),
        0,
        "nothing was left"
    );
    assert!(
        place
            .bad(&["check", "nothing"], 2)
            .starts_with("there is no store nothing")
    );
    place.bad(&["check", "file"], 2);
    assert!(place.bad(&["create", "s"], 2).contains("exists already"));
    assert!(place.bad(&["create", "file"], 2).contains("file"));
    let said = place.bad(&["backup", "s", "empty/../s"], 2);
    assert!(
        said.contains("exists already") && said.contains("does not exist yet"),
        "{said}"
    );
    fs::create_dir(place.path("copy.part")).unwrap();
    place.write("copy.part/redo.log", "");
    let said = place.bad(&["backup", "s", "copy"], 2);
    assert!(
        said.contains("copy.part exists already") && said.contains("rm -r copy.part"),
        "{said}"
    );
    let said = place.bad(&["create", "s", "--add", "--table", PERSON], 2);
    assert!(
        said.contains("there is already a table \"person\""),
        "{said}"
    );
    assert_eq!(
        place.good(&["scan", "s", "person"]).lines().count(),
        7,
        "as before"
    );
}

#[test]
fn a_store_that_is_open_elsewhere_is_left_alone() {
    let place = Place::new();
    place.create("s");
    let mut child = place.loading("s", "transactions");
    for arguments in [
        &["check", "s"][..],
        &["scan", "s", "person"],
        &["backup", "s", "t"],
    ] {
        let said = place.bad(arguments, 2);
        assert!(said.starts_with("s is open in another process"), "{said}");
    }
    drop(child.stdin.take());
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.starts_with("3 rows loaded into person in "), "{text}");
    assert!(child.wait().unwrap().success());
    place.good(&["check", "s"]);
}

#[test]
fn foreign_and_truncated_files_are_named() {
    let place = Place::new();
    let spoil = |name: &str, spoil: &dyn Fn(&Path)| {
        let store = format!("store-{name}");
        let _ = fs::remove_dir_all(place.path(&store));
        place.people(&store);
        let path = match name {
            "table" => place.table_file(&store),
            name => place.path(&store).join(name),
        };
        if name != "doublewrite" {
            place.lose_copies(&store);
        }
        spoil(&path);
        let output = place.run(&["scan", &store, "person"]);
        let code = output.status.code().unwrap();
        assert!(code == 2 || code == 3, "{name}");
        let said = complaint(&output, code, name);
        assert!(output.stdout.is_empty() || code == 3, "{name}");
        said
    };
    let foreign = |path: &Path| fs::write(path, vec![b'x'; 1 << 20]).unwrap();
    for name in ["redo.log", "doublewrite", "system.ts", "table"] {
        let said = spoil(name, &foreign);
        assert!(
            said.contains("is no") && !said.contains("internal"),
            "{name}: {said}"
        );
    }
    let cut = |path: &Path| {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(64 << 10).unwrap();
    };
    let said = spoil("redo.log", &cut);
    assert!(
        said.contains("truncated") && said.contains("redo.log"),
        "{said}"
    );
    let said = spoil("table", &|path| fs::remove_file(path).unwrap());
    assert!(
        said.contains("table person is damaged and cannot be used: its file is missing"),
        "{said}"
    );
}

#[test]
fn findings_are_listed_and_end_with_3() {
    let place = Place::new();
    place.good(&[
        "create",
        "s",
        "--table",
        "t(a integer, b text, primary key(a))",
        "--log-size",
        "8m",
    ]);
    let row = |number: u32| format!("{number},{}\n", "x".repeat(100));
    let rows: String = (0..2000).map(row).collect();
    place.write("t.csv", &format!("a,b\n{rows}"));
    place.good(&["load", "s", "t", "t.csv"]);
    let clean: serde_json::Value =
        serde_json::from_str(&place.good(&["check", "s", "--output-format", "json"])).unwrap();
    assert_eq!(
        (&clean["clean"], &clean["rows"]),
        (&true.into(), &2000.into())
    );
    // Pages of rows, behind those that describe the file.
    let table = place.table_file("s");
    for page in 7..12 {
        overwrite(&table, page * 16384 + 9000, b"damage");
    }
    place.lose_copies("s");
    let said = place.bad(&["check", "s"], 3);
    assert!(said.contains("finding"), "{said}");
    let output = place.run(&["check", "s", "--output-format", "json"]);
    assert_eq!(output.status.code(), Some(3));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "iolane.store.check/1");
    assert_eq!(document["clean"], false);
    assert!(!document["findings"].as_array().unwrap().is_empty());
    let said = place.bad(&["scan", "s", "t"], 3);
    assert!(said.contains("iolane store check"), "{said}");

    // What is left can be had.
    let said = place.bad(&["dump", "s"], 3);
    assert!(said.contains("dump DIR --skip-damaged"), "{said}");
    let output = place.run(&["dump", "s", "--skip-damaged"]);
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    let told = said.lines().find_map(|line| {
        let (_, keys) = line.split_once("t: left out rows after ")?;
        let (keys, _reason) = keys.split_once(": ")?;
        let (after, before) = keys.split_once(" before ")?;
        Some((after.parse::<u32>().ok()?, before.parse::<u32>().ok()?))
    });
    let (after, before) = told.unwrap_or_else(|| panic!("{said}"));
    assert!(said.contains("missing in 1 place of the dump"), "{said}");
    fs::write(place.path("left.dump"), &output.stdout).unwrap();
    place.good(&["create", "left"]);
    place.good(&["load", "left", "--dump", "left.dump"]);
    let left: String = rows
        .lines()
        .zip(0..)
        .filter(|(_, number)| *number <= after || *number >= before)
        .map(|(line, _)| format!("{line}\n"))
        .collect();
    let scanned = place.good(&["scan", "left", "t"]);
    assert!(scanned == format!("a,b\n{left}") && left.len() < rows.len());
}

#[test]
fn a_table_whose_description_is_damaged_takes_no_other_with_it() {
    let place = Place::new();
    let table = |name| format!("{name}(a integer, primary key(a))");
    place.good(&["create", "s", "--table", &table("bad")]);
    place.write("rows.csv", "a\n1\n2\n");
    place.good(&["load", "s", "bad", "rows.csv"]);
    let file = place.table_file("s");
    place.good(&["create", "s", "--add", "--table", &table("good")]);
    place.good(&["load", "s", "good", "rows.csv"]);
    let bytes = fs::read(&file).unwrap();
    let schema = br#""name":"bad""#;
    let at = bytes.windows(schema.len()).position(|at| at == schema);
    overwrite(&file, at.unwrap() as u64, b"damage");
    place.lose_copies("s");

    assert_eq!(place.good(&["scan", "s", "good"]), "a\n1\n2\n");
    place.write("more.csv", "a\n3\n");
    let by = ["--method", "transactions"];
    place.good(&[&["load", "s", "good", "more.csv"][..], &by].concat());
    let told = place.good(&["stats", "s"]);
    assert!(
        told.contains("bad is damaged and cannot be used: page "),
        "{told}"
    );
    let stats = place.good(&["stats", "s", "--output-format", "json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["damaged_tables"][0]["name"], "bad");
    assert_eq!(stats["tables"].as_array().unwrap().len(), 1);
    for arguments in [
        &["scan", "s", "bad"][..],
        &["dump", "s"],
        &["dump", "s", "bad"],
        &["backup", "s", "copy"],
        &["load", "s", "bad", "rows.csv"],
        &["create", "s", "--add", "--table", &table("bad")],
    ] {
        let output = place.run(arguments);
        let said = complaint(&output, 3, &format!("{arguments:?}"));
        assert!(
            said.contains("table bad is damaged and cannot be used: page "),
            "{said}"
        );
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert!(!place.path("copy").exists() && !place.path("copy.part").exists());
    let said = place.bad(&["check", "s"], 3);
    assert!(said.contains("1 finding"), "{said}");
    let found = place.run(&["check", "s"]);
    let found = String::from_utf8_lossy(&found.stdout);
    assert!(found.starts_with("table bad: page "), "{found}");

    for tables in [&[][..], &["good", "bad"]] {
        let output = place.run(&[&["dump", "s", "--skip-damaged"], tables].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(
            said.contains("bad: left out the table and all its rows: page "),
            "{said}"
        );
        assert!(
            said.contains("1 table is missing in the dump, named above"),
            "{said}"
        );
        fs::write(place.path("left.dump"), &output.stdout).unwrap();
        place.good(&["create", "left"]);
        place.good(&["load", "left", "--dump", "left.dump"]);
        assert_eq!(place.good(&["scan", "left", "good"]), "a\n1\n2\n3\n");
        fs::remove_dir_all(place.path("left")).unwrap();
    }
    // What is asked for is whole.
    place.good(&["dump", "s", "good"]);

    // It makes room for one that is loaded again.
    let said = place.bad(&["drop", "s", "bad", "nobody"], 1);
    assert!(said.contains("no table \"nobody\""), "{said}");
    assert!(place.good(&["stats", "s"]).contains("bad is damaged"));
    let said = place.good(&["drop", "s", "bad"]);
    assert_eq!(said, "s: dropped 1 table\n");
    place.good(&["create", "s", "--add", "--table", &table("bad")]);
    place.good(&["load", "s", "bad", "rows.csv"]);
    assert_eq!(place.good(&["scan", "s", "bad"]), "a\n1\n2\n");
    place.good(&["check", "s"]);
    let document = place.good(&["drop", "s", "good", "bad", "--output-format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["schema"], "iolane.store.drop/1");
    assert_eq!(document["tables"], serde_json::json!(["bad", "good"]));
    assert!(place.good(&["check", "s"]).starts_with("0 tables"));
}

#[test]
fn pages_that_cannot_be_written_whole_have_another_way() {
    let place = Place::new();
    let made = place.run(&["create", "s", "--torn-pages", "atomic"]);
    if made.status.success() {
        return skipped("this disk writes pages as wholes");
    }
    let said = complaint(&made, 2, "create");
    assert!(said.contains("Give --torn-pages doublewrite"), "{said}");
    place.good(&["create", "s", "--torn-pages", "doublewrite"]);
}

#[test]
fn a_store_that_may_not_be_written_says_so() {
    const NOBODY: u32 = 65534;
    let place = Place::new();
    place.people("s");
    let allow =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for file in fs::read_dir(place.path("s")).unwrap() {
        allow(&file.unwrap().path(), 0o444);
    }
    allow(&place.path("s"), 0o555);
    allow(place.root.path(), 0o755);
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.uid(NOBODY).gid(NOBODY).output()
    };
    // Others may not run the program where it was built.
    match run(&["--help"]) {
        Ok(output) if output.status.success() => {}
        _ => return skipped("the program cannot be run as another user here"),
    }
    let output = run(&["scan", "s", "person"]).unwrap();
    let said = complaint(&output, 2, "scan");
    assert!(
        said.contains("ermission denied") && said.contains("may write to"),
        "{said}"
    );
    allow(&place.path("s"), 0o000);
    let output = run(&["scan", "s", "person"]).unwrap();
    let said = complaint(&output, 2, "scan");
    assert!(
        said.starts_with("s/redo.log: Permission denied") && said.contains("read and write"),
        "{said}"
    );
    let output = run(&["create", "new"]).unwrap();
    let said = complaint(&output, 2, "create");
    assert!(
        said.contains("ermission denied") && said.contains("new"),
        "{said}"
    );
}
