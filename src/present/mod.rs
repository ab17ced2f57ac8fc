//! Room `present`.
