//! On what a result was measured: recorded in every document, because a figure
//! without it cannot be compared with another.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::sys::file::io_uring_refusal;
use crate::system::{DeviceNumber, SystemPaths, mounts, read_line};
use crate::target::Target;

/// The machine, the disk and the command. `None` where the kernel does not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// UTC, RFC 3339.
    pub date: String,
    pub iolane_version: String,
    pub command_line: String,
    pub kernel_release: Option<String>,
    pub cpu_model: Option<String>,
    pub cpu_count: usize,
    pub memory_bytes: Option<u64>,
    pub virtualization: Option<String>,
    /// `available`, or why it is not.
    pub io_uring: String,
    pub filesystem: Option<Filesystem>,
    pub device: Option<DeviceEnvironment>,
    /// I/O limits of the control group, one line each as the kernel writes them.
    pub cgroup_io_limits: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filesystem {
    #[serde(rename = "type")]
    pub kind: String,
    pub mount_point: String,
    pub mount_options: String,
}

/// The whole disk under the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceEnvironment {
    pub name: String,
    pub model: Option<String>,
    pub size_bytes: Option<u64>,
    pub scheduler: Option<String>,
    pub nr_requests: Option<u64>,
    pub rotational: Option<bool>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    pub logical_block_bytes: Option<u64>,
    pub physical_block_bytes: Option<u64>,
    pub direct_memory_alignment_bytes: Option<u32>,
    pub direct_offset_alignment_bytes: Option<u32>,
    /// File behind a loop device.
    pub backing_file: Option<String>,
    /// Disks below a device-mapper or RAID device.
    pub below: Vec<String>,
}

impl Environment {
    /// Reads everything anew. `target` is missing for what touches no disk.
    pub fn read(paths: &SystemPaths, target: Option<&Target>, command_line: String) -> Self {
        Self {
            date: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            iolane_version: env!("IOLANE_VERSION").to_owned(),
            command_line,
            kernel_release: read_line(&paths.proc.join("sys/kernel/osrelease")),
            cpu_model: cpu_model(paths),
            cpu_count: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes(paths),
            virtualization: virtualization(paths),
            io_uring: io_uring(paths),
            filesystem: target
                .filter(|target| target.kind != crate::target::TargetKind::BlockDevice)
                .and_then(|target| filesystem(paths, target.device, &target.path)),
            device: target.and_then(|target| {
                let mut device = device(paths, target.disk.as_deref()?);
                let alignment = target.direct_alignment;
                device.direct_memory_alignment_bytes = alignment.map(|a| a.memory_bytes);
                device.direct_offset_alignment_bytes = alignment.map(|a| a.offset_bytes);
                Some(device)
            }),
            cgroup_io_limits: cgroup_io_limits(paths),
        }
    }
}

/// This process's command line as it can be typed again.
pub fn command_line(arguments: &[std::ffi::OsString]) -> String {
    let quoted: Vec<String> = arguments
        .iter()
        .map(|argument| quote(&argument.to_string_lossy()))
        .collect();
    quoted.join(" ")
}

fn quote(argument: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./,:=+%@".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}

fn cpu_info<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

fn cpu_model(paths: &SystemPaths) -> Option<String> {
    let text = fs::read_to_string(paths.proc.join("cpuinfo")).ok()?;
    // x86 gives a name, aarch64 only numbers of implementer and part.
    if let Some(name) = cpu_info(&text, "model name") {
        return Some(name.to_owned());
    }
    let implementer = cpu_info(&text, "CPU implementer")?;
    let part = cpu_info(&text, "CPU part")?;
    Some(format!("implementer {implementer} part {part}"))
}

fn memory_bytes(paths: &SystemPaths) -> Option<u64> {
    let text = fs::read_to_string(paths.proc.join("meminfo")).ok()?;
    let kibibytes = cpu_info(&text, "MemTotal")?.split_whitespace().next()?;
    kibibytes.parse::<u64>().ok()?.checked_mul(1024)
}

/// What the firmware calls the machine, or that the processor sees a
/// hypervisor. `None` on bare metal.
fn virtualization(paths: &SystemPaths) -> Option<String> {
    let text = fs::read_to_string(paths.proc.join("cpuinfo")).unwrap_or_default();
    let flagged = cpu_info(&text, "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    let hypervisor = read_line(&paths.sys.join("hypervisor/type"));
    if !flagged && hypervisor.is_none() {
        return None;
    }
    let firmware = ["sys_vendor", "product_name"]
        .iter()
        .filter_map(|name| read_line(&paths.sys.join("class/dmi/id").join(name)));
    let names: Vec<String> = hypervisor.into_iter().chain(firmware).collect();
    Some(if names.is_empty() {
        "virtual machine".to_owned()
    } else {
        format!("virtual machine ({})", names.join(" "))
    })
}

fn io_uring(paths: &SystemPaths) -> String {
    match io_uring_refusal() {
        None => "available".to_owned(),
        Some(error) => {
            match read_line(&paths.proc.join("sys/kernel/io_uring_disabled")).as_deref() {
                Some(level @ ("1" | "2")) => {
                    format!("forbidden by kernel.io_uring_disabled = {level}")
                }
                _ => format!("refused by the kernel or a sandbox: {error}"),
            }
        }
    }
}

fn filesystem(paths: &SystemPaths, device: DeviceNumber, path: &Path) -> Option<Filesystem> {
    let path = fs::canonicalize(path).ok()?;
    // The longest mount point above the path; of equal ones the latest, which
    // hides the others. btrfs shows other numbers in stat(2) than here, so the
    // number only breaks ties.
    let mount = mounts(paths)
        .into_iter()
        .filter(|mount| path.starts_with(&mount.mount_point))
        .max_by_key(|mount| {
            (
                mount.mount_point.components().count(),
                mount.device == device,
            )
        })?;
    Some(Filesystem {
        kind: mount.filesystem,
        mount_point: mount.mount_point.display().to_string(),
        mount_options: merged_options(&mount.options, &mount.super_options),
    })
}

fn merged_options(mount: &str, superblock: &str) -> String {
    let mut options: Vec<&str> = Vec::new();
    for option in mount.split(',').chain(superblock.split(',')) {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    options.join(",")
}

/// The description of a whole disk, by its name in `/sys/block`.
pub fn device(paths: &SystemPaths, name: &str) -> DeviceEnvironment {
    let block = paths.block(name);
    let number = |attribute| {
        paths
            .queue(name, attribute)
            .and_then(|text| text.parse().ok())
    };
    let below = fs::read_dir(block.join("slaves"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    DeviceEnvironment {
        name: name.to_owned(),
        model: read_line(&block.join("device/model")),
        size_bytes: read_line(&block.join("size"))
            .and_then(|text| text.parse::<u64>().ok())
            // Always in units of 512 bytes, whatever the block size.
            .and_then(|sectors| sectors.checked_mul(512)),
        scheduler: paths.queue(name, "scheduler").map(|line| in_use(&line)),
        nr_requests: number("nr_requests"),
        rotational: paths.queue(name, "rotational").map(|text| text == "1"),
        write_cache: paths.queue(name, "write_cache"),
        logical_block_bytes: number("logical_block_size"),
        physical_block_bytes: number("physical_block_size"),
        direct_memory_alignment_bytes: None,
        direct_offset_alignment_bytes: None,
        backing_file: read_line(&block.join("loop/backing_file")),
        below,
    }
}

fn in_use(schedulers: &str) -> String {
    let bracketed = schedulers
        .split_whitespace()
        .find(|word| word.starts_with('['))
        .map(|word| word.trim_matches(['[', ']']));
    bracketed.unwrap_or(schedulers).to_owned()
}

/// Limits of the process's control group and those above it: `io.max` of
/// version 2, the throttle files of version 1.
fn cgroup_io_limits(paths: &SystemPaths) -> Vec<String> {
    let text = fs::read_to_string(paths.proc.join("self/cgroup")).unwrap_or_default();
    let root = paths.sys.join("fs/cgroup");
    text.lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            Some((fields.next()?, fields.next()?.trim_start_matches('/')))
        })
        .flat_map(|(controllers, group)| {
            if controllers.is_empty() {
                // Version 2 stands alone, or beside version 1 in "unified".
                [root.clone(), root.join("unified")]
                    .iter()
                    .flat_map(|root| limits_upwards(root, group, &["io.max"]))
                    .collect()
            } else if controllers.split(',').any(|name| name == "blkio") {
                limits_upwards(&root.join("blkio"), group, &V1_LIMITS)
            } else {
                Vec::new()
            }
        })
        .collect()
}

const V1_LIMITS: [&str; 4] = [
    "blkio.throttle.read_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.write_iops_device",
];

fn limits_upwards(root: &Path, group: &str, files: &[&str]) -> Vec<String> {
    Path::new(group)
        .ancestors()
        .flat_map(|group| files.iter().map(move |file| (group, file)))
        .filter_map(|(group, file)| {
            let text = read_line(&root.join(group).join(file))?;
            Some(
                text.lines()
                    .map(|line| format!("{file} {line}"))
                    .collect::<Vec<_>>(),
            )
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_disk_is_described_from_sysfs() {
        let root = tempfile::tempdir().unwrap();
        let paths = SystemPaths::below(root.path());
        let block = paths.block("loop3");
        write(&block.join("size"), "2048\n");
        write(&block.join("loop/backing_file"), "/data/disk.img\n");
        write(&block.join("queue/scheduler"), "none [bfq]\n");
        write(&block.join("queue/nr_requests"), "64\n");
        write(&block.join("queue/rotational"), "0\n");
        write(&block.join("queue/write_cache"), "write back\n");
        write(&block.join("queue/logical_block_size"), "512\n");
        fs::create_dir_all(block.join("slaves/sda")).unwrap();
        let device = device(&paths, "loop3");
        assert_eq!(device.size_bytes, Some(1 << 20));
        assert_eq!(device.backing_file.as_deref(), Some("/data/disk.img"));
        assert_eq!(device.scheduler.as_deref(), Some("bfq"));
        assert_eq!(device.nr_requests, Some(64));
        assert_eq!(device.rotational, Some(false));
        assert_eq!(device.write_cache.as_deref(), Some("write back"));
        assert_eq!(device.logical_block_bytes, Some(512));
        assert_eq!(device.physical_block_bytes, None);
        assert_eq!(device.below, ["sda"]);
    }

    #[test]
    fn control_group_limits_of_both_versions() {
        let root = tempfile::tempdir().unwrap();
        let paths = SystemPaths::below(root.path());
        write(
            &paths.proc.join("self/cgroup"),
            "7:blkio:/a/b\n5:devices:/\n0::/c\n",
        );
        let groups = paths.sys.join("fs/cgroup");
        write(
            &groups.join("blkio/a/blkio.throttle.read_iops_device"),
            "8:0 3000\n",
        );
        write(
            &groups.join("blkio/a/b/blkio.throttle.write_bps_device"),
            "\n",
        );
        write(
            &groups.join("c/io.max"),
            "8:0 rbps=max wbps=max riops=100 wiops=max\n",
        );
        assert_eq!(
            cgroup_io_limits(&paths),
            [
                "blkio.throttle.read_iops_device 8:0 3000",
                "io.max 8:0 rbps=max wbps=max riops=100 wiops=max",
            ]
        );
    }

    #[test]
    fn the_machine_is_read() {
        let environment = Environment::read(&SystemPaths::default(), None, "iolane".to_owned());
        assert!(environment.kernel_release.is_some());
        assert!(environment.memory_bytes.unwrap() > 1 << 20);
        assert!(
            environment.date.parse::<Timestamp>().is_ok(),
            "{}",
            environment.date
        );
        assert!(environment.device.is_none());
    }

    #[test]
    fn command_lines_can_be_typed_again() {
        let arguments = ["iolane", "--file", "a b", "it's", ""].map(Into::into);
        assert_eq!(
            command_line(&arguments),
            "iolane --file 'a b' 'it'\\''s' ''"
        );
    }
}
