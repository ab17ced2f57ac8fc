//! Room `discord`.
