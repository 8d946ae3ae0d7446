//! Root of the crate `models/sqlite`: the module of `adapters/sqlite` that has models, compiled
//! with loom's mutex and condition variable.

#![allow(dead_code)] // Only the models use the registry here.

mod registry;
