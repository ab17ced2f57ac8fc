//! What is left of a month, and the gate that reserves it.
