//! A volume with a limit on its requests, as clouds sell them: a loop device
//! under the kernel's throttle.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use iolane_testing::{LoopDevice, ReadLimit, skipped};
use serde_json::Value;

const VOLUME_BYTES: u64 = 1 << 30;
const READS_PER_SECOND: u64 = 3000;
/// How far the learned limit may be from the real one.
const LEARNED_TOLERANCE: f64 = 0.03;
/// A machine or a disk that does less than this of it hides the limit.
const REACHED_MIN: f64 = 0.97;
const ATTEMPTS_MAX: usize = 8;
/// So many of them, if it was not reached once.
const ATTEMPTS_HIDDEN_MAX: usize = 3;

/// The child starts under the limit: it waits for a line before it becomes the
/// program, and by then it is in the group.
fn iolane_in(limit: &ReadLimit, arguments: &str) -> Output {
    let mut child: Child = Command::new("sh")
        .args(["-c", "read -r go && exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_iolane"))
        .args(arguments.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    limit.add(&child).unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"go\n").unwrap();
    child.wait_with_output().unwrap()
}

fn p99_ns(run: &Value) -> f64 {
    run["foreground"]["latency_ns"]["p99"].as_f64().unwrap()
}

#[test]
fn the_limit_is_learned_and_the_foreground_stays_below_it() {
    let device = match LoopDevice::new(Path::new("/var/tmp"), VOLUME_BYTES) {
        Ok(device) => device,
        Err(why) => return skipped(why),
    };
    let numbers = device.numbers().unwrap();
    let limit = match ReadLimit::new(&numbers, READS_PER_SECOND) {
        Ok(limit) => limit,
        Err(why) => return skipped(why),
    };
    let line = format!(
        "bench mix --file {} --foreground-rate 500/s --background-depth 128 --policies noop,lanes \
         --warm-up 3s --runtime 4s --output-format json",
        device.path().display()
    );
    // A machine that stalls, or a disk that is busy otherwise and does less than
    // the limit, hides it for that time. A limit that is not learned is missed
    // every time.
    let mut missed = Vec::new();
    let mut reached = 0;
    for attempt in 1..=ATTEMPTS_MAX {
        let output = iolane_in(&limit, &line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let document = serde_json::from_slice(&output.stdout).unwrap();
        match judge(&document) {
            Ok(()) => return,
            Err(why) => missed.push(why),
        }
        reached += u32::from(total(&document["runs"][0]) >= READS_PER_SECOND as f64 * REACHED_MIN);
        if attempt == ATTEMPTS_HIDDEN_MAX && reached == 0 {
            break;
        }
    }
    if reached == 0 {
        return skipped(format!("the limit is never reached: {missed:?}"));
    }
    panic!("{missed:#?}");
}

fn total(run: &Value) -> f64 {
    run["total_operations_per_second"].as_f64().unwrap()
}

/// Why these runs do not show that the limit was learned, if they do not.
fn judge(document: &Value) -> Result<(), String> {
    let [noop, lanes] = [0, 1].map(|run| &document["runs"][run]);
    assert_eq!(
        (&noop["policy"], &lanes["policy"]),
        (&"noop".into(), &"lanes".into())
    );
    for run in [noop, lanes] {
        let total = total(run);
        // The throttle works in slices, which may end inside the measured time.
        assert!(total < READS_PER_SECOND as f64 * 1.1, "no limit: {total}");
    }
    let learned = &lanes["learned"][0]["rate_limit"];
    let per_second = learned["per_second"].as_f64().unwrap_or(0.0);
    let off = (per_second / READS_PER_SECOND as f64 - 1.0).abs();
    if learned["unit"] != "requests" || off > LEARNED_TOLERANCE {
        return Err(format!("learned {}", lanes["learned"]));
    }
    let [without, with] = [noop, lanes].map(p99_ns);
    if with >= without {
        return Err(format!("p99 {with} ns against {without} ns"));
    }
    Ok(())
}
