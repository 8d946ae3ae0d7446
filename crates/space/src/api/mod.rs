//! Calls of the public handles, and checks of their arguments.

mod access;
