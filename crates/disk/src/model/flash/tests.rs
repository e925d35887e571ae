use super::super::seeded::Seeded;
use super::*;

/// What a run of commands took.
struct Run {
    elapsed_ns: u64,
    commands: u64,
    bytes: u64,
    latencies_ns: Vec<u64>,
}

impl Run {
    fn per_second(&self) -> f64 {
        self.commands as f64 * 1e9 / self.elapsed_ns as f64
    }

    fn mb_per_second(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.elapsed_ns as f64
    }

    fn mean_us(&self) -> f64 {
        self.latencies_ns.iter().sum::<u64>() as f64 / self.latencies_ns.len() as f64 / 1e3
    }

    fn quantile_us(&mut self, share: f64) -> f64 {
        self.latencies_ns.sort_unstable();
        let index = (self.latencies_ns.len() as f64 * share) as usize;
        self.latencies_ns[index] as f64 / 1e3
    }
}

/// Keeps `depth` commands outstanding until `commands` have ended.
fn run(
    disk: &mut Flash,
    start_ns: u64,
    depth: u32,
    commands: u64,
    mut next: impl FnMut() -> Command,
) -> Run {
    let mut submitted_ns = vec![0; depth as usize];
    let mut result = Run {
        elapsed_ns: 0,
        commands: 0,
        bytes: 0,
        latencies_ns: Vec::new(),
    };
    let mut now_ns = start_ns;
    for tag in 0..depth {
        disk.submit(now_ns, Command { tag, ..next() });
        submitted_ns[tag as usize] = now_ns;
    }
    let mut done = Vec::new();
    while result.commands < commands {
        let event_ns = disk.next_event_ns().expect("commands are outstanding");
        assert!(event_ns >= now_ns);
        now_ns = event_ns;
        disk.advance(now_ns, &mut done);
        for ended in done.drain(..) {
            assert_eq!(ended.at_ns, now_ns, "the disk calls in time for each end");
            result.commands += 1;
            let slot = ended.tag as usize;
            result.latencies_ns.push(ended.at_ns - submitted_ns[slot]);
            let command = Command {
                tag: ended.tag,
                ..next()
            };
            result.bytes += u64::from(command.length);
            submitted_ns[slot] = now_ns;
            disk.submit(now_ns, command);
        }
    }
    result.elapsed_ns = now_ns - start_ns;
    result
}

fn command(kind: Kind, offset: u64, length: u32) -> Command {
    Command {
        tag: 0,
        kind,
        offset,
        length,
        durable: false,
    }
}

fn random(kind: Kind, capacity_bytes: u64, length: u32, seed: u64) -> impl FnMut() -> Command {
    let mut chance = Seeded::new(seed);
    let places = capacity_bytes / u64::from(length);
    move || command(kind, chance.below(places) * u64::from(length), length)
}

fn sequential(kind: Kind, capacity_bytes: u64, length: u32) -> impl FnMut() -> Command {
    let mut at = 0;
    move || {
        if at + u64::from(length) > capacity_bytes {
            at = 0;
        }
        at += u64::from(length);
        command(kind, at - u64::from(length), length)
    }
}

/// The figures of a data sheet.
struct Sheet {
    depth: u32,
    reads_per_second: f64,
    read_us: f64,
    write_us: f64,
    read_mb_per_second: f64,
    write_mb_per_second: f64,
    writes_per_second: f64,
}

fn assert_near(what: &str, is: f64, sheet: f64) {
    println!(
        "{what}: {is:.1}, data sheet {sheet}: {:+.1} %",
        (is / sheet - 1.0) * 100.0
    );
    assert!(
        (is / sheet - 1.0).abs() < 0.1,
        "{what}: {is}, data sheet {sheet}"
    );
}

fn assert_sheet(parameters: &FlashParameters, sheet: &Sheet) {
    let size = parameters.capacity_bytes;
    let disk = || Flash::new(parameters.clone(), 1).unwrap();
    let reads = run(
        &mut disk(),
        0,
        sheet.depth,
        300_000,
        random(Kind::Read, size, 4096, 1),
    );
    assert_near("random reads/s", reads.per_second(), sheet.reads_per_second);
    let reads = run(&mut disk(), 0, 1, 10_000, random(Kind::Read, size, 4096, 2));
    assert_near("read at depth 1, us", reads.mean_us(), sheet.read_us);
    let writes = run(&mut disk(), 0, 1, 1_000, random(Kind::Write, size, 4096, 2));
    assert_near("write at depth 1, us", writes.mean_us(), sheet.write_us);
    let reads = run(
        &mut disk(),
        0,
        32,
        20_000,
        sequential(Kind::Read, size, 128 << 10),
    );
    assert_near(
        "sequential reads, MB/s",
        reads.mb_per_second(),
        sheet.read_mb_per_second,
    );
    // Data sheets measure sequential writes after the disk was filled in
    // sequence.
    let new = FlashParameters {
        aged: false,
        ..parameters.clone()
    };
    let mut disk_written_once = Flash::new(new, 1).unwrap();
    let writes = run(
        &mut disk_written_once,
        0,
        32,
        50_000,
        sequential(Kind::Write, size, 128 << 10),
    );
    assert_near(
        "sequential writes, MB/s",
        writes.mb_per_second(),
        sheet.write_mb_per_second,
    );
    let mut aged = disk();
    let until = run(
        &mut aged,
        0,
        sheet.depth,
        500_000,
        random(Kind::Write, size, 4096, 4),
    );
    let writes = run_on(
        &mut aged,
        until.elapsed_ns,
        sheet.depth,
        3_000_000,
        random(Kind::Write, size, 4096, 5),
    );
    assert_near(
        "sustained random writes/s",
        writes.per_second(),
        sheet.writes_per_second,
    );
}

/// Ends what is outstanding, then runs on.
fn run_on(
    disk: &mut Flash,
    from_ns: u64,
    depth: u32,
    commands: u64,
    next: impl FnMut() -> Command,
) -> Run {
    let now_ns = drain(disk, from_ns);
    run(disk, now_ns, depth, commands, next)
}

fn drain(disk: &mut Flash, from_ns: u64) -> u64 {
    let mut done = Vec::new();
    let mut now_ns = from_ns;
    while let Some(event_ns) = disk.next_event_ns() {
        now_ns = event_ns;
        disk.advance(now_ns, &mut done);
    }
    now_ns
}

#[test]
fn the_sata_preset_has_the_figures_of_its_data_sheet() {
    assert_sheet(
        &FlashParameters::sata_ssd(),
        &Sheet {
            depth: 32,
            reads_per_second: 72_000.0,
            read_us: 110.0,
            write_us: 52.0,
            read_mb_per_second: 500.0,
            write_mb_per_second: 490.0,
            writes_per_second: 33_000.0,
        },
    );
}

#[test]
fn the_nvme_preset_has_the_figures_of_its_data_sheet() {
    assert_sheet(
        &FlashParameters::nvme_ssd(),
        &Sheet {
            depth: 256,
            reads_per_second: 490_000.0,
            read_us: 85.0,
            write_us: 20.0,
            read_mb_per_second: 3200.0,
            write_mb_per_second: 1050.0,
            writes_per_second: 38_000.0,
        },
    );
}
