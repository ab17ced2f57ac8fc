//! Room `standin`.
