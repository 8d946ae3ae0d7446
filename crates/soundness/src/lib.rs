//! What safe code may reach.

#![forbid(unsafe_code)]
