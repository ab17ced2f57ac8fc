//! The program: see [`innkeeper::app`].

fn main() {}
