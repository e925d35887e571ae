//! What a flash disk is described by.

use serde::{Deserialize, Serialize};

use super::super::ParameterError;
use super::super::check;

/// Smallest capacity for which the sample of pages in
/// [`super::mapping`] says something.
const CAPACITY_BYTES_MIN: u64 = 16 << 20;
/// Flash keeps track of pieces of this size, whatever a host writes.
pub(super) const MAPPED_BYTES: u64 = 4096;
/// Most dies: one number of a die goes with every event.
const DIES_MAX: u32 = 4096;
/// Most commands: what the NVMe specification allows in a queue.
const QUEUE_MAX: usize = 65_536;

/// Parameters of [`Flash`](super::Flash).
///
/// Data sheets tell how a drive looks from outside, not what is in it. In a
/// preset the outer figures are the data sheet's; the inner ones are typical
/// of the generation of flash, and chosen within that so that the outer ones
/// come out.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FlashParameters {
    /// Bytes that the host sees. Source: data sheet.
    pub capacity_bytes: u64,
    /// Commands that it takes at once: 32 with SATA's native command queueing,
    /// 1024 is a usual NVMe queue. Source: the interface's specification.
    pub queue_max: usize,

    /// Buses to which the dies are attached. Source: photographs of the board,
    /// controller's brief.
    pub channels: u32,
    /// Dies on each channel; a die works at one thing at a time.
    pub dies_per_channel: u32,
    /// Bytes of one flash page: read in one go, and the piece in which the
    /// logical space is striped over the dies. Source: flash data sheet,
    /// 16 KiB for 3D NAND.
    pub page_bytes: u32,
    /// Bytes that a die programs in one go: a page in each of its planes.
    pub program_bytes: u32,
    /// Bytes that a die erases in one go: a block in each of its planes.
    pub erase_block_bytes: u64,
    /// Microseconds until a page is read from the cells (tR).
    pub read_us: f64,
    /// How much `read_us` varies, up and down, as a share of it: the bits of a
    /// cell take differently long. 0 to 1.
    pub read_spread: f64,
    /// Microseconds to program `program_bytes` (tPROG).
    pub program_us: f64,
    /// Microseconds to erase a block (tBERS).
    pub erase_us: f64,
    /// Microseconds until a program or erase that a read meets has stepped
    /// aside.
    pub suspend_us: f64,
    /// Reads that one program or erase lets go first; with 0 they wait until
    /// it has ended.
    pub suspends_max: u32,
    /// Million bytes per second on one channel. Source: ONFI or Toggle mode of
    /// the generation.
    pub channel_mb_per_second: f64,

    /// Million bytes per second between host and disk, each way. Source: data
    /// sheet's sequential bandwidth.
    pub interface_mb_per_second: f64,
    /// Whether both directions go at once: PCI Express does, SATA does not.
    pub interface_duplex: bool,
    /// Microseconds of the interface and controller that every command takes
    /// beside its data; one after the other, so this bounds commands per
    /// second. Source: data sheet's random reads at full depth.
    pub command_us: f64,
    /// Microseconds that a read takes beside all that, without keeping
    /// anything busy: firmware, error correction. Source: data sheet's read
    /// latency.
    pub read_overhead_us: f64,
    /// Microseconds from the arrival of written data until the write is
    /// announced, with room in the buffer. Source: data sheet's write latency.
    pub buffered_write_us: f64,
    /// Bytes of memory that hold written data until they are programmed.
    pub buffer_bytes: u64,
    /// Whether that memory survives the loss of power: then a flush has nothing
    /// to wait for. Source: data sheet.
    pub power_loss_protected: bool,

    /// Flash beyond the capacity, as a share of the capacity. Decides, with
    /// `utilisation`, what random writes cost: the less is spare, the more
    /// valid data every block holds that garbage collection must copy.
    pub over_provisioning: f64,
    /// Share of the capacity that holds data at the beginning. 0 to 1. Grows
    /// with what is written: nothing is ever trimmed.
    pub utilisation: f64,
    /// Whether random writes have gone on for long before the beginning (the
    /// steady state that data sheets call sustained). Otherwise the data were
    /// written once, in sequence, and the spare flash is empty.
    pub aged: bool,
}

impl FlashParameters {
    /// Dies altogether.
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// # Errors
    /// The first parameter with which there is no such disk.
    pub fn validate(&self) -> Result<(), ParameterError> {
        check::capacity(self.capacity_bytes, CAPACITY_BYTES_MIN)?;
        self.validate_queue()?;
        self.validate_dies()?;
        self.validate_sizes()?;
        for (name, us) in [
            ("read_us", self.read_us),
            ("program_us", self.program_us),
            ("erase_us", self.erase_us),
        ] {
            check::time_above_zero_us(name, us)?;
        }
        for (name, us) in [
            ("suspend_us", self.suspend_us),
            ("command_us", self.command_us),
            ("read_overhead_us", self.read_overhead_us),
            ("buffered_write_us", self.buffered_write_us),
        ] {
            check::time_us(name, us)?;
        }
        check::above_zero("channel_mb_per_second", self.channel_mb_per_second)?;
        check::above_zero("interface_mb_per_second", self.interface_mb_per_second)?;
        check::within("read_spread", self.read_spread, 0.0, 1.0)?;
        check::within("utilisation", self.utilisation, 0.0, 1.0)?;
        // With less, garbage collection finds no block worth its erasure.
        check::within("over_provisioning", self.over_provisioning, 0.02, 10.0)
    }

    fn validate_queue(&self) -> Result<(), ParameterError> {
        check::at_least_one("queue_max", self.queue_max as u64)?;
        if self.queue_max > QUEUE_MAX {
            return Err(ParameterError::new(
                "queue_max",
                self.queue_max,
                format!("must be at most {QUEUE_MAX}, as in the NVMe specification"),
            ));
        }
        Ok(())
    }

    fn validate_dies(&self) -> Result<(), ParameterError> {
        check::at_least_one("channels", u64::from(self.channels))?;
        check::at_least_one("dies_per_channel", u64::from(self.dies_per_channel))?;
        match self.channels.checked_mul(self.dies_per_channel) {
            Some(dies) if dies <= DIES_MAX => Ok(()),
            _ => Err(ParameterError::new(
                "dies_per_channel",
                self.dies_per_channel,
                format!(
                    "must give at most {DIES_MAX} dies with {} channels",
                    self.channels
                ),
            )),
        }
    }

    fn validate_sizes(&self) -> Result<(), ParameterError> {
        let page = u64::from(self.page_bytes);
        if page < MAPPED_BYTES || !page.is_multiple_of(MAPPED_BYTES) || page > 1 << 20 {
            return Err(ParameterError::new(
                "page_bytes",
                page,
                format!("must be a multiple of {MAPPED_BYTES}, at most 1048576"),
            ));
        }
        let program = u64::from(self.program_bytes);
        if program == 0 || !program.is_multiple_of(page) {
            return Err(ParameterError::new(
                "program_bytes",
                program,
                format!("must be a multiple of page_bytes, {page}"),
            ));
        }
        if self.erase_block_bytes < program || !self.erase_block_bytes.is_multiple_of(program) {
            return Err(ParameterError::new(
                "erase_block_bytes",
                self.erase_block_bytes,
                format!("must be a multiple of program_bytes, {program}"),
            ));
        }
        if self.buffer_bytes < program || self.buffer_bytes > 1 << 40 {
            return Err(ParameterError::new(
                "buffer_bytes",
                self.buffer_bytes,
                format!(
                    "must hold what is programmed in one go, program_bytes = {program}, \
                     and be at most 2^40"
                ),
            ));
        }
        Ok(())
    }

    /// A SATA drive for servers: Intel SSD DC S4500, 960 GB.
    ///
    /// Its product specification states 72,000 and 33,000 random 4 KiB reads
    /// and writes per second at depth 32, 500 and 490 MB/s, 110 us for a random
    /// read and 52 us for a random write at depth 1, and protection against
    /// the loss of power (Intel, "Solid State Drive Data Center S4500/S4600
    /// Series Product Specification").
    pub fn sata_ssd() -> FlashParameters {
        FlashParameters {
            capacity_bytes: 960_197_124_096,
            queue_max: 32,
            channels: 8,
            dies_per_channel: 4,
            page_bytes: 16 << 10,
            program_bytes: 32 << 10,
            erase_block_bytes: 16 << 20,
            read_us: 75.0,
            read_spread: 0.2,
            program_us: 2080.0,
            erase_us: 5000.0,
            suspend_us: 20.0,
            suspends_max: 4,
            channel_mb_per_second: 400.0,
            interface_mb_per_second: 515.0,
            interface_duplex: false,
            command_us: 5.9,
            read_overhead_us: 21.0,
            buffered_write_us: 38.0,
            buffer_bytes: 8 << 20,
            power_loss_protected: true,
            over_provisioning: 0.17,
            utilisation: 1.0,
            aged: true,
        }
    }

    /// An NVMe drive for servers: Intel SSD DC P4500, 2 TB.
    ///
    /// 490,000 and 38,000 random 4 KiB reads and writes per second, 3,200 and
    /// 1,050 MB/s, 85 us for a random read and 20 us for a random write at
    /// depth 1 (Lenovo, product guide of the P4500 drives, option 4XB7A08539,
    /// table "Technical specifications").
    pub fn nvme_ssd() -> FlashParameters {
        FlashParameters {
            capacity_bytes: 2_000_398_934_016,
            queue_max: 1024,
            channels: 12,
            dies_per_channel: 4,
            page_bytes: 16 << 10,
            program_bytes: 32 << 10,
            erase_block_bytes: 16 << 20,
            read_us: 62.0,
            read_spread: 0.2,
            program_us: 1480.0,
            erase_us: 5000.0,
            suspend_us: 15.0,
            suspends_max: 8,
            channel_mb_per_second: 400.0,
            interface_mb_per_second: 3200.0,
            interface_duplex: true,
            command_us: 0.76,
            read_overhead_us: 13.0,
            buffered_write_us: 18.0,
            buffer_bytes: 16 << 20,
            power_loss_protected: true,
            over_provisioning: 0.085,
            utilisation: 1.0,
            aged: true,
        }
    }
}
