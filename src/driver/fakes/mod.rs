//! In-memory ports for the driver's tests, and a house built upon them.

mod house;
mod sandbox;
mod surface;

pub(super) use house::{DATA, Lodge};
pub(super) use sandbox::FakeSandbox;
pub(crate) use surface::{FakeSurface, Said, house};
