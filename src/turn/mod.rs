//! The turn engine: events in, effects out. Pure; it knows neither Discord nor a clock.

pub mod effect;
pub mod event;
