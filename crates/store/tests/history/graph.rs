//! Who must be before whom.
//!
//! Snapshot isolation allows a cycle only where two reads of what was then
//! overwritten follow each other (Cerone and Gotsman, "Analysing Snapshot
//! Isolation", PODC 2016, theorem 9): write skew has two and may be.

use super::{Anomaly, Found, History};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    /// Overwrites what the first wrote.
    WriteWrite,
    /// Reads what the first wrote.
    WriteRead,
    /// Overwrites what the first read.
    ReadWrite,
    /// Begins after the first has ended.
    Time,
}

/// Transactions by number, then moments.
struct Graph(Vec<Vec<(usize, Edge)>>);

impl History {
    /// A cycle that must not be, the simplest kind of it.
    pub(super) fn find_cycle(&self) -> Option<Found> {
        use Edge::{ReadWrite, Time, WriteRead, WriteWrite};
        let graph = self.graph();
        let kinds: [(Anomaly, &[Edge]); 4] = [
            (Anomaly::DirtyWrite, &[WriteWrite]),
            (Anomaly::CircularFlow, &[WriteWrite, WriteRead]),
            (Anomaly::ReadSkew, &[WriteWrite, WriteRead, ReadWrite]),
            (
                Anomaly::StaleRead,
                &[WriteWrite, WriteRead, ReadWrite, Time],
            ),
        ];
        kinds.iter().find_map(|(anomaly, edges)| {
            let cycle = graph.cycle(edges)?;
            let transactions = self.transactions.len();
            let named = cycle.iter().filter(|(node, _)| *node < transactions);
            let words: Vec<String> = named
                .map(|(node, edge)| format!("{node} -{edge:?}->"))
                .collect();
            Some((*anomaly, words.join(" ")))
        })
    }

    fn graph(&self) -> Graph {
        let writers = self.writers();
        let mut graph = Graph(vec![Vec::new(); self.transactions.len()]);
        for list in self.last.values() {
            for pair in list.windows(2) {
                graph.add(writers[&pair[0]], writers[&pair[1]], Edge::WriteWrite);
            }
        }
        for (reader, trx) in self.transactions.iter().enumerate() {
            for (key, seen) in trx.seen() {
                if let Some(mark) = seen.last() {
                    graph.add(writers[mark], reader, Edge::WriteRead);
                }
                if let Some(next) = self.last_of(key).get(seen.len()) {
                    graph.add(reader, writers[next], Edge::ReadWrite);
                }
            }
        }
        self.add_time(&mut graph);
        graph
    }

    /// One node for each moment: who has ended before it comes before all that
    /// begin after it, without an edge for each two.
    fn add_time(&self, graph: &mut Graph) {
        let first = self.transactions.len();
        let mut moments: Vec<(u64, usize, bool)> = Vec::new();
        for (number, trx) in self.transactions.iter().enumerate() {
            moments.push((trx.begun, number, true));
            moments.push((trx.ended, number, false));
        }
        moments.sort_unstable();
        graph.0.resize(first + moments.len(), Vec::new());
        for (index, (_, number, begins)) in moments.into_iter().enumerate() {
            let moment = first + index;
            if index > 0 {
                graph.add(moment - 1, moment, Edge::Time);
            }
            match begins {
                true => graph.add(moment, number, Edge::Time),
                false => graph.add(number, moment, Edge::Time),
            }
        }
    }
}

impl Graph {
    fn add(&mut self, from: usize, to: usize, edge: Edge) {
        if from != to {
            self.0[from].push((to, edge));
        }
    }

    /// A cycle of these edges in which no two [`Edge::ReadWrite`] follow each
    /// other: depth first, over nodes and whether such an edge led there.
    fn cycle(&self, edges: &[Edge]) -> Option<Vec<(usize, Edge)>> {
        const NEW: u8 = 0;
        const OPEN: u8 = 1;
        const DONE: u8 = 2;
        let mut colour = vec![NEW; 2 * self.0.len()];
        for start in 0..colour.len() {
            if colour[start] != NEW {
                continue;
            }
            colour[start] = OPEN;
            // State, and the next of its edges to look at.
            let mut path: Vec<(usize, usize)> = vec![(start, 0)];
            while let Some((state, next)) = path.last_mut() {
                let state = *state;
                let Some(&(to, edge)) = self.0[state / 2].get(*next) else {
                    colour[state] = DONE;
                    path.pop();
                    continue;
                };
                *next += 1;
                let again = edge == Edge::ReadWrite && state % 2 == 1;
                if again || !edges.contains(&edge) {
                    continue;
                }
                let target = 2 * to + usize::from(edge == Edge::ReadWrite);
                if colour[target] == NEW {
                    colour[target] = OPEN;
                    path.push((target, 0));
                } else if colour[target] == OPEN {
                    let from = path.iter().position(|(state, _)| *state == target);
                    let on = &path[from.expect("open states are on the path")..];
                    let steps = on.iter().map(|(state, next)| {
                        let node = state / 2;
                        (node, self.0[node][next - 1].1)
                    });
                    return Some(steps.collect());
                }
            }
        }
        None
    }
}
