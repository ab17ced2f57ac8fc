//! Room `admin`.
