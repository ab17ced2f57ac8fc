//! Does what the pure part decided: the road of a message from the gate to the answer.

pub mod clock;
pub mod inbound;
pub mod ports;
pub mod produced;
pub mod turn_directory;
