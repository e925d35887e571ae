//! What the transport's own time has become since it was measured.

/// What clients' requests came to since a device was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounted {
    /// Reads and writes.
    pub requests: u64,
    /// What they took, summed, in nanoseconds.
    pub took_ns: u64,
}

impl Accounted {
    /// Those of another time, too.
    pub(super) fn add(&mut self, other: Accounted) {
        self.requests += other.requests;
        self.took_ns += other.took_ns;
    }
}

/// Of so many requests the mean says something.
const REQUESTS_MIN: u64 = 20;
/// By how much the requests that the disk answered and those that clients saw
/// may differ in number, as some answers are under way: one in so many, and so
/// many.
const DIFFERENCE_SHARE: u64 = 8;
const DIFFERENCE_MIN: u64 = 8;
/// Longer is a stall of the machine, which says nothing about the next request.
const ERROR_MAX_NS: i64 = 100_000;
/// Of each error so much is corrected: it follows a machine that has changed
/// in a few tens of requests, and wavers by a fifth of what its means do.
const GAIN_SHARE: i64 = 5;
/// Of a single request's error.
const ONE_GAIN_SHARE: i64 = 64;
/// The transport takes no longer than that on a machine that is of any use.
const CORRECTION_MAX_NS: i64 = 500_000;

/// What is added to a [`Lead`](super::Lead) so that clients see on average what
/// the model says: the integral of the error that they saw.
#[derive(Clone, Debug, Default)]
pub(super) struct Correction {
    by_ns: i64,
    /// Reads and writes that were answered since `seen`, and what they should
    /// have taken.
    answered: Accounted,
    seen: Option<Accounted>,
}

impl Correction {
    /// To be added to the lead; negative where answers go out too early.
    pub(super) fn by_ns(&self) -> i64 {
        self.by_ns
    }

    /// A read or write was answered that should have taken so long.
    pub(super) fn note(&mut self, latency_ns: u64) {
        self.answered.requests += 1;
        self.answered.took_ns += latency_ns;
    }

    /// There is something to compare what clients saw with.
    pub(super) fn has_news(&self) -> bool {
        self.answered.requests >= REQUESTS_MIN
    }

    /// What clients have seen until now, each of them `client_ns` later than
    /// it was accounted; `lead_ns` is what is corrected. Not used where it is not of the same requests: some
    /// came another way, were divided, or came from memory.
    pub(super) fn learn(&mut self, seen: Accounted, client_ns: u64, lead_ns: u64) {
        if let Some(before) = self.seen
            && let Some(requests) = seen.requests.checked_sub(before.requests)
            && let Some(took_ns) = seen.took_ns.checked_sub(before.took_ns)
        {
            let answered = self.answered.requests;
            let difference_max = (answered / DIFFERENCE_SHARE).max(DIFFERENCE_MIN);
            let same = requests.abs_diff(answered) <= difference_max;
            if same && requests.min(answered) < REQUESTS_MIN {
                return;
            }
            if same {
                let seen_ns = (took_ns / requests + client_ns) as i64;
                let model_ns = (self.answered.took_ns / answered) as i64;
                let error_ns = (seen_ns - model_ns).clamp(-ERROR_MAX_NS, ERROR_MAX_NS);
                self.correct(error_ns / GAIN_SHARE, model_ns, lead_ns);
            }
        }
        self.seen = Some(seen);
        self.answered = Accounted::default();
    }

    /// One request, which should have taken `model_ns`, took so much longer.
    /// At least a quarter of that is kept: an answer that goes out sooner meets
    /// the threads that brought its request, has to wait for them, and seems to
    /// have needed a still longer lead.
    pub(super) fn learn_one(&mut self, error_ns: i64, model_ns: u64, lead_ns: u64) {
        let error_ns = error_ns.clamp(-ERROR_MAX_NS, ERROR_MAX_NS);
        let model_ns = (model_ns / 4 * 3) as i64;
        self.correct(error_ns / ONE_GAIN_SHARE, model_ns, lead_ns);
    }

    fn correct(&mut self, more_ns: i64, model_ns: i64, lead_ns: u64) {
        // No answer goes out before its request has come.
        let most_ns = (model_ns - lead_ns as i64).clamp(0, CORRECTION_MAX_NS);
        self.by_ns = (self.by_ns + more_ns).clamp(-CORRECTION_MAX_NS, most_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL_NS: u64 = 85_000;
    const CLIENT_NS: u64 = 8_000;
    const LEAD_NS: u64 = 5_000;

    /// A transport that takes `way_ns` and accounts what it took to the
    /// millisecond, as the kernel does.
    struct Transport {
        correction: Correction,
        requests: u64,
        took_ns: u64,
    }

    impl Transport {
        fn new() -> Transport {
            let mut correction = Correction::default();
            correction.learn(Accounted::default(), CLIENT_NS, LEAD_NS);
            Transport {
                correction,
                requests: 0,
                took_ns: 0,
            }
        }

        fn carry(&mut self, requests: u64, way_ns: u64) {
            for _ in 0..requests {
                self.correction.note(MODEL_NS);
                let lead_ns = LEAD_NS as i64 + self.correction.by_ns();
                let took_ns = (MODEL_NS + way_ns).saturating_add_signed(-lead_ns);
                self.requests += 1;
                self.took_ns += took_ns.max(way_ns) - CLIENT_NS;
            }
            self.tell();
        }

        fn tell(&mut self) {
            let seen = Accounted {
                requests: self.requests,
                took_ns: self.took_ns / 1_000_000 * 1_000_000,
            };
            self.correction.learn(seen, CLIENT_NS, LEAD_NS);
        }
    }

    #[test]
    fn it_follows_what_the_way_takes_up_and_down() {
        let mut transport = Transport::new();
        for way_ns in [40_000, 60_000, 10_000] {
            let (mut sum_ns, mut looks) = (0, 0);
            for look in 0..60 {
                transport.carry(50, way_ns);
                if look >= 20 {
                    sum_ns += transport.correction.by_ns();
                    looks += 1;
                }
            }
            let mean_ns = sum_ns / looks;
            let off_ns = mean_ns + LEAD_NS as i64 - way_ns as i64;
            assert!(off_ns.abs() < 1_500, "{mean_ns} for {way_ns}");
        }
    }

    #[test]
    fn a_stall_hardly_moves_it() {
        let mut transport = Transport::new();
        for _ in 0..60 {
            transport.carry(50, 40_000);
        }
        let before_ns = transport.correction.by_ns();
        transport.took_ns += 5_000_000_000;
        transport.carry(50, 40_000);
        let most_ns = ERROR_MAX_NS / GAIN_SHARE;
        assert!(transport.correction.by_ns() - before_ns <= most_ns);
    }

    #[test]
    fn it_stays_bounded_where_the_way_is_longer_than_the_disk() {
        let mut transport = Transport::new();
        for _ in 0..1000 {
            transport.carry(50, 10_000_000);
        }
        assert_eq!(transport.correction.by_ns(), (MODEL_NS - LEAD_NS) as i64);
        for _ in 0..20 {
            transport.carry(50, 40_000);
        }
        let off_ns = transport.correction.by_ns() + LEAD_NS as i64 - 40_000;
        assert!(off_ns.abs() < 10_000, "{off_ns}");
    }

    #[test]
    fn single_requests_move_it_too_and_a_quarter_of_the_disk_remains() {
        let mut correction = Correction::default();
        let way_ns = 20_000;
        for _ in 0..500 {
            let lead_ns = LEAD_NS as i64 + correction.by_ns();
            correction.learn_one(way_ns - lead_ns, MODEL_NS, LEAD_NS);
        }
        let off_ns = correction.by_ns() + LEAD_NS as i64 - way_ns;
        assert!(off_ns.abs() < 100, "{off_ns}");
        for _ in 0..500 {
            correction.learn_one(i64::MAX, MODEL_NS, LEAD_NS);
        }
        let least_ns = MODEL_NS as i64 / 4;
        let kept_ns = MODEL_NS as i64 - LEAD_NS as i64 - correction.by_ns();
        assert!((least_ns..least_ns + 4).contains(&kept_ns), "{kept_ns}");
    }

    #[test]
    fn few_requests_wait_for_more() {
        let mut transport = Transport::new();
        transport.carry(REQUESTS_MIN / 2, 40_000);
        assert_eq!(transport.correction.by_ns(), 0);
        assert!(!transport.correction.has_news());
        transport.carry(REQUESTS_MIN / 2, 40_000);
        assert!(transport.correction.by_ns() > 0);
    }

    #[test]
    fn requests_of_another_way_teach_nothing() {
        let mut transport = Transport::new();
        for _ in 0..100 {
            // As many again that no device has accounted.
            for _ in 0..50 {
                transport.correction.note(MODEL_NS);
            }
            transport.carry(50, 40_000);
        }
        assert_eq!(transport.correction.by_ns(), 0);
        // A device that was made anew counts from the start.
        (transport.requests, transport.took_ns) = (0, 0);
        transport.carry(50, 40_000);
        assert_eq!(transport.correction.by_ns(), 0);
        transport.carry(50, 40_000);
        assert!(transport.correction.by_ns() > 0);
    }
}
