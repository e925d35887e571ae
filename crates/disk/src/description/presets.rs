//! Disks by name.

use super::Parameters;
use crate::model::{
    CloudParameters, ConstantParameters, FlashParameters, Raid10Parameters, RotatingParameters,
};

/// A disk that is known by name.
#[derive(Debug)]
#[non_exhaustive]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub description: &'static str,
    /// Where its figures come from.
    pub source: &'static str,
    pub(super) parameters: fn() -> Parameters,
}

pub(super) fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

fn constant_100us() -> ConstantParameters {
    ConstantParameters {
        capacity_bytes: 1 << 40,
        queue_max: 1024,
        latency_ns: 100_000,
    }
}

const ULTRASTAR: &str =
    "IBM's data sheet; zones as DIXtrac read them (Bryant and O'Hallaron, figure 6.14)";
const AWS: &str = "docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html";
const GOOGLE: &str = "cloud.google.com/compute/docs/disks/performance";

pub(super) const PRESETS: &[Preset] = &[
    Preset {
        name: "constant-100us",
        description: "every command takes 100 us, however many are outstanding",
        source: "a yardstick, no disk",
        parameters: || Parameters::Constant(constant_100us()),
    },
    Preset {
        name: "ultrastar-36lzx",
        description: "IBM Ultrastar 36LZX, 18.3 GB, 10,000 rpm, SCSI: the disk of Hall and Bonnet",
        source: ULTRASTAR,
        parameters: || Parameters::Rotating(RotatingParameters::ultrastar_36lzx()),
    },
    Preset {
        name: "ultrastar-36lzx-36gb",
        description: "IBM Ultrastar 36LZX, 36.7 GB: twice the heads on the same cylinders",
        source: ULTRASTAR,
        parameters: || Parameters::Rotating(RotatingParameters::ultrastar_36lzx_36gb()),
    },
    Preset {
        name: "sata-7200",
        description: "Seagate Constellation ES, 2 TB, 7200 rpm, SATA",
        source: "Seagate, product manual 100516232",
        parameters: || Parameters::Rotating(RotatingParameters::sata_7200()),
    },
    Preset {
        name: "percona-4x7200",
        description: "four 7200 rpm SATA disks, RAID 10 by software: Percona's server of 2013",
        source: "Percona, \"Is there room for more MySQL IO optimization?\"; most is assumed",
        parameters: || Parameters::Raid10(Raid10Parameters::percona_4x7200()),
    },
    Preset {
        name: "database-box-8",
        description: "eight 10,000 rpm disks, RAID 10 behind a write-back cache",
        source: "\"I/O schedulers seriously revisited\"; most is assumed",
        parameters: || Parameters::Raid10(Raid10Parameters::database_box_8()),
    },
    Preset {
        name: "bug-68659",
        description: "twelve 7200 rpm disks, RAID 10 behind a write-back cache",
        source: "MySQL bug 68659; disks and controller are inferred from its figures",
        parameters: || Parameters::Raid10(Raid10Parameters::bug_68659()),
    },
    Preset {
        name: "sata-ssd",
        description: "SATA flash for servers: 72,000 / 33,000 random reads / writes per second, 500 MB/s",
        source: "Intel, SSD DC S4500/S4600 Series Product Specification (S4500, 960 GB)",
        parameters: || Parameters::Flash(FlashParameters::sata_ssd()),
    },
    Preset {
        name: "nvme-ssd",
        description: "NVMe flash for servers: 490,000 / 38,000 random reads / writes per second, 3200 MB/s",
        source: "Lenovo, product guide of the Intel P4500 (2 TB, option 4XB7A08539)",
        parameters: || Parameters::Flash(FlashParameters::nvme_ssd()),
    },
    Preset {
        name: "aws-gp3",
        description: "AWS EBS gp3 as it comes: 3000 IOPS, 125 MiB/s",
        source: AWS,
        parameters: || Parameters::Cloud(CloudParameters::aws_gp3()),
    },
    Preset {
        name: "aws-gp3-16000",
        description: "AWS EBS gp3, provisioned: 16,000 IOPS, 1000 MiB/s",
        source: AWS,
        parameters: || Parameters::Cloud(CloudParameters::aws_gp3_16000()),
    },
    Preset {
        name: "aws-gp2-100g",
        description: "AWS EBS gp2 of 100 GiB: 300 IOPS, bursts to 3000 while credits last, 128 MiB/s",
        source: AWS,
        parameters: || Parameters::Cloud(CloudParameters::aws_gp2_100g()),
    },
    Preset {
        name: "aws-io2",
        description: "AWS EBS io2 Block Express: 16,000 IOPS, 4000 MiB/s, below a millisecond",
        source: "docs.aws.amazon.com/ebs/latest/userguide/provisioned-iops.html",
        parameters: || Parameters::Cloud(CloudParameters::aws_io2()),
    },
    Preset {
        name: "gcp-pd-balanced",
        description: "Google balanced persistent disk of 500 GiB: 6000 IOPS, 280 MiB/s",
        source: GOOGLE,
        parameters: || Parameters::Cloud(CloudParameters::gcp_pd_balanced()),
    },
    Preset {
        name: "gcp-pd-ssd",
        description: "Google SSD persistent disk of 500 GiB: 21,000 IOPS, 480 MiB/s",
        source: GOOGLE,
        parameters: || Parameters::Cloud(CloudParameters::gcp_pd_ssd()),
    },
    Preset {
        name: "azure-premium-ssd-p30",
        description: "Azure premium SSD P30, 1 TiB: 5000 IOPS, 200 MB/s",
        source: "learn.microsoft.com/azure/virtual-machines/disks-types",
        parameters: || Parameters::Cloud(CloudParameters::azure_premium_ssd_p30()),
    },
    Preset {
        name: "io-max-3000",
        description: "the kernel's io.max: 3000 reads and 3000 writes a second, 125 MiB/s of each",
        source: "docs.kernel.org/admin-guide/cgroup-v2.html",
        parameters: || Parameters::Cloud(CloudParameters::io_max_3000()),
    },
    Preset {
        name: "cloud-1ms",
        description: "a volume 1 ms away that limits hardly anything",
        source: "made for experiments on latency, no vendor's",
        parameters: || Parameters::Cloud(CloudParameters::cloud_1ms()),
    },
];
