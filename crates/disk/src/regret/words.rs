//! Loads in words.

use super::course::Course;
use super::load::{Change, Load, Part};
use crate::simulation::{Arrival, Pattern};

impl Load {
    /// In words; rates are those of a course.
    pub fn description(&self, course: &Course) -> String {
        let parts = self.parts.iter().zip(&course.parts);
        let words: Vec<String> = parts
            .map(|(part, course)| part.description(course.per_second, self.change))
            .collect();
        words.join("; ")
    }
}

impl Part {
    fn description(&self, per_second: Option<f64>, change: Change) -> String {
        let stream = &self.stream;
        let pattern = match stream.pattern {
            Pattern::Sequential => "sequential",
            Pattern::Skewed => "skewed",
            _ => "random",
        };
        let operations = match stream.read_share {
            1.0 => "reads".to_owned(),
            0.0 => "writes".to_owned(),
            share => format!("{:.0} % reads", share * 100.0),
        };
        let sizes: Vec<String> = stream
            .sizes
            .iter()
            .map(|size| match size.bytes >> 10 {
                0 => format!("{} B", size.bytes),
                kib if kib < 1024 => format!("{kib} KiB"),
                kib => format!("{} MiB", kib >> 10),
            })
            .collect();
        let mut words = format!(
            "{}: {pattern} {operations} of {}",
            stream.level.name(),
            sizes.join(", ")
        );
        match stream.arrival {
            Arrival::Closed { outstanding, .. } => {
                words.push_str(&format!(", {outstanding} outstanding"));
            }
            Arrival::Open { .. } => words.push_str(&format!(
                ", {:.0}/s ({:.0} %)",
                per_second.unwrap_or(0.0),
                self.share.unwrap_or(0.0) * 100.0
            )),
        }
        if stream.batch > 1 {
            words.push_str(&format!(", {} at once", stream.batch));
        }
        match stream.flush_every {
            0 => {}
            1 => words.push_str(", a sync after each"),
            every => words.push_str(&format!(", a sync after every {every}")),
        }
        if stream.activity.off_ns > 0 {
            let ms = |ns| ns / 1_000_000;
            words.push_str(&format!(
                ", {} ms on, {} ms off",
                ms(stream.activity.on_ns),
                ms(stream.activity.off_ns)
            ));
        }
        words.push_str(match (change, self.changes, self.gives_way) {
            (Change::Begins, true, _) => ", from the measurement on",
            (Change::Begins, _, true) => ", before the measurement",
            (Change::Ends, true, _) => ", until the middle of the measurement",
            (Change::Ends, _, true) => ", from the middle of the measurement on",
            _ => "",
        });
        words
    }
}
