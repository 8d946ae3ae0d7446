//! Root of the crate `models/sqlite`: the module of this crate that has models, compiled with
//! loom's mutex and condition variable.

#![allow(dead_code)] // The models use the registry.

mod registry;
