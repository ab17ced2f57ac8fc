//! The coding agent's language: what it is told, and what it says. Pure.

pub mod event;
pub mod rules;
