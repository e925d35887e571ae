//! Rows that cannot be loaded, and loads that do not come to their end.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{Place, complaint};

#[test]
fn bad_rows_are_named_and_skipped_when_asked() {
    let place = Place::new();
    place.people("s");
    place.write(
        "more.csv",
        "name,id,weight\nBert,10,1\nDup,1,2\nX,eleven,3\nHeavy,12,61.5\nShort,13\nDora,14,4\n",
    );
    let said = place.bad(&["load", "s", "person", "more.csv"], 3);
    assert!(
        said.starts_with("line 3: table person: there is a row with the same primary key\nLoaded before it: 1 row."),
        "{said}"
    );
    let output = place.run(&[
        "load",
        "s",
        "person",
        "more.csv",
        "--on-error",
        "skip",
        "--output-format",
        "json",
    ]);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    for line in [
        "left out: line 2: table person: there is a row with the same primary key",
        "left out: line 3: table person: there is a row with the same primary key",
        "left out: line 4: column \"id\": \"eleven\" is no integer of 64 bits",
        "left out: line 5: table person: there is a row with the same by_weight",
        "left out: line 6: 2 fields, the first line has 3",
    ] {
        assert!(said.contains(line), "{line} in {said}");
    }
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "iolane.store.load/1");
    assert_eq!(
        (&document["rows"], &document["skipped"]),
        (&1.into(), &5.into())
    );
    assert_eq!(document["method"], "transactions");
    let text = place.good(&[
        "range",
        "s",
        "person",
        "--from",
        "10",
        "--to",
        "14",
        "--columns",
        "name",
    ]);
    assert_eq!(text, "name\nBert\nDora\n");
    place.good(&["check", "s"]);
}

#[test]
fn quotes_that_are_wrong_swallow_no_rows() {
    let place = Place::new();
    place.create("s");
    for (rows, message) in [
        ("1,a\n2,\"b\n3,c\n", "line 3: the quote is not closed"),
        ("1,a\n2,\"b", "line 3: the quote is not closed"),
        ("1,a\n2,\"b\"c\n", "line 3: text behind a closing quote"),
    ] {
        place.write("rows.csv", &format!("id,name\n{rows}"));
        let said = place.bad(&["load", "s", "person", "rows.csv"], 3);
        assert!(said.starts_with(message), "{said}");
        assert!(said.contains("\nNothing was loaded"), "{said}");
        // What follows cannot be told apart, so that none is left out either.
        let skip = ["load", "s", "person", "rows.csv", "--on-error", "skip"];
        let said = place.bad(&skip, 3);
        assert!(said.starts_with(message), "{said}");
        assert!(said.contains("\nLoaded before it: 1 row."), "{said}");
        fs::remove_dir_all(place.path("s")).unwrap();
        place.create("s");
    }
    let said = place.bad(&["range", "s", "person", "--from", "\"1"], 1);
    assert!(said.contains("the quote is not closed"), "{said}");
    let said = place.bad(&["range", "s", "person", "--to", "\"1\"2"], 1);
    assert!(said.contains("text behind a closing quote"), "{said}");
}

#[test]
fn in_bulk_all_rows_get_in_or_none() {
    let place = Place::new();
    place.create("s");
    for (rows, message) in [
        (
            "1,a,1\n2,b,x\n",
            "line 3: column \"weight\": \"x\" is no real",
        ),
        ("1,a,1\n1,b,2\n", "two rows of the input have the same key"),
        ("1,a,1\n2,b,1\n", "there is a row with the same by_weight"),
        (
            "1,\\N,1\n",
            "line 2: column \"name\" holds text, the value is null",
        ),
    ] {
        place.write("rows.csv", &format!("id,name,weight\n{rows}"));
        let said = place.bad(&["load", "s", "person", "rows.csv"], 3);
        assert!(
            said.contains(message) && said.contains("Nothing was loaded"),
            "{said}"
        );
        assert_eq!(
            place.good(&["scan", "s", "person"]),
            "id,name,weight,photo\n"
        );
    }
    // A key that no page takes.
    place.write("rows.csv", &format!("id,name\n1,{}\n", "x".repeat(4000)));
    let said = place.bad(&["load", "s", "person", "rows.csv"], 3);
    assert!(said.starts_with("line 2: "), "{said}");
    let said = place.bad(
        &[
            "load",
            "s",
            "person",
            "rows.csv",
            "--method",
            "bulk",
            "--on-error",
            "skip",
        ],
        1,
    );
    assert!(said.contains("cannot skip"), "{said}");
    place.good(&["check", "s"]);
}

#[test]
fn headers_tables_and_columns_that_are_not_there() {
    let place = Place::new();
    place.people("s");
    place.write("unknown.csv", "id,nme\n1,a\n");
    place.write("twice.csv", "id,name,id\n1,a,2\n");
    place.write("missing.csv", "id\n1\n");
    place.write("empty.csv", "");
    place.write("array.json", "[{\"id\":1,\"name\":\"a\"}]\n");
    for (arguments, message, remedy) in [
        (
            &["load", "s", "person", "unknown.csv"][..],
            "unknown.csv: table \"person\" has no column \"nme\"",
            "id,name,weight,photo",
        ),
        (
            &["load", "s", "person", "twice.csv"],
            "names column \"id\" twice",
            "id,name",
        ),
        (
            &["load", "s", "person", "missing.csv"],
            "does not name column \"name\", which cannot be null",
            "id,name",
        ),
        (
            &["load", "s", "person", "empty.csv"],
            "there is no first line",
            "id,name",
        ),
        (
            &["load", "s", "person", "array.json"],
            "array.json: this is a JSON array",
            "jq -c '.[]'",
        ),
        (
            &["load", "s", "person", "array.json", "--null", "-"],
            "--null is for CSV",
            "--format csv",
        ),
        (
            &["load", "s", "persons"],
            "there is no table \"persons\"",
            "Its tables: person.",
        ),
        (
            &["scan", "s", "persons"],
            "there is no table \"persons\"",
            "Its tables: person.",
        ),
        (
            &["dump", "s", "persons"],
            "there is no table \"persons\"",
            "Its tables: person.",
        ),
        (
            &["scan", "s", "person", "--columns", "id,nme"],
            "has no column \"nme\"",
            "Its columns: id, name",
        ),
        (
            &["create", "t", "--table", "t(a integer)"],
            "it has no primary key",
            "primary key(",
        ),
        (
            &["create", "t", "--table", "t(a text null, primary key(a))"],
            "must not be nullable",
            "primary key(",
        ),
        (
            &["create", "s", "--add"],
            "--add without a table",
            "--table",
        ),
        (
            &["create", "t", "--page-size", "12k"],
            "no power of two",
            "--help",
        ),
        (
            &["create", "t", "--log-size", "64k"],
            "too small for pages",
            "--help",
        ),
        (
            &["create", "t", "--page-size", "64k", "--pool-size", "1m"],
            "too small",
            "--pool-size",
        ),
    ] {
        let said = place.bad(arguments, 1);
        let (cause, help) = said.split_once('\n').unwrap();
        assert!(cause.contains(message), "{arguments:?}: {said}");
        assert!(help.contains(remedy), "{arguments:?}: {said}");
    }
    let said = place.bad(&["load", "s", "person", "nothing.csv"], 2);
    assert!(said.starts_with("cannot read nothing.csv: "), "{said}");
}

/// Interrupts a load, and gives it rows until it has noticed.
fn interrupt(place: &Place, method: &str) -> String {
    place.create(method);
    let mut child = place.loading(method, method);
    let process = child.id().to_string();
    let killed = Command::new("kill").args(["-INT", &process]).status();
    assert!(killed.unwrap().success());
    let mut input = child.stdin.take().unwrap();
    for number in 4.. {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        // It may have ended meanwhile.
        let _ = input.write_all(format!("{number},d\n").as_bytes());
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    place.good(&["check", method]);
    complaint(&output, 3, method)
}

#[test]
fn ctrl_c_keeps_the_rows_before_it_or_none() {
    let place = Place::new();
    let said = interrupt(&place, "transactions");
    assert!(said.starts_with("stopped by Ctrl-C after line "), "{said}");
    let rows = place.good(&["scan", "transactions", "person", "--columns", "id"]);
    let count = rows.lines().count() - 1;
    let all: String = (1..=count).map(|number| format!("{number}\n")).collect();
    assert_eq!(rows, format!("id\n{all}"));
    let kept = format!("\nLoaded before it: {count} row");
    assert!(said.contains(&kept), "{said}: {rows}");
    let said = interrupt(&place, "bulk");
    assert!(
        said.starts_with("stopped by Ctrl-C\nNothing was loaded"),
        "{said}"
    );
    let rows = place.good(&["scan", "bulk", "person", "--columns", "id"]);
    assert_eq!(rows, "id\n");
}

#[test]
fn ctrl_c_is_heard_while_nothing_comes() {
    let place = Place::new();
    place.create("s");
    let mut load = place.command(&["load", "s", "person"]);
    load.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = load.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut line = || said.next().unwrap().unwrap();
    assert_eq!(line(), "loading standard input into person");
    let process = child.id().to_string();
    let interrupt = || {
        let killed = Command::new("kill").args(["-INT", &process]).status();
        assert!(killed.unwrap().success());
    };
    interrupt();
    assert_eq!(
        line(),
        "Ctrl-C: ends when the next bytes of the input come; once more ends it at once"
    );
    assert!(child.try_wait().unwrap().is_none());
    interrupt();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    place.good(&["check", "s"]);
}
