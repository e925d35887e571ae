use super::super::loops::{command, drain, random, run, run_on, sequential};
use super::*;

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

#[test]
fn the_sata_interface_explains_the_8_kib_figure_too() {
    // The same specification: 48,000 random 8 KiB reads per second.
    let parameters = FlashParameters::sata_ssd();
    let size = parameters.capacity_bytes;
    let mut disk = Flash::new(parameters, 1).unwrap();
    let reads = run(&mut disk, 0, 32, 100_000, random(Kind::Read, size, 8192, 1));
    assert_near("8 KiB reads/s", reads.per_second(), 48_000.0);
}

/// A small disk without chance in it: 4 dies on 2 channels.
fn small() -> FlashParameters {
    FlashParameters {
        capacity_bytes: 64 << 20,
        queue_max: 64,
        channels: 2,
        dies_per_channel: 2,
        page_bytes: 16 << 10,
        program_bytes: 16 << 10,
        erase_block_bytes: 1 << 30,
        read_us: 50.0,
        read_spread: 0.0,
        program_us: 1000.0,
        erase_us: 5000.0,
        suspend_us: 0.0,
        suspends_max: 0,
        channel_mb_per_second: 1000.0,
        interface_mb_per_second: 1000.0,
        interface_duplex: true,
        command_us: 1.0,
        read_overhead_us: 5.0,
        buffered_write_us: 10.0,
        buffer_bytes: 256 << 10,
        power_loss_protected: true,
        over_provisioning: 0.25,
        utilisation: 0.0,
        aged: false,
    }
}

fn ends_of(disk: &mut Flash) -> Vec<Done> {
    let mut done = Vec::new();
    while let Some(event_ns) = disk.next_event_ns() {
        disk.advance(event_ns, &mut done);
    }
    done
}

#[test]
fn pages_of_one_read_come_from_different_dies_at_the_same_time() {
    let mut disk = Flash::new(small(), 1).unwrap();
    disk.submit(0, command(Kind::Read, 0, 64 << 10));
    // One cell read for all four; then 64 KiB over the interface and one
    // command; then the overhead.
    let least_ns = 50_000 + 65_536 + 1000 + 5000;
    let done = ends_of(&mut disk);
    assert!(done[0].at_ns.abs_diff(least_ns) < 10, "{done:?}");
}

#[test]
fn a_read_of_a_busy_die_waits_for_its_turn() {
    let mut disk = Flash::new(small(), 1).unwrap();
    disk.submit(
        0,
        Command {
            tag: 0,
            ..command(Kind::Read, 0, 4096)
        },
    );
    disk.submit(
        0,
        Command {
            tag: 1,
            ..command(Kind::Read, 8192, 4096)
        },
    );
    let done = ends_of(&mut disk);
    assert_eq!(done[1].at_ns - done[0].at_ns, 50_000);
}

#[test]
fn writes_go_at_the_buffers_speed_until_it_is_full_then_at_the_dies() {
    let mut disk = Flash::new(small(), 1).unwrap();
    let size = small().capacity_bytes;
    let writes = run(&mut disk, 0, 1, 600, sequential(Kind::Write, size, 4096));
    let first = &writes.latencies_ns[..50];
    assert!(
        first
            .iter()
            .all(|&ns| ns.abs_diff(10_000 + 4096 + 1000) < 10),
        "{first:?}"
    );
    // Four dies program 16 KiB a millisecond each.
    let rate = 4.0 * 16.384;
    let later = &writes.latencies_ns[300..];
    let is = later.len() as f64 * 4096.0 * 1e3 / later.iter().sum::<u64>() as f64;
    assert!((is / rate - 1.0).abs() < 0.05, "{is} MB/s for {rate}");
}

#[test]
fn a_flush_waits_only_without_protection() {
    for (power_loss_protected, waits) in [(true, false), (false, true)] {
        let parameters = FlashParameters {
            power_loss_protected,
            ..small()
        };
        let mut disk = Flash::new(parameters, 1).unwrap();
        disk.submit(
            0,
            Command {
                tag: 0,
                ..command(Kind::Write, 0, 4096)
            },
        );
        let mut done = Vec::new();
        disk.advance(100_000, &mut done);
        assert_eq!(done.len(), 1, "the write is buffered");
        disk.submit(
            100_000,
            Command {
                tag: 1,
                ..command(Kind::Flush, 0, 0)
            },
        );
        let flushed = ends_of(&mut disk)[0];
        assert_eq!(flushed.tag, 1);
        assert_eq!(flushed.at_ns > 1_100_000, waits, "{flushed:?}");
        // With nothing left in the buffer no flush waits.
        disk.submit(
            9_000_000,
            Command {
                tag: 2,
                ..command(Kind::Flush, 0, 0)
            },
        );
        assert_eq!(ends_of(&mut disk)[0].at_ns, 9_000_000 + 1000 + 10_000);
    }
}

#[test]
fn a_durable_write_waits_for_the_flash_without_protection() {
    for (power_loss_protected, least_ns) in [(true, 0), (false, 1_000_000)] {
        let parameters = FlashParameters {
            power_loss_protected,
            ..small()
        };
        let mut disk = Flash::new(parameters, 1).unwrap();
        let durable = Command {
            durable: true,
            ..command(Kind::Write, 0, 4096)
        };
        disk.submit(0, durable);
        let done = ends_of(&mut disk)[0];
        assert!(
            (least_ns..least_ns + 20_000).contains(&done.at_ns),
            "{done:?}"
        );
    }
}

#[test]
fn a_write_larger_than_the_buffer_ends() {
    let mut disk = Flash::new(small(), 1).unwrap();
    disk.submit(0, command(Kind::Write, 0, 1 << 20));
    let done = ends_of(&mut disk);
    // 64 units over four dies, of which the last 16 stay in the buffer.
    assert_eq!(done.len(), 1);
    assert!(
        (12_000_000..14_000_000).contains(&done[0].at_ns),
        "{done:?}"
    );
}

#[test]
fn reads_beside_writes_meet_programs_and_erases() {
    let size = small().capacity_bytes;
    let mixed = |suspends_max| {
        let parameters = FlashParameters {
            erase_block_bytes: 1 << 20,
            utilisation: 1.0,
            aged: true,
            suspends_max,
            ..small()
        };
        let mut disk = Flash::new(parameters, 1).unwrap();
        let mut writes = random(Kind::Write, size, 4096, 1);
        let mut reads = random(Kind::Read, size, 4096, 2);
        let mut count = 0;
        let mut run = run(&mut disk, 0, 8, 20_000, move || {
            count += 1;
            if count % 2 == 0 { writes() } else { reads() }
        });
        run.latencies_ns.drain(..1000);
        run
    };
    let mut waiting = mixed(0);
    let mut suspending = mixed(8);
    // An erase takes 5 ms: a pause that some reads meet where they must wait.
    assert!(waiting.quantile_us(0.999) > 4000.0);
    assert!(suspending.quantile_us(0.3) < waiting.quantile_us(0.3));
    let mut idle = Flash::new(small(), 1).unwrap();
    let mut alone = run(&mut idle, 0, 8, 20_000, random(Kind::Read, size, 4096, 2));
    assert!(alone.quantile_us(0.999) < 1000.0);
}

#[test]
fn the_same_seed_gives_the_same_completions() {
    let trace = |seed| {
        let parameters = FlashParameters::sata_ssd();
        let size = parameters.capacity_bytes;
        let mut disk = Flash::new(parameters, seed).unwrap();
        run(&mut disk, 0, 32, 20_000, random(Kind::Read, size, 4096, 9)).latencies_ns
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
fn a_host_that_looks_late_sees_the_same_times() {
    let fill = |disk: &mut Flash| {
        let mut reads = random(Kind::Read, small().capacity_bytes, 32 << 10, 1);
        let mut writes = random(Kind::Write, small().capacity_bytes, 32 << 10, 2);
        for tag in 0..64 {
            let command = if tag % 3 == 0 { reads() } else { writes() };
            disk.submit(u64::from(tag) * 100, Command { tag, ..command });
        }
    };
    let disk = || {
        let parameters = FlashParameters {
            suspends_max: 2,
            suspend_us: 10.0,
            ..small()
        };
        Flash::new(parameters, 1).unwrap()
    };
    let (mut punctual, mut late) = (disk(), disk());
    fill(&mut punctual);
    fill(&mut late);
    let mut done = Vec::new();
    late.advance(1_000_000_000, &mut done);
    assert_eq!(done.len(), 64);
    assert!(done.is_sorted_by_key(|done| done.at_ns));
    assert_eq!(done, ends_of(&mut punctual));
}

#[test]
fn a_disk_comes_to_rest_whatever_was_asked_of_it() {
    let parameters = FlashParameters {
        utilisation: 1.0,
        aged: true,
        power_loss_protected: false,
        erase_block_bytes: 1 << 20,
        suspends_max: 3,
        ..small()
    };
    let size = parameters.capacity_bytes;
    let mut chance = Seeded::new(11);
    let mut disk = Flash::new(parameters, 1).unwrap();
    let mixed = run(&mut disk, 0, 64, 50_000, || match chance.below(20) {
        0 => command(Kind::Flush, 0, 0),
        kind => {
            let length = 512 * (1 + chance.below(400));
            let offset = 512 * chance.below((size - length) / 512);
            let kind = if kind % 2 == 0 {
                Kind::Read
            } else {
                Kind::Write
            };
            Command {
                durable: kind == Kind::Write && chance.below(10) == 0,
                ..command(kind, offset, length as u32)
            }
        }
    });
    drain(&mut disk, mixed.elapsed_ns);
    assert_eq!(disk.outstanding, 0);
    assert_eq!(disk.idle.len(), disk.dies.len());
    assert!(!disk.buffer.has_unit());
}

#[test]
fn impossible_disks_are_refused_by_the_name_of_the_parameter() {
    let refused = |change: fn(&mut FlashParameters)| {
        let mut parameters = small();
        change(&mut parameters);
        Flash::new(parameters, 1)
            .err()
            .expect("must be refused")
            .parameter
    };
    assert_eq!(refused(|p| p.capacity_bytes = 100), "capacity_bytes");
    assert_eq!(refused(|p| p.queue_max = 0), "queue_max");
    assert_eq!(refused(|p| p.queue_max = 1 << 20), "queue_max");
    assert_eq!(refused(|p| p.channels = 0), "channels");
    assert_eq!(
        refused(|p| p.dies_per_channel = u32::MAX),
        "dies_per_channel"
    );
    assert_eq!(refused(|p| p.page_bytes = 1000), "page_bytes");
    assert_eq!(refused(|p| p.program_bytes = 0), "program_bytes");
    assert_eq!(refused(|p| p.erase_block_bytes = 5), "erase_block_bytes");
    assert_eq!(refused(|p| p.buffer_bytes = 0), "buffer_bytes");
    assert_eq!(refused(|p| p.read_us = -1.0), "read_us");
    assert_eq!(refused(|p| p.program_us = 0.0), "program_us");
    assert_eq!(refused(|p| p.erase_us = f64::INFINITY), "erase_us");
    assert_eq!(refused(|p| p.command_us = f64::NAN), "command_us");
    assert_eq!(refused(|p| p.read_spread = 1.5), "read_spread");
    assert_eq!(
        refused(|p| p.interface_mb_per_second = 0.0),
        "interface_mb_per_second"
    );
    assert_eq!(refused(|p| p.over_provisioning = 0.0), "over_provisioning");
    assert_eq!(refused(|p| p.utilisation = 1.1), "utilisation");
}
