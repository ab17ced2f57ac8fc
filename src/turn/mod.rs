//! The turn engine: events in, effects out. Pure; it knows neither Discord nor a clock.

pub mod alarm;
pub mod collect;
pub mod effect;
pub mod end;
pub mod event;
pub mod facts;
pub mod machine;
pub mod state;
pub mod work;
