//! Room `app`.

pub mod scripted;
