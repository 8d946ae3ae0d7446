//! Root of the crate `models/capi`: the modules that have models, compiled with loom's atomics.

mod handles;
#[cfg(test)]
#[path = "pins/models.rs"]
mod pin_models;
#[path = "pins/slots.rs"]
mod pin_slots;
