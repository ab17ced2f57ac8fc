//! Room `meter`.
