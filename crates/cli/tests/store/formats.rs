//! Rows through every format and back, and copies of whole stores.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::{PEOPLE, PERSON, Place, complaint};

#[test]
fn what_goes_in_comes_out_through_every_format() {
    let place = Place::new();
    place.people("one");
    let csv = place.good(&["scan", "one", "person"]);
    assert_eq!(
        csv,
        "id,name,weight,photo\n\
         -3,\"two\nlines, \"\"quoted\"\"\",1e300,\\N\n\
         1,Anna,61.5,0x00ff\n\
         2,,\\N,0x\n\
         4,\\\\N,0.30000000000000004,0x5c4e\n\
         9223372036854775807,Zoë,-inf,\\N\n"
    );
    let dump = place.good(&["dump", "one"]);
    place.write("dump", &dump);
    // All of it again, into other pages.
    place.good(&["create", "two", "--page-size", "4k", "--log-size", "4m"]);
    place.good(&["load", "two", "--dump", "dump"]);
    assert_eq!(place.good(&["dump", "two"]), dump);
    // Only rows, as CSV and as JSON lines, in both ways.
    place.write("rows.csv", &csv);
    let jsonl = place.good(&["scan", "one", "person", "--format", "jsonl"]);
    place.write("rows.jsonl", &jsonl);
    for (store, file, method) in [
        ("three", "rows.csv", "bulk"),
        ("four", "rows.jsonl", "transactions"),
    ] {
        place.create(store);
        place.good(&["load", store, "person", file, "--method", method]);
        assert_eq!(place.good(&["dump", store]), dump, "{file}");
        place.good(&["check", store]);
    }
}

#[test]
fn a_dump_that_was_cut_short_or_changed_is_noticed() {
    let place = Place::new();
    place.people("store");
    place.good(&[
        "create",
        "store",
        "--add",
        "--table",
        "z(a integer, primary key(a))",
    ]);
    let dump = place.good(&["dump", "store"]);
    let lines: Vec<&str> = dump.lines().collect();
    let mut number = 0;
    let mut load = |lines: &[&str]| {
        number += 1;
        let store = format!("copy{number}");
        place.good(&["create", &store, "--log-size", "8m"]);
        place.write("dump", &(lines.join("\n") + "\n"));
        place.bad(&["load", &store, "--dump", "dump"], 3)
    };
    let end = lines.len() - 1;
    assert!(load(&lines[..end]).contains("cut short"));
    assert!(load(&lines[..4]).contains("cut short"));
    let missing = [&lines[..3], &lines[4..]].concat();
    assert!(load(&missing).contains("lines are missing"));
    let behind = [&lines[..], &lines[2..3]].concat();
    assert!(load(&behind).contains("more behind the end"));
    let said = load(&lines[..end]);
    assert!(said.contains("Loaded completely before: person."), "{said}");
    place.write("dump", PEOPLE);
    place.good(&["create", "copy", "--log-size", "8m"]);
    place.bad(&["load", "copy", "--dump", "people.csv"], 3);
    // Into tables with rows, or of another shape.
    place.write("dump", &dump);
    let said = place.bad(&["load", "store", "--dump", "dump"], 2);
    assert!(
        said.contains("not empty") && said.contains("into a new store"),
        "{said}"
    );
    place.good(&[
        "create",
        "other",
        "--table",
        "person(id integer, primary key(id))",
    ]);
    let said = place.bad(&["load", "other", "--dump", "dump"], 2);
    assert!(said.contains("not as in the dump"), "{said}");
}

#[test]
fn ranges_of_keys_and_of_indexes() {
    let place = Place::new();
    place.good(&[
        "create",
        "s",
        "--table",
        "t(a integer, b text, c real null, primary key(a, b), index i(c, a))",
    ]);
    place.write(
        "t.csv",
        "a,b,c\n1,x,\n1,y,2\n2,x,1\n-2,z,2\n3,\"q,r\",0.5\n",
    );
    place.good(&["load", "s", "t", "t.csv"]);
    let range = |more: &[&str]| {
        let arguments = [&["range", "s", "t", "--columns", "b,a"], more].concat();
        let text = place.good(&arguments);
        let text = text.strip_prefix("b,a\n").unwrap().to_owned();
        text.lines()
            .map(str::to_owned)
            .collect::<Vec<String>>()
            .join(" ")
    };
    assert_eq!(range(&[]), "z,-2 x,1 y,1 x,2 \"q,r\",3");
    assert_eq!(range(&["--from", "1", "--to", "1"]), "x,1 y,1");
    assert_eq!(range(&["--after", "1", "--reverse"]), "\"q,r\",3 x,2");
    assert_eq!(range(&["--from", "-2", "--before", "1,y"]), "z,-2 x,1");
    assert_eq!(range(&["--from", "3,\"q,r\""]), "\"q,r\",3");
    assert_eq!(range(&["--limit", "1", "--reverse"]), "\"q,r\",3");
    assert_eq!(range(&["--index", "i"]), "x,1 \"q,r\",3 x,2 z,-2 y,1");
    assert_eq!(
        range(&["--index", "i", "--from", "\\N", "--to", "\\N"]),
        "x,1"
    );
    assert_eq!(range(&["--index", "i", "--after", "2,-2"]), "y,1");
    for (arguments, message) in [
        (
            &["--from", "x"][..],
            "--from \"x\": column \"a\": \"x\" is no integer of 64 bits",
        ),
        (
            &["--to", "1,x,2"],
            "--to \"1,x,2\": 3 values, the key has 2",
        ),
        (&["--after", "\\N"], "column \"a\" holds no null"),
        (&["--before", "1\n2"], "it has more than one line"),
        (&["--index", "j"], "table t has no index \"j\""),
        (&["--from", "1", "--after", "1"], "cannot be used with"),
    ] {
        let arguments = [&["range", "s", "t"], arguments].concat();
        let said = place.bad(&arguments, 1);
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn a_dump_into_a_closed_standard_output_is_an_error() {
    let place = Place::new();
    place.people("s");
    for command in ["dump s", "scan s person", "range s person"] {
        let line = format!("exec \"$0\" store {command} >&-");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line, env!("CARGO_BIN_EXE_iolane")]);
        let output = shell.current_dir(place.root.path()).output().unwrap();
        let said = complaint(&output, 3, command);
        assert!(
            said.starts_with("writing to standard output failed: "),
            "{said}"
        );
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    place.good(&[
        "create",
        "s",
        "--table",
        "t(a integer, b text, primary key(a))",
        "--log-size",
        "8m",
    ]);
    let rows: String = (0..5000)
        .map(|number| format!("{number},{}\n", "x".repeat(100)))
        .collect();
    place.write("t.csv", &format!("a,b\n{rows}"));
    place.good(&["load", "s", "t", "t.csv"]);
    for arguments in [
        &["scan", "s", "t"][..],
        &["range", "s", "t"],
        &["dump", "s"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = place.command(arguments);
        command.stdout(writer).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        drop(command);
        let mut first = String::new();
        BufReader::with_capacity(10, reader)
            .read_line(&mut first)
            .unwrap();
        assert!(!first.is_empty());
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn copies_have_the_shape_and_rows_of_the_original() {
    let place = Place::new();
    place.good(&[
        "create",
        "s",
        "--page-size",
        "64k",
        "--log-size",
        "16m",
        "--table",
        PERSON,
    ]);
    place.write("people.csv", PEOPLE);
    place.good(&["load", "s", "person", "people.csv"]);
    let document = place.good(&["backup", "s", "t", "--output-format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["schema"], "iolane.store.backup/1");
    assert_eq!(
        (&document["tables"], &document["rows"]),
        (&1.into(), &5.into())
    );
    assert_eq!(place.good(&["dump", "t"]), place.good(&["dump", "s"]));
    let stats = |store: &str| -> serde_json::Value {
        let text = place.good(&["stats", store, "--rows", "--output-format", "json"]);
        serde_json::from_str(&text).unwrap()
    };
    let (original, copy) = (stats("s"), stats("t"));
    assert_eq!(original["page_bytes"], 65536);
    assert_eq!(original["tables"][0]["rows"], 5);
    for field in ["page_bytes", "tables"] {
        assert_eq!(original[field], copy[field], "{field}");
    }
    let log = |document: &serde_json::Value| {
        let files = document["files"].as_array().unwrap().clone();
        let log = files.into_iter().find(|file| file["name"] == "redo.log");
        log.unwrap()["size_bytes"].clone()
    };
    assert_eq!(log(&original), log(&copy));
    // A schema as JSON makes the same table.
    let schema = original["tables"][0]["schema"].to_string();
    place.write("schema.json", &schema);
    place.write("schemas.json", &format!("[{schema}]"));
    for (store, file) in [("u", "schema.json"), ("v", "schemas.json")] {
        place.good(&["create", store, "--schema", file]);
        assert_eq!(
            stats(store)["tables"][0]["schema"],
            original["tables"][0]["schema"]
        );
    }
    place.write("wrong.json", &schema.replace("integer", "number"));
    let said = place.bad(&["create", "w", "--schema", "wrong.json"], 1);
    assert!(
        said.contains("wrong.json: unknown variant `number`"),
        "{said}"
    );
}
