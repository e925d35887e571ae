use super::super::loops::{command, random, run, sequential};
use super::*;

fn assert_within(what: &str, is: f64, should: f64, share: f64) {
    assert!(
        (is / should - 1.0).abs() < share,
        "{what}: {is}, should be {should}"
    );
}

fn presets() -> [CloudParameters; 7] {
    [
        CloudParameters::aws_gp3(),
        CloudParameters::aws_gp3_16000(),
        CloudParameters::aws_io2(),
        CloudParameters::gcp_pd_balanced(),
        CloudParameters::gcp_pd_ssd(),
        CloudParameters::azure_premium_ssd_p30(),
        CloudParameters::cloud_1ms(),
    ]
}

#[test]
fn the_sustained_rate_is_the_limit() {
    for parameters in presets() {
        let size = parameters.capacity_bytes;
        let (iops, mb) = (parameters.iops, parameters.mb_per_second);
        let depth = parameters.queue_max as u32;
        let mut volume = Cloud::new(parameters.clone(), 1).unwrap();
        let small = run(
            &mut volume,
            0,
            depth,
            200_000,
            random(Kind::Read, size, 4096, 1),
        );
        assert_within("I/Os per second", small.per_second(), iops, 0.01);
        let unit = parameters.io_unit_bytes;
        let mut volume = Cloud::new(parameters, 1).unwrap();
        let large = run(
            &mut volume,
            0,
            depth,
            100_000,
            sequential(Kind::Write, size, unit),
        );
        assert_within("MB/s", large.mb_per_second(), mb, 0.01);
    }
}

/// Reads and writes in turn.
#[test]
fn each_way_has_the_limit_or_both_share_it() {
    for (each_way, expected) in [(false, 3000.0), (true, 6000.0)] {
        let parameters = CloudParameters {
            each_way,
            ..CloudParameters::io_max_3000()
        };
        let size = parameters.capacity_bytes;
        let mut volume = Cloud::new(parameters.clone(), 1).unwrap();
        let mut reads = random(Kind::Read, size, 4096, 1);
        let mut kinds = [Kind::Read, Kind::Write].into_iter().cycle();
        let both = run(&mut volume, 0, 64, 60_000, || Command {
            kind: kinds.next().unwrap(),
            ..reads()
        });
        assert_within("both ways", both.per_second(), expected, 0.01);
        let mut volume = Cloud::new(parameters, 1).unwrap();
        let reads = random(Kind::Read, size, 4096, 1);
        let alone = run(&mut volume, 0, 64, 60_000, reads);
        assert_within("reads alone", alone.per_second(), 3000.0, 0.01);
    }
}

#[test]
fn an_io_larger_than_the_unit_counts_as_several() {
    let parameters = CloudParameters {
        mb_per_second: 1e6,
        mb_per_second_burst: 1e6,
        ..CloudParameters::aws_gp3()
    };
    let size = parameters.capacity_bytes;
    let mut volume = Cloud::new(parameters, 1).unwrap();
    let large = run(
        &mut volume,
        0,
        64,
        20_000,
        sequential(Kind::Read, size, 260 << 10),
    );
    assert_within("I/Os of 260 KiB", large.per_second(), 1500.0, 0.01);
}

#[test]
fn a_burst_lasts_as_long_as_its_credits() {
    let parameters = CloudParameters::aws_gp2_100g();
    let size = parameters.capacity_bytes;
    let (burst, base) = (parameters.iops_burst, parameters.iops);
    // 5.4 million credits, used up at 2700 per second: 2000 seconds.
    let burst_ns = parameters.iops_credits / (burst - base) * 1e9;
    assert_eq!(burst_ns, 2e12);
    let commands = (burst * burst_ns / 1e9) as u64;
    let mut volume = Cloud::new(parameters, 1).unwrap();
    let all = run(
        &mut volume,
        0,
        32,
        commands + 30_000,
        random(Kind::Read, size, 4096, 1),
    );
    // 30,000 I/Os more take 100 s at the base.
    let expected_ns = burst_ns + 30_000.0 / base * 1e9;
    assert_within("the whole run", all.elapsed_ns as f64, expected_ns, 0.001);
    let late = &all.latencies_ns[all.latencies_ns.len() - 10_000..];
    let mean_ns = late.iter().sum::<u64>() as f64 / late.len() as f64;
    assert_within(
        "32 outstanding at the base",
        mean_ns,
        32.0 / base * 1e9,
        0.01,
    );
    let early = &all.latencies_ns[100_000..110_000];
    let mean_ns = early.iter().sum::<u64>() as f64 / early.len() as f64;
    assert_within(
        "32 outstanding in the burst",
        mean_ns,
        32.0 / burst * 1e9,
        0.01,
    );
}

#[test]
fn below_the_limit_latency_has_the_stated_median_and_p99() {
    let parameters = CloudParameters::aws_gp3();
    let size = parameters.capacity_bytes;
    for (kind, median_us, p99_us) in [
        (
            Kind::Read,
            parameters.read_median_us,
            parameters.read_p99_us,
        ),
        (
            Kind::Write,
            parameters.write_median_us,
            parameters.write_p99_us,
        ),
    ] {
        let mut volume = Cloud::new(parameters.clone(), 1).unwrap();
        // One outstanding: 1500 or fewer of 3000 I/Os per second.
        let mut alone = run(&mut volume, 0, 1, 100_000, random(kind, size, 4096, 1));
        assert_within("median", alone.quantile_us(0.5), median_us, 0.02);
        assert_within("p99", alone.quantile_us(0.99), p99_us, 0.05);
    }
}

#[test]
fn over_the_limit_latency_is_the_backlog_over_the_rate() {
    for depth in [16, 64, 256] {
        let parameters = CloudParameters::aws_gp3();
        let size = parameters.capacity_bytes;
        let mut volume = Cloud::new(parameters, 1).unwrap();
        let mut full = run(
            &mut volume,
            0,
            depth,
            50_000,
            random(Kind::Read, size, 4096, 1),
        );
        full.latencies_ns.drain(..2000);
        let expected_us = f64::from(depth) / 3000.0 * 1e6;
        assert_within("mean", full.mean_us(), expected_us, 0.01);
        // The limiter is a queue with a fixed time for each: what varies is the
        // network's part alone, the smaller the longer the queue.
        assert_within("p99", full.quantile_us(0.99), expected_us + 1500.0, 0.4);
    }
}

#[test]
fn an_open_load_over_the_limit_grows_the_queue_by_what_is_over() {
    let parameters = CloudParameters {
        queue_max: 20_000,
        ..CloudParameters::aws_gp3()
    };
    let mut volume = Cloud::new(parameters, 1).unwrap();
    let mut done = Vec::new();
    let mut ended = 0;
    // 4000 per second for two seconds, at a limit of 3000.
    let commands = 8000u32;
    for tag in 0..commands {
        let now_ns = u64::from(tag) * 250_000;
        volume.advance(now_ns, &mut done);
        ended += done.drain(..).count();
        volume.submit(
            now_ns,
            Command {
                tag,
                ..command(Kind::Read, 0, 4096)
            },
        );
    }
    // The bucket's 30 and those within the network's 0.7 ms do not wait.
    let left = commands as usize - ended;
    assert!((1950..2050).contains(&left), "{left}");
}

#[test]
fn commands_pass_in_order_but_may_end_out_of_it() {
    let mut volume = Cloud::new(CloudParameters::aws_gp3(), 1).unwrap();
    let mut done = Vec::new();
    for tag in 0..100 {
        volume.submit(
            0,
            Command {
                tag,
                ..command(Kind::Write, 0, 4096)
            },
        );
    }
    while let Some(event_ns) = volume.next_event_ns() {
        volume.advance(event_ns, &mut done);
    }
    assert!(done.is_sorted_by_key(|done| done.at_ns));
    assert!(!done.is_sorted_by_key(|done| done.tag));
    assert_eq!(done.len(), 100);
}

#[test]
fn a_flush_ends_at_once_and_counts_against_no_limit() {
    let mut volume = Cloud::new(CloudParameters::aws_gp3(), 1).unwrap();
    let mut done = Vec::new();
    for tag in 0..200 {
        volume.submit(
            5,
            Command {
                tag,
                ..command(Kind::Flush, 0, 0)
            },
        );
    }
    volume.advance(5, &mut done);
    assert_eq!(done.len(), 200);
    volume.submit(5, command(Kind::Read, 0, 4096));
    let event_ns = volume.next_event_ns().unwrap();
    assert!(event_ns < 5_000_000, "no limit was used up: {event_ns}");
}

#[test]
fn the_same_seed_gives_the_same_completions() {
    let trace = |seed| {
        let parameters = CloudParameters::gcp_pd_ssd();
        let size = parameters.capacity_bytes;
        let mut volume = Cloud::new(parameters, seed).unwrap();
        run(&mut volume, 0, 8, 5000, random(Kind::Read, size, 4096, 9)).latencies_ns
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
fn impossible_volumes_are_refused_by_the_name_of_the_parameter() {
    let refused = |change: fn(&mut CloudParameters)| {
        let mut parameters = CloudParameters::aws_gp3();
        change(&mut parameters);
        Cloud::new(parameters, 1)
            .err()
            .expect("must be refused")
            .parameter
    };
    assert_eq!(refused(|p| p.capacity_bytes = 0), "capacity_bytes");
    assert_eq!(refused(|p| p.queue_max = 0), "queue_max");
    assert_eq!(refused(|p| p.iops = 0.0), "iops");
    assert_eq!(refused(|p| p.iops = f64::NAN), "iops");
    assert_eq!(refused(|p| p.iops_burst = 100.0), "iops_burst");
    assert_eq!(
        refused(|p| p.mb_per_second_burst = f64::NAN),
        "mb_per_second_burst"
    );
    assert_eq!(refused(|p| p.io_unit_bytes = 0), "io_unit_bytes");
    assert_eq!(refused(|p| p.mb_credits = -1.0), "mb_credits");
    assert_eq!(refused(|p| p.read_median_us = 0.0), "read_median_us");
    assert_eq!(refused(|p| p.read_p99_us = 1.0), "read_p99_us");
    assert_eq!(refused(|p| p.write_p99_us = f64::NAN), "write_p99_us");
}
