//! What people read: pure functions from values to text.

pub mod office;
