//! Volumes by the limits that their vendors publish.

use super::CloudParameters;

const GIB: u64 = 1 << 30;
/// Million bytes per MiB: vendors' MiB/s in the parameters' unit.
const MIB: f64 = 1.048_576;
/// Commands that a virtual machine's driver keeps outstanding per volume: a
/// usual depth of NVMe and virtio queues.
const QUEUE_MAX: usize = 256;
/// Seconds of the rate that pass at once after a pause. Not published: long
/// enough that a driver's queue is not chopped up, short enough not to count.
const AT_ONCE_SECONDS: f64 = 0.01;

/// Microseconds: median and p99 of reads, of writes.
struct Latency {
    read: (f64, f64),
    write: (f64, f64),
}

/// "Single-digit milliseconds" by the vendors' pages; usual measurements lie
/// below one.
const GENERAL_PURPOSE: Latency = Latency {
    read: (600.0, 2000.0),
    write: (800.0, 2500.0),
};
/// "Sub-millisecond" by the vendors' pages.
const PROVISIONED: Latency = Latency {
    read: (250.0, 600.0),
    write: (300.0, 800.0),
};

/// A volume that does not burst.
fn steady(
    gib: u64,
    iops: f64,
    mb_per_second: f64,
    io_unit_bytes: u32,
    latency: &Latency,
) -> CloudParameters {
    // An I/O of the largest size passes alone at least.
    let iops_at_once = (iops * AT_ONCE_SECONDS).max(1.0);
    let mb_at_once = (mb_per_second * AT_ONCE_SECONDS).max(MIB);
    CloudParameters {
        capacity_bytes: gib * GIB,
        queue_max: QUEUE_MAX,
        iops,
        iops_burst: iops,
        iops_credits: iops_at_once,
        iops_at_once,
        io_unit_bytes,
        each_way: false,
        mb_per_second,
        mb_per_second_burst: mb_per_second,
        mb_credits: mb_at_once,
        mb_at_once,
        read_median_us: latency.read.0,
        read_p99_us: latency.read.1,
        write_median_us: latency.write.0,
        write_p99_us: latency.write.1,
    }
}

impl CloudParameters {
    /// AWS EBS gp3 as it comes: 3000 IOPS, 125 MiB/s, whatever its size
    /// (docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html; the
    /// unit of 256 KiB: ebs-io-characteristics.html there).
    pub fn aws_gp3() -> CloudParameters {
        steady(100, 3000.0, 125.0 * MIB, 256 << 10, &GENERAL_PURPOSE)
    }

    /// AWS EBS gp3 with as much as could long be provisioned: 16,000 IOPS,
    /// 1000 MiB/s (the same page).
    pub fn aws_gp3_16000() -> CloudParameters {
        steady(1000, 16_000.0, 1000.0 * MIB, 256 << 10, &GENERAL_PURPOSE)
    }

    /// AWS EBS gp2 of 100 GiB: 3 IOPS per GiB, bursts to 3000 from a bucket of
    /// 5.4 million credits, 128 MiB/s (the same page).
    pub fn aws_gp2_100g() -> CloudParameters {
        CloudParameters {
            iops_burst: 3000.0,
            iops_credits: 5.4e6,
            iops_at_once: 3000.0 * AT_ONCE_SECONDS,
            ..steady(100, 300.0, 128.0 * MIB, 256 << 10, &GENERAL_PURPOSE)
        }
    }

    /// AWS EBS io2 Block Express, 500 GiB with 16,000 IOPS provisioned:
    /// 0.256 MiB/s for each of them, 4000 at most
    /// (docs.aws.amazon.com/ebs/latest/userguide/provisioned-iops.html).
    pub fn aws_io2() -> CloudParameters {
        steady(500, 16_000.0, 4000.0 * MIB, 256 << 10, &PROVISIONED)
    }

    /// Google balanced persistent disk of 500 GiB: 3000 IOPS and 6 per GiB,
    /// 140 MiB/s and 0.28 per GiB
    /// (cloud.google.com/compute/docs/disks/performance). No accounting unit
    /// is published: large I/Os are limited by their bytes.
    pub fn gcp_pd_balanced() -> CloudParameters {
        steady(500, 6000.0, 280.0 * MIB, 1 << 20, &GENERAL_PURPOSE)
    }

    /// Google SSD persistent disk of 500 GiB: 6000 IOPS and 30 per GiB,
    /// 240 MiB/s and 0.48 per GiB (the same page), on a machine large enough
    /// not to limit it first.
    pub fn gcp_pd_ssd() -> CloudParameters {
        steady(500, 21_000.0, 480.0 * MIB, 1 << 20, &GENERAL_PURPOSE)
    }

    /// Azure premium SSD P30, 1 TiB: 5000 IOPS, 200 MB/s
    /// (learn.microsoft.com/azure/virtual-machines/disks-types; the unit of
    /// 256 KiB: premium-storage-performance there). Its bursting is an option
    /// that costs extra, and off here.
    pub fn azure_premium_ssd_p30() -> CloudParameters {
        steady(1024, 5000.0, 200.0, 256 << 10, &GENERAL_PURPOSE)
    }

    /// A volume of a container or a virtual machine under the kernel's `io.max` with
    /// riops=3000 wiops=3000 rbps=131072000 wbps=131072000: reads and writes have a budget
    /// each (docs.kernel.org/admin-guide/cgroup-v2.html). An I/O of any size is one.
    pub fn io_max_3000() -> CloudParameters {
        CloudParameters {
            each_way: true,
            ..steady(100, 3000.0, 125.0 * MIB, 1 << 30, &PROVISIONED)
        }
    }

    /// A volume 1 ms away that limits hardly anything: for experiments on what
    /// latency alone does. Belongs to no vendor.
    pub fn cloud_1ms() -> CloudParameters {
        let latency = Latency {
            read: (1000.0, 1500.0),
            write: (1000.0, 1500.0),
        };
        CloudParameters {
            queue_max: 1024,
            ..steady(1024, 200_000.0, 4000.0, 256 << 10, &latency)
        }
    }
}
