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
}

impl Contender {
    /// The fixed windows.
    pub const WINDOWS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

    /// All of them, `lanes` first.
    pub fn all() -> Vec<Contender> {
        let windows = Self::WINDOWS.into_iter().map(Contender::Window);
        [Contender::Lanes, Contender::Noop]
            .into_iter()
            .chain(windows)
            .collect()
    }

    /// As tables name it.
    pub fn name(self) -> String {
        match self {
            Self::Lanes => "lanes".to_owned(),
            Self::Noop => "noop".to_owned(),
            Self::Window(window) => format!("window {window}"),
        }
    }

    /// Its settings; `queued_max`: operations that may be outstanding, all of
    /// which the scheduler must take.
    pub fn config(self, rotational: bool, queued_max: u32) -> Config {
        let policy = match self {
            Self::Noop => Policy::Noop,
            Self::Lanes | Self::Window(_) => Policy::Lanes,
        };
        let mut config = Config::new(policy);
        config.rotational = rotational;
        for level in &mut config.levels {
            level.queued_max = level.queued_max.max(queued_max);
        }
        if let Self::Window(window) = self {
            config.window = WindowConfig::Fixed(window);
        }
        config
    }
}
