//! Values too long for their leaf.
