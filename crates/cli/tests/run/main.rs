//! `iolane run`: what stands under it does as it does without.

mod failing;
mod place;
mod probes;
mod refusals;
mod servers;
