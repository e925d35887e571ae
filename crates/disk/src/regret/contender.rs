//! Who is compared.

use iolane_sched::{Config, Policy, WindowConfig};

/// What decides in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// `lanes` with its defaults.
    Lanes,
    /// First in, first out.
    Noop,
    /// `lanes` with a window of so many transfers.
    Window(u32),
    /// The same, chosen by what all windows did on this load before; see
    /// [`hindsight`](super::hindsight).
    Hindsight(u32),
}

impl Contender {
    /// The fixed windows.
    pub const WINDOWS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

    /// All: the one that is judged, and those that it is compared with.
    pub fn all() -> Vec<Contender> {
        let windows = Self::WINDOWS.into_iter().map(Contender::Window);
        let others = [Contender::Lanes, Contender::Noop];
        others.into_iter().chain(windows).collect()
    }

    /// As tables name it.
    pub fn name(self) -> String {
        match self {
            Self::Lanes => "lanes".to_owned(),
            Self::Noop => "noop".to_owned(),
            Self::Window(window) => format!("window {window}"),
            Self::Hindsight(window) => format!("hindsight {window}"),
        }
    }

    /// The policy.
    pub fn policy(self) -> Policy {
        match self {
            Self::Noop => Policy::Noop,
            Self::Lanes | Self::Window(_) | Self::Hindsight(_) => Policy::Lanes,
        }
    }

    /// Sets what makes it what it is in the settings for a device. Of each level
    /// `queued_max` operations may be queued at least: a load must fit, or it is
    /// another one.
    pub fn configure(self, config: &mut Config, queued_max: u32) {
        for level in &mut config.levels {
            level.queued_max = level.queued_max.max(queued_max);
        }
        match self {
            Self::Lanes => {}
            Self::Noop => config.window = WindowConfig::Fixed(config.in_flight_max),
            Self::Window(window) | Self::Hindsight(window) => {
                config.window = WindowConfig::Fixed(window);
            }
        }
    }

    /// Its settings on a modelled disk.
    pub fn config(self, rotational: bool, queued_max: u32) -> Config {
        let mut config = Config::new(self.policy());
        config.rotational = rotational;
        self.configure(&mut config, queued_max);
        config
    }
}
