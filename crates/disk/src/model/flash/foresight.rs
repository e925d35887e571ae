//! When a read will end, said when it comes.

use super::Times;

/// What channels and interface will have to pass on of pages that are not
/// ready yet. Which of them goes first is decided when they are; so a page is
/// foreseen to pass when it is ready, or behind all that was asked for before
/// it, whichever is later: exact on idle buses, and as slow as the buses on
/// busy ones.
pub(super) struct Pending {
    channels_ns: Vec<u64>,
    interface_ns: u64,
}

/// A page on its way to the host.
#[derive(Clone, Copy)]
pub(super) struct Passing {
    pub(super) over_channel_ns: u64,
    over_interface_ns: u64,
}

impl Passing {
    /// `part` as for [`Times::interface_ns`].
    pub(super) fn new(bytes: u64, part: f64, times: &Times) -> Passing {
        Passing {
            over_channel_ns: (bytes as f64 * times.channel_ns_per_byte).round() as u64,
            over_interface_ns: times.interface_ns(bytes, part),
        }
    }
}

impl Pending {
    pub(super) fn new(channels: u32) -> Pending {
        Pending {
            channels_ns: vec![0; channels as usize],
            interface_ns: 0,
        }
    }

    /// When a page has reached the host that is asked for now and ready in its
    /// die then; its channel and the interface are free at these times.
    pub(super) fn foresee_ns(
        &mut self,
        channel: u32,
        passing: Passing,
        ready_ns: u64,
        (channel_free_ns, interface_free_ns): (u64, u64),
    ) -> u64 {
        let channel_ns = &mut self.channels_ns[channel as usize];
        *channel_ns += passing.over_channel_ns;
        self.interface_ns += passing.over_interface_ns;
        (ready_ns + passing.over_channel_ns.max(passing.over_interface_ns))
            .max(channel_free_ns + *channel_ns)
            .max(interface_free_ns + self.interface_ns)
    }

    /// It is ready, and the buses have it.
    pub(super) fn pass(&mut self, channel: u32, passing: Passing) {
        self.channels_ns[channel as usize] -= passing.over_channel_ns;
        self.interface_ns -= passing.over_interface_ns;
    }
}
