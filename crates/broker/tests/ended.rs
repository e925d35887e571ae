//! The end of a broker.

use std::time::{Duration, Instant};

use iolane_broker::{Broker, Rules};

/// A command that ends soon does not wait for it. The least of several: others use the processor, too.
#[test]
fn it_ends_at_once() {
    const AT_ONCE: Duration = Duration::from_millis(15);
    let ends = || {
        let broker = Broker::start(&Rules::parse("").unwrap(), false).unwrap();
        let start = Instant::now();
        assert!(broker.finish().is_some());
        start.elapsed()
    };
    let least = (0..8).map(|_| ends()).min().unwrap();
    assert!(least < AT_ONCE, "{least:?}");
}
